// Inverses of pooling and of im2col.
#ifndef MEMPLAN_KERNELS_UNPOOL_H_
#define MEMPLAN_KERNELS_UNPOOL_H_

#include "base.h"
#include "element.h"

namespace kernels {

struct MaxUnpoolParams {
  int32_t inputs;            // elements of x and of the indices
  int32_t outputs;           // elements of y
  int32_t image_elements;    // elements of one channel of the image that the indices speak of
  int32_t plane_elements;    // elements of one channel of y
  int32_t image[3];          // dimensions of that image, right-aligned
  int32_t plane_strides[3];  // strides of y by these dimensions
};
MEMPLAN_FIELDS(MaxUnpoolParams, inputs, outputs, image_elements, plane_elements, image,
               plane_strides);

// y = 0 but for x[i], which lies where indices[i] says. Indices count over the whole tensor of
// images, which may be smaller than y's planes: they then fill their leading corner.
template <class T>
MEMPLAN_KERNEL void MaxUnpool(const MaxUnpoolParams& p, const T* x, const int64_t* indices, T* y) {
  typedef T __attribute__((__may_alias__)) Bits;
  const Bits* from = x;
  Bits* to = y;
  for (int32_t i = 0; i < p.outputs; ++i) to[i] = T(0);
  for (int32_t i = 0; i < p.inputs; ++i) {
    if (indices[i] < 0 || indices[i] > INT32_MAX) continue;
    const int32_t index = static_cast<int32_t>(indices[i]);
    const int32_t plane = index / p.image_elements;
    int32_t rest = index % p.image_elements;
    int32_t offset = 0;
    for (int a = 2; a >= 0; --a) {
      offset += rest % p.image[a] * p.plane_strides[a];
      rest /= p.image[a];
    }
    if (plane < p.outputs / p.plane_elements) to[plane * p.plane_elements + offset] = from[i];
  }
}

// The gradients of x, which are read where MaxUnpool writes its elements.
template <class T>
MEMPLAN_KERNEL void MaxUnpoolGrad(const MaxUnpoolParams& p, const T* dy, const int64_t* indices,
                                  T* dx) {
  for (int32_t i = 0; i < p.inputs; ++i) {
    dx[i] = T(0);
    if (indices[i] < 0 || indices[i] > INT32_MAX) continue;
    const int32_t index = static_cast<int32_t>(indices[i]);
    const int32_t plane = index / p.image_elements;
    int32_t rest = index % p.image_elements;
    int32_t offset = 0;
    for (int a = 2; a >= 0; --a) {
      offset += rest % p.image[a] * p.plane_strides[a];
      rest /= p.image[a];
    }
    if (plane < p.outputs / p.plane_elements) dx[i] = dy[plane * p.plane_elements + offset];
  }
}

// Up to three dimensions, right-aligned; unused ones are 1 with stride and dilation 1, pad 0.
struct Col2ImParams {
  int32_t planes;  // batch x channels
  int32_t image[3];
  int32_t block[3];
  int32_t positions[3];  // of the block over the padded image
  int32_t strides[3];
  int32_t dilations[3];
  int32_t pads[3];  // in front
};
MEMPLAN_FIELDS(Col2ImParams, planes, image, block, positions, strides, dilations, pads);

// The pixel of cell `cell` of the block at position `position`; -1 in the padding.
inline int32_t Col2ImPixel(const Col2ImParams& p, int32_t cell, int32_t position) {
  int32_t stride = 1;
  int32_t offset = 0;
  bool inside = true;
  for (int a = 2; a >= 0; --a) {
    const int32_t at =
        position % p.positions[a] * p.strides[a] + cell % p.block[a] * p.dilations[a] - p.pads[a];
    inside = inside && at >= 0 && at < p.image[a];
    offset += at * stride;
    stride *= p.image[a];
    position /= p.positions[a];
    cell /= p.block[a];
  }
  return inside ? offset : -1;
}

// x: planes x block elements x positions; y: planes x image. Each element is added where its
// column came from.
template <class T>
MEMPLAN_KERNEL void Col2Im(const Col2ImParams& p, const T* x, T* y) {
  const int32_t pixels = p.image[0] * p.image[1] * p.image[2];
  const int32_t cells = p.block[0] * p.block[1] * p.block[2];
  const int32_t columns = p.positions[0] * p.positions[1] * p.positions[2];
  for (int32_t n = 0; n < p.planes; ++n) {
    for (int32_t i = 0; i < pixels; ++i) y[i] = static_cast<T>(0);
    for (int32_t b = 0; b < cells; ++b) {
      for (int32_t c = 0; c < columns; ++c) {
        const int32_t pixel = Col2ImPixel(p, b, c);
        if (pixel >= 0) y[pixel] = WrapAdd(y[pixel], *x);
        ++x;
      }
    }
    y += pixels;
  }
}

// The columns of an image, its adjoint: dx has the shape of x, dy that of y.
template <class T>
MEMPLAN_KERNEL void Im2Col(const Col2ImParams& p, const T* dy, T* dx) {
  const int32_t pixels = p.image[0] * p.image[1] * p.image[2];
  const int32_t cells = p.block[0] * p.block[1] * p.block[2];
  const int32_t columns = p.positions[0] * p.positions[1] * p.positions[2];
  for (int32_t n = 0; n < p.planes; ++n) {
    for (int32_t b = 0; b < cells; ++b) {
      for (int32_t c = 0; c < columns; ++c) {
        const int32_t pixel = Col2ImPixel(p, b, c);
        *dx++ = pixel >= 0 ? dy[pixel] : T(0);
      }
    }
    dy += pixels;
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_UNPOOL_H_
