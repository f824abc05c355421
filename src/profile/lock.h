// A mutex that never allocates, needs no destruction and costs two atomic operations when nobody
// else wants it. (U. Drepper, "Futexes Are Tricky", mutex 2.)
#ifndef ONNX_MEMPLAN_SRC_PROFILE_LOCK_H_
#define ONNX_MEMPLAN_SRC_PROFILE_LOCK_H_

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

namespace onnx_memplan::profile {

class Lock {
 public:
  constexpr Lock() = default;
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  void Acquire() {
    uint32_t state = kFree;
    if (!state_.compare_exchange_strong(state, kTaken, std::memory_order_acquire)) Wait();
  }
  void Release() {
    if (state_.exchange(kFree, std::memory_order_release) == kContended) {
      const int saved_errno = errno;
      Futex(FUTEX_WAKE_PRIVATE, 1);
      errno = saved_errno;
    }
  }

 private:
  static constexpr uint32_t kFree = 0, kTaken = 1, kContended = 2;

  void Wait() {
    const int saved_errno = errno;  // free() must not change it
    while (state_.exchange(kContended, std::memory_order_acquire) != kFree) {
      Futex(FUTEX_WAIT_PRIVATE, kContended);
    }
    errno = saved_errno;
  }
  void Futex(int operation, uint32_t value) {
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&state_), operation, value, nullptr, nullptr, 0);
  }

  std::atomic<uint32_t> state_{kFree};
};

class LockGuard {
 public:
  explicit LockGuard(Lock& lock) : lock_(lock) { lock_.Acquire(); }
  ~LockGuard() { lock_.Release(); }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  Lock& lock_;
};

}  // namespace onnx_memplan::profile

#endif  // ONNX_MEMPLAN_SRC_PROFILE_LOCK_H_
