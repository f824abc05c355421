// Matrix products as kernel calls, for every operator that is one.
#ifndef ONNX_MEMPLAN_OPS_MATMUL_LOWERING_H_
#define ONNX_MEMPLAN_OPS_MATMUL_LOWERING_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memplan/tensor.h"
#include "ops/gemm_lowering.h"
#include "ops/kernel_call.h"
#include "ops/node_context.h"
#include "ops/target.h"

namespace onnx_memplan {

// scale * A B + bias_scale * bias + residual for each matrix of a batch; strides in elements. The
// result is contiguous: [batch...][rows][columns].
struct MatMulSpec {
  // Outermost first; the strides have as many values.
  std::vector<int64_t> batch;
  std::vector<int64_t> a_batch_strides;
  std::vector<int64_t> b_batch_strides;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t depth = 0;
  int64_t a_row_stride = 0;
  int64_t a_depth_stride = 0;
  int64_t b_depth_stride = 0;
  int64_t b_column_stride = 0;
  int64_t bias_row_stride = 0;
  int64_t bias_column_stride = 0;
  float scale = 1;
  float bias_scale = 1;
  KernelArg a;
  KernelArg b;
  KernelArg bias;
  KernelArg residual;
  KernelArg c = KernelArg::Output(0);
  // The data of B and of the bias, where they are known: they then are packed or scaled.
  const Tensor* b_constant = nullptr;
  const Tensor* bias_constant = nullptr;
};

// The one call, without scratch, that computes `spec` for `dtype`, with the epilogue of `node`.
absl::StatusOr<Lowering> LowerMatMul(const NodeContext& node, const Target& target, DType dtype,
                                     MatMulSpec spec);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_OPS_MATMUL_LOWERING_H_
