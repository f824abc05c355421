#include "ops/host_kernels.h"

#include "ops/data_movement.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "kernels/copy.h"
#include "kernels/strided_copy.h"
#include "ops/dispatch.h"
#include "ops/parallel_axis.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

// One loop of a copy.
struct Loop {
  int64_t dim, src_stride, dst_stride;
};

// The loops of `spec` without those of one iteration, neighbours merged where both sides allow.
std::vector<Loop> MergedLoops(const StridedCopySpec& spec) {
  std::vector<Loop> loops;
  for (size_t i = 0; i < spec.dims.size(); ++i) {
    const Loop loop = {spec.dims[i], spec.src_strides[i], spec.dst_strides[i]};
    if (loop.dim == 1) continue;
    if (!loops.empty() && loops.back().src_stride == loop.src_stride * loop.dim &&
        loops.back().dst_stride == loop.dst_stride * loop.dim) {
      loops.back() = {loops.back().dim * loop.dim, loop.src_stride, loop.dst_stride};
    } else {
      loops.push_back(loop);
    }
  }
  return loops;
}

bool IsEmpty(const StridedCopySpec& spec) {
  return std::find(spec.dims.begin(), spec.dims.end(), 0) != spec.dims.end();
}

// Innermost the loop along which the destination runs, next to it the one along which the source
// runs; the others by falling destination stride.
void OrderLoops(std::vector<Loop>* loops) {
  std::stable_sort(loops->begin(), loops->end(), [](const Loop& a, const Loop& b) {
    return std::abs(a.dst_stride) > std::abs(b.dst_stride);
  });
  if (loops->size() < 3) return;
  size_t best = loops->size() - 1;
  for (size_t i = 0; i < loops->size(); ++i) {
    const int64_t stride = std::abs((*loops)[i].src_stride);
    if (stride != 0 &&
        (stride < std::abs((*loops)[best].src_stride) || (*loops)[best].src_stride == 0)) {
      best = i;
    }
  }
  if (best + 1 == loops->size()) return;
  const Loop inner = (*loops)[best];
  loops->erase(loops->begin() + static_cast<ptrdiff_t>(best));
  loops->insert(loops->end() - 1, inner);
}

}  // namespace

std::vector<int64_t> RowMajorStrides(const Shape& shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    if (__builtin_mul_overflow(stride, shape[i], &stride)) stride = 0;
  }
  return strides;
}

StridedCopySpec GatheringCopy(const Shape& dims, std::vector<int64_t> src_strides,
                              int64_t src_offset) {
  return {dims, std::move(src_strides), RowMajorStrides(dims), src_offset, 0};
}

std::optional<int64_t> ContiguousOffset(const StridedCopySpec& spec) {
  if (IsEmpty(spec)) return 0;
  if (spec.dst_offset != 0) return std::nullopt;
  const std::vector<Loop> loops = MergedLoops(spec);
  if (loops.size() > 1) return std::nullopt;
  if (loops.size() == 1 && (loops[0].src_stride != 1 || loops[0].dst_stride != 1)) {
    return std::nullopt;
  }
  return spec.src_offset;
}

std::vector<Alias> ViewIfContiguous(const NodeContext& node, const StridedCopySpec& spec,
                                    int32_t input, int32_t output) {
  const std::optional<int64_t> offset = ContiguousOffset(spec);
  if (!offset) return {};
  return {{Alias::Kind::kView, output, input, *offset * DTypeBytes(node.InputDType(input))}};
}

namespace {

// Threads may share the outermost loop of a copy.
void ShareOut(const kernels::StridedCopyParams& p, KernelCall& call) {
  constexpr auto kSetLoop = [](kernels::StridedCopyParams& part, int32_t begin, int32_t end) {
    part.dims[OutermostLoop(part.dims)] = end - begin;
  };
  const size_t loop = OutermostLoop(p.dims);
  call.work = kElementWork;
  for (const int32_t dim : p.dims) call.work *= dim;
  call.axes = {{.extent = p.dims[loop],
                .unit = loop + 1 == std::size(p.dims) ? kVectorUnit : 1,
                .borders = {},
                .arg_steps = {p.src_strides[loop], p.dst_strides[loop]},
                .restrict_to = &RestrictTo<kernels::StridedCopyParams, kSetLoop>}};
}

}  // namespace

