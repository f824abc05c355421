#ifndef ONNX_MEMPLAN_TESTS_LOAD_TEMP_FOLDER_H_
#define ONNX_MEMPLAN_TESTS_LOAD_TEMP_FOLDER_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace onnx_memplan::testing {

// A folder of this process and test, gone with the object.
class TempFolder {
 public:
  TempFolder()
      : path_(::testing::TempDir() + "onnx_memplan_" + std::to_string(::getpid()) + "_" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::create_directories(path_);
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  // The path of a file in it, with these bytes.
  std::string Write(const std::string& name, const std::string& bytes) const {
    const std::string file = path_ + "/" + name;
    std::ofstream(file, std::ios::binary) << bytes;
    return file;
  }

 private:
  std::string path_;
};

}  // namespace onnx_memplan::testing

#endif  // ONNX_MEMPLAN_TESTS_LOAD_TEMP_FOLDER_H_
