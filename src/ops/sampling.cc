// Operators that read images at computed places, and inverses of pooling: GridSample, RoiAlign,
// MaxUnpool, Col2Im.
#include "ops/host_kernels.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/grid_sample.h"
#include "kernels/unpool.h"
#include "ops/data_movement.h"
#include "ops/dispatch.h"
#include "ops/families.h"
#include "ops/gradient_context.h"
#include "ops/index_rules.h"
#include "ops/spatial.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

absl::StatusOr<int64_t> ProductFrom(const NodeContext& node, const Shape& shape, size_t begin) {
  return CheckedProduct(node, shape, begin, shape.size());
}

// ---- GridSample

absl::StatusOr<int32_t> SampleMode(const NodeContext& node) {
  const std::string mode = node.String("mode", "linear");
  if (mode == "nearest") return kernels::kSampleNearest;
  if (mode == "linear" || mode == "bilinear") return kernels::kSampleLinear;
  if (mode == "cubic" || mode == "bicubic") return kernels::kSampleCubic;
  return node.Invalid("mode '" + mode + "' is not one of nearest, linear, cubic");
}

absl::StatusOr<int32_t> SamplePadding(const NodeContext& node) {
  const std::string padding = node.String("padding_mode", "zeros");
  if (padding == "zeros") return kernels::kSampleZeros;
  if (padding == "border") return kernels::kSampleBorder;
  if (padding == "reflection") return kernels::kSampleReflection;
  return node.Invalid("padding_mode '" + padding + "' is not one of zeros, border, reflection");
}

absl::StatusOr<std::vector<TensorType>> InferGridSample(const NodeContext& node) {
  RETURN_IF_ERROR(SampleMode(node).status());
  RETURN_IF_ERROR(SamplePadding(node).status());
  const TensorType& input = node.InputType(0);
  const Shape& grid = node.InputShape(1);
  if (input.rank() < 3 || grid.size() != input.shape.size() || grid[0] != input.shape[0] ||
      grid.back() != input.rank() - 2 || node.InputDType(1) != input.dtype) {
    return node.Invalid(
        "the grid must be batch x output dimensions x one coordinate for each of them, of the "
        "element type of the input");
  }
  Shape shape = {input.shape[0], input.shape[1]};
  shape.insert(shape.end(), grid.begin() + 1, grid.end() - 1);
  if (std::any_of(input.shape.begin() + 2, input.shape.end(),
                  [](int64_t dim) { return dim == 0; })) {
    return node.Invalid("the image has no elements");
  }
  return std::vector<TensorType>{{input.dtype, shape}};
}

// For an image of `shape` that is sampled to `sampled`.
absl::StatusOr<kernels::GridSampleParams> MakeGridSampleParams(const NodeContext& node,
                                                               const Shape& shape,
                                                               const Shape& sampled) {
  const auto rank = static_cast<int64_t>(shape.size()) - 2;
  if (rank != 2 && rank != 3) return node.Unsupported("only images of 2 or 3 dimensions are");
  kernels::GridSampleParams params = {};
  ASSIGN_OR_RETURN(params.mode, SampleMode(node));
  ASSIGN_OR_RETURN(params.padding, SamplePadding(node));
  ASSIGN_OR_RETURN(const int64_t points, ProductFrom(node, sampled, 2));
  params.align_corners = node.Int("align_corners", 0) != 0 ? 1 : 0;
  params.rank = static_cast<int32_t>(rank);
  ASSIGN_OR_RETURN(params.batch, ToInt32(node, shape[0], "a dimension"));
  ASSIGN_OR_RETURN(params.channels, ToInt32(node, shape[1], "a dimension"));
  ASSIGN_OR_RETURN(params.points, ToInt32(node, points, "the number of points"));
  RETURN_IF_ERROR(ToThreeAxes(node, {shape.begin() + 2, shape.end()}, 1, params.in));
  return params;
}

absl::StatusOr<Lowering> LowerGridSample(const NodeContext& node, const Target&) {
  RETURN_IF_ERROR(CheckCounts(node));
  if (node.OutputType(0).NumElements() == 0) return Lowering();
  ASSIGN_OR_RETURN(const kernels::GridSampleParams params,
                   MakeGridSampleParams(node, node.InputShape(0), node.OutputShape(0)));
  ASSIGN_OR_RETURN(KernelCall call,
                   (TypedCall<float, double>(node, node.InputDType(0), "kernels/grid_sample.h",
                                             "kernels::GridSample<{T}>", []<class T>() {
                                               return FunctionOf<&kernels::GridSample<T>>();
                                             })));
  return OneCall(std::move(call), params,
                 {KernelArg::Input(0), KernelArg::Input(1), KernelArg::Output(0)});
}

