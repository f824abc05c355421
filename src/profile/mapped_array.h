// A growing array in pages of its own: code that runs inside malloc cannot use the heap.
#ifndef ONNX_MEMPLAN_SRC_PROFILE_MAPPED_ARRAY_H_
#define ONNX_MEMPLAN_SRC_PROFILE_MAPPED_ARRAY_H_

#include <sys/mman.h>

#include <cstddef>
#include <cstring>
#include <type_traits>

namespace onnx_memplan::profile {

// Elements are bytes to be copied; new ones are zero. Not thread-safe.
template <typename T>
class MappedArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  constexpr MappedArray() = default;
  ~MappedArray() { Unmap(data_, capacity_); }
  MappedArray(const MappedArray&) = delete;
  MappedArray& operator=(const MappedArray&) = delete;

  // The functions that grow return false when there is no memory; the array is then unchanged.
  bool PushBack(const T& value) {
    if (size_ == capacity_ && !Grow(size_ + 1)) return false;
    data_[size_++] = value;
    return true;
  }
  bool Append(const T* values, size_t count) {
    if (count > capacity_ - size_ && !Grow(size_ + count)) return false;
    if (count > 0) std::memcpy(static_cast<void*>(data_ + size_), values, count * sizeof(T));
    size_ += count;
    return true;
  }
  bool Resize(size_t size) {
    if (size > capacity_ && !Grow(size)) return false;
    if (size > size_) std::memset(static_cast<void*>(data_ + size_), 0, (size - size_) * sizeof(T));
    size_ = size;
    return true;
  }
  void Swap(MappedArray& other) {
    const MappedArrayState mine{data_, size_, capacity_};
    data_ = other.data_, size_ = other.size_, capacity_ = other.capacity_;
    other.data_ = mine.data, other.size_ = mine.size, other.capacity_ = mine.capacity;
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  size_t bytes() const { return size_ * sizeof(T); }

 private:
  struct MappedArrayState {
    T* data;
    size_t size, capacity;
  };

  static void Unmap(T* data, size_t capacity) {
    if (data != nullptr) munmap(static_cast<void*>(data), capacity * sizeof(T));
  }

  bool Grow(size_t wanted) {
    constexpr size_t kLeastBytes = 65536;
    size_t capacity = capacity_ * 2;
    if (capacity < wanted) capacity = wanted;
    if (capacity * sizeof(T) < kLeastBytes) capacity = kLeastBytes / sizeof(T);
    void* grown = mmap(nullptr, capacity * sizeof(T), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (grown == MAP_FAILED) return false;
    if (size_ > 0) std::memcpy(grown, static_cast<const void*>(data_), size_ * sizeof(T));
    Unmap(data_, capacity_);
    data_ = static_cast<T*>(grown);
    capacity_ = capacity;
    return true;
  }

  T* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace onnx_memplan::profile

#endif  // ONNX_MEMPLAN_SRC_PROFILE_MAPPED_ARRAY_H_
