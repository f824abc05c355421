// Recurrent layers: RNN, GRU, LSTM, step by step and one sequence of the batch after the other.
// Gates and states are worked on in vectors; how a matrix is multiplied is a type, Product:
//   AddTo(rows, depth, x, w, y): y[row] += the inner product of x and row `row` of w
//   Elements(rows, depth): of w
#ifndef MEMPLAN_KERNELS_RECURRENT_H_
#define MEMPLAN_KERNELS_RECURRENT_H_

#include "activation.h"
#include "base.h"
#include "lane_math.h"
#include "lanes.h"
#include "vector.h"

namespace kernels {

constexpr int32_t kActSigmoid = 0;
constexpr int32_t kActTanh = 1;
constexpr int32_t kActRelu = 2;
constexpr int32_t kActLeakyRelu = 3;
constexpr int32_t kActThresholdedRelu = 4;
constexpr int32_t kActHardSigmoid = 5;
constexpr int32_t kActElu = 6;
constexpr int32_t kActSoftsign = 7;
constexpr int32_t kActSoftplus = 8;
constexpr int32_t kActScaledTanh = 9;
constexpr int32_t kActAffine = 10;

// Strides in elements. States (h, c) are indexed by direction and batch, Y by time too.
struct RecurrentParams {
  float clip;  // gates are clamped to [-clip, clip] before their activation; 0: they are not
  int32_t steps;
  int32_t batch;
  int32_t input;   // features of x
  int32_t hidden;  // features of the states
  int32_t directions;
  int32_t reverse;              // 1: the only direction runs backwards; of two, the second does
  int32_t linear_before_reset;  // GRU
  int32_t input_forget;         // LSTM: the forget gate is 1 - the input gate
  int32_t x_time;
  int32_t x_batch;
  int32_t y_time;
  int32_t y_batch;
  int32_t y_direction;
  int32_t h_batch;
  int32_t h_direction;
  int32_t activations[6];  // f, g, h of each direction
  float alphas[6];
  float betas[6];
};
MEMPLAN_FIELDS(RecurrentParams, clip, steps, batch, input, hidden, directions, reverse,
               linear_before_reset, input_forget, x_time, x_batch, y_time, y_batch, y_direction,
               h_batch, h_direction, activations, alphas, betas);

// Working memory in elements: the states of one sequence, and its gates with one more vector.
constexpr int32_t RnnScratch(int32_t hidden) { return 2 * hidden; }
constexpr int32_t GruScratch(int32_t hidden) { return 5 * hidden; }
constexpr int32_t LstmScratch(int32_t hidden) { return 6 * hidden; }

// Activation `which` (0: f, 1: g, 2: h) of direction d, of an element or a vector.
template <class V>
MEMPLAN_INLINE V RecurrentActivation(const RecurrentParams& p, int32_t d, int32_t which, V x) {
  const int32_t at = 3 * d + which;
  const float alpha = p.alphas[at];
  const float beta = p.betas[at];
  switch (p.activations[at]) {
    case kActSigmoid:
      return Sigmoid::Apply(x, alpha, beta);
    case kActTanh:
      return Tanh::Apply(x, alpha, beta);
    case kActRelu:
      return Relu::Apply(x, alpha, beta);
    case kActLeakyRelu:
      return LeakyRelu::Apply(x, alpha, beta);
    case kActThresholdedRelu:
      return ThresholdedRelu::Apply(x, alpha, beta);
    case kActHardSigmoid:
      return HardSigmoid::Apply(x, alpha, beta);
    case kActElu:
      return Elu::Apply(x, alpha, beta);
    case kActSoftsign:
      return Softsign::Apply(x, alpha, beta);
    case kActSoftplus:
      return Softplus::Apply(x, alpha, beta);
    case kActScaledTanh:
      return Splat<V>(alpha) * TanhOf(Splat<V>(beta) * x);
    case kActAffine:
    default:
      return Splat<V>(alpha) * x + Splat<V>(beta);
  }
}

template <class V>
MEMPLAN_INLINE V ClipGate(const RecurrentParams& p, V x) {
  return p.clip == 0.0F ? x : Clip::Apply(x, -p.clip, p.clip);
}

// Rows of w as ONNX has them, w[row][k].
struct RowProduct {
  static constexpr int64_t Elements(int64_t rows, int64_t depth) { return rows * depth; }

  // In eight partial sums.
  template <class T>
  static inline T Dot(const T* a, const T* b, int32_t n) {
    T lanes[8] = {};
    int32_t i = 0;
    for (; i + 8 <= n; i += 8) {
      for (int32_t k = 0; k < 8; ++k) lanes[k] += a[i + k] * b[i + k];
    }
    for (; i < n; ++i) lanes[0] += a[i] * b[i];
    return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) +
           ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
  }

