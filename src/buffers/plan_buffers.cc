#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "onnx_memplan/buffers.h"
#include "plan/liveness.h"
#include "plan/packer.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

constexpr int64_t kMaxTotalBytes = int64_t{1} << 61;
constexpr int64_t kMaxTime = int64_t{1} << 61;

absl::Status CheckBuffers(const std::vector<Buffer>& buffers) {
  if (buffers.size() > size_t{1} << 28) {
    return absl::InvalidArgumentError("more than 2^28 buffers");
  }
  int64_t total_bytes = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& buffer = buffers[i];
    const std::string label = absl::StrCat("buffer ", i, " \"", buffer.id, "\"");
    if (buffer.lower >= buffer.upper) {
      return absl::InvalidArgumentError(absl::StrCat(label, " has an empty lifetime"));
    }
    if (buffer.lower < -kMaxTime || buffer.upper > kMaxTime) {
      return absl::InvalidArgumentError(absl::StrCat(label, ": a time beyond 2^61"));
    }
    if (buffer.bytes < 0) return absl::InvalidArgumentError(absl::StrCat(label, ": negative size"));
    if (buffer.alignment <= 0 || (buffer.alignment & (buffer.alignment - 1)) != 0 ||
        buffer.alignment > kMaxTotalBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(label, ": the alignment ", buffer.alignment, " is not a power of two"));
    }
    if (buffer.bytes > kMaxTotalBytes - buffer.alignment - total_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("the sizes add up to more than 2^61 bytes at ", label));
    }
    total_bytes += buffer.bytes + buffer.alignment;
    std::vector<BufferGap> gaps = buffer.gaps;
    std::sort(gaps.begin(), gaps.end(),
              [](const BufferGap& a, const BufferGap& b) { return a.lower < b.lower; });
    int64_t free_from = buffer.lower;
    for (const BufferGap& gap : gaps) {
      if (gap.lower < free_from || gap.lower >= gap.upper || gap.upper > buffer.upper) {
        return absl::InvalidArgumentError(
            absl::StrFormat("%s: the gap [%d, %d) is empty, overlaps another or leaves the "
                            "lifetime [%d, %d)",
                            label, gap.lower, gap.upper, buffer.lower, buffer.upper));
      }
      free_from = gap.upper;
      const int64_t low = gap.window_low.value_or(0);
      const int64_t high = gap.window_high.value_or(low);
      if (gap.window_low.has_value() != gap.window_high.has_value() || low < 0 || low > high ||
          high > buffer.bytes) {
        return absl::InvalidArgumentError(
            absl::StrFormat("%s: the window of the gap [%d, %d) is not within [0, %d)", label,
                            gap.lower, gap.upper, buffer.bytes));
      }
    }
  }
  return absl::OkStatus();
}

// The times at which anything begins or ends, sorted: step i is [times[i], times[i + 1]).
std::vector<int64_t> EventTimes(const std::vector<Buffer>& buffers, bool with_gaps) {
  std::vector<int64_t> times;
  for (const Buffer& buffer : buffers) {
    times.push_back(buffer.lower);
    times.push_back(buffer.upper);
    if (!with_gaps) continue;
    for (const BufferGap& gap : buffer.gaps) {
      times.push_back(gap.lower);
      times.push_back(gap.upper);
    }
  }
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  return times;
}

int32_t StepOf(const std::vector<int64_t>& times, int64_t time) {
  return static_cast<int32_t>(std::lower_bound(times.begin(), times.end(), time) - times.begin());
}

// What a buffer takes when: pieces in file time, sorted, gaps cut out.
struct Piece {
  int64_t lower, upper;
  int64_t low, high;
};

std::vector<Piece> PiecesOf(const Buffer& buffer) {
  std::vector<BufferGap> gaps = buffer.gaps;
  std::sort(gaps.begin(), gaps.end(),
            [](const BufferGap& a, const BufferGap& b) { return a.lower < b.lower; });
  std::vector<Piece> pieces;
  int64_t from = buffer.lower;
  const auto add = [&](int64_t lower, int64_t upper, int64_t low, int64_t high) {
    if (lower < upper && low < high) pieces.push_back({lower, upper, low, high});
  };
  for (const BufferGap& gap : gaps) {
    add(from, gap.lower, 0, buffer.bytes);
    add(gap.lower, gap.upper, gap.window_low.value_or(0), gap.window_high.value_or(0));
    from = gap.upper;
  }
  add(from, buffer.upper, 0, buffer.bytes);
  return pieces;
}

