#include <stdio.h>

#include "port.h"

int PortWriteFile(const char* path, const void* data, size_t bytes) {
  FILE* file = fopen(path, "wb");
  if (file == NULL) return 0;
  const int whole = fwrite(data, 1, bytes, file) == bytes;
  return fclose(file) == 0 && whole;
}

void PortStart(void) {}
uint32_t PortInstructions(void) { return 0; }
uint32_t PortStackBytes(void) { return 0; }
