#include "passes/remove_channels.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "ops/op_def.h"
#include "passes/channel_classes.h"
#include "passes/match.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

class ChannelRemover {
 public:
  ChannelRemover(int64_t multiple, Graph& graph)
      : multiple_(multiple), graph_(graph), classes_(graph), goes_(classes_.needed()) {
    goes_.flip();
  }

  absl::StatusOr<int64_t> Run() {
    KeepEnough();
    const int64_t removed = CountRemoved();
    if (removed == 0) return 0;
    for (Node& node : graph_.nodes) Rewrite(node);
    // Types follow from the weights.
    for (const Node& node : graph_.nodes) {
      ASSIGN_OR_RETURN(const std::vector<TensorType> types, InferTypes(graph_, node));
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        if (node.outputs[i] != kNoValue) At(node.outputs[i]).type = types[i];
      }
    }
    graph_.Compact(std::vector<bool>(graph_.nodes.size(), false));
    return removed;
  }

 private:
  Value& At(ValueId v) { return graph_.values[static_cast<size_t>(v)]; }

  bool Goes(ValueId v, int64_t c) const {
    return goes_[static_cast<size_t>(classes_.ClassOf(v, c))];
  }

  std::vector<int64_t> Kept(ValueId v) const {
    std::vector<int64_t> kept;
    for (int64_t c = 0; c < classes_.num_channels(v); ++c) {
      if (!Goes(v, c)) kept.push_back(c);
    }
    return kept;
  }

  // How many channels of `v` are to stay when `kept` must.
  int64_t Wanted(ValueId v, int64_t kept) {
    const int64_t all = classes_.num_channels(v);
    const bool image = At(v).type->rank() >= 3;
    const int64_t multiple = image && all % multiple_ == 0 ? multiple_ : 1;
    return std::max(multiple, (kept + multiple - 1) / multiple * multiple);
  }

  // Lets classes stay until every value has as many channels as are wanted; that only ever adds
  // channels, so it ends.
  void KeepEnough() {
    for (bool changed = true; changed;) {
      changed = false;
      for (ValueId v = 0; v < static_cast<ValueId>(graph_.values.size()); ++v) {
        const int64_t all = classes_.num_channels(v);
        if (all == 0) continue;
        const auto kept = static_cast<int64_t>(Kept(v).size());
        int64_t missing = Wanted(v, kept) - kept;
        if (kept == all || missing == 0) continue;
        changed = true;
        for (int64_t c = 0; c < all && missing > 0; ++c) {
          if (!Goes(v, c)) continue;
          goes_[static_cast<size_t>(classes_.ClassOf(v, c))] = false;
          --missing;
        }
      }
    }
  }

  // Classes of values that nodes make.
  int64_t CountRemoved() {
    std::vector<bool> counted(goes_.size());
    for (const Node& node : graph_.nodes) {
      for (ValueId v : node.outputs) {
        for (int64_t c = 0; c < classes_.num_channels(v); ++c) {
          if (Goes(v, c)) counted[static_cast<size_t>(classes_.ClassOf(v, c))] = true;
        }
      }
    }
    return std::count(counted.begin(), counted.end(), true);
  }

  void SetConstant(Node& node, size_t input, Tensor tensor) {
    const ValueId old = input < node.inputs.size() ? node.inputs[input] : kNoValue;
    const std::string base = old != kNoValue ? At(old).name : At(node.outputs[0]).name + "_bias";
    if (node.inputs.size() <= input) node.inputs.resize(input + 1, kNoValue);
    node.inputs[input] = graph_.AddConstant(graph_.UniqueValueName(base), std::move(tensor));
  }

  void Rewrite(Node& node) {
    const auto touches = [this](ValueId v) {
      return static_cast<int64_t>(Kept(v).size()) < classes_.num_channels(v);
    };
    if (node.outputs.empty() || node.inputs.empty()) return;
    if (!touches(node.outputs[0]) && !touches(node.inputs[0])) return;
    if (node.Is("Conv") || node.Is("Gemm")) return RewriteLinear(node);
    if (node.Is("BatchNormalization")) return RewriteNormalization(node);
    if (node.Is("Reshape")) {
      Shape shape = At(node.outputs[0]).type->shape;
      shape[1] = static_cast<int64_t>(Kept(node.outputs[0]).size());
      SetConstant(node, 1, Tensor::VectorInt64(shape));
      node.attributes.erase("allowzero");
    }
  }

  void RewriteLinear(Node& node) {
    const ValueId x = node.inputs[0];
    const std::vector<int64_t> outputs = Kept(node.outputs[0]);
    const std::vector<int64_t> inputs = Kept(x);
    const ChannelMatrix matrix = *ChannelMatrix::Of(NodeContext(graph_, node));
    bool has_bias = node.inputs.size() > 2 && node.inputs[2] != kNoValue;
    std::vector<float> bias;
    for (int64_t o : outputs) {
      double sum = matrix.BiasOf(o);
      for (int64_t i = 0; !matrix.depthwise() && i < matrix.inputs(); ++i) {
        // A channel that is not known only goes where its weights do not count.
        const std::optional<float> value = classes_.ValueOf(x, i);
        if (!Goes(x, i) || !value || matrix.SumOf(o, i) == 0) continue;
        sum += static_cast<double>(*value) * matrix.SumOf(o, i);
        has_bias = true;
      }
      bias.push_back(static_cast<float>(sum));
    }
    Tensor weights = matrix.Select(outputs, inputs);
    if (matrix.depthwise()) node.attributes["group"] = static_cast<int64_t>(outputs.size());
    SetConstant(node, 1, std::move(weights));
    if (!has_bias) return;
    SetConstant(node, 2, Tensor::FromVector({static_cast<int64_t>(bias.size())}, bias));
    node.attributes.erase("beta");
  }

  void RewriteNormalization(Node& node) {
    const std::vector<int64_t> kept = Kept(node.outputs[0]);
    for (size_t i = 1; i < 5; ++i) {
      const Tensor old = *At(node.inputs[i]).constant;
      std::vector<float> values;
      for (int64_t c : kept) values.push_back(old.As<float>()[static_cast<size_t>(c)]);
      SetConstant(node, i, Tensor::FromVector({static_cast<int64_t>(kept.size())}, values));
    }
  }

  int64_t multiple_;
  Graph& graph_;
  const ChannelClasses classes_;
  std::vector<bool> goes_;  // by class
};

}  // namespace

absl::StatusOr<int64_t> RemoveChannels(int32_t channel_multiple, Graph& graph) {
  int64_t total = 0;
  // A channel that went may have been the only reader of another.
  while (true) {
    ASSIGN_OR_RETURN(const int64_t removed, ChannelRemover(channel_multiple, graph).Run());
    if (removed == 0) return total;
    total += removed;
  }
}

}  // namespace onnx_memplan
