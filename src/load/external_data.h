// Tensor data in files beside the model.
#ifndef ONNX_MEMPLAN_LOAD_EXTERNAL_DATA_H_
#define ONNX_MEMPLAN_LOAD_EXTERNAL_DATA_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "load/mapped_file.h"

namespace onnx_memplan {

// Maps each file once; the data keeps its file mapped.
class ExternalData {
 public:
  // Empty `folder`: the model came without one, and every Read is refused.
  explicit ExternalData(std::string folder) : folder_(std::move(folder)) {}

  // `bytes` bytes from `offset` of the file `location` (relative to the folder), at an address that
  // is a multiple of `alignment`. InvalidArgument when the path leaves the folder (".." or a
  // symbolic link included) or the file is too short; NotFound when it is missing.
  absl::StatusOr<std::shared_ptr<const std::byte>> Read(const std::string& location, int64_t offset,
                                                        int64_t bytes, int64_t alignment);

 private:
  absl::StatusOr<std::shared_ptr<const MappedFile>> Open(const std::string& location);

  std::string folder_;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
};

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_LOAD_EXTERNAL_DATA_H_
