#include "plan/deep_stack.h"

#include <pthread.h>

namespace onnx_memplan {
namespace {

// What callers may count on anywhere, and what a thread needs besides the work.
constexpr size_t kBaseBytes = size_t{512} << 10;

void* CallWork(void* work) {
  (*static_cast<const std::function<void()>*>(work))();
  return nullptr;
}

}  // namespace

bool RunOnDeepStack(size_t stack_bytes, const std::function<void()>& work) {
  if (stack_bytes <= kBaseBytes) {
    work();
    return true;
  }
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  constexpr size_t kPageBytes = size_t{64} << 10;
  const size_t rounded = (stack_bytes + kBaseBytes + kPageBytes) / kPageBytes * kPageBytes;
  pthread_t thread;
  const bool started = pthread_attr_setstacksize(&attributes, rounded) == 0 &&
                       pthread_create(&thread, &attributes, CallWork,
                                      const_cast<std::function<void()>*>(&work)) == 0;
  pthread_attr_destroy(&attributes);
  if (started) pthread_join(thread, nullptr);
  return started;
}

}  // namespace onnx_memplan
