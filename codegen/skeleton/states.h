// Setting, saving and restoring the block of states that a network keeps between calls.
#ifndef MEMPLAN_SKELETON_STATES_H_
#define MEMPLAN_SKELETON_STATES_H_

#include <cstddef>
#include <cstdint>

namespace skeleton {

// Bytes of the weights that are the initial value of a range of the states.
struct InitialRange {
  size_t state_offset;
  size_t weights_offset;
  size_t bytes;
};

inline void CopyBytes(void* to, const void* from, size_t bytes) {
  unsigned char* target = static_cast<unsigned char*>(to);
  const unsigned char* source = static_cast<const unsigned char*>(from);
  for (size_t i = 0; i < bytes; ++i) target[i] = source[i];
}

inline void ZeroBytes(void* to, size_t bytes) {
  unsigned char* target = static_cast<unsigned char*>(to);
  for (size_t i = 0; i < bytes; ++i) target[i] = 0;
}

// The mark behind the states says that they were set, and by which network's code.
inline bool HasMark(const void* states, size_t mark_offset, uint32_t mark) {
  const unsigned char* bytes = static_cast<const unsigned char*>(states) + mark_offset;
  uint32_t actual = 0;
  for (int i = 3; i >= 0; --i) actual = (actual << 8) | bytes[i];
  return actual == mark;
}

inline void SetMark(void* states, size_t mark_offset, uint32_t mark) {
  unsigned char* bytes = static_cast<unsigned char*>(states) + mark_offset;
  for (int i = 0; i < 4; ++i) bytes[i] = static_cast<unsigned char>((mark >> (8 * i)) & 255U);
}

}  // namespace skeleton

#endif  // MEMPLAN_SKELETON_STATES_H_
