// The corpus of real models (a folder beside the project, not part of it): each model with its data
// sets as cases.
#ifndef ONNX_MEMPLAN_TESTS_CORPUS_CORPUS_CASE_H_
#define ONNX_MEMPLAN_TESTS_CORPUS_CORPUS_CASE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memplan/load.h"
#include "onnx_memplan/tensor.h"

namespace onnx_memplan::testing {

// One model with one set of inputs and reference outputs.
struct CorpusCase {
  std::string model;       // folder name
  std::string set;         // "." for the first
  std::string model_path;  // where model.onnx and its weights can be loaded
  LoadOptions load;        // the shapes of this set
  std::vector<std::string> input_files;
  std::vector<std::string> output_files;
  // By output: the largest difference that counts as equal, 10 x the larger of what ONNX Runtime
  // with all optimisations differs by and 1e-6 of the largest expected value.
  std::vector<double> allowed_difference;
  int64_t parameter_bytes = 0;
};

// Uses an operator that is quantised, recurrent, or control flow, or half-precision tensors.
struct CorpusModel {
  std::string name;
  bool float_feed_forward = false;
  std::vector<CorpusCase> cases;
};

// All models, by name. Weights that the corpus does not store are not made yet.
absl::StatusOr<std::vector<CorpusModel>> ListCorpus(const std::string& corpus_folder);

// Makes the case loadable: generates the weights (the corpus README says how) into
// `work_folder`/MODEL and sets model_path; does nothing where the weights are stored.
absl::Status PrepareCase(const std::string& corpus_folder, const std::string& work_folder,
                         CorpusCase& corpus_case);

}  // namespace onnx_memplan::testing

#endif  // ONNX_MEMPLAN_TESTS_CORPUS_CORPUS_CASE_H_
