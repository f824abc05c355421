#include "plan/deep_stack.h"

#include <pthread.h>

namespace onnx_memplan {
namespace {

// Threads of musl, the smallest by default, have 128 KiB.
constexpr size_t kAlwaysThere = size_t{64} << 10;

void* CallWork(void* work) {
  (*static_cast<const std::function<void()>*>(work))();
  return nullptr;
}

}  // namespace

bool RunOnDeepStack(size_t stack_bytes, const std::function<void()>& work) {
  if (stack_bytes <= kAlwaysThere) {
    work();
    return true;
  }
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  constexpr size_t kPage = size_t{64} << 10;
  const size_t rounded = (stack_bytes + 2 * kPage) / kPage * kPage;
  pthread_t thread;
  const bool started = pthread_attr_setstacksize(&attributes, rounded) == 0 &&
                       pthread_create(&thread, &attributes, CallWork,
                                      const_cast<std::function<void()>*>(&work)) == 0;
  pthread_attr_destroy(&attributes);
  if (started) pthread_join(thread, nullptr);
  return started;
}

}  // namespace onnx_memplan
