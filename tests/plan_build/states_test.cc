#include "plan_build/states.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "plan_build/program.h"
#include "testing/training_graph.h"

namespace onnx_memplan {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::SizeIs;
using testing::TypedGraph;
using ::testing::UnorderedElementsAre;

absl::StatusOr<Program> TryBuild(const TypedGraph& maker) {
  const absl::Status status = maker.graph.Verify(/*typed=*/true);
  EXPECT_TRUE(status.ok()) << status;
  return BuildProgram(maker.graph, BuiltinTargets().front(), {});
}

Program Build(const TypedGraph& maker) {
  absl::StatusOr<Program> program = TryBuild(maker);
  EXPECT_TRUE(program.ok()) << program.status();
  return *std::move(program);
}

ValueId Named(const Program& program, const std::string& name) {
  for (size_t v = 0; v < program.graph.values.size(); ++v) {
    if (program.graph.values[v].name == name) return static_cast<ValueId>(v);
  }
  ADD_FAILURE() << name;
  return kNoValue;
}

Location LocationOf(const Program& program, const std::string& name) {
  return program.locations[static_cast<size_t>(Named(program, name))];
}

// The task of the node that makes a value.
int32_t TaskOf(const Program& program, const std::string& output) {
  const ValueId value = Named(program, output);
  for (size_t t = 0; t < program.steps.size(); ++t) {
    const Node& node = program.graph.nodes[static_cast<size_t>(program.steps[t].node)];
    if (std::find(node.outputs.begin(), node.outputs.end(), value) != node.outputs.end()) {
      return static_cast<int32_t>(t);
    }
  }
  ADD_FAILURE() << output;
  return -1;
}

const std::vector<int32_t>& After(const Program& program, const std::string& output) {
  return program.problem.tasks[static_cast<size_t>(TaskOf(program, output))].after;
}

// x, and states s and u, all 1x8.
struct Fixture {
  TypedGraph maker;
  ValueId x = maker.Input("x", {1, 8});
  ValueId s = AddState("s");
  ValueId u = AddState("u");

  ValueId AddState(const std::string& name) {
    return maker.AddState(name, Tensor::FromVector<float>({1, 8}, {1, 2, 3, 4, 5, 6, 7, 8}),
                          StateKind::kParameter);
  }
  ValueId Shape24() {
    return maker.graph.AddConstant(maker.graph.UniqueValueName("shape"),
                                   Tensor::VectorInt64({2, 4}));
  }
  ValueId Shape18() {
    return maker.graph.AddConstant(maker.graph.UniqueValueName("shape"),
                                   Tensor::VectorInt64({1, 8}));
  }
};

TEST(States, OldAndNewValueAndTheirViewsAreInOnePlace) {
  Fixture f;
  const ValueId old_view = f.maker.Add("Reshape", {f.s, f.Shape24()}, "old_view", {2, 4});
  const ValueId a = f.maker.Add("Relu", {old_view}, "a", {2, 4});
  const ValueId out = f.maker.Add("Add", {f.s, f.x}, "out", {1, 8});
  f.maker.Rewrite(f.s, out);
  const ValueId new_view = f.maker.Add("Reshape", {out, f.Shape24()}, "new_view", {2, 4});
  const ValueId b = f.maker.Add("Relu", {new_view}, "b", {2, 4});
  f.maker.graph.outputs = {a, b};
  const Program program = Build(f.maker);
  const Location state{Location::Kind::kState, 0, 0};
  for (const char* name : {"s", "old_view", "out", "new_view"}) {
    EXPECT_EQ(LocationOf(program, name), state) << name;
  }
  EXPECT_THAT(program.problem.storages, IsEmpty());
  EXPECT_THAT(After(program, "out"), ElementsAre(TaskOf(program, "a")));
  EXPECT_THAT(After(program, "b"), ElementsAre(TaskOf(program, "out")));
}

TEST(States, AnUpdateWaitsForReadersThatProgramOrderHasBehindIt) {
  Fixture f;
  const ValueId out = f.maker.Add("Add", {f.s, f.x}, "out", {1, 8});
  f.maker.Rewrite(f.s, out);
  const ValueId a = f.maker.Add("Relu", {f.s}, "a", {1, 8});
  const ValueId view = f.maker.Add("Reshape", {f.s, f.Shape24()}, "view", {2, 4});
  const ValueId b = f.maker.Add("Neg", {view}, "b", {2, 4});
  f.maker.graph.outputs = {a, b};
  const Program program = Build(f.maker);
  EXPECT_TRUE(program.graph.Verify(/*typed=*/true).ok());
  EXPECT_THAT(After(program, "out"),
              UnorderedElementsAre(TaskOf(program, "a"), TaskOf(program, "b")));
  EXPECT_EQ(TaskOf(program, "out"), 2);  // program order is an order of the problem
}

TEST(States, WhatTheNewValueIsAViewOfIsMadeInPlace) {
  Fixture f;
  const ValueId view = f.maker.Add("Reshape", {f.s, f.Shape24()}, "view", {2, 4});
  const ValueId moved = f.maker.Add("Neg", {view}, "moved", {2, 4});
  f.maker.Rewrite(f.s, f.maker.Add("Reshape", {moved, f.Shape18()}, "out", {1, 8}));
  f.maker.graph.outputs = {f.maker.Add("Relu", {f.x}, "y", {1, 8})};
  const Program program = Build(f.maker);
  EXPECT_EQ(LocationOf(program, "moved"), (Location{Location::Kind::kState, 0, 0}));
  EXPECT_THAT(program.steps, SizeIs(2));
}

TEST(States, AKernelThatCannotWriteOverTheOldValueNeedsACopy) {
  Fixture f;
  const ValueId made = f.maker.Add("Softmax", {f.s}, "made", {1, 8});
  f.maker.graph.nodes.back().attributes["axis"] = int64_t{0};
  const ValueId reversed = f.maker.Add(
      "MatMul",
      {f.s, f.maker.graph.AddConstant(
                "square", Tensor::FromVector<float>({8, 8}, std::vector<float>(64, 0.5F)))},
      "product", {1, 8});
  f.maker.Rewrite(f.s, reversed);
  f.maker.graph.outputs = {made};
  const absl::StatusOr<Program> refused = TryBuild(f.maker);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()),
              AllOf(HasSubstr("product_node"), HasSubstr("state 's'"), HasSubstr("Identity")));

  f.maker.Rewrite(f.s, f.maker.Add("Identity", {reversed}, "copied", {1, 8}));
  const Program program = Build(f.maker);
  EXPECT_EQ(LocationOf(program, "product").kind, Location::Kind::kArena);
  EXPECT_EQ(LocationOf(program, "copied"), (Location{Location::Kind::kState, 0, 0}));
  EXPECT_THAT(After(program, "copied"),
              IsSupersetOf({TaskOf(program, "made"), TaskOf(program, "product")}));
}

