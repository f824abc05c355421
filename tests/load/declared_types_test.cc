#include "load/declared_types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "load/onnx_text.h"

namespace onnx_memplan {
namespace {

using ::testing::HasSubstr;
using testing::Load;
using testing::ParseOnnx;

TEST(EvaluateDimensionTest, ComputesWhatToolsWrite) {
  const SymbolSizes symbols = {{"batch", 3}, {"length", 8}, {"odd name-1", 5}};
  EXPECT_EQ(EvaluateDimension("7", symbols), 7);
  EXPECT_EQ(EvaluateDimension("batch", symbols), 3);
  EXPECT_EQ(EvaluateDimension("16*batch", symbols), 48);
  EXPECT_EQ(EvaluateDimension("batch*(length - 1)", symbols), 21);
  EXPECT_EQ(EvaluateDimension("length - batch - 1", symbols), 4);
  EXPECT_EQ(EvaluateDimension("length / 4 + 2 * batch", symbols), 8);
  EXPECT_EQ(EvaluateDimension("odd name-1", symbols), 5);
}

TEST(EvaluateDimensionTest, GivesNothingForWhatHasNoSize) {
  const SymbolSizes symbols = {{"batch", 3}};
  for (const char* text : {"", "length", "batch*", "(batch", "batch)", "batch - 4", "batch / 2",
                           "batch / 0", "9223372036854775807 * batch", "batch % 2", "2 batch"}) {
    EXPECT_EQ(EvaluateDimension(text, symbols), std::nullopt) << text;
  }
  EXPECT_EQ(EvaluateDimension(std::string(1000, '('), symbols), std::nullopt);
}

// An operator that nobody knows, between two that are known.
constexpr char kUnknown[] =
    "g (float[batch,4] x) => (float[batch,4] y) {\n"
    "  a = Relu(x)\n"
    "  b = other.Strange(a)\n"
    "  y = Neg(b)\n"
    "}";

onnx::ModelProto UnknownModel(const std::string& dimension) {
  onnx::ModelProto model = ParseOnnx(kUnknown);
  onnx::OperatorSetIdProto& import = *model.add_opset_import();
  import.set_domain("other");
  import.set_version(1);
  onnx::ValueInfoProto& declaration = *model.mutable_graph()->add_value_info();
  declaration.set_name("b");
  onnx::TypeProto::Tensor& type = *declaration.mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx::TensorProto::FLOAT);
  type.mutable_shape()->add_dim()->set_dim_param(dimension);
  return model;
}

LoadOptions WithBatch(bool keep_declared_types) {
  LoadOptions options;
  options.dims["batch"] = 2;
  options.keep_declared_types = keep_declared_types;
  return options;
}

TEST(DeclaredTypesTest, TypesOfUnknownOperatorsAreThoseOfTheFile) {
  auto loaded = Load(UnknownModel("batch*5"), WithBatch(true));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_TRUE(InferAndFold(loaded->graph).ok());
  const Graph& graph = loaded->graph;
  const Value& y = graph.values[static_cast<size_t>(graph.outputs[0])];
  EXPECT_EQ(*y.type, (TensorType{DType::kFloat, {10}}));
}

TEST(DeclaredTypesTest, UnknownOperatorsAreErrorsWhereTheFileSaysNoType) {
  for (const bool keep : {false, true}) {
    auto loaded = Load(UnknownModel(keep ? "length" : "batch"), WithBatch(keep));
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    const absl::Status status = InferAndFold(loaded->graph);
    EXPECT_TRUE(absl::IsUnimplemented(status));
    EXPECT_THAT(std::string(status.message()), HasSubstr("Strange"));
  }
}

// What the rule of an operator says holds, not what the file says.
TEST(DeclaredTypesTest, KnownOperatorsAreInferred) {
  onnx::ModelProto model = ParseOnnx("g (float[2,3] x) => (int64[7] y) { y = Relu(x) }");
  LoadOptions options;
  options.keep_declared_types = true;
  auto loaded = Load(model, options);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_TRUE(InferAndFold(loaded->graph).ok());
  const Graph& graph = loaded->graph;
  EXPECT_EQ(*graph.values[static_cast<size_t>(graph.outputs[0])].type,
            (TensorType{DType::kFloat, {2, 3}}));
}

}  // namespace
}  // namespace onnx_memplan
