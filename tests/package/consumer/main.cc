// Compiles a model through the installed library and prints its arena; exit status 0 if it is
// proven.
#include <cstdio>

#include "onnx_memplan/compile.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto model = onnx_memplan::CompileModel(argv[1], {});
  if (!model.ok()) {
    std::printf("%s\n", std::string(model.status().message()).c_str());
    return 1;
  }
  std::printf("%lld bytes\n", static_cast<long long>(model->plan().arena_bytes));
  return model->plan().proven_optimal ? 0 : 1;
}
