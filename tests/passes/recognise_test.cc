#include <gtest/gtest.h>

#include <cmath>

#include "passes/graph_maker.h"

namespace onnx_memplan::testing {
namespace {

TEST(RecogniseActivations, GeluWithErfInEveryOrder) {
  for (int variant = 0; variant < 4; ++variant) {
    GraphMaker make;
    const ValueId x = make.Op("Neg", {make.Input({3, 4})});
    const ValueId argument = variant % 2 == 0 ? make.Op("Div", {x, make.Scalar(std::sqrt(2.0))})
                                              : make.Op("Mul", {make.Scalar(std::sqrt(0.5)), x});
    const ValueId gate = make.Op("Add", {make.Op("Erf", {argument}), make.Scalar(1, {1})});
    ValueId y;
    switch (variant) {
      case 0:
        y = make.Op("Mul", {make.Op("Mul", {x, gate}), make.Scalar(0.5)});
        break;
      case 1:
        y = make.Op("Mul", {make.Op("Mul", {x, make.Scalar(0.5)}), gate});
        break;
      case 2:
        y = make.Op("Mul", {x, make.Op("Mul", {gate, make.Scalar(0.5)})});
        break;
      default:
        y = make.Op("Div", {make.Op("Mul", {gate, x}), make.Scalar(2)});
    }
    make.Output(y);
    const Graph after = Optimized(make.graph(), {"recognise-activations"});
    EXPECT_EQ(after.nodes.size(), 2u) << after.ToText();
    EXPECT_EQ(Count(after, "Gelu"), 1);
  }
}

TEST(RecogniseActivations, GeluWithTanhOfACubic) {
  const double root = std::sqrt(2 / std::acos(-1.0));
  for (int variant = 0; variant < 3; ++variant) {
    GraphMaker make;
    const ValueId x = make.Op("Neg", {make.Input({3, 4})});
    ValueId argument;
    if (variant == 0) {
      const ValueId cube = make.Op("Pow", {x, make.Scalar(3)});
      argument = make.Op("Mul", {make.Op("Add", {x, make.Op("Mul", {cube, make.Scalar(0.044715)})}),
                                 make.Scalar(root)});
    } else if (variant == 1) {
      const ValueId square = make.Op("Mul", {x, x});
      const ValueId inner =
          make.Op("Add", {make.Op("Mul", {square, make.Scalar(0.044715)}), make.Scalar(1)});
      argument = make.Op("Mul", {make.Op("Mul", {x, make.Scalar(root)}), inner});
    } else {
      const ValueId cube = make.Op("Mul", {make.Op("Mul", {x, x}), x});
      argument = make.Op("Add", {make.Op("Mul", {x, make.Scalar(root)}),
                                 make.Op("Mul", {make.Scalar(root * 0.044715), cube})});
    }
    const ValueId gate = make.Op("Add", {make.Scalar(1), make.Op("Tanh", {argument})});
    make.Output(make.Op("Mul", {make.Op("Mul", {x, make.Scalar(0.5)}), gate}));
    const Graph after = Optimized(make.graph(), {"recognise-activations"});
    EXPECT_EQ(after.nodes.size(), 2u) << after.ToText();
    EXPECT_EQ(std::get<std::string>(Only(after, "Gelu").attributes.at("approximate")), "tanh");
  }
}

TEST(RecogniseActivations, OtherConstantsAreNotGelu) {
  GraphMaker make;
  const ValueId x = make.Op("Neg", {make.Input({3, 4})});
  const ValueId erf = make.Op("Erf", {make.Op("Mul", {x, make.Scalar(0.7)})});
  make.Output(make.Op(
      "Mul", {make.Op("Mul", {x, make.Op("Add", {erf, make.Scalar(1)})}), make.Scalar(0.5)}));
  EXPECT_EQ(Count(Optimized(make.graph()), "Gelu"), 0);
}

TEST(RecogniseActivations, AnotherOperandIsNotGelu) {
  GraphMaker make;
  const ValueId x = make.Op("Neg", {make.Input({3, 4})});
  const ValueId erf = make.Op("Erf", {make.Op("Mul", {x, make.Scalar(std::sqrt(0.5))})});
  const ValueId gate = make.Op("Mul", {make.Op("Add", {erf, make.Scalar(1)}), make.Scalar(0.5)});
  make.Output(make.Op("Mul", {make.Input({3, 4}), gate}));
  make.Output(make.Op("Mul", {make.Input({2, 3, 4}), gate}));
  EXPECT_EQ(Count(Optimized(make.graph()), "Gelu"), 0);
}

TEST(RecogniseActivations, GateThatIsReadElsewhereStays) {
  GraphMaker make;
  const ValueId x = make.Op("Neg", {make.Input({3, 4})});
  const ValueId erf = make.Op("Erf", {make.Op("Mul", {x, make.Scalar(std::sqrt(0.5))})});
  const ValueId gate = make.Op("Mul", {make.Op("Add", {erf, make.Scalar(1)}), make.Scalar(0.5)});
  make.Output(make.Op("Mul", {x, gate}));
  make.Output(erf);
  Optimized(make.graph());
}

TEST(RecogniseActivations, HardSwishFromClipOrHardSigmoid) {
  for (int variant = 0; variant < 3; ++variant) {
    GraphMaker make;
    const ValueId x = make.Op("Neg", {make.Input({3, 4})});
    const ValueId clip =
        make.Op("Clip", {make.Op("Add", {x, make.Scalar(3)}), make.Scalar(0), make.Scalar(6)});
    if (variant == 0) {
      make.Output(make.Op("Div", {make.Op("Mul", {x, clip}), make.Scalar(6)}));
    } else if (variant == 1) {
      make.Output(make.Op("Mul", {make.Op("Mul", {clip, make.Scalar(1.0 / 6)}), x}));
    } else {
      const ValueId gate = make.Op("HardSigmoid", {x}, {{"alpha", 1.0F / 6}, {"beta", 0.5F}});
      make.Output(make.Op("Mul", {x, gate}));
    }
    const Graph after = Optimized(make.graph());
    EXPECT_EQ(after.nodes.size(), 2u) << after.ToText();
    EXPECT_EQ(Count(after, "HardSwish"), 1);
  }
}

TEST(RecogniseActivations, HardSigmoidThatGatesAnotherTensor) {
  GraphMaker make;
  const ValueId x = make.Op("Neg", {make.Input({3, 1})});
  const ValueId clip =
      make.Op("Clip", {make.Op("Add", {x, make.Scalar(3)}), make.Scalar(0), make.Scalar(6)});
  const ValueId gate = make.Op("Div", {clip, make.Scalar(6)});
  make.Output(make.Op("Mul", {make.Input({3, 4}), gate}));
  EXPECT_EQ(Count(Optimized(make.graph()), "HardSigmoid"), 1);
}

TEST(RecogniseActivations, Mish) {
  GraphMaker make;
  const ValueId x = make.Op("Neg", {make.Input({3, 4})});
  make.Output(make.Op("Mul", {x, make.Op("Tanh", {make.Op("Softplus", {x})})}));
  EXPECT_EQ(Optimized(make.graph()).nodes.size(), 2u);
}

// variant: how square, root and quotient are written.
ValueId Normalised(GraphMaker& make, ValueId x, std::vector<int64_t> axes, int variant) {
  const ValueId mean = make.Op("ReduceMean", {x, make.Ints(axes)});
  const ValueId d = make.Op("Sub", {x, mean});
  const ValueId e = variant == 1 ? make.Op("Sub", {x, mean}) : d;
  const ValueId square =
      variant == 2 ? make.Op("Mul", {e, e}) : make.Op("Pow", {e, make.Scalar(2)});
  const ValueId variance = make.Op("ReduceMean", {square, make.Ints(axes)});
  const ValueId sum = make.Op("Add", {variance, make.Scalar(1e-5)});
  if (variant == 2) return make.Op("Mul", {d, make.Op("Reciprocal", {make.Op("Sqrt", {sum})})});
  if (variant == 3) return make.Op("Mul", {make.Op("Pow", {sum, make.Scalar(-0.5)}), d});
  return make.Op("Div", {d, make.Op("Sqrt", {sum})});
}

TEST(RecogniseLayerNormalization, InEveryWriting) {
  for (int variant = 0; variant < 4; ++variant) {
    GraphMaker make;
    const ValueId x = make.Op("Neg", {make.Input({2, 3, 8})});
    ValueId v = Normalised(make, x, {-1}, variant);
    v = make.Op("Mul", {v, make.Constant({8})});
    make.Output(make.Op("Add", {v, make.Constant({8})}));
    const Graph after = Optimized(make.graph());
    EXPECT_EQ(after.nodes.size(), 2u) << after.ToText();
    EXPECT_EQ(Only(after, "LayerNormalization").inputs.size(), 3u);
  }
}

TEST(RecogniseLayerNormalization, OverTheLastTwoDimensions) {
  GraphMaker make;
  const ValueId x = make.Op("Neg", {make.Input({2, 3, 8})});
  make.Output(Normalised(make, x, {1, 2}, 0));
  EXPECT_EQ(Count(Optimized(make.graph()), "LayerNormalization"), 1);
}

TEST(RecogniseLayerNormalization, NotOverOtherDimensions) {
  GraphMaker make;
  const ValueId x = make.Op("Neg", {make.Input({2, 3, 8})});
  make.Output(Normalised(make, x, {1}, 0));
  EXPECT_EQ(Count(Optimized(make.graph()), "LayerNormalization"), 0);
}

TEST(RecogniseSoftmax, WithAndWithoutTheMaximumTakenOff) {
  for (const bool centred : {false, true}) {
    GraphMaker make;
    ValueId x = make.Op("Neg", {make.Input({2, 3, 8})});
    if (centred) x = make.Op("Sub", {x, make.Op("ReduceMax", {x, make.Ints({1})})});
    const ValueId e = make.Op("Exp", {x});
    make.Output(make.Op("Div", {e, make.Op("ReduceSum", {e, make.Ints({1})})}));
    const Graph after = Optimized(make.graph());
    EXPECT_EQ(after.nodes.size(), 2u) << after.ToText();
  }
}

TEST(RecogniseSoftmax, LogOfSoftmax) {
  GraphMaker make;
  const ValueId x = make.Input({2, 3, 8});
  make.Output(make.Op("Log", {make.Op("Softmax", {x}, {{"axis", int64_t{1}}})}));
  EXPECT_EQ(Count(Optimized(make.graph()), "LogSoftmax"), 1);
}

TEST(Canonicalise, SpatialMeansAreGlobalAveragePools) {
  for (const int64_t keep : {0, 1}) {
    GraphMaker make;
    const ValueId x = make.Input({2, 3, 4, 5});
    make.Output(make.Op("ReduceMean", {x, make.Ints({-1, 2})}, {{"keepdims", keep}}));
    make.Output(make.Op("ReduceMean", {x, make.Ints({1, 2})}, {{"keepdims", keep}}));
    EXPECT_EQ(Count(Optimized(make.graph()), "GlobalAveragePool"), 1);
  }
}

TEST(Canonicalise, AveragePoolOfTheWholeImage) {
  GraphMaker make;
  const ValueId x = make.Input({2, 3, 4, 5});
  make.Output(make.Op("AveragePool", {x}, {{"kernel_shape", std::vector<int64_t>{4, 5}}}));
  EXPECT_EQ(Count(Optimized(make.graph()), "GlobalAveragePool"), 1);
}

}  // namespace
}  // namespace onnx_memplan::testing
