// A file, read-only in memory.
#ifndef ONNX_MEMPLAN_LOAD_MAPPED_FILE_H_
#define ONNX_MEMPLAN_LOAD_MAPPED_FILE_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace onnx_memplan {

class MappedFile {
 public:
  // NotFound when there is no such file, InvalidArgument when it is not an ordinary file or cannot
  // be read.
  static absl::StatusOr<std::shared_ptr<const MappedFile>> Open(const std::string& path);

  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_LOAD_MAPPED_FILE_H_
