#include "apo/model/language_model.hpp"

#include <cstdlib>
#include <utility>

#include "generation.hpp"
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <torch/version.h>

#include "apo/core/error.hpp"
#include "apo/model/causal_lm.hpp"

namespace apo::model {
namespace {

/// Models up to this size are merged with the adapter before they generate: the copy costs less
/// than the adapter's products would.
constexpr std::int64_t kLargestMerged = 64'000'000;

}  // namespace

void configure_torch(int threads) {
  expects(threads > 0, "the number of threads must be positive");
  // cuBLAS reads this once, before its first call, and needs it to be deterministic
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
  at::set_num_threads(threads);
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(true, false);
  context.setDeterministicFillUninitializedMemory(false);  // we never read what we have not written
  at::Context::setFlushDenormal(true);
}

std::string torch_description() {
  const int threads = at::get_num_threads();
  return fmt::format("{}, {}, {}, {} thread{}", TORCH_VERSION,
                     at::Context::hasMKL() ? "MKL" : "no MKL", at::get_cpu_capability(), threads,
                     threads == 1 ? "" : "s");
}

struct LanguageModel::Impl {
  CausalLm lm;
  AdapterLayout layout;
  std::string name;
};

namespace {

/// Makes a GPU the one that this process works on.
void use_gpu(const std::string& device) {
  if (!device.starts_with("cuda")) {
    throw Error(Fault::kDevice,
                fmt::format("unknown device '{}', expected cpu, cuda or cuda:NUMBER", device));
  }
  if (!at::globalContext().hasCUDA()) {
    throw Error(Fault::kDevice,
                fmt::format("device {}: no usable GPU, or this build has no CUDA (preset \"cuda\")",
                            device));
  }
  try {
    const at::Device target(device);
    if (target.has_index()) {
      const c10::impl::VirtualGuardImpl guard(target.type());
      if (target.index() >= guard.deviceCount()) {
        throw Error(Fault::kDevice, fmt::format("device {}: expected a number below {}", device,
                                                guard.deviceCount()));
      }
      guard.setDevice(target);
    }
  } catch (const c10::Error& error) {
    throw Error(Fault::kDevice,
                fmt::format("device {}: {}", device, error.what_without_backtrace()));
  }
}

}  // namespace

LanguageModel LanguageModel::load(const ModelOptions& options, const LoraOptions& lora,
                                  const std::string& device) {
  if (device != "cpu") {
    use_gpu(device);  // before gigabytes are read
  }
  if (options.quantization != "none") {
    throw Error(Fault::kConfig,
                fmt::format("model.quantization = {} is not supported", options.quantization));
  }
  CausalLm lm = CausalLm::load(options.path, options.dtype);
  if (device != "cpu") {
    lm = lm.to(device);
  }
  return {std::move(lm), lora, options.path};
}

LanguageModel::LanguageModel(CausalLm lm, const LoraOptions& lora, std::string name) {
  AdapterLayout layout = make_layout(lm.config(), lora);
  impl_ = std::make_unique<Impl>(Impl{std::move(lm), std::move(layout), std::move(name)});
}
LanguageModel::LanguageModel(LanguageModel&&) noexcept = default;
LanguageModel& LanguageModel::operator=(LanguageModel&&) noexcept = default;
LanguageModel::~LanguageModel() = default;

const ModelConfig& LanguageModel::config() const { return impl_->lm.config(); }
const AdapterLayout& LanguageModel::layout() const { return impl_->layout; }
const CausalLm& LanguageModel::lm() const { return impl_->lm; }
const std::string& LanguageModel::name() const { return impl_->name; }

std::vector<std::vector<std::int32_t>> LanguageModel::generate(
    std::span<const GenerationRequest> requests, std::span<const float> adapter,
    const GenerationOptions& options) const {
  const CausalLm& lm = impl_->lm;
  const AdapterLayout& layout = impl_->layout;
  if (adapter.empty()) {
    return generate_responses(lm, {}, nullptr, requests, options);
  }
  expects(static_cast<std::int64_t>(adapter.size()) == layout.num_parameters,
          "the adapter has another length than its layout");
  const at::Tensor& some_weight = lm.weights().begin()->second;
  const at::Tensor flat =
      at::from_blob(const_cast<float*>(adapter.data()), {layout.num_parameters}, at::kFloat)
          .clone()
          .to(some_weight.device());
  if (some_weight.scalar_type() == at::kFloat && lm.config().num_parameters() <= kLargestMerged) {
    return generate_responses(lm.merged(flat, layout), {}, nullptr, requests, options);
  }
  return generate_responses(lm, flat, &layout, requests, options);
}

}  // namespace apo::model
