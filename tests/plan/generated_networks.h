// Networks in problem form, with the structure and the tensor sizes of known architectures: their
// inference, and a training step (forward, backward, gradient steps as sinks). Nothing is computed;
// a tensor is its number of bytes.
#ifndef ONNX_MEMPLAN_TESTS_PLAN_GENERATED_NETWORKS_H_
#define ONNX_MEMPLAN_TESTS_PLAN_GENERATED_NETWORKS_H_

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "onnx_memplan/plan.h"

namespace onnx_memplan::testing {

// A tensor of channels x side x side (or tokens x width, as channels and side 1) floats.
struct Shape {
  int64_t channels = 1;
  int64_t side = 1;
  int64_t bytes() const { return 4 * channels * side * side; }
};

enum class OpKind { kConv, kNorm, kRelu, kAdd, kMul, kConcat, kPool, kMean, kSoftmaxLoss };

struct Op {
  OpKind kind;
  std::vector<int32_t> inputs;
  int32_t output;
  int64_t weight_bytes;
};

// A forward graph under construction. Methods return the tensor that the operator writes.
class Network {
 public:
  int32_t Input(int64_t channels, int64_t side) { return NewTensor({channels, side}); }
  int32_t Conv(int32_t x, int64_t channels, int64_t kernel, int64_t stride = 1,
               bool depthwise = false) {
    const Shape in = shape(x);
    const Shape out{channels, (in.side + stride - 1) / stride};
    return Emit(OpKind::kConv, {x}, out,
                4 * channels * (depthwise ? 1 : in.channels) * kernel * kernel);
  }
  int32_t Norm(int32_t x) { return Emit(OpKind::kNorm, {x}, shape(x), 8 * shape(x).channels); }
  int32_t Relu(int32_t x) { return Emit(OpKind::kRelu, {x}, shape(x), 0); }
  int32_t Add(std::vector<int32_t> x) {
    const Shape out = shape(x.front());
    return Emit(OpKind::kAdd, std::move(x), out, 0);
  }
  int32_t Mul(int32_t x, int32_t gate) { return Emit(OpKind::kMul, {x, gate}, shape(x), 0); }
  int32_t Concat(std::vector<int32_t> x) {
    Shape out{0, shape(x.front()).side};
    for (int32_t part : x) out.channels += shape(part).channels;
    return Emit(OpKind::kConcat, std::move(x), out, 0);
  }
  int32_t Pool(int32_t x, int64_t stride = 2) {
    return Emit(OpKind::kPool, {x}, {shape(x).channels, (shape(x).side + stride - 1) / stride}, 0);
  }
  int32_t Mean(int32_t x) { return Emit(OpKind::kMean, {x}, {shape(x).channels, 1}, 0); }
  int32_t Loss(int32_t x) { return Emit(OpKind::kSoftmaxLoss, {x}, {1, 1}, 0); }
  int32_t ConvNormRelu(int32_t x, int64_t channels, int64_t kernel, int64_t stride = 1) {
    return Relu(Norm(Conv(x, channels, kernel, stride)));
  }

  const Shape& shape(int32_t tensor) const { return tensors_[tensor]; }
  const std::vector<Op>& ops() const { return ops_; }
  const std::vector<Shape>& tensors() const { return tensors_; }

 private:
  std::vector<Shape> tensors_;
  std::vector<Op> ops_;

