#include "profile/csv.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <string_view>

namespace onnx_memplan::profile {
namespace {

bool ReadFile(const char* path, MappedArray<char>* content) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  char chunk[1 << 14];
  bool good = true;
  while (good) {
    const ssize_t got = read(file, chunk, sizeof chunk);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) break;
    good = got > 0 && content->Append(chunk, static_cast<size_t>(got));
  }
  close(file);
  return good;
}

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  while (!text.empty() && kBlank.find(text.front()) != text.npos) text.remove_prefix(1);
  while (!text.empty() && kBlank.find(text.back()) != text.npos) text.remove_suffix(1);
  return text;
}

// Takes the text before the next separator off the front.
std::string_view TakePart(std::string_view& text, char separator) {
  const size_t at = text.find(separator);
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(at == text.npos ? text.size() : at + 1);
  return Trim(part);
}

bool ToNumber(std::string_view text, int64_t* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

enum class Column { kId, kSize, kAlignment, kOffset, kOther };
constexpr int kMaxColumns = 32;

struct Header {
  Column columns[kMaxColumns] = {};
  int count = 0;

  bool Has(Column column) const {
    for (int i = 0; i < count; ++i) {
      if (columns[i] == column) return true;
    }
    return false;
  }
};

const char* ReadHeader(std::string_view line, Header* header) {
  while (!line.empty()) {
    if (header->count == kMaxColumns) return "too many columns";
    const std::string_view name = TakePart(line, ',');
    Column& column = header->columns[header->count++];
    column = name == "id"          ? Column::kId
             : name == "size"      ? Column::kSize
             : name == "alignment" ? Column::kAlignment
             : name == "offset"    ? Column::kOffset
                                   : Column::kOther;
  }
  if (!header->Has(Column::kSize)) return "there is no column \"size\"";
  if (!header->Has(Column::kOffset)) {
    return "there is no column \"offset\": is this the output of `onnx-memplan plan`?";
  }
  return nullptr;
}

void ReadId(std::string_view id, PlannedBlock* block) {
  TakePart(id, '.');
  int64_t step;
  if (!ToNumber(TakePart(id, '.'), &step) || step < 0 || step > INT32_MAX) return;
  block->step = static_cast<int32_t>(step);
  block->loop = id == "loop";
}

const char* ReadRow(std::string_view line, const Header& header, PlannedBlock* block) {
  *block = {.alignment = static_cast<int64_t>(kProfileAlignment)};
  int fields = 0;
  bool more = true;
  for (; more && fields < header.count; ++fields) {
    more = line.find(',') != line.npos;
    const std::string_view text = TakePart(line, ',');
    switch (header.columns[fields]) {
      case Column::kId:
        ReadId(text, block);
        break;
      case Column::kSize:
        if (!ToNumber(text, &block->bytes)) return "the size is not a number";
        break;
      case Column::kAlignment:
        if (!text.empty() && !ToNumber(text, &block->alignment)) {
          return "the alignment is not a number";
        }
        break;
      case Column::kOffset:
        if (!ToNumber(text, &block->offset)) return "the offset is not a number";
        break;
      case Column::kOther:
        break;
    }
  }
  return fields == header.count && !more ? nullptr : "the number of fields is wrong";
}

class Writer {
 public:
  void Text(std::string_view text) { good_ = good_ && bytes_.Append(text.data(), text.size()); }
  void Number(int64_t value) {
    char digits[24];
    const auto result = std::to_chars(digits, digits + sizeof digits, value);
    Text({digits, static_cast<size_t>(result.ptr - digits)});
  }
  bool WriteTo(const char* path) const {
    return good_ && WriteFile(path, bytes_.data(), bytes_.size());
  }

 private:
  MappedArray<char> bytes_;
  bool good_ = true;
};

void WriteRow(int64_t index, const RecordedBlock& block, bool loop, Writer& out) {
  out.Number(index);
  out.Text(".");
  out.Number(block.step);
  out.Text(block.loop ? ".loop," : ",");
  for (const int64_t value : {block.lower, block.upper, block.bytes}) {
    out.Number(value);
    out.Text(",");
  }
  out.Number(block.alignment);
  if (loop) {
    out.Text(",");
    if (block.gap_lower < block.gap_upper) {
      out.Number(block.gap_lower);
      out.Text("-");
      out.Number(block.gap_upper);
    }
  }
  out.Text("\n");
}

}  // namespace

FileFault ReadPlan(const char* path, MappedArray<PlannedBlock>* plan) {
  MappedArray<char> content;
  if (!ReadFile(path, &content)) return {.what = "the file cannot be read"};
  std::string_view text(content.data(), content.size());
  Header header;
  for (int64_t number = 1; !text.empty(); ++number) {
    const std::string_view line = TakePart(text, '\n');
    if (line.empty()) continue;
    const bool is_header = header.count == 0;
    PlannedBlock block;
    const char* fault = is_header ? ReadHeader(line, &header) : ReadRow(line, header, &block);
    if (fault != nullptr) return {.what = fault, .line = number};
    if (!is_header && !plan->PushBack(block)) return {.what = "there is no memory for it"};
  }
  return header.count == 0 ? FileFault{.what = "the file is empty"} : FileFault{};
}

bool WriteTrace(const char* path, const Recorder& recorder, int loop_steps) {
  const bool loop = loop_steps > 0;
  Writer out;
  out.Text(loop ? "id,lower,upper,size,alignment,gaps\n" : "id,lower,upper,size,alignment\n");
  int64_t index = 0;
  recorder.VisitTrace(loop_steps,
                      [&](const RecordedBlock& block) { WriteRow(index++, block, loop, out); });
  return out.WriteTo(path);
}

bool WriteFile(const char* path, const char* bytes, size_t count) {
  const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return false;
  while (count > 0) {
    const ssize_t written = write(file, bytes, count);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    bytes += written;
    count -= static_cast<size_t>(written);
  }
  return close(file) == 0 && count == 0;
}

}  // namespace onnx_memplan::profile
