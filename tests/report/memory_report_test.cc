#include "report/memory_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

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

}  // namespace
}  // namespace onnx_memplan
