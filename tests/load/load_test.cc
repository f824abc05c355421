#include "onnx_memplan/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "load/onnx_text.h"

namespace onnx_memplan {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Evaluate;
using ::testing::HasSubstr;
using testing::Load;
using testing::ParseOnnx;
using testing::Ramp;

std::string MessageOf(const absl::StatusOr<LoadedModel>& loaded) {
  return std::string(loaded.status().message());
}

std::vector<std::string> InputNames(const Graph& graph) {
  std::vector<std::string> names;
  for (ValueId id : graph.inputs) names.push_back(graph.values[static_cast<size_t>(id)].name);
  return names;
}

TEST(LoadTest, TellsWhatTheFileSays) {
  onnx::ModelProto model = ParseOnnx("g (float[2] x) => (float[2] y) { a = Relu(x) y = Relu(a) }");
  model.set_producer_name("maker");
  model.set_producer_version("1.2");
  const auto loaded = Load(model);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->info.ir_version, 8);
  EXPECT_EQ(loaded->info.opset_imports.at(""), kCanonicalOpset);
  EXPECT_EQ(loaded->info.producer, "maker 1.2");
  EXPECT_EQ(loaded->info.operators.at("Relu"), 2);
  EXPECT_EQ(loaded->info.sha256.size(), 64U);
}

TEST(LoadTest, NodesMayStandInAnyOrder) {
  const auto loaded =
      Load(ParseOnnx("g (float[2] x) => (float[2] y) { y = Relu(b) b = Neg(a) a = Abs(x) }"));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  std::vector<std::string> types;
  for (const Node& node : loaded->graph.nodes) types.push_back(node.op_type);
  EXPECT_THAT(types, ElementsAre("Abs", "Neg", "Relu"));
}

TEST(LoadTest, InitializersThatAreInputsAreConstants) {
  onnx::ModelProto model =
      ParseOnnx("g (float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }");
  onnx::TensorProto& tensor = *model.mutable_graph()->add_initializer();
  tensor.set_name("w");
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  tensor.add_dims(2);
  tensor.add_float_data(1);
  tensor.add_float_data(2);
  const auto loaded = Load(model);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(InputNames(loaded->graph), ElementsAre("x"));
  const ValueId w = loaded->graph.nodes[0].inputs[1];
  EXPECT_EQ(loaded->graph.values[static_cast<size_t>(w)].constant,
            Tensor::FromVector<float>({2}, {1, 2}));
}

TEST(LoadTest, OmittedInputsStayOmitted) {
  onnx::ModelProto model = ParseOnnx(
      "g (float[2] x) => (float[2] y) { h = Constant<value_float = 0.05>() y = Clip(x, x, h) }");
  model.mutable_graph()->mutable_node(1)->set_input(1, "");
  const auto loaded = Load(model);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_EQ(loaded->graph.nodes[0].inputs.size(), 3U);
  EXPECT_EQ(loaded->graph.nodes[0].inputs[1], kNoValue);
}

TEST(LoadTest, TrailingOmittedInputsAreDropped) {
  onnx::ModelProto model = ParseOnnx("g (float[2] x) => (float[2] y) { y = Clip(x, x, x) }");
  model.mutable_graph()->mutable_node(0)->set_input(1, "");
  model.mutable_graph()->mutable_node(0)->set_input(2, "");
  const auto loaded = Load(model);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->graph.nodes[0].inputs.size(), 1U);
}

TEST(LoadTest, ReadsAllFormsOfConstant) {
  const auto outputs = Evaluate(
      ParseOnnx("g () => (int64 a, int64[2] b, float c, float[2] d, int32[2] e) {"
                "a = Constant<value_int = 3>() b = Constant<value_ints = [1, 2]>()"
                "c = Constant<value_float = 0.5>() d = Constant<value_floats = [0.5, 1.5]>()"
                "e = Constant<value = int32[2] {7, 8}>() }"),
      {});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT(*outputs, ElementsAre(Tensor::ScalarInt64(3), Tensor::VectorInt64({1, 2}),
                                    Tensor::FromVector<float>({}, {0.5F}),
                                    Tensor::FromVector<float>({2}, {0.5F, 1.5F}),
                                    Tensor::FromVector<int32_t>({2}, {7, 8})));
}

