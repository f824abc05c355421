// Runs the models of the corpus and prints one Markdown row for each data set: by replaying the
// plan on this machine, and (--generated) by compiling the generated code with g++ -O2.
//
//   onnx_memplan_corpus --corpus DIR [--filter NAME ...] [--generated] [--target NAME] ...
//
// Exit status 1 when a case fails, 77 where the corpus is absent.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "corpus/corpus_case.h"
#include "onnx_memplan/compare.h"
#include "onnx_memplan/compile.h"
#include "support/status_macros.h"
#include "testing/commands.h"
#include "testing/native.h"

namespace onnx_memplan::testing {
namespace {

// What ctest takes as "skipped" (SKIP_RETURN_CODE).
constexpr int kSkipped = 77;

struct Arguments {
  std::string corpus;
  std::string work = "corpus_work";
  std::vector<std::string> filters;
  int64_t max_parameter_bytes = INT64_MAX;
  bool generated = false;
  bool no_replay = false;
  bool all = false;
  std::string target = "generic";
  std::string planner = "auto";
  std::string compiler = "g++ -std=c++17 -O2";
};

struct Outcome {
  int64_t nodes = 0;
  int64_t arena_bytes = 0;
  int64_t lower_bound = 0;
  bool proven = false;
  // Largest difference as a share of what is allowed, over the outputs; negative: not run.
  double replay = -1;
  double generated = -1;
  double compile_seconds = 0;  // of the tool
  double gcc_seconds = 0;
};

double Seconds(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
}

struct Data {
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
};

absl::StatusOr<Data> ReadData(const CorpusCase& corpus_case) {
  Data data;
  for (const std::string& file : corpus_case.input_files) {
    ASSIGN_OR_RETURN(Tensor tensor, ReadTensorFile(file));
    data.inputs.push_back(std::move(tensor));
  }
  for (const std::string& file : corpus_case.output_files) {
    ASSIGN_OR_RETURN(Tensor tensor, ReadTensorFile(file));
    data.outputs.push_back(std::move(tensor));
  }
  return data;
}

// The largest difference / allowed difference over all outputs.
absl::StatusOr<double> WorstShare(const CorpusCase& corpus_case, const std::vector<Tensor>& actual,
                                  const std::vector<Tensor>& expected) {
  double worst = 0;
  for (size_t k = 0; k < expected.size(); ++k) {
    ASSIGN_OR_RETURN(const Difference difference, CompareTensors(actual[k], expected[k]));
    const double allowed = corpus_case.allowed_difference[k];
    const double share = difference.largest == 0 ? 0
                         : allowed == 0          ? INFINITY
                                                 : difference.largest / allowed;
    worst = std::max(worst, share);
  }
  return worst;
}

// A program around NAME_run that reads the inputs from files and writes the outputs to files.
std::string Harness(const CompiledModel& model) {
  std::string text =
      "#include \"net.h\"\n#include <cstdio>\n#include <cstdlib>\n\n"
      "static void* Read(const char* path, size_t bytes) {\n"
      "  void* data = std::aligned_alloc(64, (bytes + 64) / 64 * 64);\n"
      "  FILE* file = std::fopen(path, \"rb\");\n"
      "  if (file == nullptr || std::fread(data, 1, bytes, file) != bytes) std::exit(3);\n"
      "  std::fclose(file);\n  return data;\n}\n\n"
      "static void Write(const char* path, const void* data, size_t bytes) {\n"
      "  FILE* file = std::fopen(path, \"wb\");\n"
      "  std::fwrite(data, 1, bytes, file);\n  std::fclose(file);\n}\n\n"
      "int main() {\n";
  std::string call;
  const auto type = [](const NamedType& t) { return std::string(DTypeCppName(t.type.dtype)); };
  const std::vector<NamedType> inputs = model.inputs();
  const std::vector<NamedType> outputs = model.outputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    absl::StrAppend(&text, "  void* in", i, " = Read(\"in", i, ".bin\", ", inputs[i].type.Bytes(),
                    ");\n");
    absl::StrAppend(&call, call.empty() ? "" : ", ", "static_cast<const ", type(inputs[i]), "*>(in",
                    i, ")");
  }
  for (size_t k = 0; k < outputs.size(); ++k) {
    absl::StrAppend(&text, "  void* out", k, " = std::aligned_alloc(64, ",
                    (outputs[k].type.Bytes() + 64) / 64 * 64, ");\n");
    absl::StrAppend(&call, call.empty() ? "" : ", ", "static_cast<", type(outputs[k]), "*>(out", k,
                    ")");
  }
  absl::StrAppend(&text, "  if (net_run(", call, ") != 0) return 4;\n");
  for (size_t k = 0; k < outputs.size(); ++k) {
    absl::StrAppend(&text, "  Write(\"out", k, ".bin\", out", k, ", ", outputs[k].type.Bytes(),
                    ");\n");
  }
  return text + "}\n";
}

std::string_view BytesOf(const Tensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.data()), static_cast<size_t>(tensor.Bytes())};
}

