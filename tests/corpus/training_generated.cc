#include "corpus/training_generated.h"

#include <chrono>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "support/check.h"
#include "support/status_macros.h"
#include "testing/commands.h"

namespace onnx_memplan::testing {
namespace {

// A row of the table of parameters in the header.
struct Parameter {
  std::string name;
  Shape shape;
  size_t offset = 0;
  size_t bytes = 0;
  bool statistic = false;
};

// " *          0       1728  float 16x3x3x3  stem.0.weight"
absl::StatusOr<Parameter> ParseRow(const std::string& line) {
  const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
  Parameter row;
  if (words.size() < 6 || !absl::SimpleAtoi(words[1], &row.offset) ||
      !absl::SimpleAtoi(words[2], &row.bytes) || words[3] != "float") {
    return absl::InternalError("a row of the table of parameters that cannot be read: " + line);
  }
  for (const std::string& size : std::vector<std::string>(absl::StrSplit(words[4], 'x'))) {
    int64_t number = 0;
    // A scalar has no sizes.
    if (absl::SimpleAtoi(size, &number)) row.shape.push_back(number);
  }
  row.name = words[5];
  row.statistic = line.ends_with("(a statistic)");
  return row;
}

absl::StatusOr<std::vector<Parameter>> ParseTable(const std::string& header) {
  const std::vector<std::string> lines = absl::StrSplit(header, '\n');
  std::vector<Parameter> rows;
  bool inside = false;
  for (const std::string& line : lines) {
    if (inside && line == " */") return rows;
    if (inside) {
      ASSIGN_OR_RETURN(Parameter row, ParseRow(line));
      rows.push_back(std::move(row));
    }
    inside = inside || line == " *     offset      bytes  type and name";
  }
  return absl::InternalError("the header has no table of parameters");
}

Tensor TensorAt(const std::string& blob, const Parameter& row) {
  std::byte* data = nullptr;
  Tensor tensor = Tensor::Zeros({DType::kFloat, row.shape}, &data);
  MEMPLAN_CHECK(static_cast<size_t>(tensor.Bytes()) == row.bytes &&
                row.offset + row.bytes <= blob.size());
  std::memcpy(data, blob.data() + row.offset, row.bytes);
  return tensor;
}

StateMap Split(const std::string& blob, const std::vector<Parameter>& rows, bool statistics) {
  StateMap tensors;
  for (const Parameter& row : rows) {
    if (row.statistic && !statistics) continue;
    tensors.emplace(row.name, TensorAt(blob, row));
  }
  return tensors;
}

std::string_view BytesOf(const Tensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.data()), static_cast<size_t>(tensor.Bytes())};
}

}  // namespace

absl::StatusOr<GeneratedRun> TrainGenerated(const CompiledModel& model,
                                            const TrainingCase& training_case,
                                            const std::string& compiler) {
  EmitOptions options;
  options.stem = "net";
  ASSIGN_OR_RETURN(const std::vector<EmittedFile> files, model.Emit(options));
  const TemporaryFolder folder;
  folder.Write(files);
  folder.Write("x.bin", BytesOf(training_case.input));
  folder.Write("target.bin", BytesOf(training_case.target));
  folder.Write(
      "training_case.inc",
      absl::StrFormat("#define TRAINING_INPUT %s\n#define TRAINING_TARGET %s\n"
                      "#define TRAINING_LEARNING_RATE %.9gF\n"
                      "#define TRAINING_INPUT_COUNT %d\n"
                      "#define TRAINING_TARGET_COUNT %d\n",
                      DTypeCppName(training_case.input.dtype()),
                      DTypeCppName(training_case.target.dtype()), training_case.learning_rate,
                      training_case.input.NumElements(), training_case.target.NumElements()));

  GeneratedRun run;
  const auto start = std::chrono::steady_clock::now();
  CommandResult result = RunCommand(absl::StrCat(compiler, " -I. net.cpp ", ONNX_MEMPLAN_SOURCE_DIR,
                                                 "/tests/corpus/training_driver.cpp -o net"),
                                    folder);
  run.compile_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (result.exit_status != 0 || !result.output.empty()) {
    return absl::InternalError(absl::StrCat("the generated code does not compile without a word: ",
                                            result.output.substr(0, 2000)));
  }
  result = RunCommand("./net", folder);
  if (result.exit_status != 0) {
    return absl::InternalError(
        absl::StrCat("the generated program exits with ", result.exit_status, result.output));
  }

  ASSIGN_OR_RETURN(const std::vector<Parameter> rows, ParseTable(folder.Read("net.h")));
  const std::string losses = folder.Read("losses.bin");
  run.losses.resize(losses.size() / sizeof(float));
  std::memcpy(run.losses.data(), losses.data(), run.losses.size() * sizeof(float));
  if (run.losses.size() < 2 || run.losses[0] != run.losses[1]) {
    return absl::InternalError("net_gradients and net_train_step give different losses");
  }
  run.losses.erase(run.losses.begin());
  run.gradients = Split(folder.Read("gradients.bin"), rows, /*statistics=*/false);
  run.after1 = Split(folder.Read("after1.bin"), rows, /*statistics=*/false);
  run.after10 = Split(folder.Read("after10.bin"), rows, /*statistics=*/true);
  return run;
}

}  // namespace onnx_memplan::testing
