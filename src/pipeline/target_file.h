// Targets by name or from a JSON file.
#ifndef ONNX_MEMPLAN_PIPELINE_TARGET_FILE_H_
#define ONNX_MEMPLAN_PIPELINE_TARGET_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "ops/target.h"

namespace onnx_memplan {

// `name_or_path`: a built-in target, or a file ending in ".json" with an object of Target's fields;
// "base" names the built-in target that gives the rest (generic). InvalidArgument for unknown
// fields and values out of range.
absl::StatusOr<Target> ResolveTarget(const std::string& name_or_path);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PIPELINE_TARGET_FILE_H_
