// Runs ONNX's backend tests on the host: loader, inference and folding, kernels through
// EvaluateNode. Every input is bound to its data, so that the whole model folds into constants,
// which are compared with the outputs that ONNX ships.
//
//   backend_host_test                     all cases; a table by operator
//   backend_host_test --filter=softmax    cases whose name contains the word (any of several,
//                                         separated by commas)
//   backend_host_test --op=Softmax        cases about this operator
//   backend_host_test -v                  a line for each case, with the reason
//   backend_host_test --no-fork           in one process: for a debugger
//   backend_host_test --planned           do not bind: infer, then lower every node
//   backend_host_test --data=DIR          where the cases are (default
//   /usr/share/libonnx-testdata/data)
//
// Exit status: 0 when no case is wrong or crashes (a case may be refused with a reason), 77 when
// there are no cases, else 1.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "backend/backend_case.h"
#include "onnx_memplan/load.h"
#include "passes/infer.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

enum class Outcome : uint8_t { kPass, kRefused, kWrong, kCrash };
constexpr std::string_view kOutcomeNames[] = {"pass", "refused", "WRONG", "CRASH"};

struct Result {
  Outcome outcome = Outcome::kPass;
  std::string reason;
};

struct Flags {
  std::string data = ONNX_MEMPLAN_BACKEND_DATA_DIR;
  std::vector<std::string> filters;
  std::string op;
  bool verbose = false;
  bool fork = true;
  bool planned = false;
};

// No limit: everything is to fold.
FoldOptions FoldEverything() {
  FoldOptions options;
  options.small_bytes = options.max_result_bytes;
  return options;
}

absl::Status LoadAndInfer(const BackendCase& backend_case, const BackendDataSet& data, bool planned,
                          LoadedModel& model) {
  LoadOptions options;
  for (const auto& [name, tensor] : data.inputs) {
    if (planned) {
      options.input_shapes[name] = tensor.shape();
    } else {
      options.bind[name] = tensor;
    }
  }
  ASSIGN_OR_RETURN(model, LoadModel(backend_case.model_path, options));
  RETURN_IF_ERROR(InferAndFold(model.graph, FoldEverything()));
  return planned ? CheckSupported(model.graph, BuiltinTargets().front()) : absl::OkStatus();
}

Result CompareOutputs(const Graph& graph, const BackendDataSet& data, bool planned) {
  for (size_t i = 0; i < graph.outputs.size() && i < data.outputs.size(); ++i) {
    const Value& value = graph.values[static_cast<size_t>(graph.outputs[i])];
    if (planned) {
      if (value.type == data.outputs[i].type()) continue;
      return {Outcome::kWrong,
              absl::StrCat("output ", value.name, " is inferred as ", value.type->ToString(),
                           "; it is ", data.outputs[i].type().ToString())};
    }
    if (!value.constant) return {Outcome::kRefused, "output " + value.name + " does not fold"};
    const absl::Status status = CompareTensors(*value.constant, data.outputs[i]);
    if (!status.ok()) {
      return {Outcome::kWrong,
              absl::StrCat("output ", value.name, " ", std::string(status.message()))};
    }
  }
  return {};
}

Result RunCase(const BackendCase& backend_case, const Flags& flags) {
  if (backend_case.has_non_tensors) {
    return {Outcome::kRefused, "has sequences, optionals or strings"};
  }
  if (backend_case.data_set_dirs.empty()) return {Outcome::kRefused, "has no data"};
  for (const std::string& dir : backend_case.data_set_dirs) {
    const absl::StatusOr<BackendDataSet> data = ReadBackendDataSet(backend_case, dir);
    if (!data.ok()) return {Outcome::kRefused, std::string(data.status().message())};
    LoadedModel model;
    const absl::Status status = LoadAndInfer(backend_case, *data, flags.planned, model);
    if (!status.ok()) return {Outcome::kRefused, status.ToString()};
    Result result = CompareOutputs(model.graph, *data, flags.planned);
    if (result.outcome != Outcome::kPass) return result;
  }
  return {};
}

