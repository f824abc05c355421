// MaxPoolIndexed, the gradient operators of pools, and the pools' gradient rules.
//
// MaxPoolIndexed(X): MaxPool, with one output more, the last: by window, the number of the tap that
// the maximum came from, in as few bytes as that takes.
// MaxPoolIndexedGrad(dY, index), AveragePoolGrad(dY), LpPoolGrad(dY, X, Y): dX. Attributes are the
// pool's, and `input_shape`, the spatial axes of X.
#include "ops/host_kernels.h"

#include "kernels/pool_gradient.h"

#include <string>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "ops/dispatch.h"
#include "ops/families.h"
#include "ops/pool_lowering.h"
#include "ops/spatial.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

// ---- MaxPoolIndexed

absl::StatusOr<DType> IndexType(const NodeContext& node) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> taps, node.RequiredInts("kernel_shape"));
  const std::optional<int64_t> count = CheckedNumElements(taps);
  if (!count) return node.Invalid("the window is too large");
  return *count <= 256 ? DType::kUint8 : *count <= 65536 ? DType::kUint16 : DType::kInt32;
}

absl::StatusOr<std::vector<TensorType>> InferMaxPoolIndexed(const NodeContext& node) {
  ASSIGN_OR_RETURN(std::vector<TensorType> types, kMaxPool.infer(node));
  ASSIGN_OR_RETURN(const DType index, IndexType(node));
  // Output 1 of MaxPool stays where it was.
  const TensorType type = {index, types[0].shape};
  if (node.num_outputs() < 3) types.pop_back();
  types.push_back(type);
  return types;
}

// Kernel `name`<element type, index type, `lanes`>, or without lanes if empty;
// pick.operator()<T, Index>() gives it.
template <class Pick>
absl::StatusOr<KernelCall> IndexedCall(const NodeContext& node, DType index, std::string_view name,
                                       const std::string& lanes, Pick pick) {
  const std::string pattern =
      absl::StrCat("kernels::", std::string(name), "<{T}, ", std::string(DTypeCppName(index)),
                   lanes.empty() ? "" : ", ", lanes, ">");
  constexpr std::string_view kHeader = "kernels/pool_gradient.h";
  const DType dtype = node.InputDType(0);
  switch (index) {
    case DType::kUint8:
      return TypedCall<float, double>(node, dtype, kHeader, pattern, [&]<class T> {
        return pick.template operator()<T, uint8_t>();
      });
    case DType::kUint16:
      return TypedCall<float, double>(node, dtype, kHeader, pattern, [&]<class T> {
        return pick.template operator()<T, uint16_t>();
      });
    case DType::kInt32:
      return TypedCall<float, double>(node, dtype, kHeader, pattern, [&]<class T> {
        return pick.template operator()<T, int32_t>();
      });
    default:
      return node.Invalid("the index must be of the type that its window asks for");
  }
}

absl::StatusOr<Lowering> LowerMaxPoolIndexed(const NodeContext& node, const Target& target) {
  ASSIGN_OR_RETURN(const kernels::PoolParams p, MakePoolParams(node, node.InputShape(0)));
  ASSIGN_OR_RETURN(const DType index, IndexType(node));
  const bool is_float = node.InputDType(0) == DType::kFloat;
  const int32_t lanes = !is_float ? 1 : target.vector_floats >= 8 ? 8 : 4;
  ASSIGN_OR_RETURN(KernelCall call,
                   IndexedCall(node, index, "MaxPoolIndexed", absl::StrCat(lanes),
                               [lanes]<class T, class Index> {
                                 if constexpr (std::is_same_v<T, float>) {
                                   return lanes == 8
                                              ? FunctionOf<&kernels::MaxPoolIndexed<T, Index, 8>>()
                                              : FunctionOf<&kernels::MaxPoolIndexed<T, Index, 4>>();
                                 } else {
                                   return FunctionOf<&kernels::MaxPoolIndexed<T, Index, 1>>();
                                 }
                               }));
  const int32_t last = node.num_outputs() - 1;
  if (last < 1 || !node.HasOutput(last)) return node.Invalid("the output of indices is missing");
  Lowering lowering;
  if (last == 2 && node.HasOutput(1)) {
    ASSIGN_OR_RETURN(lowering, kMaxPool.lower(node, target));
  }
  call.params = MakeParams(p);
  call.args = {KernelArg::Input(0), KernelArg::Output(0), KernelArg::Output(last)};
  lowering.calls.push_back(std::move(call));
  return lowering;
}

// ---- Gradients

