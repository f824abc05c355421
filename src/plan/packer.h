// Packers: offsets for blocks.
#ifndef ONNX_MEMPLAN_PLAN_PACKER_H_
#define ONNX_MEMPLAN_PLAN_PACKER_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "onnx_memplan/plan.h"
#include "plan/liveness.h"

namespace onnx_memplan {

// When to stop: a point in time, or sooner when somebody cancels.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Deadline(double seconds, const std::atomic<bool>* cancel = nullptr)
      : start_(Clock::now()), seconds_(seconds), cancel_(cancel) {}
  // The same point in time, or sooner when `stop` is set too.
  Deadline(const Deadline& other, const std::atomic<bool>* stop)
      : start_(other.start_), seconds_(other.seconds_), cancel_(other.cancel_), stop_(stop) {}

  double elapsed_seconds() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }
  double remaining_seconds() const { return seconds_ - elapsed_seconds(); }
  bool cancelled() const {
    return (cancel_ != nullptr && cancel_->load(std::memory_order_relaxed)) ||
           (stop_ != nullptr && stop_->load(std::memory_order_relaxed));
  }
  bool expired() const { return cancelled() || remaining_seconds() <= 0; }
  const std::atomic<bool>* cancel() const { return cancel_; }

 private:
  Clock::time_point start_;
  double seconds_;
  const std::atomic<bool>* cancel_;
  const std::atomic<bool>* stop_ = nullptr;
};

struct PackOptions {
  double time_limit_seconds = 10;
  // Limit of the nodes of an exact search; nullopt: only the time limits it.
  std::optional<int64_t> node_limit = std::nullopt;
  uint64_t seed = 1;
  // Threads of the exact search. With more than one, which of several plans is found depends on
  // their timing.
  int32_t threads = 1;
  const std::atomic<bool>* cancel = nullptr;
  // Good enough: stop at the first packing of at most so many bytes.
  int64_t target_bytes = 0;
};

// Offsets of blocks.
struct Packing {
  std::vector<int64_t> offsets;  // by block
  int64_t bytes = 0;             // one past the highest byte
  // No offsets of the same blocks need fewer bytes; bytes == lower_bound is a proof.
  int64_t lower_bound = 0;
  std::string method;
};

class Packer {
 public:
  virtual ~Packer() = default;
  // Always returns legal offsets if the fixed blocks do not conflict (CheckFixedBlocks).
  virtual Packing Pack(const Blocks& blocks, const PackOptions& options) const = 0;
};

// The extent of `offsets`.
int64_t PackedBytes(const Blocks& blocks, const std::vector<int64_t>& offsets);

struct PackerInfo {
  std::string_view name;
  std::string_view summary;
};
// "auto" first: a portfolio that stops at the bound, then the exact search.
const std::vector<PackerInfo>& AvailablePackers();
// nullptr for a name that is not in AvailablePackers().
std::unique_ptr<Packer> MakePacker(std::string_view name);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_PACKER_H_
