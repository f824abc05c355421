// ScatterElements and ScatterND.
#include "ops/host_kernels.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/scatter.h"
#include "ops/data_movement.h"
#include "ops/dispatch.h"
#include "ops/families.h"
#include "ops/gradient_context.h"
#include "ops/index_rules.h"
#include "ops/onnx_dtype.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

// The data may be updated in place, unless the same value also is the updates or the indices.
std::vector<Alias> ScatterAliases(const NodeContext& node) {
  const std::vector<ValueId>& inputs = node.node().inputs;
  if (inputs[0] == inputs[1] || inputs[0] == inputs[2]) return {};
  return {{Alias::Kind::kInPlace, 0, 0, 0}};
}

absl::Status CheckReduction(const NodeContext& node) {
  const std::string reduction = node.String("reduction", "none");
  if (reduction == "none" || reduction == "add" || reduction == "mul" || reduction == "max" ||
      reduction == "min") {
    return absl::OkStatus();
  }
  return node.Invalid("reduction '" + reduction + "' is not one of none, add, mul, max, min");
}

// Calls pick.operator()<T, Reduction>() for the reduction of the node: by width for "none", by type
// for the others. {R} in `pattern` is the reduction.
template <class Pick>
absl::StatusOr<KernelCall> ReductionCall(const NodeContext& node, std::string_view pattern,
                                         Pick pick) {
  const std::string reduction = node.String("reduction", "none");
  constexpr std::string_view kHeader = "kernels/scatter.h";
  const auto typed = [&]<class Reduction>(std::string_view name) {
    return TypedCall<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
                     uint64_t>(node, node.InputDType(0), kHeader, Substitute(pattern, "{R}", name),
                               [&]<class T>() { return pick.template operator()<T, Reduction>(); });
  };
  if (reduction == "add") {
    return typed.template operator()<kernels::ScatterAdd>("kernels::ScatterAdd");
  }
  if (reduction == "mul") {
    return typed.template operator()<kernels::ScatterMul>("kernels::ScatterMul");
  }
  if (reduction == "max") {
    return typed.template operator()<kernels::ScatterMax>("kernels::ScatterMax");
  }
  if (reduction == "min") {
    return typed.template operator()<kernels::ScatterMin>("kernels::ScatterMin");
  }
  return WidthCall(
      node.InputDType(0), kHeader, Substitute(pattern, "{R}", "kernels::ScatterAssign"),
      [&]<class T>() { return pick.template operator()<T, kernels::ScatterAssign>(); });
}

const std::vector<KernelArg>& ScatterArgs() {
  static const auto* args = new std::vector<KernelArg>{KernelArg::Input(0), KernelArg::Input(1),
                                                       KernelArg::Input(2), KernelArg::Output(0)};
  return *args;
}

// Of the reductions max and min: what equals the result shares its gradient evenly.
template <class Gather>
void ExtremeScatterGradient(GradientContext& g, std::string_view op_type, Gather gather) {
  const DType dtype = g.Type(g.Input(0)).dtype;
  const auto equal = [&](ValueId a, ValueId b) {
    return g.Add("Cast", {g.Add("Equal", {a, b})}, {{"to", OnnxNumberOf(dtype)}});
  };
  const ValueId data_wins = equal(g.Input(0), g.Output(0));
  const ValueId update_wins = equal(g.Input(2), gather(g.Output(0)));
  GradientContext::Attributes attributes = g.node().attributes;
  attributes["reduction"] = std::string("add");
  const ValueId count = g.Add(op_type, {data_wins, g.Input(1), update_wins}, std::move(attributes));
  const ValueId share = g.Add("Div", {g.OutputGradient(0), count});
  if (g.Wants(0)) g.SetInputGradient(0, g.Add("Mul", {share, data_wins}));
  if (g.Wants(2)) g.SetInputGradient(2, g.Add("Mul", {gather(share), update_wins}));
}

// Data and updates of a scatter. `gather` reads the updated places of a tensor of the data's shape.
//   none: what is replaced has gradient 0, its update has that of the place.
//   add: both have that of the place. max, min: see above. mul: the data's are multiplied by the
//   updates again.
template <class Gather>
absl::Status ScatterGradient(GradientContext& g, std::string_view op_type, Gather gather) {
  const ValueId dy = g.OutputGradient(0);
  const std::string reduction = g.context().String("reduction", "none");
  GradientContext::Attributes attributes = g.node().attributes;
  const Shape updates = g.ShapeOf(g.Input(2));
  const DType dtype = g.Type(dy).dtype;
  if (reduction == "mul" && g.Wants(2)) {
    return g.context().Unsupported("no gradient for the updates of reduction 'mul'");
  }
  if (reduction == "max" || reduction == "min") {
    ExtremeScatterGradient(g, op_type, gather);
    return g.status();
  }
  if (g.Wants(0) && reduction == "add") g.SetInputGradient(0, dy);
  if (g.Wants(0) && reduction != "add") {
    const ValueId factor = reduction == "mul" ? g.Input(2) : g.Zeros(updates, dtype);
    g.SetInputGradient(0, g.Add(op_type, {dy, g.Input(1), factor}, std::move(attributes)));
  }
  if (g.Wants(2)) g.SetInputGradient(2, gather(dy));
  return g.status();
}

// ---- ScatterElements

absl::StatusOr<std::vector<TensorType>> InferScatterElements(const NodeContext& node) {
  RETURN_IF_ERROR(CheckElementIndices(node));
  RETURN_IF_ERROR(CheckReduction(node));
  if (node.InputDType(2) != node.InputDType(0) || node.InputShape(2) != node.InputShape(1)) {
    return node.Invalid("updates must have the element type of data and the shape of indices");
  }
  return std::vector<TensorType>{node.InputType(0)};
}

