// Included by the source files that batch.cc writes: holds the generated networks of one batch and
// runs one of them. Compiled like generated code: C++17, no exceptions.
#ifndef ONNX_MEMPLAN_TESTS_TESTING_BATCH_DRIVER_H_
#define ONNX_MEMPLAN_TESTS_TESTING_BATCH_DRIVER_H_

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

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
  return memory + kGuardBytes;
}

inline bool GuardsAreIntact(const unsigned char* buffer, size_t bytes) {
  for (size_t i = 0; i < kGuardBytes; ++i) {
    if (*(buffer - 1 - i) != kGuard || *(buffer + bytes + i) != kGuard) return false;
  }
  return true;
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
  if (!GuardsAreIntact(arena, network.arena_bytes)) return Fail("wrote outside the arena");
  for (size_t i = 0; i < network.num_inputs; ++i) {
    if (!GuardsAreIntact(inputs[i], network.input_bytes[i])) return Fail("wrote around an input");
  }
  std::FILE* out = std::fopen(out_path, "wb");
  if (out == nullptr) return Fail("cannot write the outputs");
  for (size_t i = 0; i < network.num_outputs; ++i) {
    if (!GuardsAreIntact(outputs[i], network.output_bytes[i])) {
      return Fail("wrote outside an output");
    }
    std::fwrite(outputs[i], 1, network.output_bytes[i], out);
  }
  return std::fclose(out) == 0 ? 0 : Fail("cannot write the outputs");
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
