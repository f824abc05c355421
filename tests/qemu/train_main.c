/* Trains a generated network ("net", input "input", classes of its output "output") for ten steps
 * on a machine without an operating system, and on the host, on the same numbers: for
 * tools/train_mcu.
 *
 * Writes losses.bin, parameters.bin and figures.bin: instructions of a step, bytes of stack. */
#include "net.h"
#include "port.h"

enum { kSteps = 10 };

static float input[NET_INPUT_INPUT_COUNT];
static int64_t target[NET_INPUT_TARGET_COUNT];
PORT_TEST_MEMORY static float losses[kSteps];
PORT_TEST_MEMORY static unsigned char parameters[NET_PARAMETERS_BYTES];
PORT_TEST_MEMORY static uint32_t figures[2];

/* Multiples of 1/256 in [0, 1), the same on every machine. */
static float NextPixel(uint32_t* state) {
  *state = *state * 1664525U + 1013904223U;
  return (float)(*state >> 24) * (1.0F / 256.0F);
}

int main(void) {
  uint32_t state = 1;
  uint32_t stack_bytes = 0;
  uint32_t instructions = 0;
  if (net_reset() != NET_OK) return 1;
  for (int step = 0; step < kSteps; ++step) {
    for (int i = 0; i < NET_INPUT_INPUT_COUNT; ++i) input[i] = NextPixel(&state);
    for (int i = 0; i < NET_INPUT_TARGET_COUNT; ++i) target[i] = (step + i) % 10;
    PortStart();
    float loss = 0;
    if (net_train_step(input, target, 0.02F, &loss) != NET_OK) return 2;
    losses[step] = loss;
    instructions += PortInstructions() / kSteps;
    if (PortStackBytes() > stack_bytes) stack_bytes = PortStackBytes();
  }
  figures[0] = instructions;
  figures[1] = stack_bytes;
  if (net_get_parameters(parameters) != NET_OK) return 3;
  const int written = PortWriteFile("losses.bin", losses, sizeof losses) &&
                      PortWriteFile("parameters.bin", parameters, sizeof parameters) &&
                      PortWriteFile("figures.bin", figures, sizeof figures);
  return written ? 0 : 4;
}
