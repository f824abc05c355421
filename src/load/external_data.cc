#include "load/external_data.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "onnx_memplan/tensor.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

namespace fs = std::filesystem;

// `path` below `folder`, both without symbolic links and dots.
bool IsInside(const fs::path& path, const fs::path& folder) {
  const auto [end, unused] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const MappedFile>> ExternalData::Open(const std::string& location) {
  if (const auto it = files_.find(location); it != files_.end()) return it->second;
  if (folder_.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the data is in the file '", location, "', but the model was not loaded from a folder"));
  }
  const fs::path relative(location);
  const bool has_parent = std::find(relative.begin(), relative.end(), "..") != relative.end();
  std::error_code error;
  const fs::path folder = fs::weakly_canonical(folder_, error);
  const fs::path path =
      error ? fs::path() : fs::weakly_canonical(fs::path(folder_) / relative, error);
  if (location.empty() || location.find('\0') != std::string::npos || relative.is_absolute() ||
      has_parent || error || !IsInside(path, folder)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the data is in '", location,
        "', which is outside of the model's folder; for safety only files inside are read"));
  }
  ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> file, MappedFile::Open(path.string()));
  files_[location] = file;
  return file;
}

absl::StatusOr<std::shared_ptr<const std::byte>> ExternalData::Read(const std::string& location,
                                                                    int64_t offset, int64_t bytes,
                                                                    int64_t alignment) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const MappedFile> file, Open(location));
  const auto file_bytes = static_cast<int64_t>(file->bytes().size());
  if (offset < 0 || bytes < 0 || offset > file_bytes || bytes > file_bytes - offset) {
    return absl::InvalidArgumentError(absl::StrCat("needs ", bytes, " bytes from offset ", offset,
                                                   " of '", location, "', which has only ",
                                                   file_bytes, " bytes"));
  }
  const std::byte* data = file->bytes().data() + offset;
  if (reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(alignment) == 0) {
    return std::shared_ptr<const std::byte>(file, data);
  }
  std::byte* copy = nullptr;
  const Tensor owner = Tensor::Zeros({DType::kUint8, {bytes}}, &copy);
  std::memcpy(copy, data, static_cast<size_t>(bytes));
  return std::shared_ptr<const std::byte>(std::make_shared<Tensor>(owner), copy);
}

}  // namespace onnx_memplan