TEST(States, AnUnchangedStateHasNoStep) {
  Fixture f;
  f.maker.Rewrite(f.s, f.maker.Add("Identity", {f.s}, "same", {1, 8}));
  f.maker.graph.outputs = {f.maker.Add("Add", {f.s, f.x}, "y", {1, 8})};
  EXPECT_THAT(Build(f.maker).steps, SizeIs(1));
}

TEST(States, ANewValueThatIsAnInputOrAnotherStateIsCopied) {
  Fixture f;
  f.maker.Rewrite(f.s, f.maker.Add("Identity", {f.x}, "from_x", {1, 8}));
  f.maker.Rewrite(f.u, f.maker.Add("Identity", {f.s}, "from_s", {1, 8}));
  const Program program = Build(f.maker);
  EXPECT_THAT(program.steps, SizeIs(2));
  EXPECT_EQ(LocationOf(program, "from_x"), (Location{Location::Kind::kState, 0, 0}));
  EXPECT_EQ(LocationOf(program, "from_s"), (Location{Location::Kind::kState, 1, 0}));
  EXPECT_THAT(After(program, "from_x"), ElementsAre(TaskOf(program, "from_s")));
}

TEST(States, OneNewValueForTwoStatesIsCopiedToTheSecond) {
  Fixture f;
  const ValueId made = f.maker.Add("Add", {f.s, f.x}, "made", {1, 8});
  f.maker.Rewrite(f.s, made);
  f.maker.Rewrite(f.u, f.maker.Add("Identity", {made}, "copied", {1, 8}));
  const Program program = Build(f.maker);
  EXPECT_THAT(program.steps, SizeIs(2));
  EXPECT_EQ(LocationOf(program, "copied"), (Location{Location::Kind::kState, 1, 0}));
  EXPECT_THAT(After(program, "copied"), ElementsAre(TaskOf(program, "made")));
}

