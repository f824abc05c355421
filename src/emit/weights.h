// The constants of a program as one block of bytes, the same for every WeightsForm.
#ifndef ONNX_MEMPLAN_EMIT_WEIGHTS_H_
#define ONNX_MEMPLAN_EMIT_WEIGHTS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "onnx_memplan/tensor.h"

namespace onnx_memplan {

// Bytes before the weights in STEM_weights.bin: see WeightsFile.
inline constexpr int64_t kWeightsHeaderBytes = 64;

// Lays constants out one after another, equal bytes once.
class WeightsLayout {
 public:
  // `alignment` (a power of two) for tensors that are large against it; small ones are aligned for
  // any element type.
  explicit WeightsLayout(int64_t alignment) : alignment_(alignment) {}

  // The byte offset of the tensor's data.
  int64_t Add(const Tensor& tensor);
  int64_t bytes() const { return bytes_; }
  // All data with zeros in the gaps: bytes() bytes.
  std::string Blob() const;

 private:
  struct Placed {
    Tensor tensor;
    int64_t offset = 0;
  };
  int64_t alignment_;
  int64_t bytes_ = 0;
  std::vector<Placed> placed_;
  // Hash of the bytes -> indices into placed_. Only looked up, never walked.
  std::unordered_multimap<size_t, size_t> by_hash_;
};

// FNV-1a, 64 bits: http://www.isthe.com/chongo/tech/comp/fnv/.
uint64_t Fnv1a64(std::string_view bytes);

// STEM_weights.bin: "MEMPLANW", uint64 bytes of the blob, uint64 Fnv1a64 of the blob, zeros up to
// kWeightsHeaderBytes, the blob. Little endian.
std::string WeightsFile(const std::string& blob);

// Appends `bytes` to `out` as string literals, one a line, each line at most 100 columns. The
// literals together hold exactly `bytes`, and a terminator as every literal does. Octal escapes
// never run into a digit that follows, and no trigraph can arise.
void AppendStringLiterals(std::string_view bytes, std::string& out);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_EMIT_WEIGHTS_H_
