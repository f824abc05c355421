# Writes OUTPUT, a C++ file that defines onnx_memplan::CodegenHeaders() with the text of HEADERS
# (paths below ROOT).

set(entries "")
foreach(header IN LISTS HEADERS)
  file(READ ${ROOT}/${header} text)
  string(FIND "${text}" ")MEMPLAN\"" found)
  if(NOT found EQUAL -1)
    message(FATAL_ERROR "${header} contains the end of the raw string that is to hold it")
  endif()
  string(APPEND entries "    {\"${header}\", R\"MEMPLAN(${text})MEMPLAN\"},\n")
endforeach()
file(WRITE ${OUTPUT} "// Made by cmake/EmbedCodegenScript.cmake.
#include \"emit/kernel_text.h\"

namespace onnx_memplan {
namespace {
constexpr CodegenHeader kHeaders[] = {
${entries}};
}  // namespace

std::span<const CodegenHeader> CodegenHeaders() { return kHeaders; }

}  // namespace onnx_memplan
")
