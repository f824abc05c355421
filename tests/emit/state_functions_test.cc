// Generated code with states and several entry points, run and compared with replays and loops.
#include "emit/state_functions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "emit/emit.h"
#include "replay/replay.h"
#include "testing/commands.h"
#include "testing/training_graph.h"

namespace onnx_memplan {
namespace {

using testing::CommandResult;
using testing::HasProgram;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::RunCommand;
using testing::TemporaryFolder;

constexpr const char* kStrictFlags =
    "-std=c++17 -O2 -Wall -Wextra -Wconversion -Wshadow -Wcast-align -Woverlength-strings "
    "-fno-exceptions -fno-rtti -Werror";

struct Planned {
  Program program;
  Plan plan;
};

Planned MakePlanned(const Graph& graph, bool io_in_arena = false) {
  auto program = BuildProgram(graph, BuiltinTargets().front(), {.io_in_arena = io_in_arena});
  EXPECT_TRUE(program.ok()) << program.status();
  auto planner = MakePlanner("auto");
  EXPECT_TRUE(planner.ok()) << planner.status();
  auto plan = (*planner)->Run(program->problem, PlanBudget());
  EXPECT_TRUE(plan.ok()) << plan.status();
  return {*std::move(program), *std::move(plan)};
}

// The three functions of the model of training_graph.h.
struct TrainedModel {
  Planned step = MakePlanned(testing::TrainStepGraph());
  Planned infer = MakePlanned(testing::InferGraph());
  Planned gradients = MakePlanned(testing::GradientsGraph());

  std::vector<EntryPoint> Entries() const {
    return {{.suffix = "train_step",
             .program = &step.program,
             .plan = &step.plan,
             .summary = "One step of training.",
             .by_value = {"learning_rate"}},
            {.suffix = "infer", .program = &infer.program, .plan = &infer.plan},
            {.suffix = "gradients",
             .program = &gradients.program,
             .plan = &gradients.plan,
             .summary = "The loss and its gradients.",
             .gradient_of = {"", "W"}}};
  }
};

std::vector<EmittedFile> Emit(const std::vector<EntryPoint>& entries, const EmitOptions& options) {
  auto files = EmitCode(entries, options);
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

template <size_t N>
std::string CArray(const std::array<float, N>& values) {
  std::ostringstream out;
  out << "{";
  for (float value : values) out << value << ", ";
  out << "}";
  return out.str();
}

// A C program that prints numbers, one a line: status codes as integers, results as floats.
std::string Driver(const EmitOptions& options) {
  const bool caller = options.arena == ArenaOwner::kCaller;
  const bool binary = options.weights == WeightsForm::kBinary;
  std::string text = R"(
#include <stdio.h>
#include <string.h>
#include "net.h"
static const float x[NET_INPUT_X_COUNT] = )" +
                     CArray(testing::kTrainingInput) +
                     R"(;
static const float t[NET_INPUT_T_COUNT] = )" +
                     CArray(testing::kTrainingTarget) +
                     R"(;
static float y[NET_OUTPUT_Y_COUNT], loss, norm;
static _Alignas(8) unsigned char gradients[NET_GRADIENTS_BYTES], saved[NET_PARAMETERS_BYTES];
)";
  if (caller) {
    text += "static _Alignas(64) unsigned char arena[NET_ARENA_BYTES], state[NET_STATE_BYTES];\n";
  }
  if (binary) {
    text += "static _Alignas(64) unsigned char weights[NET_WEIGHTS_FILE_BYTES];\n";
  }
  const std::string state = caller ? "state, " : "";
  const std::string reset = std::string("net_reset(") + (caller ? "state" : "") +
                            (caller && binary ? ", " : "") + (binary ? "weights" : "") + ")";
  const std::string first =
      std::string(caller ? "arena, state, " : "") + (binary ? "weights, " : "");
  text += "#define FIRST " + first + "\n#define STATE " + state + "\n#define RESET() " + reset + R"(
static void Print(const void* data, int count) {
  float value;
  for (int i = 0; i < count; ++i) {
    memcpy(&value, (const char*)data + 4 * i, 4);
    printf("%.9g\n", (double)value);
  }
}
static void PrintParameters(void) {
  printf("%d\n", net_get_parameters(STATE saved));
  Print(saved + NET_PARAMETER_W_OFFSET, NET_PARAMETER_W_COUNT);
  Print(saved + NET_PARAMETER_STEPS_OFFSET, NET_PARAMETER_STEPS_COUNT);
}
int main(void) {
)";
  if (binary) {
    text += R"(
  FILE* file = fopen("net_weights.bin", "rb");
  if (file == 0 || fread(weights, 1, sizeof weights, file) != sizeof weights) return 1;
)";
  }
  return text + R"(
  printf("%d\n", net_train_step(FIRST x, t, 0.1F, &loss, &norm));
  printf("%d\n", net_infer(FIRST x, y));
  printf("%d\n", net_gradients(FIRST x, t, &loss, gradients));
  printf("%d\n", net_get_parameters(STATE saved));
  printf("%d\n", net_set_parameters(STATE saved));
  printf("%d\n", RESET());
  for (int step = 0; step < 3; ++step) {
    printf("%d\n", net_infer(FIRST x, y));
    Print(y, NET_OUTPUT_Y_COUNT);
    printf("%d\n", net_gradients(FIRST x, t, &loss, gradients));
    Print(&loss, 1);
    Print(gradients + NET_PARAMETER_W_OFFSET, NET_PARAMETER_W_COUNT);
    printf("%d\n", net_train_step(FIRST x, t, 0.1F, &loss, &norm));
    Print(&loss, 1);
    Print(&norm, 1);
    PrintParameters();
  }
  const float other[3] = {1, 2, 3};
  memcpy(saved + NET_PARAMETER_W_OFFSET, other, sizeof other);
  printf("%d\n", net_set_parameters(STATE saved));
  printf("%d\n", net_infer(FIRST x, y));
  Print(y, NET_OUTPUT_Y_COUNT);
  printf("%d\n", RESET());
  PrintParameters();
  return 0;
}
)";
}

