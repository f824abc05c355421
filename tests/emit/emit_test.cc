#include "emit/emit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>

#include "testing/commands.h"

namespace onnx_memplan {
namespace {

using testing::CommandResult;
using testing::HasProgram;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::RunCommand;
using testing::TemporaryFolder;

constexpr const char* kStrictFlags =
    "-std=c++17 -O1 -Wall -Wextra -Wconversion -Wshadow -Wcast-align -Woverlength-strings "
    "-fno-exceptions -fno-rtti -Werror";

Node MakeNode(std::string type, std::string name, std::vector<ValueId> inputs,
              std::vector<ValueId> outputs) {
  Node node;
  node.op_type = std::move(type);
  node.name = std::move(name);
  node.inputs = std::move(inputs);
  node.outputs = std::move(outputs);
  return node;
}

// x -> Relu -> Relu -> y, and a constant with awkward floats -> Relu -> z; an input that nothing
// reads. Names that are no identifiers, and clash when they are made so.
Graph TestGraph() {
  Graph graph;
  const TensorType type{DType::kFloat, {2, 3}};
  const float infinity = std::numeric_limits<float>::infinity();
  const ValueId x = graph.AddValue("x.1", type);
  const ValueId unused = graph.AddValue("float", TensorType{DType::kInt64, {}});
  const ValueId h = graph.AddValue("h", type);
  const ValueId y = graph.AddValue("X_1", type);
  const ValueId c = graph.AddConstant(
      "c",
      Tensor::FromVector<float>({2, 3}, {1e-45F, 1.2345678e-17F, infinity, -0.5F, 0.1F, -0.0F}));
  const ValueId z = graph.AddValue("z", type);
  graph.inputs = {x, unused};
  graph.outputs = {y, z};
  graph.nodes = {MakeNode("Relu", "first */ \\", {x}, {h}), MakeNode("Relu", "", {h}, {y}),
                 MakeNode("Relu", "third", {c}, {z})};
  return graph;
}

struct Planned {
  Program program;
  Plan plan;
};

Planned MakePlanned(bool io_in_arena) {
  auto program = BuildProgram(TestGraph(), BuiltinTargets().front(), {.io_in_arena = io_in_arena});
  EXPECT_TRUE(program.ok()) << program.status();
  auto planner = MakePlanner(AvailablePlanners().front().name);
  EXPECT_TRUE(planner.ok()) << planner.status();
  auto plan = (*planner)->Run(program->problem, PlanBudget());
  EXPECT_TRUE(plan.ok()) << plan.status();
  return {*std::move(program), *std::move(plan)};
}

// Expects bit-exact outputs.
SelfTest TestData() {
  const float infinity = std::numeric_limits<float>::infinity();
  SelfTest test;
  test.inputs = {Tensor::FromVector<float>({2, 3}, {1, -2, 3, -4, 5, -6}), Tensor::ScalarInt64(7)};
  test.outputs = {
      Tensor::FromVector<float>({2, 3}, {1, 0, 3, 0, 5, 0}),
      Tensor::FromVector<float>({2, 3}, {1e-45F, 1.2345678e-17F, infinity, 0.0F, 0.1F, 0.0F})};
  test.absolute_tolerance = 0;
  test.relative_tolerance = 0;
  return test;
}

std::vector<EmittedFile> Emit(const Planned& planned, const EmitOptions& options) {
  auto files = EmitCode(planned.program, planned.plan, options);
  EXPECT_TRUE(files.ok()) << files.status();
  return files.ok() ? *std::move(files) : std::vector<EmittedFile>();
}

std::string FileNamed(const std::vector<EmittedFile>& files, const std::string& name) {
  for (const EmittedFile& file : files) {
    if (file.name == name) return file.bytes;
  }
  ADD_FAILURE() << "no file " << name;
  return "";
}

struct Variant {
  ArenaOwner arena;
  WeightsForm weights;
  bool io_in_arena;
};

std::vector<Variant> AllVariants() {
  std::vector<Variant> variants;
  for (ArenaOwner arena : {ArenaOwner::kStatic, ArenaOwner::kCaller}) {
    for (WeightsForm weights : {WeightsForm::kInline, WeightsForm::kIncbin, WeightsForm::kBinary}) {
      for (bool io_in_arena : {false, true}) variants.push_back({arena, weights, io_in_arena});
    }
  }
  return variants;
}

EmitOptions OptionsOf(const Variant& variant) {
  EmitOptions options;
  options.stem = "net-1";
  options.arena = variant.arena;
  options.weights = variant.weights;
  options.self_test = TestData();
  options.provenance = {.tool_version = "1.2.3",
                        .options = "--emit net-1.cpp",
                        .model_sha256 = std::string(64, 'a'),
                        .opset = 13};
  return options;
}

class EmitVariantTest : public ::testing::TestWithParam<Variant> {};

TEST_P(EmitVariantTest, CompilesWithoutWarningsAndGivesExactBits) {
  const Planned planned = MakePlanned(GetParam().io_in_arena);
  const TemporaryFolder folder;
  folder.Write(Emit(planned, OptionsOf(GetParam())));
  int compilers = 0;
  for (const std::string compiler : {"g++", "clang++"}) {
    if (!HasProgram(compiler)) continue;
    ++compilers;
    const CommandResult built =
        RunCommand(compiler + " " + kStrictFlags + " net-1.cpp net-1_selftest.cpp -o net", folder);
    EXPECT_EQ(built.exit_status, 0) << built.output;
    EXPECT_EQ(built.output, "") << compiler;
    const CommandResult ran = RunCommand("./net", folder);
    EXPECT_EQ(ran.exit_status, 0) << ran.output;
    EXPECT_THAT(ran.output, HasSubstr("passed"));
  }
  EXPECT_GT(compilers, 0);
  if (HasProgram("arm-none-eabi-g++")) {
    const CommandResult built = RunCommand(
        std::string("arm-none-eabi-g++ -mthumb -mcpu=cortex-m4 ") + kStrictFlags + " -c net-1.cpp",
        folder);
    EXPECT_EQ(built.exit_status, 0) << built.output;
    EXPECT_EQ(built.output, "");
    EXPECT_EQ(RunCommand("arm-none-eabi-g++ -c net-1.cpp", folder).output, "");
  }
}

INSTANTIATE_TEST_SUITE_P(All, EmitVariantTest, ::testing::ValuesIn(AllVariants()));

TEST(EmitTest, IsTheSameForTheSameInput) {
  const EmitOptions options =
      OptionsOf({ArenaOwner::kStatic, WeightsForm::kBinary, /*io_in_arena=*/false});
  const auto first = Emit(MakePlanned(false), options);
  const auto second = Emit(MakePlanned(false), options);
  ASSERT_EQ(first.size(), second.size());
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].name, second[i].name);
    EXPECT_EQ(first[i].bytes, second[i].bytes);
  }
}