// The shape of dX.
absl::StatusOr<Shape> InputShape(const NodeContext& node) {
  const Shape& dy = node.InputShape(0);
  ASSIGN_OR_RETURN(const std::vector<int64_t> spatial, node.RequiredInts("input_shape"));
  if (dy.size() < 3 || spatial.size() != dy.size() - 2) {
    return node.Invalid("attribute 'input_shape' needs the spatial axes of the pool's input");
  }
  Shape shape = {dy[0], dy[1]};
  shape.insert(shape.end(), spatial.begin(), spatial.end());
  if (!CheckedNumElements(shape)) return node.Invalid("attribute 'input_shape' is no shape");
  return shape;
}

absl::StatusOr<std::vector<TensorType>> InferPoolGrad(const NodeContext& node) {
  ASSIGN_OR_RETURN(const Shape shape, InputShape(node));
  ASSIGN_OR_RETURN(const std::vector<int64_t> taps, node.RequiredInts("kernel_shape"));
  ASSIGN_OR_RETURN(const SlidingWindow window, ReadSlidingWindow(node, shape, taps));
  const Shape& dy = node.InputShape(0);
  if (Shape(dy.begin() + 2, dy.end()) != window.out_size) {
    return node.Invalid("the gradient is not of the shape that the pool's result has");
  }
  return std::vector<TensorType>{{node.InputDType(0), shape}};
}

absl::StatusOr<std::vector<TensorType>> InferMaxPoolIndexedGrad(const NodeContext& node) {
  ASSIGN_OR_RETURN(const DType index, IndexType(node));
  if (node.InputType(1) != TensorType{index, node.InputShape(0)}) {
    return node.Invalid("the indices must be those of MaxPoolIndexed, in the gradient's shape");
  }
  return InferPoolGrad(node);
}

absl::StatusOr<Lowering> LowerMaxPoolIndexedGrad(const NodeContext& node, const Target&) {
  ASSIGN_OR_RETURN(const kernels::PoolParams p, MakePoolParams(node, node.OutputShape(0)));
  ASSIGN_OR_RETURN(
      KernelCall call,
      IndexedCall(node, node.InputDType(1), "MaxPoolIndexedGrad", "", []<class T, class Index> {
        return FunctionOf<&kernels::MaxPoolIndexedGrad<T, Index>>();
      }));
  return OneCall(std::move(call), p,
                 {KernelArg::Input(0), KernelArg::Input(1), KernelArg::Output(0)});
}

absl::StatusOr<Lowering> LowerAveragePoolGrad(const NodeContext& node, const Target&) {
  ASSIGN_OR_RETURN(kernels::PoolParams p, MakePoolParams(node, node.OutputShape(0)));
  p.counts_padding = node.Int("count_include_pad", 0) != 0 ? 1 : 0;
  ASSIGN_OR_RETURN(KernelCall call,
                   (TypedCall<float, double>(node, node.InputDType(0), "kernels/pool_gradient.h",
                                             "kernels::AveragePoolGrad<{T}>", []<class T> {
                                               return FunctionOf<&kernels::AveragePoolGrad<T>>();
                                             })));
  return OneCall(std::move(call), p, {KernelArg::Input(0), KernelArg::Output(0)});
}

absl::StatusOr<std::vector<TensorType>> InferLpPoolGrad(const NodeContext& node) {
  ASSIGN_OR_RETURN(std::vector<TensorType> types, InferPoolGrad(node));
  if (node.InputType(1) != types[0] || node.InputType(2) != node.InputType(0)) {
    return node.Invalid("X must be of the gradient's result's type, Y of the gradient's");
  }
  return types;
}

absl::StatusOr<Lowering> LowerLpPoolGrad(const NodeContext& node, const Target&) {
  ASSIGN_OR_RETURN(kernels::PoolParams p, MakePoolParams(node, node.OutputShape(0)));
  ASSIGN_OR_RETURN(p.norm, ReadNorm(node));
  ASSIGN_OR_RETURN(KernelCall call,
                   (TypedCall<float, double>(node, node.InputDType(0), "kernels/pool_gradient.h",
                                             "kernels::LpPoolGrad<{T}>", []<class T> {
                                               return FunctionOf<&kernels::LpPoolGrad<T>>();
                                             })));
  return OneCall(
      std::move(call), p,
      {KernelArg::Input(0), KernelArg::Input(1), KernelArg::Input(2), KernelArg::Output(0)});
}

// ---- Rules

// The node's attributes and the spatial shape of its input.
GradientContext::Attributes WithInputShape(const GradientContext& g) {
  GradientContext::Attributes attributes = g.node().attributes;
  const Shape& x = g.ShapeOf(g.Input(0));
  attributes["input_shape"] = std::vector<int64_t>(x.begin() + 2, x.end());
  return attributes;
}

