#include "testing/batch.h"

#include <atomic>
#include <cstring>
#include <set>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "support/status_macros.h"

namespace onnx_memplan::testing {
namespace {

std::string ByteList(const std::vector<NamedType>& tensors) {
  std::vector<std::string> bytes;
  for (const NamedType& tensor : tensors) bytes.push_back(absl::StrCat(tensor.type.Bytes()));
  bytes.push_back("0");  // an array has at least one element
  return absl::StrJoin(bytes, ", ");
}

// The adapter from batch::Network to the generated function.
std::string Adapter(const CompiledModel& model, const std::string& id) {
  std::vector<std::string> args = {"arena"};
  const auto add = [&](const std::vector<NamedType>& tensors, const char* array, const char* cv) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      args.push_back(absl::StrCat("static_cast<", cv,
                                  std::string(DTypeCppName(tensors[i].type.dtype)), "*>(", array,
                                  "[", i, "])"));
    }
  };
  add(model.inputs(), "inputs", "const ");
  add(model.outputs(), "outputs", "");
  return absl::StrCat("static const size_t input_bytes_", id, "[] = {", ByteList(model.inputs()),
                      "};\nstatic const size_t output_bytes_", id, "[] = {",
                      ByteList(model.outputs()), "};\nstatic int call_", id,
                      "(void* arena, const void* const* inputs, void* const* outputs) {\n"
                      "  static_cast<void>(inputs);\n  static_cast<void>(outputs);\n  return ",
                      id, "_run(", absl::StrJoin(args, ", "), ");\n}\n");
}

std::string TableRow(const CompiledModel& model, const std::string& id) {
  std::string capitals = id;
  absl::AsciiStrToUpper(&capitals);
  return absl::StrCat("    {\"", id, "\", ", capitals, "_ARENA_BYTES, ", capitals,
                      "_ARENA_ALIGNMENT, input_bytes_", id, ", ", model.inputs().size(),
                      ", output_bytes_", id, ", ", model.outputs().size(), ", &call_", id, "},\n");
}

}  // namespace

absl::Status WriteForBatch(const CompiledModel& model, const std::string& id,
                           const TemporaryFolder& folder) {
  EmitOptions options;
  options.stem = id;
  options.arena = ArenaOwner::kCaller;
  ASSIGN_OR_RETURN(const std::vector<EmittedFile> files, model.Emit(options));
  folder.Write(files);
  folder.Write(id + "_adapter.h", Adapter(model, id));
  folder.Write(id + "_row.h", TableRow(model, id));
  return absl::OkStatus();
}

Batches::Batches(const TemporaryFolder& folder, const std::vector<std::string>& ids,
                 const BatchOptions& options)
    : folder_(folder), options_(options) {
  if (options_.stack_usage) options_.flags += " -fstack-usage";
  options_.flags += " -I" ONNX_MEMPLAN_SOURCE_DIR "/tests/testing";
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t first; (first = next.fetch_add(options_.networks_per_batch)) < ids.size();) {
      CompileRange(
          std::span(ids).subspan(first, std::min(options_.networks_per_batch, ids.size() - first)));
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 0; i < options_.compilers_at_once; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
}

void Batches::CompileRange(std::span<const std::string> ids) {
  std::string source = "#include \"batch_driver.h\"\n";
  for (const std::string& id : ids) absl::StrAppend(&source, "#include \"", id, ".cpp\"\n");
  for (const std::string& id : ids) absl::StrAppend(&source, "#include \"", id, "_adapter.h\"\n");
  source += "static const batch::Network networks[] = {\n";
  for (const std::string& id : ids) absl::StrAppend(&source, "#include \"", id, "_row.h\"\n");
  absl::StrAppend(&source, "};\nint main(int argc, char** argv) { return batch::Main(networks, ",
                  ids.size(), ", argc, argv); }\n");
  const std::string name = absl::StrCat("batch_", ids.front(), "_", ids.size());
  folder_.Write(name + ".cpp", source);
  const CommandResult built = RunCommand(
      absl::StrCat(options_.compiler, " ", options_.flags, " ", name, ".cpp -o ", name), folder_);
  if (built.exit_status == 0) {
    const std::lock_guard lock(mutex_);
    for (const std::string& id : ids) executables_[id] = name;
  } else if (ids.size() == 1) {
    const std::lock_guard lock(mutex_);
    compile_errors_[ids.front()] = built.output;
  } else {
    CompileRange(ids.first(ids.size() / 2));
    CompileRange(ids.subspan(ids.size() / 2));
  }
}

// A line of a .su file: "file:line:column:signature<TAB>bytes<TAB>static|dynamic|dynamic,bounded".
Batches::Frame Batches::LargestFrame() const {
  Frame largest;
  std::set<std::string> names;
  for (const auto& [id, name] : executables_) names.insert(name);
  for (const std::string& name : names) {
    const std::string usage = folder_.Read(name + ".su");
    for (const std::string& line : std::vector<std::string>(absl::StrSplit(usage, '\n'))) {
      const std::vector<std::string> fields = absl::StrSplit(line, '\t');
      if (fields.size() != 3 || absl::StrContains(fields[0], "batch_driver.h")) continue;
      const Frame frame = {std::stol(fields[1]), fields[0], fields[2] != "dynamic"};
      if (!largest.bounded) continue;
      if (!frame.bounded || frame.bytes > largest.bytes) largest = frame;
    }
  }
  return largest;
}

absl::Status Batches::CompileStatus(const std::string& id) const {
  const auto found = compile_errors_.find(id);
  return found == compile_errors_.end() ? absl::OkStatus() : absl::InternalError(found->second);
}

absl::StatusOr<std::vector<Tensor>> Batches::Run(const std::string& id,
                                                 std::span<const Tensor> inputs,
                                                 std::span<const TensorType> output_types) const {
  std::string in;
  for (const Tensor& tensor : inputs) {
    in.append(reinterpret_cast<const char*>(tensor.data()), static_cast<size_t>(tensor.Bytes()));
  }
  folder_.Write(id + ".in", in);
  const CommandResult ran = RunCommand(
      absl::StrCat("timeout 60 ./", executables_.at(id), " ", id, " ", id, ".in ", id, ".out"),
      folder_);
  if (ran.exit_status != 0) {
    return absl::InternalError(absl::StrCat("exit status ", ran.exit_status, ": ", ran.output));
  }
  const std::string out = folder_.Read(id + ".out");
  std::vector<Tensor> outputs;
  size_t at = 0;
  for (const TensorType& type : output_types) {
    std::byte* data = nullptr;
    outputs.push_back(Tensor::Zeros(type, &data));
    const auto bytes = static_cast<size_t>(type.Bytes());
    if (at + bytes > out.size()) return absl::InternalError("the outputs are too short");
    std::memcpy(data, out.data() + at, bytes);
    at += bytes;
  }
  return outputs;
}

}  // namespace onnx_memplan::testing