absl::Status GridSampleGradient(GradientContext& g) {
  if (g.Wants(1)) return g.context().Unsupported("no gradient for the grid");
  GradientContext::Attributes attributes = g.node().attributes;
  const Shape shape = g.ShapeOf(g.Input(0));
  g.SetInputGradient(0, g.Add("GridSampleGrad", {g.OutputGradient(0), g.Input(1), g.Ints(shape)},
                              std::move(attributes), kMemplan));
  return g.status();
}

// GridSampleGrad: dY, the grid, the shape of the image; attributes are those of GridSample.
absl::StatusOr<std::vector<TensorType>> InferGridSampleGrad(const NodeContext& node) {
  RETURN_IF_ERROR(SampleMode(node).status());
  RETURN_IF_ERROR(SamplePadding(node).status());
  ASSIGN_OR_RETURN(const Shape shape, ConstantShape(node, 2));
  const Shape& grid = node.InputShape(1);
  if (shape.size() < 3 || grid.size() != shape.size() ||
      grid.back() != static_cast<int64_t>(shape.size()) - 2 || grid[0] != shape[0] ||
      node.InputDType(1) != node.InputDType(0) ||
      std::any_of(shape.begin() + 2, shape.end(), [](int64_t dim) { return dim == 0; })) {
    return node.Invalid("the grid does not fit the image");
  }
  Shape sampled = {shape[0], shape[1]};
  sampled.insert(sampled.end(), grid.begin() + 1, grid.end() - 1);
  if (sampled != node.InputShape(0)) {
    return node.Invalid("the gradient does not have the shape of the samples");
  }
  return std::vector<TensorType>{{node.InputDType(0), shape}};
}

absl::StatusOr<Lowering> LowerGridSampleGrad(const NodeContext& node, const Target&) {
  RETURN_IF_ERROR(CheckCounts(node));
  if (node.OutputType(0).NumElements() == 0) return Lowering();
  ASSIGN_OR_RETURN(const kernels::GridSampleParams params,
                   MakeGridSampleParams(node, node.OutputShape(0), node.InputShape(0)));
  ASSIGN_OR_RETURN(KernelCall call,
                   (TypedCall<float, double>(node, node.InputDType(0), "kernels/grid_sample.h",
                                             "kernels::GridSampleGrad<{T}>", []<class T>() {
                                               return FunctionOf<&kernels::GridSampleGrad<T>>();
                                             })));
  return OneCall(std::move(call), params,
                 {KernelArg::Input(0), KernelArg::Input(1), KernelArg::Output(0)});
}

// ---- RoiAlign

absl::StatusOr<std::vector<TensorType>> InferRoiAlign(const NodeContext& node) {
  const TensorType& input = node.InputType(0);
  const TensorType& rois = node.InputType(1);
  const TensorType& batches = node.InputType(2);
  if (input.rank() != 4 || rois.rank() != 2 || rois.shape[1] != 4 || rois.dtype != input.dtype ||
      batches.dtype != DType::kInt64 || batches.shape != Shape{rois.shape[0]}) {
    return node.Invalid(
        "the input must have rank 4, rois must be regions x 4, batch_indices int64, one for each");
  }
  if (input.shape[0] == 0 || input.shape[2] == 0 || input.shape[3] == 0) {
    return node.Invalid("the image has no elements");
  }
  const int64_t height = node.Int("output_height", 1);
  const int64_t width = node.Int("output_width", 1);
  const std::string mode = node.String("mode", "avg");
  const std::string coordinates = node.String("coordinate_transformation_mode", "half_pixel");
  if (height < 1 || width < 1) return node.Invalid("the output size must be 1 or more");
  if (mode != "avg" && mode != "max") return node.Invalid("mode must be avg or max");
  if (coordinates != "half_pixel" && coordinates != "output_half_pixel") {
    return node.Invalid("unknown coordinate_transformation_mode '" + coordinates + "'");
  }
  const int64_t samples = node.Int("sampling_ratio", 0);
  if (samples < 0 || samples > 4096) return node.Invalid("sampling_ratio must be 0 to 4096");
  return std::vector<TensorType>{{input.dtype, {rois.shape[0], input.shape[1], height, width}}};
}