TEST(LoadTest, LastOfTwoConstantsOfTheSameNameHoldsWithAWarning) {
  const onnx::ModelProto model = ParseOnnx(
      "g () => (int64 a) { a = Constant<value_int = 3>() a = Constant<value_int = 4>() }");
  EXPECT_THAT(*Evaluate(model, {}), ElementsAre(Tensor::ScalarInt64(4)));
  EXPECT_THAT(Load(model)->info.warnings, ElementsAre(HasSubstr("'a'")));
}

TEST(LoadTest, SparseAndStringConstantsAreRefusedByNode) {
  onnx::ModelProto model = ParseOnnx("g () => (float[2] y) { y = Constant<value_int = 1>() }");
  onnx::AttributeProto& attribute = *model.mutable_graph()->mutable_node(0)->mutable_attribute(0);
  attribute.Clear();
  attribute.set_name("sparse_value");
  attribute.set_type(onnx::AttributeProto::SPARSE_TENSOR);
  const auto sparse = Load(model);
  EXPECT_EQ(sparse.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(MessageOf(sparse), AllOf(HasSubstr("node 'y' (Constant)"), HasSubstr("sparse")));
  attribute.set_name("value_string");
  attribute.set_type(onnx::AttributeProto::STRING);
  attribute.set_s("text");
  const auto text = Load(model);
  EXPECT_EQ(text.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(MessageOf(text), HasSubstr("string"));
}

TEST(LoadTest, ElementTypesWithoutDTypeAreRefusedByName) {
  onnx::ModelProto model = ParseOnnx("g (float[2] x) => (float[2] y) { y = Relu(x) }");
  auto* type = model.mutable_graph()->mutable_input(0)->mutable_type();
  type->mutable_tensor_type()->set_elem_type(onnx::TensorProto::STRING);
  EXPECT_THAT(MessageOf(Load(model)), AllOf(HasSubstr("graph input 'x'"), HasSubstr("string")));
  type->mutable_tensor_type()->set_elem_type(onnx::TensorProto::COMPLEX64);
  EXPECT_THAT(MessageOf(Load(model)), HasSubstr("complex64"));
  type->mutable_sequence_type();
  const auto sequence = Load(model);
  EXPECT_EQ(sequence.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(MessageOf(sequence), HasSubstr("sequence"));
}

TEST(LoadTest, HalfPrecisionInitializersKeepTheirBits) {
  onnx::ModelProto model = ParseOnnx("g () => (float16[2] y) { y = Identity(w) }");
  onnx::TensorProto& tensor = *model.mutable_graph()->add_initializer();
  tensor.set_name("w");
  tensor.set_data_type(onnx::TensorProto::FLOAT16);
  tensor.add_dims(2);
  tensor.add_int32_data(0x3C00);
  tensor.add_int32_data(0xBC01);
  const auto loaded = Load(model);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const ValueId w = loaded->graph.nodes[0].inputs[0];
  const Tensor& data = *loaded->graph.values[static_cast<size_t>(w)].constant;
  EXPECT_EQ(data.dtype(), DType::kFloat16);
  EXPECT_EQ(std::to_integer<int>(data.data()[1]), 0x3C);
  EXPECT_EQ(std::to_integer<int>(data.data()[2]), 0x01);
}

// Model-local functions.

TEST(LoadTest, FunctionsAreInlinedWithTheirAttributes) {
  const auto outputs =
      Evaluate(ParseOnnx("g (float[4] x) => (float[4] y) { y = local.Twice<slope = 0.5>(x) }"
                         "<domain: \"local\", opset_import: [\"\" : 22, \"local\" : 1]>"
                         "Twice <slope> (a) => (c) { b = local.Once<s: float = @slope>(a) "
                         "c = local.Once<s: float = @slope>(b) }"
                         "<domain: \"local\", opset_import: [\"\" : 22]>"
                         "Once <s> (a) => (b) { b = LeakyRelu<alpha: float = @s>(a) }"),
               {{"x", Ramp({4})}});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  const auto expected =
      Evaluate(ParseOnnx("g (float[4] x) => (float[4] y) { a = LeakyRelu<alpha = 0.5>(x) "
                         "y = LeakyRelu<alpha = 0.5>(a) }"),
               {{"x", Ramp({4})}});
  ASSERT_TRUE(expected.ok()) << expected.status();
  EXPECT_EQ(*outputs, *expected);
}

TEST(LoadTest, FunctionsHaveTheirOwnOpset) {
  const auto outputs =
      Evaluate(ParseOnnx("g (float[2,1,3] x) => (float[2,3] y) { y = local.Drop(x) }"
                         "<domain: \"local\", opset_import: [\"\" : 11]>"
                         "Drop (a) => (b) { b = Squeeze<axes = [1]>(a) }"),
               {{"x", Ramp({2, 1, 3})}});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ((*outputs)[0], Ramp({2, 3}));
}

TEST(LoadTest, NamesInsideFunctionsDoNotClash) {
  const auto loaded =
      Load(ParseOnnx("g (float[2] x) => (float[2] y) { t = local.F(x) y = local.F(t) }"
                     "<domain: \"local\", opset_import: [\"\" : 22]>"
                     "F (a) => (b) { t = Neg(a) b = Abs(t) }"));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_TRUE(loaded->graph.Verify(false).ok());
  EXPECT_EQ(loaded->graph.nodes.size(), 4U);
}

TEST(LoadTest, FunctionThatPassesItsInputThroughIsACopy) {
  const auto outputs = Evaluate(ParseOnnx("g (float[2] x) => (float[2] y) { y = local.F(x) }"
                                          "<domain: \"local\", opset_import: [\"\" : 22]>"
                                          "F (a) => (a) { t = Neg(a) }"),
                                {{"x", Ramp({2})}});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ((*outputs)[0], Ramp({2}));
}

TEST(LoadTest, DefaultsOfFunctionAttributesHoldUnlessTheCallSetsThem) {
  onnx::ModelProto model = ParseOnnx(
      "g (float[2] x) => (float[2] y) { y = local.F(x) }"
      "<domain: \"local\", opset_import: [\"\" : 22]>"
      "F <s> (a) => (b) { b = LeakyRelu<alpha: float = @s>(a) }");
  onnx::AttributeProto attribute;
  attribute.set_name("s");
  attribute.set_type(onnx::AttributeProto::FLOAT);
  attribute.set_f(0.25F);
  // FunctionProto.attribute_proto, which onnx.proto of ONNX 1.12 does not know.
  onnx::FunctionProto& function = *model.mutable_functions(0);
  function.clear_attribute();
  function.GetReflection()->MutableUnknownFields(&function)->AddLengthDelimited(
      11, attribute.SerializeAsString());
  const auto outputs = Evaluate(model, {{"x", Tensor::FromVector<float>({2}, {-4, 4})}});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ((*outputs)[0], Tensor::FromVector<float>({2}, {-1, 4}));
}

TEST(LoadTest, FunctionsThatCallEachOtherInACircleAreRefused) {
  const auto loaded =
      Load(ParseOnnx("g (float[2] x) => (float[2] y) { y = local.F(x) }"
                     "<domain: \"local\", opset_import: [\"\" : 22, \"local\" : 1]>"
                     "F (a) => (b) { b = local.G(a) }"
                     "<domain: \"local\", opset_import: [\"\" : 22, \"local\" : 1]>"
                     "G (a) => (b) { b = local.F(a) }"));
  EXPECT_EQ(loaded.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(loaded), HasSubstr("circle"));
}

TEST(LoadTest, FunctionsThatMultiplyWithoutEndAreRefused) {
  // Each of 40 functions calls the next one twice: 2^40 nodes.
  std::string text = "g (float[2] x) => (float[2] y) { y = local.F0(x) }";
  for (int i = 0; i < 40; ++i) {
    const std::string next = i == 39 ? "Neg" : "local.F" + std::to_string(i + 1);
    text += "<domain: \"local\", opset_import: [\"\" : 22, \"local\" : 1]> F" + std::to_string(i) +
            " (a) => (c) { b = " + next + "(a) c = " + next + "(b) }";
  }
  EXPECT_EQ(Load(ParseOnnx(text)).status().code(), absl::StatusCode::kResourceExhausted);
}

// If.

constexpr char kIfModel[] =
    "g (bool c, float[2] x) => (float[2] y) { k = Neg(x) y = If(c) <"
    "then_branch = t () => (float[2] u) { u = Add(k, x) },"
    "else_branch = e () => (float[2] u) { v = Mul(x, x) u = Sub(v, x) }> }";

TEST(LoadTest, BothBranchesOfIfTakeTheSameOuterValues) {
  const auto loaded = Load(ParseOnnx(kIfModel));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const Node& node = loaded->graph.nodes.back();
  ASSERT_EQ(node.inputs.size(), 3U);  // c, k, x
  for (const char* name : {"then_branch", "else_branch"}) {
    const auto& branch = std::get<std::shared_ptr<const Graph>>(node.attributes.at(name));
    EXPECT_EQ(branch->inputs.size(), 2U);
    EXPECT_TRUE(branch->Verify(false).ok()) << branch->Verify(false);
  }
}

TEST(LoadTest, IfWithKnownConditionBecomesItsBranch) {
  for (bool condition : {false, true}) {
    LoadOptions options;
    options.bind["c"] = condition ? "true" : "false";
    auto loaded = Load(ParseOnnx(kIfModel), options);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    ASSERT_TRUE(InferAndFold(loaded->graph).ok());
    EXPECT_EQ(loaded->graph.nodes.back().op_type, condition ? "Add" : "Sub");
  }
}

TEST(LoadTest, IfWithUnknownConditionSaysHowToMakeItKnown) {
  auto loaded = Load(ParseOnnx(kIfModel));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const absl::Status status = InferAndFold(loaded->graph);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--bind"));
}

TEST(LoadTest, BranchThatReturnsAnOuterValueIsACopy) {
  LoadOptions options;
  options.bind["c"] = "1";
  auto loaded = Load(ParseOnnx("g (bool c, float[2] x) => (float[2] y, float[2] z) { y, z = If(c) <"
                               "then_branch = t () => (float[2] x, float[2] x) { w = Neg(x) },"
                               "else_branch = e () => (float[2] u, float[2] u) { u = Neg(x) }> }"),
                     options);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_TRUE(InferAndFold(loaded->graph).ok());
  EXPECT_TRUE(loaded->graph.Verify(true).ok());
}

// What PyTorch's exporter writes: functions that ask for the rank, and use attributes in branches.
TEST(LoadTest, FunctionsWithBranchesOnTheRankFold) {
  auto loaded = Load(
      ParseOnnx("g (float[4] x) => (float[4] y) { y = local.F<slope = 0.5>(x) }"
                "<domain: \"local\", opset_import: [\"\" : 18, \"local\" : 1]>"
                "IsScalar (a) => (c) { s = Shape(a) r = Size(s) z = Constant<value_int = 0>() "
                "c = Equal(r, z) }"
                "<domain: \"local\", opset_import: [\"\" : 18, \"local\" : 1]>"
                "F <slope> (a) => (b) { c = local.IsScalar(a) b = If(c) <"
                "then_branch = t () => (float u) { u = Nonsense(a) },"
                "else_branch = e () => (float u) { u = LeakyRelu<alpha: float = @slope>(a) }> }"));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_TRUE(InferAndFold(loaded->graph).ok());
  ASSERT_EQ(loaded->graph.nodes.size(), 1U);
  EXPECT_EQ(loaded->graph.nodes[0].op_type, "LeakyRelu");
  EXPECT_EQ(std::get<float>(loaded->graph.nodes[0].attributes.at("alpha")), 0.5F);
}

// Dimensions.

TEST(LoadTest, AllOpenDimensionsAreListedWithTheirFlags) {
  const auto loaded =
      Load(ParseOnnx("g (float[batch,3] a, float[batch,len] b, float[?,2] c) => (float[?] y) "
                     "{ y = Concat<axis = 0>(a, b, c) }"));
  EXPECT_EQ(loaded.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(loaded),
              AllOf(HasSubstr("--dim batch=1   (of a, b)"), HasSubstr("--dim len=1   (of b)"),
                    HasSubstr("--input-shape c=1x2")));
}

TEST(LoadTest, InputWithoutAnyShapeIsListed) {
  onnx::ModelProto model = ParseOnnx("g (float[2] x) => (float[2] y) { y = Relu(x) }");
  model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  EXPECT_THAT(MessageOf(Load(model)), HasSubstr("--input-shape x="));
  LoadOptions options;
  options.input_shapes["x"] = {4};
  const auto loaded = Load(model, options);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->graph.values[0].type, (TensorType{DType::kFloat, {4}}));
}

constexpr char kTwoBatches[] = "g (float[n,3] a, float[n,3] b) => (float[n,3] y) { y = Add(a, b) }";

TEST(LoadTest, DimSetsEveryInputThatNamesIt) {
  LoadOptions options;
  options.dims["n"] = 5;
  const auto loaded = Load(ParseOnnx(kTwoBatches), options);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->graph.values[0].type->shape, (Shape{5, 3}));
  EXPECT_EQ(loaded->graph.values[1].type->shape, (Shape{5, 3}));
}

TEST(LoadTest, InputShapeSettlesTheNameForOtherInputs) {
  LoadOptions options;
  options.input_shapes["b"] = {4, 3};
  const auto loaded = Load(ParseOnnx(kTwoBatches), options);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->graph.values[0].type->shape, (Shape{4, 3}));
}

