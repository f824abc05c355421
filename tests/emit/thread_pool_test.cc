#include "skeleton/thread_pool.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

namespace {

constexpr int32_t kMostParts = 8;
using Counts = std::array<int, kMostParts>;

// Each part counts for itself, so that a part that runs twice or not at all shows.
void Count(void* context, int32_t index) { ++(*static_cast<Counts*>(context))[index]; }

TEST(ThreadPoolTest, RunsEachPartOnceAndWaitsForAll) {
  for (const int32_t threads : {1, 2, 3, 6}) {
    skeleton::ThreadPool pool(threads);
    for (int piece = 0; piece < 3000; ++piece) {
      const int32_t parts = piece % (kMostParts + 1);
      Counts counts = {};
      pool.Run(parts, Count, &counts);
      for (int32_t i = 0; i < kMostParts; ++i) {
        ASSERT_EQ(counts[static_cast<size_t>(i)], i < parts ? 1 : 0) << piece;
      }
    }
  }
}

TEST(ThreadPoolTest, WakesThreadsThatWentToSleep) {
  skeleton::ThreadPool pool(3);
  for (int piece = 0; piece < 3; ++piece) {
    // Long after workers stop looking for work; were it not, fewer would sleep, and no test fail.
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    std::atomic<int> begun = 0;
    // Returns only if two threads are there.
    pool.Run(
        2,
        [](void* context, int32_t) {
          auto& count = *static_cast<std::atomic<int>*>(context);
          ++count;
          while (count.load() < 2) std::this_thread::yield();
        },
        &begun);
    EXPECT_EQ(begun, 2);
  }
}

TEST(ThreadPoolTest, TwoCallersAtOnceGetAllOfTheirPartsDone) {
  skeleton::ThreadPool pool(3);
  const auto call = [&] {
    for (int piece = 0; piece < 2000; ++piece) {
      Counts counts = {};
      pool.Run(4, Count, &counts);
      for (size_t i = 0; i < 4; ++i) ASSERT_EQ(counts[i], 1);
    }
  };
  std::thread other(call);
  call();
  other.join();
}

}  // namespace
