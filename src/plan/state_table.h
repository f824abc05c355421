// A set of sets of tasks, in a bounded amount of memory.
#ifndef ONNX_MEMPLAN_PLAN_STATE_TABLE_H_
#define ONNX_MEMPLAN_PLAN_STATE_TABLE_H_

#include <cstdint>
#include <span>
#include <vector>

namespace onnx_memplan {

// Keys are `words` 64-bit words, kept whole: a lookup is exact, whatever the hash. The table grows
// up to `max_bytes`; after that, new keys take the place of old ones. It may forget, it never
// invents.
class StateTable {
 public:
  StateTable(size_t words, int64_t max_bytes);

  bool Contains(uint64_t hash, std::span<const uint64_t> key) const;
  void Insert(uint64_t hash, std::span<const uint64_t> key);
  void Clear();
  int64_t size() const { return size_; }

 private:
  // Slots that a key may be in, from its hash on.
  static constexpr size_t kProbes = 8;

  size_t words_;
  size_t max_slots_;
  size_t mask_ = 0;
  int64_t size_ = 0;
  std::vector<uint64_t> hashes_;  // by slot; 0: empty
  std::vector<uint64_t> keys_;

  size_t Slot(uint64_t hash, size_t probe) const { return (hash + probe) & mask_; }
  bool Equal(size_t slot, uint64_t hash, std::span<const uint64_t> key) const;
  void Grow();
};

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_STATE_TABLE_H_
