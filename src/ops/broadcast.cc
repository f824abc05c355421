#include "ops/host_kernels.h"

#include "ops/broadcast.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "kernels/binary.h"
#include "ops/parallel_axis.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

// Strides of `operand` along the dimensions of `output`; 0 where it is broadcast.
std::vector<int64_t> BroadcastStrides(const Shape& output, const Shape& operand) {
  std::vector<int64_t> strides(output.size(), 0);
  int64_t stride = 1;
  for (size_t back = 1; back <= operand.size(); ++back) {
    const int64_t extent = operand[operand.size() - back];
    if (extent != 1) strides[output.size() - back] = stride;
    stride *= extent;
  }
  return strides;
}

}  // namespace

BroadcastLoops CollapseBroadcast(const Shape& output, std::span<const Shape> operands) {
  std::vector<std::vector<int64_t>> strides;
  for (const Shape& operand : operands) strides.push_back(BroadcastStrides(output, operand));
  BroadcastLoops loops;
  loops.strides.resize(operands.size());
  for (size_t d = 0; d < output.size(); ++d) {
    if (output[d] == 1) continue;
    bool merges = !loops.dims.empty();
    for (size_t k = 0; k < operands.size() && merges; ++k) {
      merges = loops.strides[k].back() == strides[k][d] * output[d];
    }
    if (merges) {
      loops.dims.back() *= output[d];
    } else {
      loops.dims.push_back(output[d]);
    }
    for (size_t k = 0; k < operands.size(); ++k) {
      if (merges) {
        loops.strides[k].back() = strides[k][d];
      } else {
        loops.strides[k].push_back(strides[k][d]);
      }
    }
  }
  if (loops.dims.empty()) {
    loops.dims.push_back(1);
    for (std::vector<int64_t>& operand : loops.strides) operand.push_back(1);
  }
  return loops;
}

absl::Status ToKernelDims(const NodeContext& node, const std::vector<int64_t>& values,
                          int32_t (&out)[8]) {
  static_assert(kernels::kMaxRank == 8);
  if (values.size() > 8) {
    return node.Unsupported(absl::StrCat("the operands alternate in ", values.size(),
                                         " dimensions after merging; kernels take at most 8"));
  }
  for (size_t i = 0; i < values.size(); ++i) {
    ASSIGN_OR_RETURN(out[i], ToInt32(node, values[i], "a dimension or stride"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Shape> BroadcastInputs(const NodeContext& node) {
  Shape shape = node.InputShape(0);
  for (int32_t i = 1; i < node.num_inputs(); ++i) {
    const std::optional<Shape> both = rules::Broadcast(shape, node.InputShape(i));
    if (!both) {
      return node.Invalid(absl::StrCat("shapes ", ShapeToString(shape), " and ",
                                       ShapeToString(node.InputShape(i)), " do not broadcast"));
    }
    shape = *both;
  }
  return shape;
}

namespace {

absl::Status CheckOneElementType(const NodeContext& node) {
  for (int32_t i = 1; i < node.num_inputs(); ++i) {
    if (node.InputDType(i) != node.InputDType(0)) {
      return node.Invalid("the inputs must have the same element type");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<TensorType>> InferSameTypeBroadcast(const NodeContext& node) {
  RETURN_IF_ERROR(CheckOneElementType(node));
  ASSIGN_OR_RETURN(Shape shape, BroadcastInputs(node));
  return std::vector<TensorType>{{node.InputDType(0), std::move(shape)}};
}

absl::StatusOr<std::vector<TensorType>> InferComparison(const NodeContext& node) {
  RETURN_IF_ERROR(CheckOneElementType(node));
  ASSIGN_OR_RETURN(Shape shape, BroadcastInputs(node));
  return std::vector<TensorType>{{DType::kBool, std::move(shape)}};
}

std::vector<Alias> InPlaceUnbroadcast(const NodeContext& node) {
  std::vector<Alias> aliases;
  for (int32_t i = 0; i < node.num_inputs(); ++i) {
    const TensorType& type = node.InputType(i);
    if (type.NumElements() == node.OutputType(0).NumElements() &&
        type.Bytes() == node.OutputType(0).Bytes()) {
      aliases.push_back({Alias::Kind::kInPlace, 0, i, 0});
    }
  }
  return aliases;
}

namespace {

constexpr auto kSetRows = [](kernels::BinaryParams& p, int32_t begin, int32_t end) {
  p.dims[0] = end - begin;
};

}  // namespace

absl::StatusOr<KernelCall> BinaryCall(const NodeContext& node, KernelCall call, const Shape& output,
                                      KernelArg a, const Shape& a_shape, KernelArg b,
                                      const Shape& b_shape, KernelArg y) {
  const std::array operands = {a_shape, b_shape};
  const BroadcastLoops loops = CollapseBroadcast(output, operands);
  kernels::BinaryParams params = {};
  params.rank = static_cast<int32_t>(loops.dims.size());
  RETURN_IF_ERROR(ToKernelDims(node, loops.dims, params.dims));
  RETURN_IF_ERROR(ToKernelDims(node, loops.strides[0], params.a_strides));
  RETURN_IF_ERROR(ToKernelDims(node, loops.strides[1], params.b_strides));
  call.params = MakeParams(params);
  call.args = {a, b, y};
  int64_t row = 1;
  for (int32_t d = 1; d < params.rank; ++d) row *= params.dims[d];
  call.work = params.dims[0] * row * kElementWork;
  call.axes = {{.extent = params.dims[0],
                .unit = params.rank == 1 ? kVectorUnit : 1,
                .borders = {},
                .arg_steps = {params.a_strides[0], params.b_strides[0], row},
                .restrict_to = &RestrictTo<kernels::BinaryParams, kSetRows>}};
  return call;
}

absl::StatusOr<Lowering> OneBinaryCall(const NodeContext& node, absl::StatusOr<KernelCall> call) {
  RETURN_IF_ERROR(call.status());
  ASSIGN_OR_RETURN(KernelCall bound,
                   BinaryCall(node, *std::move(call), node.OutputShape(0), KernelArg::Input(0),
                              node.InputShape(0), KernelArg::Input(1), node.InputShape(1),
                              KernelArg::Output(0)));
  Lowering lowering;
  lowering.calls.push_back(std::move(bound));
  return lowering;
}

}  // namespace onnx_memplan
