// Activations: which operators are one, and how a Node::Epilogue reaches a kernel's parameters.
#ifndef ONNX_MEMPLAN_OPS_EPILOGUE_H_
#define ONNX_MEMPLAN_OPS_EPILOGUE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "onnx_memplan/graph.h"
#include "ops/node_context.h"

namespace onnx_memplan {

// An activation: as an operator, in an epilogue, and in a kernel.
struct ActivationDef {
  std::string_view name;       // Epilogue::activation
  std::string_view op_type;    // empty: no operator of its own (Silu is Mul(x, Sigmoid(x)))
  std::string_view op_domain;  // empty: ai.onnx
  int32_t kind = 0;            // kernels::ActivationKind
  // The attributes that give alpha and beta, and their defaults; empty: unused. Clip has them as
  // its inputs 1 and 2.
  std::string_view alpha_attribute = {};
  float alpha_default = 0;
  std::string_view beta_attribute = {};
  float beta_default = 0;
};

std::span<const ActivationDef> ActivationTable();

// The fields that a kernel with an epilogue has in its parameters.
struct ActivationParams {
  int32_t kind = 0;  // kernels::ActivationKind; kNone for an epilogue without activation
  float alpha = 0;
  float beta = 0;
};

// The kernel parameters of `epilogue`, whose activation is empty or in the table.
ActivationParams EpilogueParams(const Epilogue& epilogue);

// The activation that `node` applies to its input 0, as an epilogue for that input's producer;
// nullopt when `node` is no activation, does not compute in float, or has parameters that are not
// known (Clip with bounds that are not constant).
std::optional<Epilogue> AsActivation(const NodeContext& node);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_OPS_EPILOGUE_H_