  template <class T>
  static inline void AddTo(int32_t rows, int32_t depth, const T* x, const T* w, T* y) {
    for (int32_t row = 0; row < rows; ++row) {
      y[row] += Dot(x, w + static_cast<ptrdiff_t>(row) * depth, depth);
    }
  }
};

// Panels of at most kPanelVectors * Lanes rows, w[panel][k][row], whose sums stay in registers
// while k runs. The last vector of rows is filled up.
template <int Lanes>
struct PanelProduct {
  static constexpr int kPanelVectors = 8;
  static constexpr int kWidth = VectorLanes(Lanes);
  using V = typename Vector<kWidth>::Type;
  using InArray = typename Vector<kWidth>::InArray;

  static constexpr int64_t Elements(int64_t rows, int64_t depth) {
    return (rows + Lanes - 1) / Lanes * Lanes * depth;
  }

  // Rows of the panel that begins where `left` rows are left, filled up to vectors.
  static constexpr int64_t PanelRows(int64_t left) {
    int64_t vectors = kPanelVectors;
    while (vectors > 1 && vectors * Lanes > left) vectors /= 2;
    return vectors * Lanes;
  }

  // One panel; the first `count` of its rows are added.
  template <int Vectors>
  static inline __attribute__((always_inline)) void AddPanel(int32_t count, int32_t depth,
                                                             const float* x, const float* w,
                                                             float* y) {
    constexpr int kRows = Vectors * Lanes;
    constexpr int kParts = kRows / kWidth;
    // Chains of additions in flight, for the few vectors of a narrow panel.
    constexpr int kChains = kParts >= 8 ? 1 : kParts >= 4 ? 2 : 4;
    V sums[kChains][kParts];
#pragma GCC unroll 4
    for (int s = 0; s < kChains; ++s) {
#pragma GCC unroll 16
      for (int v = 0; v < kParts; ++v) sums[s][v] = V{};
    }
    int32_t k = 0;
    for (; k + kChains <= depth; k += kChains) {
#pragma GCC unroll 4
      for (int s = 0; s < kChains; ++s, w += kRows) {
#pragma GCC unroll 16
        for (int v = 0; v < kParts; ++v) {
          sums[s][v] += x[k + s] * *reinterpret_cast<const InArray*>(w + v * kWidth);
        }
      }
    }
    for (; k < depth; ++k, w += kRows) {
#pragma GCC unroll 16
      for (int v = 0; v < kParts; ++v) {
        sums[0][v] += x[k] * *reinterpret_cast<const InArray*>(w + v * kWidth);
      }
    }
#pragma GCC unroll 4
    for (int s = 1; s < kChains; ++s) {
#pragma GCC unroll 16
      for (int v = 0; v < kParts; ++v) sums[0][v] += sums[s][v];
    }
    if (count == kRows) {
#pragma GCC unroll 16
      for (int v = 0; v < kParts; ++v) *reinterpret_cast<InArray*>(y + v * kWidth) += sums[0][v];
      return;
    }
    float part[kRows];
#pragma GCC unroll 16
    for (int v = 0; v < kParts; ++v) *reinterpret_cast<InArray*>(part + v * kWidth) = sums[0][v];
    for (int32_t i = 0; i < count; ++i) y[i] += part[i];
  }

  static inline void AddTo(int32_t rows, int32_t depth, const float* x, const float* w, float* y) {
    for (int32_t row = 0; row < rows;) {
      const int32_t left = rows - row;
      const int32_t panel = static_cast<int32_t>(PanelRows(left));
      const float* from = w + static_cast<ptrdiff_t>(row) * depth;
      if (panel == 8 * Lanes) {
        AddPanel<8>(panel, depth, x, from, y + row);
      } else if (panel == 4 * Lanes) {
        AddPanel<4>(panel, depth, x, from, y + row);
      } else if (panel == 2 * Lanes) {
        AddPanel<2>(panel, depth, x, from, y + row);
      } else {
        AddPanel<1>(left < Lanes ? left : Lanes, depth, x, from, y + row);
      }
      row += panel;
    }
  }
};

// to = bias; zeros where there is none.
template <class T>
inline void StartGates(int32_t count, const T* bias, T* to) {
  for (int32_t i = 0; i < count; ++i) to[i] = bias == nullptr ? T(0) : bias[i];
}

// to += bias, if there is one.
template <class T>
inline void AddBias(int32_t count, const T* bias, T* to) {
  if (bias == nullptr) return;
  for (int32_t i = 0; i < count; ++i) to[i] += bias[i];
}

// Steps that sequence `n` of the batch really has.
inline int32_t SequenceLength(const RecurrentParams& p, const int32_t* lengths, int32_t n) {
  if (lengths == nullptr || lengths[n] > p.steps) return p.steps;
  return lengths[n] < 0 ? 0 : lengths[n];
}