// The same for a pool whose window is the whole input.
GradientContext::Attributes OneWindow(const GradientContext& g) {
  GradientContext::Attributes attributes = WithInputShape(g);
  attributes["kernel_shape"] = attributes["input_shape"];
  return attributes;
}

absl::Status IndexedGradient(GradientContext& g, const GradientContext::Attributes& attributes) {
  if (!g.Wants(0)) return absl::OkStatus();
  const std::vector<ValueId> index = g.ExtendNode("MaxPoolIndexed", kMemplan, 1, attributes);
  RETURN_IF_ERROR(g.status());
  g.SetInputGradient(
      0, g.Add("MaxPoolIndexedGrad", {g.OutputGradient(0), index[0]}, attributes, kMemplan));
  return g.status();
}

// Of one element for each plane: without spatial axes a global pool changes nothing.
bool HasNoSpatialAxes(const GradientContext& g) { return g.ShapeOf(g.Input(0)).size() < 3; }

absl::Status MaxPoolIndexedGradient(GradientContext& g) {
  if (!g.Wants(0)) return absl::OkStatus();
  const ValueId index = g.Output(g.num_outputs() - 1);
  g.SetInputGradient(
      0, g.Add("MaxPoolIndexedGrad", {g.OutputGradient(0), index}, WithInputShape(g), kMemplan));
  return g.status();
}

}  // namespace

absl::Status MaxPoolGradient(GradientContext& g) { return IndexedGradient(g, WithInputShape(g)); }

absl::Status GlobalMaxPoolGradient(GradientContext& g) {
  if (!HasNoSpatialAxes(g)) return IndexedGradient(g, OneWindow(g));
  if (g.Wants(0)) g.SetInputGradient(0, g.OutputGradient(0));
  return g.status();
}

absl::Status AveragePoolGradient(GradientContext& g) {
  if (!g.Wants(0)) return absl::OkStatus();
  g.SetInputGradient(0,
                     g.Add("AveragePoolGrad", {g.OutputGradient(0)}, WithInputShape(g), kMemplan));
  return g.status();
}

absl::Status GlobalAveragePoolGradient(GradientContext& g) {
  if (!g.Wants(0)) return absl::OkStatus();
  const ValueId dy = g.OutputGradient(0);
  const TensorType x = g.Type(g.Input(0));
  int64_t volume = 1;
  for (size_t i = 2; i < x.shape.size(); ++i) volume *= x.shape[i];
  const ValueId share = g.Add("Mul", {dy, g.Scalar(1.0 / static_cast<double>(volume), x.dtype)});
  g.SetInputGradient(0, g.Add("Expand", {share, g.Ints(x.shape)}));
  return g.status();
}

absl::Status LpPoolGradient(GradientContext& g) {
  if (!g.Wants(0)) return absl::OkStatus();
  g.SetInputGradient(0, g.Add("LpPoolGrad", {g.OutputGradient(0), g.Input(0), g.Output(0)},
                              WithInputShape(g), kMemplan));
  return g.status();
}

absl::Status GlobalLpPoolGradient(GradientContext& g) {
  if (!g.Wants(0)) return absl::OkStatus();
  if (HasNoSpatialAxes(g)) {
    const ValueId sign = g.Add("Sign", {g.Input(0)});
    g.SetInputGradient(0, g.Add("Mul", {g.OutputGradient(0), sign}));
    return g.status();
  }
  g.SetInputGradient(0, g.Add("LpPoolGrad", {g.OutputGradient(0), g.Input(0), g.Output(0)},
                              OneWindow(g), kMemplan));
  return g.status();
}

extern const OpDef kMaxPoolIndexed = {
    .type = "MaxPoolIndexed",
    .domain = kMemplan,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 2,
    .max_outputs = 3,
    .infer = InferMaxPoolIndexed,
    .lower = LowerMaxPoolIndexed,
    .gradient = MaxPoolIndexedGradient,
};

extern const OpDef kMaxPoolIndexedGrad = {
    .type = "MaxPoolIndexedGrad",
    .domain = kMemplan,
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = InferMaxPoolIndexedGrad,
    .lower = LowerMaxPoolIndexedGrad,
};

extern const OpDef kAveragePoolGrad = {
    .type = "AveragePoolGrad",
    .domain = kMemplan,
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = InferPoolGrad,
    .lower = LowerAveragePoolGrad,
};

extern const OpDef kLpPoolGrad = {
    .type = "LpPoolGrad",
    .domain = kMemplan,
    .min_inputs = 3,
    .max_inputs = 3,
    .infer = InferLpPoolGrad,
    .lower = LowerLpPoolGrad,
};

}  // namespace onnx_memplan
