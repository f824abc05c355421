// RNN, GRU and LSTM.
#include "ops/host_kernels.h"

#include "kernels/recurrent.h"

#include <algorithm>
#include <span>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "ops/data_movement.h"
#include "ops/dispatch.h"
#include "ops/families.h"
#include "ops/index_rules.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

// What the three operators differ in.
struct Cell {
  int64_t gates;        // blocks of `hidden` rows in W and R
  int32_t activations;  // functions for each direction
  std::string_view default_activations[3];
};
constexpr Cell kRnnCell = {1, 1, {"Tanh"}};
constexpr Cell kGruCell = {3, 2, {"Sigmoid", "Tanh"}};
constexpr Cell kLstmCell = {4, 3, {"Sigmoid", "Tanh", "Tanh"}};

struct Sizes {
  int64_t steps, batch, input, hidden, directions;
  bool batch_first;  // attribute layout
};

absl::Status CheckShape(const NodeContext& node, int32_t i, std::string_view role,
                        const Shape& wanted, DType dtype) {
  if (!node.HasInput(i)) return absl::OkStatus();
  const TensorType type = {dtype, wanted};
  if (node.InputType(i) == type) return absl::OkStatus();
  return node.Invalid(absl::StrCat("input '", std::string(role), "' must be ", type.ToString()));
}

absl::StatusOr<Sizes> ReadSizes(const NodeContext& node, const Cell& cell) {
  const Shape& x = node.InputShape(0);
  const Shape& w = node.InputShape(1);
  const Shape& r = node.InputShape(2);
  if (x.size() != 3 || w.size() != 3 || r.size() != 3) {
    return node.Invalid("X, W and R must have rank 3");
  }
  const std::string direction = node.String("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    return node.Invalid("direction '" + direction +
                        "' is not one of forward, reverse, bidirectional");
  }
  Sizes sizes = {};
  sizes.batch_first = node.Int("layout", 0) != 0;
  sizes.steps = sizes.batch_first ? x[1] : x[0];
  sizes.batch = sizes.batch_first ? x[0] : x[1];
  sizes.input = x[2];
  sizes.hidden = node.Int("hidden_size", r[2]);
  sizes.directions = direction == "bidirectional" ? 2 : 1;
  if (sizes.hidden < 1 || sizes.hidden > (1 << 24)) {
    return node.Invalid("hidden_size must be 1 or more, and less than 2^24");
  }
  const DType dtype = node.InputDType(0);
  const Shape state = sizes.batch_first ? Shape{sizes.batch, sizes.directions, sizes.hidden}
                                        : Shape{sizes.directions, sizes.batch, sizes.hidden};
  const int64_t rows = cell.gates * sizes.hidden;
  RETURN_IF_ERROR(CheckShape(node, 1, "W", {sizes.directions, rows, sizes.input}, dtype));
  RETURN_IF_ERROR(CheckShape(node, 2, "R", {sizes.directions, rows, sizes.hidden}, dtype));
  RETURN_IF_ERROR(CheckShape(node, 3, "B", {sizes.directions, 2 * rows}, dtype));
  RETURN_IF_ERROR(CheckShape(node, 4, "sequence_lens", {sizes.batch}, DType::kInt32));
  RETURN_IF_ERROR(CheckShape(node, 5, "initial_h", state, dtype));
  RETURN_IF_ERROR(CheckShape(node, 6, "initial_c", state, dtype));
  RETURN_IF_ERROR(CheckShape(node, 7, "P", {sizes.directions, 3 * sizes.hidden}, dtype));
  return sizes;
}

absl::StatusOr<std::vector<TensorType>> InferRecurrent(const NodeContext& node, const Cell& cell) {
  ASSIGN_OR_RETURN(const Sizes s, ReadSizes(node, cell));
  const DType dtype = node.InputDType(0);
  const TensorType y = {dtype, s.batch_first ? Shape{s.batch, s.steps, s.directions, s.hidden}
                                             : Shape{s.steps, s.directions, s.batch, s.hidden}};
  const TensorType state = {dtype, s.batch_first ? Shape{s.batch, s.directions, s.hidden}
                                                 : Shape{s.directions, s.batch, s.hidden}};
  std::vector<TensorType> types = {y, state, state};
  types.resize(static_cast<size_t>(node.num_outputs()));
  return types;
}

absl::StatusOr<std::vector<TensorType>> InferRnn(const NodeContext& node) {
  return InferRecurrent(node, kRnnCell);
}

absl::StatusOr<std::vector<TensorType>> InferGru(const NodeContext& node) {
  return InferRecurrent(node, kGruCell);
}

