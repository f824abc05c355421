#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "commands.h"
#include "common.h"
#include "onnx_memplan/buffers.h"
#include "support/status_macros.h"

namespace onnx_memplan::cli {
namespace {

struct PlanArguments {
  PlannerArguments planner;
  OutputArguments output;
  std::string buffers;
  std::string capacity;
  std::string result;
};

absl::Status RunPlan(const PlanArguments& arguments) {
  ASSIGN_OR_RETURN(const BufferList list, ReadBuffersCsv(arguments.buffers));
  std::optional<int64_t> capacity;
  if (!arguments.capacity.empty()) {
    ASSIGN_OR_RETURN(capacity, ParseBytes(arguments.capacity));
  }
  ASSIGN_OR_RETURN(const BufferPlan plan,
                   PlanBuffers(list.buffers, capacity, arguments.planner.planner,
                               MakeBudget(arguments.planner, arguments.output)));
  if (!arguments.result.empty()) {
    RETURN_IF_ERROR(WriteFiles({{arguments.result, FormatBuffersCsv(list, plan.offsets)}}));
  }
  if (!arguments.output.quiet) {
    std::printf("%zu buffers: arena %lld bytes, lower bound %lld%s (%s)\n", list.buffers.size(),
                static_cast<long long>(plan.arena_bytes), static_cast<long long>(plan.lower_bound),
                plan.proven_optimal ? ", proven minimal" : "", plan.method.c_str());
    if (!arguments.result.empty()) std::printf("wrote %s\n", arguments.result.c_str());
  }
  return absl::OkStatus();
}

}  // namespace

void AddPlanCommand(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "plan", "Place buffers with given lifetimes (MiniMalloc's CSV, or a profile trace)");
  auto arguments = std::make_shared<PlanArguments>();
  command
      ->add_option("BUFFERS", arguments->buffers,
                   "CSV with the columns id,lower,upper,size[,alignment][,hint][,gaps]")
      ->type_name("FILE.csv")
      ->required();
  command->add_option("--capacity", arguments->capacity, "Stop at the first placement that fits")
      ->type_name("BYTES|64K|2M");
  command->add_option("--output", arguments->result, "Write the buffers with an offset column")
      ->type_name("FILE.csv");
  AddPlannerOptions(*command, arguments->planner);
  AddOutputOptions(*command, arguments->output);
  command->callback([&action, arguments] { action = [arguments] { return RunPlan(*arguments); }; });
}

}  // namespace onnx_memplan::cli