template <class T>
inline void LoadState(const RecurrentParams& p, const T* from, int32_t d, int32_t n, T* state) {
  const int32_t at = d * p.h_direction + n * p.h_batch;
  for (int32_t i = 0; i < p.hidden; ++i) state[i] = from == nullptr ? T(0) : from[at + i];
}

template <class T>
inline void StoreState(const RecurrentParams& p, const T* state, int32_t d, int32_t n, T* to) {
  if (to == nullptr) return;
  const int32_t at = d * p.h_direction + n * p.h_batch;
  for (int32_t i = 0; i < p.hidden; ++i) to[at + i] = state[i];
}

// Writes step `t` of Y; null state: zeros, behind the end of a sequence.
template <class T>
inline void StoreStep(const RecurrentParams& p, const T* state, int32_t d, int32_t n, int32_t t,
                      T* y) {
  if (y == nullptr) return;
  T* to = y + d * p.y_direction + n * p.y_batch + t * p.y_time;
  for (int32_t i = 0; i < p.hidden; ++i) to[i] = state == nullptr ? T(0) : state[i];
}

// Runs step(d, x_t, h) over every sequence in every direction, with h as its state.
template <class T, class Step>
inline void RunSequence(const RecurrentParams& p, const T* x, const int32_t* lengths, int32_t d,
                        int32_t n, T* h, T* y, Step step) {
  const int32_t length = SequenceLength(p, lengths, n);
  const bool backwards = p.reverse != 0 || d == 1;
  for (int32_t i = 0; i < length; ++i) {
    const int32_t t = backwards ? length - 1 - i : i;
    step(x + t * p.x_time + n * p.x_batch);
    StoreStep(p, h, d, n, t, y);
  }
  for (int32_t t = length; t < p.steps; ++t) StoreStep<T>(p, nullptr, d, n, t, y);
}

// w: directions x hidden x input, r: directions x hidden x hidden, b: directions x 2 hidden.
// b, lengths, h0, y and y_h may be null. scratch: RnnScratch elements. Here and below each matrix
// of w and r is in Product's order.
template <class T, class Product>
MEMPLAN_KERNEL void Rnn(const RecurrentParams& p, const T* x, const T* w, const T* r, const T* b,
                        const int32_t* lengths, const T* h0, T* y, T* y_h, T* scratch) {
  const int32_t size = p.hidden;
  T* h = scratch;
  T* gates = scratch + size;
  for (int32_t d = 0; d < p.directions; ++d) {
    const T* wd = w + d * Product::Elements(size, p.input);
    const T* rd = r + d * Product::Elements(size, size);
    const T* bd = b == nullptr ? nullptr : b + d * 2 * size;
    for (int32_t n = 0; n < p.batch; ++n) {
      LoadState(p, h0, d, n, h);
      RunSequence(p, x, lengths, d, n, h, y, [&](const T* xt) {
        StartGates(size, bd, gates);
        AddBias(size, bd == nullptr ? bd : bd + size, gates);
        Product::AddTo(size, p.input, xt, wd, gates);
        Product::AddTo(size, size, h, rd, gates);
        ForLanes<T>(size, [&](auto zero, int32_t i) {
          using V = decltype(zero);
          Store(RecurrentActivation(p, d, 0, ClipGate(p, Load<V>(gates + i))), h + i);
        });
      });
      StoreState(p, h, d, n, y_h);
    }
  }
}

