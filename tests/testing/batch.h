// Compiles many generated networks at a time, and runs each in a process of its own.
#ifndef ONNX_MEMPLAN_TESTS_TESTING_BATCH_H_
#define ONNX_MEMPLAN_TESTS_TESTING_BATCH_H_

#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "onnx_memplan/compile.h"
#include "testing/commands.h"

namespace onnx_memplan::testing {

// Writes the generated code of `model` and what a batch needs to call it. `id` is an identifier.
absl::Status WriteForBatch(const CompiledModel& model, const std::string& id,
                           const TemporaryFolder& folder);

struct BatchOptions {
  std::string compiler = "g++";
  std::string flags =
      "-std=c++17 -O1 -Wall -Wextra -Wconversion -Wshadow -Werror -fno-exceptions -fno-rtti";
  // The compiler knows -fstack-usage (GCC): see LargestFrame.
  bool stack_usage = false;
  size_t networks_per_batch = 40;
  size_t compilers_at_once = 2;
};

class Batches {
 public:
  // Compiles the networks with these ids, which WriteForBatch has written into `folder`. A batch
  // that does not compile is halved until the network at fault is alone.
  Batches(const TemporaryFolder& folder, const std::vector<std::string>& ids,
          const BatchOptions& options);

  // OK, or Internal with what the compiler says.
  absl::Status CompileStatus(const std::string& id) const;

  // Runs a network that compiled, in a process of its own, on exactly sized buffers between guards.
  // Internal with the reason when it dies, returns an error or writes where it must not.
  absl::StatusOr<std::vector<Tensor>> Run(const std::string& id, std::span<const Tensor> inputs,
                                          std::span<const TensorType> output_types) const;

  struct Frame {
    int64_t bytes = 0;
    std::string function;
    bool bounded = true;
  };
  // The largest stack frame of the generated functions of all batches that compiled, an unbounded
  // one if there is any. Needs BatchOptions::stack_usage.
  Frame LargestFrame() const;

 private:
  void CompileRange(std::span<const std::string> ids);

  const TemporaryFolder& folder_;
  BatchOptions options_;
  std::mutex mutex_;                                // guards the maps while several compilers run
  std::map<std::string, std::string> executables_;  // by id
  std::map<std::string, std::string> compile_errors_;  // by id
};

}  // namespace onnx_memplan::testing

#endif  // ONNX_MEMPLAN_TESTS_TESTING_BATCH_H_
