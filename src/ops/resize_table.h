// The tables of a resampling: which input indices an output index takes, and with which weights.
#ifndef ONNX_MEMPLAN_OPS_RESIZE_TABLE_H_
#define ONNX_MEMPLAN_OPS_RESIZE_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace onnx_memplan {

// How ONNX Resize maps an output index to the input and what it reads there; by attribute.
struct ResizeRule {
  std::string mode;         // nearest, linear, cubic
  std::string coordinates;  // coordinate_transformation_mode
  std::string nearest_mode;
  double cubic_coeff_a = -0.75;
  bool antialias = false;
  bool exclude_outside = false;
};

// One axis of a resampling.
struct ResizeAxis {
  int64_t in = 1;
  int64_t out = 1;
  float scale = 1;
  float length = 1;  // of the output before it was rounded down to `out`
  // tf_crop_and_resize: the part of the axis that is read, 0 and 1 being its first and last
  // element.
  float roi_start = 0;
  float roi_end = 1;
};

struct ResizeTable {
  int32_t taps = 1;
  // out * taps entries; an index of -1 in the first tap: the output is extrapolated.
  std::vector<int32_t> indices;
  std::vector<float> weights;

  // Every output index takes the input index equal to it.
  bool IsIdentity(int64_t in) const;
  bool Extrapolates() const;
};

// Entries of the table for each output index. ResizeTable's size is out times that: check it first.
int64_t ResizeTaps(const ResizeRule& rule, const ResizeAxis& axis);

// `axis.in` and `axis.out` are 1 or more and fit in 32 bits.
ResizeTable MakeResizeTable(const ResizeRule& rule, const ResizeAxis& axis);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_OPS_RESIZE_TABLE_H_