  int32_t NewTensor(Shape shape) {
    tensors_.push_back(shape);
    return static_cast<int32_t>(tensors_.size()) - 1;
  }
  int32_t Emit(OpKind kind, std::vector<int32_t> inputs, Shape out, int64_t weight_bytes) {
    const int32_t output = NewTensor(out);
    ops_.push_back({kind, std::move(inputs), output, weight_bytes});
    return output;
  }
};

// Builds a PlanProblem task by task.
class ProblemBuilder {
 public:
  int32_t NewStorage(std::string name, int64_t bytes) {
    problem.storages.push_back({.name = std::move(name), .bytes = bytes, .alignment = 4});
    return static_cast<int32_t>(problem.storages.size()) - 1;
  }
  int32_t NewTask(std::string name, std::vector<int32_t> reads, std::vector<int32_t> writes) {
    problem.tasks.push_back(
        {.name = std::move(name), .reads = std::move(reads), .writes = std::move(writes)});
    return static_cast<int32_t>(problem.tasks.size()) - 1;
  }
  PlanProblem problem;
};

// With `in_place`, element-wise operators offer their inputs.
inline PlanProblem InferenceProblem(const Network& network, bool in_place = true) {
  ProblemBuilder b;
  std::vector<bool> consumed(network.tensors().size(), false), written(consumed);
  for (size_t t = 0; t < network.tensors().size(); ++t) {
    b.NewStorage("t" + std::to_string(t), network.tensors()[t].bytes());
  }
  for (const Op& op : network.ops()) {
    const int32_t task = b.NewTask("op" + std::to_string(op.output), op.inputs, {op.output});
    for (int32_t x : op.inputs) consumed[x] = true;
    written[op.output] = true;
    if (!in_place) continue;
    if (op.kind == OpKind::kRelu || op.kind == OpKind::kNorm || op.kind == OpKind::kAdd ||
        op.kind == OpKind::kMul) {
      for (int32_t x : op.inputs) {
        if (network.shape(x).bytes() == network.shape(op.output).bytes()) {
          b.problem.in_place.push_back({.task = task, .from = x, .to = op.output});
        }
      }
    }
  }
  for (size_t t = 0; t < consumed.size(); ++t) {
    b.problem.storages[t].live_in = !written[t];
    b.problem.storages[t].live_out = !consumed[t];
  }
  return std::move(b.problem);
}

// Forward, backward, and one gradient step for each weight, which only reads its gradient (weights
// are outside of the arena). What an operator's gradient needs is kept: the input of a convolution,
// a normalisation, a pool; the output of a ReLU.
inline PlanProblem TrainingProblem(const Network& network, bool in_place = false) {
  ProblemBuilder b;
  b.problem = InferenceProblem(network, in_place);
  for (Storage& storage : b.problem.storages) storage.live_out = false;
  // Parts of the gradient of each tensor.
  std::vector<std::vector<int32_t>> parts(network.tensors().size());
  std::vector<bool> written(network.tensors().size(), false);
  for (const Op& op : network.ops()) written[op.output] = true;
  const auto name = [](const char* what, int32_t tensor) {
    return std::string(what) + std::to_string(tensor);
  };
  const auto offer = [&](int32_t task, int32_t from, int32_t to) {
    if (in_place) b.problem.in_place.push_back({.task = task, .from = from, .to = to});
  };
  const auto gradient_of = [&](int32_t tensor) {
    const std::vector<int32_t>& all = parts[tensor];
    if (all.size() == 1) return all.front();
    int32_t sum = all.front();
    for (size_t i = 1; i < all.size(); ++i) {
      const int32_t next = b.NewStorage(name("sum", tensor), network.shape(tensor).bytes());
      const int32_t task = b.NewTask(name("accumulate", tensor), {sum, all[i]}, {next});
      offer(task, sum, next);
      offer(task, all[i], next);
      sum = next;
    }
    return sum;
  };
  const auto update = [&](const Op& op, int32_t dy, int32_t x) {
    const int32_t dw = b.NewStorage(name("dw", op.output), op.weight_bytes);
    b.NewTask(name("grad_w", op.output), {dy, x}, {dw});
    b.NewTask(name("step", op.output), {dw}, {});
  };
  for (auto op = network.ops().rbegin(); op != network.ops().rend(); ++op) {
    const auto new_gradient = [&](int32_t x) {
      const int32_t dx = b.NewStorage(name("dx", x), network.shape(x).bytes());
      parts[x].push_back(dx);
      return dx;
    };
    const int32_t x = op->inputs.front();
    if (op->kind == OpKind::kSoftmaxLoss) {
      b.NewTask("loss_gradient", {x, op->output}, {new_gradient(x)});
      continue;
    }
    const int32_t dy = gradient_of(op->output);
    switch (op->kind) {
      case OpKind::kConv:
        update(*op, dy, x);
        if (written[x]) b.NewTask(name("grad_x", op->output), {dy}, {new_gradient(x)});
        break;
      case OpKind::kNorm: {
        const int32_t dw = b.NewStorage(name("dw", op->output), op->weight_bytes);
        const int32_t dx = new_gradient(x);
        offer(b.NewTask(name("grad_norm", op->output), {dy, x}, {dx, dw}), dy, dx);
        b.NewTask(name("step", op->output), {dw}, {});
        break;
      }
      case OpKind::kRelu: {
        const int32_t dx = new_gradient(x);
        offer(b.NewTask(name("grad_relu", op->output), {dy, op->output}, {dx}), dy, dx);
        break;
      }
      case OpKind::kPool:
        b.NewTask(name("grad_pool", op->output), {dy, x}, {new_gradient(x)});
        break;
      case OpKind::kMean:
        b.NewTask(name("grad_mean", op->output), {dy}, {new_gradient(x)});
        break;
      case OpKind::kMul: {
        const int32_t gate = op->inputs[1];
        b.NewTask(name("grad_mul", op->output), {dy, gate}, {new_gradient(x)});
        b.NewTask(name("grad_gate", op->output), {dy, x}, {new_gradient(gate)});
        break;
      }
      case OpKind::kAdd:  // the gradient itself, for each input
        for (int32_t input : op->inputs) parts[input].push_back(dy);
        break;
      case OpKind::kConcat:
        for (int32_t input : op->inputs) {
          b.NewTask(name("grad_part", input), {dy}, {new_gradient(input)});
        }
        break;
      case OpKind::kSoftmaxLoss:
        break;
    }
  }
  return std::move(b.problem);
}

inline Network ResNet18() {
  Network n;
  int32_t x = n.Pool(n.ConvNormRelu(n.Input(3, 224), 64, 7, 2));
  for (int64_t channels : {64, 128, 256, 512}) {
    for (int block = 0; block < 2; ++block) {
      const int64_t stride = block == 0 && channels > 64 ? 2 : 1;
      int32_t y = n.ConvNormRelu(x, channels, 3, stride);
      y = n.Norm(n.Conv(y, channels, 3));
      if (stride == 2) x = n.Norm(n.Conv(x, channels, 1, 2));
      x = n.Relu(n.Add({x, y}));
    }
  }
  n.Loss(n.Conv(n.Mean(x), 1000, 1));
  return n;
}

inline Network GoogLeNet() {
  Network n;
  int32_t x = n.Pool(n.ConvNormRelu(n.Input(3, 224), 64, 7, 2));
  x = n.Pool(n.ConvNormRelu(n.ConvNormRelu(x, 64, 1), 192, 3));
  const std::vector<std::vector<int64_t>> blocks = {
      {64, 96, 128, 16, 32, 32},     {128, 128, 192, 32, 96, 64},   {},
      {192, 96, 208, 16, 48, 64},    {160, 112, 224, 24, 64, 64},   {128, 128, 256, 24, 64, 64},
      {112, 144, 288, 32, 64, 64},   {256, 160, 320, 32, 128, 128}, {},
      {256, 160, 320, 32, 128, 128}, {384, 192, 384, 48, 128, 128}};
  for (const std::vector<int64_t>& c : blocks) {
    if (c.empty()) {
      x = n.Pool(x);
      continue;
    }
    x = n.Concat({n.ConvNormRelu(x, c[0], 1), n.ConvNormRelu(n.ConvNormRelu(x, c[1], 1), c[2], 3),
                  n.ConvNormRelu(n.ConvNormRelu(x, c[3], 1), c[4], 3),
                  n.ConvNormRelu(n.Pool(x, 1), c[5], 1)});
  }
  n.Loss(n.Conv(n.Mean(x), 1000, 1));
  return n;
}

// Inverted residuals; `squeeze` adds EfficientNet's gates.
inline Network InvertedResiduals(const std::vector<std::vector<int64_t>>& rows, bool squeeze) {
  Network n;
  int32_t x = n.ConvNormRelu(n.Input(3, 224), 32, 3, 2);
  for (const std::vector<int64_t>& row : rows) {  // expansion, channels, repeats, stride, kernel
    for (int64_t i = 0; i < row[2]; ++i) {
      const int64_t stride = i == 0 ? row[3] : 1;
      const int64_t in = n.shape(x).channels, wide = in * row[0];
      int32_t y = row[0] == 1 ? x : n.ConvNormRelu(x, wide, 1);
      y = n.Relu(n.Norm(n.Conv(y, wide, row[4], stride, true)));
      if (squeeze) {
        const int32_t gate =
            n.Conv(n.Relu(n.Conv(n.Mean(y), std::max<int64_t>(1, in / 4), 1)), wide, 1);
        y = n.Mul(y, n.Relu(gate));
      }
      y = n.Norm(n.Conv(y, row[1], 1));
      x = stride == 1 && in == row[1] ? n.Add({x, y}) : y;
    }
  }
  x = n.ConvNormRelu(x, 1280, 1);
  n.Loss(n.Conv(n.Mean(x), 1000, 1));
  return n;
}

inline Network MobileNetV2() {
  return InvertedResiduals({{1, 16, 1, 1, 3},
                            {6, 24, 2, 2, 3},
                            {6, 32, 3, 2, 3},
                            {6, 64, 4, 2, 3},
                            {6, 96, 3, 1, 3},
                            {6, 160, 3, 2, 3},
                            {6, 320, 1, 1, 3}},
                           false);
}

inline Network EfficientNetB0() {
  return InvertedResiduals({{1, 16, 1, 1, 3},
                            {6, 24, 2, 2, 3},
                            {6, 40, 2, 2, 5},
                            {6, 80, 3, 2, 3},
                            {6, 112, 3, 1, 5},
                            {6, 192, 4, 2, 5},
                            {6, 320, 1, 1, 3}},
                           true);
}

inline Network DenseNet121() {
  Network n;
  int32_t x = n.Pool(n.ConvNormRelu(n.Input(3, 224), 64, 7, 2));
  const std::vector<int> layers = {6, 12, 24, 16};
  for (size_t stage = 0; stage < layers.size(); ++stage) {
    for (int i = 0; i < layers[stage]; ++i) {
      const int32_t y = n.Conv(n.Relu(n.Norm(x)), 128, 1);
      x = n.Concat({x, n.Conv(n.Relu(n.Norm(y)), 32, 3)});
    }
    x = n.Relu(n.Norm(x));
    if (stage + 1 < layers.size()) x = n.Pool(n.Conv(x, n.shape(x).channels / 2, 1));
  }
  n.Loss(n.Conv(n.Mean(x), 1000, 1));
  return n;
}

// Stages of a random small-world graph (Watts and Strogatz), each node: weighted sum of its inputs,
// ReLU, separable convolution, normalisation.
inline Network RandWire(int32_t nodes, int64_t channels, int64_t side, int32_t stages,
                        uint32_t seed) {
  Network n;
  std::mt19937 random(seed);
  int32_t x = n.ConvNormRelu(n.Input(3, 2 * side), channels, 3, 2);
  for (int32_t stage = 0; stage < stages; ++stage) {
    std::vector<std::vector<int32_t>> inputs(nodes);
    for (int32_t i = 0; i < nodes; ++i) {
      for (int32_t step = 1; step <= 2; ++step) {
        int32_t j = (i + step) % nodes;
        if (random() % 4 == 0) j = static_cast<int32_t>(random() % static_cast<uint32_t>(nodes));
        if (i != j) inputs[std::max(i, j)].push_back(std::min(i, j));
      }
    }
    std::vector<int32_t> output(nodes);
    std::vector<bool> used(nodes, false);
    channels = stage == 0 ? channels : 2 * channels;
    for (int32_t i = 0; i < nodes; ++i) {
      std::sort(inputs[i].begin(), inputs[i].end());
      inputs[i].erase(std::unique(inputs[i].begin(), inputs[i].end()), inputs[i].end());
      int32_t y = x;
      if (!inputs[i].empty()) {
        std::vector<int32_t> in;
        for (int32_t j : inputs[i]) in.push_back(output[j]), used[j] = true;
        y = in.size() == 1 ? in.front() : n.Add(in);
      }
      const int64_t stride = inputs[i].empty() ? 2 : 1;
      y = n.Relu(y);
      y = n.Conv(y, n.shape(y).channels, 3, stride, true);
      output[i] = n.Norm(n.Conv(y, channels, 1));
    }
    std::vector<int32_t> last;
    for (int32_t i = 0; i < nodes; ++i) {
      if (!used[i]) last.push_back(output[i]);
    }
    x = last.size() == 1 ? last.front() : n.Add(last);
  }
  n.Loss(n.Conv(n.Mean(n.ConvNormRelu(x, 2 * channels, 1)), 10, 1));
  return n;
}

// Cells with two inputs (the last two cells) and five pairs of branches, as found by architecture
// search (DARTS, AmoebaNet).
inline Network SearchedCells(int32_t cells, int64_t channels, int64_t side, uint32_t seed) {
  Network n;
  std::mt19937 random(seed);
  int32_t previous = n.Norm(n.Conv(n.Input(3, side), channels, 3));
  int32_t last = previous;
  const auto separable = [&](int32_t x, int64_t c, int64_t stride) {
    x = n.Conv(n.Relu(x), n.shape(x).channels, 3, stride, true);
    return n.Norm(n.Conv(x, c, 1));
  };
  for (int32_t cell = 0; cell < cells; ++cell) {
    const bool reduce = cell == cells / 3 || cell == 2 * cells / 3;
    if (reduce) channels *= 2;
    const int64_t match = n.shape(previous).side / n.shape(last).side;
    std::vector<int32_t> states = {n.Norm(n.Conv(n.Relu(previous), channels, 1, match)),
                                   n.Norm(n.Conv(n.Relu(last), channels, 1))};
    std::vector<bool> used(2, true);
    for (int node = 0; node < 5; ++node) {
      std::vector<int32_t> terms;
      for (int branch = 0; branch < 2; ++branch) {
        // Both inputs of the cell are used.
        const size_t from = branch == 0 && node < 2 ? static_cast<size_t>(node)
                                                    : static_cast<size_t>(random() % states.size());
        const int64_t stride = reduce && from < 2 ? 2 : 1;
        used[from] = true;
        switch (random() % 4) {
          case 0:
            terms.push_back(separable(separable(states[from], channels, stride), channels, 1));
            break;
          case 1:
            terms.push_back(separable(states[from], channels, stride));
            break;
          case 2:
            terms.push_back(n.Pool(states[from], stride));
            break;
          default:
            terms.push_back(stride == 1 ? states[from]
                                        : n.Conv(n.Relu(states[from]), channels, 1, 2));
            break;
        }
      }
      if (terms[0] == terms[1]) terms.pop_back();
      states.push_back(terms.size() == 1 ? n.Relu(terms.front()) : n.Add(terms));
      used.push_back(false);
    }
    std::vector<int32_t> out;
    for (size_t i = 2; i < states.size(); ++i) {
      if (!used[i]) out.push_back(states[i]);
    }
    previous = last;
    last = out.size() == 1 ? out.front() : n.Concat(out);
  }
  n.Loss(n.Conv(n.Mean(last), 10, 1));
  return n;
}

// Gated dilated convolutions with residual and skip connections; all skips are summed at the end.
inline Network WaveNet(int32_t layers, int64_t channels, int64_t skip_channels, int64_t side) {
  Network n;
  int32_t x = n.Conv(n.Input(1, side), channels, 2);
  std::vector<int32_t> skips;
  for (int32_t i = 0; i < layers; ++i) {
    const int32_t filter = n.Relu(n.Conv(x, channels, 2));
    const int32_t gate = n.Relu(n.Conv(x, channels, 2));
    const int32_t y = n.Mul(filter, gate);
    skips.push_back(n.Conv(y, skip_channels, 1));
    if (i + 1 < layers) x = n.Add({x, n.Conv(y, channels, 1)});
  }
  int32_t sum = skips.front();
  for (size_t i = 1; i < skips.size(); ++i) sum = n.Add({sum, skips[i]});
  n.Loss(n.Conv(n.Mean(n.Conv(n.Relu(sum), skip_channels, 1)), 10, 1));
  return n;
}

// Encoder layers: three projections, two products (scores, context), projections, normalisations;
// tokens x width as a square of `side` and `width` channels.
inline Network Transformer(int32_t layers, int64_t width, int64_t side) {
  Network n;
  int32_t x = n.Conv(n.Input(width, side), width, 1);
  for (int32_t layer = 0; layer < layers; ++layer) {
    const int32_t y = n.Norm(x);
    const int32_t query = n.Conv(y, width, 1), key = n.Conv(y, width, 1);
    const int32_t value = n.Conv(y, width, 1);
    const int32_t scores = n.Relu(n.Mul(query, key));
    x = n.Add({x, n.Conv(n.Mul(scores, value), width, 1)});
    x = n.Add({x, n.Conv(n.Relu(n.Conv(n.Norm(x), 4 * width, 1)), width, 1)});
  }
  n.Loss(n.Conv(n.Mean(x), 10, 1));
  return n;
}

// No network: each task writes one storage of random size and reads one to three of the `window`
// storages before it. The hardest problems for order searches, with nothing to hold on to.
inline PlanProblem RandomDag(int32_t tasks, int32_t window, uint32_t seed) {
  std::mt19937 random(seed);
  ProblemBuilder b;
  std::vector<bool> read(tasks, false);
  for (int32_t t = 0; t < tasks; ++t) {
    b.NewStorage("t" + std::to_string(t), 1000 * (1 + static_cast<int64_t>(random() % 1000)));
    std::vector<int32_t> reads;
    for (uint32_t i = 0; i <= random() % 3 && t > 0; ++i) {
      const auto back =
          static_cast<int32_t>(1 + random() % static_cast<uint32_t>(std::min(t, window)));
      if (std::find(reads.begin(), reads.end(), t - back) == reads.end()) {
        reads.push_back(t - back);
        read[t - back] = true;
      }
    }
    b.NewTask("task" + std::to_string(t), std::move(reads), {t});
  }
  for (int32_t t = 0; t < tasks; ++t) b.problem.storages[t].live_out = !read[t];
  return std::move(b.problem);
}

}  // namespace onnx_memplan::testing

#endif  // ONNX_MEMPLAN_TESTS_PLAN_GENERATED_NETWORKS_H_
