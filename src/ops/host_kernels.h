// Include this before any kernel header of codegen/: it makes their text ordinary host functions
// and gives each parameter struct a VisitFields overload.
#ifndef ONNX_MEMPLAN_OPS_HOST_KERNELS_H_
#define ONNX_MEMPLAN_OPS_HOST_KERNELS_H_

#define MEMPLAN_KERNEL [[maybe_unused]] static

// Applies M to each argument (up to 40).
#define MEMPLAN_PARENS_ ()
#define MEMPLAN_EXPAND_(...) MEMPLAN_EXPAND4_(MEMPLAN_EXPAND4_(MEMPLAN_EXPAND4_(__VA_ARGS__)))
#define MEMPLAN_EXPAND4_(...) MEMPLAN_EXPAND3_(MEMPLAN_EXPAND3_(MEMPLAN_EXPAND3_(__VA_ARGS__)))
#define MEMPLAN_EXPAND3_(...) MEMPLAN_EXPAND2_(MEMPLAN_EXPAND2_(MEMPLAN_EXPAND2_(__VA_ARGS__)))
#define MEMPLAN_EXPAND2_(...) __VA_ARGS__
#define MEMPLAN_FOR_EACH_(macro, ...) \
  __VA_OPT__(MEMPLAN_EXPAND_(MEMPLAN_FOR_EACH_STEP_(macro, __VA_ARGS__)))
#define MEMPLAN_FOR_EACH_STEP_(macro, first, ...) \
  macro(first) __VA_OPT__(MEMPLAN_FOR_EACH_AGAIN_ MEMPLAN_PARENS_(macro, __VA_ARGS__))
#define MEMPLAN_FOR_EACH_AGAIN_() MEMPLAN_FOR_EACH_STEP_

#define MEMPLAN_VISIT_FIELD_(field) visitor(#field, params.field);
#define MEMPLAN_FIELD_BYTES_(field) +sizeof(Params_::field)

// VisitFields(params, visitor) calls visitor(name, member) for each member. A member that the list
// forgets shows as a size mismatch (all members are 4 or 8 bytes wide or arrays of such; 8-byte
// members come first, so that there is no padding).
#define MEMPLAN_FIELDS(Params, ...)                                                         \
  template <class Visitor>                                                                  \
  inline void VisitFields(const Params& params, Visitor&& visitor) {                        \
    using Params_ = Params;                                                                 \
    static_assert(sizeof(Params) == 0 MEMPLAN_FOR_EACH_(MEMPLAN_FIELD_BYTES_, __VA_ARGS__), \
                  "MEMPLAN_FIELDS must name every member, and the struct have no padding"); \
    MEMPLAN_FOR_EACH_(MEMPLAN_VISIT_FIELD_, __VA_ARGS__)                                    \
  }                                                                                         \
  inline const char* ParamsTypeName(const Params&) { return "kernels::" #Params; }          \
  static_assert(true, "")

#include "kernels/base.h"

#endif  // ONNX_MEMPLAN_OPS_HOST_KERNELS_H_
