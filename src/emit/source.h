// STEM.cpp.
#ifndef ONNX_MEMPLAN_EMIT_SOURCE_H_
#define ONNX_MEMPLAN_EMIT_SOURCE_H_

#include <span>
#include <string>

#include "emit/api.h"
#include "emit/constants.h"
#include "emit/entry_point.h"
#include "onnx_memplan/emit.h"

namespace onnx_memplan {

// `api` and `constants` are those of `entries`; `blob`: constants.layout.Blob().
std::string RenderSource(const Api& api, std::span<const EntryPoint> entries,
                         const EmitOptions& options, const EmittedConstants& constants,
                         const std::string& blob);

// STEM_threads.cpp: the function that the steps are shared out by, on threads of the C++ library.
std::string RenderThreads(const Api& api, const EmitOptions& options);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_EMIT_SOURCE_H_
