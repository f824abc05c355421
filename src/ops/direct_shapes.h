// The tiles of direct convolution that the tool has. Include kernels/blocked.h before this; the
// benchmarks, which are compiled for each target, use nothing else of the tool.
#ifndef ONNX_MEMPLAN_OPS_DIRECT_SHAPES_H_
#define ONNX_MEMPLAN_OPS_DIRECT_SHAPES_H_

#include <cstdint>

namespace onnx_memplan {

// The template arguments of kernels::BlockedDirect that say what is in registers.
struct DirectShape {
  int32_t width = 0;  // floats of a vector
  int32_t vectors = 0;
  int32_t pixels = 0;

  // Blocks of output channels.
  int32_t blocks() const { return width * vectors / kernels::kChannelBlock; }
  friend bool operator==(const DirectShape&, const DirectShape&) = default;
};

// By rising number of vectors. Together, those of one number split rows of any width.
inline constexpr DirectShape kDirectShapes8[] = {
    {8, 1, 14}, {8, 1, 12}, {8, 1, 8}, {8, 1, 4}, {8, 1, 2}, {8, 2, 6}, {8, 2, 5},
    {8, 2, 4},  {8, 2, 2},  {8, 3, 8}, {8, 3, 4}, {8, 3, 2}, {8, 4, 3},
};
inline constexpr DirectShape kDirectShapes16[] = {
    {16, 1, 14}, {16, 1, 8}, {16, 1, 4}, {16, 1, 2}, {16, 2, 14},
    {16, 2, 10}, {16, 2, 7}, {16, 2, 5}, {16, 2, 2}, {16, 4, 7},
};

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_OPS_DIRECT_SHAPES_H_
