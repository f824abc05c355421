#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <string>

#include "onnx_memplan/buffers.h"

namespace onnx_memplan {
namespace {

using ::testing::HasSubstr;

TEST(ParseBuffersCsv, ReadsTheColumnsInAnyOrder) {
  const auto list = ParseBuffersCsv("size,id,upper,lower\r\n\n16,a,9,3\n8,b,4,-1\n");
  ASSERT_TRUE(list.ok()) << list.status();
  ASSERT_EQ(list->buffers.size(), 2);
  EXPECT_EQ(list->buffers[0], (Buffer{.id = "a", .lower = 3, .upper = 9, .bytes = 16}));
  EXPECT_EQ(list->buffers[1].lower, -1);
}

TEST(ParseBuffersCsv, TakesEndAsInclusive) {
  const auto list = ParseBuffersCsv("buffer,start,end,size\nx,0,4,8\n");
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->buffers[0].upper, 5);
  EXPECT_TRUE(ParseBuffersCsv("buffer_id,begin,end,size\nx,0,0,8\n").ok());
}

TEST(ParseBuffersCsv, ReadsAlignmentHintGapsAndOffset) {
  const auto list = ParseBuffersCsv(
      "id,lower,upper,size,alignment,hint,gaps,offset\n"
      "x,0,20,8,4,12,2-4 6-9@1:3,16\n"
      "y,0,20,8,1,-1,,0\n");
  ASSERT_TRUE(list.ok()) << list.status();
  const Buffer& x = list->buffers[0];
  EXPECT_EQ(x.alignment, 4);
  EXPECT_EQ(x.hint, 12);
  EXPECT_EQ(x.offset, 16);
  ASSERT_EQ(x.gaps.size(), 2);
  EXPECT_EQ(x.gaps[0], (BufferGap{.lower = 2, .upper = 4}));
  EXPECT_EQ(x.gaps[1], (BufferGap{.lower = 6, .upper = 9, .window_low = 1, .window_high = 3}));
  EXPECT_FALSE(list->buffers[1].hint.has_value());
}

TEST(FormatBuffersCsv, GivesBackWhatWasReadWithOffsets) {
  const std::string text =
      "id,lower,upper,size,alignment,hint,gaps,offset\n"
      "x,0,20,8,4,12,2-4 6-9@1:3,16\n"
      "y,0,20,8,1,-1,,0\n";
  const auto list = ParseBuffersCsv(text);
  ASSERT_TRUE(list.ok());
  EXPECT_EQ(FormatBuffersCsv(*list, {16, 0}), text);
  const auto plain = ParseBuffersCsv("id,lower,upper,size\nx,0,20,8\n");
  EXPECT_EQ(FormatBuffersCsv(*plain, {4}), "id,lower,upper,size,offset\nx,0,20,8,4\n");
}

struct Bad {
  std::string text, message;
};

TEST(ParseBuffersCsv, NamesLineAndFault) {
  for (const Bad& bad : {
           Bad{"", "no header"},
           Bad{"\n\n", "no header"},
           Bad{"id,lower,upper\n", "line 1: there is no column \"size\""},
           Bad{"id,lower,size\n", "\"upper\" and \"end\""},
           Bad{"id,lower,upper,end,size\n", "\"upper\" and \"end\""},
           Bad{"id,lower,upper,size,colour\n", "line 1: unknown column \"colour\""},
           Bad{"id,lower,upper,size,size\n", "twice"},
           Bad{"id,lower,upper,size\n\na,1,2\n", "line 3: 3 fields for 4"},
           Bad{"id,lower,upper,size\na,1,2,3,4\n", "line 2: 5 fields for 4"},
           Bad{"id,lower,upper,size\na,one,2,3\n", "lower is not a whole number"},
           Bad{"id,lower,upper,size\na,1,2,3.5\n", "size is not a whole number"},
           Bad{"id,lower,upper,size\na,1,2,99999999999999999999\n", "size is not a whole number"},
           Bad{"id,lower,upper,size\na,1,2,-3\n", "negative size"},
           Bad{"id,lower,upper,size\na,2,2,3\n", "is empty"},
           Bad{"id,lower,end,size\na,1,9223372036854775807,3\n", "end is too large"},
           Bad{"id,lower,upper,size,alignment\na,1,2,3,6\n", "not a power of two"},
           Bad{"id,lower,upper,size,gaps\na,1,9,3,2\n", "two numbers with '-'"},
           Bad{"id,lower,upper,size,gaps\na,1,9,3,2-3@4\n", "two numbers with ':'"},
           Bad{std::string("id,lower,upper,size\n\0\x01\xff,1,2,3,4\n", 32), "fields for 4"},
       }) {
    const auto list = ParseBuffersCsv(bad.text);
    ASSERT_FALSE(list.ok()) << bad.text;
    EXPECT_THAT(std::string(list.status().message()), HasSubstr(bad.message));
  }
}

TEST(ParseBuffersCsv, SurvivesGarbage) {
  std::mt19937 random(1);
  const std::string good = "id,lower,upper,size,alignment,gaps\na,1,9,3,4,2-3@0:1\nb,2,3,4,1,\n";
  for (int i = 0; i < 20000; ++i) {
    std::string text = good;
    for (int k = 0; k < 3; ++k) {
      text[random() % text.size()] = static_cast<char>(random() % 256);
      if (random() % 4 == 0) text.erase(random() % text.size(), 1 + random() % 5);
      if (text.empty()) text = ",";
    }
    const auto list = ParseBuffersCsv(text);
    if (!list.ok()) continue;
    const auto plan = PlanBuffers(list->buffers, std::nullopt, "heuristic", {});
    if (!plan.ok()) continue;
    EXPECT_TRUE(VerifyBufferOffsets(list->buffers, plan->offsets, plan->arena_bytes).ok());
  }
}

TEST(ReadBuffersCsv, NamesThePath) {
  const auto missing = ReadBuffersCsv("/nowhere/x.csv");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("/nowhere/x.csv"));
  EXPECT_FALSE(WriteBuffersCsv("/nowhere/x.csv", {}, {}).ok());
}

TEST(WriteBuffersCsv, CanBeReadAgain) {
  const std::string path = testing::TempDir() + "/onnx_memplan_buffers.csv";
  const auto list = ParseBuffersCsv("id,lower,upper,size\nx,0,20,8\ny,5,6,4\n");
  ASSERT_TRUE(WriteBuffersCsv(path, *list, {0, 8}).ok());
  const auto again = ReadBuffersCsv(path);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->buffers[1].offset, 8);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace onnx_memplan
