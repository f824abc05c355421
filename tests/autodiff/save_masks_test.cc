#include "autodiff/save_masks.h"

#include <gtest/gtest.h>

#include "autodiff/backward.h"
#include "autodiff/training_util.h"

namespace onnx_memplan::testing {
namespace {

struct Differentiated {
  Graph graph;  // outputs: loss, gradients
  size_t forward_nodes = 0;
};

Differentiated Differentiate(const std::string& text, const std::vector<std::string>& names) {
  Differentiated result;
  result.graph = TypedText(text);
  result.forward_nodes = result.graph.nodes.size();
  std::vector<ValueId> wanted;
  for (const std::string& name : names) wanted.push_back(Find(result.graph, name));
  const auto gradients = AddBackward(result.graph.outputs[0], wanted, result.graph);
  EXPECT_TRUE(gradients.ok()) << gradients.status();
  for (ValueId gradient : *gradients) result.graph.outputs.push_back(gradient);
  return result;
}

// Returns how many masks were saved; what the graph computes stays the same bit for bit.
int64_t SavedMasks(Differentiated& d) {
  const Graph before = d.graph;
  const size_t boundary = d.forward_nodes;
  const int64_t masks = SaveMasks(&d.forward_nodes, d.graph);
  EXPECT_EQ(d.forward_nodes, boundary + static_cast<size_t>(masks));
  EXPECT_TRUE(d.graph.Verify(/*typed=*/true).ok());
  const Data inputs = RandomInputs(before, 2);
  Data none;
  EXPECT_EQ(RunStep(before, inputs, none), RunStep(d.graph, inputs, none));
  return masks;
}

// Whether another gradient reads the result `r` of the activation depends on what is behind it.
std::string Text(const std::string& activation, const std::string& behind) {
  return R"(g (float[3,9] x, float[9,7] w) => (float loss) <float lo = {-0.5}, float hi = {0.5}> {
    a = MatMul(x, w)
    r = )" +
         activation + R"(
    s = )" +
         behind + R"(
    loss = ReduceSum <keepdims = 0> (s)
  })";
}

TEST(SaveMasks, ReluAndClipWhoseResultNothingElseReadsInTheBackwardPass) {
  for (const char* activation : {"Relu(a)", "Clip(a, lo, hi)", "Clip(a, lo)", "Clip(a, , hi)"}) {
    Differentiated d = Differentiate(Text(activation, "Neg(r)"), {"x", "w"});
    EXPECT_EQ(SavedMasks(d), 1) << activation << "\n" << d.graph.ToText();
    EXPECT_EQ(CountOf(d.graph, "MaskedGrad"), 1);
    EXPECT_EQ(CountOf(d.graph, "ReluGrad") + CountOf(d.graph, "ClipGrad"), 0);
    const Value& mask = d.graph.values[At(d.graph.nodes[d.forward_nodes - 1].outputs[0])];
    EXPECT_EQ(mask.type, (TensorType{DType::kUint8, {3}}));  // 21 bits
  }
}

TEST(SaveMasks, NotWhereTheBackwardPassReadsTheResultAnyway) {
  Differentiated d = Differentiate(Text("Relu(a)", "Mul(r, r)"), {"x", "w"});
  EXPECT_EQ(SavedMasks(d), 0);
  EXPECT_EQ(CountOf(d.graph, "ReluGrad"), 1);
}

}  // namespace
}  // namespace onnx_memplan::testing
