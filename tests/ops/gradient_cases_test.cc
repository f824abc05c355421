// Every operator of the table has a gradient rule, or stands below with the reason why not; and
// every rule agrees with central differences, in double, over the shared case table.
//
// With ONNX_MEMPLAN_GRADIENT_CASES=FILE in the environment the cases and what the rules gave are
// written there, a JSON object a line: tools/training_operators makes docs/training-operators.md of
// it.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "ops/all_cases.h"
#include "ops/cases.h"
#include "ops/gradient_test_util.h"
#include "ops/op_def.h"

namespace onnx_memplan {
namespace {

using cases::AllCases;
using cases::OpCase;

// Operators without a rule, as "domain:type".
const std::map<std::string, std::string>& WithoutGradient() {
  static const std::string recurrent = "recurrent: unroll it, or export the cell's operators";
  static const std::string backward = "only rules add it";
  static const std::string update = "ends a training step";
  static const std::string fused = "passes make it of others, after the gradients are there";
  static const std::map<std::string, std::string> reasons = {
      {":GRU", recurrent},
      {":LSTM", recurrent},
      {":RNN", recurrent},
      {":RoiAlign", "no rule"},
      {":STFT", "no rule: use a DFT of each frame"},
      {":SGD", update},
      {"com.microsoft:InPlaceAccumulatorV2", update},
      {"onnx_memplan:ClipCoefficient", update},
      {"onnx_memplan:BatchStatistics", backward},
      {"onnx_memplan:Im2Col", backward},
      {"onnx_memplan:NormalizeByStatistics", backward},
      {"onnx_memplan:Attention", fused},
  };
  return reasons;
}

std::string KeyOf(std::string_view domain, std::string_view type) {
  return std::string(domain) + ":" + std::string(type);
}

// Operators of images in blocks of channels: only graphs without a backward pass have them.
bool IsOfBlocks(const OpDef& def) {
  return def.domain == kMemplan &&
         (def.type.find("Block") != std::string_view::npos || def.type == "UnblockChannels");
}

// Gradient operators: nothing is differentiated twice.
bool IsOfBackwardPass(const OpDef& def) {
  const std::string type(def.type);
  return type.find("Grad") != std::string::npos || type.find("Mask") != std::string::npos ||
         (def.domain == kMemplan && type.find("Update") != std::string::npos);
}

TEST(GradientCasesTest, EveryOperatorHasARuleOrAReason) {
  for (const OpDef* def : OpTable()) {
    const std::string key = KeyOf(def->domain, def->type);
    if (def->gradient != nullptr) {
      EXPECT_FALSE(WithoutGradient().contains(key)) << key << " has a rule now";
    } else if (!IsOfBackwardPass(*def) && !IsOfBlocks(*def)) {
      EXPECT_TRUE(WithoutGradient().contains(key)) << key << " has neither";
    }
  }
}

// The values of a case, moved off kinks and ties, and into the function's domain.
Tensor Moved(const OpCase& row, size_t input, const Tensor& tensor) {
  std::vector<double> values;
  size_t i = 0;
  for (const double value : gradient_test::ToDoubles(tensor)) {
    values.push_back(value + 0.021 + 0.003 * static_cast<double>(i++ * 7 % 5) +
                     0.007 * static_cast<double>(input));
    if (row.op == "Pow" && input == 0) values.back() = std::fabs(values.back()) + 0.5;
    if (row.op == "Acosh") values.back() += 0.5;
  }
  return Tensor::FromVector<double>(tensor.shape(), values);
}

bool IsFloat(const std::optional<Tensor>& tensor) {
  return tensor && (tensor->dtype() == DType::kFloat || tensor->dtype() == DType::kDouble);
}

bool IsFinite(const Tensor& tensor) {
  for (const double value : gradient_test::ToDoubles(tensor)) {
    if (!std::isfinite(value)) return false;
  }
  return true;
}

// Whether the types of `row` follow when the data of input `i` is not known.
bool InfersWithout(const OpCase& row, size_t i) {
  cases::CaseGraph built = cases::Build(row);
  const ValueId id = built.node().inputs[i];
  built.graph.values[static_cast<size_t>(id)].constant.reset();
  return cases::InferOutputs(built).ok();
}

// Inputs whose gradient a rule refuses or cannot have, and that no test asks for.
bool IsRefused(const OpCase& row, size_t input) {
  const auto reduction = row.attributes.find("reduction");
  if (reduction != row.attributes.end() && row.op.rfind("Scatter", 0) == 0) {
    const auto* name = std::get_if<std::string>(&reduction->second);
    return name != nullptr && *name == "mul" && input == 2;
  }
  return (row.op == "DequantizeLinear" && input > 0) ||     // scales
         (row.op == "BatchNormalization" && input >= 3) ||  // running statistics
         (row.op == "GridSample" && input == 1) || (row.op == "BatchNormInternal" && input >= 3) ||
         (row.op.find("Loss") != std::string::npos && input >= 1) ||  // targets, weights
         (row.op.find("CrossEntropy") != std::string::npos && input >= 1);
}

// `row` as a case of gradients; nullopt if it computes nothing that has one, or tests infinities.
std::optional<GradientCase> AsGradientCase(const OpCase& row) {
  GradientCase result = {
      .op = row.op, .inputs = {}, .attributes = row.attributes, .domain = row.domain};
  result.num_outputs = static_cast<int32_t>(row.expected.size());
  bool any = false;
  for (size_t i = 0; i < row.inputs.size(); ++i) {
    result.inputs.push_back(row.inputs[i]);
    if (!IsFloat(row.inputs[i])) continue;
    if (!IsFinite(*row.inputs[i])) return std::nullopt;
    if (InfersWithout(row, i) && !IsRefused(row, i)) {
      result.inputs.back() = Moved(row, i, *row.inputs[i]);
      any = true;
    } else {
      const std::vector<double> values = gradient_test::ToDoubles(*row.inputs[i]);
      result.inputs.back() = Tensor::FromVector<double>(row.inputs[i]->shape(), values);
      result.fixed.push_back(static_cast<int32_t>(i));
    }
  }
  if (row.op == "Cast" && IsFloat(row.expected[0])) result.attributes["to"] = int64_t{11};
  if (!any || !IsFloat(row.expected[0])) return std::nullopt;
  // The others are statistics, or float whatever the input is.
  if (row.op == "LayerNormalization" && row.expected.size() > 1) return std::nullopt;
  if (row.op.find("Norm") != std::string::npos || row.op.find("Loss") != std::string::npos ||
      row.op.find("CrossEntropy") != std::string::npos) {
    result.loss_outputs = 1;
  }
  // Differences of large numbers.
  if (row.op == "LogSoftmax") result.tolerance.for_double = 1e-5;
  result.tolerance.step = 1e-5;
  return result;
}

class JsonLine {
 public:
  void Add(const std::string& key, const std::string& json) {
    text_ += (text_.empty() ? "{\"" : ", \"") + key + "\": " + json;
  }
  std::string Finish() const { return text_ + "}\n"; }

