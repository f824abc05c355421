// CompileGraph with TrainOptions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "onnx_memplan/compile.h"

namespace onnx_memplan {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr int64_t kBatch = 4;
constexpr int64_t kFeatures = 16;
constexpr int64_t kHidden = 32;
constexpr int64_t kLayers = 6;
constexpr int64_t kClasses = 3;

Tensor RandomTensor(Shape shape, uint32_t seed, float size) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-size, size);
  std::vector<float> values(static_cast<size_t>(*CheckedNumElements(shape)));
  for (float& value : values) value = uniform(random);
  return Tensor::FromVector<float>(std::move(shape), values);
}

// Dense layers with Sigmoid between, w0, w1, ...; the scores are named "y".
LoadedModel MakeModel() {
  LoadedModel model;
  Graph& graph = model.graph;
  graph.name = "net";
  ValueId x = graph.AddValue("x", TensorType{DType::kFloat, {kBatch, kFeatures}});
  graph.inputs = {x};
  int64_t width = kFeatures;
  for (int64_t i = 0; i <= kLayers; ++i) {
    const int64_t next = i == kLayers ? kClasses : kHidden;
    const std::string name = "w" + std::to_string(i);
    const ValueId w =
        graph.AddConstant(name, RandomTensor({width, next}, static_cast<uint32_t>(i), 0.5F));
    model.info.initializers.push_back(name);
    const auto append = [&](const std::string& type, std::vector<ValueId> inputs,
                            const std::string& output) {
      Node node;
      node.op_type = type;
      node.name = output;
      node.inputs = std::move(inputs);
      node.outputs = {graph.AddValue(output)};
      graph.nodes.push_back(node);
      return node.outputs[0];
    };
    x = append("MatMul", {x, w}, i == kLayers ? "y" : "h" + std::to_string(i));
    if (i < kLayers) x = append("Sigmoid", {x}, "a" + std::to_string(i));
    width = next;
  }
  graph.outputs = {x};
  return model;
}

CompileOptions Options(const TrainOptions& train = {}) {
  CompileOptions options;
  options.planner = "heuristic";
  options.train = train;
  return options;
}

CompiledModel Compile(const CompileOptions& options) {
  absl::StatusOr<CompiledModel> compiled = CompileGraph(MakeModel(), options);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return *std::move(compiled);
}

Tensor Batch() { return RandomTensor({kBatch, kFeatures}, 99, 1); }
Tensor Target() { return Tensor::FromVector<int64_t>({kBatch}, {0, 2, 1, 2}); }
std::vector<Tensor> StepInputs(float rate) {
  return {Batch(), Target(), Tensor::FromVector<float>({}, {rate})};
}

std::vector<Tensor> RunEntry(const CompiledModel& model, const std::string& entry,
                             const std::vector<Tensor>& inputs, StateMap& states) {
  const absl::StatusOr<std::vector<Tensor>> outputs = model.RunEntry(entry, inputs, states);
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  return outputs.ok() ? *outputs : std::vector<Tensor>();
}

std::vector<std::string> Names(const absl::StatusOr<std::vector<NamedType>>& types) {
  std::vector<std::string> names;
  EXPECT_TRUE(types.ok()) << types.status();
  if (!types.ok()) return names;
  for (const NamedType& type : *types) names.push_back(type.name);
  return names;
}

