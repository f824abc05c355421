#include "testing/commands.h"

#include <stdlib.h>
#include <sys/wait.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "support/check.h"

namespace onnx_memplan::testing {

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "memplan_test_XXXXXX").string();
  MEMPLAN_CHECK(::mkdtemp(name.data()) != nullptr);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void TemporaryFolder::Write(std::string_view name, std::string_view bytes) const {
  std::ofstream file(path_ / name, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  MEMPLAN_CHECK_MSG(file.good(), name);
}

void TemporaryFolder::Write(const std::vector<EmittedFile>& files) const {
  for (const EmittedFile& file : files) Write(file.name, file.bytes);
}

std::string TemporaryFolder::Read(std::string_view name) const {
  std::ifstream file(path_ / name, std::ios::binary);
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

CommandResult RunCommand(const std::string& command, const TemporaryFolder& folder) {
  CommandResult result;
  const std::string line = "cd '" + folder.path().string() + "' && { " + command + "\n} 2>&1";
  std::FILE* pipe = ::popen(line.c_str(), "r");
  MEMPLAN_CHECK_MSG(pipe != nullptr, command);
  char buffer[4096];
  for (size_t n; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) {
    result.output.append(buffer, n);
  }
  const int status = ::pclose(pipe);
  result.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

bool HasProgram(const std::string& name) {
  return std::system(("command -v " + name + " > /dev/null 2>&1").c_str()) == 0;
}

}  // namespace onnx_memplan::testing
