#include "autodiff/parameters.h"

#include <gmock/gmock.h>

#include "autodiff/training_util.h"

namespace onnx_memplan::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Convolution and bias, normalisation, Clip with its limits, scaling by a scalar, two dense layers.
const char kModel[] = R"(g (float[2,1,4,4] x) => (float[2,3] y) <
    float[2,1,1,1] conv_w = {1, 2}, float[2] conv_b = {0.5, 0.25},
    float[2] bn_scale = {1, 1}, float[2] bn_bias = {0, 0},
    float[2] bn_mean = {0, 0.5}, float[2] bn_var = {1, 2},
    float low = {0}, float high = {6}, float factor = {0.5},
    float[32,4] fc1_w, float[4] fc1_b = {1, 2, 3, 4},
    float[4,3] fc2_w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, float[3] fc2_b = {0, 0, 0},
    int64[2] shape = {2, 32}> {
  c = Conv(x, conv_w, conv_b)
  n = BatchNormalization(c, bn_scale, bn_bias, bn_mean, bn_var)
  r = Clip(n, low, high)
  s = Mul(r, factor)
  f = Reshape(s, shape)
  h = Gemm(f, fc1_w, fc1_b)
  p = MatMul(h, fc2_w)
  y = Add(p, fc2_b)
})";

std::string Model() {
  std::string text = kModel;
  const std::string declared = "float[32,4] fc1_w";
  text.insert(text.find(declared) + declared.size(), " = " + Numbers(128));
  return text;
}

absl::StatusOr<Graph> Select(const TrainOptions& options, const std::string& text = Model()) {
  LoadedModel model = LoadText(text);
  if (absl::Status s = SelectParameters(options, model.info.initializers, model.graph); !s.ok()) {
    return s;
  }
  return model.graph;
}

std::vector<std::string> Parameters(const TrainOptions& options) {
  const absl::StatusOr<Graph> graph = Select(options);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? StateNames(*graph, StateKind::kParameter) : std::vector<std::string>();
}

TEST(MatchesGlob, StarsAndQuestionMarks) {
  for (const auto& [pattern, text] :
       std::vector<std::pair<std::string, std::string>>{{"", ""},
                                                        {"*", ""},
                                                        {"*", "abc"},
                                                        {"a*c", "abbc"},
                                                        {"a*c", "ac"},
                                                        {"?b?", "abc"},
                                                        {"*b*b", "abcbb"},
                                                        {"**", "a"},
                                                        {"fc?.w*", "fc1.weight"}}) {
    EXPECT_TRUE(MatchesGlob(pattern, text)) << pattern << " " << text;
  }
  for (const auto& [pattern, text] :
       std::vector<std::pair<std::string, std::string>>{{"", "a"},
                                                        {"a", ""},
                                                        {"?", ""},
                                                        {"a*c", "abcd"},
                                                        {"abc", "ab"},
                                                        {"*b", "abc"},
                                                        {"a?", "a"}}) {
    EXPECT_FALSE(MatchesGlob(pattern, text)) << pattern << " " << text;
  }
}

TEST(SelectParameters, EverythingLearnableButScalarsSettingsAndStatistics) {
  EXPECT_THAT(Parameters({}), ElementsAre("conv_w", "conv_b", "bn_scale", "bn_bias", "fc1_w",
                                          "fc1_b", "fc2_w", "fc2_b"));
}

TEST(SelectParameters, StatesStartAsTheInitializersAndAreNoConstantsAnyMore) {
  const absl::StatusOr<Graph> graph = Select({});
  ASSERT_TRUE(graph.ok());
  const State* state = FindState(*graph, "conv_b");
  ASSERT_NE(state, nullptr);
  EXPECT_EQ(state->initial, Tensor::FromVector<float>({2}, {0.5F, 0.25F}));
  EXPECT_FALSE(graph->values[At(state->in)].constant.has_value());
}

TEST(SelectParameters, PatternsChooseAndFreezeWins) {
  TrainOptions options;
  options.trainable = {"fc*", "conv_?"};
  options.freeze = {"*_b"};
  EXPECT_THAT(Parameters(options), ElementsAre("conv_w", "fc1_w", "fc2_w"));
}

