// The definitions of all operators; each lives in its family's .cc file. One line here, which both
// declares it and lists it: op_table.cc expands the same list.
#ifndef ONNX_MEMPLAN_OPS_FAMILIES_H_
#define ONNX_MEMPLAN_OPS_FAMILIES_H_

#include "ops/op_def.h"

namespace onnx_memplan {

#define ONNX_MEMPLAN_DECLARE_OP_(name) extern const OpDef name;
#define ONNX_MEMPLAN_OP(name) ONNX_MEMPLAN_DECLARE_OP_(name)
#include "ops/op_list.inc"
#undef ONNX_MEMPLAN_OP

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_OPS_FAMILIES_H_
