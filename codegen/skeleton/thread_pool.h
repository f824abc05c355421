// Threads that share out the parts of one piece of work after another.
#ifndef MEMPLAN_SKELETON_THREAD_POOL_H_
#define MEMPLAN_SKELETON_THREAD_POOL_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace skeleton {

// A piece of work takes some ten microseconds, which is less than it takes to wake a sleeping
// thread: a worker looks for the next piece for a while before it sleeps.
class ThreadPool {
 public:
  using Part = void (*)(void* context, int32_t index);

  // The caller of Run is one of `threads`.
  explicit ThreadPool(int32_t threads) {
    for (int32_t i = 1; i < threads; ++i) workers_.emplace_back([this] { Work(); });
  }
  ~ThreadPool() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ends_ = true;
      piece_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Calls part(context, i) once for each i of [0, parts); returns when all calls have returned. Of
  // two threads that call this at once, one does its work alone.
  void Run(int32_t parts, Part part, void* context) {
    const std::unique_lock<std::mutex> only(callers_, std::try_to_lock);
    if (!only.owns_lock() || workers_.empty()) {
      for (int32_t i = 0; i < parts; ++i) part(context, i);
      return;
    }
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      part_ = part;
      context_ = context;
      parts_ = parts;
      next_.store(0, std::memory_order_relaxed);
      at_work_.store(static_cast<int32_t>(workers_.size()), std::memory_order_relaxed);
      piece_.fetch_add(1, std::memory_order_release);
    }
    if (sleepers_.load() > 0) wake_.notify_all();
    TakeParts();
    for (int32_t i = 0; at_work_.load(std::memory_order_acquire) > 0; ++i) Pause(i);
  }

 private:
  static constexpr int32_t kLooks = 20000;

  // A worker whose core somebody else has needs that core.
  static void Pause(int32_t looks) {
    if (looks % 64 == 63) {
      std::this_thread::yield();
    } else {
#if defined(__x86_64__) || defined(__i386__)
      __builtin_ia32_pause();
#endif
    }
  }

  void TakeParts() {
    for (int32_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < parts_;) {
      part_(context_, i);
    }
  }

  // Returns the number of the next piece of work after `seen`.
  uint32_t Wait(uint32_t seen) {
    for (int32_t i = 0; i < kLooks; ++i) {
      const uint32_t piece = piece_.load(std::memory_order_acquire);
      if (piece != seen) return piece;
      Pause(i);
    }
    std::unique_lock<std::mutex> lock(mutex_);
    sleepers_.fetch_add(1);
    wake_.wait(lock, [&] { return piece_.load(std::memory_order_acquire) != seen; });
    sleepers_.fetch_sub(1);
    return piece_.load(std::memory_order_acquire);
  }

  void Work() {
    for (uint32_t piece = 0;;) {
      piece = Wait(piece);
      if (ends_) return;
      TakeParts();
      at_work_.fetch_sub(1, std::memory_order_release);
    }
  }

  std::mutex callers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<uint32_t> piece_{0};
  std::atomic<int32_t> sleepers_{0};
  // Of the piece at hand. No worker is between two of them while Run sets these.
  std::atomic<int32_t> next_{0};
  std::atomic<int32_t> at_work_{0};
  int32_t parts_ = 0;
  Part part_ = nullptr;
  void* context_ = nullptr;
  bool ends_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace skeleton

#endif  // MEMPLAN_SKELETON_THREAD_POOL_H_
