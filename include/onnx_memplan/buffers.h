// Buffers with given lifetimes: MiniMalloc's CSV files and profile traces.
//
// Such a file says which buffers of a program are alive when; only offsets are to be chosen. Here
// it becomes a PlanProblem with a fixed order, so that every planner works on it.
#ifndef ONNX_MEMPLAN_BUFFERS_H_
#define ONNX_MEMPLAN_BUFFERS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "onnx_memplan/plan.h"

namespace onnx_memplan {

// A buffer takes nothing, or only part of itself, during a gap.
struct BufferGap {
  int64_t lower = 0;
  int64_t upper = 0;  // one past the last time of the gap
  // The bytes [window_low, window_high) of the buffer that stay taken; nullopt: none.
  std::optional<int64_t> window_low = std::nullopt;
  std::optional<int64_t> window_high = std::nullopt;

  friend bool operator==(const BufferGap&, const BufferGap&) = default;
};

// `bytes` bytes from time `lower` to `upper` (one past the last).
struct Buffer {
  std::string id;
  int64_t lower = 0;
  int64_t upper = 0;
  int64_t bytes = 0;
  int64_t alignment = 1;
  // MiniMalloc's `hint`: an offset to prefer; kept, not used.
  std::optional<int64_t> hint = std::nullopt;
  std::vector<BufferGap> gaps = {};
  // Set by a reader when the file has an `offset` column: where the buffer lies in a given
  // solution.
  std::optional<int64_t> offset = std::nullopt;

  friend bool operator==(const Buffer&, const Buffer&) = default;
};

// Which columns a file had, so that the writer gives them back.
struct BufferColumns {
  bool alignment = false;
  bool hint = false;
  bool gaps = false;
};

struct BufferList {
  std::vector<Buffer> buffers;
  BufferColumns columns;
};

// Reads CSV text. The first line names the columns, in any order: id (or buffer_id, buffer), lower
// (or start, begin: the same), upper (or end: the last time itself, so upper = end + 1), size, and
// optionally alignment, hint, gaps, offset. Gaps are separated by blanks: `lower-upper` or
// `lower-upper@low:high`, where bytes [low, high) stay taken. Empty lines are skipped.
// InvalidArgument with the line number and the text at fault.
absl::StatusOr<BufferList> ParseBuffersCsv(std::string_view text);
// The same from a file; NotFound when it cannot be read; the path is in every message.
absl::StatusOr<BufferList> ReadBuffersCsv(const std::string& path);

// A fixed-order problem with one storage for each buffer (same order) and one task for each
// interval between two neighbouring times at which a lifetime begins or ends; times are compressed
// to those. Linear in the number of buffers.
//
// A storage has one lifetime: a buffer with gaps is planned over its whole life, which is legal but
// may need more bytes. PlanBuffers below makes use of gaps.
// InvalidArgument for lower >= upper, negative sizes, gaps outside of their buffer or overlapping,
// and alignments that are not powers of two.
absl::StatusOr<PlanProblem> ProblemFromBuffers(const std::vector<Buffer>& buffers,
                                               std::optional<int64_t> capacity = std::nullopt);

// Offsets for buffers, gaps used.
struct BufferPlan {
  std::vector<int64_t> offsets;  // by buffer
  int64_t arena_bytes = 0;
  int64_t lower_bound = 0;  // no offsets need fewer bytes
  bool proven_optimal = false;
  std::string method;
};

// Plans offsets. `planner`: "auto", "heuristic" (no search) or the name of one packer
// (BufferPackers). `capacity`: the search stops at the first plan that fits; ResourceExhausted,
// with the missing bytes, when none is found. The result has been verified.
absl::StatusOr<BufferPlan> PlanBuffers(const std::vector<Buffer>& buffers,
                                       std::optional<int64_t> capacity, std::string_view planner,
                                       const PlanBudget& budget);

// The packers that PlanBuffers can be told to use, besides "auto" and "heuristic".
std::vector<PlannerInfo> BufferPackers();

// OK if no two buffers that are alive at once share a byte, alignments are kept and no buffer ends
// above `arena_bytes`; else the first violation.
absl::Status VerifyBufferOffsets(const std::vector<Buffer>& buffers,
                                 const std::vector<int64_t>& offsets, int64_t arena_bytes);

// CSV text with the columns id,lower,upper,size, those of `list.columns`, and offset. `offsets` has
// one entry for each buffer. Lines end in "\n".
std::string FormatBuffersCsv(const BufferList& list, const std::vector<int64_t>& offsets);
// The same to a file; Unavailable when it cannot be written.
absl::Status WriteBuffersCsv(const std::string& path, const BufferList& list,
                             const std::vector<int64_t>& offsets);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_BUFFERS_H_
