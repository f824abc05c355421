// The training cases of the corpus: a model, a batch, and what PyTorch made of it in ten steps.
#ifndef ONNX_MEMPLAN_TESTS_CORPUS_TRAINING_CASE_H_
#define ONNX_MEMPLAN_TESTS_CORPUS_TRAINING_CASE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memplan/tensor.h"
#include "onnx_memplan/train.h"

namespace onnx_memplan::testing {

// A tensor of the reference run, and the largest difference that counts as equal: 10 x what
// PyTorch's own float32 run differs from its float64 run by, or 1e-5 of the largest magnitude.
struct Reference {
  std::string name;  // the initializer's
  Tensor tensor;
  double allowed = 0;
};

struct TrainingCase {
  std::string name;
  std::string model_path;
  TrainOptions options;
  float learning_rate = 0;
  Tensor input;
  Tensor target;
  // Before step 1, 2, ...
  std::vector<double> losses;
  std::vector<double> allowed_loss_difference;
  std::vector<Reference> gradients;  // of the first step
  std::vector<Reference> after1;
  std::vector<Reference> after10;
};

// Folders models/train_* of the corpus, by name.
std::vector<std::string> ListTrainingCases(const std::string& corpus_folder);
absl::StatusOr<TrainingCase> ReadTrainingCase(const std::string& corpus_folder,
                                              const std::string& name);

}  // namespace onnx_memplan::testing

#endif  // ONNX_MEMPLAN_TESTS_CORPUS_TRAINING_CASE_H_
