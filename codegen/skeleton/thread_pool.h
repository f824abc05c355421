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
// thread: a worker looks for the next piece for a while before it sleeps. Whoever is there takes
// parts, so that a worker whose core somebody else has holds nobody up.
//
// The ticket says which piece is at hand (high half) and which part is next (low half). A thread
// takes a part by counting the ticket up; that fails once the ticket is another piece's, so what
// the thread has read of the piece before is that piece's.
class ThreadPool {
 public:
  using Part = void (*)(void* context, int32_t index);

  // The caller of Run is one of `threads`.
  explicit ThreadPool(int32_t threads) {
    for (int32_t i = 1; i < threads; ++i) workers_.emplace_back([this] { Work(); });
  }
  ~ThreadPool() {
    ends_.store(true);
    { const std::lock_guard<std::mutex> lock(mutex_); }
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
    const uint64_t last = ticket_.load(std::memory_order_relaxed) >> 32;
    // No part can be taken while the next piece is being described.
    ticket_.store(last << 32 | kNoPart);
    part_.store(part, std::memory_order_relaxed);
    context_.store(context, std::memory_order_relaxed);
    parts_.store(parts, std::memory_order_relaxed);
    done_.store(0, std::memory_order_relaxed);
    ticket_.store((last + 1) << 32);
    if (sleepers_.load() > 0) {
      { const std::lock_guard<std::mutex> lock(mutex_); }
      wake_.notify_all();
    }
    while (TakePart()) {
    }
    for (int32_t i = 0; done_.load(std::memory_order_acquire) < parts; ++i) Pause(i);
  }

 private:
  static constexpr int32_t kLooks = 20000;
  static constexpr uint64_t kNoPart = UINT32_MAX;

  // A thread whose core somebody else needs gives way.
  static void Pause(int32_t looks) {
    if (looks % 64 == 63) {
      std::this_thread::yield();
    } else {
#if defined(__x86_64__) || defined(__i386__)
      __builtin_ia32_pause();
#endif
    }
  }

  // Does one part of the piece at hand; false: there is none left.
  bool TakePart() {
    uint64_t ticket = ticket_.load();
    while (true) {
      const Part part = part_.load(std::memory_order_relaxed);
      void* const context = context_.load(std::memory_order_relaxed);
      const uint64_t index = ticket & UINT32_MAX;
      if (index >= static_cast<uint64_t>(parts_.load(std::memory_order_relaxed))) return false;
      if (ticket_.compare_exchange_weak(ticket, ticket + 1)) {
        part(context, static_cast<int32_t>(index));
        done_.fetch_add(1, std::memory_order_release);
        return true;
      }
    }
  }

  bool HasNews(uint64_t seen) const { return ends_.load() || ticket_.load() >> 32 != seen; }

  // Until another piece than `seen` is at hand, or the pool ends.
  void Wait(uint64_t seen) {
    for (int32_t i = 0; i < kLooks; ++i) {
      if (HasNews(seen)) return;
      Pause(i);
    }
    std::unique_lock<std::mutex> lock(mutex_);
    sleepers_.fetch_add(1);
    wake_.wait(lock, [&] { return HasNews(seen); });
    sleepers_.fetch_sub(1);
  }

  void Work() {
    for (uint64_t seen = 0; !ends_.load();) {
      Wait(seen);
      seen = ticket_.load() >> 32;
      while (TakePart()) {
      }
    }
  }

  std::mutex callers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<uint64_t> ticket_{kNoPart};
  std::atomic<int32_t> sleepers_{0};
  std::atomic<bool> ends_{false};
  // Of the piece at hand.
  std::atomic<Part> part_{nullptr};
  std::atomic<void*> context_{nullptr};
  std::atomic<int32_t> parts_{0};
  std::atomic<int32_t> done_{0};
  std::vector<std::thread> workers_;
};

}  // namespace skeleton

#endif  // MEMPLAN_SKELETON_THREAD_POOL_H_
