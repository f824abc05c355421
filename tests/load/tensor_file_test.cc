#include "load/tensor_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "load/temp_folder.h"
#include "onnx/onnx_pb.h"
#include "onnx_memplan/load.h"

namespace onnx_memplan {
namespace {

using ::testing::HasSubstr;
using testing::TempFolder;

// A .npy file of version 1.
std::string Npy(const std::string& dictionary, const std::string& data) {
  std::string header = dictionary + "\n";
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header +
         data;
}

absl::StatusOr<Tensor> Parse(const std::string& bytes) {
  return TensorFromNpy(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

std::string Message(const absl::StatusOr<Tensor>& tensor) {
  return std::string(tensor.status().message());
}

const std::string kInt16Pair("\x01\x00\xFF\xFF", 4);

TEST(TensorFileTest, ReadsNpy) {
  const auto tensor =
      Parse(Npy("{'descr': '<i2', 'fortran_order': False, 'shape': (2, 1), }", kInt16Pair));
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(*tensor, Tensor::FromVector<int16_t>({2, 1}, {1, -1}));
}

TEST(TensorFileTest, ReadsNpyScalarsAndVectors) {
  const std::string one("\x07", 1);
  const auto scalar = Parse(Npy("{'descr': '|u1', 'fortran_order': False, 'shape': (), }", one));
  ASSERT_TRUE(scalar.ok()) << scalar.status();
  EXPECT_EQ(*scalar, Tensor::FromVector<uint8_t>({}, {7}));
  const auto vector = Parse(Npy("{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }", one));
  ASSERT_TRUE(vector.ok()) << vector.status();
  EXPECT_EQ(*vector, Tensor::FromVector<uint8_t>({1}, {7}));
}

TEST(TensorFileTest, BadNpyIsRefusedWithTheReason) {
  const std::string good =
      Npy("{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }", kInt16Pair);
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(Parse(good.substr(0, length)).ok()) << length;
  }
  EXPECT_FALSE(Parse(good + "x").ok());
  EXPECT_THAT(
      Message(Parse(Npy("{'descr': '<i2', 'fortran_order': True, 'shape': (2,), }", kInt16Pair))),
      HasSubstr("Fortran"));
  EXPECT_THAT(
      Message(Parse(Npy("{'descr': '>i2', 'fortran_order': False, 'shape': (2,), }", kInt16Pair))),
      HasSubstr("'>i2'"));
  for (const char* shape : {"(-2,)", "(9999999999,9999999999)", "(two,)", "2"}) {
    EXPECT_FALSE(
        Parse(Npy(std::string("{'descr': '<i2', 'fortran_order': False, 'shape': ") + shape + ", }",
                  kInt16Pair))
            .ok())
        << shape;
  }
  EXPECT_FALSE(
      Parse(Npy("{'descr': '|b1', 'fortran_order': False, 'shape': (1,), }", "\x02")).ok());
}

TEST(TensorFileTest, ReadsFilesByTheirEnding) {
  const TempFolder folder;
  onnx::TensorProto proto;
  proto.set_data_type(onnx::TensorProto::INT64);
  proto.add_dims(1);
  proto.add_int64_data(42);
  const auto tensor = ReadTensorFile(folder.Write("x.pb", proto.SerializeAsString()));
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(*tensor, Tensor::VectorInt64({42}));

  const auto npy = ReadTensorFile(folder.Write(
      "x.npy", Npy("{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }", kInt16Pair)));
  EXPECT_TRUE(npy.ok()) << npy.status();

  EXPECT_THAT(Message(ReadTensorFile(folder.Write("x.txt", "1"))), HasSubstr(".npy or .pb"));
  EXPECT_THAT(Message(ReadTensorFile(folder.Write("bad.pb", "\xFF"))), HasSubstr("bad.pb"));
  EXPECT_EQ(ReadTensorFile(folder.path() + "/none.npy").status().code(),
            absl::StatusCode::kNotFound);
}

TEST(TensorFileTest, TextOutOfRangeOfTheTypeIsRefused) {
  EXPECT_TRUE(TensorFromText("255", DType::kUint8).ok());
  EXPECT_FALSE(TensorFromText("256", DType::kUint8).ok());
  EXPECT_FALSE(TensorFromText("-1", DType::kUint32).ok());
  EXPECT_TRUE(TensorFromText("18446744073709551615", DType::kUint64).ok());
  EXPECT_EQ(TensorFromText("1", DType::kFloat16).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(*TensorFromText("[]", DType::kInt64), Tensor::VectorInt64({}));
}

}  // namespace
}  // namespace onnx_memplan
