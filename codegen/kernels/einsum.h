// Sums of products over labelled dimensions.
#ifndef MEMPLAN_KERNELS_EINSUM_H_
#define MEMPLAN_KERNELS_EINSUM_H_

#include "base.h"
#include "element.h"

namespace kernels {

constexpr int kEinsumOperands = 3;

// For each label, its length and its stride in each operand (0: the operand lacks it). Unused
// labels have length 1; labels of the output are in C order and right-aligned.
struct EinsumParams {
  int32_t operands;
  int32_t out_dims[kMaxRank];
  int32_t sum_dims[kMaxRank];
  int32_t out_strides[kEinsumOperands * kMaxRank];
  int32_t sum_strides[kEinsumOperands * kMaxRank];
};
MEMPLAN_FIELDS(EinsumParams, operands, out_dims, sum_dims, out_strides, sum_strides);

// y[labels] = sum over the other labels of the product of the operands. Unused operands are null.
template <class T>
MEMPLAN_KERNEL void Einsum(const EinsumParams& p, const T* a, const T* b, const T* c, T* y) {
  constexpr int kLast = kMaxRank - 1;
  int32_t outputs = 1;
  int32_t terms = 1;  // but for the last summed label
  for (int i = 0; i < kMaxRank; ++i) outputs *= p.out_dims[i];
  for (int i = 0; i < kLast; ++i) terms *= p.sum_dims[i];
  const T* const operands[kEinsumOperands] = {a, b, c};
  for (int32_t o = 0; o < outputs; ++o) {
    const T* base[kEinsumOperands] = {a, b, c};
    for (int n = 0; n < p.operands; ++n) {
      base[n] = operands[n];
      int32_t rest = o;
      for (int i = kLast; i >= 0; --i) {
        base[n] += rest % p.out_dims[i] * p.out_strides[n * kMaxRank + i];
        rest /= p.out_dims[i];
      }
    }
    T sum = static_cast<T>(0);
    for (int32_t t = 0; t < terms; ++t) {
      int32_t offset[kEinsumOperands] = {0, 0, 0};
      int32_t rest = t;
      for (int i = kLast - 1; i >= 0; --i) {
        const int32_t at = rest % p.sum_dims[i];
        rest /= p.sum_dims[i];
        for (int n = 0; n < p.operands; ++n) offset[n] += at * p.sum_strides[n * kMaxRank + i];
      }
      for (int32_t k = 0; k < p.sum_dims[kLast]; ++k) {
        T product = base[0][offset[0] + k * p.sum_strides[kLast]];
        if (p.operands > 1) {
          product = WrapMul(product, base[1][offset[1] + k * p.sum_strides[kMaxRank + kLast]]);
        }
        if (p.operands > 2) {
          product = WrapMul(product, base[2][offset[2] + k * p.sum_strides[2 * kMaxRank + kLast]]);
        }
        sum = WrapAdd(sum, product);
      }
    }
    y[o] = sum;
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_EINSUM_H_
