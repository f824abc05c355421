#include "pipeline/target_file.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

using Json = nlohmann::json;

bool IsPowerOfTwo(int64_t value) { return value > 0 && (value & (value - 1)) == 0; }

absl::Status SetInteger(const std::string& key, const Json& json, int64_t low, int64_t high,
                        int64_t* value) {
  if (!json.is_number_integer()) {
    return absl::InvalidArgumentError(absl::StrCat("'", key, "' must be an integer"));
  }
  *value = json.get<int64_t>();
  if (*value < low || *value > high || !IsPowerOfTwo(*value)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", key, "' must be a power of two from ", low, " to ", high));
  }
  return absl::OkStatus();
}

absl::Status SetField(const std::string& key, const Json& json, Target* target) {
  int64_t integer = 0;
  if (key == "vector_floats") {
    RETURN_IF_ERROR(SetInteger(key, json, 4, 16, &integer));
    target->vector_floats = static_cast<int32_t>(integer);
    return absl::OkStatus();
  }
  if (key == "vector_registers") {
    RETURN_IF_ERROR(SetInteger(key, json, 8, 32, &integer));
    target->vector_registers = static_cast<int32_t>(integer);
    return absl::OkStatus();
  }
  if (key == "arena_alignment") {
    RETURN_IF_ERROR(SetInteger(key, json, 8, 4096, &integer));
    target->arena_alignment = integer;
    return absl::OkStatus();
  }
  std::string* text = key == "name"             ? &target->name
                      : key == "summary"        ? &target->summary
                      : key == "compiler_flags" ? &target->compiler_flags
                                                : nullptr;
  if (text == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown field '", key,
                     "'; there are base, name, summary, vector_floats, vector_registers, "
                     "arena_alignment, compiler_flags"));
  }
  if (!json.is_string()) {
    return absl::InvalidArgumentError(absl::StrCat("'", key, "' must be a string"));
  }
  *text = json.get<std::string>();
  return absl::OkStatus();
}

absl::StatusOr<Target> ParseTarget(const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::InvalidArgumentError("not a JSON object");
  std::string base = "generic";
  if (const auto it = json.find("base"); it != json.end()) {
    if (!it->is_string()) return absl::InvalidArgumentError("'base' must be a string");
    base = it->get<std::string>();
  }
  ASSIGN_OR_RETURN(Target target, FindTarget(base));
  for (const auto& [key, value] : json.items()) {
    if (key != "base") RETURN_IF_ERROR(SetField(key, value, &target));
  }
  return target;
}

}  // namespace

absl::StatusOr<Target> ResolveTarget(const std::string& name_or_path) {
  if (!absl::EndsWith(name_or_path, ".json")) return FindTarget(name_or_path);
  std::ifstream file(name_or_path);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read target file ", name_or_path));
  std::stringstream text;
  text << file.rdbuf();
  absl::StatusOr<Target> target = ParseTarget(text.str());
  if (target.ok()) return target;
  return absl::Status(target.status().code(),
                      absl::StrCat(name_or_path, ": ", target.status().message()));
}

}  // namespace onnx_memplan
