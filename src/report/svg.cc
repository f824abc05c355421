#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "report/memory_report.h"

namespace onnx_memplan {
namespace {

constexpr double kPlotWidth = 1000;
constexpr double kPlotHeight = 520;
constexpr double kLeft = 110;
constexpr double kTop = 46;
constexpr double kBottom = 56;

std::string Escaped(const std::string& text) {
  std::string result;
  for (char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        // Control characters are not allowed in XML, not even escaped.
        result += static_cast<unsigned char>(c) < 0x20 && c != '\n' ? ' ' : c;
    }
  }
  return result;
}

// "1.5 MiB".
std::string HumanBytes(int64_t bytes) {
  if (bytes < 10 * 1024) return absl::StrCat(bytes, " B");
  if (bytes < 10 * 1024 * 1024)
    return absl::StrFormat("%.1f KiB", static_cast<double>(bytes) / 1024);
  return absl::StrFormat("%.1f MiB", static_cast<double>(bytes) / (1024 * 1024));
}

class MemoryMap {
 public:
  explicit MemoryMap(const MemoryReport& report)
      : report_(report),
        steps_(std::max<double>(1, static_cast<double>(report.steps.size()))),
        arena_(std::max<double>(1, static_cast<double>(report.arena_bytes))) {}

  std::string Render() {
    absl::StrAppendFormat(&svg_,
                          "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
                          "font-family=\"sans-serif\" font-size=\"12\">\n"
                          "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
                          kLeft + kPlotWidth + 20, kTop + kPlotHeight + kBottom);
    Title();
    PeakColumn();
    for (size_t i = 0; i < report_.tensors.size(); ++i) TensorRectangle(report_.tensors[i], i);
    for (const ReportStep& step : report_.steps) ScratchRectangle(step);
    Axes();
    svg_ += "</svg>\n";
    return std::move(svg_);
  }

 private:
  double X(double step) const { return kLeft + kPlotWidth * step / steps_; }
  double Y(double byte) const { return kTop + kPlotHeight * (1 - byte / arena_); }

  void Title() {
    absl::StrAppendFormat(
        &svg_, "<text x=\"%.0f\" y=\"20\" font-size=\"15\">%s: arena %d bytes, %s%s</text>\n",
        kLeft, Escaped(report_.model.name), report_.arena_bytes,
        report_.proven_optimal ? std::string("proven minimal")
                               : absl::StrCat("lower bound ", report_.lower_bound_bytes, " bytes"),
        report_.states.empty() ? std::string()
                               : absl::StrCat("; states ", report_.persistent_bytes, " bytes"));
  }

  void PeakColumn() {
    if (report_.steps.empty()) return;
    absl::StrAppendFormat(&svg_,
                          "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" "
                          "fill=\"#fde8c8\"><title>peak: step %d</title></rect>\n",
                          X(report_.peak_step), kTop, X(1) - X(0), kPlotHeight, report_.peak_step);
  }

  void Rectangle(double first_step, double end_step, int64_t offset, int64_t bytes,
                 const std::string& fill, const std::string& title, const std::string& label) {
    const double x = X(first_step);
    const double width = X(end_step) - x;
    const double y = Y(static_cast<double>(offset + bytes));
    const double height = Y(static_cast<double>(offset)) - y;
    absl::StrAppendFormat(&svg_,
                          "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\" "
                          "stroke=\"#333\" stroke-width=\"0.5\"><title>%s</title></rect>\n",
                          x, y, width, height, fill, title);
    const size_t room = static_cast<size_t>(std::max(0.0, width / 7));
    if (height > 14 && room >= 4) {
      // The end of a name tells more than its scope.
      const std::string text =
          label.size() <= room ? label : "~" + label.substr(label.size() - room + 1);
      absl::StrAppendFormat(&svg_,
                            "<text x=\"%.2f\" y=\"%.2f\" font-size=\"11\" "
                            "pointer-events=\"none\">%s</text>\n",
                            x + 3, y + height / 2 + 4, Escaped(text));
    }
  }

  void TensorRectangle(const ReportTensor& tensor, size_t index) {
    if (!tensor.offset || !tensor.first_step || tensor.kind == "view" || tensor.kind == "part") {
      return;
    }
    // Neighbours in the list get hues far apart.
    const double hue = std::fmod(static_cast<double>(index) * 137.508, 360);
    Rectangle(*tensor.first_step, *tensor.last_step + 1, *tensor.offset, tensor.bytes,
              absl::StrFormat("hsl(%.0f,55%%,78%%)", hue),
              absl::StrCat(Escaped(tensor.name), "\n", tensor.type.ToString(), "\nbytes ",
                           tensor.bytes, " at ", *tensor.offset, "\nsteps ", *tensor.first_step,
                           " to ", *tensor.last_step),
              tensor.name);
  }

  void ScratchRectangle(const ReportStep& step) {
    if (!step.scratch_offset) return;
    Rectangle(step.index, step.index + 1, *step.scratch_offset, step.scratch_bytes, "#bbb",
              absl::StrCat("scratch of step ", step.index, " ", Escaped(step.name), "\nbytes ",
                           step.scratch_bytes, " at ", *step.scratch_offset),
              "scratch");
  }

  void Axes() {
    constexpr int kTicks = 4;
    for (int i = 0; i <= kTicks; ++i) {
      const double byte = arena_ * i / kTicks;
      absl::StrAppendFormat(&svg_,
                            "<line x1=\"%.0f\" x2=\"%.0f\" y1=\"%.2f\" y2=\"%.2f\" "
                            "stroke=\"#999\"/><text x=\"%.0f\" y=\"%.2f\" "
                            "text-anchor=\"end\">%s</text>\n",
                            kLeft - 5, kLeft, Y(byte), Y(byte), kLeft - 8, Y(byte) + 4,
                            HumanBytes(static_cast<int64_t>(byte)));
    }
    absl::StrAppendFormat(&svg_,
                          "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\">step (0 to %d); "
                          "shaded: the peak</text>\n",
                          kLeft + kPlotWidth / 2, kTop + kPlotHeight + 36,
                          static_cast<int>(report_.steps.size()) - 1);
  }

  const MemoryReport& report_;
  const double steps_;
  const double arena_;
  std::string svg_;
};

}  // namespace

std::string RenderSvg(const MemoryReport& report) { return MemoryMap(report).Render(); }

std::string RenderHtml(const MemoryReport& report) {
  return absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<title>",
      Escaped(report.model.name),
      " memory map</title>\n<style>body{font-family:sans-serif;margin:1.5em;max-width:1200px}"
      "pre{font-size:12px;overflow-x:auto}svg{width:100%;height:auto}</style></head><body>\n",
      RenderSvg(report), "<pre>", Escaped(RenderText(report, /*all_steps=*/true)),
      "</pre>\n</body></html>\n");
}

}  // namespace onnx_memplan