TEST(Train, EntryPointsAndTheirInputsAndOutputs) {
  TrainOptions train;
  train.gradients = true;
  train.trainable = {"w5", "w6"};
  const CompiledModel model = Compile(Options(train));
  EXPECT_THAT(model.entry_points(), ElementsAre("train_step", "infer", "gradients"));
  EXPECT_THAT(Names(model.InputsOf("train_step")), ElementsAre("x", "target", "learning_rate"));
  EXPECT_THAT(Names(model.OutputsOf("train_step")), SizeIs(1));
  EXPECT_THAT(Names(model.InputsOf("infer")), ElementsAre("x"));
  EXPECT_THAT(Names(model.OutputsOf("infer")), ElementsAre("y"));
  EXPECT_THAT(Names(model.InputsOf("gradients")), ElementsAre("x", "target"));
  EXPECT_THAT(Names(model.OutputsOf("gradients")), SizeIs(3));
  EXPECT_EQ((*model.OutputsOf("gradients"))[1].type, (TensorType{DType::kFloat, {32, 32}}));
  EXPECT_EQ(model.InputsOf("run").status().code(), absl::StatusCode::kNotFound);
  StateMap states;
  EXPECT_EQ(model.RunEntry("backward", {}, states).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Compile(Options()).entry_points(), ElementsAre("train_step", "infer"));
}

TEST(Train, StatesGoFromCallToCallAndTheLossFalls) {
  TrainOptions train;
  train.optimizer.kind = OptimizerKind::kAdam;
  const CompiledModel model = Compile(Options(train));
  StateMap states;
  const Tensor before = RunEntry(model, "infer", {Batch()}, states)[0];
  float first = 0;
  float last = 0;
  for (int step = 0; step < 40; ++step) {
    last = RunEntry(model, "train_step", StepInputs(0.02F), states)[0].As<float>()[0];
    if (step == 0) first = last;
  }
  EXPECT_LT(last, 0.5F * first);
  EXPECT_EQ(states.at("optimizer/step"), Tensor::ScalarInt64(40));
  EXPECT_TRUE(states.contains("w0/exp_avg"));
  const Tensor after = RunEntry(model, "infer", {Batch()}, states)[0];
  EXPECT_NE(before, after);
  // The loss of the next step is that of what infer returns.
  double loss = 0;
  for (size_t row = 0; row < kBatch; ++row) {
    const float* scores = after.As<float>().data() + row * kClasses;
    double sum = 0;
    for (size_t c = 0; c < kClasses; ++c) sum += std::exp(static_cast<double>(scores[c]));
    loss += std::log(sum) - static_cast<double>(scores[Target().As<int64_t>()[row]]);
  }
  const float next = RunEntry(model, "train_step", StepInputs(0), states)[0].As<float>()[0];
  EXPECT_NEAR(loss / kBatch, static_cast<double>(next), 1e-5);
  // Fresh states: the model as it was.
  StateMap fresh;
  EXPECT_EQ(before, RunEntry(model, "infer", {Batch()}, fresh)[0]);
}

TEST(Train, AStepGoesAgainstItsGradients) {
  TrainOptions train;
  train.gradients = true;
  const CompiledModel model = Compile(Options(train));
  StateMap states;
  const std::vector<Tensor> gradients = RunEntry(model, "gradients", {Batch(), Target()}, states);
  ASSERT_THAT(gradients, SizeIs(kLayers + 2));
  const StateMap before = states;
  constexpr float kRate = 0.5F;
  const std::vector<Tensor> loss = RunEntry(model, "train_step", StepInputs(kRate), states);
  EXPECT_NEAR(loss[0].As<float>()[0], gradients[0].As<float>()[0], 1e-6);
  for (size_t i = 0; i <= kLayers; ++i) {
    const std::string name = "w" + std::to_string(i);
    for (size_t j = 0; j < before.at(name).As<float>().size(); ++j) {
      EXPECT_NEAR(states.at(name).As<float>()[j],
                  before.at(name).As<float>()[j] - kRate * gradients[1 + i].As<float>()[j], 1e-6)
          << name;
    }
  }
}

