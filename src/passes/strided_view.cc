#include "passes/strided_view.h"

#include <algorithm>
#include <utility>

#include "passes/match.h"

namespace onnx_memplan {
namespace {

// Slice with known positive steps.
std::optional<StridedView> Sliced(const GraphEditor& editor, int32_t n, StridedView view) {
  const auto starts = ConstantInts(editor, n, 1);
  const auto ends = ConstantInts(editor, n, 2);
  if (!starts || !ends) return std::nullopt;
  const auto rank = static_cast<int64_t>(view.sizes.size());
  std::vector<int64_t> axes, steps(starts->size(), 1);
  for (int64_t i = 0; i < static_cast<int64_t>(starts->size()); ++i) axes.push_back(i);
  const NodeContext context = Context(editor, n);
  if (context.HasInput(3)) {
    const auto known = ConstantInts(editor, n, 3);
    if (!known) return std::nullopt;
    axes = *known;
  }
  if (context.HasInput(4)) {
    const auto known = ConstantInts(editor, n, 4);
    if (!known) return std::nullopt;
    steps = *known;
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(WrapAxis(axes[i], rank));
    if (steps[i] < 1) return std::nullopt;
    int64_t start = (*starts)[i];
    if (start < 0) start += view.sizes[axis];
    start = std::clamp<int64_t>(start, 0, view.sizes[axis]);
    view.offset += start * view.strides[axis];
    view.strides[axis] *= steps[i];
  }
  view.sizes = editor.shape(editor.node(n).outputs[0]);
  return view;
}

// Output `v` of a Split.
StridedView PartOfSplit(const GraphEditor& editor, int32_t n, ValueId v, StridedView view) {
  const auto axis = static_cast<size_t>(
      WrapAxis(Context(editor, n).Int("axis", 0), static_cast<int64_t>(view.sizes.size())));
  for (ValueId output : editor.node(n).outputs) {
    if (output == v) break;
    if (output != kNoValue) view.offset += editor.shape(output)[axis] * view.strides[axis];
  }
  view.sizes = editor.shape(v);
  return view;
}

// Gather of one known index, which takes a dimension away or leaves one of one element.
std::optional<StridedView> Gathered(const GraphEditor& editor, int32_t n, StridedView view) {
  const auto index = ConstantInts(editor, n, 1);
  if (!index || index->size() != 1) return std::nullopt;
  const auto rank = static_cast<int64_t>(view.sizes.size());
  const int64_t axis = WrapAxis(Context(editor, n).Int("axis", 0), rank);
  const auto at = static_cast<size_t>(axis);
  const int64_t i = (*index)[0] < 0 ? (*index)[0] + view.sizes[at] : (*index)[0];
  view.offset += i * view.strides[at];
  view.sizes[at] = 1;
  const Shape& shape = editor.shape(editor.node(n).outputs[0]);
  return Reshaped(view, shape);
}

std::optional<StridedView> Through(const GraphEditor& editor, int32_t n, ValueId v) {
  const Node& node = editor.node(n);
  if (IsPlain(editor, n, "Reshape"))
    return Reshaped(ViewOf(editor, node.inputs[0]), editor.shape(v));
  if (const auto perm = AsPermutation(editor, n)) {
    return Permuted(ViewOf(editor, node.inputs[0]), *perm);
  }
  if (IsPlain(editor, n, "Slice")) return Sliced(editor, n, ViewOf(editor, node.inputs[0]));
  if (IsPlain(editor, n, "Split")) return PartOfSplit(editor, n, v, ViewOf(editor, node.inputs[0]));
  if (IsPlain(editor, n, "Gather")) return Gathered(editor, n, ViewOf(editor, node.inputs[0]));
  return std::nullopt;
}

}  // namespace

StridedView WholeView(const GraphEditor& editor, ValueId v) {
  StridedView view = {.value = v, .sizes = editor.shape(v)};
  view.strides.resize(view.sizes.size());
  int64_t stride = 1;
  for (size_t i = view.sizes.size(); i-- > 0;) {
    view.strides[i] = stride;
    stride *= view.sizes[i];
  }
  return view;
}

StridedView ViewOf(const GraphEditor& editor, ValueId v) {
  const int32_t n = editor.producer(v);
  std::optional<StridedView> through;
  if (n >= 0 && editor.type(v).NumElements() > 0) through = Through(editor, n, v);
  return through ? *std::move(through) : WholeView(editor, v);
}

StridedView Permuted(const StridedView& view, const std::vector<int64_t>& perm) {
  StridedView result = {.value = view.value, .offset = view.offset};
  for (int64_t axis : perm) {
    result.sizes.push_back(view.sizes[static_cast<size_t>(axis)]);
    result.strides.push_back(view.strides[static_cast<size_t>(axis)]);
  }
  return result;
}

std::optional<StridedView> Reshaped(const StridedView& view, const Shape& sizes) {
  StridedView result = {.value = view.value, .offset = view.offset, .sizes = sizes};
  result.strides.assign(sizes.size(), 0);
  // Runs of old dimensions against runs of new ones with as many elements.
  size_t old_end = 0;
  size_t new_end = 0;
  while (old_end < view.sizes.size() || new_end < sizes.size()) {
    const size_t old_begin = old_end;
    const size_t new_begin = new_end;
    int64_t old_count = old_end < view.sizes.size() ? view.sizes[old_end++] : 1;
    int64_t new_count = new_end < sizes.size() ? sizes[new_end++] : 1;
    while (old_count != new_count) {
      if (old_count < new_count) {
        if (old_end == view.sizes.size()) return std::nullopt;
        old_count *= view.sizes[old_end++];
      } else {
        if (new_end == sizes.size()) return std::nullopt;
        new_count *= sizes[new_end++];
      }
    }
    // The old run must be walked with one stride; dimensions of one element do not matter.
    int64_t stride = 0;
    int64_t next = -1;
    for (size_t i = old_end; i-- > old_begin;) {
      if (view.sizes[i] == 1) continue;
      if (next < 0) {
        stride = view.strides[i];
      } else if (view.strides[i] != next) {
        return std::nullopt;
      }
      next = view.strides[i] * view.sizes[i];
    }
    for (size_t i = new_end; i-- > new_begin;) {
      result.strides[i] = stride;
      stride *= sizes[i];
    }
  }
  return result;
}

std::optional<StridedView> BroadcastTo(const StridedView& view, const Shape& sizes) {
  if (view.sizes.size() > sizes.size()) return std::nullopt;
  StridedView result = {.value = view.value, .offset = view.offset, .sizes = sizes};
  result.strides.assign(sizes.size(), 0);
  const size_t added = sizes.size() - view.sizes.size();
  for (size_t i = 0; i < view.sizes.size(); ++i) {
    if (view.sizes[i] == sizes[added + i]) {
      result.strides[added + i] = sizes[added + i] == 1 ? 0 : view.strides[i];
    } else if (view.sizes[i] != 1) {
      return std::nullopt;
    }
  }
  return result;
}

}  // namespace onnx_memplan
