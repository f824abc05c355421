// The one list of passes.
#ifndef ONNX_MEMPLAN_PASSES_PASS_LIST_H_
#define ONNX_MEMPLAN_PASSES_PASS_LIST_H_

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "onnx_memplan/graph.h"
#include "onnx_memplan/passes.h"

namespace onnx_memplan {

// When a pass runs. The passes of a group run one after the other, again and again until none
// changes anything; then comes the next group.
enum PassGroup : uint8_t { kSimplify = 1, kFuse = 2, kLayout = 4, kFinish = 8 };

struct Pass {
  PassInfo info;
  uint8_t groups = kSimplify;  // PassGroup bits
  // The number of places that it changed. The graph is typed before and after.
  absl::StatusOr<int64_t> (*run)(const PassOptions& options, Graph& graph) = nullptr;
};

std::span<const Pass> PassList();

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PASSES_PASS_LIST_H_
