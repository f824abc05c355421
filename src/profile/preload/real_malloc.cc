// The functions are looked up by dlsym, which may itself allocate. What it asks for meanwhile comes
// from a small buffer and is never given back.
#include "profile/preload/real_malloc.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace onnx_memplan::profile::real {
namespace {

struct Functions {
  void* (*malloc)(size_t);
  void* (*calloc)(size_t, size_t);
  void* (*realloc)(void*, size_t);
  void* (*memalign)(size_t, size_t);
  void* (*aligned_alloc)(size_t, size_t);
  int (*posix_memalign)(void**, size_t, size_t);
  void (*free)(void*);
  size_t (*malloc_usable_size)(void*);
};

constinit Functions functions = {};
constinit std::atomic<bool> ready{false};
// In the initial TLS block: access to it must not allocate.
[[gnu::tls_model("initial-exec")]] constinit thread_local bool looking_up = false;

constexpr size_t kEarlyAlignment = 64;
alignas(kEarlyAlignment) constinit char early_bytes[1 << 16] = {};
constinit std::atomic<size_t> early_used{0};

// A block and, before it, its size.
void* EarlyAllocate(size_t bytes, size_t alignment) {
  if (bytes > sizeof early_bytes || alignment > kEarlyAlignment) return nullptr;
  const size_t taken = (bytes + 2 * kEarlyAlignment - 1) / kEarlyAlignment * kEarlyAlignment;
  const size_t at = early_used.fetch_add(taken, std::memory_order_relaxed);
  if (at + taken > sizeof early_bytes) return nullptr;
  std::memcpy(early_bytes + at, &bytes, sizeof bytes);
  return early_bytes + at + kEarlyAlignment;
}

bool IsEarly(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) - reinterpret_cast<uintptr_t>(early_bytes) <
         sizeof early_bytes;
}

size_t EarlySize(const void* pointer) {
  size_t bytes;
  std::memcpy(&bytes, static_cast<const char*>(pointer) - kEarlyAlignment, sizeof bytes);
  return bytes;
}

template <typename Function>
void LookUp(const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
  if (function == nullptr) std::abort();  // not a C library that we know
}

// False while this thread looks the functions up. Several threads may do so at once: all find the
// same.
bool Ready() {
  if (ready.load(std::memory_order_acquire)) [[likely]]
    return true;
  if (looking_up) return false;
  looking_up = true;
  Functions found;
  LookUp("malloc", found.malloc);
  LookUp("calloc", found.calloc);
  LookUp("realloc", found.realloc);
  LookUp("memalign", found.memalign);
  LookUp("aligned_alloc", found.aligned_alloc);
  LookUp("posix_memalign", found.posix_memalign);
  LookUp("free", found.free);
  LookUp("malloc_usable_size", found.malloc_usable_size);
  static constinit std::atomic<bool> writing{false};
  if (!writing.exchange(true)) {
    functions = found;
    ready.store(true, std::memory_order_release);
  }
  while (!ready.load(std::memory_order_acquire)) {
  }
  looking_up = false;
  return true;
}

}  // namespace

void* Malloc(size_t bytes) {
  return Ready() ? functions.malloc(bytes) : EarlyAllocate(bytes, alignof(max_align_t));
}

void* Calloc(size_t count, size_t bytes) {
  if (Ready()) return functions.calloc(count, bytes);
  size_t total;
  if (__builtin_mul_overflow(count, bytes, &total)) return nullptr;
  return EarlyAllocate(total, alignof(max_align_t));  // the buffer is zero and used once
}

void* Realloc(void* pointer, size_t bytes) {
  if (!IsEarly(pointer)) {
    if (Ready()) return functions.realloc(pointer, bytes);
    return pointer == nullptr ? EarlyAllocate(bytes, alignof(max_align_t)) : nullptr;
  }
  void* moved = Malloc(bytes);
  if (moved != nullptr) std::memcpy(moved, pointer, std::min(bytes, EarlySize(pointer)));
  return moved;
}

void* Memalign(size_t alignment, size_t bytes) {
  return Ready() ? functions.memalign(alignment, bytes) : EarlyAllocate(bytes, alignment);
}

void* AlignedAlloc(size_t alignment, size_t bytes) {
  return Ready() ? functions.aligned_alloc(alignment, bytes) : EarlyAllocate(bytes, alignment);
}

int PosixMemalign(void** pointer, size_t alignment, size_t bytes) {
  if (Ready()) return functions.posix_memalign(pointer, alignment, bytes);
  void* early = EarlyAllocate(bytes, alignment);
  if (early == nullptr) return ENOMEM;
  *pointer = early;
  return 0;
}

void Free(void* pointer) {
  if (!IsEarly(pointer) && Ready()) functions.free(pointer);
}

size_t UsableSize(void* pointer) {
  if (IsEarly(pointer)) return EarlySize(pointer);
  return Ready() ? functions.malloc_usable_size(pointer) : 0;
}

}  // namespace onnx_memplan::profile::real
