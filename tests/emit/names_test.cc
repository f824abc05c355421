#include "emit/names.h"

#include <gtest/gtest.h>

namespace onnx_memplan {
namespace {

TEST(ToIdentifierTest, KeepsWhatIsAnIdentifier) {
  EXPECT_EQ(ToIdentifier("x"), "x");
  EXPECT_EQ(ToIdentifier("Input_3"), "Input_3");
}

TEST(ToIdentifierTest, ReplacesWhatIsNone) {
  EXPECT_EQ(ToIdentifier("x.1"), "x_1");
  EXPECT_EQ(ToIdentifier("serving_default_x:0"), "serving_default_x_0");
  EXPECT_EQ(ToIdentifier("/layer/Relu_output"), "layer_Relu_output");
  EXPECT_EQ(ToIdentifier("495"), "t495");
  EXPECT_EQ(ToIdentifier("größe"), "gr_e");
  EXPECT_EQ(ToIdentifier("___"), "t");
  EXPECT_EQ(ToIdentifier(""), "t");
  EXPECT_EQ(ToIdentifier("__x__"), "x");
}

TEST(ToIdentifierTest, StepsAroundReservedWords) {
  for (const char* word : {"float", "class", "restrict", "int64_t", "arena", "NULL", "linux"}) {
    EXPECT_EQ(ToIdentifier(word), std::string("t_") + word);
    EXPECT_FALSE(IsIdentifier(word)) << word;
  }
}

TEST(ToIdentifierTest, AlwaysGivesAnIdentifier) {
  for (const char* text : {"a__b", "_a", "9", "?", "a\nb", "for", "*/", "\"", "x y", "t_", "a_"}) {
    EXPECT_TRUE(IsIdentifier(ToIdentifier(text))) << text;
  }
}

TEST(UniqueIdentifiersTest, DifferEvenInCapitals) {
  UniqueIdentifiers ids;
  EXPECT_EQ(ids.Add("x"), "x");
  EXPECT_EQ(ids.Add("X"), "X_2");
  EXPECT_EQ(ids.Add("x"), "x_3");
  EXPECT_EQ(ids.Add("x_2"), "x_2_2");
  EXPECT_EQ(ids.Add("float"), "t_float");
  EXPECT_EQ(ids.Add("float"), "t_float_2");
}

TEST(ForCommentTest, LeavesNothingForThePreprocessor) {
  EXPECT_EQ(ForComment("a*/b"), "a_/b");
  EXPECT_EQ(ForComment("ends with \\"), "ends with _");
  EXPECT_EQ(ForComment("two\nlines"), "two_lines");
  EXPECT_EQ(ForComment("?\?/"), "__/");
  EXPECT_EQ(ForComment("abcdef", 3), "abc...");
}

}  // namespace
}  // namespace onnx_memplan
