#include "emit/weights.h"

#include <cstring>

#include "support/check.h"

namespace onnx_memplan {
namespace {

// Every element type is at most this wide.
constexpr int64_t kMinAlignment = 8;

std::string_view BytesOf(const Tensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.data()), static_cast<size_t>(tensor.Bytes())};
}

void AppendLittleEndian(uint64_t value, std::string& out) {
  for (int shift = 0; shift < 64; shift += 8) out += static_cast<char>((value >> shift) & 0xff);
}

bool IsOctalDigit(char c) { return c >= '0' && c <= '7'; }

// Printable without an escape. '?' is not: two of them may start a trigraph.
bool IsPlain(char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\' && c != '?'; }

void AppendCharacter(char c, bool digit_follows, std::string& out) {
  if (IsPlain(c)) {
    out += c;
    return;
  }
  const auto byte = static_cast<unsigned char>(c);
  out += '\\';
  if (digit_follows || byte >= 64) out += static_cast<char>('0' + (byte >> 6));
  if (digit_follows || byte >= 8) out += static_cast<char>('0' + ((byte >> 3) & 7));
  out += static_cast<char>('0' + (byte & 7));
}

}  // namespace

int64_t WeightsLayout::Add(const Tensor& tensor) {
  const std::string_view bytes = BytesOf(tensor);
  const size_t hash = std::hash<std::string_view>()(bytes);
  const auto [first, last] = by_hash_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    const Placed& placed = placed_[it->second];
    if (BytesOf(placed.tensor) == bytes) return placed.offset;
  }
  const int64_t alignment = tensor.Bytes() >= 4 * alignment_ ? alignment_ : kMinAlignment;
  const int64_t offset = (bytes_ + alignment - 1) / alignment * alignment;
  by_hash_.emplace(hash, placed_.size());
  placed_.push_back({tensor, offset});
  bytes_ = offset + tensor.Bytes();
  return offset;
}

std::string WeightsLayout::Blob() const {
  std::string blob(static_cast<size_t>(bytes_), '\0');
  for (const Placed& placed : placed_) {
    const std::string_view bytes = BytesOf(placed.tensor);
    if (!bytes.empty())
      std::memcpy(&blob[static_cast<size_t>(placed.offset)], bytes.data(), bytes.size());
  }
  return blob;
}

uint64_t Fnv1a64(std::string_view bytes) {
  uint64_t hash = 14695981039346656037u;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

std::string WeightsFile(const std::string& blob) {
  std::string file = "MEMPLANW";
  file.reserve(blob.size() + static_cast<size_t>(kWeightsHeaderBytes));
  AppendLittleEndian(blob.size(), file);
  AppendLittleEndian(Fnv1a64(blob), file);
  file.resize(static_cast<size_t>(kWeightsHeaderBytes), '\0');
  return file += blob;
}

void AppendStringLiterals(std::string_view bytes, std::string& out) {
  constexpr size_t kColumns = 100;
  constexpr size_t kLongestEscape = 4;
  out.reserve(out.size() + bytes.size() * 4);
  size_t i = 0;
  do {
    const size_t line_start = out.size();
    out += "    \"";
    while (i < bytes.size() && out.size() - line_start + kLongestEscape < kColumns) {
      // At a line's end the digit that follows is in another literal; the longer form does no harm.
      const bool digit_follows = i + 1 < bytes.size() && IsOctalDigit(bytes[i + 1]);
      AppendCharacter(bytes[i], digit_follows, out);
      ++i;
    }
    out += "\"\n";
  } while (i < bytes.size());
}

}  // namespace onnx_memplan
