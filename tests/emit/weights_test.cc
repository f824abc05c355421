#include "emit/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace onnx_memplan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// What a compiler makes of the literals that AppendStringLiterals writes.
std::string Decode(const std::string& text) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '"') continue;
    for (++i; text[i] != '"'; ++i) {
      if (text[i] != '\\') {
        bytes += text[i];
        continue;
      }
      int value = 0;
      int digits = 0;
      for (; digits < 3 && text[i + 1] >= '0' && text[i + 1] <= '7'; ++digits) {
        value = value * 8 + (text[++i] - '0');
      }
      EXPECT_GT(digits, 0);
      EXPECT_LT(value, 256);
      bytes += static_cast<char>(value);
    }
  }
  return bytes;
}

std::string Encode(std::string_view bytes) {
  std::string text;
  AppendStringLiterals(bytes, text);
  return text;
}

TEST(AppendStringLiteralsTest, RoundTripsEveryPairOfBytes) {
  std::string bytes;
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      bytes += static_cast<char>(a);
      bytes += static_cast<char>(b);
    }
  }
  EXPECT_EQ(Decode(Encode(bytes)), bytes);
}

TEST(AppendStringLiteralsTest, WritesShortEscapesAndNoTrigraph) {
  EXPECT_EQ(Encode(std::string_view("\0A\0001", 4)), "    \"\\0A\\0001\"\n");
  EXPECT_EQ(Encode(""), "    \"\"\n");
  EXPECT_THAT(Encode("?\?/?\?="), Not(HasSubstr("?")));
}

TEST(AppendStringLiteralsTest, KeepsLinesShort) {
  std::mt19937 random(1);
  std::string bytes;
  for (int i = 0; i < 10000; ++i) bytes += static_cast<char>(random() & 0xff);
  const std::string text = Encode(bytes);
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    EXPECT_LE(end - at, 100u);
    at = end + 1;
  }
  EXPECT_EQ(Decode(text), bytes);
}

TEST(WeightsLayoutTest, StoresEqualBytesOnce) {
  WeightsLayout layout(16);
  const Tensor a = Tensor::FromVector<float>({2}, {1, 2});
  const Tensor same = Tensor::FromVector<float>({2, 1}, {1, 2});
  const Tensor other = Tensor::FromVector<float>({2}, {2, 1});
  EXPECT_EQ(layout.Add(a), 0);
  EXPECT_EQ(layout.Add(other), 8);
  EXPECT_EQ(layout.Add(same), 0);
  EXPECT_EQ(layout.bytes(), 16);
  EXPECT_EQ(layout.Blob().size(), 16u);
}

TEST(WeightsLayoutTest, AlignsLargeTensorsForTheTargetAndSmallOnesForTheirElements) {
  WeightsLayout layout(32);
  layout.Add(Tensor::FromVector<int8_t>({1}, {1}));
  EXPECT_EQ(layout.Add(Tensor::FromVector<int8_t>({3}, {1, 2, 3})), 8);
  EXPECT_EQ(layout.Add(Tensor::FromVector<float>({32}, std::vector<float>(32, 1))), 32);
}

TEST(WeightsFileTest, StartsWithMagicSizeAndHash) {
  const std::string file = WeightsFile("abc");
  ASSERT_EQ(file.size(), 67u);
  EXPECT_EQ(file.substr(0, 8), "MEMPLANW");
  EXPECT_EQ(file[8], 3);
  EXPECT_EQ(file.substr(64), "abc");
  // The published FNV-1a test vectors for "" and "a".
  EXPECT_EQ(Fnv1a64(""), 0xcbf29ce484222325u);
  EXPECT_EQ(Fnv1a64("a"), 0xaf63dc4c8601ec8cu);
}

}  // namespace
}  // namespace onnx_memplan