  static std::string Of(const std::string& text) { return "\"" + text + "\""; }
  static std::string Of(double value) {
    char buffer[40];
    std::snprintf(buffer, sizeof buffer, "%.17g", value);
    return buffer;
  }
  template <class T>
  static std::string Of(const std::vector<T>& values) {
    std::string text;
    for (const T& value : values) text += (text.empty() ? "" : ", ") + Of(value);
    return "[" + text + "]";
  }
  static std::string Of(const Tensor& tensor) {
    if (tensor.data() == nullptr) return "null";
    std::vector<double> values;
    if (tensor.dtype() == DType::kDouble || tensor.dtype() == DType::kFloat) {
      values = gradient_test::ToDoubles(tensor);
    } else {
      const std::optional<std::vector<int64_t>> ints = tensor.ToInt64s();
      values.assign(ints->begin(), ints->end());
    }
    JsonLine line;
    line.Add("dtype", Of(std::string(DTypeName(tensor.dtype()))));
    line.Add("shape", Of(std::vector<double>(tensor.shape().begin(), tensor.shape().end())));
    line.Add("data", Of(values));
    const std::string text = line.Finish();
    return text.substr(0, text.size() - 1);
  }

 private:
  std::string text_;
};

std::string AttributesJson(const cases::Attributes& attributes) {
  JsonLine line;
  line.Add("", "0");
  for (const auto& [name, value] : attributes) {
    if (const auto* number = std::get_if<int64_t>(&value)) {
      line.Add(name, std::to_string(*number));
    } else if (const auto* real = std::get_if<float>(&value)) {
      line.Add(name, JsonLine::Of(static_cast<double>(*real)));
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      line.Add(name, JsonLine::Of(*text));
    } else if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) {
      line.Add(name, JsonLine::Of(std::vector<double>(list->begin(), list->end())));
    }
  }
  const std::string text = line.Finish();
  return text.substr(0, text.size() - 1);
}

void WriteCase(const GradientCase& c, std::ostream& out) {
  const auto checker = MakeChecker(c);
  ASSERT_TRUE(checker.ok()) << checker.status();
  const auto report = checker->MakeReport();
  ASSERT_TRUE(report.ok()) << report.status();
  std::vector<Tensor> inputs;
  for (const std::optional<Tensor>& input : c.inputs) inputs.push_back(input.value_or(Tensor()));
  JsonLine line;
  line.Add("op", JsonLine::Of(c.op));
  line.Add("domain", JsonLine::Of(c.domain));
  line.Add("attributes", AttributesJson(c.attributes));
  line.Add("inputs", JsonLine::Of(inputs));
  line.Add("dy", JsonLine::Of(report->loss_weights));
  line.Add("gradients", JsonLine::Of(report->gradients));
  const OpDef* def = FindOp(c.op, c.domain);
  line.Add("zero", def->gradient == rules::ZeroGradient ? "true" : "false");
  line.Add("nodes", JsonLine::Of(report->nodes));
  line.Add("error", JsonLine::Of(report->largest_error));
  out << line.Finish();
}

TEST(GradientCasesTest, RulesAgreeWithCentralDifferences) {
  std::set<std::string> operators;
  int checked = 0;
  std::ofstream table;
  if (const char* file = std::getenv("ONNX_MEMPLAN_GRADIENT_CASES")) table.open(file);
  for (const OpCase& row : AllCases()) {
    const OpDef* def = FindOp(row.op, row.domain);
    ASSERT_NE(def, nullptr) << row.op;
    if (def->gradient == nullptr) continue;
    const std::optional<GradientCase> gradient_case = AsGradientCase(row);
    if (!gradient_case) continue;
    ExpectGradientsAgree(*gradient_case);
    if (table.is_open()) WriteCase(*gradient_case, table);
    operators.insert(KeyOf(row.domain, row.op));
    ++checked;
  }
  std::printf("%zu operators, %d cases\n", operators.size(), checked);
}

}  // namespace
}  // namespace onnx_memplan
