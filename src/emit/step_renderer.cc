#include "emit/step_renderer.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "emit/names.h"
#include "support/check.h"

namespace onnx_memplan {
namespace {

size_t Index(int32_t id) { return static_cast<size_t>(id); }

bool IsNull(const Node& node, const KernelArg& arg) {
  if (arg.kind == KernelArg::Kind::kNull) return true;
  if (arg.kind == KernelArg::Kind::kInput) return node.inputs[Index(arg.index)] == kNoValue;
  return arg.kind == KernelArg::Kind::kOutput && node.outputs[Index(arg.index)] == kNoValue;
}

// "float" of "const float*".
std::string ElementOf(std::string_view arg_type) {
  constexpr std::string_view kConst = "const ";
  if (arg_type.starts_with(kConst)) arg_type.remove_prefix(kConst.size());
  return std::string(arg_type.substr(0, arg_type.find('*')));
}

// "Unary" of "kernels::Unary<float, kernels::Relu>".
std::string BaseName(const std::string& kernel) {
  const std::string plain = kernel.substr(0, kernel.find('<'));
  const size_t colon = plain.rfind(':');
  return ToIdentifier(colon == std::string::npos ? plain : plain.substr(colon + 1));
}

std::string DescribeStep(const Program& program, const Node& node) {
  const auto types = [&](const std::vector<ValueId>& values) {
    std::vector<std::string> texts;
    for (ValueId value : values) {
      texts.push_back(value == kNoValue ? "none"
                                        : program.graph.values[Index(value)].type->ToString());
    }
    return absl::StrJoin(texts, ", ");
  };
  std::string op = node.op_type;
  if (node.epilogue.has_residual) op += " + residual";
  if (!node.epilogue.activation.empty()) op += " + " + node.epilogue.activation;
  return ForComment(absl::StrCat(node.name.empty() ? "" : node.name + ": ", op, " (",
                                 types(node.inputs), ") -> ", types(node.outputs)),
                    400);
}

}  // namespace

std::string KernelInstances::Add(const KernelCall& call, const KernelParams& kernel_params,
                                 const Node& node) {
  headers_.insert(call.header);
  std::vector<std::string> parameters;
  std::vector<std::string> forwarded;
  for (size_t i = 0; i < call.args.size(); ++i) {
    if (IsNull(node, call.args[i])) {
      forwarded.push_back("nullptr");
      continue;
    }
    forwarded.push_back(absl::StrCat("a", i));
    parameters.push_back(absl::StrCat(std::string(call.function.arg_types[i]), " a", i));
  }
  std::string key = absl::StrCat(call.name, kernel_params.type_name, kernel_params.initializer, ":",
                                 absl::StrJoin(forwarded, ","));
  const auto [entry, is_new] = instances_.emplace(std::move(key), "");
  if (!is_new) return entry->second;
  entry->second = absl::StrCat(BaseName(call.name), "_", instances_.size() - 1);
  const std::string params = absl::StrCat("kParams_", instances_.size() - 1);
  absl::StrAppend(&functions_, "constexpr ", kernel_params.type_name, " ", params,
                  kernel_params.initializer, ";\n", "[[gnu::noinline]] void ", entry->second, "(",
                  absl::StrJoin(parameters, ", "), ") {\n  ", call.name, "(", params,
                  forwarded.empty() ? "" : ", ", absl::StrJoin(forwarded, ", "), ");\n}\n\n");
  return entry->second;
}

StepRenderer::StepRenderer(const EntryPoint& entry, const ApiFunction& function,
                           const ConstantOffsets& constants, KernelInstances& instances)
    : program_(*entry.program),
      plan_(*entry.plan),
      function_(function),
      constants_(constants),
      instances_(instances) {
  Render();
}

void StepRenderer::Render() {
  for (size_t step = 0; step < plan_.order.size(); ++step) {
    const auto task = static_cast<size_t>(plan_.order[step]);
    const ProgramStep& program_step = program_.steps[task];
    const Node& node = program_.graph.nodes[Index(program_step.node)];
    absl::StrAppend(&body_, "  // [", step, "] ", DescribeStep(program_, node), "\n");
    for (size_t c = 0; c < program_step.lowering.calls.size(); ++c) RenderCall(task, c, node);
  }
}

void StepRenderer::RenderCall(size_t task, size_t c, const Node& node) {
  const std::vector<CallPart>& parts = program_.steps[task].lowering.calls[c].parts;
  if (parts.empty()) {
    absl::StrAppend(&body_, "  ", CallText(task, c, node, nullptr), ";\n");
    return;
  }
  uses_threads_ = true;
  absl::StrAppend(&body_, "  Parallel(", parts.size(),
                  ", [=](int32_t part) {\n    switch (part) {\n");
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool last = i + 1 == parts.size();
    absl::StrAppend(&body_, "      ", last ? std::string("default") : absl::StrCat("case ", i),
                    ":\n        ", CallText(task, c, node, &parts[i]), ";\n        break;\n");
  }
  absl::StrAppend(&body_, "    }\n  });\n");
}

