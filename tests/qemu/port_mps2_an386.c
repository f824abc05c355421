/* Start-up of QEMU's mps2-an386 (Arm MPS2 board with a Cortex-M4 image, application note AN386),
 * and files of the host by semihosting. No C library but what the network itself calls. */
#include "port.h"

extern uint32_t __stack_bottom[], __stack_top[];
extern uint32_t __data_load[], __data_start[], __data_end[], __bss_start[], __bss_end[];
int main(void);

/* Semihosting operations (Arm, "Semihosting for AArch32 and AArch64"). */
enum { kOpen = 0x01, kClose = 0x02, kWrite = 0x05, kExitExtended = 0x20 };

static int Semihosting(int operation, const void* argument) {
  register int r0 __asm__("r0") = operation;
  register const void* r1 __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

static void Exit(uint32_t status) {
  const uint32_t argument[2] = {0x20026 /* ADP_Stopped_ApplicationExit */, status};
  Semihosting(kExitExtended, argument);
  for (;;) {
  }
}

/* A stack that overflows leaves the RAM, which starts with it, and ends here. */
static void Fault(void) { Exit(99); }

#define STACK_PAINT 0xA5A5A5A5U

void Reset(void) {
  *(volatile uint32_t*)0xE000ED88 |= 0xFU << 20; /* CPACR: the FPU is on */
  __asm__ volatile("dsb\n\tisb");
  const uint32_t* from = __data_load;
  for (uint32_t* to = __data_start; to < __data_end; ++to) *to = *from++;
  for (uint32_t* to = __bss_start; to < __bss_end; ++to) *to = 0;
  Exit((uint32_t)main());
}

__attribute__((section(".vectors"), used)) static const void* const vectors[16] = {
    __stack_top,        (const void*)Reset, (const void*)Fault, (const void*)Fault,
    (const void*)Fault, (const void*)Fault, (const void*)Fault};

static size_t Length(const char* text) {
  size_t length = 0;
  while (text[length] != 0) ++length;
  return length;
}

int PortWriteFile(const char* path, const void* data, size_t bytes) {
  const uint32_t open[3] = {(uint32_t)path, 5 /* "wb" */, Length(path)};
  const int file = Semihosting(kOpen, open);
  if (file == -1) return 0;
  const uint32_t write[3] = {(uint32_t)file, (uint32_t)data, bytes};
  const int left = Semihosting(kWrite, write);
  const uint32_t close[1] = {(uint32_t)file};
  return Semihosting(kClose, close) == 0 && left == 0;
}

/* The CMSDK timer counts down at 25 MHz; with QEMU's -icount shift=6 an instruction takes 64 ns. */
#define TIMER ((volatile uint32_t*)0x40000000)

void PortStart(void) {
  for (uint32_t* word = __stack_bottom; word < (uint32_t*)__builtin_frame_address(0) - 16; ++word) {
    *word = STACK_PAINT;
  }
  TIMER[0] = 0;
  TIMER[2] = 0xFFFFFFFFU;
  TIMER[1] = 0xFFFFFFFFU;
  TIMER[0] = 1;
}

uint32_t PortInstructions(void) { return (uint32_t)((uint64_t)(0xFFFFFFFFU - TIMER[1]) * 5 / 8); }

uint32_t PortStackBytes(void) {
  const uint32_t* word = __stack_bottom;
  while (*word == STACK_PAINT) ++word;
  return (uint32_t)((const char*)__stack_top - (const char*)word);
}
