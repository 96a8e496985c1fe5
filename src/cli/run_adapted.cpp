#include "run_adapted.hpp"

#include "apo/core/error.hpp"
#include "apo/store/document.hpp"

namespace apo::cli {

void write_adapted(const std::filesystem::path& file, const methods::AdaptedClients& adapted) {
  store::Document document;
  std::vector<float> flat;
  for (const std::vector<float>& row : adapted.parameters) {
    flat.insert(flat.end(), row.begin(), row.end());
  }
  const std::size_t columns = adapted.parameters.empty() ? 0 : adapted.parameters[0].size();
  store::Array parameters;
  parameters.shape = {static_cast<std::int64_t>(adapted.parameters.size()),
                      static_cast<std::int64_t>(columns)};
  parameters.values = std::move(flat);
  parameters.long_name = "adapters by (start round, test client)";
  document.arrays["parameters"] = std::move(parameters);
  // The records as they travel between ranks, eight bytes to a number: read by this program only.
  std::string bytes = federation::pack(adapted.adaptation);
  document.attributes[""]["adaptation_bytes"] = static_cast<std::int64_t>(bytes.size());
  bytes.resize((bytes.size() + 7) / 8 * 8);
  std::vector<std::int64_t> words(bytes.size() / 8);
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(words.data()));
  store::Array records;
  records.shape = {static_cast<std::int64_t>(words.size())};
  records.values = std::move(words);
  document.arrays["adaptation"] = std::move(records);
  store::write_document(file, document);
}

methods::AdaptedClients read_adapted(const std::filesystem::path& file) {
  const store::Document document = store::read_document(file);
  const auto* parameters = std::get_if<std::vector<float>>(&document.array("parameters").values);
  const auto* words = std::get_if<std::vector<std::int64_t>>(&document.array("adaptation").values);
  const auto* size = std::get_if<std::int64_t>(&document.attribute("", "adaptation_bytes"));
  const std::vector<std::int64_t>& shape = document.array("parameters").shape;
  if (parameters == nullptr || words == nullptr || size == nullptr || shape.size() != 2 ||
      *size < 0 || static_cast<std::size_t>(*size) > words->size() * 8) {
    throw Error(Fault::kData, file.string() +
                                  ": not a file of adapted clients; expected what apo "
                                  "adapt writes");
  }
  methods::AdaptedClients adapted;
  for (std::int64_t i = 0; i < shape[0]; ++i) {
    adapted.parameters.emplace_back(parameters->begin() + i * shape[1],
                                    parameters->begin() + (i + 1) * shape[1]);
  }
  const std::string bytes(reinterpret_cast<const char*>(words->data()),
                          static_cast<std::size_t>(*size));
  adapted.adaptation = federation::unpack(bytes);
  return adapted;
}

}  // namespace apo::cli
