// Replays what tests/fuzz/load_fuzz.cc found: each of these files once crashed something.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "fuzz/load_one.h"

namespace onnx_memplan {
namespace {

TEST(FuzzFindingsTest, NoneOfThemCrashes) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(
           std::string(ONNX_MEMPLAN_SOURCE_DIR) + "/tests/fuzz/load_findings", error)) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const auto& path : files) {
    SCOPED_TRACE(path);
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    testing::LoadOne(std::as_bytes(std::span(bytes.data(), bytes.size())));
  }
}

}  // namespace
}  // namespace onnx_memplan