absl::StatusOr<Lowering> LowerRoiAlign(const NodeContext& node, const Target&) {
  RETURN_IF_ERROR(CheckCounts(node));
  if (node.OutputType(0).NumElements() == 0) return Lowering();
  const Shape& in = node.InputShape(0);
  const Shape& out = node.OutputShape(0);
  kernels::RoiAlignParams params = {};
  params.spatial_scale = node.Float("spatial_scale", 1.0F);
  const bool half = node.String("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  params.offset = half ? 0.5F : 0.0F;
  ASSIGN_OR_RETURN(params.count, ToInt32(node, out[0], "a dimension"));
  ASSIGN_OR_RETURN(params.batch, ToInt32(node, in[0], "a dimension"));
  ASSIGN_OR_RETURN(params.channels, ToInt32(node, in[1], "a dimension"));
  ASSIGN_OR_RETURN(params.height, ToInt32(node, in[2], "a dimension"));
  ASSIGN_OR_RETURN(params.width, ToInt32(node, in[3], "a dimension"));
  ASSIGN_OR_RETURN(params.out_height, ToInt32(node, out[2], "a dimension"));
  ASSIGN_OR_RETURN(params.out_width, ToInt32(node, out[3], "a dimension"));
  params.sampling_ratio = static_cast<int32_t>(node.Int("sampling_ratio", 0));
  params.is_max = node.String("mode", "avg") == "max" ? 1 : 0;
  ASSIGN_OR_RETURN(KernelCall call,
                   (TypedCall<float, double>(
                       node, node.InputDType(0), "kernels/grid_sample.h", "kernels::RoiAlign<{T}>",
                       []<class T>() { return FunctionOf<&kernels::RoiAlign<T>>(); })));
  return OneCall(
      std::move(call), params,
      {KernelArg::Input(0), KernelArg::Input(1), KernelArg::Input(2), KernelArg::Output(0)});
}

// ---- MaxUnpool

// The image that MaxPool with these attributes would have made a tensor of `shape` from.
absl::StatusOr<Shape> PooledImage(const NodeContext& node, const Shape& shape) {
  if (shape.size() < 3) return node.Invalid("the input must have rank 3 or more");
  const size_t axes = shape.size() - 2;
  ASSIGN_OR_RETURN(const std::vector<int64_t> kernel,
                   SpatialAttribute(node, "kernel_shape", axes, 1, 1));
  ASSIGN_OR_RETURN(const std::vector<int64_t> strides,
                   SpatialAttribute(node, "strides", axes, 1, 1));
  const std::vector<int64_t> pads = node.Ints("pads", std::vector<int64_t>(2 * axes, 0));
  if (pads.size() != 2 * axes) return node.Invalid("pads must have two values for each axis");
  Shape image(shape.begin(), shape.begin() + 2);
  for (size_t i = 0; i < axes; ++i) {
    int64_t dim = shape[2 + i] - 1;
    if (__builtin_mul_overflow(dim, strides[i], &dim) ||
        __builtin_add_overflow(dim, kernel[i], &dim) ||
        __builtin_sub_overflow(dim, pads[i], &dim) ||
        __builtin_sub_overflow(dim, pads[axes + i], &dim) || dim < 1) {
      return node.Invalid(
          absl::StrCat("no image pools to ", shape[2 + i], " elements of axis ", i));
    }
    image.push_back(dim);
  }
  return image;
}

absl::StatusOr<std::vector<TensorType>> InferMaxUnpool(const NodeContext& node) {
  const TensorType& input = node.InputType(0);
  if (node.InputDType(1) != DType::kInt64 || node.InputShape(1) != input.shape) {
    return node.Invalid("indices must be int64 and as many as the input's elements");
  }
  RETURN_IF_ERROR(node.RequiredInts("kernel_shape").status());
  ASSIGN_OR_RETURN(const Shape image, PooledImage(node, input.shape));
  if (!node.HasInput(2)) return std::vector<TensorType>{{input.dtype, image}};
  ASSIGN_OR_RETURN(const Shape shape, node.ConstantInts(2, "output_shape"));
  bool fits = shape.size() == image.size() && shape[0] == image[0] && shape[1] == image[1];
  for (size_t i = 2; fits && i < image.size(); ++i) fits = shape[i] >= image[i];
  if (!fits) {
    return node.Invalid(absl::StrCat("output_shape [", absl::StrJoin(shape, ","),
                                     "] does not hold the image of ", ShapeToString(image)));
  }
  return std::vector<TensorType>{{input.dtype, shape}};
}

// For an input of type `pooled` and the output shape `out`.
absl::StatusOr<kernels::MaxUnpoolParams> MakeMaxUnpoolParams(const NodeContext& node,
                                                             const Shape& pooled,
                                                             const Shape& out) {
  ASSIGN_OR_RETURN(const Shape image, PooledImage(node, pooled));
  const std::vector<int64_t> strides = RowMajorStrides(out);
  ASSIGN_OR_RETURN(const int64_t image_elements, ProductFrom(node, image, 2));
  ASSIGN_OR_RETURN(const int64_t plane_elements, ProductFrom(node, out, 2));
  kernels::MaxUnpoolParams params = {};
  ASSIGN_OR_RETURN(const int64_t inputs, ProductFrom(node, pooled, 0));
  ASSIGN_OR_RETURN(const int64_t outputs, ProductFrom(node, out, 0));
  params.inputs = static_cast<int32_t>(inputs);
  params.outputs = static_cast<int32_t>(outputs);
  params.image_elements = static_cast<int32_t>(image_elements);
  params.plane_elements = static_cast<int32_t>(plane_elements);
  RETURN_IF_ERROR(ToThreeAxes(node, {image.begin() + 2, image.end()}, 1, params.image));
  RETURN_IF_ERROR(ToThreeAxes(node, {strides.begin() + 2, strides.end()}, 0, params.plane_strides));
  return params;
}

absl::StatusOr<Lowering> LowerMaxUnpool(const NodeContext& node, const Target&) {
  RETURN_IF_ERROR(CheckCounts(node));
  if (node.OutputType(0).NumElements() == 0) return Lowering();
  ASSIGN_OR_RETURN(const kernels::MaxUnpoolParams params,
                   MakeMaxUnpoolParams(node, node.InputShape(0), node.OutputShape(0)));
  KernelCall call = WidthCall(node.InputDType(0), "kernels/unpool.h", "kernels::MaxUnpool<{T}>",
                              []<class T>() { return FunctionOf<&kernels::MaxUnpool<T>>(); });
  return OneCall(std::move(call), params,
                 {KernelArg::Input(0), KernelArg::Input(1), KernelArg::Output(0)});
}

// Elements are read where they were written.
absl::Status MaxUnpoolGradient(GradientContext& g) {
  if (!g.Wants(0)) return absl::OkStatus();
  GradientContext::Attributes attributes = g.node().attributes;
  g.SetInputGradient(0, g.Add("MaxUnpoolGrad", {g.OutputGradient(0), g.Input(1)},
                              std::move(attributes), kMemplan));
  return g.status();
}

// MaxUnpoolGrad: dY, the indices; attributes are those of MaxUnpool.
absl::StatusOr<std::vector<TensorType>> InferMaxUnpoolGrad(const NodeContext& node) {
  const Shape& pooled = node.InputShape(1);
  const Shape& unpooled = node.InputShape(0);
  if (node.InputDType(1) != DType::kInt64) return node.Invalid("indices must be int64");
  ASSIGN_OR_RETURN(const Shape image, PooledImage(node, pooled));
  bool fits = unpooled.size() == image.size() && unpooled[0] == image[0] && unpooled[1] == image[1];
  for (size_t i = 2; fits && i < image.size(); ++i) fits = unpooled[i] >= image[i];
  if (!fits) return node.Invalid("the gradient does not hold the image of the indices");
  return std::vector<TensorType>{{node.InputDType(0), pooled}};
}

absl::StatusOr<Lowering> LowerMaxUnpoolGrad(const NodeContext& node, const Target&) {
  RETURN_IF_ERROR(CheckCounts(node));
  if (node.OutputType(0).NumElements() == 0) return Lowering();
  ASSIGN_OR_RETURN(const kernels::MaxUnpoolParams params,
                   MakeMaxUnpoolParams(node, node.InputShape(1), node.InputShape(0)));
  ASSIGN_OR_RETURN(KernelCall call,
                   (TypedCall<float, double>(
                       node, node.InputDType(0), "kernels/unpool.h", "kernels::MaxUnpoolGrad<{T}>",
                       []<class T>() { return FunctionOf<&kernels::MaxUnpoolGrad<T>>(); })));
  return OneCall(std::move(call), params,
                 {KernelArg::Input(0), KernelArg::Input(1), KernelArg::Output(0)});
}

// ---- Col2Im

// Geometry of Col2Im-18, by spatial axis.
struct Columns {
  std::vector<int64_t> image, block, positions, strides, dilations, pads_begin;
};

absl::StatusOr<Columns> ReadColumns(const NodeContext& node) {
  Columns c;
  ASSIGN_OR_RETURN(c.image, node.ConstantInts(1, "image_shape"));
  ASSIGN_OR_RETURN(c.block, node.ConstantInts(2, "block_shape"));
  const size_t axes = c.image.size();
  if (axes == 0 || c.block.size() != axes) {
    return node.Invalid("image_shape and block_shape must have one value for each spatial axis");
  }
  ASSIGN_OR_RETURN(c.strides, SpatialAttribute(node, "strides", axes, 1, 1));
  ASSIGN_OR_RETURN(c.dilations, SpatialAttribute(node, "dilations", axes, 1, 1));
  c.pads_begin = node.Ints("pads", std::vector<int64_t>(2 * axes, 0));
  if (c.pads_begin.size() != 2 * axes) {
    return node.Invalid("pads must have two values for each axis");
  }
  for (size_t i = 0; i < axes; ++i) {
    constexpr int64_t kMost = INT32_MAX / 4;
    const int64_t begin = c.pads_begin[i];
    const int64_t end = c.pads_begin[axes + i];
    for (int64_t value : {c.image[i], c.block[i], c.strides[i], c.dilations[i], begin, end}) {
      if (value < 0 || value > kMost) return node.Invalid("a size is negative or too large");
    }
    const int64_t room = c.image[i] + begin + end - c.dilations[i] * (c.block[i] - 1) - 1;
    if (c.image[i] < 1 || c.block[i] < 1 || room < 0) {
      return node.Invalid(absl::StrCat("the block does not fit into the image along axis ", i));
    }
    c.positions.push_back(room / c.strides[i] + 1);
  }
  c.pads_begin.resize(axes);
  return c;
}

absl::StatusOr<std::vector<TensorType>> InferCol2Im(const NodeContext& node) {
  ASSIGN_OR_RETURN(const Columns columns, ReadColumns(node));
  const TensorType& input = node.InputType(0);
  const std::optional<int64_t> cells = CheckedNumElements(columns.block);
  const std::optional<int64_t> positions = CheckedNumElements(columns.positions);
  if (!cells || !positions || input.rank() != 3 || input.shape[1] % *cells != 0 ||
      input.shape[2] != *positions) {
    return node.Invalid("the input must be batch x (channels * block elements) x block positions");
  }
  Shape shape = {input.shape[0], input.shape[1] / *cells};
  shape.insert(shape.end(), columns.image.begin(), columns.image.end());
  return std::vector<TensorType>{{input.dtype, shape}};
}

// For images of shape `shape`.
absl::StatusOr<kernels::Col2ImParams> MakeCol2ImParams(const NodeContext& node,
                                                       const Shape& shape) {
  ASSIGN_OR_RETURN(const Columns columns, ReadColumns(node));
  ASSIGN_OR_RETURN(const int64_t planes, CheckedProduct(node, shape, 0, 2));
  kernels::Col2ImParams params = {};
  ASSIGN_OR_RETURN(params.planes, ToInt32(node, planes, "a product of dimensions"));
  RETURN_IF_ERROR(ToThreeAxes(node, columns.image, 1, params.image));
  RETURN_IF_ERROR(ToThreeAxes(node, columns.block, 1, params.block));
  RETURN_IF_ERROR(ToThreeAxes(node, columns.positions, 1, params.positions));
  RETURN_IF_ERROR(ToThreeAxes(node, columns.strides, 1, params.strides));
  RETURN_IF_ERROR(ToThreeAxes(node, columns.dilations, 1, params.dilations));
  RETURN_IF_ERROR(ToThreeAxes(node, columns.pads_begin, 0, params.pads));
  return params;
}

absl::StatusOr<Lowering> LowerCol2Im(const NodeContext& node, const Target&) {
  RETURN_IF_ERROR(CheckCounts(node));
  if (node.OutputType(0).NumElements() == 0) return Lowering();
  ASSIGN_OR_RETURN(const kernels::Col2ImParams params, MakeCol2ImParams(node, node.OutputShape(0)));
  ASSIGN_OR_RETURN(KernelCall call,
                   (TypedCall<float, double, int8_t, int32_t, int64_t, uint8_t>(
                       node, node.InputDType(0), "kernels/unpool.h", "kernels::Col2Im<{T}>",
                       []<class T>() { return FunctionOf<&kernels::Col2Im<T>>(); })));
  return OneCall(std::move(call), params, {KernelArg::Input(0), KernelArg::Output(0)});
}

absl::Status Col2ImGradient(GradientContext& g) {
  if (!g.Wants(0)) return absl::OkStatus();
  GradientContext::Attributes attributes = g.node().attributes;
  g.SetInputGradient(0, g.Add("Im2Col", {g.OutputGradient(0), g.Input(1), g.Input(2)},
                              std::move(attributes), kMemplan));
  return g.status();
}

// Im2Col: an image, and the image_shape, block_shape and attributes of the Col2Im that puts its
// columns together.
absl::StatusOr<std::vector<TensorType>> InferIm2Col(const NodeContext& node) {
  ASSIGN_OR_RETURN(const Columns columns, ReadColumns(node));
  const Shape& image = node.InputShape(0);
  if (image.size() != columns.image.size() + 2 ||
      !std::equal(columns.image.begin(), columns.image.end(), image.begin() + 2)) {
    return node.Invalid("the input must be batch x channels x image_shape");
  }
  ASSIGN_OR_RETURN(const int64_t cells, ProductFrom(node, columns.block, 0));
  ASSIGN_OR_RETURN(const int64_t positions, ProductFrom(node, columns.positions, 0));
  int64_t rows = 0;
  if (__builtin_mul_overflow(image[1], cells, &rows))
    return node.Invalid("the output is too large");
  return std::vector<TensorType>{{node.InputDType(0), {image[0], rows, positions}}};
}

absl::StatusOr<Lowering> LowerIm2Col(const NodeContext& node, const Target&) {
  RETURN_IF_ERROR(CheckCounts(node));
  if (node.OutputType(0).NumElements() == 0) return Lowering();
  ASSIGN_OR_RETURN(const kernels::Col2ImParams params, MakeCol2ImParams(node, node.InputShape(0)));
  ASSIGN_OR_RETURN(KernelCall call,
                   (TypedCall<float, double>(
                       node, node.InputDType(0), "kernels/unpool.h", "kernels::Im2Col<{T}>",
                       []<class T>() { return FunctionOf<&kernels::Im2Col<T>>(); })));
  return OneCall(std::move(call), params, {KernelArg::Input(0), KernelArg::Output(0)});
}

}  // namespace

