// Trains a generated network and writes what comes of it: for training_generated.cc, which writes
// training_case.inc: TRAINING_INPUT and TRAINING_TARGET (the types of the elements), their
// ..._COUNT, and TRAINING_LEARNING_RATE. The network's name is "net" and it has net_gradients.
//
// Reads x.bin and target.bin. Writes gradients.bin, losses.bin (the loss that net_gradients gives,
// then that before each of ten steps), after1.bin and after10.bin (parameters).
#include <cstdio>
#include <cstring>

#include "net.h"
#include "training_case.inc"

static TRAINING_INPUT x[TRAINING_INPUT_COUNT];
static TRAINING_TARGET target[TRAINING_TARGET_COUNT];
alignas(16) static unsigned char gradients[NET_GRADIENTS_BYTES];
static unsigned char initial[NET_PARAMETERS_BYTES];
static unsigned char parameters[NET_PARAMETERS_BYTES];
static float losses[11];

static bool Read(const char* path, void* data, size_t bytes) {
  std::FILE* file = std::fopen(path, "rb");
  if (file == nullptr) return false;
  const bool whole = std::fread(data, 1, bytes, file) == bytes;
  return std::fclose(file) == 0 && whole;
}

static bool Write(const char* path, const void* data, size_t bytes) {
  std::FILE* file = std::fopen(path, "wb");
  if (file == nullptr) return false;
  const bool whole = std::fwrite(data, 1, bytes, file) == bytes;
  return std::fclose(file) == 0 && whole;
}

// The running statistics, which come behind the parameters, are as in the model file again: see
// ResetStatistics in training_main.cc.
static bool ResetStatistics() {
  std::memcpy(parameters + NET_GRADIENTS_BYTES, initial + NET_GRADIENTS_BYTES,
              NET_PARAMETERS_BYTES - NET_GRADIENTS_BYTES);
  return net_set_parameters(parameters) == NET_OK;
}

int main() {
  if (!Read("x.bin", x, sizeof x) || !Read("target.bin", target, sizeof target)) return 2;
  if (net_gradients(x, target, losses, gradients) != NET_ERROR_NOT_RESET) return 3;
  if (net_reset() != NET_OK || net_get_parameters(initial) != NET_OK) return 4;
  if (net_gradients(x, target, losses, gradients) != NET_OK) return 5;
  // Gradients do not train.
  if (net_get_parameters(parameters) != NET_OK) return 6;
  if (std::memcmp(parameters, initial, sizeof initial) != 0) return 7;
  for (int step = 0; step < 10; ++step) {
    if (net_train_step(x, target, TRAINING_LEARNING_RATE, losses + 1 + step) != NET_OK) return 8;
    if (step != 0) continue;
    if (net_get_parameters(parameters) != NET_OK || !ResetStatistics()) return 9;
    if (!Write("after1.bin", parameters, sizeof parameters)) return 10;
  }
  if (net_get_parameters(parameters) != NET_OK) return 11;
  const bool written = Write("gradients.bin", gradients, sizeof gradients) &&
                       Write("losses.bin", losses, sizeof losses) &&
                       Write("after10.bin", parameters, sizeof parameters);
  return written ? 0 : 12;
}
