#include "ops/spatial.h"

#include <algorithm>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

// Bounds attributes, so that no sum or product of a few of them overflows.
constexpr int64_t kLargest = int64_t{1} << 30;

absl::Status ApplyAutoPad(const NodeContext& node, const std::string& auto_pad,
                          SlidingWindow* window) {
  const size_t axes = window->in_size.size();
  window->padding_begin.assign(axes, 0);
  window->padding_end.assign(axes, 0);
  if (auto_pad == "VALID") return absl::OkStatus();
  if (auto_pad != "SAME_UPPER" && auto_pad != "SAME_LOWER") {
    return node.Invalid(
        absl::StrCat("auto_pad '", auto_pad, "' is none of NOTSET, SAME_UPPER, SAME_LOWER, VALID"));
  }
  for (size_t i = 0; i < axes; ++i) {
    const int64_t stride = window->stride[i];
    const int64_t outputs = (window->in_size[i] + stride - 1) / stride;
    const int64_t reach = (window->taps[i] - 1) * window->dilation[i] + 1;
    const int64_t total = std::max<int64_t>(0, (outputs - 1) * stride + reach - window->in_size[i]);
    const int64_t smaller = total / 2;
    window->padding_begin[i] = auto_pad == "SAME_UPPER" ? smaller : total - smaller;
    window->padding_end[i] = total - window->padding_begin[i];
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> SpatialAttribute(const NodeContext& node,
                                                      std::string_view name, size_t axes,
                                                      int64_t default_value, int64_t minimum) {
  std::vector<int64_t> values = node.Ints(name, std::vector<int64_t>(axes, default_value));
  const bool in_range = std::all_of(values.begin(), values.end(), [&](int64_t value) {
    return value >= minimum && value <= kLargest;
  });
  if (values.size() != axes || !in_range) {
    return node.Invalid(absl::StrCat("attribute '", std::string(name), "' is [",
                                     absl::StrJoin(values, ","), "]; it needs ", axes,
                                     " values from ", minimum, " to ", kLargest));
  }
  return values;
}

absl::StatusOr<SlidingWindow> ReadSlidingWindow(const NodeContext& node,
                                                const std::vector<int64_t>& taps) {
  return ReadSlidingWindow(node, node.InputShape(0), taps);
}

absl::StatusOr<SlidingWindow> ReadSlidingWindow(const NodeContext& node, const Shape& shape,
                                                const std::vector<int64_t>& taps) {
  if (shape.size() < 3) {
    return node.Invalid("the input needs a batch, a channel and at least one spatial axis");
  }
  SlidingWindow window;
  window.in_size.assign(shape.begin() + 2, shape.end());
  window.taps = taps;
  const size_t axes = window.in_size.size();
  const bool taps_fit =
      std::all_of(taps.begin(), taps.end(), [](int64_t n) { return n >= 1 && n <= kLargest; });
  if (taps.size() != axes || !taps_fit) {
    return node.Invalid(absl::StrCat("a kernel of [", absl::StrJoin(taps, ","), "] does not fit ",
                                     axes, " spatial axes"));
  }
  ASSIGN_OR_RETURN(window.stride, SpatialAttribute(node, "strides", axes, 1, 1));
  ASSIGN_OR_RETURN(window.dilation, SpatialAttribute(node, "dilations", axes, 1, 1));
  const std::string auto_pad = node.String("auto_pad", "NOTSET");
  if (auto_pad == "NOTSET" || auto_pad.empty()) {
    ASSIGN_OR_RETURN(const std::vector<int64_t> pads,
                     SpatialAttribute(node, "pads", 2 * axes, 0, 0));
    window.padding_begin.assign(pads.begin(), pads.begin() + static_cast<ptrdiff_t>(axes));
    window.padding_end.assign(pads.begin() + static_cast<ptrdiff_t>(axes), pads.end());
  } else {
    RETURN_IF_ERROR(ApplyAutoPad(node, auto_pad, &window));
  }
  const bool ceil_mode = node.Int("ceil_mode", 0) != 0;
  for (size_t i = 0; i < axes; ++i) {
    const int64_t reach = (window.taps[i] - 1) * window.dilation[i] + 1;
    const int64_t room =
        window.in_size[i] + window.padding_begin[i] + window.padding_end[i] - reach;
    if (room < 0) {
      return node.Invalid(absl::StrCat("the kernel reaches over ", reach,
                                       " elements of spatial axis ", i, ", which with padding has ",
                                       room + reach));
    }
    const int64_t stride = window.stride[i];
    int64_t outputs = (room + (ceil_mode ? stride - 1 : 0)) / stride + 1;
    // A window that would start past the input, in the padding behind it, does not count.
    if (ceil_mode && (outputs - 1) * stride >= window.in_size[i] + window.padding_begin[i]) {
      --outputs;
    }
    window.out_size.push_back(outputs);
  }
  return window;
}

absl::Status ToThreeAxes(const NodeContext& node, const std::vector<int64_t>& values,
                         int32_t filler, int32_t (&axes)[3]) {
  if (values.size() > 3) {
    return node.Unsupported(absl::StrCat(values.size(), " spatial axes; kernels have at most 3"));
  }
  std::fill(axes, axes + 3, filler);
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] > std::numeric_limits<int32_t>::max()) {
      return node.Unsupported(absl::StrCat("a size of ", values[i], " does not fit 32 bits"));
    }
    axes[3 - values.size() + i] = static_cast<int32_t>(values[i]);
  }
  return absl::OkStatus();
}

absl::Status CheckCountable(const NodeContext& node) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  bool countable = true;
  for (int32_t i = 0; i < node.num_inputs(); ++i) {
    countable = countable && (!node.HasInput(i) || node.InputType(i).NumElements() <= kMost);
  }
  for (int32_t i = 0; i < node.num_outputs(); ++i) {
    countable = countable && (!node.HasOutput(i) || node.OutputType(i).NumElements() <= kMost);
  }
  if (countable) return absl::OkStatus();
  return node.Unsupported("a tensor of 2^31 elements or more; kernels count in 32 bits");
}

}  // namespace onnx_memplan
