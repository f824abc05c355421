// Recurrent layers: RNN, GRU, LSTM, step by step and one sequence of the batch after the other.
#ifndef MEMPLAN_KERNELS_RECURRENT_H_
#define MEMPLAN_KERNELS_RECURRENT_H_

#include "base.h"

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

template <class T>
inline T RecurrentSigmoid(T x) {
  return T(1) / (T(1) + std::exp(-x));
}

// Activation `which` (0: f, 1: g, 2: h) of direction d.
template <class T>
inline T Activate(const RecurrentParams& p, int32_t d, int32_t which, T x) {
  const int32_t at = 3 * d + which;
  const T alpha = static_cast<T>(p.alphas[at]);
  const T beta = static_cast<T>(p.betas[at]);
  switch (p.activations[at]) {
    case kActSigmoid:
      return RecurrentSigmoid(x);
    case kActTanh:
      return std::tanh(x);
    case kActRelu:
      return x < T(0) ? T(0) : x;
    case kActLeakyRelu:
      return x < T(0) ? alpha * x : x;
    case kActThresholdedRelu:
      return x <= alpha ? T(0) : x;
    case kActHardSigmoid: {
      const T y = alpha * x + beta;
      return y < T(0) ? T(0) : y > T(1) ? T(1) : y;
    }
    case kActElu:
      return x < T(0) ? alpha * (std::exp(x) - T(1)) : x;
    case kActSoftsign:
      return x / (T(1) + std::fabs(x));
    case kActSoftplus:
      return x > T(0) ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
    case kActScaledTanh:
      return alpha * std::tanh(beta * x);
    default:
      return alpha * x + beta;
  }
}

template <class T>
inline T ClipGate(const RecurrentParams& p, T x) {
  const T clip = static_cast<T>(p.clip);
  if (p.clip == 0.0F) return x;
  return x < -clip ? -clip : x > clip ? clip : x;
}

// The inner product of two vectors, in eight partial sums.
template <class T>
inline T Dot(const T* a, const T* b, int32_t n) {
  T lanes[8] = {};
  int32_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int32_t k = 0; k < 8; ++k) lanes[k] += a[i + k] * b[i + k];
  }
  for (; i < n; ++i) lanes[0] += a[i] * b[i];
  return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) +
         ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
}

// gates[g] = bias of x + x . w[g], for `count` rows of w. b may be null.
template <class T>
inline void InputGates(const RecurrentParams& p, const T* x, const T* w, const T* b, int32_t count,
                       T* gates) {
  for (int32_t g = 0; g < count; ++g) {
    gates[g] = Dot(x, w + g * p.input, p.input) + (b == nullptr ? T(0) : b[g]);
  }
}