// Blocks of buffers; block_of[i] is -1 for a buffer that takes nothing.
Blocks BlocksFromBuffers(const std::vector<Buffer>& buffers, std::vector<int32_t>& block_of) {
  const std::vector<int64_t> times = EventTimes(buffers, /*with_gaps=*/true);
  std::vector<Block> blocks;
  std::vector<Window> windows;
  block_of.assign(buffers.size(), -1);
  for (size_t i = 0; i < buffers.size(); ++i) {
    const std::vector<Piece> pieces = PiecesOf(buffers[i]);
    if (pieces.empty()) continue;
    Block block;
    block.window_begin = static_cast<int32_t>(windows.size());
    for (const Piece& piece : pieces) {
      windows.push_back({.first_step = StepOf(times, piece.lower),
                         .end_step = StepOf(times, piece.upper),
                         .low = piece.low,
                         .high = piece.high});
      block.bytes = std::max(block.bytes, piece.high);
    }
    block.window_end = static_cast<int32_t>(windows.size());
    block.first_step = windows[static_cast<size_t>(block.window_begin)].first_step;
    block.end_step = windows.back().end_step;
    block.alignment = buffers[i].alignment;
    block.lifetime = buffers[i].upper - buffers[i].lower;
    block_of[i] = static_cast<int32_t>(blocks.size());
    blocks.push_back(block);
  }
  const auto steps = static_cast<int32_t>(std::max<size_t>(times.size(), 2) - 1);
  return BlocksFromList(steps, std::move(blocks), std::move(windows));
}

}  // namespace

absl::StatusOr<PlanProblem> ProblemFromBuffers(const std::vector<Buffer>& buffers,
                                               std::optional<int64_t> capacity) {
  RETURN_IF_ERROR(CheckBuffers(buffers));
  const std::vector<int64_t> times = EventTimes(buffers, /*with_gaps=*/false);
  PlanProblem problem;
  problem.fixed_order = true;
  problem.capacity = capacity;
  problem.tasks.resize(times.empty() ? 0 : times.size() - 1);
  for (size_t t = 0; t < problem.tasks.size(); ++t) {
    problem.tasks[t].name = absl::StrCat("time ", times[t]);
  }
  for (const Buffer& buffer : buffers) {
    const auto index = static_cast<int32_t>(problem.storages.size());
    problem.storages.push_back(
        {.name = buffer.id, .bytes = buffer.bytes, .alignment = buffer.alignment});
    const int32_t first = StepOf(times, buffer.lower);
    const int32_t last = StepOf(times, buffer.upper) - 1;
    problem.tasks[static_cast<size_t>(first)].writes.push_back(index);
    if (last != first) problem.tasks[static_cast<size_t>(last)].reads.push_back(index);
  }
  return problem;
}

std::vector<PlannerInfo> BufferPackers() {
  std::vector<PlannerInfo> infos;
  for (const PackerInfo& info : AvailablePackers()) infos.push_back({info.name, info.summary});
  return infos;
}

