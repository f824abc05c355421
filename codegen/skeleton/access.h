// Addresses of tensors inside the arena, the weights and the caller's buffers.
#ifndef MEMPLAN_SKELETON_ACCESS_H_
#define MEMPLAN_SKELETON_ACCESS_H_

#include <cstddef>
#include <cstdint>

namespace skeleton {

template <class T>
inline T* At(void* base, size_t byte_offset) {
  return static_cast<T*>(static_cast<void*>(static_cast<unsigned char*>(base) + byte_offset));
}

template <class T>
inline const T* At(const void* base, size_t byte_offset) {
  return static_cast<const T*>(
      static_cast<const void*>(static_cast<const unsigned char*>(base) + byte_offset));
}

// `base`, of which the compiler no longer knows which object it is. With known addresses GCC 12
// makes copies of each step for them, and its choice of induction variables then goes wrong where
// source and target lie in one array (seen at -O2: a transposition that copied straight; right with
// -fno-ivopts).
inline void* Opaque(void* base) {
  __asm__("" : "+r"(base));
  return base;
}

inline const void* Opaque(const void* base) {
  __asm__("" : "+r"(base));
  return base;
}

// True if `pointer` is a multiple of `alignment`, a power of two.
inline bool IsAligned(const void* pointer, size_t alignment) {
  return (reinterpret_cast<uintptr_t>(pointer) & (alignment - 1)) == 0;
}

}  // namespace skeleton

#endif  // MEMPLAN_SKELETON_ACCESS_H_
