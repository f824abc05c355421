// What a choice between two implementations is decided by.
#ifndef ONNX_MEMPLAN_OPTIMIZE_H_
#define ONNX_MEMPLAN_OPTIMIZE_H_

#include <cstdint>

namespace onnx_memplan {

enum class OptimizeFor : uint8_t {
  // Speed, as far as the arena grows by no more than 3 % over the smallest one.
  kBalanced,
  // Speed alone: working memory and transformed weights as large as pays.
  kSpeed,
  // Flash: no transformed weights that are larger than the model's.
  kSize,
  // RAM: the smallest arena.
  kMemory,
};

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_OPTIMIZE_H_
