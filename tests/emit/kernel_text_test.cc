#include "emit/kernel_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace onnx_memplan {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

size_t Count(const std::string& text, std::string_view what) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++count;
  return count;
}

TEST(CodegenHeadersTest, HoldTheFilesOfTheSourceTree) {
  EXPECT_GE(CodegenHeaders().size(), 4u);
  for (const CodegenHeader& header : CodegenHeaders()) {
    EXPECT_THAT(std::string(header.text), HasSubstr("#ifndef MEMPLAN_")) << header.path;
    EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(ONNX_MEMPLAN_SOURCE_DIR) / "codegen" /
                                        header.path))
        << header.path;
  }
}

TEST(PasteHeadersTest, PastesEachHeaderOnceAfterThoseItIncludes) {
  const PastedHeaders pasted = PasteHeaders({"kernels/copy.h", "kernels/unary.h"});
  EXPECT_EQ(Count(pasted.text, "#define MEMPLAN_KERNELS_BASE_H_"), 1u);
  EXPECT_LT(pasted.text.find("MEMPLAN_KERNELS_BASE_H_"), pasted.text.find("struct CopyParams"));
  EXPECT_THAT(pasted.system_includes, Contains("cstdint"));
}

TEST(PasteHeadersTest, DropsIncludesAndFieldLists) {
  for (const CodegenHeader& header : CodegenHeaders()) {
    const PastedHeaders pasted = PasteHeaders({std::string(header.path)});
    EXPECT_THAT(pasted.text, Not(HasSubstr("#include"))) << header.path;
    EXPECT_THAT(pasted.text, Not(HasSubstr("\nMEMPLAN_FIELDS("))) << header.path;
    // Every macro that a header tests for it also defines, and every block is closed.
    EXPECT_EQ(Count(pasted.text, "\n#if"), Count(pasted.text, "\n#endif")) << header.path;
  }
}

}  // namespace
}  // namespace onnx_memplan