absl::StatusOr<std::vector<TensorType>> InferLstm(const NodeContext& node) {
  return InferRecurrent(node, kLstmCell);
}

// An activation function, and whether it has parameters, with their defaults.
struct Activation {
  std::string_view name;
  int32_t code;
  bool has_alpha, has_beta;
  float alpha, beta;
};
constexpr Activation kActivations[] = {
    {"sigmoid", kernels::kActSigmoid, false, false, 0, 0},
    {"tanh", kernels::kActTanh, false, false, 0, 0},
    {"relu", kernels::kActRelu, false, false, 0, 0},
    {"leakyrelu", kernels::kActLeakyRelu, true, false, 0.01F, 0},
    {"thresholdedrelu", kernels::kActThresholdedRelu, true, false, 1, 0},
    {"hardsigmoid", kernels::kActHardSigmoid, true, true, 0.2F, 0.5F},
    {"elu", kernels::kActElu, true, false, 1, 0},
    {"softsign", kernels::kActSoftsign, false, false, 0, 0},
    {"softplus", kernels::kActSoftplus, false, false, 0, 0},
    {"scaledtanh", kernels::kActScaledTanh, true, true, 1, 1},
    {"affine", kernels::kActAffine, true, true, 1, 0},
};

template <class T>
std::vector<T> ListAttribute(const NodeContext& node, std::string_view name) {
  const auto it = node.node().attributes.find(name);
  if (it == node.node().attributes.end()) return {};
  const auto* list = std::get_if<std::vector<T>>(&it->second);
  return list == nullptr ? std::vector<T>() : *list;
}

// Each function that has a parameter takes the next value of its list, or the default when the list
// is at its end.
absl::Status ReadActivations(const NodeContext& node, const Cell& cell, int64_t directions,
                             kernels::RecurrentParams* params) {
  std::vector<std::string> names = ListAttribute<std::string>(node, "activations");
  const std::vector<float> alphas = ListAttribute<float>(node, "activation_alpha");
  const std::vector<float> betas = ListAttribute<float>(node, "activation_beta");
  const auto count = static_cast<size_t>(cell.activations * directions);
  for (size_t i = names.size(); names.size() < count && i < count; ++i) {
    names.emplace_back(cell.default_activations[i % static_cast<size_t>(cell.activations)]);
  }
  if (names.size() != count) {
    return node.Invalid(absl::StrCat(names.size(), " activations; ", count, " are needed"));
  }
  size_t next_alpha = 0;
  size_t next_beta = 0;
  for (size_t i = 0; i < count; ++i) {
    const std::string lower = absl::AsciiStrToLower(names[i]);
    const auto* found = std::find_if(std::begin(kActivations), std::end(kActivations),
                                     [&](const Activation& a) { return a.name == lower; });
    if (found == std::end(kActivations)) {
      return node.Unsupported("activation '" + names[i] + "' is not supported");
    }
    const size_t per_direction = static_cast<size_t>(cell.activations);
    const size_t at = 3 * (i / per_direction) + i % per_direction;
    params->activations[at] = found->code;
    params->alphas[at] =
        found->has_alpha && next_alpha < alphas.size() ? alphas[next_alpha++] : found->alpha;
    params->betas[at] =
        found->has_beta && next_beta < betas.size() ? betas[next_beta++] : found->beta;
  }
  return absl::OkStatus();
}

