// Kernels as they stand in generated code: every call that the case table leads to, as C++17 under
// the warnings that generated code promises to be free of.
#include <cctype>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "ops/all_cases.h"
#include "ops/target.h"
#include "testing/commands.h"

namespace onnx_memplan {
namespace {

// The row as it is, and with each other element type in place of that of its first input.
std::vector<cases::OpCase> WithEachElementType(const cases::OpCase& row) {
  std::vector<cases::OpCase> variants = {row};
  if (row.inputs.empty() || !row.inputs[0]) return variants;
  for (int type = 0; type <= static_cast<int>(DType::kBool); ++type) {
    cases::OpCase variant = row;
    for (std::optional<Tensor>& input : variant.inputs) {
      if (!input || input->dtype() != row.inputs[0]->dtype()) continue;
      std::byte* data = nullptr;
      input = Tensor::Zeros({static_cast<DType>(type), input->shape()}, &data);
    }
    variants.push_back(std::move(variant));
  }
  return variants;
}

std::string FunctionAround(const KernelCall& call, size_t number) {
  std::string parameters;
  std::string arguments = "p";
  for (size_t i = 0; i < call.function.arg_types.size(); ++i) {
    const std::string name = " a" + std::to_string(i);
    parameters += (i == 0 ? "" : ", ") + std::string(call.function.arg_types[i]) + name;
    arguments += "," + name;
  }
  const std::string head = "void Call" + std::to_string(number) + "(" + parameters + ")";
  return head + ";\n" + head + " {\n  constexpr " + call.params.type_name +
         " p = " + call.params.initializer + ";\n  " + call.name + "(" + arguments + ");\n}\n";
}

// A function around each distinct kernel that the case table leads to; `headers` gets what they
// need.
std::string Calls(std::set<std::string>* headers) {
  std::set<std::string> names;
  std::string text;
  for (const cases::OpCase& row : cases::AllCases()) {
    for (const cases::OpCase& variant : WithEachElementType(row)) {
      cases::CaseGraph built = cases::Build(variant);
      if (!cases::InferOutputs(built).ok()) continue;
      for (const Target& target : BuiltinTargets()) {
        const absl::StatusOr<Lowering> lowering = LowerNode(built.graph, built.node(), target);
        if (!lowering.ok()) continue;
        for (const KernelCall& call : lowering->calls) {
          if (!names.insert(call.name).second) continue;
          headers->insert(call.header);
          text += FunctionAround(call, names.size());
        }
      }
    }
  }
  return text;
}

class KernelsCompileTest : public ::testing::TestWithParam<std::string> {};

TEST_P(KernelsCompileTest, WithoutWarnings) {
  const std::string compiler = GetParam();
  const std::string program = compiler.substr(0, compiler.find(' '));
  if (!testing::HasProgram(program)) GTEST_SKIP() << program << " is not installed";
  std::set<std::string> headers;
  const std::string calls = Calls(&headers);
  std::string source;
  for (const std::string& header : headers) source += "#include \"" + header + "\"\n";
  const testing::TemporaryFolder folder;
  folder.Write("calls.cpp", source + calls);
  const testing::CommandResult result = testing::RunCommand(
      compiler +
          " -std=c++17 -fsyntax-only -Wall -Wextra -Wconversion -Wshadow -Werror -fno-exceptions "
          "-fno-rtti -I \"" ONNX_MEMPLAN_SOURCE_DIR "/codegen\" calls.cpp",
      folder);
  EXPECT_EQ(result.exit_status, 0) << result.output.substr(0, 4000);
}

// The vectors are as wide as the flags say; see kernels/lanes.h.
INSTANTIATE_TEST_SUITE_P(Compilers, KernelsCompileTest,
                         ::testing::Values("g++", "clang++", "arm-none-eabi-g++",
#if defined(__x86_64__)
                                           "g++ -march=x86-64-v4", "clang++ -march=x86-64-v3",
#endif
                                           "arm-none-eabi-g++ -mcpu=cortex-m55 -mfloat-abi=hard"),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           for (char& c : name) c = std::isalnum(c) ? c : c == '+' ? 'x' : '_';
                           return name;
                         });

}  // namespace
}  // namespace onnx_memplan