TEST(EmitTest, DeclaresIdentifiersThatDoNotClash) {
  const auto files = Emit(MakePlanned(false), OptionsOf({ArenaOwner::kStatic, WeightsForm::kInline,
                                                         /*io_in_arena=*/false}));
  const std::string header = FileNamed(files, "net-1.h");
  EXPECT_THAT(header, HasSubstr("int net_1_run(const float* x_1, const int64_t* t_float, "
                                "float* X_1_2, float* z);"));
  EXPECT_THAT(header, HasSubstr("#define NET_1_INPUT_X_1_BYTES 24\n"));
  EXPECT_THAT(header, HasSubstr("#define NET_1_OUTPUT_X_1_2_SHAPE {2, 3}\n"));
  EXPECT_THAT(header, HasSubstr("SHA-256 " + std::string(64, 'a') + ", opset 13"));
}

// Everything of the model and the plan; the pasted kernels are compared by no golden file.
TEST(EmitTest, GivesTheGoldenText) {
  EmitOptions options = OptionsOf({ArenaOwner::kStatic, WeightsForm::kInline, false});
  const auto files = Emit(MakePlanned(false), options);
  const std::string source = FileNamed(files, "net-1.cpp");
  const std::string kernels_begin = "#pragma GCC diagnostic push\n";
  const std::string kernels_end = "#pragma GCC diagnostic pop\n";
  const std::string text = source.substr(0, source.find(kernels_begin)) +
                           source.substr(source.find(kernels_end)) + FileNamed(files, "net-1.h");
  const std::string path = ONNX_MEMPLAN_SOURCE_DIR "/tests/emit/golden/relu.txt";
  if (std::getenv("ONNX_MEMPLAN_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
  std::ifstream file(path);
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(text, golden.str()) << "if this is meant: ONNX_MEMPLAN_UPDATE_GOLDEN=1 and run again";
}

TEST(EmitTest, LinksIntoACProgramAndTwoNetworksLinkTogether) {
  const Planned planned = MakePlanned(false);
  const TemporaryFolder folder;
  EmitOptions options;
  for (const char* stem : {"one", "two"}) {
    options.stem = stem;
    options.arena = *stem == 'o' ? ArenaOwner::kStatic : ArenaOwner::kCaller;
    folder.Write(Emit(planned, options));
  }
  folder.Write("main.c", R"(
#include "one.h"
#include "two.h"
static float x[ONE_INPUT_X_1_COUNT] = {1, -2, 3}, y[6], z[6];
static union { unsigned char bytes[TWO_ARENA_BYTES + 1]; double alignment[2]; } arena;
int main(void) {
  const int64_t unused = 0;
  unsigned char* aligned = arena.bytes;
  if (one_run(x, &unused, y, z) != ONE_OK || y[0] != 1 || y[1] != 0 || y[2] != 3) return 1;
  y[0] = 0;
  if (two_run(0, x, &unused, y, z) != TWO_ERROR_ARENA) return 2;
  if ((uintptr_t)aligned % TWO_ARENA_ALIGNMENT == 0 &&
      two_run(aligned, x, &unused, y, z) != TWO_OK) return 3;
  return 0;
}
)");
  const CommandResult built = RunCommand(
      "gcc -std=c11 -Wall -Wextra -Werror -c main.c && g++ -c one.cpp two.cpp && "
      "g++ main.o one.o two.o -o main && ./main",
      folder);
  EXPECT_EQ(built.exit_status, 0) << built.output;
  EXPECT_EQ(built.output, "");
}

TEST(EmitTest, SeveralNetworksCompileAsOneTranslationUnit) {
  const Planned planned = MakePlanned(false);
  const TemporaryFolder folder;
  for (const char* stem : {"one", "two"}) {
    EmitOptions options;
    options.stem = stem;
    folder.Write(Emit(planned, options));
  }
  folder.Write("all.cpp", "#include \"one.cpp\"\n#include \"two.cpp\"\n");
  const CommandResult built =
      RunCommand(std::string("g++ ") + kStrictFlags + " -c all.cpp", folder);
  EXPECT_EQ(built.exit_status, 0) << built.output;
}

TEST(EmitTest, PutsMemoryIntoTheSectionsAskedFor) {
  const TemporaryFolder folder;
  EmitOptions options;
  options.stem = "net";
  options.arena_section = ".dtcm";
  options.weights_section = ".extflash";
  for (WeightsForm form : {WeightsForm::kInline, WeightsForm::kIncbin}) {
    options.weights = form;
    folder.Write(Emit(MakePlanned(true), options));
    const CommandResult built =
        RunCommand(std::string("g++ ") + kStrictFlags + " -c net.cpp && objdump -h net.o", folder);
    EXPECT_EQ(built.exit_status, 0) << built.output;
    EXPECT_THAT(built.output, HasSubstr(".dtcm"));
    EXPECT_THAT(built.output, HasSubstr(".extflash"));
  }
}

TEST(EmitTest, GeneratedCodeHasNoStaticInitialisationAndCallsNoAllocator) {
  const TemporaryFolder folder;
  EmitOptions options;
  options.stem = "net";
  folder.Write(Emit(MakePlanned(false), options));
  const CommandResult built =
      RunCommand("g++ -O2 -c net.cpp && objdump -h net.o && nm -u net.o", folder);
  EXPECT_EQ(built.exit_status, 0) << built.output;
  EXPECT_THAT(built.output, Not(HasSubstr("init_array")));
  EXPECT_THAT(built.output, Not(HasSubstr("malloc")));
  EXPECT_THAT(built.output, Not(HasSubstr("_Znw")));
}

TEST(EmitTest, RefusesWeightsOfAnotherNetworkAndDamagedOnes) {
  const TemporaryFolder folder;
  EmitOptions options = OptionsOf({ArenaOwner::kStatic, WeightsForm::kBinary, false});
  options.stem = "net";
  folder.Write(Emit(MakePlanned(false), options));
  ASSERT_EQ(RunCommand("g++ net.cpp net_selftest.cpp -o net && ./net", folder).exit_status, 0);
  const std::string weights = folder.Read("net_weights.bin");
  for (size_t at : {size_t{0}, size_t{9}, size_t{20}, weights.size() - 1}) {
    std::string damaged = weights;
    damaged[at] ^= 1;
    folder.Write("net_weights.bin", damaged);
    const CommandResult ran = RunCommand("./net", folder);
    EXPECT_EQ(ran.exit_status, 1);
    EXPECT_THAT(ran.output, HasSubstr("net_weights.bin is not of this network"));
  }
  folder.Write("net_weights.bin", weights.substr(0, weights.size() - 1));
  EXPECT_THAT(RunCommand("./net", folder).output, HasSubstr("too short"));
}

TEST(EmitTest, TheSelfTestFailsOnAWrongOutput) {
  const TemporaryFolder folder;
  EmitOptions options = OptionsOf({ArenaOwner::kStatic, WeightsForm::kInline, false});
  options.stem = "net";
  options.self_test->outputs[0] = Tensor::FromVector<float>({2, 3}, {1, 0, 3, 0, 5, 0.25F});
  folder.Write(Emit(MakePlanned(false), options));
  const CommandResult ran = RunCommand("g++ net.cpp net_selftest.cpp -o net && ./net", folder);
  EXPECT_EQ(ran.exit_status, 1);
  EXPECT_THAT(ran.output, HasSubstr("max abs diff 0.25, 1 beyond tolerance"));
}

TEST(EmitTest, RefusesNamesThatCannotBe) {
  const Planned planned = MakePlanned(false);
  const auto code = [&](const EmitOptions& options) {
    return EmitCode(planned.program, planned.plan, options).status().code();
  };
  EmitOptions options;
  EXPECT_EQ(code(options), absl::StatusCode::kOk);
  for (const char* stem : {"", "a/b", "-x", "a b", "a\"b", ".."}) {
    options.stem = stem;
    EXPECT_EQ(code(options), absl::StatusCode::kInvalidArgument) << stem;
  }
  options = {};
  for (const char* name : {"9a", "float", "a-b", "_x", "a__b"}) {
    options.name = name;
    EXPECT_EQ(code(options), absl::StatusCode::kInvalidArgument) << name;
  }
  options = {};
  options.weights_section = ".a\"b";
  EXPECT_EQ(code(options), absl::StatusCode::kInvalidArgument);
  options = {};
  options.self_test = TestData();
  options.self_test->inputs.pop_back();
  EXPECT_EQ(code(options), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace onnx_memplan
