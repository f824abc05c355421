#include "ops/op_def.h"

#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/target.h"
#include "support/check.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

// Why an operator of ONNX cannot have a definition here; empty for those that just have none yet.
std::string_view WhyImpossible(std::string_view type) {
  constexpr std::string_view kDataDependent =
      "the shape of its output depends on data that is only known at run time";
  constexpr std::string_view kRandom = "its output is random";
  constexpr std::string_view kNotTensors = "it works on sequences or optionals, not on tensors";
  constexpr std::string_view kStrings = "it works on strings";
  constexpr std::pair<std::string_view, std::string_view> kReasons[] = {
      {"NonMaxSuppression", kDataDependent},
      {"Unique", kDataDependent},
      {"Bernoulli", kRandom},
      {"Multinomial", kRandom},
      {"RandomNormal", kRandom},
      {"RandomNormalLike", kRandom},
      {"RandomUniform", kRandom},
      {"RandomUniformLike", kRandom},
      {"ConcatFromSequence", kNotTensors},
      {"Optional", kNotTensors},
      {"OptionalGetElement", kNotTensors},
      {"OptionalHasElement", kNotTensors},
      {"SequenceAt", kNotTensors},
      {"SequenceConstruct", kNotTensors},
      {"SequenceEmpty", kNotTensors},
      {"SequenceErase", kNotTensors},
      {"SequenceInsert", kNotTensors},
      {"SequenceLength", kNotTensors},
      {"SequenceMap", kNotTensors},
      {"SplitToSequence", kNotTensors},
      {"RegexFullMatch", kStrings},
      {"StringConcat", kStrings},
      {"StringNormalizer", kStrings},
      {"StringSplit", kStrings},
      {"TfIdfVectorizer", kStrings},
  };
  for (const auto& [name, reason] : kReasons) {
    if (name == type) return reason;
  }
  return {};
}

absl::StatusOr<const OpDef*> Lookup(const NodeContext& context) {
  const Node& node = context.node();
  const OpDef* def = FindOp(node.op_type, node.domain);
  if (def != nullptr) return def;
  const std::string_view reason = node.domain.empty() ? WhyImpossible(node.op_type) : "";
  return context.Unsupported("the operator is not supported" +
                             (reason.empty() ? "" : ": " + std::string(reason)));
}

absl::Status CheckArity(const NodeContext& context, const OpDef& def) {
  const int32_t inputs = context.num_inputs();
  const int32_t outputs = context.num_outputs();
  if (inputs < def.min_inputs || inputs > def.max_inputs) {
    return context.Invalid(absl::StrCat("has ", inputs, " inputs; the operator takes ",
                                        def.min_inputs, " to ", def.max_inputs));
  }
  for (int32_t i = 0; i < def.min_inputs; ++i) {
    if (!context.HasInput(i)) return context.Invalid(absl::StrCat("input ", i, " is missing"));
  }
  if (outputs < def.min_outputs || outputs > def.max_outputs) {
    return context.Invalid(absl::StrCat("has ", outputs, " outputs; the operator gives ",
                                        def.min_outputs, " to ", def.max_outputs));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<TensorType>> InferTypes(const Graph& graph, const Node& node) {
  const NodeContext context(graph, node);
  ASSIGN_OR_RETURN(const OpDef* def, Lookup(context));
  RETURN_IF_ERROR(CheckArity(context, *def));
  ASSIGN_OR_RETURN(std::vector<TensorType> types, def->infer(context));
  for (const TensorType& type : types) {
    const std::optional<int64_t> count = CheckedNumElements(type.shape);
    if (!count || *count > INT64_MAX / 8) {
      return context.Invalid(absl::StrCat("an output of type ", type.ToString(),
                                          " has more bytes than 63 bits can count"));
    }
  }
  return types;
}

absl::StatusOr<Lowering> LowerNode(const Graph& graph, const Node& node, const Target& target) {
  const NodeContext context(graph, node);
  ASSIGN_OR_RETURN(const OpDef* def, Lookup(context));
  ASSIGN_OR_RETURN(Lowering lowering, def->lower(context, target));
  for (const KernelCall& call : lowering.calls) {
    MEMPLAN_CHECK_MSG(call.args.size() == call.function.arg_types.size(), call.name);
  }
  return lowering;
}

absl::StatusOr<std::vector<Tensor>> EvaluateNode(const Graph& graph, const Node& node) {
  const NodeContext context(graph, node);
  ASSIGN_OR_RETURN(const Lowering lowering, LowerNode(graph, node, BuiltinTargets().front()));
  std::vector<const std::byte*> inputs;
  for (ValueId id : node.inputs) {
    const Value* value = id == kNoValue ? nullptr : &graph.values[static_cast<size_t>(id)];
    MEMPLAN_CHECK(value == nullptr || value->constant.has_value());
    inputs.push_back(value == nullptr ? nullptr : value->constant->data());
  }
  std::vector<Tensor> results;
  std::vector<std::byte*> outputs;
  for (int32_t i = 0; i < context.num_outputs(); ++i) {
    std::byte* data = nullptr;
    if (context.HasOutput(i)) {
      results.push_back(Tensor::Zeros(context.OutputType(i), &data));
    } else {
      results.emplace_back();
    }
    outputs.push_back(data);
  }
  std::byte* scratch = nullptr;
  const Tensor scratch_owner = Tensor::Zeros({DType::kUint8, {lowering.scratch_bytes}}, &scratch);
  for (const KernelCall& call : lowering.calls) InvokeOnHost(call, inputs, outputs, scratch);
  return results;
}

}  // namespace onnx_memplan
