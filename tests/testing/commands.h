// Files and commands in a temporary folder: for tests that compile and run generated code.
#ifndef ONNX_MEMPLAN_TESTS_TESTING_COMMANDS_H_
#define ONNX_MEMPLAN_TESTS_TESTING_COMMANDS_H_

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "onnx_memplan/emit.h"

namespace onnx_memplan::testing {

// A new empty folder, removed with its content when the object goes.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string File(std::string_view name) const { return (path_ / name).string(); }
  void Write(std::string_view name, std::string_view bytes) const;
  void Write(const std::vector<EmittedFile>& files) const;
  std::string Read(std::string_view name) const;

 private:
  std::filesystem::path path_;
};

struct CommandResult {
  int exit_status = -1;  // 128 + signal for a command that died of one
  std::string output;    // standard output and error
};

// Runs a shell command in `folder`.
CommandResult RunCommand(const std::string& command, const TemporaryFolder& folder);

// Whether the program is in PATH.
bool HasProgram(const std::string& name);

}  // namespace onnx_memplan::testing

#endif  // ONNX_MEMPLAN_TESTS_TESTING_COMMANDS_H_
