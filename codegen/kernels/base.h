// What every kernel header stands on. Kernels are C++17, freestanding but for <cstdint>, <cstddef>
// and <cmath>; no heap, exceptions, RTTI, static state or recursion.
#ifndef MEMPLAN_KERNELS_BASE_H_
#define MEMPLAN_KERNELS_BASE_H_

#include <cmath>
#include <cstddef>
#include <cstdint>

// MEMPLAN_KERNEL precedes every kernel function. In generated code the default applies: the body is
// inlined into a function with constant parameters, so loops and branches specialise to the layer.
// (One copy of each kernel for all parameters is larger: it keeps every branch.)
#ifndef MEMPLAN_KERNEL
#define MEMPLAN_KERNEL static inline __attribute__((always_inline))
#endif

// MEMPLAN_FIELDS(Params, members...) after each parameter struct names its members, in order and
// all of them: the generator prints the struct with it. Generated code has no use for it.
#ifndef MEMPLAN_FIELDS
#define MEMPLAN_FIELDS(...) static_assert(true, "")
#endif

namespace kernels {

// Highest tensor rank that the strided kernels take.
constexpr int kMaxRank = 8;

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_BASE_H_
