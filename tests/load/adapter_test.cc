#include "load/adapter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "load/onnx_text.h"
#include "onnx/defs/schema.h"

namespace onnx_memplan {
namespace {

using testing::Evaluate;
using ::testing::HasSubstr;
using testing::ParseOnnx;
using testing::Ramp;

// The same computation in an old opset and in the canonical one.
struct Pair {
  std::string name;
  int old_opset;
  std::string old_graph;
  std::string new_graph;
  std::map<std::string, Shape> inputs;  // float

  friend std::ostream& operator<<(std::ostream& out, const Pair& pair) { return out << pair.name; }
};

class OldFormTest : public ::testing::TestWithParam<Pair> {};

TEST_P(OldFormTest, GivesTheOutputsOfTheNewForm) {
  std::map<std::string, Tensor> inputs;
  for (const auto& [name, shape] : GetParam().inputs) inputs[name] = Ramp(shape);
  const auto old_outputs = Evaluate(ParseOnnx(GetParam().old_graph, GetParam().old_opset), inputs);
  const auto new_outputs = Evaluate(ParseOnnx(GetParam().new_graph), inputs);
  ASSERT_TRUE(old_outputs.ok()) << old_outputs.status();
  ASSERT_TRUE(new_outputs.ok()) << new_outputs.status();
  EXPECT_EQ(*old_outputs, *new_outputs);
}

constexpr char kAxis1[] = "axes = Constant<value_ints = [1]>() ";

const Pair kPairs[] = {
    {"AddWithAxis",
     6,
     "g (float[2,3,4] a, float[3] b) => (float[2,3,4] y) { y = Add<broadcast = 1, axis = 1>(a, b) "
     "}",
     "g (float[2,3,4] a, float[3] b) => (float[2,3,4] y) { axes = Constant<value_ints = [1]>() "
     "c = Unsqueeze(b, axes) y = Add(a, c) }",
     {{"a", {2, 3, 4}}, {"b", {3}}}},
    {"SubWithNegativeAxis",
     6,
     "g (float[2,3,4] a, float[3] b) => (float[2,3,4] y) { y = Sub<broadcast = 1, axis = -2>(a, b) "
     "}",
     "g (float[2,3,4] a, float[3] b) => (float[2,3,4] y) { axes = Constant<value_ints = [1]>() "
     "c = Unsqueeze(b, axes) y = Sub(a, c) }",
     {{"a", {2, 3, 4}}, {"b", {3}}}},
    {"MulBroadcastWithoutAxis",
     6,
     "g (float[2,3] a, float[3] b) => (float[2,3] y) { y = Mul<broadcast = 1>(a, b) }",
     "g (float[2,3] a, float[3] b) => (float[2,3] y) { y = Mul(a, b) }",
     {{"a", {2, 3}}, {"b", {3}}}},
    {"PReluByChannel",
     6,
     "g (float[2,3,4] x, float[3] s) => (float[2,3,4] y) { y = PRelu(x, s) }",
     "g (float[2,3,4] x, float[3] s) => (float[2,3,4] y) { axes = Constant<value_ints = [1]>() "
     "c = Unsqueeze(s, axes) y = PRelu(x, c) }",
     {{"x", {2, 3, 4}}, {"s", {3}}}},
    {"SqueezeAttribute",
     11,
     "g (float[2,1,3] x) => (float[2,3] y) { y = Squeeze<axes = [1]>(x) }",
     "g (float[2,1,3] x) => (float[2,3] y) { " + std::string(kAxis1) + "y = Squeeze(x, axes) }",
     {{"x", {2, 1, 3}}}},
    {"UnsqueezeAttribute",
     9,
     "g (float[2,3] x) => (float[2,1,3] y) { y = Unsqueeze<axes = [1]>(x) }",
     "g (float[2,3] x) => (float[2,1,3] y) { " + std::string(kAxis1) + "y = Unsqueeze(x, axes) }",
     {{"x", {2, 3}}}},
    {"ReduceMeanAttribute",
     13,
     "g (float[2,3] x) => (float[2,1] y) { y = ReduceMean<axes = [1]>(x) }",
     "g (float[2,3] x) => (float[2,1] y) { " + std::string(kAxis1) + "y = ReduceMean(x, axes) }",
     {{"x", {2, 3}}}},
    {"ReduceSumAttribute",
     11,
     "g (float[2,3] x) => (float[2] y) { y = ReduceSum<axes = [1], keepdims = 0>(x) }",
     "g (float[2,3] x) => (float[2] y) { " + std::string(kAxis1) +
         "y = ReduceSum<keepdims = 0>(x, axes) }",
     {{"x", {2, 3}}}},
    {"ReduceMaxOfAll",
     11,
     "g (float[2,3] x) => (float[1,1] y) { y = ReduceMax(x) }",
     "g (float[2,3] x) => (float[1,1] y) { y = ReduceMax(x) }",
     {{"x", {2, 3}}}},
    {"ReshapeAttribute",
     1,
     "g (float[2,3] x) => (float[3,2] y) { y = Reshape<shape = [3, 2]>(x) }",
     "g (float[2,3] x) => (float[3,2] y) { s = Constant<value_ints = [3, 2]>() y = Reshape(x, s) }",
     {{"x", {2, 3}}}},
    {"SliceAttributes",
     9,
     "g (float[4,5] x) => (float[4,3] y) { y = Slice<starts = [1], ends = [4], axes = [1]>(x) }",
     "g (float[4,5] x) => (float[4,3] y) { b = Constant<value_ints = [1]>() "
     "e = Constant<value_ints = [4]>() y = Slice(x, b, e, b) }",
     {{"x", {4, 5}}}},
    {"PadAttributes",
     10,
     "g (float[2,2] x) => (float[2,5] y) { y = Pad<pads = [0, 1, 0, 2], value = 1.5>(x) }",
     "g (float[2,2] x) => (float[2,5] y) { p = Constant<value_ints = [0, 1, 0, 2]>() "
     "v = Constant<value_float = 1.5>() y = Pad(x, p, v) }",
     {{"x", {2, 2}}}},
    {"PaddingsOfPad1",
     1,
     "g (float[2,2] x) => (float[2,5] y) { y = Pad<paddings = [0, 1, 0, 2]>(x) }",
     "g (float[2,2] x) => (float[2,5] y) { p = Constant<value_ints = [0, 1, 0, 2]>() "
     "y = Pad(x, p) }",
     {{"x", {2, 2}}}},
    {"ClipAttributes",
     6,
     "g (float[6] x) => (float[6] y) { y = Clip<min = -0.3, max = 0.2>(x) }",
     "g (float[6] x) => (float[6] y) { l = Constant<value_float = -0.3>() "
     "h = Constant<value_float = 0.2>() y = Clip(x, l, h) }",
     {{"x", {6}}}},
    {"SplitAttribute",
     11,
     "g (float[6] x) => (float[2] a, float[4] b) { a, b = Split<axis = 0, split = [2, 4]>(x) }",
     "g (float[6] x) => (float[2] a, float[4] b) { s = Constant<value_ints = [2, 4]>() "
     "a, b = Split<axis = 0>(x, s) }",
     {{"x", {6}}}},
    {"SplitInEqualParts",
     13,
     "g (float[6] x) => (float[3] a, float[3] b) { a, b = Split<axis = 0>(x) }",
     "g (float[6] x) => (float[3] a, float[3] b) { a, b = Split<axis = 0, num_outputs = 2>(x) }",
     {{"x", {6}}}},
    {"TopKAttribute",
     9,
     "g (float[2,5] x) => (float[2,2] v, int64[2,2] i) { v, i = TopK<k = 2>(x) }",
     "g (float[2,5] x) => (float[2,2] v, int64[2,2] i) { k = Constant<value_ints = [2]>() "
     "v, i = TopK(x, k) }",
     {{"x", {2, 5}}}},
    {"CastByName",
     1,
     "g (float[3] x) => (int64[3] y) { y = Cast<to = \"INT64\">(x) }",
     "g (float[3] x) => (int64[3] y) { y = Cast<to = 7>(x) }",
     {{"x", {3}}}},
    {"ConcatDefaultAxis",
     1,
     "g (float[2,1] a) => (float[2,2] y) { y = Concat(a, a) }",
     "g (float[2,1] a) => (float[2,2] y) { y = Concat<axis = 1>(a, a) }",
     {{"a", {2, 1}}}},
    {"SeluDefaults",
     1,
     "g (float[4] x) => (float[4] y) { y = Selu(x) }",
     "g (float[4] x) => (float[4] y) { y = Selu<alpha = 1.6732, gamma = 1.0507>(x) }",
     {{"x", {4}}}},
    {"GemmBroadcast",
     6,
     "g (float[2,3] a, float[3,2] b, float[2] c) => (float[2,2] y) { y = Gemm<broadcast = 1>(a, b, "
     "c) }",
     "g (float[2,3] a, float[3,2] b, float[2] c) => (float[2,2] y) { y = Gemm(a, b, c) }",
     {{"a", {2, 3}}, {"b", {3, 2}}, {"c", {2}}}},
    {"ScatterIsScatterElements",
     9,
     "g (float[4] x, float[2] u) => (float[4] y) { i = Constant<value = int64[2] {1, 3}>() "
     "y = Scatter<axis = 0>(x, i, u) }",
     "g (float[4] x, float[2] u) => (float[4] y) { i = Constant<value = int64[2] {1, 3}>() "
     "y = ScatterElements<axis = 0>(x, i, u) }",
     {{"x", {4}}, {"u", {2}}}},
    {"SoftmaxOfFlattened",
     11,
     "g (float[2,3,4] x) => (float[2,3,4] y) { y = Softmax(x) }",
     "g (float[2,3,4] x) => (float[2,3,4] y) { s = Constant<value_ints = [2, 12]>() "
     "t = Constant<value_ints = [2, 3, 4]>() a = Reshape(x, s) b = Softmax<axis = 1>(a) "
     "y = Reshape(b, t) }",
     {{"x", {2, 3, 4}}}},
    {"LogSoftmaxOfLastAxis",
     9,
     "g (float[2,3,4] x) => (float[2,3,4] y) { y = LogSoftmax<axis = 2>(x) }",
     "g (float[2,3,4] x) => (float[2,3,4] y) { y = LogSoftmax<axis = 2>(x) }",
     {{"x", {2, 3, 4}}}},
    {"HardmaxOfAxis0",
     9,
     "g (float[2,3] x) => (float[2,3] y) { y = Hardmax<axis = 0>(x) }",
     "g (float[2,3] x) => (float[2,3] y) { s = Constant<value_ints = [6]>() "
     "t = Constant<value_ints = [2, 3]>() a = Reshape(x, s) b = Hardmax<axis = 0>(a) "
     "y = Reshape(b, t) }",
     {{"x", {2, 3}}}},
    {"BatchNormalizationSpatial",
     7,
     "g (float[2,2,3] x, float[2] s, float[2] b, float[2] m) => (float[2,2,3] y) { "
     "v = Constant<value = float[2] {1.0, 2.0}>() "
     "y = BatchNormalization<spatial = 1>(x, s, b, m, v) }",
     "g (float[2,2,3] x, float[2] s, float[2] b, float[2] m) => (float[2,2,3] y) { "
     "v = Constant<value = float[2] {1.0, 2.0}>() y = BatchNormalization(x, s, b, m, v) }",
     {{"x", {2, 2, 3}}, {"s", {2}}, {"b", {2}}, {"m", {2}}}},
    {"DropoutRatio",
     10,
     "g (float[3] x) => (float[3] y) { y = Dropout<ratio = 0.3>(x) }",
     "g (float[3] x) => (float[3] y) { y = Dropout(x) }",
     {{"x", {3}}}},
    {"Upsample7",
     7,
     "g (float[1,1,2,2] x) => (float[1,1,4,6] y) { y = Upsample<scales = [1.0, 1.0, 2.0, 3.0]>(x) "
     "}",
     "g (float[1,1,2,2] x) => (float[1,1,4,6] y) { s = Constant<value_floats = [1.0, 1.0, 2.0, "
     "3.0]>() i = Constant<value = float[0] {}>() y = Resize<coordinate_transformation_mode = "
     "\"asymmetric\", nearest_mode = \"floor\">(x, i, s) }",
     {{"x", {1, 1, 2, 2}}}},
    {"LinearResize10",
     10,
     "g (float[1,1,2,2] x) => (float[1,1,4,4] y) { s = Constant<value = float[4] {1.0, 1.0, 2.0, "
     "2.0}>() y = Resize<mode = \"linear\">(x, s) }",
     "g (float[1,1,2,2] x) => (float[1,1,4,4] y) { s = Constant<value = float[4] {1.0, 1.0, 2.0, "
     "2.0}>() i = Constant<value = float[0] {}>() y = Resize<mode = \"linear\", "
     "coordinate_transformation_mode = \"asymmetric\", nearest_mode = \"floor\">(x, i, s) }",
     {{"x", {1, 1, 2, 2}}}},
    {"ResizeWithEmptyScales",
     11,
     "g (float[1,1,2,2] x) => (float[1,1,4,4] y) { e = Constant<value = float[0] {}>() "
     "s = Constant<value = int64[4] {1, 1, 4, 4}>() y = Resize(x, e, e, s) }",
     "g (float[1,1,2,2] x) => (float[1,1,4,4] y) { e = Constant<value = float[0] {}>() "
     "s = Constant<value = int64[4] {1, 1, 4, 4}>() y = Resize(x, e, e, s) }",
     {{"x", {1, 1, 2, 2}}}},
    {"GroupNormalizationByGroup",
     18,
     "g (float[1,4,2] x, float[2] s, float[2] b) => (float[1,4,2] y) { "
     "y = GroupNormalization<num_groups = 2>(x, s, b) }",
     "g (float[1,4,2] x, float[2] s, float[2] b) => (float[1,4,2] y) { "
     "i = Constant<value = int64[4] {0, 0, 1, 1}>() c = Gather(s, i) d = Gather(b, i) "
     "y = GroupNormalization<num_groups = 2>(x, c, d) }",
     {{"x", {1, 4, 2}}, {"s", {2}}, {"b", {2}}}},
    {"GlobalLpPoolFloatP",
     1,
     "g (float[1,2,4] x) => (float[1,2,1] y) { y = GlobalLpPool<p = 2.0>(x) }",
     "g (float[1,2,4] x) => (float[1,2,1] y) { y = GlobalLpPool<p = 2>(x) }",
     {{"x", {1, 2, 4}}}},
    {"GridSampleModeNames",
     16,
     "g (float[1,1,3,3] x, float[1,2,2,2] p) => (float[1,1,2,2] y) { y = GridSample<mode = "
     "\"bicubic\">(x, p) }",
     "g (float[1,1,3,3] x, float[1,2,2,2] p) => (float[1,1,2,2] y) { y = GridSample<mode = "
     "\"cubic\">(x, p) }",
     {{"x", {1, 1, 3, 3}}, {"p", {1, 2, 2, 2}}}},
    {"RoiAlignDefault",
     10,
     "g (float[1,1,4,4] x) => (float[1,1,1,1] y) { r = Constant<value = float[1,4] {0.0, 0.0, 3.0, "
     "3.0}>() b = Constant<value = int64[1] {0}>() y = RoiAlign(x, r, b) }",
     "g (float[1,1,4,4] x) => (float[1,1,1,1] y) { r = Constant<value = float[1,4] {0.0, 0.0, 3.0, "
     "3.0}>() b = Constant<value = int64[1] {0}>() y = RoiAlign<coordinate_transformation_mode = "
     "\"output_half_pixel\">(x, r, b) }",
     {{"x", {1, 1, 4, 4}}}},
};

INSTANTIATE_TEST_SUITE_P(AllOf, OldFormTest, ::testing::ValuesIn(kPairs),
                         [](const auto& row) { return row.param.name; });

TEST(AdapterTest, UnknownVersionNamesOperatorAndVersion) {
  const auto loaded = testing::Load(
      ParseOnnx("g (float[2] x) => (float[2] y) { y = Relu(x) }", kCanonicalOpset + 1));
  EXPECT_EQ(loaded.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(loaded.status().message()), HasSubstr("operator Relu of opset 23"));
}

TEST(AdapterTest, OldFormsThatAreNotRewrittenAreRefusedByName) {
  const auto loaded = testing::Load(
      ParseOnnx("g (float[2] x, float[1] t) => (float[2] y) { y = Tile(x, t, t) }", 1));
  EXPECT_EQ(loaded.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(loaded.status().message()), HasSubstr("operator Tile of opset 1"));
}

TEST(AdapterTest, AttributesOfTheWrongKindAreRefusedButOneIntegerIsAList) {
  const std::string signature = "g (float[1,3] x) => (float[3] y) { ";
  const auto loaded = testing::Load(ParseOnnx(signature + "y = Squeeze<axes = 0.5>(x) }", 11));
  EXPECT_THAT(std::string(loaded.status().message()), HasSubstr("'axes' is of the wrong kind"));
  EXPECT_TRUE(testing::Load(ParseOnnx(signature + "y = Squeeze<axes = 0>(x) }", 11)).ok());
}

TEST(AdapterTest, TrainingFormsOfBatchNormalizationAreRefused) {
  const std::string signature = "g (float[2,2,3] x, float[2] s) => (float[2,2,3] y) { ";
  for (const char* body : {"y = BatchNormalization<is_test = 0>(x, s, s, s, s) }",
                           "y, m, v = BatchNormalization<is_test = 1>(x, s, s, s, s) }",
                           "y = BatchNormalization<spatial = 0>(x, s, s, s, s) }"}) {
    EXPECT_EQ(testing::Load(ParseOnnx(signature + body, 6)).status().code(),
              absl::StatusCode::kUnimplemented)
        << body;
  }
}

// ONNX's registry is the oracle: where an input or an attribute went away between two versions, the
// older one needs an adapter.
TEST(AdapterTest, EveryBreakingChangeOfTheOnnxRegistryHasAnAdapter) {
  std::map<std::string, std::map<int, onnx::OpSchema>> history;
  for (const onnx::OpSchema& schema : onnx::OpSchemaRegistry::get_all_schemas_with_history()) {
    if (schema.domain().empty()) history[schema.Name()].emplace(schema.since_version(), schema);
  }
  ASSERT_GT(history.size(), 150U);
  // Attributes that mean nothing when planning (dropped, or only a hint), before opset 7.
  const std::set<std::string> ignored = {"consumed_inputs"};
  for (const auto& [name, versions] : history) {
    const onnx::OpSchema& newest = versions.rbegin()->second;
    for (const auto& [since, schema] : versions) {
      bool breaking = schema.inputs().size() > newest.inputs().size();
      for (const auto& [attribute, unused] : schema.attributes()) {
        breaking |= !ignored.contains(attribute) && !newest.attributes().contains(attribute);
      }
      if (!breaking) continue;
      const absl::StatusOr<Adapter> adapter = FindAdapter(name, since);
      ASSERT_TRUE(adapter.ok()) << name << " " << since;
      EXPECT_NE(*adapter, nullptr) << name << " of opset " << since;
    }
  }
}

}  // namespace
}  // namespace onnx_memplan
