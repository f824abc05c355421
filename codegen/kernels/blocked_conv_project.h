// A depthwise convolution and the convolution of one tap that alone reads its result, with or
// without the convolution that alone makes its input (an inverted residual): none of the images
// between them ever exists.
//
// Row by row of the output: of each group of channels, the rows of the first convolution that are
// not there yet go into a ring of as many rows as the window has; the windows give one row of all
// channels; a product with the weights of one tap makes a row of the output of it. Each row is
// computed once. (MobileNetV2's blocks: Sandler et al., arXiv 1801.04381.)
#ifndef MEMPLAN_KERNELS_BLOCKED_CONV_PROJECT_H_
#define MEMPLAN_KERNELS_BLOCKED_CONV_PROJECT_H_

#include "blocked_conv_window.h"

namespace kernels {

// Bytes of the row that the last convolution reads.
constexpr int64_t ProjectRowBytes(const BlockedConvWindowParams& p) {
  return int64_t{ChannelBlocks(p.project_channels)} * kChannelBlock * p.out_size[1] * 4;
}

// Bytes of scratch with a first convolution: the rings of all channels, and a row.
constexpr int64_t ConvProjectScratchBytes(const BlockedConvWindowParams& p) {
  return ConvWindowScratchBytes(p, int64_t{ChannelBlocks(p.project_channels)} * kChannelBlock) +
         ProjectRowBytes(p);
}

// The last convolution as one of a row, into rows of the whole output.
MEMPLAN_INLINE BlockedDirectParams ProjectParams(const BlockedConvWindowParams& p) {
  BlockedDirectParams project = {};
  project.batch = 1;
  project.in_channels = p.project_channels;
  project.in_size[0] = 1;
  project.in_size[1] = p.out_size[1];
  for (int i = 0; i < 2; ++i) {
    project.out_size[i] = p.out_size[i];
    project.taps[i] = 1;
    project.stride[i] = 1;
    project.dilation[i] = 1;
  }
  project.clamps = p.project_clamps;
  project.activation = p.project_activation;
  project.lowest = p.project_lowest;
  project.highest = p.project_highest;
  project.alpha = p.project_alpha;
  project.beta = p.project_beta;
  return project;
}

// What the last convolution works with. y, residual: one image.
struct ProjectOperands {
  const float* weights;
  const float* bias;      // or nullptr
  const float* residual;  // or nullptr
  float* y;
  ActivateFunction activate;
};

// Row qy of the output of one image from the `row` of all channels that `t` reads.
template <int Width, int Vectors, int Pixels>
MEMPLAN_INLINE void ProjectRow(const BlockedConvWindowParams& p, const BlockedDirectParams& project,
                               const ProjectOperands& operands, int32_t qy, DirectTile* t) {
  constexpr int kChannels = Vectors * Width;
  constexpr int kBlocks = kChannels / kChannelBlock;
  const int32_t tiles = SplitDirectRow(p.out_size[1], Pixels).tiles;
  const ptrdiff_t row_at = static_cast<ptrdiff_t>(qy) * p.out_size[1] * kChannelBlock;
  for (int32_t group = 0; group < p.project_blocks / kBlocks; ++group) {
    const ptrdiff_t at = group * kBlocks * t->out_step + row_at;
    t->weights = operands.weights + static_cast<ptrdiff_t>(group) * p.project_channels * kChannels;
    t->bias = operands.bias == nullptr ? nullptr
                                       : operands.bias + static_cast<ptrdiff_t>(group) * kChannels;
    DirectTiles<Width, Vectors, Pixels, kChannelBlock, kDirectPointwise>(
        project, operands.activate, 0, tiles,
        operands.residual == nullptr ? nullptr : operands.residual + at, operands.y + at, t);
  }
}

// y = activation(conv1(activation(depthwise(activation(conv(x, weights) + bias))))) + ...), all
// blocked but for x, as in BlockedConvDepthwise, for all channels in groups of one shape. residual
// (may be y) and both biases may be nullptr. project_weights, project_bias: as BlockedDirect's for
// tiles of PVectors * Width channels and PPixels pixels. scratch: ConvProjectScratchBytes.
template <int Width, int Vectors, int Pixels, int Step, int Kind, int PVectors, int PPixels>
MEMPLAN_SHARED_FUNCTION void BlockedConvDepthwiseConv(
    const BlockedConvWindowParams& p, const float* x, const float* weights, const float* bias,
    const float* constants, const float* project_weights, const float* project_bias,
    const float* residual, float* scratch, float* y) {
  constexpr int kChannels = Vectors * Width;
  constexpr int kBlocks = kChannels / kChannelBlock;
  const ActivateFunction activate = ActivateFunctionOf(p.activation);
  const ActivateFunction activate_window = ActivateFunctionOf(p.window_activation);
  const BlockedDirectParams project = ProjectParams(p);
  DirectTile t = MakeDirectTile<Kind>(ConvRowParams(p));
  DirectTile project_tile = MakeDirectTile<kDirectPointwise>(project);
  const ptrdiff_t ring_floats = kBlocks * t.out_step;
  const ptrdiff_t row_floats = static_cast<ptrdiff_t>(p.out_size[1]) * kChannelBlock;
  const ptrdiff_t group_weights =
      static_cast<ptrdiff_t>(p.in_channels) * p.taps[0] * p.taps[1] * kChannels;
  float* const row = scratch + p.groups * ring_floats;
  project_tile.x = row;
  RingRows rows = {};
  rows.row_floats = static_cast<ptrdiff_t>(p.conv_size[1]) * kChannelBlock;
  rows.size = p.window_taps[0];
  ProjectOperands operands = {project_weights, project_bias, nullptr, y,
                              ActivateFunctionOf(p.project_activation)};
  for (int32_t image = 0; image < p.batch; ++image) {
    t.x = x + image * t.blocks * t.block_step;
    const ptrdiff_t out_at = image * p.project_blocks * project_tile.out_step;
    operands.residual = residual == nullptr ? nullptr : residual + out_at;
    operands.y = y + out_at;
    int32_t done = 0;
    for (int32_t qy = p.row_begin; qy < p.row_end; ++qy) {
      SeeRows(p, qy, &rows);
      for (int32_t group = 0; group < p.groups; ++group) {
        float* const ring = scratch + group * ring_floats;
        t.weights = weights + group * group_weights;
        t.bias = bias == nullptr ? nullptr : bias + static_cast<ptrdiff_t>(group) * kChannels;
        FillRing<Width, Vectors, Pixels, Step, Kind>(p, activate, rows, done, ring, &t);
        for (int b = 0; b < kBlocks; ++b) {
          const int32_t block = group * kBlocks + b;
          rows.ring = ring + b * t.out_step;
          RingRow<VectorLanes(kChannelBlock), RingSum>(
              p, rows, constants + static_cast<ptrdiff_t>(block) * RingSum::ConstantsOf(p),
              row + block * row_floats);
        }
      }
      if (done < rows.last) done = rows.last;
      if (activate_window != nullptr) {
        activate_window(1, static_cast<int32_t>(p.groups * kBlocks * row_floats), 0, p.window_alpha,
                        p.window_beta, row);
      }
      ProjectRow<Width, PVectors, PPixels>(p, project, operands, qy, &project_tile);
    }
  }
}

// The same without the first convolution: x is what the depthwise one reads, of conv_size. scratch:
// ProjectRowBytes.
template <int Width, int PVectors, int PPixels>
MEMPLAN_SHARED_FUNCTION void BlockedDepthwiseConv(const BlockedConvWindowParams& p, const float* x,
                                                  const float* constants,
                                                  const float* project_weights,
                                                  const float* project_bias, const float* residual,
                                                  float* row, float* y) {
  const ActivateFunction activate_window = ActivateFunctionOf(p.window_activation);
  const BlockedDirectParams project = ProjectParams(p);
  DirectTile project_tile = MakeDirectTile<kDirectPointwise>(project);
  project_tile.x = row;
  const int32_t blocks = ChannelBlocks(p.project_channels);
  const ptrdiff_t row_floats = static_cast<ptrdiff_t>(p.out_size[1]) * kChannelBlock;
  RingRows rows = {};
  rows.row_floats = static_cast<ptrdiff_t>(p.conv_size[1]) * kChannelBlock;
  rows.size = p.conv_size[0];
  ProjectOperands operands = {project_weights, project_bias, nullptr, y,
                              ActivateFunctionOf(p.project_activation)};
  for (int32_t image = 0; image < p.batch; ++image) {
    const ptrdiff_t out_at = image * p.project_blocks * project_tile.out_step;
    operands.residual = residual == nullptr ? nullptr : residual + out_at;
    operands.y = y + out_at;
    for (int32_t qy = p.row_begin; qy < p.row_end; ++qy) {
      SeeRows(p, qy, &rows);
      for (int32_t block = 0; block < blocks; ++block) {
        rows.ring =
            x + (static_cast<ptrdiff_t>(image) * blocks + block) * rows.size * rows.row_floats;
        RingRow<VectorLanes(kChannelBlock), RingSum>(
            p, rows, constants + static_cast<ptrdiff_t>(block) * RingSum::ConstantsOf(p),
            row + block * row_floats);
      }
      if (activate_window != nullptr) {
        activate_window(1, static_cast<int32_t>(blocks * row_floats), 0, p.window_alpha,
                        p.window_beta, row);
      }
      ProjectRow<Width, PVectors, PPixels>(p, project, operands, qy, &project_tile);
    }
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_BLOCKED_CONV_PROJECT_H_