// What the driver prints, by loops.
std::vector<double> ExpectedOutput() {
  constexpr double kNotReset = 4;
  std::vector<double> lines(5, kNotReset);
  lines.push_back(0);
  testing::TrainingReference model;
  const auto append = [&](const auto& values) {
    lines.push_back(0);
    lines.insert(lines.end(), values.begin(), values.end());
  };
  const auto append_parameters = [&] {
    append(model.weight);
    lines.push_back(model.steps);
  };
  for (int step = 0; step < 3; ++step) {
    append(model.Infer());
    append(std::array<double, 1>{model.Loss()});
    for (double g : model.Gradient()) lines.push_back(g);
    append(std::array<double, 2>{model.Loss(), model.WeightNorm()});
    model.Step(0.1F);
    append_parameters();
  }
  model.weight = {1, 2, 3};
  lines.push_back(0);
  append(model.Infer());
  model = {};
  lines.push_back(0);
  append_parameters();
  return lines;
}

void ExpectLines(const std::string& output, const std::vector<double>& expected) {
  std::istringstream stream(output);
  std::vector<double> lines;
  for (double value = 0; stream >> value;) lines.push_back(value);
  ASSERT_EQ(lines.size(), expected.size()) << output;
  for (size_t i = 0; i < lines.size(); ++i)
    EXPECT_NEAR(lines[i], expected[i], 2e-5) << "line " << i;
}

struct Variant {
  ArenaOwner arena;
  WeightsForm weights;
};

class TrainingFilesTest : public ::testing::TestWithParam<Variant> {};

TEST_P(TrainingFilesTest, TrainAsTheClosedFormSays) {
  const TrainedModel model;
  const TemporaryFolder folder;
  EmitOptions options;
  options.stem = "net";
  options.arena = GetParam().arena;
  options.weights = GetParam().weights;
  folder.Write(Emit(model.Entries(), options));
  folder.Write("main.c", Driver(options));
  const CommandResult c =
      RunCommand("gcc -std=c11 -Wall -Wextra -Werror -Wpedantic -c main.c", folder);
  ASSERT_EQ(c.exit_status, 0) << c.output;
  int compilers = 0;
  for (const std::string compiler : {"g++", "clang++"}) {
    if (!HasProgram(compiler)) continue;
    ++compilers;
    const CommandResult built =
        RunCommand(compiler + " " + kStrictFlags + " net.cpp main.o -o net", folder);
    EXPECT_EQ(built.exit_status, 0) << built.output;
    EXPECT_EQ(built.output, "") << compiler;
    const CommandResult ran = RunCommand("./net", folder);
    EXPECT_EQ(ran.exit_status, 0) << ran.output;
    ExpectLines(ran.output, ExpectedOutput());
  }
  EXPECT_GT(compilers, 0);
  if (HasProgram("arm-none-eabi-g++")) {
    EXPECT_EQ(RunCommand("arm-none-eabi-g++ -c net.cpp", folder).output, "");
    EXPECT_EQ(RunCommand(std::string("arm-none-eabi-g++ -mthumb -mcpu=cortex-m4 ") + kStrictFlags +
                             " -c net.cpp",
                         folder)
                  .output,
              "");
  }
}

