#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "commands.h"
#include "common.h"
#include "support/status_macros.h"

namespace onnx_memplan::cli {
namespace {

void PrintTypes(const char* title, const Graph& graph, const std::vector<ValueId>& ids) {
  for (ValueId id : ids) {
    const Value& value = graph.values[static_cast<size_t>(id)];
    std::printf("%-9s %s: %s\n", title, value.name.c_str(),
                value.type ? value.type->ToString().c_str() : "of unknown type");
  }
}

absl::Status RunInspect(const ModelArguments& arguments) {
  ASSIGN_OR_RETURN(const LoadOptions load, MakeLoadOptions(arguments));
  ASSIGN_OR_RETURN(LoadedModel model, LoadModel(arguments.model, load));
  std::printf("producer  %s\nIR        %lld\n", model.info.producer.c_str(),
              static_cast<long long>(model.info.ir_version));
  for (const auto& [domain, version] : model.info.opset_imports) {
    std::printf("opset     %s %lld\n", domain.empty() ? "ai.onnx" : domain.c_str(),
                static_cast<long long>(version));
  }
  std::printf("sha256    %s\n", model.info.sha256.c_str());
  for (const std::string& warning : model.info.warnings) {
    std::printf("warning   %s\n", warning.c_str());
  }
  std::puts("operators");
  for (const auto& [name, count] : model.info.operators) {
    std::printf("  %6lld  %s\n", static_cast<long long>(count), name.c_str());
  }
  PassOptions passes;
  passes.on = arguments.passes_on;
  passes.off = arguments.passes_off;
  PrintTypes("input", model.graph, model.graph.inputs);
  ASSIGN_OR_RETURN(const std::vector<PassRun> runs, OptimizeGraph(passes, model.graph));
  PrintTypes("output", model.graph, model.graph.outputs);
  std::printf("\nAfter optimisation, %zu nodes:\n%s", model.graph.nodes.size(),
              model.graph.ToText().c_str());
  return absl::OkStatus();
}

}  // namespace

void AddInspectCommand(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("inspect", "Show operators, types, and what is unsupported and why");
  auto arguments = std::make_shared<ModelArguments>();
  AddModelOptions(*command, *arguments);
  command->get_option("MODEL")->required();
  command->callback(
      [&action, arguments] { action = [arguments] { return RunInspect(*arguments); }; });
}

}  // namespace onnx_memplan::cli
