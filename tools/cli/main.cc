// onnx-memplan: see README.md, or --help.
#include <cstdio>

#include "commands.h"
#include "onnx_memplan/compile.h"

namespace onnx_memplan::cli {
namespace {

constexpr const char* kDescription =
    "Turns an ONNX network into C++ that owns one fixed arena, with a map of every byte and a "
    "proof\n"
    "of how close the arena is to the minimum.\n\n"
    "  onnx-memplan model.onnx --emit arena.cpp            code for any C++17 compiler\n"
    "  onnx-memplan model.onnx --report map.html           where each byte goes\n"
    "  onnx-memplan model.onnx --dim batch=1               sets a symbolic dimension\n"
    "  onnx-memplan inspect model.onnx                     operators, shapes, what is unsupported\n"
    "  onnx-memplan verify model.onnx --data DIR           replays the plan against reference "
    "data\n"
    "  onnx-memplan plan buffers.csv --output placed.csv   places buffers with given lifetimes\n";

constexpr const char* kFooter =
    "Exit status: 0 done; 1 the model or the request cannot be served; 2 wrong usage.";

int Main(int argc, char** argv) {
  CLI::App app(kDescription, "onnx-memplan");
  app.footer(kFooter);
  app.set_version_flag("--version", "onnx-memplan " + std::string(Version()));
  app.require_subcommand(0, 1);
  Action action;
  AddCompileCommand(app, action);
  AddPlanCommand(app, action);
  AddInspectCommand(app, action);
  AddVerifyCommand(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // CLI11 has exit codes of its own; ours are documented.
    return app.exit(error) == 0 ? kExitDone : kExitUsage;
  }
  const absl::Status status = action();
  if (status.ok()) return kExitDone;
  const std::string message(status.message());
  std::fprintf(stderr, "onnx-memplan: %s\n", message.c_str());
  return kExitCannotServe;
}

}  // namespace
}  // namespace onnx_memplan::cli

int main(int argc, char** argv) { return onnx_memplan::cli::Main(argc, argv); }
