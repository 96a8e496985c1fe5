#include "apo/core/log.hpp"

#include <array>
#include <memory>
#include <string>

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <unistd.h>

#include "apo/core/error.hpp"

namespace apo::log {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) {
    return "unknown";
  }
  return name.data();
}

bool g_is_root = true;  // spdlog's default logger is process-wide, so is this

}  // namespace

void init(int rank, int size) {
  g_is_root = rank == 0;
  std::shared_ptr<spdlog::logger> logger;
  if (g_is_root) {
    logger =
        std::make_shared<spdlog::logger>("apo", std::make_shared<spdlog::sinks::stdout_sink_mt>());
    logger->set_pattern("%v");
  } else {
    logger =
        std::make_shared<spdlog::logger>("apo", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    logger->set_level(spdlog::level::warn);
    logger->set_pattern("[rank " + std::to_string(rank) + "/" + std::to_string(size) + " " +
                        host_name() + "] %l: %v");
  }
  logger->flush_on(spdlog::level::info);  // a batch log must not lag behind
  spdlog::set_default_logger(logger);
}

void add_json_file(const std::filesystem::path& path) {
  if (!g_is_root) {
    return;
  }
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path.string(), false);
    // Messages are one line of plain text; quotes and backslashes are escaped by JsonText below.
    class JsonText final : public spdlog::custom_flag_formatter {
     public:
      void format(const spdlog::details::log_msg& message, const std::tm&,
                  spdlog::memory_buf_t& out) override {
        for (const char c : std::string_view(message.payload.data(), message.payload.size())) {
          if (c == '"' || c == '\\') {
            out.push_back('\\');
            out.push_back(c);
          } else if (static_cast<unsigned char>(c) < 0x20) {
            fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned char>(c));
          } else {
            out.push_back(c);
          }
        }
      }
      [[nodiscard]] std::unique_ptr<custom_flag_formatter> clone() const override {
        return std::make_unique<JsonText>();
      }
    };
    auto formatter = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc);
    formatter->add_flag<JsonText>('*').set_pattern(
        R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","message":"%*"})");
    sink->set_formatter(std::move(formatter));
    spdlog::default_logger()->sinks().push_back(std::move(sink));
  } catch (const spdlog::spdlog_ex& failure) {
    throw BackendError("open " + path.string(), 0, failure.what());
  }
}

}  // namespace apo::log