absl::StatusOr<kernels::RecurrentParams> RecurrentParamsOf(const NodeContext& node,
                                                           const Cell& cell) {
  RETURN_IF_ERROR(CheckCounts(node));
  ASSIGN_OR_RETURN(const Sizes s, ReadSizes(node, cell));
  kernels::RecurrentParams params = {};
  params.clip = node.Float("clip", 0);
  if (!(params.clip >= 0)) return node.Invalid("clip must not be negative");
  // Strides count even where Y is omitted or empty.
  for (const Shape& block :
       {Shape{s.steps, s.directions, s.batch, s.hidden}, Shape{s.directions, s.batch, s.hidden},
        Shape{s.steps, s.directions, s.hidden}, Shape{s.batch, s.input}, Shape{s.steps, s.input}}) {
    ASSIGN_OR_RETURN(const int64_t elements, CheckedProduct(node, block, 0, block.size()));
    RETURN_IF_ERROR(ToInt32(node, elements, "a product of dimensions").status());
  }
  for (int64_t size : {s.steps, s.batch, s.input}) {
    RETURN_IF_ERROR(ToInt32(node, size, "a dimension").status());
  }
  params.steps = static_cast<int32_t>(s.steps);
  params.batch = static_cast<int32_t>(s.batch);
  params.input = static_cast<int32_t>(s.input);
  params.hidden = static_cast<int32_t>(s.hidden);
  params.directions = static_cast<int32_t>(s.directions);
  params.reverse = node.String("direction", "forward") == "reverse" ? 1 : 0;
  params.linear_before_reset = node.Int("linear_before_reset", 0) != 0 ? 1 : 0;
  params.input_forget = node.Int("input_forget", 0) != 0 ? 1 : 0;
  const int32_t hidden = params.hidden;
  params.x_time = s.batch_first ? params.input : params.batch * params.input;
  params.x_batch = s.batch_first ? params.steps * params.input : params.input;
  params.y_time = params.directions * (s.batch_first ? hidden : params.batch * hidden);
  params.y_batch = s.batch_first ? params.steps * params.directions * hidden : hidden;
  params.y_direction = s.batch_first ? hidden : params.batch * hidden;
  params.h_batch = s.batch_first ? params.directions * hidden : hidden;
  params.h_direction = s.batch_first ? hidden : params.batch * hidden;
  RETURN_IF_ERROR(ReadActivations(node, cell, s.directions, &params));
  return params;
}

KernelArg OptionalInput(const NodeContext& node, int32_t i) {
  return node.HasInput(i) ? KernelArg::Input(i) : KernelArg::Null();
}

KernelArg OptionalOutput(const NodeContext& node, int32_t i) {
  return node.HasOutput(i) ? KernelArg::Output(i) : KernelArg::Null();
}

// `matrices` of `rows` x `depth` elements each, in the order of kernels::PanelProduct<lanes>.
std::vector<float> PackPanels(std::span<const float> matrices, int64_t rows, int64_t depth,
                              int32_t lanes) {
  const auto panel_rows = [lanes](int64_t left) {
    return lanes == 16 ? kernels::PanelProduct<16>::PanelRows(left)
                       : kernels::PanelProduct<8>::PanelRows(left);
  };
  std::vector<float> packed;
  for (size_t at = 0; at < matrices.size(); at += static_cast<size_t>(rows * depth)) {
    for (int64_t row = 0; row < rows; row += panel_rows(rows - row)) {
      const int64_t panel = panel_rows(rows - row);
      for (int64_t k = 0; k < depth; ++k) {
        for (int64_t i = row; i < row + panel; ++i) {
          const size_t from = at + static_cast<size_t>(i * depth + k);
          packed.push_back(i < rows ? matrices[from] : 0.0F);
        }
      }
    }
  }
  return packed;
}

Tensor AsTensor(const std::vector<float>& values) {
  return Tensor::FromVector<float>({static_cast<int64_t>(values.size())}, values);
}

// W and R of a cell, for kernels::PanelProduct<lanes>.
std::vector<Tensor> PackWeights(const NodeContext& node, const Cell& cell,
                                const kernels::RecurrentParams& params, int32_t lanes) {
  const int64_t hidden = params.hidden;
  const int64_t rows = cell.gates * hidden;
  const std::vector<float> w =
      PackPanels(node.InputConstant(1)->As<float>(), rows, params.input, lanes);
  const std::span<const float> r = node.InputConstant(2)->As<float>();
  std::vector<float> packed;
  // The gates of a GRU that read the state, and the one that reads what is reset of it.
  const std::vector<int64_t> parts =
      cell.gates == 3 ? std::vector<int64_t>{2 * hidden, hidden} : std::vector<int64_t>{rows};
  for (size_t at = 0; at < r.size();) {
    for (int64_t part : parts) {
      const auto elements = static_cast<size_t>(part * hidden);
      const std::vector<float> panels = PackPanels(r.subspan(at, elements), part, hidden, lanes);
      packed.insert(packed.end(), panels.begin(), panels.end());
      at += elements;
    }
  }
  return {AsTensor(w), AsTensor(packed)};
}

// Lanes of the panels that W and R are packed into; 0: they stay as they are.
int32_t PanelLanes(const NodeContext& node, const Target& target) {
  const bool known = node.InputConstant(1) != nullptr && node.InputConstant(2) != nullptr;
  if (!known || node.InputDType(0) != DType::kFloat || target.vector_floats < 8) return 0;
  return target.vector_floats >= 16 ? 16 : 8;
}

