// Recognising the file of weights: "MEMPLANW", the number of bytes that follow the header, their
// FNV-1a hash (both 64 bits, little endian), zeros up to 64 bytes.
#ifndef MEMPLAN_SKELETON_WEIGHTS_FILE_H_
#define MEMPLAN_SKELETON_WEIGHTS_FILE_H_

#include <cstddef>
#include <cstdint>

namespace skeleton {

constexpr size_t kWeightsHeaderBytes = 64;

inline uint64_t ReadUint64(const unsigned char* bytes) {
  uint64_t value = 0;
  for (int i = 7; i >= 0; --i) value = (value << 8) | bytes[i];
  return value;
}

// Whether `file` starts with the header of weights that have this size and hash.
inline bool HasWeightsHeader(const void* file, uint64_t payload_bytes, uint64_t hash) {
  const unsigned char* bytes = static_cast<const unsigned char*>(file);
  const char magic[] = "MEMPLANW";
  for (size_t i = 0; i < 8; ++i) {
    if (bytes[i] != static_cast<unsigned char>(magic[i])) return false;
  }
  return ReadUint64(bytes + 8) == payload_bytes && ReadUint64(bytes + 16) == hash;
}

// Whether the weights behind the header have this hash.
inline bool WeightsAreIntact(const void* file, uint64_t payload_bytes, uint64_t hash) {
  const unsigned char* payload = static_cast<const unsigned char*>(file) + kWeightsHeaderBytes;
  uint64_t actual = 14695981039346656037u;
  for (uint64_t i = 0; i < payload_bytes; ++i) actual = (actual ^ payload[i]) * 1099511628211u;
  return actual == hash;
}

}  // namespace skeleton

#endif  // MEMPLAN_SKELETON_WEIGHTS_FILE_H_