absl::StatusOr<std::vector<Tensor>> RunGenerated(const Arguments& arguments,
                                                 const CompiledModel& model, const Data& data,
                                                 Outcome& outcome) {
  EmitOptions options;
  options.stem = "net";
  options.weights = WeightsForm::kIncbin;
  ASSIGN_OR_RETURN(const std::vector<EmittedFile> files, model.Emit(options));
  TemporaryFolder folder;
  folder.Write(files);
  folder.Write("main.cpp", Harness(model));
  for (size_t i = 0; i < data.inputs.size(); ++i) {
    folder.Write(absl::StrCat("in", i, ".bin"), BytesOf(data.inputs[i]));
  }
  const auto start = std::chrono::steady_clock::now();
  CommandResult result =
      RunCommand(absl::StrCat(arguments.compiler, " net.cpp main.cpp -o net"), folder);
  outcome.gcc_seconds = Seconds(start);
  if (result.exit_status != 0) {
    return absl::InternalError(
        absl::StrCat("the generated code does not compile: ", result.output.substr(0, 2000)));
  }
  result = RunCommand("./net", folder);
  if (result.exit_status != 0) {
    return absl::InternalError(
        absl::StrCat("the generated program exits with ", result.exit_status, result.output));
  }
  std::vector<Tensor> outputs;
  for (size_t k = 0; k < data.outputs.size(); ++k) {
    const std::string bytes = folder.Read(absl::StrCat("out", k, ".bin"));
    std::byte* target = nullptr;
    outputs.push_back(Tensor::Zeros(model.outputs()[k].type, &target));
    if (static_cast<int64_t>(bytes.size()) != outputs.back().Bytes()) {
      return absl::InternalError("the generated program wrote too few bytes");
    }
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(target));
  }
  return outputs;
}

absl::StatusOr<Outcome> RunCase(const Arguments& arguments, CorpusCase corpus_case) {
  RETURN_IF_ERROR(PrepareCase(arguments.corpus, arguments.work, corpus_case));
  ASSIGN_OR_RETURN(const Data data, ReadData(corpus_case));
  CompileOptions options;
  options.load = corpus_case.load;
  options.target = arguments.target;
  options.planner = arguments.planner;
  Outcome outcome;
  const auto start = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(const CompiledModel model, CompileModel(corpus_case.model_path, options));
  outcome.compile_seconds = Seconds(start);
  outcome.nodes = static_cast<int64_t>(model.graph().nodes.size());
  outcome.arena_bytes = model.plan().arena_bytes;
  outcome.lower_bound = model.plan().lower_bound;
  outcome.proven = model.plan().proven_optimal;
  if (!arguments.no_replay) {
    ASSIGN_OR_RETURN(const std::vector<Tensor> outputs, model.Run(data.inputs));
    ASSIGN_OR_RETURN(outcome.replay, WorstShare(corpus_case, outputs, data.outputs));
  }
  if (arguments.generated) {
    ASSIGN_OR_RETURN(const std::vector<Tensor> outputs,
                     RunGenerated(arguments, model, data, outcome));
    ASSIGN_OR_RETURN(outcome.generated, WorstShare(corpus_case, outputs, data.outputs));
  }
  return outcome;
}