absl::StatusOr<BufferPlan> PlanBuffers(const std::vector<Buffer>& buffers,
                                       std::optional<int64_t> capacity, std::string_view planner,
                                       const PlanBudget& budget) {
  RETURN_IF_ERROR(CheckBuffers(buffers));
  const std::unique_ptr<Packer> packer = MakePacker(planner == "heuristic" ? "portfolio" : planner);
  if (packer == nullptr) {
    std::string names;
    for (const PlannerInfo& info : BufferPackers()) {
      absl::StrAppend(&names, ", ", std::string(info.name));
    }
    return absl::NotFoundError(absl::StrCat("there is no planner \"", std::string(planner),
                                            "\" for buffers; there are: heuristic", names));
  }
  std::vector<int32_t> block_of;
  const Blocks blocks = BlocksFromBuffers(buffers, block_of);
  const Packing packing = packer->Pack(blocks, {.time_limit_seconds = budget.time_limit_seconds,
                                                .node_limit = budget.node_limit,
                                                .seed = budget.seed,
                                                .threads = budget.threads,
                                                .cancel = budget.cancel,
                                                .target_bytes = capacity.value_or(0)});
  BufferPlan plan;
  plan.offsets.assign(buffers.size(), 0);
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (block_of[i] >= 0) plan.offsets[i] = packing.offsets[static_cast<size_t>(block_of[i])];
  }
  plan.arena_bytes = packing.bytes;
  plan.lower_bound = packing.lower_bound;
  plan.proven_optimal = packing.bytes == packing.lower_bound;
  plan.method = packing.method;
  if (absl::Status status = VerifyBufferOffsets(buffers, plan.offsets, plan.arena_bytes);
      !status.ok()) {
    return absl::InternalError(
        absl::StrCat("a packer made illegal offsets (a fault of the tool): ", status.message()));
  }
  if (capacity.has_value() && plan.arena_bytes > *capacity) {
    const char* what =
        plan.lower_bound > *capacity ? "no placement can fit" : "no placement was found that fits";
    return absl::ResourceExhaustedError(absl::StrCat(
        what, ": the buffers need ", plan.arena_bytes, " bytes, ", plan.arena_bytes - *capacity,
        " more than the capacity of ", *capacity, " (proven lower bound ", plan.lower_bound, ")"));
  }
  return plan;
}

absl::Status VerifyBufferOffsets(const std::vector<Buffer>& buffers,
                                 const std::vector<int64_t>& offsets, int64_t arena_bytes) {
  if (offsets.size() != buffers.size()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%d offsets for %d buffers", offsets.size(), buffers.size()));
  }
  struct Placed {
    Piece piece;
    size_t buffer;
  };
  std::vector<Placed> placed;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (offsets[i] < 0 || offsets[i] % buffers[i].alignment != 0) {
      return absl::InvalidArgumentError(
          absl::StrFormat("buffer \"%s\" has the offset %d, alignment %d", buffers[i].id,
                          offsets[i], buffers[i].alignment));
    }
    for (Piece piece : PiecesOf(buffers[i])) {
      if (offsets[i] > arena_bytes - piece.high) {
        return absl::InvalidArgumentError(absl::StrFormat(
            "buffer \"%s\" ends above the arena of %d bytes", buffers[i].id, arena_bytes));
      }
      piece.low += offsets[i];
      piece.high += offsets[i];
      placed.push_back({piece, i});
    }
  }
  std::sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
    return std::pair(a.piece.lower, a.buffer) < std::pair(b.piece.lower, b.buffer);
  });
  // Pieces alive at the sweep's time by first byte; a conflict is one with a neighbour.
  std::map<int64_t, const Placed*> live;
  using Leaving = std::pair<int64_t, int64_t>;
  std::priority_queue<Leaving, std::vector<Leaving>, std::greater<>> leaving;
  for (const Placed& p : placed) {
    while (!leaving.empty() && leaving.top().first <= p.piece.lower) {
      live.erase(leaving.top().second);
      leaving.pop();
    }
    const auto above = live.lower_bound(p.piece.low);
    const Placed* other = nullptr;
    if (above != live.end() && above->first < p.piece.high) other = above->second;
    if (above != live.begin() && std::prev(above)->second->piece.high > p.piece.low) {
      other = std::prev(above)->second;
    }
    if (other != nullptr) {
      return absl::InvalidArgumentError(
          absl::StrFormat("buffers \"%s\" and \"%s\" overlap at time %d", buffers[other->buffer].id,
                          buffers[p.buffer].id, p.piece.lower));
    }
    live.emplace_hint(above, p.piece.low, &p);
    leaving.emplace(p.piece.upper, p.piece.low);
  }
  return absl::OkStatus();
}

}  // namespace onnx_memplan
