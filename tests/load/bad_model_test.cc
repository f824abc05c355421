// Files that are no models, or not whole, or not well formed: one clear status each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>

#include "load/onnx_text.h"
#include "onnx_memplan/load.h"

namespace onnx_memplan {
namespace {

using ::testing::HasSubstr;
using testing::Load;
using testing::ParseOnnx;

constexpr char kModel[] =
    "g (float[2,3] x) => (float[2,2] y) { w = Constant<value = float[3,2] {1.0, 2.0, 3.0, 4.0, "
    "5.0, "
    "6.0}>() m = MatMul(x, w) y = Relu(m) }";

void ExpectRefused(const onnx::ModelProto& model, const std::string& what,
                   absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
  const auto loaded = Load(model);
  EXPECT_EQ(loaded.status().code(), code) << loaded.status();
  EXPECT_THAT(std::string(loaded.status().message()), HasSubstr(what));
}

// `change` applied to a good model.
onnx::ModelProto Changed(const std::function<void(onnx::GraphProto&)>& change) {
  onnx::ModelProto model = ParseOnnx(kModel);
  change(*model.mutable_graph());
  return model;
}

TEST(BadModelTest, MissingFileIsNotFound) {
  const auto loaded = LoadModel("/nonexistent/model.onnx", {});
  EXPECT_EQ(loaded.status().code(), absl::StatusCode::kNotFound);
}

TEST(BadModelTest, FolderIsNoModel) {
  const auto loaded = LoadModel("/", {});
  EXPECT_EQ(loaded.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(BadModelTest, EmptyAndGarbageBytesAreRefused) {
  EXPECT_EQ(Load(std::string()).status().code(), absl::StatusCode::kInvalidArgument);
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    std::string bytes(static_cast<size_t>(1 + i), '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    EXPECT_FALSE(Load(bytes).ok());
  }
}

TEST(BadModelTest, EveryTruncationIsRefused) {
  onnx::ModelProto model = ParseOnnx(kModel);
  // One import, at the end of the file: with two, losing the second leaves a whole model.
  model.mutable_opset_import()->RemoveLast();
  const std::string bytes = model.SerializeAsString();
  ASSERT_TRUE(Load(bytes).ok());
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(Load(bytes.substr(0, length)).ok()) << length << " of " << bytes.size();
  }
}

TEST(BadModelTest, EveryChangedByteIsReadOrRefused) {
  const std::string bytes = ParseOnnx(kModel).SerializeAsString();
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
      auto loaded = Load(changed);
      if (loaded.ok()) (void)InferAndFold(loaded->graph);
    }
  }
}

TEST(BadModelTest, CycleIsRefusedNamingANode) {
  ExpectRefused(ParseOnnx("g (float[2] x) => (float[2] y) { a = Add(x, b) b = Neg(a) y = Abs(b) }"),
                "cycle");
}

TEST(BadModelTest, ValueThatNothingMakesIsNamed) {
  ExpectRefused(ParseOnnx("g (float[2] x) => (float[2] y) { y = Add(x, nothing) }"),
                "its input 'nothing'");
  ExpectRefused(ParseOnnx("g (float[2] x) => (float[2] z) { y = Neg(x) }"), "graph output 'z'");
}

TEST(BadModelTest, SecondDefinitionIsRefused) {
  ExpectRefused(ParseOnnx("g (float[2] x) => (float[2] y) { y = Neg(x) y = Abs(x) }"),
                "'y' is defined already");
  ExpectRefused(ParseOnnx("g (float[2] x) => (float[2] x) { x = Neg(x) }"),
                "'x' is defined already");
  ExpectRefused(ParseOnnx("g (float[2] x, float[2] x) => (float[2] y) { y = Neg(x) }"),
                "two inputs named 'x'");
}

TEST(BadModelTest, GraphWithoutOutputsIsRefused) {
  ExpectRefused(Changed([](onnx::GraphProto& graph) { graph.clear_output(); }), "no outputs");
}

TEST(BadModelTest, ModelWithoutGraphOrOpsetIsRefused) {
  onnx::ModelProto model = ParseOnnx(kModel);
  model.clear_opset_import();
  ExpectRefused(model, "imports no opset");
  model.clear_graph();
  ExpectRefused(model, "no graph");
}

TEST(BadModelTest, AbsurdDimensionsAreRefused) {
  const auto with_dim = [](int64_t dim) {
    return Changed([=](onnx::GraphProto& graph) {
      auto* shape = graph.mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
      shape->mutable_dim(0)->set_dim_value(dim);
    });
  };
  ExpectRefused(with_dim(int64_t{1} << 62), "63 bits");
  ExpectRefused(with_dim(-5), "--input-shape x=1x3");
}

TEST(BadModelTest, TensorsWithTooLittleOrTooMuchDataAreRefused) {
  const auto with_tensor = [](const std::function<void(onnx::TensorProto&)>& change) {
    return Changed([&](onnx::GraphProto& graph) {
      onnx::TensorProto& tensor = *graph.add_initializer();
      tensor.set_name("extra");
      tensor.set_data_type(onnx::TensorProto::FLOAT);
      tensor.add_dims(2);
      change(tensor);
    });
  };
  ExpectRefused(with_tensor([](auto& tensor) { tensor.add_float_data(1); }), "tensor 'extra'");
  ExpectRefused(with_tensor([](auto& tensor) { tensor.set_raw_data("1234567890"); }), "10 bytes");
  ExpectRefused(with_tensor([](auto& tensor) { tensor.set_dims(0, -2); }), "not possible");
  ExpectRefused(with_tensor([](auto& tensor) {
                  tensor.set_dims(0, int64_t{1} << 40);
                  tensor.add_dims(int64_t{1} << 40);
                }),
                "not possible");
  ExpectRefused(with_tensor([](auto& tensor) { tensor.set_dims(0, int64_t{1} << 50); }),
                "0 elements of data");
  ExpectRefused(with_tensor([](auto& tensor) { tensor.set_data_type(99); }), "number 99",
                absl::StatusCode::kUnimplemented);
  ExpectRefused(with_tensor([](auto& tensor) {
                  tensor.set_data_type(onnx::TensorProto::BOOL);
                  tensor.set_raw_data("\x01\x02");
                }),
                "other than 0 and 1");
}

TEST(BadModelTest, SubgraphsNestedWithoutEndAreRefused) {
  // Protobuf bounds the nesting of messages.
  onnx::ModelProto model = ParseOnnx(kModel);
  onnx::GraphProto* graph = model.mutable_graph();
  for (int depth = 0; depth < 2000; ++depth) {
    onnx::NodeProto* node = graph->add_node();
    node->set_op_type("If");
    node->add_input("x");
    onnx::AttributeProto* attribute = node->add_attribute();
    attribute->set_name("then_branch");
    attribute->set_type(onnx::AttributeProto::GRAPH);
    graph = attribute->mutable_g();
  }
  EXPECT_FALSE(Load(model).ok());
}

}  // namespace
}  // namespace onnx_memplan