// In a child process, so that a crash costs one case only.
Result RunForked(const BackendCase& backend_case, const Flags& flags) {
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) return {Outcome::kCrash, "no pipe"};
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    const Result result = RunCase(backend_case, flags);
    const std::string text =
        absl::StrCat(static_cast<int>(result.outcome), result.reason.substr(0, 4000));
    const bool written = write(pipe_ends[1], text.data(), text.size()) >= 0;
    _exit(written ? 0 : 1);
  }
  close(pipe_ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n = 0; (n = read(pipe_ends[0], buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, static_cast<size_t>(n));
  }
  close(pipe_ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || text.empty()) {
    return {Outcome::kCrash, absl::StrCat("signal ", WIFSIGNALED(status) ? WTERMSIG(status) : 0)};
  }
  return {static_cast<Outcome>(text[0] - '0'), text.substr(1)};
}

bool Selected(const BackendCase& backend_case, const Flags& flags) {
  if (!flags.op.empty() && backend_case.op_type != flags.op) return false;
  return flags.filters.empty() ||
         std::any_of(flags.filters.begin(), flags.filters.end(), [&](const std::string& filter) {
           return backend_case.name.find(filter) != std::string::npos;
         });
}

struct Row {
  int64_t counts[4] = {};
  std::vector<std::string> failing;
};

int RunAll(const Flags& flags) {
  std::map<std::string, Row> table;
  Row total;
  int64_t tensor_cases = 0;
  for (const BackendCase& backend_case : FindBackendCases(flags.data)) {
    if (!Selected(backend_case, flags)) continue;
    tensor_cases += backend_case.has_non_tensors ? 0 : 1;
    const Result result =
        flags.fork ? RunForked(backend_case, flags) : RunCase(backend_case, flags);
    const auto outcome = static_cast<size_t>(result.outcome);
    if (flags.verbose || result.outcome >= Outcome::kWrong) {
      std::printf("%-7s %s %s\n", std::string(kOutcomeNames[outcome]).c_str(),
                  backend_case.name.c_str(), result.reason.c_str());
      std::fflush(stdout);
    }
    for (Row* row : {&table[backend_case.op_type], &total}) {
      ++row->counts[outcome];
      if (result.outcome != Outcome::kPass) row->failing.push_back(backend_case.name);
    }
  }
  const auto print = [](const std::string& name, const Row& row) {
    std::printf("%-28s %5ld %8ld %6ld %6ld\n", name.c_str(), row.counts[0], row.counts[1],
                row.counts[2], row.counts[3]);
  };
  std::printf("%-28s %5s %8s %6s %6s\n", "operator", "pass", "refused", "wrong", "crash");
  for (const auto& [op, row] : table) print(op, row);
  print("all", total);
  std::printf("%ld of these cases have tensors only\n", tensor_cases);
  if (table.empty()) {
    std::printf("no cases in %s: skipped\n", flags.data.c_str());
    return 77;
  }
  return total.counts[2] + total.counts[3] == 0 ? 0 : 1;
}

int Main(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const auto value = [&] { return arg.substr(arg.find('=') + 1); };
    if (arg == "-v") {
      flags.verbose = true;
    } else if (arg == "--no-fork") {
      flags.fork = false;
    } else if (arg == "--planned") {
      flags.planned = true;
    } else if (arg.starts_with("--filter=")) {
      flags.filters = absl::StrSplit(value(), ',');
    } else if (arg.starts_with("--op=")) {
      flags.op = value();
    } else if (arg.starts_with("--data=")) {
      flags.data = value();
    } else {
      std::fprintf(stderr, "unknown argument %s; see the head of backend_host_test.cc\n",
                   arg.c_str());
      return 2;
    }
  }
  return RunAll(flags);
}

}  // namespace
}  // namespace onnx_memplan

int main(int argc, char** argv) { return onnx_memplan::Main(argc, argv); }
