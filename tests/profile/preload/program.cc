// A program to be recorded and replayed: it uses each function of malloc's family and checks what
// it gets. Exit status 0 if all is well, else the line of the check that failed is on standard
// error.
//
//   program [steps] [threads] [deviate] [fork] [exec] [twice]
#include <dlfcn.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

#define CHECK(condition)                                                             \
  do {                                                                               \
    if (!(condition)) {                                                              \
      std::fprintf(stderr, "program: line %d: %s is false\n", __LINE__, #condition); \
      std::_Exit(3);                                                                 \
    }                                                                                \
  } while (false)

// Not known to the compiler, which would warn.
size_t HalfOfMemory() {
  static volatile size_t half = SIZE_MAX / 2;
  return half;
}

bool Is(const unsigned char* bytes, size_t count, int value) {
  for (size_t i = 0; i < count; ++i) {
    if (bytes[i] != value) return false;
  }
  return true;
}

unsigned char* Filled(void* pointer, size_t bytes, int value, size_t alignment = 16) {
  CHECK(pointer != nullptr);
  CHECK(reinterpret_cast<uintptr_t>(pointer) % alignment == 0);
  CHECK(malloc_usable_size(pointer) >= bytes);
  std::memset(pointer, value, bytes);
  return static_cast<unsigned char*>(pointer);
}

void UseEveryFunction(int salt) {
  unsigned char* a = Filled(malloc(10000), 10000, 1);
  unsigned char* b = Filled(malloc(20000), 20000, 2);
  free(a);
  unsigned char* c = static_cast<unsigned char*>(calloc(100, 100));
  CHECK(c != nullptr && Is(c, 10000, 0));  // though it may be where `a` was
  Filled(c, 10000, 3);

  // realloc: larger, much larger, smaller, below the smallest size and up again.
  size_t now = 20000;
  for (const size_t next : {25000U, 400000U, 30000U, 100U, 50000U}) {
    b = static_cast<unsigned char*>(realloc(b, next));
    CHECK(b != nullptr && Is(b, now < next ? now : next, 2));
    Filled(b, next, 2);
    now = next;
  }
  b = static_cast<unsigned char*>(reallocarray(b, 300, 200));
  CHECK(b != nullptr && Is(b, 50000, 2));
  errno = 0;
  CHECK(reallocarray(b, HalfOfMemory(), 3) == nullptr && errno == ENOMEM);
  CHECK(calloc(HalfOfMemory(), 3) == nullptr);
  CHECK(realloc(b, HalfOfMemory()) == nullptr && Is(b, 50000, 2));  // keeps the block

  void* d = nullptr;
  CHECK(posix_memalign(&d, 3, 10000) == EINVAL);
  CHECK(posix_memalign(&d, 4096, 10001) == 0);
  Filled(d, 10001, 4, 4096);
  unsigned char* e = Filled(aligned_alloc(256, 10240), 10240, 5, 256);
  unsigned char* f = Filled(memalign(65536, 10003), 10003, 6, 65536);
  auto g = std::make_unique<double[]>(3000);
  std::vector<std::string> strings;
  for (int i = 0; i < 2000; ++i)
    strings.push_back(std::string(40, static_cast<char>('a' + (i + salt) % 26)));
  g[2999] = 1;

  CHECK(Is(c, 10000, 3) && Is(static_cast<unsigned char*>(d), 10001, 4) && Is(e, 10240, 5));
  CHECK(Is(f, 10003, 6));
  for (int i = 0; i < 2000; ++i)
    CHECK(strings[static_cast<size_t>(i)][39] == 'a' + (i + salt) % 26);
  errno = 42;
  for (void* block : {static_cast<void*>(b), static_cast<void*>(c), d, static_cast<void*>(e),
                      static_cast<void*>(f)}) {
    free(block);
  }
  CHECK(errno == 42);
  free(nullptr);
}

void UseThreads() {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 50; ++i) UseEveryFunction(t);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// The child uses and frees what it got from its parent, and asks for more.
void UseFork() {
  std::vector<unsigned char*> blocks;
  for (int i = 0; i < 10; ++i) blocks.push_back(Filled(malloc(30000), 30000, i));
  std::thread other([] {
    for (int i = 0; i < 20; ++i) UseEveryFunction(i);
  });
  std::vector<pid_t> children;
  for (int child = 0; child < 4; ++child) {
    const pid_t id = fork();
    if (id != 0) {
      children.push_back(id);
      continue;
    }
    for (int i = 0; i < 10; ++i) {
      unsigned char* block = blocks[static_cast<size_t>(i)];
      CHECK(Is(block, 30000, i));
      if (i % 2 == 0) block = static_cast<unsigned char*>(realloc(block, 35000));
      CHECK(Is(block, 30000, i));
      free(block);
    }
    for (int i = 0; i < 10; ++i) UseEveryFunction(i);
    std::exit(0);  // with the library's destructor
  }
  for (const pid_t id : children) {
    int status = 0;
    CHECK(waitpid(id, &status, 0) == id && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  other.join();
  for (int i = 0; i < 10; ++i) CHECK(Is(blocks[static_cast<size_t>(i)], 30000, i));
  for (unsigned char* block : blocks) free(block);
}

}  // namespace

int main(int argc, char** argv) {
  const auto asked = [&](const char* word) {
    for (int i = 1; i < argc; ++i) {
      if (std::strcmp(argv[i], word) == 0) return true;
    }
    return false;
  };
  // NOLINTNEXTLINE: dlsym gives functions as data pointers
  auto* end_step = reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "onnx_memplan_profile_step"));
  const int steps = asked("steps") ? 50 : 5;
  for (int step = 0; step < steps; ++step) {
    if (asked("deviate") && step == 2) Filled(malloc(12345), 12345, 7);  // never freed
    if (asked("deviate") && step == 3) free(Filled(malloc(10000), 10000, 7));
    UseEveryFunction(step);
    if (end_step != nullptr) end_step();
  }
  if (asked("threads")) UseThreads();
  if (asked("fork")) UseFork();
  if (asked("exec")) CHECK(std::system((std::string(argv[0]) + " deviate").c_str()) == 0);
  if (asked("twice")) {
    void* block = malloc(10000);
    free(block);
    free(block);
  }
  std::puts("all is well");
  return 0;
}
