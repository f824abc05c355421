// Blocks that are alive: from a pointer to a number. Open addressing with linear probing, in pages
// of its own. Not thread-safe.
#ifndef ONNX_MEMPLAN_SRC_PROFILE_POINTER_TABLE_H_
#define ONNX_MEMPLAN_SRC_PROFILE_POINTER_TABLE_H_

#include <cstddef>
#include <cstdint>

#include "profile/mapped_array.h"

namespace onnx_memplan::profile {

class PointerTable {
 public:
  // `pointer` is not null and not in the table. False, with no change, when there is no memory.
  bool Insert(const void* pointer, uint64_t value) {
    if ((count_ + 1) * 2 > cells_.size() && !Rehash()) return false;
    Put(cells_, {pointer, value});
    ++count_;
    return true;
  }

  // Takes the pointer out. False when it is not in the table.
  bool Take(const void* pointer, uint64_t* value) {
    if (count_ == 0) return false;
    const size_t mask = cells_.size() - 1;
    size_t hole = Home(pointer, mask);
    while (cells_[hole].pointer != pointer) {
      if (cells_[hole].pointer == nullptr) return false;
      hole = (hole + 1) & mask;
    }
    *value = cells_[hole].value;
    // Move the cells behind that could no longer be found past the hole.
    for (size_t i = (hole + 1) & mask; cells_[i].pointer != nullptr; i = (i + 1) & mask) {
      const size_t distance = (i - Home(cells_[i].pointer, mask)) & mask;
      if (distance < ((i - hole) & mask)) continue;
      cells_[hole] = cells_[i];
      hole = i;
    }
    cells_[hole].pointer = nullptr;
    --count_;
    return true;
  }

  size_t size() const { return count_; }
  size_t bytes() const { return cells_.bytes(); }

 private:
  struct Cell {
    const void* pointer;
    uint64_t value;
  };

  static size_t Home(const void* pointer, size_t mask) {
    const uint64_t key = reinterpret_cast<uintptr_t>(pointer) >> 4;
    return static_cast<size_t>(key * 0x9E3779B97F4A7C15u >> 20) & mask;
  }

  static void Put(MappedArray<Cell>& cells, const Cell& cell) {
    const size_t mask = cells.size() - 1;
    size_t i = Home(cell.pointer, mask);
    while (cells[i].pointer != nullptr) i = (i + 1) & mask;
    cells[i] = cell;
  }

  bool Rehash() {
    constexpr size_t kLeastCells = 4096;
    MappedArray<Cell> grown;
    if (!grown.Resize(cells_.empty() ? kLeastCells : cells_.size() * 2)) return false;
    for (const Cell& cell : cells_) {
      if (cell.pointer != nullptr) Put(grown, cell);
    }
    cells_.Swap(grown);
    return true;
  }

  MappedArray<Cell> cells_;
  size_t count_ = 0;
};

}  // namespace onnx_memplan::profile

#endif  // ONNX_MEMPLAN_SRC_PROFILE_POINTER_TABLE_H_