absl::Status AppendStridedCopy(const NodeContext& node, DType dtype, const StridedCopySpec& spec,
                               KernelArg src, KernelArg dst, Lowering* lowering) {
  if (IsEmpty(spec)) return absl::OkStatus();
  std::vector<Loop> loops = MergedLoops(spec);
  if (loops.empty()) loops.push_back({1, 1, 1});
  OrderLoops(&loops);
  if (loops.size() > static_cast<size_t>(kernels::kMaxRank)) {
    return node.Unsupported(absl::StrCat("the copy has ", loops.size(),
                                         " dimensions that cannot be merged; kernels take ",
                                         kernels::kMaxRank));
  }
  kernels::StridedCopyParams params = {};
  std::fill(std::begin(params.dims), std::end(params.dims), 1);
  const size_t pad = static_cast<size_t>(kernels::kMaxRank) - loops.size();
  for (size_t i = 0; i < loops.size(); ++i) {
    ASSIGN_OR_RETURN(params.dims[pad + i], ToInt32(node, loops[i].dim, "a dimension"));
    ASSIGN_OR_RETURN(params.src_strides[pad + i], ToInt32(node, loops[i].src_stride, "a stride"));
    ASSIGN_OR_RETURN(params.dst_strides[pad + i], ToInt32(node, loops[i].dst_stride, "a stride"));
  }
  ASSIGN_OR_RETURN(params.src_offset, ToInt32(node, spec.src_offset, "an offset"));
  ASSIGN_OR_RETURN(params.dst_offset, ToInt32(node, spec.dst_offset, "an offset"));
  KernelCall call = WidthCall(dtype, "kernels/strided_copy.h", "kernels::StridedCopy<{T}>",
                              []<class T>() { return FunctionOf<&kernels::StridedCopy<T>>(); });
  call.params = MakeParams(params);
  call.args = {src, dst};
  ShareOut(params, call);
  lowering->calls.push_back(std::move(call));
  return absl::OkStatus();
}

absl::StatusOr<Lowering> LowerStridedCopy(const NodeContext& node, const StridedCopySpec& spec) {
  Lowering lowering;
  RETURN_IF_ERROR(
      ToInt32(node, node.InputType(0).NumElements(), "the number of input elements").status());
  RETURN_IF_ERROR(
      ToInt32(node, node.OutputType(0).NumElements(), "the number of output elements").status());
  RETURN_IF_ERROR(AppendStridedCopy(node, node.InputDType(0), spec, KernelArg::Input(0),
                                    KernelArg::Output(0), &lowering));
  return lowering;
}

absl::Status AppendKnownOutput(const NodeContext& node, int32_t i, Tensor value,
                               Lowering* lowering) {
  kernels::CopyParams params = {};
  ASSIGN_OR_RETURN(params.count, ToInt32(node, value.NumElements(), "the number of elements"));
  if (params.count == 0) return absl::OkStatus();
  KernelCall call = WidthCall(value.dtype(), "kernels/copy.h", "kernels::Copy<{T}>",
                              []<class T>() { return FunctionOf<&kernels::Copy<T>>(); });
  call.constants.push_back(std::move(value));
  call.params = MakeParams(params);
  call.args = {KernelArg::Constant(0), KernelArg::Output(i)};
  lowering->calls.push_back(std::move(call));
  return absl::OkStatus();
}

absl::StatusOr<Lowering> LowerKnownOutput(const NodeContext& node, Tensor value) {
  Lowering lowering;
  RETURN_IF_ERROR(AppendKnownOutput(node, 0, std::move(value), &lowering));
  return lowering;
}

absl::StatusOr<int64_t> CheckedProduct(const NodeContext& node, const Shape& shape, size_t begin,
                                       size_t end) {
  const auto first = shape.begin() + static_cast<ptrdiff_t>(begin);
  const std::optional<int64_t> product =
      CheckedNumElements(Shape(first, shape.begin() + static_cast<ptrdiff_t>(end)));
  if (!product) return node.Invalid("a product of dimensions does not fit in 63 bits");
  return *product;
}

absl::Status ToKernelArray(const NodeContext& node, const std::vector<int64_t>& values,
                           int32_t fill, int32_t (&out)[8]) {
  static_assert(kernels::kMaxRank == 8);
  if (values.size() > 8) {
    return node.Unsupported(
        absl::StrCat("a tensor of rank ", values.size(), "; kernels take 8 dimensions at most"));
  }
  std::fill(std::begin(out), std::end(out), fill);
  for (size_t i = 0; i < values.size(); ++i) {
    ASSIGN_OR_RETURN(out[8 - values.size() + i], ToInt32(node, values[i], "a dimension"));
  }
  return absl::OkStatus();
}

}  // namespace onnx_memplan
