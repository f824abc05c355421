// Included by the source files that batch.cc writes: holds the generated networks of one batch and
// runs one of them. Compiled like generated code: C++17, no exceptions.
#ifndef ONNX_MEMPLAN_TESTS_TESTING_BATCH_DRIVER_H_
#define ONNX_MEMPLAN_TESTS_TESTING_BATCH_DRIVER_H_

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// Reading around a buffer is as wrong as writing there; an address sanitizer sees both.
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define BATCH_CLOSE(memory, bytes) __asan_poison_memory_region(memory, bytes)
#define BATCH_OPEN(memory, bytes) __asan_unpoison_memory_region(memory, bytes)
#else
#define BATCH_CLOSE(memory, bytes) static_cast<void>(0)
#define BATCH_OPEN(memory, bytes) static_cast<void>(0)
#endif

namespace batch {

struct Network {
  const char* id;
  size_t arena_bytes;
  size_t arena_alignment;
  const size_t* input_bytes;  // num_inputs of them
  size_t num_inputs;
  const size_t* output_bytes;
  size_t num_outputs;
  int (*run)(void* arena, const void* const* inputs, void* const* outputs);
};

constexpr size_t kMaxTensors = 64;
// On both sides of each buffer that a network may write.
constexpr size_t kGuardBytes = 256;
constexpr unsigned char kGuard = 0xA5;

// A buffer of exactly `bytes` bytes between two guards, filled with 0xFF (NaN as float).
inline unsigned char* NewBuffer(size_t bytes) {
  const size_t rounded = (bytes + 2 * kGuardBytes + 255) / 256 * 256;
  unsigned char* memory = static_cast<unsigned char*>(std::aligned_alloc(256, rounded));
  if (memory == nullptr) std::abort();
  std::memset(memory, kGuard, rounded);
  std::memset(memory + kGuardBytes, 0xFF, bytes);
  BATCH_CLOSE(memory, kGuardBytes);
  BATCH_CLOSE(memory + kGuardBytes + bytes, kGuardBytes);
  return memory + kGuardBytes;
}

// Frees the buffer; false when something was written outside it.
inline bool FreeIntact(unsigned char* buffer, size_t bytes) {
  BATCH_OPEN(buffer - kGuardBytes, kGuardBytes);
  BATCH_OPEN(buffer + bytes, kGuardBytes);
  bool intact = true;
  for (size_t i = 0; i < kGuardBytes; ++i) {
    intact = intact && *(buffer - 1 - i) == kGuard && *(buffer + bytes + i) == kGuard;
  }
  std::free(buffer - kGuardBytes);
  return intact;
}

inline int Fail(const char* what) {
  std::printf("%s\n", what);
  return 3;
}

// Reads all inputs, one after another, from `in_path`; writes the outputs to `out_path`.
inline int RunNetwork(const Network& network, const char* in_path, const char* out_path) {
  if (network.num_inputs > kMaxTensors || network.num_outputs > kMaxTensors) {
    return Fail("more tensors than the driver can hold");
  }
  unsigned char* inputs[kMaxTensors] = {};
  unsigned char* outputs[kMaxTensors] = {};
  const void* const_inputs[kMaxTensors] = {};
  void* void_outputs[kMaxTensors] = {};
  std::FILE* in = std::fopen(in_path, "rb");
  if (in == nullptr) return Fail("cannot read the inputs");
  for (size_t i = 0; i < network.num_inputs; ++i) {
    inputs[i] = NewBuffer(network.input_bytes[i]);
    const_inputs[i] = inputs[i];
    if (std::fread(inputs[i], 1, network.input_bytes[i], in) != network.input_bytes[i]) {
      return Fail("the inputs are too short");
    }
  }
  std::fclose(in);
  for (size_t i = 0; i < network.num_outputs; ++i) {
    outputs[i] = NewBuffer(network.output_bytes[i]);
    void_outputs[i] = outputs[i];
  }
  unsigned char* arena = NewBuffer(network.arena_bytes);
  if (network.run(arena, const_inputs, void_outputs) != 0) return Fail("run() returned an error");
  std::FILE* out = std::fopen(out_path, "wb");
  if (out == nullptr) return Fail("cannot write the outputs");
  for (size_t i = 0; i < network.num_outputs; ++i) {
    std::fwrite(outputs[i], 1, network.output_bytes[i], out);
  }
  if (std::fclose(out) != 0) return Fail("cannot write the outputs");
  if (!FreeIntact(arena, network.arena_bytes)) return Fail("wrote outside the arena");
  for (size_t i = 0; i < network.num_inputs; ++i) {
    if (!FreeIntact(inputs[i], network.input_bytes[i])) return Fail("wrote around an input");
  }
  for (size_t i = 0; i < network.num_outputs; ++i) {
    if (!FreeIntact(outputs[i], network.output_bytes[i])) return Fail("wrote outside an output");
  }
  return 0;
}

// ID IN_FILE OUT_FILE.
inline int Main(const Network* networks, size_t num_networks, int argc, char** argv) {
  if (argc != 4) return Fail("wrong arguments");
  for (size_t i = 0; i < num_networks; ++i) {
    if (std::strcmp(networks[i].id, argv[1]) == 0) {
      return RunNetwork(networks[i], argv[2], argv[3]);
    }
  }
  return Fail("no such network");
}

}  // namespace batch

#endif  // ONNX_MEMPLAN_TESTS_TESTING_BATCH_DRIVER_H_