extern const OpDef kGridSample = {
    .type = "GridSample",
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = InferGridSample,
    .lower = LowerGridSample,
    .gradient = GridSampleGradient,
};

extern const OpDef kGridSampleGrad = {
    .type = "GridSampleGrad",
    .domain = kMemplan,
    .min_inputs = 3,
    .max_inputs = 3,
    .infer = InferGridSampleGrad,
    .lower = LowerGridSampleGrad,
};

extern const OpDef kRoiAlign = {
    .type = "RoiAlign",
    .min_inputs = 3,
    .max_inputs = 3,
    .infer = InferRoiAlign,
    .lower = LowerRoiAlign,
};

extern const OpDef kMaxUnpool = {
    .type = "MaxUnpool",
    .min_inputs = 2,
    .max_inputs = 3,
    .infer = InferMaxUnpool,
    .lower = LowerMaxUnpool,
    .gradient = MaxUnpoolGradient,
};

extern const OpDef kMaxUnpoolGrad = {
    .type = "MaxUnpoolGrad",
    .domain = kMemplan,
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = InferMaxUnpoolGrad,
    .lower = LowerMaxUnpoolGrad,
};

extern const OpDef kIm2Col = {
    .type = "Im2Col",
    .domain = kMemplan,
    .min_inputs = 3,
    .max_inputs = 3,
    .infer = InferIm2Col,
    .lower = LowerIm2Col,
};

extern const OpDef kCol2Im = {
    .type = "Col2Im",
    .min_inputs = 3,
    .max_inputs = 3,
    .infer = InferCol2Im,
    .lower = LowerCol2Im,
    .gradient = Col2ImGradient,
};

}  // namespace onnx_memplan
