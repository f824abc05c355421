#include "emit/emit.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "emit/api.h"
#include "emit/self_test.h"
#include "emit/source.h"
#include "emit/weights.h"
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

}  // namespace

absl::StatusOr<std::vector<EmittedFile>> EmitCode(const Program& program, const Plan& plan,
                                                  const EmitOptions& options) {
  MEMPLAN_CHECK(plan.order.size() == program.steps.size());
  RETURN_IF_ERROR(CheckSection(options.arena_section));
  RETURN_IF_ERROR(CheckSection(options.weights_section));
  const ConstantOffsets constants = LayOutConstants(program, plan);
  ASSIGN_OR_RETURN(const Api api, MakeApi(program, plan, options, constants.layout.bytes()));
  if (options.self_test) RETURN_IF_ERROR(CheckSelfTest(api, *options.self_test));
  const std::string blob = constants.layout.Blob();
  std::vector<EmittedFile> files;
  files.push_back({api.stem + ".h", RenderHeader(api, options)});
  files.push_back({api.stem + ".cpp", RenderSource(api, program, plan, options, constants, blob)});
  if (api.weights_in_file()) files.push_back({api.weights_file_name(), WeightsFile(blob)});
  if (options.self_test) {
    files.push_back(
        {api.stem + "_selftest.cpp", RenderSelfTest(api, *options.self_test, options.provenance)});
  }
  return files;
}

int64_t EmittedWeightsBytes(const Program& program, const Plan& plan) {
  return LayOutConstants(program, plan).layout.bytes();
}

}  // namespace onnx_memplan
