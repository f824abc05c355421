#include "emit/emit.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "emit/api.h"
#include "emit/constants.h"
#include "emit/header.h"
#include "emit/self_test.h"
#include "emit/source.h"
#include "emit/weights.h"
#include "plan_build/state_layout.h"
#include "support/check.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

absl::Status CheckSection(const std::string& section) {
  const bool fits = std::all_of(section.begin(), section.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
  });
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "'", section, "' cannot be the name of a section: use letters, digits, '.', '_' and '-'"));
}

StateLayout StatesOf(std::span<const EntryPoint> entries) {
  const Program& first = *entries.front().program;
  return LayOutStates(first.graph, first.target.arena_alignment);
}

}  // namespace

absl::StatusOr<std::vector<EmittedFile>> EmitCode(std::span<const EntryPoint> entries,
                                                  const EmitOptions& options) {
  MEMPLAN_CHECK(!entries.empty());
  for (const EntryPoint& entry : entries) {
    RETURN_IF_ERROR(CheckKernels(*entry.program));
    MEMPLAN_CHECK(entry.plan->order.size() == entry.program->steps.size());
  }
  RETURN_IF_ERROR(CheckSection(options.arena_section));
  RETURN_IF_ERROR(CheckSection(options.state_section));
  RETURN_IF_ERROR(CheckSection(options.weights_section));
  const StateLayout states = StatesOf(entries);
  const EmittedConstants constants = LayOutConstants(entries, states);
  ASSIGN_OR_RETURN(const Api api, MakeApi(entries, options, states, constants.layout.bytes()));
  if (options.self_test) RETURN_IF_ERROR(CheckSelfTest(api, *options.self_test));
  const std::string blob = constants.layout.Blob();
  std::vector<EmittedFile> files;
  files.push_back({api.stem + ".h", RenderHeader(api, options)});
  files.push_back({api.stem + ".cpp", RenderSource(api, entries, options, constants, blob)});
  if (api.weights_in_file()) files.push_back({api.weights_file_name(), WeightsFile(blob)});
  if (api.threads > 1) files.push_back({api.threads_file_name(), RenderThreads(api, options)});
  if (options.self_test) {
    files.push_back(
        {api.stem + "_selftest.cpp", RenderSelfTest(api, *options.self_test, options.provenance)});
  }
  return files;
}

absl::StatusOr<std::vector<EmittedFile>> EmitCode(const Program& program, const Plan& plan,
                                                  const EmitOptions& options) {
  const EntryPoint run = {.program = &program, .plan = &plan};
  return EmitCode({&run, 1}, options);
}

int64_t EmittedWeightsBytes(std::span<const EntryPoint> entries) {
  return LayOutConstants(entries, StatesOf(entries)).layout.bytes();
}

int64_t EmittedWeightsBytes(const Program& program, const Plan& plan) {
  const EntryPoint run = {.program = &program, .plan = &plan};
  return EmittedWeightsBytes({&run, 1});
}

}  // namespace onnx_memplan
