// Einsum: an equation of labelled dimensions, brought to strides by label.
#include "ops/host_kernels.h"

#include "kernels/einsum.h"

#include <algorithm>
#include <cctype>

#include "absl/strings/str_cat.h"
#include "ops/data_movement.h"
#include "ops/dispatch.h"
#include "ops/families.h"
#include "ops/gradient_context.h"
#include "ops/index_rules.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

// A label is a letter; the dimensions of an ellipsis get numbers from kEllipsis on, by their
// distance from the ellipsis' last dimension, since they broadcast right-aligned.
using Label = int;
constexpr Label kEllipsis = 256;

struct Equation {
  std::vector<std::vector<Label>> operands;
  std::vector<Label> output;
  std::vector<Label> summed;         // in order of appearance
  std::map<Label, int64_t> lengths;  // of every label
};

// "ij...,jk" split at commas, and what follows "->" if it is there.
struct EquationText {
  std::vector<std::string> operands;
  std::optional<std::string> output;
};

EquationText SplitEquation(std::string text) {
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  EquationText result;
  if (const size_t arrow = text.find("->"); arrow != std::string::npos) {
    result.output = text.substr(arrow + 2);
    text.resize(arrow);
  }
  result.operands.emplace_back();
  for (char c : text) {
    if (c == ',') {
      result.operands.emplace_back();
    } else {
      result.operands.back() += c;
    }
  }
  return result;
}

// The labels of `term`, whose ellipsis, if any, stands for `ellipsis_rank` dimensions. Empty when
// the term is malformed.
std::optional<std::vector<Label>> ParseTerm(const std::string& term, int64_t ellipsis_rank) {
  std::vector<Label> labels;
  bool seen_ellipsis = false;
  for (size_t i = 0; i < term.size(); ++i) {
    if (std::isalpha(static_cast<unsigned char>(term[i])) != 0) {
      labels.push_back(static_cast<Label>(term[i]));
    } else if (term.compare(i, 3, "...") == 0 && !seen_ellipsis && ellipsis_rank >= 0) {
      seen_ellipsis = true;
      for (int64_t d = ellipsis_rank; d-- > 0;) labels.push_back(kEllipsis + static_cast<Label>(d));
      i += 2;
    } else {
      return std::nullopt;
    }
  }
  return labels;
}

