// Direct convolution with vectors of 8 floats.
#include "ops/host_kernels.h"

#include "ops/blocked_direct.h"

namespace onnx_memplan {

KernelFunction DirectFunction8(const DirectShape& shape, const DirectAccess& access) {
  return PickDirectFunction<kDirectShapes8>(shape, access);
}

}  // namespace onnx_memplan
