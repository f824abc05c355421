// Rows for convolutions, pools and matrix products.
#ifndef ONNX_MEMPLAN_TESTS_OPS_CASES_LINEAR_H_
#define ONNX_MEMPLAN_TESTS_OPS_CASES_LINEAR_H_

#include <string>
#include <vector>

#include "ops/cases.h"

namespace onnx_memplan::cases {

using IntList = std::vector<int64_t>;

// Two queries, three keys, all of two elements.
inline Attributes AttentionAttributes() {
  return {{"shape", IntList{2, 2}}, {"batch", IntList{}},    {"rows", int64_t{2}},
          {"keys", int64_t{3}},     {"depth", int64_t{2}},   {"columns", int64_t{2}},
          {"scale", 0.5F},          {"q", IntList{0, 2, 1}}, {"k", IntList{0, 2, 1}},
          {"v", IntList{0, 2, 1}},  {"y", IntList{0, 2, 1}}, {"mask", IntList{0, 0, 1}}};
}

inline std::vector<OpCase> LinearCases() {
  const Tensor square = Floats({1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  const Tensor ones = Floats({1, 1, 2, 2}, {1, 1, 1, 1});
  const Tensor matrix = Floats({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor other = Floats({3, 2}, {1, 0, 0, 1, 1, 1});
  return {
      {"Conv", {square, ones}, {Floats({1, 1, 2, 2}, {12, 16, 24, 28})}},
      {"Conv",
       {square, ones, Floats({1}, {0.5F})},
       {Floats({1, 1, 2, 2}, {1.5F, 5.5F, 11.5F, 28.5F})},
       {{"strides", IntList{2, 2}}, {"pads", IntList{1, 1, 0, 0}}}},
      {"Conv",
       {Floats({1, 2, 3}, {1, 2, 3, 4, 5, 6}), Floats({2, 1, 2}, {1, 1, 1, -1})},
       {Floats({1, 2, 2}, {3, 5, -1, -1})},
       {{"group", int64_t{2}}}},
      {"Conv",
       {Doubles({1, 1, 3}, {1, 2, 3}), Doubles({1, 1, 1}, {2})},
       {Doubles({1, 1, 3}, {2, 4, 6})}},
      {"ConvTranspose",
       {Floats({1, 1, 2, 2}, {1, 2, 3, 4}), ones},
       {Floats({1, 1, 3, 3}, {1, 3, 2, 4, 10, 6, 3, 7, 4})}},
      {"ConvTranspose",
       {Floats({1, 1, 2}, {1, 2}), Floats({1, 1, 2}, {1, 10}), Floats({1}, {0.5F})},
       {Floats({1, 1, 5}, {1.5F, 10.5F, 2.5F, 20.5F, 0.5F})},
       {{"strides", IntList{2}}, {"output_padding", IntList{1}}}},
      {"ConvTranspose",
       {Doubles({1, 1, 2}, {1, 2}), Doubles({1, 1, 2}, {1, 10})},
       {Doubles({1, 1, 3}, {1, 12, 20})}},
      {"MaxPool",
       {square},
       {Floats({1, 1, 2, 2}, {5, 6, 8, 9}), Ints({1, 1, 2, 2}, {4, 5, 7, 8})},
       {{"kernel_shape", IntList{2, 2}}}},
      {"MaxPool",
       {Int8s({1, 1, 3}, {-3, -2, -9})},
       {Int8s({1, 1, 2}, {-2, -2})},
       {{"kernel_shape", IntList{2}}}},
      {"AveragePool",
       {square},
       {Floats({1, 1, 2, 2}, {1, 2.5F, 5.5F, 7})},
       {{"kernel_shape", IntList{2, 2}},
        {"strides", IntList{2, 2}},
        {"pads", IntList{1, 1, 0, 0}}}},
      {"LpPool",
       {Floats({1, 1, 3}, {3, -4, 0})},
       {Floats({1, 1, 2}, {5, 4})},
       {{"kernel_shape", IntList{2}}}},
      {"GlobalAveragePool", {square}, {Floats({1, 1, 1, 1}, {5})}},
      {"GlobalMaxPool", {square}, {Floats({1, 1, 1, 1}, {9})}},
      {"GlobalLpPool", {Floats({1, 1, 2}, {3, -4})}, {Floats({1, 1, 1}, {5})}},
      {"Gemm",
       {matrix, other, Floats({2}, {10, 20})},
       {Floats({2, 2}, {9, 15, 15, 21})},
       {{"beta", 0.5F}}},
      {"Gemm",
       {matrix, matrix},
       {Floats({2, 2}, {28, 64, 64, 154})},
       {{"transB", int64_t{1}}, {"alpha", 2.0F}}},
      {"MatMul", {matrix, other}, {Floats({2, 2}, {4, 5, 10, 11})}},
      {"MatMul", {Ints({2}, {2, 3}), Ints({2}, {5, 7})}, {Ints({}, {31})}},
      {"FusedMatMul",
       {matrix, matrix},
       {Floats({2, 2}, {28, 64, 64, 154})},
       {{"transB", int64_t{1}}, {"alpha", 2.0F}},
       "com.microsoft"},
      // Queries of zeros weigh all keys alike; the mask hides the second one.
      {"Attention",
       {Floats({2, 2}, {0, 0, 0, 0}), matrix, Floats({3, 2}, {1, 2, 3, 4, 8, 9})},
       {Floats({2, 2}, {4, 5, 4, 5})},
       AttentionAttributes(),
       "onnx_memplan",
       1e-5},
      {"Attention",
       {Floats({2, 2}, {0, 0, 0, 0}), matrix, Floats({3, 2}, {1, 2, 3, 4, 8, 9}),
        Floats({3}, {0, -1e9F, 0})},
       {Floats({2, 2}, {4.5F, 5.5F, 4.5F, 5.5F})},
       AttentionAttributes(),
       "onnx_memplan",
       1e-5},
  };
}

}  // namespace onnx_memplan::cases

#endif  // ONNX_MEMPLAN_TESTS_OPS_CASES_LINEAR_H_
