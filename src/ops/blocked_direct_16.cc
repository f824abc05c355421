// Direct convolution with vectors of 16 floats.
#include "ops/host_kernels.h"

#include "ops/blocked_direct.h"

namespace onnx_memplan {

KernelFunction DirectFunction16(const DirectShape& shape, const DirectAccess& access) {
  return PickDirectFunction<kDirectShapes16>(shape, access);
}

}  // namespace onnx_memplan