TEST(LoadTest, RequestsThatDoNotFitTheModelAreRefused) {
  const auto message = [](LoadOptions options) {
    const auto loaded = Load(ParseOnnx(kTwoBatches), options);
    EXPECT_EQ(loaded.status().code(), absl::StatusCode::kInvalidArgument);
    return MessageOf(loaded);
  };
  EXPECT_THAT(message({.dims = {{"m", 1}}}), HasSubstr("the names are: n"));
  EXPECT_THAT(message({.dims = {{"n", -1}}}), HasSubstr("negative"));
  EXPECT_THAT(message({.input_shapes = {{"c", {1}}}}), HasSubstr("its inputs are: a, b"));
  EXPECT_THAT(message({.input_shapes = {{"a", {1}}}}), HasSubstr("rank"));
  EXPECT_THAT(message({.input_shapes = {{"a", {1, 4}}}}), HasSubstr("dimension 1 is 3"));
  EXPECT_THAT(message({.input_shapes = {{"a", {1, 3}}, {"b", {2, 3}}}}), HasSubstr("'n' is 1"));
  EXPECT_THAT(message({.dims = {{"n", INT64_MAX / 2}}}), HasSubstr("63 bits"));
  EXPECT_THAT(message({.bind = {{"q", Binding("1")}}}), HasSubstr("its inputs are: a, b"));
}

