#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "onnx_memplan/buffers.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

enum class Column { kId, kLower, kUpper, kEnd, kSize, kAlignment, kHint, kGaps, kOffset };

struct ColumnName {
  std::string_view name;
  Column column;
};

// MiniMalloc's names and aliases. `end` and its like are inclusive: kEnd.
constexpr ColumnName kColumnNames[] = {
    {"id", Column::kId},         {"buffer_id", Column::kId},
    {"buffer", Column::kId},     {"lower", Column::kLower},
    {"start", Column::kLower},   {"begin", Column::kLower},
    {"upper", Column::kUpper},   {"end", Column::kEnd},
    {"size", Column::kSize},     {"alignment", Column::kAlignment},
    {"hint", Column::kHint},     {"gaps", Column::kGaps},
    {"offset", Column::kOffset},
};

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t at = text.find(separator);
    parts.push_back(Trim(text.substr(0, at)));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

// Text from a file, cut and made printable, for a message.
std::string Quoted(std::string_view text) {
  constexpr size_t kMaxShown = 40;
  std::string shown = "\"";
  for (char c : text.substr(0, kMaxShown)) shown += (c >= ' ' && c <= '~') ? c : '?';
  return shown + (text.size() > kMaxShown ? "...\"" : "\"");
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (text_.substr(0, kByteOrderMark.size()) == kByteOrderMark) {
      text_.remove_prefix(kByteOrderMark.size());
    }
  }

  absl::StatusOr<BufferList> Run() {
    while (!text_.empty()) {
      const size_t at = text_.find('\n');
      const std::string_view line = Trim(text_.substr(0, at));
      text_.remove_prefix(at == std::string_view::npos ? text_.size() : at + 1);
      ++line_number_;
      if (line.empty()) continue;
      const std::vector<std::string_view> fields = Split(line, ',');
      if (columns_.empty()) {
        RETURN_IF_ERROR(ReadHeader(fields));
      } else {
        RETURN_IF_ERROR(ReadRow(fields));
      }
    }
    if (columns_.empty()) return Error("there is no header line with the names of the columns");
    return std::move(list_);
  }

 private:
  absl::Status Error(const std::string& what) const {
    return absl::InvalidArgumentError(absl::StrCat("line ", line_number_, ": ", what));
  }

  bool Has(Column column) const {
    return std::find(columns_.begin(), columns_.end(), column) != columns_.end();
  }

  absl::Status ReadHeader(const std::vector<std::string_view>& fields) {
    for (std::string_view field : fields) {
      const auto* known = std::find_if(std::begin(kColumnNames), std::end(kColumnNames),
                                       [&](const ColumnName& n) { return n.name == field; });
      if (known == std::end(kColumnNames)) {
        return Error(absl::StrCat("unknown column ", Quoted(field),
                                  "; there are id, lower, upper, size, alignment, hint, gaps, "
                                  "offset"));
      }
      if (Has(known->column)) return Error(absl::StrCat("column ", Quoted(field), " twice"));
      columns_.push_back(known->column);
    }
    for (const auto& [column, name] :
         {std::pair(Column::kId, "id"), std::pair(Column::kLower, "lower"),
          std::pair(Column::kSize, "size")}) {
      if (!Has(column)) return Error(absl::StrCat("there is no column \"", name, "\""));
    }
    if (Has(Column::kUpper) == Has(Column::kEnd)) {
      return Error("there must be one of the columns \"upper\" and \"end\"");
    }
    list_.columns = {.alignment = Has(Column::kAlignment),
                     .hint = Has(Column::kHint),
                     .gaps = Has(Column::kGaps)};
    return absl::OkStatus();
  }

  absl::StatusOr<int64_t> Number(std::string_view text, std::string_view what) const {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
      return Error(absl::StrFormat("%s is not a whole number of 64 bits: %s", what, Quoted(text)));
    }
    return value;
  }

  absl::Status ReadRow(const std::vector<std::string_view>& fields) {
    if (fields.size() != columns_.size()) {
      return Error(absl::StrFormat("%d fields for %d columns", fields.size(), columns_.size()));
    }
    Buffer buffer;
    for (size_t i = 0; i < fields.size(); ++i)
      RETURN_IF_ERROR(ReadField(columns_[i], fields[i], buffer));
    if (buffer.lower >= buffer.upper) {
      return Error(absl::StrFormat("the lifetime [%d, %d) of buffer %s is empty", buffer.lower,
                                   buffer.upper, Quoted(buffer.id)));
    }
    list_.buffers.push_back(std::move(buffer));
    return absl::OkStatus();
  }

  absl::Status ReadField(Column column, std::string_view text, Buffer& buffer) const {
    switch (column) {
      case Column::kId:
        buffer.id = std::string(text);
        return absl::OkStatus();
      case Column::kLower: {
        ASSIGN_OR_RETURN(buffer.lower, Number(text, "lower"));
        return absl::OkStatus();
      }
      case Column::kUpper: {
        ASSIGN_OR_RETURN(buffer.upper, Number(text, "upper"));
        return absl::OkStatus();
      }
      case Column::kEnd: {
        ASSIGN_OR_RETURN(const int64_t last, Number(text, "end"));
        if (last == std::numeric_limits<int64_t>::max()) return Error("end is too large");
        buffer.upper = last + 1;
        return absl::OkStatus();
      }
      case Column::kSize: {
        ASSIGN_OR_RETURN(buffer.bytes, Number(text, "size"));
        if (buffer.bytes < 0) return Error(absl::StrCat("negative size ", Quoted(text)));
        return absl::OkStatus();
      }
      case Column::kAlignment: {
        if (text.empty()) return absl::OkStatus();
        ASSIGN_OR_RETURN(buffer.alignment, Number(text, "alignment"));
        if (buffer.alignment <= 0 || (buffer.alignment & (buffer.alignment - 1)) != 0) {
          return Error(absl::StrCat("the alignment is not a power of two: ", Quoted(text)));
        }
        return absl::OkStatus();
      }
      case Column::kHint: {
        if (text.empty()) return absl::OkStatus();
        ASSIGN_OR_RETURN(const int64_t hint, Number(text, "hint"));
        if (hint >= 0) buffer.hint = hint;  // MiniMalloc writes -1 for none
        return absl::OkStatus();
      }
      case Column::kOffset: {
        ASSIGN_OR_RETURN(buffer.offset, Number(text, "offset"));
        return absl::OkStatus();
      }
      case Column::kGaps:
        return ReadGaps(text, buffer);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::pair<int64_t, int64_t>> Range(std::string_view text, char separator,
                                                    std::string_view what) const {
    const size_t at = text.find(separator, 1);  // a leading '-' is a sign
    if (text.empty() || at == std::string_view::npos) {
      return Error(absl::StrFormat("%s must be two numbers with '%c' between them: %s", what,
                                   separator, Quoted(text)));
    }
    ASSIGN_OR_RETURN(const int64_t low, Number(text.substr(0, at), what));
    ASSIGN_OR_RETURN(const int64_t high, Number(text.substr(at + 1), what));
    return std::pair(low, high);
  }

  absl::Status ReadGaps(std::string_view text, Buffer& buffer) const {
    for (std::string_view part : Split(text, ' ')) {
      if (part.empty()) continue;
      const size_t at = part.find('@');
      BufferGap gap;
      ASSIGN_OR_RETURN(const auto times, Range(part.substr(0, at), '-', "a gap"));
      std::tie(gap.lower, gap.upper) = times;
      if (at != std::string_view::npos) {
        ASSIGN_OR_RETURN(const auto window, Range(part.substr(at + 1), ':', "a gap's window"));
        gap.window_low = window.first;
        gap.window_high = window.second;
      }
      buffer.gaps.push_back(gap);
    }
    return absl::OkStatus();
  }

  std::string_view text_;
  int64_t line_number_ = 0;
  std::vector<Column> columns_;
  BufferList list_;
};

std::string FormatGaps(const std::vector<BufferGap>& gaps) {
  std::string text;
  for (const BufferGap& gap : gaps) {
    absl::StrAppend(&text, text.empty() ? "" : " ", gap.lower, "-", gap.upper);
    if (gap.window_low && gap.window_high) {
      absl::StrAppend(&text, "@", *gap.window_low, ":", *gap.window_high);
    }
  }
  return text;
}

}  // namespace

