#include "ops/parallel_axis.h"

#include <algorithm>

namespace onnx_memplan {
namespace {

// Where ranges of the axis may begin, and its end.
std::vector<int32_t> BordersOf(const ParallelAxis& axis) {
  std::vector<int32_t> borders = axis.borders;
  if (borders.empty()) {
    for (int32_t at = 0; at < axis.extent; at += axis.unit) borders.push_back(at);
  }
  borders.push_back(axis.extent);
  return borders;
}

// The borders of at most `parts` ranges, as equal as may be: the first is 0, the last the extent.
std::vector<int32_t> EqualRanges(const ParallelAxis& axis, int64_t parts) {
  const std::vector<int32_t> borders = BordersOf(axis);
  const auto units = static_cast<int64_t>(borders.size()) - 1;
  parts = std::min(parts, units);
  std::vector<int32_t> ranges;
  for (int64_t i = 0; i <= parts; ++i) {
    ranges.push_back(borders[static_cast<size_t>(units * i / std::max<int64_t>(parts, 1))]);
  }
  return ranges;
}

// The largest of the ranges, of which all others wait.
double LargestShare(const std::vector<int32_t>& ranges) {
  int32_t largest = 0;
  for (size_t i = 1; i < ranges.size(); ++i) {
    largest = std::max(largest, ranges[i] - ranges[i - 1]);
  }
  return static_cast<double>(largest) / std::max(ranges.back(), 1);
}

CallPart MakePart(const KernelCall& call, const ParallelAxis& axis, int32_t begin, int32_t end) {
  CallPart part = {axis.restrict_to(call.params, begin, end), {}};
  for (size_t i = 0; i < axis.arg_steps.size(); ++i) {
    part.arg_offsets.push_back(begin * axis.arg_steps[i] * call.function.element_bytes[i]);
  }
  return part;
}

// Whether the parts of a call may run at the same time though an output may lie over an input: both
// move alike.
bool KeepsApart(const KernelCall& call, const ParallelAxis& axis, std::span<const Alias> aliases) {
  const auto moves = [&](KernelArg::Kind kind, int32_t index) {
    std::vector<int64_t> steps;
    for (size_t i = 0; i < call.args.size(); ++i) {
      if (call.args[i].kind != kind || call.args[i].index != index) continue;
      steps.push_back(axis.arg_steps[i] * call.function.element_bytes[i]);
    }
    return steps;
  };
  for (const Alias& alias : aliases) {
    for (const int64_t from : moves(KernelArg::Kind::kInput, alias.input)) {
      for (const int64_t to : moves(KernelArg::Kind::kOutput, alias.output)) {
        if (from != to) return false;
      }
    }
  }
  return true;
}

// The ranges of the axis by which the work is shared out best; fewer than two: none does.
std::vector<int32_t> ChooseRanges(const KernelCall& call, int64_t most_parts,
                                  std::span<const Alias> aliases, const ParallelAxis** chosen) {
  // Axes are in order of preference: a later one has to be clearly better.
  constexpr double kClearly = 0.8;
  std::vector<int32_t> best = {0};
  for (const ParallelAxis& axis : call.axes) {
    MEMPLAN_CHECK_MSG(axis.arg_steps.size() == call.args.size(), call.name);
    if (!KeepsApart(call, axis, aliases)) continue;
    std::vector<int32_t> ranges = EqualRanges(axis, most_parts);
    if (best.size() > 1 && LargestShare(ranges) > kClearly * LargestShare(best)) continue;
    *chosen = &axis;
    best = std::move(ranges);
  }
  return best;
}

bool IsWrittenScratch(const KernelCall& call, size_t arg) {
  return call.args[arg].kind == KernelArg::Kind::kScratch &&
         !call.function.arg_types[arg].starts_with("const ");
}

// Returns the bytes by which the node's scratch has to grow.
int64_t SplitCall(int64_t most_parts, int64_t scratch_alignment, std::span<const Alias> aliases,
                  KernelCall& call) {
  call.parts.clear();
  const ParallelAxis* axis = nullptr;
  const std::vector<int32_t> ranges = ChooseRanges(call, most_parts, aliases, &axis);
  if (ranges.size() <= 2) return 0;
  const int64_t stride =
      (call.own_scratch_bytes + scratch_alignment - 1) / scratch_alignment * scratch_alignment;
  int64_t scratch_offset = 0;
  for (size_t i = 1; i < ranges.size(); ++i, scratch_offset += stride) {
    CallPart part = MakePart(call, *axis, ranges[i - 1], ranges[i]);
    for (size_t a = 0; a < call.args.size() && stride > 0; ++a) {
      if (IsWrittenScratch(call, a)) part.arg_offsets[a] += scratch_offset;
    }
    call.parts.push_back(std::move(part));
  }
  return scratch_offset - stride;
}

}  // namespace

std::vector<int32_t> WholeTiles(int32_t extent, int32_t unit) {
  std::vector<int32_t> borders = {0};
  for (int32_t at = unit; extent - at >= unit; at += unit) borders.push_back(at);
  return borders;
}

Lowering InParallel(Lowering lowering, int64_t work, std::vector<ParallelAxis> axes) {
  lowering.calls.back().axes = std::move(axes);
  lowering.calls.back().work = work;
  return lowering;
}

void SplitCalls(int32_t threads, int64_t scratch_alignment, std::span<const Alias> aliases,
                Lowering& lowering, int64_t least_work) {
  int64_t growth = 0;
  for (KernelCall& call : lowering.calls) {
    for (size_t a = 0; a < call.args.size() && call.own_scratch_bytes > 0; ++a) {
      MEMPLAN_CHECK_MSG(!IsWrittenScratch(call, a) ||
                            call.args[a].index + call.own_scratch_bytes >= lowering.scratch_bytes,
                        call.name);
    }
    const int64_t most_parts = std::min<int64_t>(threads, call.work / least_work);
    growth = std::max(growth, SplitCall(most_parts, scratch_alignment, aliases, call));
  }
  lowering.scratch_bytes += growth;
}

}  // namespace onnx_memplan