INSTANTIATE_TEST_SUITE_P(All, TrainingFilesTest,
                         ::testing::Values(Variant{ArenaOwner::kStatic, WeightsForm::kInline},
                                           Variant{ArenaOwner::kStatic, WeightsForm::kIncbin},
                                           Variant{ArenaOwner::kStatic, WeightsForm::kBinary},
                                           Variant{ArenaOwner::kCaller, WeightsForm::kInline},
                                           Variant{ArenaOwner::kCaller, WeightsForm::kBinary}));

TEST(TrainingFiles, DocumentTheLayoutOfParameters) {
  const TrainedModel model;
  EmitOptions options;
  options.stem = "net";
  const auto files = Emit(model.Entries(), options);
  const std::string header = FileNamed(files, "net.h");
  EXPECT_THAT(header, HasSubstr("int net_train_step(const float* x, const float* t, float "
                                "learning_rate, float* loss, float* weight_norm);"));
  EXPECT_THAT(header, HasSubstr("int net_infer(const float* x, float* y);"));
  EXPECT_THAT(header, HasSubstr("int net_gradients(const float* x, const float* t, float* loss, "
                                "void* gradients);"));
  EXPECT_THAT(header, HasSubstr("int net_reset(void);"));
  EXPECT_THAT(header,
              HasSubstr("#define NET_PARAMETERS_BYTES 20\n#define NET_GRADIENTS_BYTES 12\n"
                        "#define NET_PARAMETER_W_OFFSET 0\n#define NET_PARAMETER_W_COUNT 3\n"
                        "#define NET_PARAMETER_STEPS_OFFSET 16\n"));
  EXPECT_THAT(header, HasSubstr("#define NET_STATE_BYTES 40\n"));
  EXPECT_THAT(header, Not(HasSubstr("NET_OUTPUT_G_")));
  const std::string source = FileNamed(files, "net.cpp");
  EXPECT_THAT(source, HasSubstr("// net_train_step\n// Arena: "));
  EXPECT_THAT(source, HasSubstr("//         24         12  optimizer  m\n"));
  // The constants of the steps up to byte 12, W and steps from 16 on; the zeros of m are not
  // stored.
  EXPECT_EQ(EmittedWeightsBytes(model.Entries()), 36);
}

TEST(TrainingFiles, ShareOneArenaAndTheKernels) {
  const TrainedModel model;
  const auto files = Emit(model.Entries(), {});
  const int64_t largest = std::max({model.step.plan.arena_bytes, model.infer.plan.arena_bytes,
                                    model.gradients.plan.arena_bytes});
  EXPECT_THAT(FileNamed(files, "arena.h"),
              HasSubstr("#define ARENA_ARENA_BYTES " + std::to_string(largest) + "\n"));
  const std::string source = FileNamed(files, "arena.cpp");
  size_t arenas = 0;
  for (size_t at = 0; (at = source.find("arena_memory[", at)) != std::string::npos; ++at) ++arenas;
  EXPECT_EQ(arenas, 1);
}

TEST(TrainingFiles, AreTheSameForTheSameInput) {
  const auto first = Emit(TrainedModel().Entries(), {});
  const auto second = Emit(TrainedModel().Entries(), {});
  ASSERT_EQ(first.size(), second.size());
  for (size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i].bytes, second[i].bytes);
}

TEST(TrainingFiles, PutStatesIntoTheSectionAskedForAndHaveNoStaticInitialisation) {
  const TemporaryFolder folder;
  EmitOptions options;
  options.stem = "net";
  options.state_section = ".backup_ram";
  folder.Write(Emit(TrainedModel().Entries(), options));
  const CommandResult built = RunCommand("g++ -O2 -c net.cpp && objdump -h net.o", folder);
  EXPECT_EQ(built.exit_status, 0) << built.output;
  EXPECT_THAT(built.output, HasSubstr(".backup_ram"));
  EXPECT_THAT(built.output, Not(HasSubstr("init_array")));
}

TEST(TrainingFiles, RefuseABlockOfStatesThatCannotBeOne) {
  const TemporaryFolder folder;
  EmitOptions options;
  options.stem = "net";
  options.arena = ArenaOwner::kCaller;
  folder.Write(Emit(TrainedModel().Entries(), options));
  folder.Write("main.c", R"(
#include "net.h"
static _Alignas(64) unsigned char arena[NET_ARENA_BYTES], state[NET_STATE_BYTES + 1];
int main(void) {
  float data[12] = {0}, blob[5];
  if (net_reset(0) != NET_ERROR_STATE || net_reset(state + 1) != NET_ERROR_STATE) return 1;
  if (net_infer(arena, 0, data, data) != NET_ERROR_STATE) return 2;
  if (net_infer(0, state, data, data) != NET_ERROR_ARENA) return 3;
  if (net_get_parameters(state + 1, blob) != NET_ERROR_STATE) return 4;
  if (net_set_parameters(state, blob) != NET_ERROR_NOT_RESET) return 5;
  return net_reset(state) == NET_OK && net_set_parameters(state, blob) == NET_OK ? 0 : 6;
}
)");
  const CommandResult built = RunCommand("g++ -O1 -c net.cpp && gcc main.c net.o -o net", folder);
  ASSERT_EQ(built.exit_status, 0) << built.output;
  EXPECT_EQ(RunCommand("./net", folder).exit_status, 0);
}

