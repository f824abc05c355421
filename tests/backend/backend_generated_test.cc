// Runs ONNX's backend tests through generated code: load, optimise, plan, emit, compile (many cases
// a compiler run, warnings are errors), run in a process of its own, compare with the outputs that
// ONNX ships.
//
//   backend_generated_test                    all cases; a table by operator
//   backend_generated_test --filter=softmax   cases whose name contains the word
//   backend_generated_test --target=NAME      default generic
//   backend_generated_test --compiler=NAME    default g++
//   backend_generated_test --flags="-O2 ..."  instead of the default flags
//   backend_generated_test --extra-flags=...  behind them
//   backend_generated_test --min-pass=N       exit status 1 when fewer cases pass
//   backend_generated_test --write=FILE       writes docs/operators.md
//   backend_generated_test --stack            the largest stack frame (GCC)
//   backend_generated_test -v                 a line for each case that does not pass
//
// Exit status: 0 when every case passes or is refused with a reason, 77 when there are no cases or
// this CPU does not run the target's code, else 1.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "backend/backend_case.h"
#include "onnx_memplan/compile.h"
#include "ops/op_def.h"
#include "support/status_macros.h"
#include "testing/batch.h"
#include "testing/commands.h"
#include "testing/isolated.h"
#include "testing/native.h"

namespace onnx_memplan {
namespace {

using testing::Batches;
using testing::BatchOptions;
using testing::RunIsolated;
using testing::TemporaryFolder;

enum class Outcome : uint8_t { kPass, kPassBound, kRefused, kWrong, kCrash, kCompileError };
constexpr size_t kNumOutcomes = 6;
// What ctest takes as "skipped" (SKIP_RETURN_CODE).
constexpr int kSkipped = 77;
constexpr std::string_view kOutcomeNames[] = {"pass",  "pass (inputs bound)", "refused", "WRONG",
                                              "CRASH", "COMPILE ERROR"};

struct Flags {
  std::string data = ONNX_MEMPLAN_BACKEND_DATA_DIR;
  std::string filter;
  std::string target = "generic";
  std::string write;
  BatchOptions batch;
  int64_t min_pass = 0;
  bool verbose = false;
};

// Which inputs are made constants: shapes, axes and the like often come as inputs.
enum class Bind : uint8_t { kNone, kIntegers, kAllButFirst, kAll };
constexpr Bind kBindAttempts[] = {Bind::kNone, Bind::kIntegers, Bind::kAllButFirst, Bind::kAll};

// A data set of a case on its way through the stages.
struct Run {
  const BackendCase* backend_case = nullptr;
  std::string dir;
  std::string id;
  Outcome outcome = Outcome::kPass;
  std::string reason;
  Bind bound = Bind::kNone;
  std::vector<std::string> inputs;  // of the generated code, by name
};

CompileOptions OptionsFor(const BackendCase& backend_case, const BackendDataSet& data, Bind bind,
                          const Flags& flags) {
  CompileOptions options;
  options.target = flags.target;
  options.budget.time_limit_seconds = 2;
  for (size_t i = 0; i < backend_case.input_names.size(); ++i) {
    const auto found = data.inputs.find(backend_case.input_names[i]);
    if (found == data.inputs.end()) continue;
    const auto& [name, tensor] = *found;
    const bool bound = bind == Bind::kAll || (bind == Bind::kAllButFirst && i > 0) ||
                       (bind == Bind::kIntegers && i > 0 && !IsFloatingPoint(tensor.dtype()));
    if (bound) {
      options.load.bind[name] = tensor;
    } else {
      options.load.input_shapes[name] = tensor.shape();
    }
  }
  return options;
}

// Prepares `run` in a child process. The answer is "ok", the Bind that was needed and the inputs
// that are left, one a line, or "refused" and the reason.
std::string Prepare(const Run& run, const Flags& flags, const TemporaryFolder& folder) {
  const absl::StatusOr<BackendDataSet> data = ReadBackendDataSet(*run.backend_case, run.dir);
  if (!data.ok()) return absl::StrCat("refused\n", data.status().message());
  absl::Status first_failure;
  for (const Bind bind : kBindAttempts) {
    const auto model = CompileModel(run.backend_case->model_path,
                                    OptionsFor(*run.backend_case, *data, bind, flags));
    absl::Status status = model.status();
    if (model.ok()) status = testing::WriteForBatch(*model, run.id, folder);
    if (status.ok()) {
      std::string answer = absl::StrCat("ok\n", static_cast<int>(bind));
      for (const NamedType& input : model->inputs()) absl::StrAppend(&answer, "\n", input.name);
      return answer;
    }
    if (first_failure.ok()) first_failure = status;
  }
  return absl::StrCat("refused\n", first_failure.message());
}

void PrepareIsolated(Run& run, const Flags& flags, const TemporaryFolder& folder) {
  const absl::StatusOr<std::string> answer =
      RunIsolated([&] { return Prepare(run, flags, folder); }, /*seconds=*/120);
  if (!answer.ok()) {
    run.outcome = Outcome::kCrash;
    run.reason = absl::StrCat("the tool ", answer.status().message());
    return;
  }
  const std::vector<std::string> lines = absl::StrSplit(*answer, '\n');
  if (lines.front() != "ok") {
    run.outcome = Outcome::kRefused;
    run.reason = answer->substr(answer->find('\n') + 1);
    return;
  }
  run.bound = static_cast<Bind>(lines[1][0] - '0');
  run.inputs.assign(lines.begin() + 2, lines.end());
}

void Execute(Run& run, const Batches& batches) {
  if (const absl::Status status = batches.CompileStatus(run.id); !status.ok()) {
    run.outcome = Outcome::kCompileError;
    run.reason = std::string(status.message());
    return;
  }
  const absl::StatusOr<BackendDataSet> data = ReadBackendDataSet(*run.backend_case, run.dir);
  std::vector<Tensor> inputs;
  for (const std::string& name : run.inputs) inputs.push_back(data->inputs.at(name));
  std::vector<TensorType> types;
  for (const Tensor& output : data->outputs) types.push_back(output.type());
  const auto outputs = batches.Run(run.id, inputs, types);
  if (!outputs.ok()) {
    run.outcome = Outcome::kCrash;
    run.reason = std::string(outputs.status().message());
    return;
  }
  for (size_t i = 0; i < outputs->size(); ++i) {
    const absl::Status status = CompareTensors((*outputs)[i], data->outputs[i]);
    if (status.ok()) continue;
    run.outcome = Outcome::kWrong;
    run.reason = absl::StrCat("output ", i, " ", status.message());
    return;
  }
  run.outcome = run.bound == Bind::kNone ? Outcome::kPass : Outcome::kPassBound;
}

// What is refused, without the node's name and shapes: "Loop: the operator is not supported" of
// "...\n  node 'x' (Loop of int64 scalar): the operator is not supported".
std::string Brief(const std::string& reason) {
  std::string brief = reason.substr(0, reason.find('\n'));
  const size_t op = reason.find("' (");
  const size_t op_end = reason.find(" of ", op);
  const size_t why = reason.find("): ", op);
  if (op != std::string::npos && op_end < why && why != std::string::npos) {
    const std::string text = reason.substr(why + 3);
    brief =
        absl::StrCat(reason.substr(op + 3, op_end - op - 3), ": ", text.substr(0, text.find('\n')));
  }
  if (const size_t folder = brief.find("/model.onnx': "); folder != std::string::npos) {
    brief = brief.substr(folder + 14);
  }
  std::replace(brief.begin(), brief.end(), '|', '/');
  return brief.size() > 160 ? brief.substr(0, 160) + "..." : brief;
}

struct Row {
  int64_t counts[kNumOutcomes] = {};
  std::map<std::string, int64_t> reasons;  // of refusals

