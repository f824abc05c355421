#include "profile/slot_set.h"

#include <gtest/gtest.h>

#include <iterator>
#include <random>
#include <set>

#include "profile/pointer_table.h"

namespace onnx_memplan::profile {
namespace {

TEST(SlotSet, AgreesWithAnOrderedSet) {
  std::mt19937 random(1);
  for (const size_t capacity : {1, 2, 63, 64, 65, 4096, 4097, 300000}) {
    SlotSet set;
    ASSERT_TRUE(set.Init(capacity));
    std::set<int64_t> expected;
    for (int i = 0; i < 20000; ++i) {
      const size_t member = random() % capacity;
      if (random() % 2 == 0) {
        set.Insert(member);
        expected.insert(static_cast<int64_t>(member));
      } else {
        set.Erase(member);
        expected.erase(static_cast<int64_t>(member));
      }
      if (random() % 64 == 0) {  // sparse at times
        for (const int64_t m : expected) set.Erase(static_cast<size_t>(m));
        expected.clear();
      }
      const auto limit = static_cast<int64_t>(random() % capacity);
      const auto above = expected.upper_bound(limit);
      ASSERT_EQ(set.GreatestUpTo(limit), above == expected.begin() ? -1 : *std::prev(above));
      ASSERT_EQ(set.Contains(member), expected.count(static_cast<int64_t>(member)) != 0);
    }
  }
}

TEST(PointerTable, AgreesWithAMap) {
  std::mt19937 random(1);
  PointerTable table;
  std::set<uintptr_t> expected;
  for (int i = 0; i < 200000; ++i) {
    const uintptr_t address = (random() % 20000 + 1) * 16;
    const auto* pointer = reinterpret_cast<const void*>(address);
    uint64_t value = 0;
    if (expected.erase(address) != 0) {
      ASSERT_TRUE(table.Take(pointer, &value));
      ASSERT_EQ(value, address * 3);
    } else {
      ASSERT_FALSE(table.Take(pointer, &value));
      ASSERT_TRUE(table.Insert(pointer, address * 3));
      expected.insert(address);
    }
    ASSERT_EQ(table.size(), expected.size());
  }
}

}  // namespace
}  // namespace onnx_memplan::profile