absl::StatusOr<BufferList> ParseBuffersCsv(std::string_view text) { return Parser(text).Run(); }

absl::StatusOr<BufferList> ReadBuffersCsv(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  if (file) content << file.rdbuf();
  if (!file || content.bad()) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  absl::StatusOr<BufferList> list = ParseBuffersCsv(content.str());
  if (list.ok()) return list;
  return absl::Status(list.status().code(), absl::StrCat(path, ": ", list.status().message()));
}

std::string FormatBuffersCsv(const BufferList& list, const std::vector<int64_t>& offsets) {
  const BufferColumns& columns = list.columns;
  std::string text = "id,lower,upper,size";
  if (columns.alignment) text += ",alignment";
  if (columns.hint) text += ",hint";
  if (columns.gaps) text += ",gaps";
  text += ",offset\n";
  for (size_t i = 0; i < list.buffers.size(); ++i) {
    const Buffer& buffer = list.buffers[i];
    absl::StrAppend(&text, buffer.id, ",", buffer.lower, ",", buffer.upper, ",", buffer.bytes);
    if (columns.alignment) absl::StrAppend(&text, ",", buffer.alignment);
    if (columns.hint) absl::StrAppend(&text, ",", buffer.hint.value_or(-1));
    if (columns.gaps) absl::StrAppend(&text, ",", FormatGaps(buffer.gaps));
    absl::StrAppend(&text, ",", offsets[i], "\n");
  }
  return text;
}

absl::Status WriteBuffersCsv(const std::string& path, const BufferList& list,
                             const std::vector<int64_t>& offsets) {
  std::ofstream file(path, std::ios::binary);
  file << FormatBuffersCsv(list, offsets);
  file.close();
  if (!file) return absl::UnavailableError(absl::StrCat("cannot write ", path));
  return absl::OkStatus();
}

}  // namespace onnx_memplan