bool Contains(const std::vector<Label>& labels, Label label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

// Without "->": the ellipsis, then the labels that appear once, in alphabetical order.
std::vector<Label> ImplicitOutput(const Equation& equation) {
  std::map<Label, int> uses;
  for (const std::vector<Label>& labels : equation.operands) {
    for (Label label : labels) ++uses[label];
  }
  std::vector<Label> output;
  for (auto it = uses.rbegin(); it != uses.rend(); ++it) {
    if (it->first >= kEllipsis) output.push_back(it->first);
  }
  for (const auto& [label, count] : uses) {
    if (label < kEllipsis && count == 1) output.push_back(label);
  }
  return output;
}

// Notes the lengths of the labels of operand `i`; lengths of 1 broadcast.
absl::Status NoteLengths(const NodeContext& node, int32_t i, const std::vector<Label>& labels,
                         std::map<Label, int64_t>* lengths) {
  const Shape& shape = node.InputShape(i);
  if (labels.size() != shape.size()) {
    return node.Invalid(
        absl::StrCat("the equation names ", labels.size(), " dimensions of input ", i));
  }
  for (size_t d = 0; d < labels.size(); ++d) {
    const auto [it, is_new] = lengths->emplace(labels[d], shape[d]);
    if (is_new || it->second == shape[d] || shape[d] == 1) continue;
    if (it->second != 1) {
      return node.Invalid(absl::StrCat("dimension ", d, " of input ", i, " is ", shape[d],
                                       ", another with its label is ", it->second));
    }
    it->second = shape[d];
  }
  return absl::OkStatus();
}

absl::StatusOr<Equation> ParseEquation(const NodeContext& node) {
  const std::string given = node.String("equation", "");
  const EquationText text = SplitEquation(given);
  const absl::Status malformed = node.Invalid("cannot read the equation '" + given + "'");
  if (static_cast<int32_t>(text.operands.size()) != node.num_inputs()) return malformed;
  Equation equation;
  int64_t ellipsis_rank = 0;
  for (int32_t i = 0; i < node.num_inputs(); ++i) {
    if (!node.HasInput(i) || node.InputDType(i) != node.InputDType(0)) {
      return node.Invalid("the operands must have one element type");
    }
    const std::string& term = text.operands[static_cast<size_t>(i)];
    const int64_t letters =
        std::count_if(term.begin(), term.end(), [](char c) { return c != '.'; });
    const int64_t rank = node.InputType(i).rank() - letters;
    const std::optional<std::vector<Label>> labels = ParseTerm(term, rank);
    if (!labels) return malformed;
    if (term.find('.') != std::string::npos) ellipsis_rank = std::max(ellipsis_rank, rank);
    RETURN_IF_ERROR(NoteLengths(node, i, *labels, &equation.lengths));
    equation.operands.push_back(*labels);
  }
  if (text.output) {
    const std::optional<std::vector<Label>> output = ParseTerm(*text.output, ellipsis_rank);
    if (!output) return malformed;
    equation.output = *output;
  } else {
    equation.output = ImplicitOutput(equation);
  }
  for (size_t i = 0; i < equation.output.size(); ++i) {
    const Label label = equation.output[i];
    const auto first = std::find(equation.output.begin(), equation.output.end(), label);
    if (first != equation.output.begin() + static_cast<ptrdiff_t>(i) ||
        equation.lengths.find(label) == equation.lengths.end()) {
      return malformed;
    }
  }
  for (const std::vector<Label>& labels : equation.operands) {
    for (Label label : labels) {
      if (!Contains(equation.output, label) && !Contains(equation.summed, label)) {
        equation.summed.push_back(label);
      }
    }
  }
  return equation;
}

Shape LengthsOf(const Equation& equation, const std::vector<Label>& labels) {
  Shape shape;
  for (Label label : labels) shape.push_back(equation.lengths.at(label));
  return shape;
}

absl::StatusOr<std::vector<TensorType>> InferEinsum(const NodeContext& node) {
  ASSIGN_OR_RETURN(const Equation equation, ParseEquation(node));
  return std::vector<TensorType>{{node.InputDType(0), LengthsOf(equation, equation.output)}};
}

// Writes the strides of operand `i` by `labels` to strides[kMaxRank * i ...], right-aligned. A
// label that appears twice walks the diagonal.
absl::Status WriteStrides(const NodeContext& node, const Equation& equation, int32_t i,
                          const std::vector<Label>& labels, int32_t* strides) {
  const Shape& shape = node.InputShape(i);
  const std::vector<Label>& own = equation.operands[static_cast<size_t>(i)];
  const std::vector<int64_t> all = RowMajorStrides(shape);
  int32_t* out = strides + (i + 1) * kernels::kMaxRank - labels.size();
  for (Label label : labels) {
    int64_t stride = 0;
    for (size_t d = 0; d < own.size(); ++d) {
      if (own[d] == label && shape[d] != 1) stride += all[d];
    }
    ASSIGN_OR_RETURN(*out++, ToInt32(node, stride, "a stride"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Lowering> LowerEinsum(const NodeContext& node, const Target&) {
  RETURN_IF_ERROR(CheckCounts(node));
  if (node.OutputType(0).NumElements() == 0) return Lowering();
  ASSIGN_OR_RETURN(const Equation equation, ParseEquation(node));
  if (node.num_inputs() > kernels::kEinsumOperands) {
    return node.Unsupported(absl::StrCat("kernels take up to ", kernels::kEinsumOperands,
                                         " operands; split the equation"));
  }
  kernels::EinsumParams params = {};
  params.operands = node.num_inputs();
  const Shape summed = LengthsOf(equation, equation.summed);
  const std::optional<int64_t> terms = CheckedNumElements(summed);
  if (!terms) return node.Unsupported("the sum has too many terms");
  RETURN_IF_ERROR(ToInt32(node, *terms, "the number of terms").status());
  RETURN_IF_ERROR(ToKernelArray(node, node.OutputShape(0), 1, params.out_dims));
  RETURN_IF_ERROR(ToKernelArray(node, summed, 1, params.sum_dims));
  // An empty sum; its dimensions would divide by zero.
  if (*terms == 0) {
    std::fill(std::begin(params.sum_dims), std::end(params.sum_dims), 1);
    params.sum_dims[kernels::kMaxRank - 1] = 0;
  }
  std::vector<KernelArg> args(kernels::kEinsumOperands, KernelArg::Null());
  for (int32_t i = 0; i < node.num_inputs(); ++i) {
    args[static_cast<size_t>(i)] = KernelArg::Input(i);
    RETURN_IF_ERROR(WriteStrides(node, equation, i, equation.output, params.out_strides));
    RETURN_IF_ERROR(WriteStrides(node, equation, i, equation.summed, params.sum_strides));
  }
  args.push_back(KernelArg::Output(0));
  ASSIGN_OR_RETURN(KernelCall call,
                   (TypedCall<float, double, int32_t, int64_t>(
                       node, node.InputDType(0), "kernels/einsum.h", "kernels::Einsum<{T}>",
                       []<class T>() { return FunctionOf<&kernels::Einsum<T>>(); })));
  Lowering lowering = OneCall(std::move(call), params, std::move(args));
  if (__builtin_mul_overflow(node.OutputType(0).NumElements(), *terms, &lowering.macs)) {
    return node.Unsupported("the sum has too many terms");
  }
  return lowering;
}

// Labels as letters: those of ellipses get letters that the equation does not use. `unused` gets
// those that are left.
std::map<Label, char> LettersOf(const Equation& equation, std::string* unused_letters) {
  std::string& unused = *unused_letters;
  std::map<Label, char> letters;
  for (const auto& [label, length] : equation.lengths) {
    if (label < kEllipsis) letters[label] = static_cast<char>(label);
  }
  for (const char first : {'a', 'A'}) {
    for (char c = first; c < first + 26; ++c) {
      if (letters.count(c) == 0) unused += c;
    }
  }
  size_t next = 0;
  for (const auto& [label, length] : equation.lengths) {
    if (label >= kEllipsis && next < unused.size()) letters[label] = unused[next++];
  }
  unused.erase(0, next);
  return letters;
}

Tensor Identity(int64_t size, DType dtype) {
  std::vector<float> ones(static_cast<size_t>(size * size), 0.0F);
  for (int64_t i = 0; i < size; ++i) ones[static_cast<size_t>(i * (size + 1))] = 1.0F;
  if (dtype == DType::kFloat) return Tensor::FromVector<float>({size, size}, ones);
  return Tensor::FromVector<double>({size, size}, std::vector<double>(ones.begin(), ones.end()));
}

// The gradient of operand `i`: dY and the other operands, summed over all labels but its own.
absl::StatusOr<ValueId> OperandGradient(GradientContext& g, const Equation& equation, int32_t i) {
  std::string unused;
  const std::map<Label, char> letters = LettersOf(equation, &unused);
  if (letters.size() != equation.lengths.size() || unused.size() < g.ShapeOf(g.Input(i)).size()) {
    return g.context().Unsupported("no gradient for more than 52 labels");
  }
  const std::vector<Label>& own = equation.operands[static_cast<size_t>(i)];
  const Shape shape = g.ShapeOf(g.Input(i));
  const auto term = [&](const std::vector<Label>& labels, const Shape& dims, ValueId* value) {
    // A dimension of 1 that is repeated has no label of its own length: it goes.
    std::string text;
    Shape kept;
    for (size_t d = 0; d < labels.size(); ++d) {
      if (dims[d] == 1 && equation.lengths.at(labels[d]) != 1) continue;
      text += letters.at(labels[d]);
      kept.push_back(dims[d]);
    }
    *value = g.ReshapeTo(*value, kept);
    return text;
  };
  std::string text;
  std::vector<ValueId> operands;
  const auto add = [&](const std::vector<Label>& labels, ValueId value) {
    text += (operands.empty() ? "" : ",") + term(labels, Shape(g.ShapeOf(value)), &value);
    operands.push_back(value);
  };
  add(equation.output, g.OutputGradient(0));
  for (int32_t k = 0; k < g.num_inputs(); ++k) {
    if (k != i) add(equation.operands[static_cast<size_t>(k)], g.Input(k));
  }
  // A label that the operand has twice walks its diagonal: all else has gradient 0.
  std::string own_letters;
  for (size_t d = 0; d < own.size(); ++d) {
    char letter = letters.at(own[d]);
    if (own_letters.find(letter) != std::string::npos) {
      text += std::string(",") + letter + unused.back();
      operands.push_back(g.Constant(Identity(shape[d], g.Type(g.Input(i)).dtype)));
      letter = unused.back();
      unused.pop_back();
    }
    own_letters += letter;
  }
  // Labels that only this operand has were summed: their gradient is repeated.
  std::string result;
  Shape spread;  // the operand's, with 1 for the labels that are missing
  for (size_t d = 0; d < own.size(); ++d) {
    const char letter = own_letters[d];
    const bool is_repeated = shape[d] == 1 && equation.lengths.at(own[d]) != 1;
    const bool is_found = !is_repeated && text.find(letter) != std::string::npos;
    if (is_found) result += letter;
    spread.push_back(is_found ? shape[d] : 1);
  }
  ValueId gradient = g.Add("Einsum", operands, {{"equation", text + "->" + result}});
  gradient = g.ReshapeTo(gradient, spread);
  if (spread != shape) gradient = g.Add("Expand", {gradient, g.Ints(shape)});
  return gradient;
}

absl::Status EinsumGradient(GradientContext& g) {
  ASSIGN_OR_RETURN(const Equation equation, ParseEquation(g.context()));
  for (int32_t i = 0; i < g.num_inputs(); ++i) {
    if (!g.Wants(i)) continue;
    ASSIGN_OR_RETURN(const ValueId gradient, OperandGradient(g, equation, i));
    if (g.status().ok()) g.SetInputGradient(i, gradient);
  }
  return g.status();
}

}  // namespace

extern const OpDef kEinsum = {
    .type = "Einsum",
    .min_inputs = 1,
    .max_inputs = kVariadic,
    .infer = InferEinsum,
    .lower = LowerEinsum,
    .gradient = EinsumGradient,
};

}  // namespace onnx_memplan