std::string StepRenderer::CallText(size_t task, size_t c, const Node& node, const CallPart* part) {
  const KernelCall& call = program_.steps[task].lowering.calls[c];
  std::vector<std::string> args;
  for (size_t i = 0; i < call.args.size(); ++i) {
    if (IsNull(node, call.args[i])) continue;
    args.push_back(Address(task, c, node, i, part == nullptr ? 0 : part->arg_offsets[i]));
  }
  return absl::StrCat(instances_.Add(call, part == nullptr ? call.params : part->params, node), "(",
                      absl::StrJoin(args, ", "), ")");
}

std::string StepRenderer::Address(size_t task, size_t c, const Node& node, size_t arg_index,
                                  int64_t offset) {
  const KernelCall& call = program_.steps[task].lowering.calls[c];
  const KernelArg arg = call.args[arg_index];
  const std::string element = ElementOf(call.function.arg_types[arg_index]);
  switch (arg.kind) {
    case KernelArg::Kind::kInput:
      return ValueAddress(node.inputs[Index(arg.index)], element, offset);
    case KernelArg::Kind::kOutput:
      return ValueAddress(node.outputs[Index(arg.index)], element, offset);
    case KernelArg::Kind::kConstant:
      return At(element, "weights", constants_.by_call[task][c][Index(arg.index)] + offset);
    case KernelArg::Kind::kScratch:
      return At(element, "arena", plan_.scratch_offsets[task] + arg.index + offset);
    case KernelArg::Kind::kNull:
      break;
  }
  MEMPLAN_CHECK(false);
  return {};
}

std::string StepRenderer::ValueAddress(ValueId value, const std::string& element, int64_t offset) {
  Location location = program_.locations[Index(value)];
  location.byte_offset += offset;
  switch (location.kind) {
    case Location::Kind::kArena:
      return At(element, "arena", plan_.offsets[Index(location.index)] + location.byte_offset);
    case Location::Kind::kInput:
      return BufferAddress(function_.inputs[Index(location.index)], "in", location, element);
    case Location::Kind::kOutput:
      return BufferAddress(function_.outputs[Index(location.index)], "out", location, element);
    case Location::Kind::kConstant:
      return At(element, "weights",
                constants_.by_value[Index(location.index)] + location.byte_offset);
    case Location::Kind::kState:
      return At(element, "state",
                function_.state_offsets[Index(location.index)] + location.byte_offset);
    case Location::Kind::kNone:
      break;
  }
  MEMPLAN_CHECK_MSG(false, program_.graph.values[Index(value)].name);
  return {};
}

std::string StepRenderer::BufferAddress(const ApiTensor& tensor, const char* prefix,
                                        const Location& location, const std::string& element) {
  if (tensor.gradient_offset) {
    return At(element, "gradients", *tensor.gradient_offset + location.byte_offset);
  }
  const std::string buffer = absl::StrCat(prefix, location.index);
  bases_.insert(buffer);
  std::string pointer = tensor.by_value ? "&" + buffer : buffer;
  if (location.byte_offset == 0 && element == DTypeCppName(tensor.type.dtype)) return pointer;
  return absl::StrCat("At<", element, ">(", pointer, ", ", location.byte_offset, ")");
}

std::string StepRenderer::At(const std::string& element, const std::string& base, int64_t offset) {
  bases_.insert(base);
  return absl::StrCat("At<", element, ">(", base, ", ", offset, ")");
}

}  // namespace onnx_memplan
