// libFuzzer target: any bytes are a model that is read, typed and folded, or a Status; never a
// crash, an exception, or undefined behaviour.
//
//   cmake -B build-fuzz -DCMAKE_CXX_COMPILER=clang++ -DONNX_MEMPLAN_BUILD_FUZZERS=ON
//         -DONNX_MEMPLAN_SANITIZE=address,undefined -DONNX_MEMPLAN_BUILD_TESTS=OFF
//   ninja -C build-fuzz load_fuzz
//   tests/fuzz/make_load_seeds seeds
//   build-fuzz/tests/fuzz/load_fuzz -max_total_time=600 -rss_limit_mb=3000 seeds
//
// What it finds goes to tests/fuzz/load_findings/, which tests/load/fuzz_findings_test.cc replays.
#include <cstddef>
#include <cstdint>
#include <span>

#include "fuzz/load_one.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  onnx_memplan::testing::LoadOne(std::as_bytes(std::span(data, size)));
  return 0;
}