// Gates z, r, h. w: directions x 3 hidden x input, r: directions x (2 hidden x hidden, then hidden
// x hidden), b: directions x 6 hidden. b, lengths, h0, y and y_h may be null. scratch: GruScratch
// elements.
template <class T, class Product>
MEMPLAN_KERNEL void Gru(const RecurrentParams& p, const T* x, const T* w, const T* r, const T* b,
                        const int32_t* lengths, const T* h0, T* y, T* y_h, T* scratch) {
  const int32_t size = p.hidden;
  T* h = scratch;
  T* gates = scratch + size;
  T* reset = scratch + 4 * size;
  T* candidate = gates + 2 * size;
  for (int32_t d = 0; d < p.directions; ++d) {
    const T* wd = w + d * Product::Elements(3 * size, p.input);
    const T* rd = r + d * (Product::Elements(2 * size, size) + Product::Elements(size, size));
    const T* candidate_r = rd + Product::Elements(2 * size, size);
    const T* bd = b == nullptr ? nullptr : b + d * 6 * size;
    const T* hidden_bias = bd == nullptr ? nullptr : bd + 3 * size;
    const T* candidate_bias = bd == nullptr ? nullptr : bd + 5 * size;
    for (int32_t n = 0; n < p.batch; ++n) {
      LoadState(p, h0, d, n, h);
      RunSequence(p, x, lengths, d, n, h, y, [&](const T* xt) {
        StartGates(3 * size, bd, gates);
        AddBias(2 * size, hidden_bias, gates);
        Product::AddTo(3 * size, p.input, xt, wd, gates);
        Product::AddTo(2 * size, size, h, rd, gates);
        ForLanes<T>(2 * size, [&](auto zero, int32_t i) {
          using V = decltype(zero);
          Store(RecurrentActivation(p, d, 0, ClipGate(p, Load<V>(gates + i))), gates + i);
        });
        if (p.linear_before_reset != 0) {
          StartGates(size, candidate_bias, reset);
          Product::AddTo(size, size, h, candidate_r, reset);
          for (int32_t i = 0; i < size; ++i) candidate[i] += gates[size + i] * reset[i];
        } else {
          for (int32_t i = 0; i < size; ++i) reset[i] = gates[size + i] * h[i];
          AddBias(size, candidate_bias, candidate);
          Product::AddTo(size, size, reset, candidate_r, candidate);
        }
        ForLanes<T>(size, [&](auto zero, int32_t i) {
          using V = decltype(zero);
          const V update = Load<V>(gates + i);
          const V fresh = RecurrentActivation(p, d, 1, ClipGate(p, Load<V>(candidate + i)));
          Store((Splat<V>(1) - update) * fresh + update * Load<V>(h + i), h + i);
        });
      });
      StoreState(p, h, d, n, y_h);
    }
  }
}

// One step of the states h and c of an LSTM from its gates. pd: peepholes or nullptr.
template <class T>
MEMPLAN_INLINE void LstmStep(const RecurrentParams& p, int32_t d, const T* gates, const T* pd, T* h,
                             T* c) {
  const int32_t size = p.hidden;
  ForLanes<T>(size, [&](auto zero, int32_t i) {
    using V = decltype(zero);
    const V old = Load<V>(c + i);
    V in = Load<V>(gates + i);
    V out = Load<V>(gates + size + i);
    V forget = Load<V>(gates + 2 * size + i);
    if (pd != nullptr) in += Load<V>(pd + i) * old;
    if (pd != nullptr) forget += Load<V>(pd + 2 * size + i) * old;
    in = RecurrentActivation(p, d, 0, ClipGate(p, in));
    forget =
        p.input_forget != 0 ? Splat<V>(1) - in : RecurrentActivation(p, d, 0, ClipGate(p, forget));
    const V fresh = RecurrentActivation(p, d, 1, ClipGate(p, Load<V>(gates + 3 * size + i)));
    const V cell = forget * old + in * fresh;
    if (pd != nullptr) out += Load<V>(pd + size + i) * cell;
    out = RecurrentActivation(p, d, 0, ClipGate(p, out));
    Store(cell, c + i);
    Store(out * RecurrentActivation(p, d, 2, cell), h + i);
  });
}

// Gates i, o, f, c. w: directions x 4 hidden x input, r: directions x 4 hidden x hidden, b:
// directions x 8 hidden, peephole: directions x 3 hidden (i, o, f). b, lengths, h0, c0, peephole,
// y, y_h and y_c may be null. scratch: LstmScratch elements.
template <class T, class Product>
MEMPLAN_KERNEL void Lstm(const RecurrentParams& p, const T* x, const T* w, const T* r, const T* b,
                         const int32_t* lengths, const T* h0, const T* c0, const T* peephole, T* y,
                         T* y_h, T* y_c, T* scratch) {
  const int32_t size = p.hidden;
  T* h = scratch;
  T* c = scratch + size;
  T* gates = scratch + 2 * size;
  for (int32_t d = 0; d < p.directions; ++d) {
    const T* wd = w + d * Product::Elements(4 * size, p.input);
    const T* rd = r + d * Product::Elements(4 * size, size);
    const T* bd = b == nullptr ? nullptr : b + d * 8 * size;
    const T* pd = peephole == nullptr ? nullptr : peephole + d * 3 * size;
    for (int32_t n = 0; n < p.batch; ++n) {
      LoadState(p, h0, d, n, h);
      LoadState(p, c0, d, n, c);
      RunSequence(p, x, lengths, d, n, h, y, [&](const T* xt) {
        StartGates(4 * size, bd, gates);
        AddBias(4 * size, bd == nullptr ? bd : bd + 4 * size, gates);
        Product::AddTo(4 * size, p.input, xt, wd, gates);
        Product::AddTo(4 * size, size, h, rd, gates);
        LstmStep(p, d, gates, pd, h, c);
      });
      StoreState(p, h, d, n, y_h);
      StoreState(p, c, d, n, y_c);
    }
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_RECURRENT_H_
