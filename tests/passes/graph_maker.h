// Small graphs for the tests of passes, and what they compute.
#ifndef ONNX_MEMPLAN_TESTS_PASSES_GRAPH_MAKER_H_
#define ONNX_MEMPLAN_TESTS_PASSES_GRAPH_MAKER_H_

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "onnx_memplan/graph.h"
#include "onnx_memplan/passes.h"

namespace onnx_memplan::testing {

using Attributes = std::map<std::string, Attribute, std::less<>>;

// Makes a typed graph node by node. Constants are random, the same in every run.
class GraphMaker {
 public:
  explicit GraphMaker(uint32_t seed = 1) : random_(seed) {}

  ValueId Input(Shape shape, DType dtype = DType::kFloat);
  // Uniform in [low, high).
  ValueId Constant(Shape shape, double low = -1, double high = 1);
  ValueId Scalar(double value, Shape shape = {});
  ValueId Ints(std::vector<int64_t> values);
  ValueId Floats(const std::vector<float>& values);
  // The first output. The operator's rule must accept the inputs.
  ValueId Op(std::string_view type, std::vector<ValueId> inputs, Attributes attributes = {});
  std::vector<ValueId> OpWithOutputs(std::string_view type, std::vector<ValueId> inputs,
                                     int64_t num_outputs, Attributes attributes = {});
  void Output(ValueId v) { graph_.outputs.push_back(v); }
  const Shape& ShapeOf(ValueId v) const {
    return graph_.values[static_cast<size_t>(v)].type->shape;
  }
  double Uniform(double low, double high);
  int64_t Below(int64_t limit) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(limit));
  }

  const Graph& graph() const { return graph_; }

 private:
  Graph graph_;
  std::mt19937_64 random_;
};

// Random tensors for the graph's inputs; small integers for integer types.
std::vector<Tensor> RandomInputs(const Graph& graph, uint32_t seed);

// The graph's outputs, every node run on the host.
std::vector<Tensor> RunGraph(const Graph& graph, const std::vector<Tensor>& inputs);

// Number of nodes of an operator.
int64_t Count(const Graph& graph, std::string_view op_type);
// The only node of an operator; fails the test, and gives an empty node, when there is not one.
Node Only(const Graph& graph, std::string_view op_type);

// The graph after passes: those of `names` alone, or all of them when there are none. Fails the
// test when the result is not well formed, has other inputs, output names or output types, or
// computes other outputs (to `relative` of the largest element).
Graph Optimized(const Graph& graph, const std::vector<std::string>& names = {},
                double relative = 1e-5);
Graph OptimizedWith(const PassOptions& options, const Graph& graph, double relative = 1e-5);

}  // namespace onnx_memplan::testing

#endif  // ONNX_MEMPLAN_TESTS_PASSES_GRAPH_MAKER_H_
