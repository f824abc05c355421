// Weight gradients that are used up as they arise: each block of a gradient goes from scratch into
// the update of its weights, and the gradient as a whole is never stored.
#ifndef MEMPLAN_KERNELS_FUSED_UPDATES_H_
#define MEMPLAN_KERNELS_FUSED_UPDATES_H_

#include "conv_gradient.h"
#include "matmul.h"
#include "optimizers.h"

namespace kernels {

// The gradient is scale * a b, as in MatMulParams with one matrix and contiguous rows of b. The
// members of the optimizer: see OptimizerParams.
struct MatMulUpdateParams {
  double beta1;
  double beta2;
  float momentum;
  float weight_decay;
  float epsilon;
  int32_t nesterov;
  int32_t decoupled;
  int32_t rows;
  int32_t columns;
  int32_t depth;
  int32_t a_row_stride;
  int32_t a_depth_stride;
  int32_t b_depth_stride;
  int32_t block_rows;  // of the gradient, that are made at a time
  float scale;
  int32_t padding;  // keeps the struct free of holes
};
MEMPLAN_FIELDS(MatMulUpdateParams, beta1, beta2, momentum, weight_decay, epsilon, nesterov,
               decoupled, rows, columns, depth, a_row_stride, a_depth_stride, b_depth_stride,
               block_rows, scale, padding);

struct ConvUpdateParams {
  double beta1;
  double beta2;
  float momentum;
  float weight_decay;
  float epsilon;
  int32_t nesterov;
  int32_t decoupled;
  // The rest: see ConvWeightGradParams.
  int32_t batch;
  int32_t groups;
  int32_t in_channels;
  int32_t out_channels;
  int32_t in_size[3];
  int32_t out_size[3];
  int32_t taps[3];
  int32_t stride[3];
  int32_t dilation[3];
  int32_t padding[3];
  int32_t block_channels;
  int32_t x_channels;
  int32_t dy_channels;
};
MEMPLAN_FIELDS(ConvUpdateParams, beta1, beta2, momentum, weight_decay, epsilon, nesterov, decoupled,
               batch, groups, in_channels, out_channels, in_size, out_size, taps, stride, dilation,
               padding, block_channels, x_channels, dy_channels);

template <class Params>
MEMPLAN_INLINE OptimizerParams OptimizerOf(const Params& p) {
  OptimizerParams result = {};
  result.beta1 = p.beta1;
  result.beta2 = p.beta2;
  result.momentum = p.momentum;
  result.weight_decay = p.weight_decay;
  result.epsilon = p.epsilon;
  result.nesterov = p.nesterov;
  result.decoupled = p.decoupled;
  result.every = 1;
  return result;
}

// Applies `rule` to `count` weights from element `at` on, whose gradients are `g`.
template <class Rule>
MEMPLAN_INLINE void UpdateRange(const Rule& rule, int32_t count, ptrdiff_t at, const float* g,
                                const float* w, const float* m, const float* v, float* w_out,
                                float* m_out, float* v_out) {
  rule.Apply(count, w + at, g, m == nullptr ? nullptr : m + at, v == nullptr ? nullptr : v + at,
             w_out + at, m_out == nullptr ? nullptr : m_out + at,
             v_out == nullptr ? nullptr : v_out + at);
}

// Bytes of scratch: a block of rows.
constexpr int64_t MatMulUpdateScratchBytes(int64_t block_rows, int64_t columns) {
  return block_rows * columns * 4;
}

// Every block has at least Rows rows, and a row at least Lanes columns.
template <int Lanes, int Rows, int Columns, class Rule>
MEMPLAN_INLINE void MatMulUpdate(const MatMulUpdateParams& p, const float* w, const float* a,
                                 const float* b, const float* rate, const int64_t* step,
                                 const float* scale, const float* m, const float* v,
                                 float* gradient, float* w_out, float* m_out, float* v_out) {
  const Rule rule(OptimizerOf(p), *rate, scale, step);
  MatMulParams product = {};
  product.columns = p.columns;
  product.depth = p.depth;
  product.a_row_stride = p.a_row_stride;
  product.a_depth_stride = p.a_depth_stride;
  product.b_depth_stride = p.b_depth_stride;
  product.b_column_stride = 1;
  product.depth_block = p.depth;
  product.scale = p.scale;
  for (int32_t row = 0; row < p.rows; row += p.block_rows) {
    product.rows = p.rows - row < p.block_rows ? p.rows - row : p.block_rows;
    MatMulTiles<Lanes, Rows, Columns, false>(product, nullptr,
                                             a + static_cast<ptrdiff_t>(row) * p.a_row_stride, b,
                                             nullptr, nullptr, gradient);
    UpdateRange(rule, product.rows * p.columns, static_cast<ptrdiff_t>(row) * p.columns, gradient,
                w, m, v, w_out, m_out, v_out);
  }
}

MEMPLAN_INLINE ConvWeightGradParams WeightGradOf(const ConvUpdateParams& p) {
  ConvWeightGradParams result = {};
  result.batch = p.batch;
  result.groups = p.groups;
  result.in_channels = p.in_channels;
  result.out_channels = p.out_channels;
  for (int i = 0; i < 3; ++i) {
    result.in_size[i] = p.in_size[i];
    result.out_size[i] = p.out_size[i];
    result.taps[i] = p.taps[i];
    result.stride[i] = p.stride[i];
    result.dilation[i] = p.dilation[i];
    result.padding[i] = p.padding[i];
  }
  result.block_channels = p.block_channels;
  result.x_channels = p.x_channels;
  result.dy_channels = p.dy_channels;
  return result;
}

// Bytes of scratch: those of ConvWeightGrad, and the gradients of one output channel's block.
constexpr int64_t ConvUpdateScratchBytes(int64_t block_channels, int64_t taps, int32_t lanes,
                                         int32_t columns) {
  return ConvWeightGradScratchBytes(block_channels, taps, lanes, columns) +
         block_channels * taps * 4;
}

template <int Lanes, int Rows, int Columns, class Rule>
MEMPLAN_INLINE void ConvWeightUpdate(const ConvUpdateParams& params, const float* w, const float* x,
                                     const float* dy, const float* rate, const int64_t* step,
                                     const float* scale, const float* m, const float* v,
                                     float* scratch, float* w_out, float* m_out, float* v_out) {
  const Rule rule(OptimizerOf(params), *rate, scale, step);
  const ConvWeightGradParams p = WeightGradOf(params);
  float* run =
      scratch + ConvWeightGradScratchBytes(p.block_channels, Volume(p.taps), Lanes, Columns) / 4;
  ForWeightGradRuns<Lanes, Rows, Columns>(
      p, x, dy, scratch, [&](ptrdiff_t at, int32_t rows, const float* gradient) {
        for (int32_t k = 0; k < rows; ++k) run[k] = gradient[k * Lanes * Columns];
        UpdateRange(rule, rows, at, run, w, m, v, w_out, m_out, v_out);
      });
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_FUSED_UPDATES_H_