  int64_t total() const {
    int64_t sum = 0;
    for (int64_t count : counts) sum += count;
    return sum;
  }
  int64_t of(Outcome outcome) const { return counts[static_cast<size_t>(outcome)]; }
  int64_t passed() const { return of(Outcome::kPass) + of(Outcome::kPassBound); }
};

// A case is as bad as its worst data set.
std::map<std::string, Row> TableOf(const std::vector<Run>& runs, Row& total) {
  std::map<const BackendCase*, const Run*> worst;
  std::vector<const BackendCase*> order;
  for (const Run& run : runs) {
    const Run*& entry = worst[run.backend_case];
    if (entry == nullptr) order.push_back(run.backend_case);
    if (entry == nullptr || entry->outcome < run.outcome) entry = &run;
  }
  std::map<std::string, Row> table;
  for (const BackendCase* backend_case : order) {
    const Run& run = *worst[backend_case];
    for (Row* row : {&table[backend_case->op_type], &total}) {
      ++row->counts[static_cast<size_t>(run.outcome)];
      if (run.outcome == Outcome::kRefused) ++row->reasons[Brief(run.reason)];
    }
  }
  return table;
}

constexpr std::string_view kDocHead =
    R"(# Operators

Written by `backend_generated_test --write=docs/operators.md`; do not edit.

ONNX's backend tests (Debian's libonnx-testdata), those that have tensors only: sequences, optionals
and strings are left out. Each is loaded, planned, emitted, compiled with warnings as errors, run,
and compared with the outputs that ONNX ships. Cases are listed under the first operator of their
model, as ONNX names it: many cases are also there as functions of simpler operators ("expanded").
"bound": passes when some inputs (a shape, axes, a ratio) are made constants, as `--bind` does.

)";

