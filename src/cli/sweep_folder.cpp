#include "sweep_folder.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "training_checkpoint.hpp"
#include <nlohmann/json.hpp>

#include "apo/core/clock.hpp"
#include "apo/core/error.hpp"
#include "apo/core/log.hpp"
#include "apo/core/sha256.hpp"
#include "apo/store/directory_state.hpp"

namespace apo::cli {

namespace fs = std::filesystem;

namespace {

constexpr const char* kReports = "reports";
constexpr const char* kEvaluation = "evaluation";

/// Changes with every field of the records: bytes of another layout are not read as this one's.
const std::string& record_layout() {
  static const std::string layout = [] {
    federation::RoundReport report;
    report.steps.emplace_back();
    std::string bytes;
    add_report(bytes, report);
    return sha256_hex(bytes);
  }();
  return layout;
}

void sign(store::Document& document) { document.attributes[""]["record_layout"] = record_layout(); }

void check_layout(const store::Document& document, const fs::path& path) {
  const auto* layout = std::get_if<std::string>(&document.attribute("", "record_layout"));
  if (layout == nullptr || *layout != record_layout()) {
    throw Error(Fault::kData, path.string() +
                                  ": written by another version of apo; go on with that one, or "
                                  "use a new --out folder");
  }
}

}  // namespace

void ClusterResult::add(std::vector<methods::PairResult> pairs) {
  for (methods::PairResult& pair : pairs) {
    const std::pair<ClientId, int> key(pair.client, pair.variant);
    pair.group = 0;
    evaluation.insert_or_assign(key, std::move(pair));
  }
}

bool ClusterResult::covers(const std::vector<ClientId>& clients) const {
  return std::all_of(clients.begin(), clients.end(), [&](ClientId client) {
    return evaluation.contains({client, 0});
  });
}

void add_report(std::string& bytes, const federation::RoundReport& report) {
  for (const std::string& part : {federation::pack(report), federation::pack(report.steps)}) {
    const std::uint64_t size = part.size();
    bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
    bytes += part;
  }
}

std::vector<federation::RoundReport> unpack_reports(const std::string& bytes) {
  std::vector<std::string_view> parts;  // a report, its steps, the next report, ...
  for (std::string_view rest = bytes; !rest.empty();) {
    std::uint64_t size = 0;
    expects(rest.size() >= sizeof size, "unpack_reports: torn bytes");
    std::memcpy(&size, rest.data(), sizeof size);
    rest.remove_prefix(sizeof size);
    expects(rest.size() >= size, "unpack_reports: torn bytes");
    parts.push_back(rest.substr(0, size));
    rest.remove_prefix(size);
  }
  expects(parts.size() % 2 == 0, "unpack_reports: torn bytes");
  std::vector<federation::RoundReport> reports;
  reports.reserve(parts.size() / 2);  // growing copies their tables
  for (std::size_t k = 0; k < parts.size(); k += 2) {
    reports.push_back(federation::unpack_report(std::string(parts[k])));
    reports.back().steps = federation::unpack(std::string(parts[k + 1]));
  }
  return reports;
}

void put_bytes(store::Document& document, const std::string& path, const std::string& bytes) {
  std::vector<std::int64_t> words(bytes.size() / sizeof(std::int64_t) + 1, 0);
  std::memcpy(words.data(), bytes.data(), bytes.size());
  store::Array array;
  array.shape = {static_cast<std::int64_t>(words.size())};
  array.values = std::move(words);
  array.long_name = "records as bytes, eight to a number";
  document.arrays[path] = std::move(array);
  document.attributes[""][path + "_bytes"] = static_cast<std::int64_t>(bytes.size());
}

std::string get_bytes(const store::Document& document, const std::string& path) {
  const auto* words = std::get_if<std::vector<std::int64_t>>(&document.array(path).values);
  const auto* size = std::get_if<std::int64_t>(&document.attribute("", path + "_bytes"));
  if (words == nullptr || size == nullptr || *size < 0 ||
      static_cast<std::size_t>(*size) > words->size() * sizeof(std::int64_t)) {
    throw Error(Fault::kData, path + ": expected records as bytes");
  }
  return {reinterpret_cast<const char*>(words->data()), static_cast<std::size_t>(*size)};
}

std::unique_ptr<store::RunDirectory> try_open(const fs::path& dir, const std::string& configuration,
                                              const store::CheckpointOptions& options) {
  // open() waits a moment for a lock; with many clusters in other hands that would add up.
  if (fs::exists(dir / "lock") && store::lock_state(dir).held) {
    return nullptr;
  }
  try {
    return std::make_unique<store::RunDirectory>(
        store::RunDirectory::open(dir, configuration, options));
  } catch (const BackendError& error) {
    if (error.code() == EWOULDBLOCK) {
      return nullptr;
    }
    throw;
  }
}

ClusterFolder::ClusterFolder(fs::path dir, std::string configuration,
                             store::CheckpointOptions options)
    : dir_(std::move(dir)), configuration_(std::move(configuration)), options_(options) {}

bool ClusterFolder::try_lock() {
  directory_ = try_open(dir_, configuration_, options_);
  return directory_ != nullptr;
}

std::optional<ClusterResult> ClusterFolder::load_result() const {
  const fs::path path = dir_ / "result.h5";
  if (!fs::exists(path)) {
    return std::nullopt;
  }
  std::optional<store::Document> document;
  try {
    document = store::read_document(path);
  } catch (const Error& error) {
    log::warn("{}; the cluster is trained again", error.what());
    return std::nullopt;
  }
  check_layout(*document, path);
  ClusterResult result;
  result.reports = unpack_reports(get_bytes(*document, kReports));
  result.add(methods::unpack_pair_results(get_bytes(*document, kEvaluation)));
  result.team_ranks =
      static_cast<int>(std::get<std::int64_t>(document->attribute("", "team_ranks")));
  return result;
}

std::vector<std::vector<float>> ClusterFolder::load_parameters() const {
  const fs::path path = dir_ / "parameters.h5";
  const store::Document document = store::read_document(path);
  const store::Array& array = document.array("parameters");
  const auto* flat = std::get_if<std::vector<float>>(&array.values);
  if (flat == nullptr || array.shape.size() != 2) {
    throw Error(Fault::kData, path.string() + ": parameters is not a float32 matrix");
  }
  std::vector<std::vector<float>> rows;
  for (std::int64_t i = 0; i < array.shape[0]; ++i) {
    rows.emplace_back(flat->begin() + i * array.shape[1], flat->begin() + (i + 1) * array.shape[1]);
  }
  return rows;
}

std::optional<ClusterCheckpoint> ClusterFolder::load_checkpoint() {
  expects(directory_ != nullptr, "ClusterFolder: not locked");
  std::optional<ClusterCheckpoint> checkpoint;
  (void)directory_->load_checkpoint([&](const store::Document& document) {
    check_layout(document, dir_ / "checkpoints");
    checkpoint = ClusterCheckpoint{get_state(document), get_bytes(document, kReports)};
  });
  return checkpoint;
}

void ClusterFolder::publish_checkpoint(const ClusterCheckpoint& checkpoint) {
  expects(directory_ != nullptr, "ClusterFolder: not locked");
  store::Document document;
  sign(document);
  put_state(document, checkpoint.state);
  put_bytes(document, kReports, checkpoint.reports);
  try {
    directory_->publish_checkpoint(document);
  } catch (const Error& failure) {
    log::warn("checkpoint not written: {}", failure.what());
  }
}

void ClusterFolder::publish_result(const ClusterResult& result, const std::string& reports,
                                   const std::vector<std::vector<float>>& parameters) {
  expects(directory_ != nullptr, "ClusterFolder: not locked");
  if (!parameters.empty()) {
    store::Document document;
    std::vector<float> flat;
    for (const std::vector<float>& row : parameters) {
      flat.insert(flat.end(), row.begin(), row.end());
    }
    store::Array array;
    array.shape = {static_cast<std::int64_t>(parameters.size()),
                   static_cast<std::int64_t>(parameters[0].size())};
    array.values = std::move(flat);
    array.long_name = "final parameters by start round";
    document.arrays["parameters"] = std::move(array);
    store::write_document(dir_ / "parameters.h5", document);
  }
  store::Document document;
  sign(document);
  document.attributes[""]["team_ranks"] = std::int64_t{result.team_ranks};
  put_bytes(document, kReports, reports);
  std::vector<methods::PairResult> pairs;
  for (const auto& [key, pair] : result.evaluation) {
    pairs.push_back(pair);
  }
  put_bytes(document, kEvaluation, methods::pack(pairs));
  store::write_document(dir_ / "result.h5", document);
  for (const store::CheckpointFile& file : store::list_checkpoints(dir_)) {
    std::error_code code;
    if (!fs::remove(file.path, code) && code) {
      log::warn("{}: cannot be removed: {}", file.path.string(), code.message());
    }
  }
}

void ClusterFolder::write_status(const std::string& state, int round, int total_rounds) {
  nlohmann::json status;
  status["state"] = state;
  status["round"] = round;
  status["total_rounds"] = total_rounds;
  status["heartbeat_utc"] = utc_now();
  try {
    directory_->write_status(status.dump(2));
  } catch (const Error& failure) {
    log::warn("status not written: {}", failure.what());
  }
}

}  // namespace apo::cli
