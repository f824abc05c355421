#include "plan_build/state_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/training_graph.h"

namespace onnx_memplan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(StateLayout, PutsParametersThenStatisticsThenOptimizerStates) {
  const StateLayout layout = LayOutStates(testing::TrainStepGraph(), 16);
  std::vector<std::string> names;
  for (const PlacedState& state : layout.states) names.push_back(state.name);
  EXPECT_THAT(names, ElementsAre("W", "steps", "m"));
  EXPECT_EQ(layout.parameters_bytes, 12);
  EXPECT_EQ(layout.inference_bytes, 20);
  EXPECT_EQ(layout.states[2].byte_offset, 24);
  EXPECT_EQ(layout.bytes, 36);
}

TEST(StateLayout, AlignsLargeStatesAsTheTargetSays) {
  testing::TypedGraph maker;
  const auto add = [&](const char* name, int64_t count) {
    maker.AddState(name, Tensor::FromVector<int8_t>({count}, {}), StateKind::kParameter);
  };
  add("a", 3);
  add("b", 5);
  add("c", 256);
  const StateLayout layout = LayOutStates(maker.graph, 64);
  EXPECT_EQ(layout.alignment, 64);
  EXPECT_EQ(layout.states[1].byte_offset, 8);
  EXPECT_EQ(layout.states[2].byte_offset, 64);
}

TEST(StateLayout, FindsTheStatesOfOtherProgramsByName) {
  const StateLayout layout = LayOutStates(testing::TrainStepGraph(), 16);
  const auto offsets = StateOffsets(layout, testing::TrainStepGraph());
  ASSERT_TRUE(offsets.ok()) << offsets.status();
  EXPECT_THAT(*offsets, ElementsAre(24, 0, 16));

  testing::TypedGraph maker;
  maker.AddState("W", Tensor::FromVector<float>({1, 3}, {1, 2, 3}), StateKind::kParameter);
  EXPECT_THAT(std::string(StateOffsets(layout, maker.graph).status().message()),
              HasSubstr("state 'W' is float 3x1"));
  maker.graph.values[0].name = "V";
  EXPECT_THAT(std::string(StateOffsets(layout, maker.graph).status().message()),
              HasSubstr("a state 'V'"));
}

}  // namespace
}  // namespace onnx_memplan
