// Names of a model as C identifiers and as text in comments.
#ifndef ONNX_MEMPLAN_EMIT_NAMES_H_
#define ONNX_MEMPLAN_EMIT_NAMES_H_

#include <set>
#include <string>
#include <string_view>

namespace onnx_memplan {

// True for what C and C++ take as an identifier of a user: ASCII letters, digits and '_', neither a
// keyword, nor a type or macro of the headers that generated code includes, nor reserved for the
// implementation (a double underscore, or one at the start).
bool IsIdentifier(std::string_view text);

// `name` with '_' for every other character, made an identifier: runs of '_' become one, a leading
// digit gets a 't' before it, a reserved word "t_". "t" if nothing is left.
std::string ToIdentifier(std::string_view name);

// Hands out identifiers that differ from each other even when case is ignored, so that their
// capitals can be macro names: the second gets "_2" appended, and so on.
class UniqueIdentifiers {
 public:
  std::string Add(std::string_view name);

 private:
  std::set<std::string> taken_upper_;
};

std::string ToUpper(std::string_view text);

// `text` as it may stand in a // comment or a /* */ comment: one line, printable ASCII, without
// anything that a preprocessor reads there. Longer text is cut at `max_length`.
std::string ForComment(std::string_view text, size_t max_length = 100);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_EMIT_NAMES_H_
