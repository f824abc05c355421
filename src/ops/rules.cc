// Rules that many operators share.
#include "ops/host_kernels.h"

#include <algorithm>

#include "kernels/copy.h"
#include "ops/dispatch.h"
#include "ops/op_def.h"
#include "support/status_macros.h"

namespace onnx_memplan::rules {

absl::StatusOr<std::vector<TensorType>> SameTypeAsInput(const NodeContext& node) {
  return std::vector<TensorType>{node.InputType(0)};
}

std::vector<Alias> InPlaceFirstInput(const NodeContext& node) {
  if (node.InputType(0).Bytes() != node.OutputType(0).Bytes()) return {};
  return {{Alias::Kind::kInPlace, 0, 0, 0}};
}

std::vector<Alias> ViewOfFirstInput(const NodeContext&) { return {{Alias::Kind::kView, 0, 0, 0}}; }

absl::StatusOr<Lowering> LowerCopy(const NodeContext& node, const Target&) {
  KernelCall call;
  call.header = "kernels/copy.h";
  kernels::CopyParams params = {};
  // By element width, so that the copy is as fast as the alignment of the type allows.
  const int64_t bytes = node.InputType(0).Bytes();
  const int64_t width = DTypeBytes(node.InputDType(0));
  ASSIGN_OR_RETURN(params.count, ToInt32(node, bytes / width, "the number of elements"));
  switch (width) {
    case 1:
      call.name = "kernels::Copy<uint8_t>";
      call.function = FunctionOf<&kernels::Copy<uint8_t>>();
      break;
    case 2:
      call.name = "kernels::Copy<uint16_t>";
      call.function = FunctionOf<&kernels::Copy<uint16_t>>();
      break;
    case 4:
      call.name = "kernels::Copy<uint32_t>";
      call.function = FunctionOf<&kernels::Copy<uint32_t>>();
      break;
    default:
      call.name = "kernels::Copy<uint64_t>";
      call.function = FunctionOf<&kernels::Copy<uint64_t>>();
      break;
  }
  return OneCall(std::move(call), params, {KernelArg::Input(0), KernelArg::Output(0)});
}

std::optional<Shape> Broadcast(const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < result.size(); ++i) {
    const int64_t da = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t db = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (da != db && da != 1 && db != 1) return std::nullopt;
    result[result.size() - 1 - i] = da == 1 ? db : da;
  }
  return result;
}

}  // namespace onnx_memplan::rules
