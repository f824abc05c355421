// The gradient of a convolution with respect to its weights, as implicit matrix products, as dot
// products, and the plain loops that both are tested against.
//
// dw[m][c][tap] is the sum over images and pixels of dy[m][pixel] * x[c][what the tap sees there].
// As a matrix product its depth is the pixels. It is made in blocks of (input channels and their
// taps) x (output channels): a tile of pixels of x is packed as for a convolution, [channels *
// taps][pixels], that of dy transposed, [pixels][output channels], and their product is added to
// the block. Only when a block is complete it is written as weights are laid out, so that whoever
// wants to do something else with a weight's gradient than to store it finds it there.
#ifndef MEMPLAN_KERNELS_CONV_GRADIENT_H_
#define MEMPLAN_KERNELS_CONV_GRADIENT_H_

#include "conv.h"
#include "gemm_tile.h"
#include "transpose_four.h"

namespace kernels {

// Arrays are depth, height, width; missing axes have size 1, stride 1, one tap. Output element q
// and tap t saw input element q * stride + t * dilation - padding.
struct ConvWeightGradParams {
  int32_t batch;
  int32_t groups;
  int32_t in_channels;   // of one group
  int32_t out_channels;  // of one group
  int32_t in_size[3];
  int32_t out_size[3];
  int32_t taps[3];
  int32_t stride[3];
  int32_t dilation[3];
  int32_t padding[3];
  int32_t block_channels;  // input channels of a block
  int32_t x_channels;   // of an image of x and of dy: those of all groups, and maybe of others that
  int32_t dy_channels;  // another call computes
};
MEMPLAN_FIELDS(ConvWeightGradParams, batch, groups, in_channels, out_channels, in_size, out_size,
               taps, stride, dilation, padding, block_channels, x_channels, dy_channels);

// Pixels in a panel.
constexpr int32_t WeightGradPixels(int32_t lanes) { return 4 * lanes; }

// Bytes of scratch: the two panels and a block.
constexpr int64_t ConvWeightGradScratchBytes(int64_t block_channels, int64_t taps, int32_t lanes,
                                             int32_t columns) {
  const int64_t rows = block_channels * taps;
  const int64_t width = static_cast<int64_t>(lanes) * columns;
  const int64_t pixels = WeightGradPixels(lanes);
  return (rows * pixels + width * pixels + rows * width) * 4;
}

// A block: input channels [channel, channel + channels) of a group, output channels [first, first +
// count) of it.
struct WeightGradBlock {
  int32_t group;
  int32_t channel;
  int32_t channels;
  int32_t first;
  int32_t count;
};

// to[i][j] = dy[j][i] for i < pixels, j < count.
template <int Lanes, int Width>
MEMPLAN_INLINE void TransposePanel(const float* dy, ptrdiff_t row_stride, int32_t pixels,
                                   int32_t count, float* to) {
  int32_t j = 0;
  if constexpr (VectorLanes(Lanes) > 1) {
    for (; j + 4 <= count; j += 4, dy += 4 * row_stride) {
      const int32_t whole = pixels / 4 * 4;
      for (int32_t i = 0; i < whole; i += 4) {
        TransposeFour(dy + i, row_stride, to + i * Width + j, Width);
      }
      for (int32_t i = whole; i < pixels; ++i) {
        for (int k = 0; k < 4; ++k) to[i * Width + j + k] = dy[k * row_stride + i];
      }
    }
  }
  for (; j < count; ++j, dy += row_stride) {
    for (int32_t i = 0; i < pixels; ++i) to[i * Width + j] = dy[i];
  }
}

MEMPLAN_INLINE PanelShape WeightGradPanelShape(const ConvWeightGradParams& p) {
  PanelShape shape = {};
  for (int i = 0; i < 3; ++i) {
    shape.axis[i] = {p.in_size[i], p.out_size[i], p.taps[i],
                     p.stride[i],  -p.padding[i], p.dilation[i]};
  }
  return shape;
}

// Whether x needs no packing: its rows are what the only tap sees.
MEMPLAN_INLINE bool SeesInputItself(const ConvWeightGradParams& p) {
  bool itself = true;
  for (int i = 0; i < 3; ++i) {
    itself = itself && p.taps[i] == 1 && p.stride[i] == 1 && p.padding[i] == 0 &&
             p.in_size[i] == p.out_size[i];
  }
  return itself;
}

// sums[(channel, tap)][Lanes * Columns output channels] = the gradient of a block.
template <int Lanes, int Rows, int Columns>
MEMPLAN_SHARED_FUNCTION void ConvWeightGradBlock(const ConvWeightGradParams& p,
                                                 const WeightGradBlock& block, const float* x,
                                                 const float* dy, float* panel, float* dy_panel,
                                                 float* sums) {
  constexpr int kWidth = Lanes * Columns;
  constexpr int kPixels = WeightGradPixels(Lanes);
  const int32_t rows = block.channels * Volume(p.taps);
  const int32_t pixels = Volume(p.out_size);
  const ptrdiff_t in_volume = Volume(p.in_size);
  const PanelShape shape = WeightGradPanelShape(p);
  const bool direct = SeesInputItself(p);
  for (int32_t i = 0; i < rows * kWidth; ++i) sums[i] = 0;
  // Output channels that fill up the last vector.
  for (int32_t i = 0; i < kPixels * kWidth; ++i) dy_panel[i] = 0;
  const ptrdiff_t last_image = static_cast<ptrdiff_t>(p.batch - 1) * p.x_channels;
  const ptrdiff_t group_channel =
      static_cast<ptrdiff_t>(block.group) * p.in_channels + block.channel;
  PanelSource source = {x, 0, (last_image + p.groups * p.in_channels) * in_volume, block.channels};
  TileArgs t = {};
  t.a_row_stride = direct ? static_cast<int32_t>(in_volume) : kPixels;
  t.a_depth_stride = 1;
  t.b_depth_stride = kWidth;
  t.b = dy_panel;
  t.c_row_stride = kWidth;
  t.c = sums;
  t.residual = sums;
  t.column_end = (block.count + Lanes - 1) / Lanes * Lanes;
  t.alpha = 1;
  t.beta = 1;
  for (int32_t image = 0; image < p.batch; ++image) {
    const ptrdiff_t dy_channel =
        static_cast<ptrdiff_t>(image) * p.dy_channels + block.group * p.out_channels + block.first;
    const float* image_dy = dy + dy_channel * pixels;
    source.at = (static_cast<ptrdiff_t>(image) * p.x_channels + group_channel) * in_volume;
    for (int32_t pixel = 0; pixel < pixels; pixel += kPixels) {
      t.depth = pixels - pixel < kPixels ? pixels - pixel : kPixels;
      TransposePanel<Lanes, kWidth>(image_dy + pixel, pixels, t.depth, block.count, dy_panel);
      t.a = panel;
      if (direct) {
        t.a = x + source.at + pixel;
      } else {
        PackPanel<Lanes, kPixels>(shape, source, pixel, t.depth, panel);
      }
      GemmPanel<Lanes, Rows, Columns, false>(rows, 0, t);
    }
  }
}

// Calls use(at, rows, gradient) for each run of `rows` weights that lie together, from element `at`
// of the weights on: the gradient of the k-th is gradient[k * Lanes * Columns]. All weights once.
// x: [batch][x_channels][in_size]; dy: [batch][dy_channels][out_size]. A block
// has at least Rows rows. scratch: ConvWeightGradScratchBytes.
template <int Lanes, int Rows, int Columns, class Use>
MEMPLAN_INLINE void ForWeightGradRuns(const ConvWeightGradParams& p, const float* x,
                                      const float* dy, float* scratch, Use use) {
  constexpr int kWidth = Lanes * Columns;
  constexpr int kPixels = WeightGradPixels(Lanes);
  const int32_t taps = Volume(p.taps);
  const ptrdiff_t row_elements = static_cast<ptrdiff_t>(p.in_channels) * taps;
  float* dy_panel = scratch + static_cast<ptrdiff_t>(p.block_channels) * taps * kPixels;
  float* sums = dy_panel + kWidth * kPixels;
  WeightGradBlock block = {};
  for (block.group = 0; block.group < p.groups; ++block.group) {
    for (block.first = 0; block.first < p.out_channels; block.first += kWidth) {
      const int32_t left = p.out_channels - block.first;
      block.count = left < kWidth ? left : kWidth;
      for (block.channel = 0; block.channel < p.in_channels; block.channel += p.block_channels) {
        const int32_t channels_left = p.in_channels - block.channel;
        block.channels = channels_left < p.block_channels ? channels_left : p.block_channels;
        ConvWeightGradBlock<Lanes, Rows, Columns>(p, block, x, dy, scratch, dy_panel, sums);
        ptrdiff_t at =
            (static_cast<ptrdiff_t>(block.group) * p.out_channels + block.first) * row_elements +
            static_cast<ptrdiff_t>(block.channel) * taps;
        for (int32_t j = 0; j < block.count; ++j, at += row_elements) {
          use(at, block.channels * taps, static_cast<const float*>(sums + j));
        }
      }
    }
  }
}

// dw: [groups * out_channels][in_channels][taps]. The rest: see ForWeightGradRuns.
template <int Lanes, int Rows, int Columns>
MEMPLAN_INLINE void ConvWeightGrad(const ConvWeightGradParams& p, const float* x, const float* dy,
                                   float* scratch, float* dw) {
  ForWeightGradRuns<Lanes, Rows, Columns>(p, x, dy, scratch,
                                          [dw](ptrdiff_t at, int32_t rows, const float* gradient) {
                                            for (int32_t k = 0; k < rows; ++k)
                                              dw[at + k] = gradient[k * Lanes * Columns];
                                          });
}

// The sum of x[i * stride] * dy[i] for i in [low, high), added to `sums` (whole vectors) and the
// result (the rest).
template <int Width>
MEMPLAN_INLINE float DotRun(const float* x, int32_t stride, const float* dy, int32_t low,
                            int32_t high, float* sums) {
  int32_t i = low;
  if constexpr (Width > 1) {
    using V = typename Vector<Width>::Type;
    using InArray = typename Vector<Width>::InArray;
    V sum = *reinterpret_cast<const InArray*>(sums);
    for (; stride == 1 && i + Width <= high; i += Width) {
      sum += *reinterpret_cast<const InArray*>(x + i) * *reinterpret_cast<const InArray*>(dy + i);
    }
    if constexpr (kHasShuffles) {
      // Not up to the last element: the vectors also read what follows each element.
      for (; stride == 2 && i + Width < high; i += Width) {
        float even[Width];
        EvenLanes<Width>::Copy(x + static_cast<ptrdiff_t>(i) * 2, even);
        sum += *reinterpret_cast<const InArray*>(even) * *reinterpret_cast<const InArray*>(dy + i);
      }
    }
    *reinterpret_cast<InArray*>(sums) = sum;
  }
  float rest = 0;
  for (; i < high; ++i) rest += x[static_cast<ptrdiff_t>(i) * stride] * dy[i];
  return rest;
}

// The gradient of one weight from one image: planes x and dy, tap (tz, ty, tx).
template <int Width>
MEMPLAN_SHARED_FUNCTION float DotPlanes(const ConvWeightGradParams& p, const float* x,
                                        const float* dy, int32_t tz, int32_t ty, int32_t tx) {
  float sums[Width] = {};
  float result = 0;
  const int32_t start = tx * p.dilation[2] - p.padding[2];
  int32_t low;
  int32_t high;
  InsideRange(start, p.stride[2], p.in_size[2], p.out_size[2], &low, &high);
  if (low >= high) return 0;
  for (int32_t qz = 0; qz < p.out_size[0]; ++qz) {
    const int32_t iz = qz * p.stride[0] + tz * p.dilation[0] - p.padding[0];
    if (iz < 0 || iz >= p.in_size[0]) continue;
    for (int32_t qy = 0; qy < p.out_size[1]; ++qy) {
      const int32_t iy = qy * p.stride[1] + ty * p.dilation[1] - p.padding[1];
      if (iy < 0 || iy >= p.in_size[1]) continue;
      // Both from their first place: start may lie before the row.
      const float* row = x + (static_cast<ptrdiff_t>(iz) * p.in_size[1] + iy) * p.in_size[2] +
                         (start + low * p.stride[2]);
      const float* dy_row =
          dy + (static_cast<ptrdiff_t>(qz) * p.out_size[1] + qy) * p.out_size[2] + low;
      result += DotRun<Width>(row, p.stride[2], dy_row, 0, high - low, sums);
    }
  }
  if (Width > 1) {
    for (int i = 0; i < Width; ++i) result += sums[i];
  }
  return result;
}

// ConvWeightGrad for groups of few output channels (depthwise), without scratch.
template <int Lanes>
MEMPLAN_KERNEL void ConvWeightGradDot(const ConvWeightGradParams& p, const float* x,
                                      const float* dy, float* dw) {
  const ptrdiff_t in_volume = Volume(p.in_size);
  const ptrdiff_t out_volume = Volume(p.out_size);
  for (int32_t m = 0; m < p.groups * p.out_channels; ++m) {
    const int32_t first = m / p.out_channels * p.in_channels;
    for (int32_t c = 0; c < p.in_channels; ++c) {
      for (int32_t tap = 0; tap < Volume(p.taps); ++tap) {
        float sum = 0;
        for (int32_t image = 0; image < p.batch; ++image) {
          const ptrdiff_t x_plane = static_cast<ptrdiff_t>(image) * p.x_channels + first + c;
          const ptrdiff_t dy_plane = static_cast<ptrdiff_t>(image) * p.dy_channels + m;
          sum += DotPlanes<VectorLanes(Lanes)>(
              p, x + x_plane * in_volume, dy + dy_plane * out_volume, tap / p.taps[2] / p.taps[1],
              tap / p.taps[2] % p.taps[1], tap % p.taps[2]);
        }
        *dw++ = sum;
      }
    }
  }
}

// The gradient as its definition says it, for any floating-point type.
template <class T>
MEMPLAN_KERNEL void ConvWeightGradPlain(const ConvWeightGradParams& p, const T* x, const T* dy,
                                        T* dw) {
  const ptrdiff_t in_volume = Volume(p.in_size);
  const ptrdiff_t out_volume = Volume(p.out_size);
  const int32_t taps = Volume(p.taps);
  for (int32_t m = 0; m < p.groups * p.out_channels; ++m) {
    const int32_t first = m / p.out_channels * p.in_channels;
    for (int32_t k = 0; k < p.in_channels * taps; ++k) {
      const int32_t tap = k % taps;
      const int32_t at[3] = {tap / p.taps[2] / p.taps[1], tap / p.taps[2] % p.taps[1],
                             tap % p.taps[2]};
      T sum = T(0);
      for (int32_t image = 0; image < p.batch; ++image) {
        const T* in =
            x + (static_cast<ptrdiff_t>(image) * p.x_channels + first + k / taps) * in_volume;
        const T* out = dy + (static_cast<ptrdiff_t>(image) * p.dy_channels + m) * out_volume;
        for (int32_t pixel = 0; pixel < out_volume; ++pixel) {
          const int32_t q[3] = {pixel / p.out_size[2] / p.out_size[1],
                                pixel / p.out_size[2] % p.out_size[1], pixel % p.out_size[2]};
          ptrdiff_t offset = 0;
          bool inside = true;
          for (int i = 0; i < 3; ++i) {
            const int32_t in_at = q[i] * p.stride[i] + at[i] * p.dilation[i] - p.padding[i];
            inside = inside && in_at >= 0 && in_at < p.in_size[i];
            offset = offset * p.in_size[i] + in_at;
          }
          if (inside) sum += in[offset] * out[pixel];
        }
      }
      *dw++ = sum;
    }
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_CONV_GRADIENT_H_