// Arena bytes without and with as much recomputation as there may be.
TEST(Train, UnderALimitValuesAreComputedAgainUntilTheArenaFits) {
  TrainOptions train;
  train.recompute = 0;
  const CompiledModel plain = Compile(Options(train));
  CompileOptions limited = Options(train);
  limited.arena_limit_bytes = plain.plan().arena_bytes - 1;
  limited.train->recompute_for_limit = 1;
  const absl::StatusOr<CompiledModel> smaller = CompileGraph(MakeModel(), limited);
  ASSERT_TRUE(smaller.ok()) << smaller.status();
  EXPECT_LT(smaller->plan().arena_bytes, plain.plan().arena_bytes);
  StateMap states;
  StateMap other;
  EXPECT_EQ(RunEntry(plain, "train_step", StepInputs(0.5F), states),
            RunEntry(*smaller, "train_step", StepInputs(0.5F), other));
  EXPECT_EQ(states, other);
}

TEST(Train, ALimitThatCannotBeMetNamesEntryAndBytes) {
  CompileOptions options = Options();
  options.arena_limit_bytes = 100;
  const absl::Status status = CompileGraph(MakeModel(), options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("'train_step'"), HasSubstr("more than the limit of 100")));
}

TEST(Train, TheLimitHoldsForEveryEntry) {
  // With inputs and outputs in the arena, all gradients are in it at once.
  TrainOptions train;
  train.gradients = true;
  train.recompute_for_limit = 0;
  CompileOptions options = Options(train);
  options.io_in_arena = true;
  options.arena_limit_bytes = Compile(options).plan().arena_bytes;
  const absl::Status status = CompileGraph(MakeModel(), options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'gradients'"));
}

TEST(Train, ErrorsSayWhatThereIs) {
  TrainOptions train;
  train.trainable = {"encoder*"};
  EXPECT_THAT(std::string(CompileGraph(MakeModel(), Options(train)).status().message()),
              AllOf(HasSubstr("encoder*"), HasSubstr("w0")));
  train = {};
  train.loss_output = "z";
  EXPECT_THAT(std::string(CompileGraph(MakeModel(), Options(train)).status().message()),
              HasSubstr("'z'"));
  train = {};
  train.loss.kind = LossKind::kModelOutput;
  EXPECT_THAT(std::string(CompileGraph(MakeModel(), Options(train)).status().message()),
              HasSubstr("--loss"));
  train = {};
  train.optimizer.accumulate_steps = 0;
  EXPECT_EQ(CompileGraph(MakeModel(), Options(train)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(Train, TheRateIsPassedByValueWhateverTheModelsTensorsAreNamed) {
  LoadedModel model = MakeModel();
  model.graph.values[static_cast<size_t>(model.graph.inputs[0])].name = "learning_rate";
  const absl::StatusOr<CompiledModel> compiled = CompileGraph(std::move(model), Options());
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EmitOptions emit;
  emit.stem = "net";
  const absl::StatusOr<std::vector<EmittedFile>> files = compiled->Emit(emit);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_THAT(files->front().bytes,
              HasSubstr("int net_train_step(const float* learning_rate, const int64_t* target, "
                        "float learning_rate_1, float* loss)"));
}

TEST(Train, NumbersOfALossThatMeanNothingAreRefused) {
  const auto refused = [](const LossOptions& loss) {
    TrainOptions train;
    train.loss = loss;
    return CompileGraph(MakeModel(), Options(train)).status().code() ==
           absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused({.kind = LossKind::kHuber, .huber_delta = 0}));
  EXPECT_TRUE(refused({.label_smoothing = NAN}));
  EXPECT_TRUE(refused({.class_weights = {1, -1, 1}}));
  EXPECT_TRUE(refused({.kind = LossKind::kMse, .label_smoothing = 0.1}));
  EXPECT_FALSE(refused({.label_smoothing = 0.1}));
}

TEST(Train, WrongInputsAreRefused) {
  const CompiledModel model = Compile(Options());
  StateMap states;
  EXPECT_FALSE(model.RunEntry("train_step", {{Batch(), Target()}}, states).ok());
  StateMap wrong = {{"w0", Tensor::FromVector<float>({2}, {1, 2})}};
  EXPECT_FALSE(model.RunEntry("infer", {{Batch()}}, wrong).ok());
}

}  // namespace
}  // namespace onnx_memplan
