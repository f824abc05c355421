#include "autodiff/loss.h"

#include <gmock/gmock.h>

#include <cmath>

#include "autodiff/training_util.h"

namespace onnx_memplan::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct LossRun {
  absl::Status status;
  Graph graph;
  double loss = 0;
};

// The loss of a model in double, on random inputs (see RandomInputs) or `given`.
LossRun RunLoss(const TrainOptions& options, const std::string& text, const Data& given = {}) {
  LossRun run;
  run.graph = TypedText(text);
  const absl::StatusOr<ValueId> loss = AppendLoss(options, run.graph);
  run.status = loss.status();
  if (!loss.ok()) return run;
  EXPECT_TRUE(run.graph.Verify(/*typed=*/true).ok());
  EXPECT_THAT(run.graph.outputs, ElementsAre(*loss));
  Data inputs = given;
  inputs.merge(RandomInputs(run.graph, 3));
  run.loss = Evaluate(run.graph, inputs).at(run.graph.values[At(*loss)].name).As<double>()[0];
  return run;
}

const char kScores[] = "g (double[2,3,4] x) => (double[2,3,4] y) { y = Identity(x) }";

// torch.nn.CrossEntropyLoss, from its documentation: x of n x c x m, classes of n x m.
double CrossEntropy(const LossOptions& options, const Tensor& scores, const Tensor& target) {
  const bool classes = target.dtype() == DType::kInt64;
  const Shape& shape = scores.shape();
  const auto c = static_cast<size_t>(shape[1]);
  const auto m = static_cast<size_t>(shape[2]);
  double sum = 0;
  double norm = 0;
  for (size_t n = 0; n < static_cast<size_t>(shape[0]); ++n) {
    for (size_t i = 0; i < m; ++i) {
      const auto x = [&](size_t k) { return scores.As<double>()[(n * c + k) * m + i]; };
      const int64_t label = classes ? target.As<int64_t>()[n * m + i] : 0;
      if (classes && label == options.ignore_index) continue;
      double total = 0;
      for (size_t k = 0; k < c; ++k) total += std::exp(x(k));
      for (size_t k = 0; k < c; ++k) {
        const double hard = classes ? (static_cast<int64_t>(k) == label ? 1 : 0)
                                    : target.As<double>()[(n * c + k) * m + i];
        const double smooth =
            (1 - options.label_smoothing) * hard + options.label_smoothing / static_cast<double>(c);
        const double weight =
            options.class_weights.empty() ? 1 : static_cast<double>(options.class_weights[k]);
        sum -= weight * smooth * (x(k) - std::log(total));
      }
      norm += classes && !options.class_weights.empty()
                  ? static_cast<double>(options.class_weights[static_cast<size_t>(label)])
                  : 1;
    }
  }
  return options.sum ? sum : sum / norm;
}

TEST(AppendLoss, CrossEntropyIsPyTorchs) {
  const std::vector<float> weights = {1, 0.5F, 2};
  for (const bool probabilities : {false, true}) {
    for (const bool sum : {false, true}) {
      for (const double smoothing : {0.0, 0.25}) {
        for (const std::vector<float>& w : {std::vector<float>(), weights}) {
          for (const int64_t ignored : {-100, 1}) {
            TrainOptions options;
            options.loss = {.kind = probabilities ? LossKind::kCrossEntropyProbabilities
                                                  : LossKind::kCrossEntropy,
                            .sum = sum,
                            .ignore_index = ignored,
                            .label_smoothing = smoothing,
                            .class_weights = w};
            const LossRun run = RunLoss(options, kScores);
            ASSERT_TRUE(run.status.ok()) << run.status;
            const Data inputs = RandomInputs(run.graph, 3);
            EXPECT_NEAR(run.loss, CrossEntropy(options.loss, inputs.at("x"), inputs.at(kTarget)),
                        1e-9)
                << "probabilities " << probabilities << " sum " << sum << " smoothing " << smoothing
                << " weights " << w.size() << " ignored " << ignored;
          }
        }
      }
    }
  }
}

