// Writes down the requests of a run: what was asked for, when, and until when it was alive.
#ifndef ONNX_MEMPLAN_SRC_PROFILE_RECORDER_H_
#define ONNX_MEMPLAN_SRC_PROFILE_RECORDER_H_

#include <cstddef>
#include <cstdint>

#include "onnx_memplan/profile.h"
#include "profile/lock.h"
#include "profile/mapped_array.h"
#include "profile/pointer_table.h"

namespace onnx_memplan::profile {

// Thread-safe. Never uses the heap. When memory for the record runs out, later requests are left
// out of it.
//
// A block must be taken out before its memory is given back, and put in after its memory was got:
// else another thread could get the same address in between.
class Recorder {
 public:
  void Begin(const void* pointer, size_t bytes, size_t alignment);
  // Ends the life of a block. Pointers that are not in the record are ignored.
  void End(const void* pointer);

  // realloc: takes the block out of the table before the call; false when it is not in the record.
  bool Detach(const void* pointer, uint64_t* request);
  // ... it failed, and the block is where it was,
  void Reattach(const void* pointer, uint64_t request);
  // ... or it was copied and given back. Call this after Begin of the new block: a replay copies,
  // so that both must be alive at once.
  void Close(uint64_t request);

  void EndStep();
  // Whether enough steps have ended for a loop of that many.
  bool HasLoop(int loop_steps) const;

  // Calls visit(const RecordedBlock&) for each row of the trace; loop_steps >= 0. See
  // ProfileHeap::Trace.
  template <typename Visit>
  void VisitTrace(int loop_steps, Visit visit) const {
    LockGuard guard(lock_);
    RecordedBlock row;
    for (const Request& request : requests_) {
      if (RowOf(request, static_cast<size_t>(loop_steps), &row)) visit(row);
    }
  }

 private:
  struct Request {
    uint64_t bytes;
    int64_t lower;
    int64_t upper;  // 0: alive
    uint32_t step;
    uint32_t alignment;
  };

  // False when the row is not a part of the trace.
  bool RowOf(const Request& request, size_t loop_steps, RecordedBlock* row) const;

  mutable Lock lock_;
  int64_t now_ = 0;
  MappedArray<Request> requests_;
  MappedArray<int64_t> step_ends_;  // times
  PointerTable alive_;              // to the index of the request
};

}  // namespace onnx_memplan::profile

#endif  // ONNX_MEMPLAN_SRC_PROFILE_RECORDER_H_
