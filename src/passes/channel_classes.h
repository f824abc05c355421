// What is known of each channel of a graph's tensors, and which channels must stay or go together.
#ifndef ONNX_MEMPLAN_PASSES_CHANNEL_CLASSES_H_
#define ONNX_MEMPLAN_PASSES_CHANNEL_CLASSES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "onnx_memplan/graph.h"
#include "ops/node_context.h"

namespace onnx_memplan {

class ChannelMatrix;

// Index 1 of a float tensor of rank 2 or more. Channels that an operator handles one by one, in
// step, are of one class (channel 3 before and behind a Relu; of both operands of an Add).
class ChannelClasses {
 public:
  // Follows the channels through all nodes. The graph is typed.
  explicit ChannelClasses(const Graph& graph);

  // 0 for values without channels.
  int64_t num_channels(ValueId v) const;
  // The value that all elements of channel `c` have; nullopt: it is not known.
  std::optional<float> ValueOf(ValueId v, int64_t c) const;
  // A number below num_classes(), the same for channels of one class.
  int32_t ClassOf(ValueId v, int64_t c) const;
  int32_t num_classes() const { return static_cast<int32_t>(parent_.size()); }
  // By class: some reader needs its channels, or they cannot be told apart from others.
  const std::vector<bool>& needed() const { return needed_; }

 private:
  bool Visit(const NodeContext& node);
  bool VisitLinear(const NodeContext& node);
  void FollowRow(ValueId x, ValueId y, const ChannelMatrix& matrix, int64_t o);
  bool VisitUnary(const NodeContext& node);
  bool VisitBinary(const NodeContext& node);
  bool VisitPool(const NodeContext& node);
  bool VisitBatchNormalization(const NodeContext& node);
  bool VisitConcat(const NodeContext& node);
  bool VisitReshape(const NodeContext& node);
  bool VisitInStep(const NodeContext& node, bool keeps_values);

  int32_t SlotOf(ValueId v, int64_t c) const {
    return first_[static_cast<size_t>(v)] + static_cast<int32_t>(c);
  }
  bool HasChannels(const NodeContext& node, int32_t input) const;
  int32_t Root(int32_t slot) const;
  void Join(int32_t a, int32_t b);
  void Need(ValueId v);
  void Need(ValueId v, int64_t c);
  void SetValue(ValueId v, int64_t c, double value);

  std::vector<int32_t> first_;               // by value: the slot of its first channel
  std::vector<int64_t> count_;               // by value: its channels
  mutable std::vector<int32_t> parent_;      // by slot: union-find
  std::vector<std::optional<float>> known_;  // by slot
  std::vector<bool> needed_;                 // by slot, then by class
};

// A Conv or Gemm with known weights as a matrix of channels: output channel `o` reads input channel
// `i` through some weights, which add up where the input channel has one value.
class ChannelMatrix {
 public:
  // nullopt: weights or bias are not known, or the node has an epilogue, several groups, ...
  // A depthwise Conv counts as one input channel for each output channel.
  static std::optional<ChannelMatrix> Of(const NodeContext& node);

  bool depthwise() const { return depthwise_; }
  int64_t inputs() const { return inputs_; }
  int64_t outputs() const { return outputs_; }
  // No window reaches past the input.
  bool unpadded() const { return unpadded_; }
  // Of the weights between the two, times Gemm's alpha: the sum of their magnitudes, and their sum.
  double MagnitudeOf(int64_t o, int64_t i) const;
  double SumOf(int64_t o, int64_t i) const;
  // MagnitudeOf, added up over inputs or outputs.
  std::vector<double> MagnitudesByOutput() const;
  std::vector<double> MagnitudesByInput() const;
  double BiasOf(int64_t o) const { return bias_.empty() ? 0.0 : bias_[static_cast<size_t>(o)]; }

  // The weights of the channels that are kept, in the operator's own layout. For a depthwise Conv
  // `kept_inputs` is not read.
  Tensor Select(const std::vector<int64_t>& kept_outputs,
                const std::vector<int64_t>& kept_inputs) const;

 private:
  size_t At(int64_t o, int64_t i) const {
    return static_cast<size_t>(o * output_stride_ + i * input_stride_);
  }

  std::vector<double> Magnitudes(bool by_output) const;

  const float* weights_ = nullptr;
  Shape shape_;
  bool depthwise_ = false;
  bool unpadded_ = true;
  bool rows_are_outputs_ = true;
  int64_t inputs_ = 0;
  int64_t outputs_ = 0;
  int64_t taps_ = 1;
  int64_t output_stride_ = 0;
  int64_t input_stride_ = 0;
  double alpha_ = 1;
  std::vector<double> bias_;  // with Gemm's beta
};

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PASSES_CHANNEL_CLASSES_H_
