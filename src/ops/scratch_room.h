// How much scratch a node may have before the arena grows for it.
#ifndef ONNX_MEMPLAN_OPS_SCRATCH_ROOM_H_
#define ONNX_MEMPLAN_OPS_SCRATCH_ROOM_H_

#include <cstdint>

#include "ops/node_context.h"
#include "ops/target.h"

namespace onnx_memplan {

// An integer attribute of a node: the bytes of scratch that an earlier plan had room for.
inline constexpr char kScratchRoomAttribute[] = "scratch_room_bytes";

// The scratch bytes that a node may have for speed. An estimate of those with which a plan of its
// graph is hardly larger than without: what other steps hold more than this one, in the order of
// the graph's nodes, and, but for OptimizeFor::kMemory, a fiftieth of the most that any step holds.
// Lowering comes before planning, so the order that will run is not known yet.
// OptimizeFor::kSpeed: no limit. An attribute kScratchRoomAttribute of the node says it better.
int64_t ScratchRoomBytes(const NodeContext& node, const Target& target);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_OPS_SCRATCH_ROOM_H_
