#include "emit/names.h"

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace onnx_memplan {
namespace {

// Sorted. Keywords of C23 and C++23, their alternative tokens, types and object-like macros of
// <math.h>, <stddef.h>, <stdint.h> and <stdbool.h> that are lower case, names that GCC predefines
// in its GNU modes, and the parameters that NAME_run has of its own.
constexpr auto kReserved = std::to_array<std::string_view>({
    "EOF",
    "HUGE_VAL",
    "INFINITY",
    "NAN",
    "NULL",
    "alignas",
    "alignof",
    "and",
    "and_eq",
    "arena",
    "asm",
    "auto",
    "bitand",
    "bitor",
    "bool",
    "break",
    "case",
    "catch",
    "char",
    "char16_t",
    "char32_t",
    "char8_t",
    "class",
    "co_await",
    "co_return",
    "co_yield",
    "compl",
    "concept",
    "const",
    "const_cast",
    "consteval",
    "constexpr",
    "constinit",
    "continue",
    "decltype",
    "default",
    "delete",
    "do",
    "double",
    "double_t",
    "dynamic_cast",
    "else",
    "enum",
    "errno",
    "explicit",
    "export",
    "extern",
    "false",
    "float",
    "float_t",
    "for",
    "friend",
    "goto",
    "i386",
    "if",
    "inline",
    "int",
    "int16_t",
    "int32_t",
    "int64_t",
    "int8_t",
    "intmax_t",
    "intptr_t",
    "linux",
    "long",
    "max_align_t",
    "mutable",
    "namespace",
    "new",
    "noexcept",
    "not",
    "not_eq",
    "nullptr",
    "nullptr_t",
    "operator",
    "or",
    "or_eq",
    "private",
    "protected",
    "ptrdiff_t",
    "public",
    "register",
    "reinterpret_cast",
    "requires",
    "restrict",
    "return",
    "short",
    "signed",
    "size_t",
    "sizeof",
    "static",
    "static_assert",
    "static_cast",
    "struct",
    "switch",
    "template",
    "this",
    "thread_local",
    "throw",
    "true",
    "try",
    "typedef",
    "typeid",
    "typename",
    "typeof",
    "typeof_unqual",
    "uint16_t",
    "uint32_t",
    "uint64_t",
    "uint8_t",
    "uintmax_t",
    "uintptr_t",
    "union",
    "unix",
    "unsigned",
    "using",
    "virtual",
    "void",
    "volatile",
    "wchar_t",
    "weights",
    "while",
    "xor",
    "xor_eq",
});
static_assert(std::is_sorted(kReserved.begin(), kReserved.end()));

bool IsReserved(std::string_view text) {
  return std::binary_search(kReserved.begin(), kReserved.end(), text);
}

bool IsWordCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_';
}

}  // namespace

bool IsIdentifier(std::string_view text) {
  if (text.empty() || text.front() == '_' || text.find("__") != std::string_view::npos)
    return false;
  if (absl::ascii_isdigit(static_cast<unsigned char>(text.front()))) return false;
  return std::all_of(text.begin(), text.end(), IsWordCharacter) && !IsReserved(text);
}

std::string ToIdentifier(std::string_view name) {
  std::string result;
  for (char c : name) {
    if (!IsWordCharacter(c)) c = '_';
    if (c == '_' && (result.empty() || result.back() == '_')) continue;
    result += c;
  }
  if (result.size() > 1 && result.back() == '_') result.pop_back();
  if (result.empty()) return "t";
  if (absl::ascii_isdigit(static_cast<unsigned char>(result.front()))) result.insert(0, 1, 't');
  if (IsReserved(result)) result.insert(0, "t_");
  return result;
}

std::string UniqueIdentifiers::Add(std::string_view name) {
  const std::string base = ToIdentifier(name);
  std::string result = base;
  for (int suffix = 2; !taken_upper_.insert(ToUpper(result)).second; ++suffix) {
    result = absl::StrCat(base, base.back() == '_' ? "" : "_", suffix);
  }
  return result;
}

std::string ToUpper(std::string_view text) {
  std::string result(text);
  absl::AsciiStrToUpper(&result);
  return result;
}

std::string ForComment(std::string_view text, size_t max_length) {
  constexpr std::string_view kAllowed = " _-.:/,()[]<>=+#';";
  std::string result;
  for (char c : text.substr(0, max_length)) {
    const bool fits = absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                      kAllowed.find(c) != std::string_view::npos;
    result += fits ? c : '_';
  }
  if (text.size() > max_length) result += "...";
  return result;
}

}  // namespace onnx_memplan
