// Elementwise functions of one operand. In-place safe: element i is read before it is written and
// never after.
#ifndef MEMPLAN_KERNELS_UNARY_H_
#define MEMPLAN_KERNELS_UNARY_H_

#include "activation.h"
#include "base.h"

namespace kernels {

struct UnaryParams {
  int32_t count;  // elements
  float alpha;    // meaning: the functor's
  float beta;
};
MEMPLAN_FIELDS(UnaryParams, count, alpha, beta);

// y[i] = Function::Apply(x[i], alpha, beta).
template <class T, class Function>
MEMPLAN_KERNEL void Unary(const UnaryParams& p, const T* x, T* y) {
  for (int32_t i = 0; i < p.count; ++i) y[i] = Function::Apply(x[i], p.alpha, p.beta);
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_UNARY_H_