TEST(AppendLoss, AttributesAreThoseOfTheOperators) {
  TrainOptions options;
  options.loss = {.sum = true, .ignore_index = 2, .label_smoothing = 0.5};
  Node node = RunLoss(options, kScores).graph.nodes.back();
  EXPECT_EQ(node.op_type, "SmoothCrossEntropy");
  EXPECT_EQ(node.attributes.at("reduction"), Attribute(std::string("sum")));
  EXPECT_EQ(node.attributes.at("ignore_index"), Attribute(int64_t{2}));
  EXPECT_EQ(node.attributes.at("label_smoothing"), Attribute(0.5F));
  options.loss.label_smoothing = 0;
  EXPECT_EQ(RunLoss(options, kScores).graph.nodes.back().op_type, "SoftmaxCrossEntropyLoss");
  options.loss.kind = LossKind::kCrossEntropyProbabilities;
  EXPECT_EQ(RunLoss(options, kScores).graph.nodes.back().op_type,
            "SoftmaxCrossEntropyWithProbabilities");
}

TEST(AppendLoss, ClassesInTheLastAxisAreThoseOfTheTransposedScores) {
  for (const LossKind kind : {LossKind::kCrossEntropy, LossKind::kCrossEntropyProbabilities}) {
    TrainOptions options;
    options.loss = {.kind = kind, .class_axis = -1, .label_smoothing = 0.125};
    const LossRun last =
        RunLoss(options, "g (double[2,4,3] x) => (double[2,4,3] y) { y = Identity(x) }");
    ASSERT_TRUE(last.status.ok()) << last.status;
    const bool classes = kind == LossKind::kCrossEntropy;
    EXPECT_EQ(last.graph.values[At(Find(last.graph, kTarget))].type->shape,
              classes ? Shape({2, 4}) : Shape({2, 4, 3}));
    // The same data, transposed by hand.
    const Data inputs = RandomInputs(last.graph, 3);
    const auto transposed = [](const Tensor& tensor) {
      std::vector<double> values(24);
      for (size_t i = 0; i < 24; ++i) {
        values[(i / 12 * 3 + i % 3) * 4 + i / 3 % 4] = tensor.As<double>()[i];
      }
      return Tensor::FromVector<double>({2, 3, 4}, values);
    };
    const Tensor target = inputs.at(kTarget);
    EXPECT_NEAR(last.loss,
                CrossEntropy(options.loss, transposed(inputs.at("x")),
                             classes ? target : transposed(target)),
                1e-9);
  }
}

TEST(AppendLoss, CrossEntropyTakesTheScoresBeforeASoftmaxOverTheClasses) {
  const auto model = [](const std::string& axis) {
    return "g (double[2,3,4] x) => (double[2,3,4] y) { y = Softmax" + axis + "(x) }";
  };
  const double plain = RunLoss({}, kScores).loss;
  const LossRun over_classes = RunLoss({}, model(" <axis = 1> "));
  EXPECT_EQ(over_classes.loss, plain);
  EXPECT_EQ(over_classes.graph.nodes.back().inputs[0], Find(over_classes.graph, "x"));
  EXPECT_EQ(RunLoss({}, model(" <axis = -2> ")).loss, plain);
  // Over the places, and the default, the last axis: part of the model.
  for (const char* axis : {" <axis = 2> ", ""}) {
    const LossRun other = RunLoss({}, model(axis));
    EXPECT_EQ(other.graph.nodes.back().inputs[0], Find(other.graph, "y")) << axis;
  }
}

double MeanOver(const Data& inputs, double (*term)(double x, double t)) {
  const auto x = inputs.at("x").As<double>();
  const auto t = inputs.at(kTarget).As<double>();
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += term(x[i], t[i]);
  return sum / static_cast<double>(x.size());
}