template <class I>
absl::StatusOr<KernelCall> ScatterElementsCall(const NodeContext& node,
                                               std::string_view index_type) {
  return ReductionCall(node,
                       Substitute("kernels::ScatterElements<{T}, {I}, {R}>", "{I}", index_type),
                       []<class T, class Reduction>() {
                         return FunctionOf<&kernels::ScatterElements<T, I, Reduction>>();
                       });
}

absl::StatusOr<Lowering> LowerScatterElements(const NodeContext& node, const Target&) {
  RETURN_IF_ERROR(CheckCounts(node));
  const Shape& shape = node.InputShape(0);
  if (node.OutputType(0).NumElements() == 0) return Lowering();
  if (node.InputType(1).NumElements() == 0) return rules::LowerCopy(node, {});
  int64_t axis = node.Int("axis", 0);
  if (axis < 0) axis += static_cast<int64_t>(shape.size());
  std::vector<int64_t> strides = RowMajorStrides(shape);
  int64_t& axis_stride = strides[static_cast<size_t>(axis)];
  kernels::ScatterElementsParams params = {};
  ASSIGN_OR_RETURN(params.count,
                   ToInt32(node, node.InputType(0).NumElements(), "the number of elements"));
  ASSIGN_OR_RETURN(params.axis, ToInt32(node, shape[static_cast<size_t>(axis)], "a dimension"));
  ASSIGN_OR_RETURN(params.axis_stride, ToInt32(node, std::exchange(axis_stride, 0), "a stride"));
  RETURN_IF_ERROR(ToKernelArray(node, node.InputShape(1), 1, params.dims));
  RETURN_IF_ERROR(ToKernelArray(node, strides, 0, params.y_strides));
  ASSIGN_OR_RETURN(KernelCall call, node.InputDType(1) == DType::kInt32
                                        ? ScatterElementsCall<int32_t>(node, "int32_t")
                                        : ScatterElementsCall<int64_t>(node, "int64_t"));
  return OneCall(std::move(call), params, ScatterArgs());
}

absl::Status ScatterElementsGradient(GradientContext& g) {
  const int64_t axis = g.context().Int("axis", 0);
  return ScatterGradient(g, "ScatterElements", [&](ValueId dy) {
    return g.Add("GatherElements", {dy, g.Input(1)}, {{"axis", axis}});
  });
}

// ---- ScatterND

absl::StatusOr<std::vector<TensorType>> InferScatterNd(const NodeContext& node) {
  RETURN_IF_ERROR(CheckReduction(node));
  const Shape& data = node.InputShape(0);
  const Shape& indices = node.InputShape(1);
  if (indices.empty() || indices.back() > static_cast<int64_t>(data.size())) {
    return node.Invalid("the last dimension of indices must be at most the rank of data");
  }
  RETURN_IF_ERROR(CheckTuples(node, data, 0));
  Shape updates(indices.begin(), indices.end() - 1);
  updates.insert(updates.end(), data.begin() + indices.back(), data.end());
  if (node.InputDType(2) != node.InputDType(0) || node.InputShape(2) != updates) {
    return node.Invalid(
        absl::StrCat("updates must be ", TensorType{node.InputDType(0), updates}.ToString()));
  }
  return std::vector<TensorType>{node.InputType(0)};
}

absl::StatusOr<Lowering> LowerScatterNd(const NodeContext& node, const Target&) {
  RETURN_IF_ERROR(CheckCounts(node));
  if (node.OutputType(0).NumElements() == 0) return Lowering();
  if (node.InputType(2).NumElements() == 0) return rules::LowerCopy(node, {});
  const Shape& data = node.InputShape(0);
  const Shape& indices = node.InputShape(1);
  const auto depth = static_cast<size_t>(indices.back());
  kernels::ScatterNdParams params = {};
  ASSIGN_OR_RETURN(const int64_t tuples, CheckedProduct(node, indices, 0, indices.size() - 1));
  ASSIGN_OR_RETURN(const int64_t inner, CheckedProduct(node, data, depth, data.size()));
  ASSIGN_OR_RETURN(params.count,
                   ToInt32(node, node.InputType(0).NumElements(), "the number of elements"));
  ASSIGN_OR_RETURN(params.tuples, ToInt32(node, tuples, "the number of index tuples"));
  ASSIGN_OR_RETURN(params.inner, ToInt32(node, inner, "a product of dimensions"));
  RETURN_IF_ERROR(IndexedDims(node, data, 0, depth, params.dims, params.strides));
  params.depth = static_cast<int32_t>(depth);
  ASSIGN_OR_RETURN(
      KernelCall call,
      ReductionCall(node, "kernels::ScatterNd<{T}, {R}>", []<class T, class Reduction>() {
        return FunctionOf<&kernels::ScatterNd<T, Reduction>>();
      }));
  return OneCall(std::move(call), params, ScatterArgs());
}

absl::Status ScatterNdGradient(GradientContext& g) {
  return ScatterGradient(g, "ScatterND", [&](ValueId dy) {
    return g.Add("GatherND", {dy, g.Input(1)});
  });
}

}  // namespace

extern const OpDef kScatterElements = {
    .type = "ScatterElements",
    .min_inputs = 3,
    .max_inputs = 3,
    .infer = InferScatterElements,
    .aliases = ScatterAliases,
    .lower = LowerScatterElements,
    .gradient = ScatterElementsGradient,
};

extern const OpDef kScatterNd = {
    .type = "ScatterND",
    .min_inputs = 3,
    .max_inputs = 3,
    .infer = InferScatterNd,
    .aliases = ScatterAliases,
    .lower = LowerScatterNd,
    .gradient = ScatterNdGradient,
};

}  // namespace onnx_memplan