// gates[g] += bias of h + h . r[g]. b may be null.
template <class T>
inline void AddHiddenGates(const RecurrentParams& p, const T* h, const T* r, const T* b,
                           int32_t count, T* gates) {
  for (int32_t g = 0; g < count; ++g) {
    gates[g] += Dot(h, r + g * p.hidden, p.hidden) + (b == nullptr ? T(0) : b[g]);
  }
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
// b, lengths, h0, y and y_h may be null. scratch: RnnScratch elements.
template <class T>
MEMPLAN_KERNEL void Rnn(const RecurrentParams& p, const T* x, const T* w, const T* r, const T* b,
                        const int32_t* lengths, const T* h0, T* y, T* y_h, T* scratch) {
  const int32_t size = p.hidden;
  T* h = scratch;
  T* gates = scratch + size;
  for (int32_t d = 0; d < p.directions; ++d) {
    const T* wd = w + d * size * p.input;
    const T* rd = r + d * size * size;
    const T* bd = b == nullptr ? nullptr : b + d * 2 * size;
    for (int32_t n = 0; n < p.batch; ++n) {
      LoadState(p, h0, d, n, h);
      RunSequence(p, x, lengths, d, n, h, y, [&](const T* xt) {
        InputGates(p, xt, wd, bd, size, gates);
        AddHiddenGates(p, h, rd, bd == nullptr ? bd : bd + size, size, gates);
        for (int32_t i = 0; i < size; ++i) h[i] = Activate(p, d, 0, ClipGate(p, gates[i]));
      });
      StoreState(p, h, d, n, y_h);
    }
  }
}

// Gates z, r, h. w: directions x 3 hidden x input, r: directions x 3 hidden x hidden, b: directions
// x 6 hidden. b, lengths, h0, y and y_h may be null. scratch: GruScratch elements.
template <class T>
MEMPLAN_KERNEL void Gru(const RecurrentParams& p, const T* x, const T* w, const T* r, const T* b,
                        const int32_t* lengths, const T* h0, T* y, T* y_h, T* scratch) {
  const int32_t size = p.hidden;
  T* h = scratch;
  T* gates = scratch + size;
  T* reset = scratch + 4 * size;
  for (int32_t d = 0; d < p.directions; ++d) {
    const T* wd = w + d * 3 * size * p.input;
    const T* rd = r + d * 3 * size * size;
    const T* bd = b == nullptr ? nullptr : b + d * 6 * size;
    const T* hidden_bias = bd == nullptr ? nullptr : bd + 3 * size;
    const T* candidate_bias = bd == nullptr ? nullptr : bd + 5 * size;
    T* candidate = gates + 2 * size;
    for (int32_t n = 0; n < p.batch; ++n) {
      LoadState(p, h0, d, n, h);
      RunSequence(p, x, lengths, d, n, h, y, [&](const T* xt) {
        InputGates(p, xt, wd, bd, 3 * size, gates);
        AddHiddenGates(p, h, rd, hidden_bias, 2 * size, gates);
        for (int32_t i = 0; i < 2 * size; ++i) gates[i] = Activate(p, d, 0, ClipGate(p, gates[i]));
        if (p.linear_before_reset != 0) {
          for (int32_t i = 0; i < size; ++i) reset[i] = T(0);
          AddHiddenGates(p, h, rd + 2 * size * size, candidate_bias, size, reset);
          for (int32_t i = 0; i < size; ++i) candidate[i] += gates[size + i] * reset[i];
        } else {
          for (int32_t i = 0; i < size; ++i) reset[i] = gates[size + i] * h[i];
          AddHiddenGates(p, reset, rd + 2 * size * size, candidate_bias, size, candidate);
        }
        for (int32_t i = 0; i < size; ++i) {
          const T update = gates[i];
          const T fresh = Activate(p, d, 1, ClipGate(p, candidate[i]));
          h[i] = (T(1) - update) * fresh + update * h[i];
        }
      });
      StoreState(p, h, d, n, y_h);
    }
  }
}

// Gates i, o, f, c. w: directions x 4 hidden x input, r: directions x 4 hidden x hidden, b:
// directions x 8 hidden, peephole: directions x 3 hidden (i, o, f). b, lengths, h0, c0, peephole,
// y, y_h and y_c may be null. scratch: LstmScratch elements.
template <class T>
MEMPLAN_KERNEL void Lstm(const RecurrentParams& p, const T* x, const T* w, const T* r, const T* b,
                         const int32_t* lengths, const T* h0, const T* c0, const T* peephole, T* y,
                         T* y_h, T* y_c, T* scratch) {
  const int32_t size = p.hidden;
  T* h = scratch;
  T* c = scratch + size;
  T* gates = scratch + 2 * size;
  for (int32_t d = 0; d < p.directions; ++d) {
    const T* wd = w + d * 4 * size * p.input;
    const T* rd = r + d * 4 * size * size;
    const T* bd = b == nullptr ? nullptr : b + d * 8 * size;
    const T* pd = peephole == nullptr ? nullptr : peephole + d * 3 * size;
    for (int32_t n = 0; n < p.batch; ++n) {
      LoadState(p, h0, d, n, h);
      LoadState(p, c0, d, n, c);
      RunSequence(p, x, lengths, d, n, h, y, [&](const T* xt) {
        InputGates(p, xt, wd, bd, 4 * size, gates);
        AddHiddenGates(p, h, rd, bd == nullptr ? bd : bd + 4 * size, 4 * size, gates);
        for (int32_t i = 0; i < size; ++i) {
          const T pi = pd == nullptr ? T(0) : pd[i] * c[i];
          const T pf = pd == nullptr ? T(0) : pd[2 * size + i] * c[i];
          const T in = Activate(p, d, 0, ClipGate(p, gates[i] + pi));
          const T forget = p.input_forget != 0
                               ? T(1) - in
                               : Activate(p, d, 0, ClipGate(p, gates[2 * size + i] + pf));
          const T fresh = Activate(p, d, 1, ClipGate(p, gates[3 * size + i]));
          c[i] = forget * c[i] + in * fresh;
          const T po = pd == nullptr ? T(0) : pd[size + i] * c[i];
          const T out = Activate(p, d, 0, ClipGate(p, gates[size + i] + po));
          h[i] = out * Activate(p, d, 2, c[i]);
        }
      });
      StoreState(p, h, d, n, y_h);
      StoreState(p, c, d, n, y_c);
    }
  }
}

}  // namespace kernels

#endif  // MEMPLAN_KERNELS_RECURRENT_H_