void WriteDocument(const std::string& path, const std::map<std::string, Row>& table,
                   const Row& total) {
  std::ofstream out(path);
  out << kDocHead << "| operator | cases | pass | of them bound | refused | why |\n"
      << "|---|---|---|---|---|---|\n";
  const auto write = [&](const std::string& name, const Row& row, bool with_reasons) {
    std::vector<std::string> reasons;
    for (const auto& [reason, count] : row.reasons) {
      reasons.push_back(count == 1 ? reason : absl::StrCat(reason, " (", count, ")"));
    }
    out << "| " << name << " | " << row.total() << " | " << row.passed() << " | "
        << row.of(Outcome::kPassBound) << " | " << row.of(Outcome::kRefused) << " | "
        << (with_reasons ? absl::StrJoin(reasons, "; ") : "") << " |\n";
  };
  write("**all**", total, false);
  for (const auto& [name, row] : table) write(name, row, true);
  out << "\n## Supported operators without a case of their own\n\n";
  std::vector<std::string> others;
  for (const OpDef* def : OpTable()) {
    const std::string name(def->type);
    if (table.contains(name)) continue;
    others.push_back(def->domain.empty() ? name
                                         : absl::StrCat(std::string(def->domain), ".", name));
  }
  out << absl::StrJoin(others, ", ") << ".\n";
}

void Print(const std::map<std::string, Row>& table, const Row& total) {
  std::printf("%-28s %5s %6s %8s %6s %6s %8s\n", "operator", "pass", "bound", "refused", "wrong",
              "crash", "compile");
  const auto print = [](const std::string& name, const Row& row) {
    std::printf("%-28s %5ld %6ld %8ld %6ld %6ld %8ld\n", name.c_str(), row.of(Outcome::kPass),
                row.of(Outcome::kPassBound), row.of(Outcome::kRefused), row.of(Outcome::kWrong),
                row.of(Outcome::kCrash), row.of(Outcome::kCompileError));
  };
  for (const auto& [name, row] : table) print(name, row);
  print("all", total);
  std::printf("%ld of %ld cases pass\n", total.passed(), total.total());
}

std::vector<Run> FindRuns(const std::vector<BackendCase>& cases, const Flags& flags) {
  std::vector<Run> runs;
  for (const BackendCase& backend_case : cases) {
    if (backend_case.has_non_tensors) continue;
    if (!absl::StrContains(backend_case.name, flags.filter)) continue;
    for (const std::string& dir : backend_case.data_set_dirs) {
      Run run;
      run.backend_case = &backend_case;
      run.dir = dir;
      run.id = absl::StrCat("case", runs.size());
      runs.push_back(std::move(run));
    }
  }
  return runs;
}

int RunAll(const Flags& flags) {
  const std::vector<BackendCase> cases = FindBackendCases(flags.data);
  std::vector<Run> runs = FindRuns(cases, flags);
  if (runs.empty()) {
    std::printf("no cases in %s: skipped\n", flags.data.c_str());
    return kSkipped;
  }
  const TemporaryFolder folder;
  std::vector<std::string> ids;
  for (Run& run : runs) {
    PrepareIsolated(run, flags, folder);
    if (run.outcome == Outcome::kPass) ids.push_back(run.id);
  }
  const Batches batches(folder, ids, flags.batch);
  for (Run& run : runs) {
    if (run.outcome == Outcome::kPass) Execute(run, batches);
    if (run.outcome >= Outcome::kWrong || (flags.verbose && run.outcome != Outcome::kPass)) {
      std::printf("%s %s %s\n",
                  std::string(kOutcomeNames[static_cast<size_t>(run.outcome)]).c_str(),
                  run.backend_case->name.c_str(), run.reason.substr(0, 2000).c_str());
    }
  }
  Row total;
  const std::map<std::string, Row> table = TableOf(runs, total);
  Print(table, total);
  if (flags.batch.stack_usage) {
    const Batches::Frame frame = batches.LargestFrame();
    std::printf("largest stack frame: %ld bytes%s, %s\n", frame.bytes,
                frame.bounded ? "" : " and NO bound", frame.function.c_str());
  }
  if (!flags.write.empty()) WriteDocument(flags.write, table, total);
  const bool clean =
      total.of(Outcome::kWrong) + total.of(Outcome::kCrash) + total.of(Outcome::kCompileError) == 0;
  return clean && total.passed() >= flags.min_pass ? 0 : 1;
}

int Main(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const std::string value = arg.substr(arg.find('=') + 1);
    if (arg == "-v") {
      flags.verbose = true;
    } else if (arg == "--stack") {
      flags.batch.stack_usage = true;
    } else if (arg.starts_with("--filter=")) {
      flags.filter = value;
    } else if (arg.starts_with("--target=")) {
      flags.target = value;
    } else if (arg.starts_with("--compiler=")) {
      flags.batch.compiler = value;
    } else if (arg.starts_with("--flags=")) {
      flags.batch.flags = value;
    } else if (arg.starts_with("--extra-flags=")) {
      flags.batch.flags += " " + value;
    } else if (arg.starts_with("--min-pass=")) {
      flags.min_pass = std::stol(value);
    } else if (arg.starts_with("--write=")) {
      flags.write = value;
    } else {
      std::fprintf(stderr, "unknown argument %s; see the head of backend_generated_test.cc\n",
                   arg.c_str());
      return 2;
    }
  }
  if (!testing::ThisCpuRuns(flags.target)) {
    std::printf("skipped: this CPU does not run %s\n", flags.target.c_str());
    return kSkipped;
  }
  return RunAll(flags);
}

}  // namespace
}  // namespace onnx_memplan

int main(int argc, char** argv) { return onnx_memplan::Main(argc, argv); }
