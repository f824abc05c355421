#include "emit/preconditions.h"

#include "absl/strings/str_cat.h"

namespace onnx_memplan {
namespace {

std::string WeightsFileName(const Api& api) {
  return api.caller_weights() ? "weights_file" : api.name + "_weights_file";
}

}  // namespace

std::string CheckArena(const Api& api) {
  if (!api.caller_arena()) return "";
  return absl::StrCat("  if (", api.arena_bytes > 0 ? "arena_memory == nullptr || " : "",
                      "!skeleton::IsAligned(arena_memory, ", api.macro,
                      "_ARENA_ALIGNMENT)) {\n    return ", api.macro, "_ERROR_ARENA;\n  }\n");
}

std::string CheckStateBlock(const Api& api) {
  if (!api.caller_arena()) return "";
  return absl::StrCat("  if (state_memory == nullptr || !skeleton::IsAligned(state_memory, ",
                      api.macro, "_STATE_ALIGNMENT)) {\n    return ", api.macro,
                      "_ERROR_STATE;\n  }\n");
}

std::string CheckReset(const Api& api) {
  return absl::StrCat("  if (!skeleton::HasMark(state_memory, kMarkOffset, kMark)) {\n    return ",
                      api.macro, "_ERROR_NOT_RESET;\n  }\n");
}

std::string CheckWeightsHeader(const Api& api) {
  if (!api.weights_in_file()) return "";
  std::string out = "  if (";
  if (api.caller_weights()) {
    absl::StrAppend(&out, "weights_file == nullptr || !skeleton::IsAligned(weights_file, ",
                    api.macro, "_WEIGHTS_ALIGNMENT) ||\n      ");
  }
  absl::StrAppend(&out, "!skeleton::HasWeightsHeader(", WeightsFileName(api), ", ", api.macro,
                  "_WEIGHTS_BYTES, kWeightsHash)) {\n    return ", api.macro,
                  "_ERROR_WEIGHTS;\n  }\n");
  return out;
}

std::string WeightsPointer(const Api& api) {
  return api.weights_in_file()
             ? absl::StrCat("At<unsigned char>(static_cast<const void*>(", WeightsFileName(api),
                            "), skeleton::kWeightsHeaderBytes)")
             : "skeleton::Opaque(weights_memory)";
}

}  // namespace onnx_memplan
