// The static types of a model's inputs, from what the model declares and what the user sets.
#ifndef ONNX_MEMPLAN_LOAD_INPUT_TYPES_H_
#define ONNX_MEMPLAN_LOAD_INPUT_TYPES_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx/onnx_pb.h"
#include "onnx_memplan/load.h"

namespace onnx_memplan {

struct LoadedInput {
  std::string name;
  TensorType type;
  // Set when the input is bound.
  std::optional<Tensor> data;
};

// By graph input that is not an initializer, in the file's order. InvalidArgument when an option
// names something that the model does not have or contradicts it, and, listing all of them with the
// option to pass, when dimensions are left over.
absl::StatusOr<std::vector<LoadedInput>> ResolveInputs(
    const std::vector<const onnx::ValueInfoProto*>& inputs, const LoadOptions& options);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_LOAD_INPUT_TYPES_H_
