// The command line: each command parses its options, calls the library and writes files.
#ifndef ONNX_MEMPLAN_TOOLS_CLI_COMMANDS_H_
#define ONNX_MEMPLAN_TOOLS_CLI_COMMANDS_H_

#include <CLI/CLI.hpp>
#include <functional>

#include "absl/status/status.h"

namespace onnx_memplan::cli {

inline constexpr int kExitDone = 0;
inline constexpr int kExitCannotServe = 1;
inline constexpr int kExitUsage = 2;

// What to run after parsing. Set by the command that the arguments name.
using Action = std::function<absl::Status()>;

// Each adds options to `app` (for the main command) or a subcommand, and sets `action` when that
// command was chosen.
void AddCompileCommand(CLI::App& app, Action& action);
void AddPlanCommand(CLI::App& app, Action& action);
void AddInspectCommand(CLI::App& app, Action& action);
void AddVerifyCommand(CLI::App& app, Action& action);

}  // namespace onnx_memplan::cli

#endif  // ONNX_MEMPLAN_TOOLS_CLI_COMMANDS_H_