// The kernel `Name` for elements of float and double, in rows or in panels.
#define MEMPLAN_RECURRENT_CALL_(Name)                                                          \
  [](const NodeContext& context, int32_t lanes) -> absl::StatusOr<KernelCall> {                \
    using kernels::PanelProduct;                                                               \
    using kernels::RowProduct;                                                                 \
    if (lanes == 0) {                                                                          \
      return TypedCall<float, double>(                                                         \
          context, context.InputDType(0), "kernels/recurrent.h",                               \
          "kernels::" #Name "<{T}, kernels::RowProduct>",                                      \
          []<class T>() { return FunctionOf<&kernels::Name<T, RowProduct>>(); });              \
    }                                                                                          \
    KernelCall call;                                                                           \
    call.header = "kernels/recurrent.h";                                                       \
    call.name = absl::StrCat("kernels::" #Name "<float, kernels::PanelProduct<", lanes, ">>"); \
    call.function = lanes == 16 ? FunctionOf<&kernels::Name<float, PanelProduct<16>>>()        \
                                : FunctionOf<&kernels::Name<float, PanelProduct<8>>>();        \
    return call;                                                                               \
  }

using MakeRecurrentCall = absl::StatusOr<KernelCall> (*)(const NodeContext& node, int32_t lanes);

// The one call with its inputs in ONNX's order, outputs, and scratch of `scratch(hidden)` elements.
absl::StatusOr<Lowering> LowerRecurrent(const NodeContext& node, const Target& target,
                                        const Cell& cell, MakeRecurrentCall make_call,
                                        int32_t inputs, int32_t outputs,
                                        int32_t (*scratch)(int32_t hidden)) {
  ASSIGN_OR_RETURN(const kernels::RecurrentParams params, RecurrentParamsOf(node, cell));
  const int32_t lanes = PanelLanes(node, target);
  ASSIGN_OR_RETURN(KernelCall call, make_call(node, lanes));
  std::vector<KernelArg> args;
  for (int32_t i = 0; i < inputs; ++i) args.push_back(OptionalInput(node, i));
  for (int32_t i = 0; i < outputs; ++i) args.push_back(OptionalOutput(node, i));
  args.push_back(KernelArg::Scratch());
  if (lanes > 0) {
    call.constants = PackWeights(node, cell, params, lanes);
    args[1] = KernelArg::Constant(0);
    args[2] = KernelArg::Constant(1);
  }
  Lowering lowering = OneCall(std::move(call), params, std::move(args));
  lowering.scratch_alignment = DTypeBytes(node.InputDType(0));
  lowering.scratch_bytes = int64_t{scratch(params.hidden)} * lowering.scratch_alignment;
  const int64_t rows = cell.gates * params.hidden;
  int64_t sequences = 0;
  if (__builtin_mul_overflow(int64_t{params.directions} * params.batch, int64_t{params.steps},
                             &sequences) ||
      __builtin_mul_overflow(sequences, rows * (int64_t{params.input} + params.hidden),
                             &lowering.macs)) {
    return node.Unsupported("the layer is too large");
  }
  return lowering;
}

absl::StatusOr<Lowering> LowerRnn(const NodeContext& node, const Target& target) {
  return LowerRecurrent(node, target, kRnnCell, MEMPLAN_RECURRENT_CALL_(Rnn), 6, 2,
                        &kernels::RnnScratch);
}

absl::StatusOr<Lowering> LowerGru(const NodeContext& node, const Target& target) {
  return LowerRecurrent(node, target, kGruCell, MEMPLAN_RECURRENT_CALL_(Gru), 6, 2,
                        &kernels::GruScratch);
}

absl::StatusOr<Lowering> LowerLstm(const NodeContext& node, const Target& target) {
  return LowerRecurrent(node, target, kLstmCell, MEMPLAN_RECURRENT_CALL_(Lstm), 8, 3,
                        &kernels::LstmScratch);
}

#undef MEMPLAN_RECURRENT_CALL_

}  // namespace

extern const OpDef kRnn = {
    .type = "RNN",
    .min_inputs = 3,
    .max_inputs = 6,
    .min_outputs = 0,
    .max_outputs = 2,
    .infer = InferRnn,
    .lower = LowerRnn,
};

extern const OpDef kGru = {
    .type = "GRU",
    .min_inputs = 3,
    .max_inputs = 6,
    .min_outputs = 0,
    .max_outputs = 2,
    .infer = InferGru,
    .lower = LowerGru,
};

extern const OpDef kLstm = {
    .type = "LSTM",
    .min_inputs = 3,
    .max_inputs = 8,
    .min_outputs = 0,
    .max_outputs = 3,
    .infer = InferLstm,
    .lower = LowerLstm,
};

}  // namespace onnx_memplan
