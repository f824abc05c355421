#include "report/memory_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "testing/training_graph.h"

namespace onnx_memplan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// x -> Exp -> a -> Neg -> b -> Add(a) -> y; a lives over two steps.
struct Planned {
  Program program;
  Plan plan;
};

Planned MakePlanned(const std::string& middle_name = "b") {
  const TensorType type = {DType::kFloat, {1, 16}};
  Graph graph;
  graph.name = "net";
  const ValueId x = graph.AddValue("x", type);
  const ValueId a = graph.AddValue("a", type);
  const ValueId b = graph.AddValue(middle_name, type);
  const ValueId y = graph.AddValue("y", type);
  const auto add = [&](const std::string& op, std::vector<ValueId> inputs, ValueId output) {
    graph.nodes.push_back({.op_type = op,
                           .domain = "",
                           .name = op + "_node",
                           .inputs = std::move(inputs),
                           .outputs = {output},
                           .attributes = {},
                           .epilogue = {}});
  };
  add("Exp", {x}, a);
  add("Neg", {a}, b);
  add("Add", {a, b}, y);
  graph.inputs = {x};
  graph.outputs = {y};
  absl::StatusOr<Program> program = BuildProgram(graph, BuiltinTargets().front(), {});
  EXPECT_TRUE(program.ok()) << program.status();
  const auto planner = MakePlanner("auto");
  absl::StatusOr<Plan> plan = (*planner)->Run(program->problem, {});
  EXPECT_TRUE(plan.ok()) << plan.status();
  return {*std::move(program), *std::move(plan)};
}

MemoryReport ReportOf(const Planned& planned) {
  ReportModel model;
  model.name = "net";
  return MakeReport(planned.program, planned.plan, model, "auto", std::nullopt);
}

TEST(MemoryReport, JsonFollowsTheContract) {
  const auto json = nlohmann::json::parse(RenderJson(ReportOf(MakePlanned())));
  EXPECT_EQ(json["format_version"], 1);
  EXPECT_EQ(json["arena_bytes"], 128);
  EXPECT_EQ(json["lower_bound_bytes"], 128);
  EXPECT_EQ(json["proven_optimal"], true);
  EXPECT_EQ(json["weights_bytes"], 0);
  EXPECT_FALSE(json.contains("planning_seconds"));
  ASSERT_EQ(json["steps"].size(), 3);
  for (const char* key : {"index", "op", "name", "kernel", "live_bytes", "scratch_bytes"}) {
    EXPECT_TRUE(json["steps"][0].contains(key)) << key;
  }
  ASSERT_EQ(json["tensors"].size(), 4);
  for (const char* key :
       {"name", "dtype", "shape", "bytes", "offset", "first_step", "last_step", "kind"}) {
    EXPECT_TRUE(json["tensors"][0].contains(key)) << key;
  }
  EXPECT_EQ(json["inputs"][0]["name"], "x");
  EXPECT_EQ(json["outputs"][0]["name"], "y");
}

TEST(MemoryReport, LiveBytesAreThoseOfTheSpans) {
  const MemoryReport report = ReportOf(MakePlanned());
  ASSERT_EQ(report.steps.size(), 3);
  EXPECT_EQ(report.steps[0].live_bytes, 64);
  EXPECT_EQ(report.steps[1].live_bytes, 128);
  EXPECT_EQ(report.steps[2].live_bytes, 128);
  EXPECT_EQ(report.peak_step, 1);
}

TEST(MemoryReport, SaysWhyATensorIsAliveAtThePeak) {
  const MemoryReport report = ReportOf(MakePlanned());
  ASSERT_EQ(report.peak.size(), 2);
  EXPECT_EQ(report.peak[0].why, "read here");
  EXPECT_EQ(report.peak[1].why, "written here");
}

TEST(MemoryReport, TensorsOfTheCallerHaveNoOffset) {
  for (const ReportTensor& tensor : ReportOf(MakePlanned()).tensors) {
    EXPECT_EQ(tensor.offset.has_value(), tensor.kind == "activation") << tensor.name;
  }
}

