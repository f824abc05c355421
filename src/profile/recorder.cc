#include "profile/recorder.h"

#include <algorithm>

namespace onnx_memplan::profile {

void Recorder::Begin(const void* pointer, size_t bytes, size_t alignment) {
  if (pointer == nullptr) return;
  const size_t planned_alignment = std::max(alignment, kProfileAlignment);
  if (planned_alignment > UINT32_MAX) return;
  LockGuard guard(lock_);
  if (!alive_.Insert(pointer, requests_.size())) return;
  const bool written = requests_.PushBack({.bytes = bytes,
                                           .lower = now_,
                                           .upper = 0,
                                           .step = static_cast<uint32_t>(step_ends_.size()),
                                           .alignment = static_cast<uint32_t>(planned_alignment)});
  ++now_;
  uint64_t unused;
  if (!written) alive_.Take(pointer, &unused);
}

void Recorder::End(const void* pointer) {
  uint64_t request;
  LockGuard guard(lock_);
  if (!alive_.Take(pointer, &request)) return;
  requests_[request].upper = now_++;
}

bool Recorder::Detach(const void* pointer, uint64_t* request) {
  LockGuard guard(lock_);
  return alive_.Take(pointer, request);
}

void Recorder::Reattach(const void* pointer, uint64_t request) {
  LockGuard guard(lock_);
  // Cannot fail: the table never shrinks, and had the block before.
  alive_.Insert(pointer, request);
}

void Recorder::Close(uint64_t request) {
  LockGuard guard(lock_);
  requests_[request].upper = now_++;
}

void Recorder::EndStep() {
  LockGuard guard(lock_);
  step_ends_.PushBack(now_++);
}

bool Recorder::HasLoop(int loop_steps) const {
  LockGuard guard(lock_);
  return step_ends_.size() >= static_cast<size_t>(loop_steps) + 2;
}

// In a loop, the step after it tells when the blocks that are alive at the end of an iteration die
// in the next one: the loop's own first step saw the deaths of blocks of the step before it, whose
// requests may have been others.
bool Recorder::RowOf(const Request& request, size_t loop_steps, RecordedBlock* row) const {
  const bool alive = request.upper == 0;
  *row = {.lower = request.lower,
          .upper = alive ? now_ : request.upper,
          .bytes = static_cast<int64_t>(request.bytes),
          .alignment = request.alignment,
          .step = static_cast<int32_t>(request.step)};
  const size_t steps = step_ends_.size();
  if (loop_steps == 0 || steps < loop_steps + 2) return true;
  const int64_t loop_begin = step_ends_[steps - 2 - loop_steps];
  const int64_t loop_end = step_ends_[steps - 2];
  if (row->lower >= loop_end) return false;
  row->loop = row->lower >= loop_begin;
  const int64_t death = row->upper;
  row->upper = std::min(death, loop_end);
  if (!row->loop || death <= loop_end) return true;
  const int64_t death_in_next = loop_begin + (death - loop_end);
  // Its successor is asked for while it is still alive: no single place can serve both.
  if (alive || death > step_ends_[steps - 1] || death_in_next > row->lower) return false;
  row->gap_lower = death_in_next;
  row->gap_upper = row->lower;
  row->lower = loop_begin;
  return true;
}

}  // namespace onnx_memplan::profile
