// STEM.h.
#ifndef ONNX_MEMPLAN_EMIT_HEADER_H_
#define ONNX_MEMPLAN_EMIT_HEADER_H_

#include <string>

#include "emit/api.h"
#include "onnx_memplan/emit.h"

namespace onnx_memplan {

std::string RenderHeader(const Api& api, const EmitOptions& options);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_EMIT_HEADER_H_