// Each function by generated code and by replay: equal bits, since both run the same kernels.
TEST(TrainingFiles, GiveTheBitsOfTheReplay) {
  const TrainedModel model;
  const TemporaryFolder folder;
  EmitOptions options;
  options.stem = "net";
  folder.Write(Emit(model.Entries(), options));
  folder.Write("main.c", Driver(options));
  const CommandResult built =
      RunCommand("g++ -O2 -ffp-contract=off -c net.cpp && gcc main.c net.o -o net", folder);
  ASSERT_EQ(built.exit_status, 0) << built.output;
  std::istringstream lines(RunCommand("./net", folder).output);
  std::vector<double> printed;
  for (double value = 0; lines >> value;) printed.push_back(value);
  const std::vector<Tensor> inputs = {
      Tensor::FromVector<float>({4, 3},
                                {testing::kTrainingInput.begin(), testing::kTrainingInput.end()}),
      Tensor::FromVector<float>({4, 1},
                                {testing::kTrainingTarget.begin(), testing::kTrainingTarget.end()}),
      Tensor::FromVector<float>({}, {0.1F})};
  std::vector<Tensor> states;
  for (int step = 0; step < 3; ++step) {
    const auto outputs = Replay(model.step.program, model.step.plan, inputs, {.states = &states});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    // Lines: 6 codes; for each step y (5), gradients (5), loss and norm (3), parameters (5).
    const size_t at = 6 + static_cast<size_t>(step) * 18 + 11;
    ASSERT_GT(printed.size(), at + 6);
    EXPECT_EQ(static_cast<float>(printed[at]), (*outputs)[0].As<float>()[0]);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(static_cast<float>(printed[at + 3 + i]), states[1].As<float>()[i]);
    }
  }
}

TEST(TrainingFiles, TensorsInTheArenaHaveAccessorsForEachPlace) {
  TrainedModel model;
  model.step = MakePlanned(testing::TrainStepGraph(), /*io_in_arena=*/true);
  model.infer = MakePlanned(testing::InferGraph(), /*io_in_arena=*/true);
  const TemporaryFolder folder;
  EmitOptions options;
  options.stem = "net";
  std::vector<EntryPoint> entries = model.Entries();
  entries.pop_back();
  const auto files = Emit(entries, options);
  folder.Write(files);
  EXPECT_THAT(FileNamed(files, "net.h"), HasSubstr("float* net_input_learning_rate(void);"));
  EXPECT_THAT(FileNamed(files, "net.h"), HasSubstr("int net_train_step(void);"));
  const CommandResult built =
      RunCommand(std::string("g++ ") + kStrictFlags + " -c net.cpp", folder);
  EXPECT_EQ(built.exit_status, 0) << built.output;
}

TEST(TrainingFiles, RefuseStatesThatTheFirstProgramHasNot) {
  const TrainedModel model;
  std::vector<EntryPoint> entries = model.Entries();
  std::swap(entries[0], entries[1]);
  EXPECT_EQ(EmitCode(entries, {}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(TrainingFiles, SelfTestChecksInference) {
  const TrainedModel model;
  for (const ArenaOwner arena : {ArenaOwner::kStatic, ArenaOwner::kCaller}) {
    const TemporaryFolder folder;
    EmitOptions options;
    options.stem = "net";
    options.arena = arena;
    const auto y = testing::TrainingReference().Infer();
    options.self_test =
        SelfTest{.inputs = {Tensor::FromVector<float>(
                     {4, 3}, {testing::kTrainingInput.begin(), testing::kTrainingInput.end()})},
                 .outputs = {Tensor::FromVector<float>({4, 1}, {y.begin(), y.end()})}};
    folder.Write(Emit(model.Entries(), options));
    const CommandResult ran = RunCommand("g++ net.cpp net_selftest.cpp -o net && ./net", folder);
    EXPECT_EQ(ran.exit_status, 0) << ran.output;
    EXPECT_THAT(ran.output, HasSubstr("passed"));
  }
}

}  // namespace
}  // namespace onnx_memplan
