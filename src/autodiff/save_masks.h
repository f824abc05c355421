// One bit for each element instead of the element, where the backward pass asks no more.
#ifndef ONNX_MEMPLAN_AUTODIFF_SAVE_MASKS_H_
#define ONNX_MEMPLAN_AUTODIFF_SAVE_MASKS_H_

#include <cstddef>
#include <cstdint>

#include "onnx_memplan/graph.h"

namespace onnx_memplan {

// Where the result of a Relu or Clip is read, in the backward pass, by the gradient of that
// operator alone, a mask is made from it in the forward pass and read instead: 1/32 of the bytes.
// The first `*boundary` nodes are the forward pass; masks are added to it. Returns how many.
// `graph` is typed.
int64_t SaveMasks(size_t* boundary, Graph& graph);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_AUTODIFF_SAVE_MASKS_H_