// Bindings.

TEST(LoadTest, BoundInputsBecomeConstants) {
  LoadOptions options;
  options.bind["s"] = Tensor::VectorInt64({3, 2});
  const auto loaded = Load(
      ParseOnnx("g (float[6] x, int64[2] s) => (float[?,?] y) { y = Reshape(x, s) }"), options);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(InputNames(loaded->graph), ElementsAre("x"));
}

TEST(LoadTest, BoundTextTakesTypeAndShapeOfTheInput) {
  const auto bound = [](const std::string& type, const std::string& text) {
    LoadOptions options;
    options.bind["x"] = text;
    const auto loaded =
        Load(ParseOnnx("g (" + type + " x) => (" + type + " y) { y = Identity(x) }"), options);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return loaded.ok() ? *loaded->graph.values[0].constant : Tensor();
  };
  EXPECT_EQ(bound("int64[2]", "3,4"), Tensor::VectorInt64({3, 4}));
  EXPECT_EQ(bound("int64[n]", "[3, 4, 5]"), Tensor::VectorInt64({3, 4, 5}));
  EXPECT_EQ(bound("int64[n]", "7"), Tensor::VectorInt64({7}));
  EXPECT_EQ(bound("float[2,2]", "0.5"), Tensor::FromVector<float>({2, 2}, {0.5, 0.5, 0.5, 0.5}));
  EXPECT_EQ(bound("int32", "-7"), Tensor::FromVector<int32_t>({}, {-7}));
}

TEST(LoadTest, BoundDataOfAnotherTypeOrShapeIsRefused) {
  const auto load = [](Binding binding) {
    LoadOptions options;
    options.bind["x"] = std::move(binding);
    return Load(ParseOnnx("g (int64[2] x) => (int64[2] y) { y = Identity(x) }"), options);
  };
  EXPECT_THAT(MessageOf(load(Ramp({2}))), HasSubstr("of type float"));
  EXPECT_THAT(MessageOf(load(Tensor::VectorInt64({1, 2, 3}))), HasSubstr("dimension 0 is 2"));
  EXPECT_THAT(MessageOf(load(Binding("1,two"))), HasSubstr("'two' is not a value of type int64"));
  EXPECT_THAT(MessageOf(load(Binding("[1,2"))), HasSubstr("bracket"));
  EXPECT_EQ(load(Binding("1,2,3")).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace onnx_memplan