TEST(MemoryReport, PicturesEscapeNames) {
  const MemoryReport report = ReportOf(MakePlanned("<b>&\"\x01"));
  EXPECT_THAT(RenderSvg(report), HasSubstr("&lt;b&gt;&amp;&quot;"));
  EXPECT_THAT(RenderSvg(report), Not(HasSubstr("\x01")));
  EXPECT_THAT(RenderHtml(report), Not(HasSubstr("<b>")));
}

TEST(MemoryReport, TextGroupsDigitsAndStatesTheProof) {
  MemoryReport report = ReportOf(MakePlanned());
  report.arena_bytes = 1234567;
  EXPECT_THAT(RenderText(report, false), HasSubstr("1,234,567 B  proven minimal"));
  report.proven_optimal = false;
  report.lower_bound_bytes = 1000000;
  EXPECT_THAT(RenderText(report, false), HasSubstr("at most 23.46 % above the minimum"));
}

Planned PlannedGraph(const Graph& graph) {
  absl::StatusOr<Program> program = BuildProgram(graph, BuiltinTargets().front(), {});
  EXPECT_TRUE(program.ok()) << program.status();
  absl::StatusOr<Plan> plan = (*MakePlanner("auto"))->Run(program->problem, {});
  EXPECT_TRUE(plan.ok()) << plan.status();
  return {*std::move(program), *std::move(plan)};
}

MemoryReport TrainingReport() {
  const Planned step = PlannedGraph(testing::TrainStepGraph());
  const Planned infer = PlannedGraph(testing::InferGraph());
  const std::vector<ReportEntry> entries = {
      {.name = "train_step", .program = &step.program, .plan = &step.plan},
      {.name = "infer", .program = &infer.program, .plan = &infer.plan}};
  ReportModel model;
  model.name = "net";
  return MakeReport(entries, model, "auto");
}

TEST(MemoryReport, ListsStatesAndEntryPoints) {
  const auto json = nlohmann::json::parse(RenderJson(TrainingReport()));
  EXPECT_EQ(json["persistent_bytes"], 40);
  ASSERT_EQ(json["states"].size(), 3);
  EXPECT_EQ(json["states"][2]["name"], "m");
  EXPECT_EQ(json["states"][2]["kind"], "optimizer");
  EXPECT_EQ(json["states"][2]["offset"], 24);
  EXPECT_EQ(json["states"][2]["bytes"], 12);
  EXPECT_EQ(json["states"][2]["shape"], nlohmann::json({3, 1}));
  ASSERT_EQ(json["entry_points"].size(), 2);
  EXPECT_EQ(json["entry_points"][0]["name"], "train_step");
  EXPECT_EQ(json["entry_points"][0]["arena_bytes"], json["arena_bytes"]);
  EXPECT_EQ(json["entry_points"][1]["arena_bytes"], 0);
  EXPECT_EQ(json["entry_points"][1]["proven_optimal"], true);
  EXPECT_EQ(json["entry_points"][1]["steps"], 1);
  EXPECT_EQ(json["shared_arena_bytes"], json["arena_bytes"]);

  const auto plain = nlohmann::json::parse(RenderJson(ReportOf(MakePlanned())));
  EXPECT_EQ(plain["states"].size(), 0);
  EXPECT_EQ(plain["entry_points"][0]["name"], "run");
}

TEST(MemoryReport, TensorsOfStatesAreNoActivations) {
  std::map<std::string, std::string> kinds;
  for (const ReportTensor& tensor : TrainingReport().tensors) kinds[tensor.name] = tensor.kind;
  EXPECT_EQ(kinds["W"], "state");
  EXPECT_EQ(kinds["next_W"], "update");
  EXPECT_EQ(kinds["W_row"], "view");
  EXPECT_EQ(kinds["g"], "activation");
}

TEST(MemoryReport, TextHasStatesAndEntryPoints) {
  const std::string text = RenderText(TrainingReport(), true);
  EXPECT_THAT(text, HasSubstr("parameter 12 B, statistic 4 B, optimizer 12 B"));
  EXPECT_THAT(text, HasSubstr("  infer                     0 B      1 steps"));
  EXPECT_THAT(RenderSvg(TrainingReport()), HasSubstr("; states 40 bytes</text>"));
  EXPECT_THAT(RenderText(ReportOf(MakePlanned()), true), Not(HasSubstr("Functions")));
}

}  // namespace
}  // namespace onnx_memplan