TEST(States, GraphOutputsAreCopies) {
  Fixture f;
  const ValueId out = f.maker.Add("Add", {f.s, f.x}, "out", {1, 8});
  f.maker.Rewrite(f.s, out);
  const ValueId view = f.maker.Add("Reshape", {out, f.Shape24()}, "view", {2, 4});
  const ValueId old_view = f.maker.Add("Reshape", {f.s, f.Shape24()}, "old_view", {2, 4});
  f.maker.graph.outputs = {out, view, f.s, old_view};
  const Program program = Build(f.maker);
  EXPECT_EQ(LocationOf(program, "out_state").kind, Location::Kind::kState);
  EXPECT_EQ(LocationOf(program, "out"), (Location{Location::Kind::kOutput, 0, 0}));
  EXPECT_EQ(LocationOf(program, "view"), (Location{Location::Kind::kOutput, 1, 0}));
  EXPECT_EQ(LocationOf(program, "s_output"), (Location{Location::Kind::kOutput, 2, 0}));
  EXPECT_EQ(LocationOf(program, "old_view"), (Location{Location::Kind::kOutput, 3, 0}));
  EXPECT_THAT(After(program, "out_state"),
              UnorderedElementsAre(TaskOf(program, "s_output"), TaskOf(program, "old_view")));
}

TEST(States, AnUpdateThatIsAlsoReadAsAnOutputIsNotMovedAway) {
  Fixture f;
  const ValueId made = f.maker.Add("Relu", {f.x}, "made", {1, 8});
  f.maker.Rewrite(f.s, f.maker.Add("Identity", {made}, "out", {1, 8}));
  f.maker.graph.outputs = {made};
  const Program program = Build(f.maker);
  EXPECT_EQ(LocationOf(program, "made").kind, Location::Kind::kOutput);
  EXPECT_EQ(LocationOf(program, "out").kind, Location::Kind::kState);
}

TEST(States, ConcatenationsNeitherTakeAStateNorFillIt) {
  Fixture f;
  const ValueId next = f.maker.Add("Add", {f.u, f.x}, "next_u", {1, 8});
  f.maker.Rewrite(f.u, next);
  const ValueId y = f.maker.Add("Concat", {f.s, next}, "y", {1, 16});
  f.maker.graph.nodes.back().attributes["axis"] = int64_t{1};
  const ValueId wide = f.maker.AddState(
      "wide", Tensor::FromVector<float>({1, 16}, std::vector<float>(16, 1)), StateKind::kParameter);
  const ValueId a = f.maker.Add("Relu", {f.x}, "a", {1, 8});
  const ValueId b = f.maker.Add("Neg", {f.x}, "b", {1, 8});
  f.maker.Rewrite(wide, f.maker.Add("Concat", {a, b}, "next_wide", {1, 16}));
  f.maker.graph.nodes.back().attributes["axis"] = int64_t{1};
  f.maker.graph.outputs = {y, f.maker.Add("Exp", {wide}, "z", {1, 16})};
  const Program program = Build(f.maker);
  EXPECT_EQ(LocationOf(program, "next_u"), (Location{Location::Kind::kState, 1, 0}));
  EXPECT_EQ(LocationOf(program, "next_wide"), (Location{Location::Kind::kState, 2, 0}));
  for (const char* name : {"a", "b"}) {
    EXPECT_EQ(LocationOf(program, name).kind, Location::Kind::kArena) << name;
  }
  EXPECT_THAT(After(program, "next_wide"), IsSupersetOf({TaskOf(program, "z")}));
}

TEST(States, NothingIsOfferedToBeWrittenOverAState) {
  Fixture f;
  const ValueId a = f.maker.Add("Relu", {f.s}, "a", {1, 8});
  f.maker.graph.outputs = {f.maker.Add("Exp", {a}, "y", {1, 8})};
  EXPECT_THAT(Build(f.maker).problem.in_place, IsEmpty());
}

TEST(States, RefusesAReaderOfTheOldValueThatNeedsTheNewOne) {
  Fixture f;
  const ValueId out = f.maker.Add("Add", {f.s, f.x}, "out", {1, 8});
  f.maker.Rewrite(f.s, out);
  f.maker.graph.outputs = {f.maker.Add("Sub", {out, f.s}, "change", {1, 8})};
  const absl::StatusOr<Program> refused = TryBuild(f.maker);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()),
              AllOf(HasSubstr("out_node"), HasSubstr("state 's'"), HasSubstr("change_node")));
}

TEST(States, TwoStatesThatSwapAreRefused) {
  Fixture f;
  f.maker.Rewrite(f.s, f.maker.Add("Identity", {f.u}, "new_s", {1, 8}));
  f.maker.Rewrite(f.u, f.maker.Add("Identity", {f.s}, "new_u", {1, 8}));
  EXPECT_EQ(TryBuild(f.maker).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace onnx_memplan