TEST(AppendLoss, ElementLossesArePyTorchs) {
  const std::string model = "g (double[2,3] x) => (double[2,3] y) { y = Identity(x) }";
  const std::map<LossKind, double (*)(double, double)> terms = {
      {LossKind::kMse, [](double x, double t) { return (x - t) * (x - t); }},
      {LossKind::kL1, [](double x, double t) { return std::abs(x - t); }},
      {LossKind::kHuber,
       [](double x, double t) {
         const double e = std::abs(x - t);
         return e < 0.5 ? 0.5 * e * e : 0.5 * (e - 0.25);
       }},
      {LossKind::kBceWithLogits, [](double x, double t) {
         return -t * std::log(1 / (1 + std::exp(-x))) - (1 - t) * std::log(1 / (1 + std::exp(x)));
       }}};
  for (const auto& [kind, term] : terms) {
    TrainOptions options;
    options.loss = {.kind = kind, .huber_delta = 0.5};
    const LossRun mean = RunLoss(options, model);
    ASSERT_TRUE(mean.status.ok()) << mean.status;
    const double expected = MeanOver(RandomInputs(mean.graph, 3), term);
    EXPECT_NEAR(mean.loss, expected, 1e-9) << static_cast<int>(kind);
    options.loss.sum = true;
    EXPECT_NEAR(RunLoss(options, model).loss, 6 * expected, 1e-9) << static_cast<int>(kind);
  }
}

TEST(AppendLoss, BceTakesTheLogitsBeforeASigmoidAndWeighsPositives) {
  TrainOptions options;
  options.loss = {.kind = LossKind::kBceWithLogits, .class_weights = {1, 2, 3}};
  const LossRun run = RunLoss(options, "g (double[1,3] x) => (double[1,3] y) { y = Sigmoid(x) }",
                              {{"x", Tensor::FromVector<double>({1, 3}, {0, 1, -1})},
                               {kTarget, Tensor::FromVector<double>({1, 3}, {1, 0, 1})}});
  ASSERT_TRUE(run.status.ok()) << run.status;
  const double expected = (std::log(2) + std::log(1 + std::exp(1)) + 3 * std::log(1 + std::exp(1)));
  EXPECT_NEAR(run.loss, expected / 3, 1e-9);
}

TEST(AppendLoss, AModelMayEndInItsOwnLoss) {
  TrainOptions options;
  options.loss.kind = LossKind::kModelOutput;
  EXPECT_TRUE(
      RunLoss(options, "g (double[2] x) => (double[1] y) { y = ReduceSum(x) }").status.ok());
  const absl::Status status = RunLoss(options, kScores).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("'y'"), HasSubstr("--loss")));
}

TEST(AppendLoss, OneOfSeveralOutputsIsChosenByName) {
  const std::string model = R"(g (double[2,3] x) => (double[2,3] a, double[2,3] b) {
    a = Identity(x)
    b = Neg(x)
  })";
  TrainOptions options;
  EXPECT_THAT(std::string(RunLoss(options, model).status.message()),
              AllOf(HasSubstr("--loss-output"), HasSubstr("a, b")));
  options.loss_output = "b";
  EXPECT_TRUE(RunLoss(options, model).status.ok());
  options.loss_output = "c";
  EXPECT_THAT(std::string(RunLoss(options, model).status.message()),
              AllOf(HasSubstr("'c'"), HasSubstr("a, b")));
  EXPECT_FALSE(RunLoss(options, kScores).status.ok());
}

TEST(AppendLoss, WhatDoesNotFitIsRefused) {
  TrainOptions options;
  options.loss.class_weights = {1, 2};
  EXPECT_THAT(std::string(RunLoss(options, kScores).status.message()), HasSubstr("3 classes"));
  options.loss.class_weights.clear();
  options.loss.class_axis = 0;
  EXPECT_THAT(std::string(RunLoss(options, kScores).status.message()), HasSubstr("--class-axis"));
  options.loss.class_axis = 1;
  EXPECT_FALSE(
      RunLoss(options, "g (double[3] x) => (double[3] y) { y = Identity(x) }").status.ok());
}

TEST(AppendLoss, ANameThatTheModelHasIsNotTakenAgain) {
  const LossRun run =
      RunLoss({}, "g (double[2,3] target) => (double[2,3] loss) { loss = Neg(target) }");
  ASSERT_TRUE(run.status.ok()) << run.status;
  EXPECT_EQ(run.graph.values[At(run.graph.inputs[1])].name, "target_1");
}

}  // namespace
}  // namespace onnx_memplan::testing