bool Selected(const Arguments& arguments, const CorpusModel& model) {
  if (!arguments.all && !model.float_feed_forward) return false;
  if (!model.cases.empty() && model.cases[0].parameter_bytes > arguments.max_parameter_bytes) {
    return false;
  }
  if (arguments.filters.empty()) return true;
  return std::find(arguments.filters.begin(), arguments.filters.end(), model.name) !=
         arguments.filters.end();
}

std::string ShareText(double share) { return share < 0 ? "-" : absl::StrFormat("%.3f", share); }

int Run(const Arguments& arguments) {
  if (arguments.generated && !ThisCpuRuns(arguments.target)) {
    std::printf("skipped: this CPU does not run %s\n", arguments.target.c_str());
    return kSkipped;
  }
  absl::StatusOr<std::vector<CorpusModel>> models = ListCorpus(arguments.corpus);
  if (!models.ok()) {
    std::printf("skipped: %s\n", std::string(models.status().message()).c_str());
    return kSkipped;
  }
  std::puts(
      "| model | set | nodes | arena B | bound B | proven | replay: diff / allowed | generated: "
      "diff "
      "/ allowed | tool s | g++ s | |\n|---|---|---|---|---|---|---|---|---|---|---|");
  int passed = 0;
  int failed = 0;
  for (const CorpusModel& model : *models) {
    if (!Selected(arguments, model)) continue;
    for (const CorpusCase& corpus_case : model.cases) {
      const absl::StatusOr<Outcome> outcome = RunCase(arguments, corpus_case);
      const bool good = outcome.ok() && outcome->replay <= 1 && outcome->generated <= 1;
      ++(good ? passed : failed);
      if (outcome.ok()) {
        std::printf("| %s | %s | %lld | %lld | %lld | %s | %s | %s | %.2f | %.2f | %s |\n",
                    model.name.c_str(), corpus_case.set.c_str(),
                    static_cast<long long>(outcome->nodes),
                    static_cast<long long>(outcome->arena_bytes),
                    static_cast<long long>(outcome->lower_bound), outcome->proven ? "yes" : "no",
                    ShareText(outcome->replay).c_str(), ShareText(outcome->generated).c_str(),
                    outcome->compile_seconds, outcome->gcc_seconds, good ? "ok" : "DIFFERS");
      } else {
        std::printf("| %s | %s | | | | | | | | | FAILED: %s |\n", model.name.c_str(),
                    corpus_case.set.c_str(), std::string(outcome.status().message()).c_str());
      }
      std::fflush(stdout);
    }
  }
  std::printf("\n%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace onnx_memplan::testing

int main(int argc, char** argv) {
  onnx_memplan::testing::Arguments arguments;
  CLI::App app("Runs the models of the corpus");
  app.add_option("--corpus", arguments.corpus, "Folder with models/")->required();
  app.add_option("--work", arguments.work, "Folder for generated weights")->capture_default_str();
  app.add_option("--filter", arguments.filters, "Only these models");
  app.add_option("--max-parameter-bytes", arguments.max_parameter_bytes, "Skip larger models");
  app.add_flag("--generated", arguments.generated, "Compile and run the generated code too");
  app.add_flag("--no-replay", arguments.no_replay, "Do not replay on the host");
  app.add_flag("--all", arguments.all,
               "Also models with quantised, recurrent or control operators");
  app.add_option("--target", arguments.target)->capture_default_str();
  app.add_option("--planner", arguments.planner)->capture_default_str();
  app.add_option("--compiler", arguments.compiler, "Command that compiles generated code")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return onnx_memplan::testing::Run(arguments);
}