TEST(SelectParameters, AScalarIsTrainedWhenItIsNamed) {
  TrainOptions options;
  options.trainable = {"factor"};
  EXPECT_THAT(Parameters(options), ElementsAre("factor"));
}

TEST(SelectParameters, LastLayersCountNodesWithParametersThatAreLeft) {
  TrainOptions options;
  options.last_layers = 2;
  EXPECT_THAT(Parameters(options), ElementsAre("fc2_w", "fc2_b"));
  options.freeze = {"fc2_b"};
  EXPECT_THAT(Parameters(options), ElementsAre("fc1_w", "fc1_b", "fc2_w"));
}

TEST(SelectParameters, BiasesOnly) {
  TrainOptions options;
  options.biases_only = true;
  EXPECT_THAT(Parameters(options), ElementsAre("conv_b", "bn_bias", "fc1_b", "fc2_b"));
}

TEST(SelectParameters, StatisticsAreStatesWhereNormalisationTrains) {
  TrainOptions options;
  EXPECT_THAT(StateNames(*Select(options), StateKind::kStatistic), IsEmpty());
  options.batch_norm = BatchNormMode::kTrain;
  EXPECT_THAT(StateNames(*Select(options), StateKind::kStatistic),
              ElementsAre("bn_mean", "bn_var"));
}

TEST(SelectParameters, StatisticsStoredOnceWithOtherTensorsGetTheirOwn) {
  TrainOptions options;
  options.batch_norm = BatchNormMode::kTrain;
  const absl::StatusOr<Graph> graph = Select(options, R"(g (float[2,2] x) => (float[2,2] y) <
      float[2] ones = {1, 1}, float[2] zeros = {0, 0}> {
    a = BatchNormalization(x, ones, zeros, zeros, ones)
    y = BatchNormalization(a, ones, zeros, zeros, ones)
  })");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(StateNames(*graph, StateKind::kParameter), ElementsAre("ones", "zeros"));
  EXPECT_EQ(StateNames(*graph, StateKind::kStatistic).size(), 4u);
  EXPECT_EQ(FindState(*graph, "ones")->initial, Tensor::FromVector<float>({2}, {1, 1}));
  EXPECT_TRUE(graph->Verify(/*typed=*/false).ok());
}

TEST(SelectParameters, APatternWithoutMatchSaysWhatThereIs) {
  TrainOptions options;
  options.trainable = {"fc1_w", "decoder*"};
  const absl::Status trainable = Select(options).status();
  EXPECT_EQ(trainable.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(trainable.message()),
              AllOf(HasSubstr("--trainable 'decoder*'"), HasSubstr("conv_w"), HasSubstr("fc2_b")));
  options.trainable.clear();
  options.freeze = {"bn_mean"};  // there, but nothing to train
  EXPECT_THAT(std::string(Select(options).status().message()), HasSubstr("--freeze 'bn_mean'"));
}

TEST(SelectParameters, NothingLeftIsAnError) {
  TrainOptions options;
  options.freeze = {"*"};
  const absl::Status status = Select(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--freeze"));
}

TEST(SelectParameters, ComputedStatisticsCannotBeTrained) {
  TrainOptions options;
  options.batch_norm = BatchNormMode::kTrain;
  const absl::Status status = Select(options, R"(g (float[2,2] x, float[2] m) => (float[2,2] y) <
      float[2] s = {1, 1}, float[2] b = {0, 0}, float[2] v = {1, 1}> {
    y = BatchNormalization(x, s, b, m, v)
  })")
                                  .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'m'"));
}

TEST(DemoteParameters, AreConstantsAgain) {
  absl::StatusOr<Graph> graph = Select({});
  ASSERT_TRUE(graph.ok());
  DemoteParameters({"conv_w", "fc2_b"}, *graph);
  EXPECT_THAT(StateNames(*graph, StateKind::kParameter),
              ElementsAre("conv_b", "bn_scale", "bn_bias", "fc1_w", "fc1_b", "fc2_w"));
  EXPECT_EQ(graph->values[At(Find(*graph, "conv_w"))].constant,
            Tensor::FromVector<float>({2, 1, 1, 1}, {1, 2}));
}

}  // namespace
}  // namespace onnx_memplan::testing
