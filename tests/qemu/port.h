/* What train_main.c needs of the machine that it runs on. */
#ifndef ONNX_MEMPLAN_TESTS_QEMU_PORT_H_
#define ONNX_MEMPLAN_TESTS_QEMU_PORT_H_

#include <stddef.h>
#include <stdint.h>

/* Memory that a test needs besides what is tested. */
#ifdef __arm__
#define PORT_TEST_MEMORY __attribute__((section(".noinit_psram")))
#else
#define PORT_TEST_MEMORY
#endif

/* Writes a file on the host; false when that fails. */
int PortWriteFile(const char* path, const void* data, size_t bytes);

/* Instructions since PortStart, for runs of less than 2.6 billion; 0 on a host. */
void PortStart(void);
uint32_t PortInstructions(void);

/* Bytes of the stack that were in use at some time; 0 on a host. */
uint32_t PortStackBytes(void);

#endif
