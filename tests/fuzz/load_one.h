#ifndef ONNX_MEMPLAN_TESTS_FUZZ_LOAD_ONE_H_
#define ONNX_MEMPLAN_TESTS_FUZZ_LOAD_ONE_H_

#include <cstddef>
#include <span>

#include "load/export.h"
#include "onnx_memplan/load.h"
#include "passes/infer.h"

namespace onnx_memplan::testing {

// Everything that is done with a model before it is planned, on bytes of any origin.
inline void LoadOne(std::span<const std::byte> bytes) {
  auto loaded = LoadModelFromBytes(bytes, {});
  if (!loaded.ok()) return;
  // Small, so that a run takes milliseconds.
  const FoldOptions options{.small_bytes = 1 << 16, .max_growth = 4, .max_result_bytes = 1 << 20};
  if (!InferAndFold(loaded->graph, options).ok()) return;
  (void)CheckSupported(loaded->graph, BuiltinTargets().front());
  (void)ExportOnnx(loaded->graph);
}

}  // namespace onnx_memplan::testing

#endif  // ONNX_MEMPLAN_TESTS_FUZZ_LOAD_ONE_H_
