#include "load/external_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <map>
#include <string>

#include "load/onnx_text.h"
#include "load/temp_folder.h"

namespace onnx_memplan {
namespace {

using ::testing::HasSubstr;
using testing::ParseOnnx;
using testing::TempFolder;

// y = w, a float[2] of external data.
onnx::ModelProto ModelWith(const std::map<std::string, std::string>& external_data) {
  onnx::ModelProto model = ParseOnnx("g (float[2] x) => (float[2] y) { y = Add(x, w) }");
  onnx::TensorProto& tensor = *model.mutable_graph()->add_initializer();
  tensor.set_name("w");
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  tensor.add_dims(2);
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  for (const auto& [key, value] : external_data) {
    auto& entry = *tensor.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  }
  return model;
}

std::string FloatBytes(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

// Loads the model from a file in `folder`.
absl::StatusOr<LoadedModel> LoadIn(const TempFolder& folder,
                                   const std::map<std::string, std::string>& external_data) {
  return LoadModel(folder.Write("model.onnx", ModelWith(external_data).SerializeAsString()), {});
}

TEST(ExternalDataTest, ReadsFromTheOffset) {
  const TempFolder folder;
  folder.Write("w.bin", "1234" + FloatBytes({5, 6, 7}));
  const auto loaded = LoadIn(folder, {{"location", "w.bin"}, {"offset", "8"}, {"length", "8"}});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const ValueId w = loaded->graph.nodes[0].inputs[1];
  EXPECT_EQ(loaded->graph.values[static_cast<size_t>(w)].constant,
            Tensor::FromVector<float>({2}, {6, 7}));
}

TEST(ExternalDataTest, UnalignedDataIsCopied) {
  const TempFolder folder;
  folder.Write("w.bin", "1" + FloatBytes({5, 6}));
  const auto loaded = LoadIn(folder, {{"location", "w.bin"}, {"offset", "1"}});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const ValueId w = loaded->graph.nodes[0].inputs[1];
  const Tensor& data = *loaded->graph.values[static_cast<size_t>(w)].constant;
  EXPECT_EQ(reinterpret_cast<uintptr_t>(data.data()) % alignof(float), 0U);
  EXPECT_EQ(data, Tensor::FromVector<float>({2}, {5, 6}));
}

TEST(ExternalDataTest, SubfoldersAreInside) {
  const TempFolder folder;
  std::filesystem::create_directory(folder.path() + "/sub");
  folder.Write("sub/w.bin", FloatBytes({5, 6}));
  EXPECT_TRUE(LoadIn(folder, {{"location", "sub/w.bin"}}).ok());
}

TEST(ExternalDataTest, PathsThatLeaveTheFolderAreRefused) {
  const TempFolder folder;
  folder.Write("w.bin", FloatBytes({5, 6}));
  std::filesystem::create_directory(folder.path() + "/sub");
  std::filesystem::create_symlink("/etc/passwd", folder.path() + "/link");
  std::filesystem::create_symlink("/etc", folder.path() + "/linked");
  for (const std::string& location :
       {std::string("../w.bin"), std::string("sub/../../w.bin"), std::string("sub/../w.bin"),
        std::string("/etc/passwd"), std::string("link"), std::string("linked/passwd"),
        std::string(""), std::string("w.bin\0x", 7)}) {
    const auto loaded = LoadIn(folder, {{"location", location}});
    EXPECT_EQ(loaded.status().code(), absl::StatusCode::kInvalidArgument) << location;
    EXPECT_THAT(std::string(loaded.status().message()), HasSubstr("outside"));
  }
}

TEST(ExternalDataTest, MissingAndShortFilesAreNamed) {
  const TempFolder folder;
  const auto missing = LoadIn(folder, {{"location", "w.bin"}});
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("w.bin"));
  folder.Write("w.bin", "1234567");
  const auto cut_off = LoadIn(folder, {{"location", "w.bin"}});
  EXPECT_THAT(std::string(cut_off.status().message()), HasSubstr("has only 7 bytes"));
}

TEST(ExternalDataTest, AbsurdOffsetsAndLengthsAreRefused) {
  const TempFolder folder;
  folder.Write("w.bin", FloatBytes({5, 6}));
  for (const char* offset : {"-8", "9223372036854775807", "99999999999999999999", "1e3", ""}) {
    EXPECT_FALSE(LoadIn(folder, {{"location", "w.bin"}, {"offset", offset}}).ok()) << offset;
  }
  for (const char* length : {"-8", "4", "9223372036854775807", "eight"}) {
    EXPECT_FALSE(LoadIn(folder, {{"location", "w.bin"}, {"length", length}}).ok()) << length;
  }
}

TEST(ExternalDataTest, SpecialFilesAreRefused) {
  const TempFolder folder;
  std::filesystem::create_directory(folder.path() + "/folder");
  EXPECT_FALSE(LoadIn(folder, {{"location", "folder"}}).ok());
  ASSERT_EQ(::mkfifo((folder.path() + "/pipe").c_str(), 0600), 0);
  EXPECT_FALSE(LoadIn(folder, {{"location", "pipe"}}).ok());
}

TEST(ExternalDataTest, ModelFromMemoryHasNone) {
  const auto loaded = testing::Load(ModelWith({{"location", "w.bin"}}));
  EXPECT_EQ(loaded.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace onnx_memplan
