// Cases of the operators that only training has: gradients of layers, losses, saved indices.
#ifndef ONNX_MEMPLAN_TESTS_OPS_CASES_TRAINING_H_
#define ONNX_MEMPLAN_TESTS_OPS_CASES_TRAINING_H_

#include <cmath>
#include <vector>

#include "ops/cases.h"
#include "ops/cases_linear.h"

namespace onnx_memplan::cases {

inline std::vector<OpCase> ConvGradientCases() {
  const Tensor square = Floats({1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  return {
      {"ConvWeightGrad",
       {square, Floats({1, 1, 2, 2}, {1, 1, 1, 1})},
       {Floats({1, 1, 2, 2}, {12, 16, 24, 28})},
       {{"kernel_shape", IntList{2, 2}}},
       "onnx_memplan"},
      {"ConvWeightGrad",
       {square, Floats({1, 3, 2, 2}, {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 2})},
       {Floats({3, 1, 1, 2}, {0, 1, 2, 3, 16, 18})},
       {{"kernel_shape", IntList{1, 2}}, {"pads", IntList{0, 1, 0, 0}}, {"strides", IntList{2, 2}}},
       "onnx_memplan"},
      {"ConvWeightGrad",
       {Doubles({1, 1, 3}, {1, 2, 3}), Doubles({1, 1, 3}, {1, 1, 1})},
       {Doubles({1, 1, 1}, {6})},
       {{"kernel_shape", IntList{1}}},
       "onnx_memplan"},
  };
}

}  // namespace onnx_memplan::cases

#endif  // ONNX_MEMPLAN_TESTS_OPS_CASES_TRAINING_H_
