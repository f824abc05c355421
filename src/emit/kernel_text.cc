#include "emit/kernel_text.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "support/check.h"

namespace onnx_memplan {
namespace {

std::string_view Find(std::string_view path) {
  const auto headers = CodegenHeaders();
  const auto found = std::find_if(headers.begin(), headers.end(),
                                  [&](const CodegenHeader& h) { return h.path == path; });
  MEMPLAN_CHECK_MSG(found != headers.end(), path);
  return found->text;
}

// "base.h" for `#include "base.h"` with the given brackets; empty for any other line.
std::string_view IncludedName(std::string_view line, char open, char close) {
  constexpr std::string_view kInclude = "#include ";
  if (!line.starts_with(kInclude)) return {};
  line.remove_prefix(kInclude.size());
  if (line.empty() || line.front() != open) return {};
  return line.substr(1, line.find(close, 1) - 1);
}

class Paster {
 public:
  void Paste(const std::string& path) {
    if (!seen_.insert(path).second) return;
    const std::string folder = path.substr(0, path.rfind('/') + 1);
    std::string body;
    bool in_fields = false;
    for (std::string_view rest = Find(path); !rest.empty();) {
      const size_t end = rest.find('\n');
      const std::string_view line = rest.substr(0, end);
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
      if (const auto name = IncludedName(line, '"', '"'); !name.empty()) {
        Paste(folder + std::string(name));
      } else if (const auto system = IncludedName(line, '<', '>'); !system.empty()) {
        result_.system_includes.emplace(system);
      } else if (in_fields || line.starts_with("MEMPLAN_FIELDS(")) {
        // A call of the macro ends with the first semicolon.
        in_fields = line.find(';') == std::string_view::npos;
      } else if (!(line.empty() && body.ends_with("\n\n"))) {
        body.append(line).append("\n");
      }
    }
    result_.text += body;
    if (!body.ends_with("\n\n")) result_.text += "\n";
  }

  PastedHeaders Take() { return std::move(result_); }

 private:
  std::set<std::string> seen_;
  PastedHeaders result_;
};

}  // namespace

PastedHeaders PasteHeaders(const std::set<std::string>& paths) {
  Paster paster;
  for (const std::string& path : paths) paster.Paste(path);
  return paster.Take();
}

std::string InAnonymousNamespace(const PastedHeaders& pasted) {
  return "namespace {\n\n"
         "#pragma GCC diagnostic push\n"
         "#pragma GCC diagnostic ignored \"-Wunused-function\"\n"
         "#pragma GCC diagnostic ignored \"-Wunused-const-variable\"\n\n" +
         pasted.text + "#pragma GCC diagnostic pop\n\n}  // namespace\n\n";
}

}  // namespace onnx_memplan
