#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "passes/fuse.h"
#include "passes/match.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

// A constant Pad of spatial dimensions by nothing negative.
struct SpatialPad {
  ValueId input = kNoValue;
  std::vector<int64_t> pads;  // begins, then ends
  double value = 0;
};

std::optional<SpatialPad> AsSpatialPad(const GraphEditor& editor, int32_t n) {
  if (!IsPlain(editor, n, "Pad")) return std::nullopt;
  const NodeContext context = Context(editor, n);
  if (context.String("mode", "constant") != "constant" || context.InputDType(0) != DType::kFloat) {
    return std::nullopt;
  }
  const std::optional<std::vector<int64_t>> given = ConstantInts(editor, n, 1);
  if (!given || (context.HasInput(3) && !ConstantInts(editor, n, 3))) return std::nullopt;
  const int64_t rank = context.InputType(0).rank();
  std::vector<int64_t> axes(static_cast<size_t>(rank));
  for (int64_t i = 0; i < rank; ++i) axes[static_cast<size_t>(i)] = i;
  if (context.HasInput(3)) axes = *ConstantInts(editor, n, 3);
  if (rank < 3 || given->size() != 2 * axes.size()) return std::nullopt;
  SpatialPad pad = {.input = context.node().inputs[0], .pads = {}, .value = 0};
  const int64_t spatial = rank - 2;
  pad.pads.resize(static_cast<size_t>(2 * spatial), 0);
  for (size_t i = 0; i < given->size(); ++i) {
    const int64_t amount = (*given)[i];
    const bool end = i >= axes.size();
    const int64_t axis = WrapAxis(axes[i % axes.size()], rank) - 2;
    if (amount < 0 || (axis < 0 && amount != 0)) return std::nullopt;
    if (axis >= 0) pad.pads[static_cast<size_t>(axis + (end ? spatial : 0))] = amount;
  }
  if (context.HasInput(2)) {
    const std::optional<double> value = UniformConstant(editor, context.node().inputs[2]);
    if (!value) return std::nullopt;
    pad.value = *value;
  }
  return pad;
}

// Explicit pads of a Conv or pool; nullopt when they follow from the shape (auto_pad).
std::optional<std::vector<int64_t>> PadsOf(const NodeContext& node) {
  const auto count = static_cast<size_t>(2 * (node.InputType(0).rank() - 2));
  const std::string auto_pad = node.String("auto_pad", "NOTSET");
  if (auto_pad == "VALID") return std::vector<int64_t>(count, 0);
  if (auto_pad != "NOTSET") return std::nullopt;
  return node.Ints("pads", std::vector<int64_t>(count, 0));
}

bool IsZero(const std::vector<int64_t>& values) {
  return std::all_of(values.begin(), values.end(), [](int64_t value) { return value == 0; });
}

// MaxPool ignores what it pads with itself, so the value must never be the maximum of a window that
// holds an element of the image.
bool NeverTheMaximum(const GraphEditor& editor, const SpatialPad& pad) {
  if (pad.value <= -static_cast<double>(std::numeric_limits<float>::max())) return true;
  return pad.value <= 0 && IsNonNegative(editor, pad.input);
}

// Every window holds an element of the image (and the pads are legal for ONNX's pools).
bool PadsAreWithinKernel(const NodeContext& pool, const std::vector<int64_t>& pads) {
  const std::vector<int64_t> kernel = pool.Ints("kernel_shape", {});
  const std::vector<int64_t> dilations =
      pool.Ints("dilations", std::vector<int64_t>(kernel.size(), 1));
  for (size_t i = 0; i < pads.size(); ++i) {
    const size_t axis = i % kernel.size();
    if (dilations[axis] != 1 || pads[i] >= kernel[axis]) return false;
  }
  return pool.Int("ceil_mode", 0) == 0;
}

bool CanTakePad(const GraphEditor& editor, int32_t n, const SpatialPad& pad,
                const std::vector<int64_t>& own, const std::vector<int64_t>& sum) {
  const NodeContext context = Context(editor, n);
  if (context.node().Is("Conv")) return pad.value == 0;
  if (context.node().Is("MaxPool")) {
    // A second output would index the padded image.
    return context.num_outputs() == 1 && PadsAreWithinKernel(context, sum) &&
           NeverTheMaximum(editor, pad);
  }
  if (context.node().Is("AveragePool")) {
    const bool counts = context.Int("count_include_pad", 0) != 0 || IsZero(own);
    return pad.value == 0 && counts && PadsAreWithinKernel(context, sum);
  }
  return false;
}

}  // namespace

absl::StatusOr<int64_t> FoldPadding(GraphEditor& editor) {
  int64_t rewrites = 0;
  for (int32_t n = 0; n < editor.num_nodes(); ++n) {
    const std::optional<SpatialPad> pad = AsSpatialPad(editor, n);
    if (!pad) continue;
    const ValueId output = editor.node(n).outputs[0];
    const int32_t reader = editor.OnlyConsumer(output);
    if (reader < 0 || editor.node(reader).inputs[0] != output) continue;
    const std::optional<std::vector<int64_t>> own = PadsOf(Context(editor, reader));
    if (!own || own->size() != pad->pads.size()) continue;
    std::vector<int64_t> sum = *own;
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += pad->pads[i];
    if (!CanTakePad(editor, reader, *pad, *own, sum)) continue;
    editor.attributes(reader).erase("auto_pad");
    editor.attributes(reader)["pads"] = std::move(sum);
    if (editor.node(reader).Is("AveragePool")) {
      editor.attributes(reader)["count_include_pad"] = int64_t{1};
    }
    editor.SetInput(reader, 0, pad->input);
    ++rewrites;
  }
  return rewrites;
}

}  // namespace onnx_memplan
