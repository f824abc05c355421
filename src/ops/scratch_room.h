// How much scratch a node may have before the arena grows for it.
#ifndef ONNX_MEMPLAN_OPS_SCRATCH_ROOM_H_
#define ONNX_MEMPLAN_OPS_SCRATCH_ROOM_H_

#include <cstdint>
#include <limits>

#include "ops/node_context.h"

namespace onnx_memplan {

// An integer attribute of a node: the bytes of scratch that an earlier plan had room for
// (src/pipeline/scratch_rooms.h).
inline constexpr char kScratchRoomAttribute[] = "scratch_room_bytes";

// The scratch bytes that a node may have for speed. No limit where no plan has said one.
inline int64_t ScratchRoomBytes(const NodeContext& node) {
  return node.Int(kScratchRoomAttribute, std::numeric_limits<int64_t>::max());
}

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_OPS_SCRATCH_ROOM_H_
