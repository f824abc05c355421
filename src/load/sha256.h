#ifndef ONNX_MEMPLAN_LOAD_SHA256_H_
#define ONNX_MEMPLAN_LOAD_SHA256_H_

#include <cstddef>
#include <span>
#include <string>

namespace onnx_memplan {

// The SHA-256 of `bytes`, 64 lower-case hexadecimal digits.
std::string Sha256Hex(std::span<const std::byte> bytes);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_LOAD_SHA256_H_
