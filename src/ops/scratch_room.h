// How much scratch a node may have before the arena grows for it.
#ifndef ONNX_MEMPLAN_OPS_SCRATCH_ROOM_H_
#define ONNX_MEMPLAN_OPS_SCRATCH_ROOM_H_

#include <cstdint>

#include "ops/node_context.h"

namespace onnx_memplan {

// An estimate of the scratch bytes with which a plan of the node's graph is hardly larger (by a
// fiftieth at most) than without: what other steps hold more than this one, in the order of the
// graph's nodes. Lowering comes before planning, so the order that will run is not known yet.
int64_t ScratchRoomBytes(const NodeContext& node);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_OPS_SCRATCH_ROOM_H_
