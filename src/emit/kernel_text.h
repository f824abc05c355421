// The text of the kernel headers, carried inside the tool, and how it gets into generated code.
#ifndef ONNX_MEMPLAN_EMIT_KERNEL_TEXT_H_
#define ONNX_MEMPLAN_EMIT_KERNEL_TEXT_H_

#include <set>
#include <span>
#include <string>
#include <string_view>

namespace onnx_memplan {

struct CodegenHeader {
  std::string_view path;  // below codegen/: "kernels/unary.h"
  std::string_view text;
};

// Every header of codegen/, sorted by path; made by the build from the files themselves.
std::span<const CodegenHeader> CodegenHeaders();

struct PastedHeaders {
  // The names in #include <...> lines, without the brackets.
  std::set<std::string> system_includes;
  // The headers' text, each once, after those it includes. Include guards stay, so that two
  // generated files can be compiled as one; includes and MEMPLAN_FIELDS lines are gone.
  std::string text;
};

// `paths` and all headers that they include. A path that does not exist is a fault of ours.
PastedHeaders PasteHeaders(const std::set<std::string>& paths);

// The text in an anonymous namespace, with the warnings off that are about parts of a header that
// go unused.
std::string InAnonymousNamespace(const PastedHeaders& pasted);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_EMIT_KERNEL_TEXT_H_
