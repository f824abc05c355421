// Ten training steps by compiled generated code.
#ifndef ONNX_MEMPLAN_TESTS_CORPUS_TRAINING_GENERATED_H_
#define ONNX_MEMPLAN_TESTS_CORPUS_TRAINING_GENERATED_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "corpus/training_case.h"
#include "onnx_memplan/compile.h"

namespace onnx_memplan::testing {

// What training_driver.cpp writes. Parameters and gradients have the initializers' names.
struct GeneratedRun {
  std::vector<float> losses;  // before step 1, 2, ...
  StateMap gradients;
  StateMap after1;
  StateMap after10;
  double compile_seconds = 0;
};

// Emits `model` (with gradients), compiles it by `compiler` (a command that takes source files and
// -o), and runs ten steps in a process of its own. Internal with the reason when something fails.
absl::StatusOr<GeneratedRun> TrainGenerated(const CompiledModel& model,
                                            const TrainingCase& training_case,
                                            const std::string& compiler);

}  // namespace onnx_memplan::testing

#endif  // ONNX_MEMPLAN_TESTS_CORPUS_TRAINING_GENERATED_H_
