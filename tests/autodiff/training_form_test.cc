#include "autodiff/training_form.h"

#include <gmock/gmock.h>

#include "autodiff/parameters.h"
#include "autodiff/training_util.h"

namespace onnx_memplan::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const char kModel[] = R"(g (float[3,2] x) => (float[3,2] y) <
    float[2] s = {1, 2}, float[2] b = {0, 1}, float[2] m = {0.5, 0}, float[2] v = {1, 2},
    float ratio = {0.5}, float[2,2] w = {1, 2, 3, 4}> {
  n = BatchNormalization <momentum = 0.75> (x, s, b, m, v)
  d = Dropout(n, ratio)
  e = MatMul(d, w)
  y = Dropout(e)
})";

Graph InTraining(const TrainOptions& options, const std::string& text = kModel) {
  LoadedModel model = LoadText(text);
  EXPECT_TRUE(SelectParameters(options, model.info.initializers, model.graph).ok());
  const absl::Status status = ToTrainingForm(options, model.graph);
  EXPECT_TRUE(status.ok()) << status;
  InferTypesOf(model.graph);
  EXPECT_TRUE(model.graph.Verify(/*typed=*/true).ok());
  return model.graph;
}

TEST(TrainingForm, StatisticsFollowTheBatchByPyTorchsRuleOrOnnxs) {
  for (const bool onnx_rule : {false, true}) {
    TrainOptions options;
    options.batch_norm = BatchNormMode::kTrain;
    options.onnx_running_variance = onnx_rule;
    const Graph graph = InTraining(options);
    Data states;
    RunStep(graph, {{"x", Tensor::FromVector<float>({3, 2}, {1, 2, 3, 4, 5, 9})}}, states);
    // Means 3 and 5, sums of squares 8 and 26.
    const float divisor = onnx_rule ? 3 : 2;
    EXPECT_THAT(states.at("m").As<float>(), ElementsAre(0.375F + 0.75F, 1.25F));
    EXPECT_FLOAT_EQ(states.at("v").As<float>()[0], 0.75F + 0.25F * 8 / divisor);
    EXPECT_FLOAT_EQ(states.at("v").As<float>()[1], 1.5F + 0.25F * 26 / divisor);
  }
}

TEST(TrainingForm, FrozenNormalisationKeepsItsStatistics) {
  TrainOptions options;
  options.batch_norm = BatchNormMode::kFrozen;
  const Graph graph = InTraining(options);
  EXPECT_EQ(FindState(graph, "m"), nullptr);
  const Data all = Evaluate(graph, RandomInputs(graph, 1));
  LoadedModel model = LoadText(kModel);
  ToInferenceForm(model.graph);
  InferTypesOf(model.graph);
  EXPECT_EQ(all.at("n"), Evaluate(model.graph, RandomInputs(graph, 1)).at("n"));
}

TEST(TrainingForm, MasksDifferByNodeStepAndSeedAndKeepTheMean) {
  const std::string text = R"(g (float[1000] x) => (float[1000] z) <float[1] w = {1}> {
    y = Dropout(x)
    u = Mul(x, w)
    z = Dropout(u)
  })";
  TrainOptions options;
  const Graph graph = InTraining(options, text);
  const Data inputs = {{"x", Tensor::FromVector<float>({1000}, std::vector<float>(1000, 1.0F))}};
  Data states;
  const Data first = Evaluate(graph, inputs);
  RunStep(graph, inputs, states);
  EXPECT_EQ(states.at(kStepCounter), Tensor::ScalarInt64(1));
  Data given = states;
  given.insert(inputs.begin(), inputs.end());
  const Data second = Evaluate(graph, given);
  EXPECT_NE(first.at("y"), first.at("z"));
  EXPECT_NE(first.at("y"), second.at("y"));
  options.dropout_seed = 2;
  EXPECT_NE(first.at("y"), Evaluate(InTraining(options, text), inputs).at("y"));
  int kept = 0;
  for (const float value : first.at("y").As<float>()) {
    EXPECT_TRUE(value == 0 || value == 2);
    kept += value == 2 ? 1 : 0;
  }
  EXPECT_NEAR(kept, 500, 80);
}

TEST(TrainingForm, StepsAreCountedOnceHoweverManyAsk) {
  Graph graph = InTraining({});
  const ValueId number = StepNumber(graph);
  EXPECT_EQ(StepNumber(graph), number);
  EXPECT_THAT(StateNames(graph, StateKind::kOptimizer), ElementsAre(kStepCounter));
  EXPECT_EQ(FindState(graph, kStepCounter)->out, number);
  EXPECT_EQ(graph.nodes[0].outputs[0], number);
  EXPECT_TRUE(graph.Verify(/*typed=*/true).ok());
}

TEST(TrainingForm, AModelThatReadsAMaskIsRefused) {
  LoadedModel model = LoadText(R"(g (float[4] x) => (float[4] y, bool[4] mask) <
      float[4] w = {1, 2, 3, 4}> {
    u = Mul(x, w)
    y, mask = Dropout(u)
  })");
  const absl::Status status = ToTrainingForm({}, model.graph);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Dropout"));
}

TEST(InferenceForm, DropoutPassesOnAndStatisticsAreUsed) {
  LoadedModel model = LoadText(R"(g (float[2,2] x) => (float[2,2] y) <
      float[2] s = {1, 1}, float[2] b = {0, 0}, float[2] m = {1, 2}, float[2] v = {4, 4},
      float ratio = {0.9}, bool yes = {1}> {
    n, mm, vv = BatchNormalization <training_mode = 1, epsilon = 0.0> (x, s, b, m, v)
    y = Dropout(n, ratio, yes)
  })");
  ToInferenceForm(model.graph);
  InferTypesOf(model.graph);
  const Data all = Evaluate(model.graph, {{"x", Tensor::FromVector<float>({2, 2}, {3, 2, 1, 6})}});
  EXPECT_THAT(all.at("y").As<float>(), ElementsAre(1, 0, 0, 2));
}

}  // namespace
}  // namespace onnx_memplan::testing
