// Runs one node as a target's kernels would, in memory that shows stray reads and missing writes.
#ifndef ONNX_MEMPLAN_TESTS_OPS_RUN_NODE_H_
#define ONNX_MEMPLAN_TESTS_OPS_RUN_NODE_H_

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memplan/graph.h"
#include "onnx_memplan/tensor.h"
#include "ops/kernel_call.h"
#include "ops/op_def.h"
#include "ops/parallel_axis.h"
#include "ops/target.h"
#include "support/status_macros.h"

namespace onnx_memplan {

// A graph of one node, whose inputs have data: known while planning (constant), or only at run
// time.
class NodeUnderTest {
 public:
  explicit NodeUnderTest(std::string op_type, std::string domain = "") {
    node_.op_type = std::move(op_type);
    node_.domain = std::move(domain);
    node_.name = "node";
  }

  NodeUnderTest& Input(const Tensor& tensor, bool constant) {
    const ValueId id =
        graph_.AddValue("input" + std::to_string(node_.inputs.size()), tensor.type());
    if (constant) graph_.values[static_cast<size_t>(id)].constant = tensor;
    node_.inputs.push_back(id);
    data_.push_back(tensor);
    return *this;
  }
  NodeUnderTest& NoInput() {
    node_.inputs.push_back(kNoValue);
    data_.emplace_back();
    return *this;
  }
  NodeUnderTest& Set(const std::string& name, Attribute value) {
    node_.attributes[name] = std::move(value);
    return *this;
  }
  NodeUnderTest& Outputs(int count) {
    outputs_ = count;
    return *this;
  }
  Node& node() { return node_; }

  absl::StatusOr<std::vector<TensorType>> Infer() {
    for (int i = static_cast<int>(node_.outputs.size()); i < outputs_; ++i) {
      node_.outputs.push_back(graph_.AddValue("output" + std::to_string(i)));
    }
    return InferTypes(graph_, node_);
  }

  // The lowering for `target`; the outputs get their types.
  absl::StatusOr<Lowering> Lower(const Target& target) {
    ASSIGN_OR_RETURN(const std::vector<TensorType> types, Infer());
    for (size_t i = 0; i < node_.outputs.size(); ++i) {
      graph_.values[static_cast<size_t>(node_.outputs[i])].type = types[i];
    }
    return LowerNode(graph_, node_, target);
  }

  // All outputs. With `in_place_input` >= 0, output 0 lies over that input. Memory that the node is
  // to write is full of NaN before. Internal if the node's parts for several threads, in an order
  // that is not the usual one, give other bits.
  absl::StatusOr<std::vector<Tensor>> Run(const Target& target, int32_t in_place_input = -1) {
    ASSIGN_OR_RETURN(Lowering lowering, Lower(target));
    const std::vector<Tensor> results = RunLowering(lowering, in_place_input);
    const OpDef* def = FindOp(node_.op_type, node_.domain);
    std::vector<Alias> aliases;
    if (def->aliases != nullptr) aliases = def->aliases(NodeContext(graph_, node_));
    const int32_t threads = 2 + runs_++ % 3;
    SplitCalls(threads, target.arena_alignment, aliases, lowering, /*least_work=*/1);
    for (KernelCall& call : lowering.calls) std::reverse(call.parts.begin(), call.parts.end());
    const std::vector<Tensor> shared = RunLowering(lowering, in_place_input);
    for (size_t i = 0; i < results.size(); ++i) {
      if (std::memcmp(results[i].data(), shared[i].data(),
                      static_cast<size_t>(results[i].Bytes())) != 0) {
        return absl::InternalError("output " + std::to_string(i) + " differs when " +
                                   lowering.calls.back().name + " is shared out to " +
                                   std::to_string(threads) + " threads for " + target.name);
      }
    }
    return results;
  }

 private:
  std::vector<Tensor> RunLowering(const Lowering& lowering, int32_t in_place_input) {
    std::vector<std::unique_ptr<std::byte[]>> memory;
    const auto allocate = [&](int64_t bytes) {
      memory.push_back(std::make_unique<std::byte[]>(static_cast<size_t>(bytes)));
      std::memset(memory.back().get(), 0xff, static_cast<size_t>(bytes));
      return memory.back().get();
    };
    std::vector<const std::byte*> inputs;
    for (const Tensor& tensor : data_) {
      if (tensor.data() == nullptr) {
        inputs.push_back(nullptr);
        continue;
      }
      std::byte* copy = allocate(tensor.Bytes());
      std::memcpy(copy, tensor.data(), static_cast<size_t>(tensor.Bytes()));
      inputs.push_back(copy);
    }
    std::vector<std::byte*> outputs;
    std::vector<TensorType> types;
    for (const ValueId id : node_.outputs) {
      types.push_back(*graph_.values[static_cast<size_t>(id)].type);
      outputs.push_back(allocate(types.back().Bytes()));
    }
    if (in_place_input >= 0) {
      outputs[0] = const_cast<std::byte*>(inputs[static_cast<size_t>(in_place_input)]);
    }
    std::byte* scratch = allocate(lowering.scratch_bytes);
    for (const KernelCall& call : lowering.calls) InvokeOnHost(call, inputs, outputs, scratch);
    std::vector<Tensor> results;
    for (size_t i = 0; i < outputs.size(); ++i) {
      std::byte* data = nullptr;
      results.push_back(Tensor::Zeros(types[i], &data));
      std::memcpy(data, outputs[i], static_cast<size_t>(types[i].Bytes()));
    }
    return results;
  }

  Graph graph_;
  Node node_;
  std::vector<Tensor> data_;
  int outputs_ = 1;
  static inline int32_t runs_ = 0;
};

// Uniform in [-1, 1).
inline Tensor RandomFloats(Shape shape, std::mt19937& random) {
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  std::vector<float> values(static_cast<size_t>(CheckedNumElements(shape).value()));
  for (float& value : values) value = uniform(random);
  return Tensor::FromVector<float>(std::move(shape), values);
}

// Uniform in [low, high].
inline int64_t RandomInt(int64_t low, int64_t high, std::mt19937& random) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_TESTS_OPS_RUN_NODE_H_
