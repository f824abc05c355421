// The allocator that the process would have without us: the next definitions of malloc and its
// family in the order of symbol search.
#ifndef ONNX_MEMPLAN_SRC_PROFILE_PRELOAD_REAL_MALLOC_H_
#define ONNX_MEMPLAN_SRC_PROFILE_PRELOAD_REAL_MALLOC_H_

#include <cstddef>

namespace onnx_memplan::profile::real {

// As the C library's, errno included. `Memalign` takes any power of two.
void* Malloc(size_t bytes);
void* Calloc(size_t count, size_t bytes);
void* Realloc(void* pointer, size_t bytes);
void* Memalign(size_t alignment, size_t bytes);
void* AlignedAlloc(size_t alignment, size_t bytes);
int PosixMemalign(void** pointer, size_t alignment, size_t bytes);
void Free(void* pointer);
size_t UsableSize(void* pointer);

}  // namespace onnx_memplan::profile::real

#endif  // ONNX_MEMPLAN_SRC_PROFILE_PRELOAD_REAL_MALLOC_H_
