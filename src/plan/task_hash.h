// Hashes of sets of tasks: the exclusive or of one number for each task.
#ifndef ONNX_MEMPLAN_PLAN_TASK_HASH_H_
#define ONNX_MEMPLAN_PLAN_TASK_HASH_H_

#include <cstdint>

namespace onnx_memplan {

// splitmix64 of the index: the same on every machine.
inline uint64_t TaskHash(int32_t task) {
  uint64_t x = static_cast<uint64_t>(task) + 1;
  x *= 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_TASK_HASH_H_
