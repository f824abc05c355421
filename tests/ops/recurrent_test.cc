// RNN, GRU and LSTM in float, with weights in rows and in panels, against the same cells in double.
#include "ops/host_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "ops/run_node.h"

namespace onnx_memplan {
namespace {

struct CellCase {
  std::string op_type;
  int64_t gates;
  int outputs;
  int64_t steps, batch, input, hidden, directions;
  std::vector<Tensor> inputs;  // no data: omitted
  std::vector<std::string> activations;
  float clip = 0;
  int64_t flag = 0;  // linear_before_reset, input_forget
};

CellCase RandomCase(std::mt19937& random) {
  static const CellCase kCells[] = {{"RNN", 1, 2, 0, 0, 0, 0, 0, {}, {}},
                                    {"GRU", 3, 2, 0, 0, 0, 0, 0, {}, {}},
                                    {"LSTM", 4, 3, 0, 0, 0, 0, 0, {}, {}}};
  CellCase cell = kCells[RandomInt(0, 2, random)];
  cell.steps = RandomInt(1, 5, random);
  cell.batch = RandomInt(1, 3, random);
  cell.input = RandomInt(1, 40, random);
  cell.hidden =
      RandomInt(0, 1, random) == 0 ? 8 * RandomInt(1, 12, random) : RandomInt(1, 70, random);
  cell.directions = RandomInt(1, 2, random);
  cell.flag = RandomInt(0, 1, random);
  if (RandomInt(0, 3, random) == 0) cell.clip = 0.5F;
  const int64_t rows = cell.gates * cell.hidden;
  const Shape state = {cell.directions, cell.batch, cell.hidden};
  const auto optional = [&](Shape shape) {
    return RandomInt(0, 2, random) == 0 ? Tensor() : RandomFloats(std::move(shape), random);
  };
  cell.inputs = {RandomFloats({cell.steps, cell.batch, cell.input}, random),
                 RandomFloats({cell.directions, rows, cell.input}, random),
                 RandomFloats({cell.directions, rows, cell.hidden}, random),
                 optional({cell.directions, 2 * rows}),
                 Tensor(),
                 optional(state)};
  if (cell.gates == 4) {
    cell.inputs.push_back(optional(state));
    cell.inputs.push_back(optional({cell.directions, 3 * cell.hidden}));
  }
  static constexpr const char* kFunctions[] = {"Sigmoid",    "Tanh",        "Relu",
                                               "LeakyRelu",  "HardSigmoid", "Softsign",
                                               "ScaledTanh", "Affine",      "ThresholdedRelu"};
  const int64_t functions = (cell.gates == 1 ? 1 : cell.gates - 1) * cell.directions;
  if (RandomInt(0, 1, random) == 0) {
    for (int64_t i = 0; i < functions; ++i) {
      // Small weights keep the ones without bounds in range.
      cell.activations.emplace_back(kFunctions[RandomInt(0, std::size(kFunctions) - 1, random)]);
    }
  }
  return cell;
}

Tensor AsDouble(const Tensor& tensor) {
  const std::span<const float> values = tensor.As<float>();
  return Tensor::FromVector(tensor.shape(), std::vector<double>(values.begin(), values.end()));
}

// The cell with constant weights or not, in float or double.
NodeUnderTest MakeNode(const CellCase& cell, bool constant, bool in_double) {
  NodeUnderTest node(cell.op_type);
  for (size_t i = 0; i < cell.inputs.size(); ++i) {
    const Tensor& input = cell.inputs[i];
    if (input.data() == nullptr) {
      node.NoInput();
    } else {
      node.Input(in_double ? AsDouble(input) : input, constant && (i == 1 || i == 2));
    }
  }
  node.Outputs(cell.outputs);
  if (cell.directions == 2) node.Set("direction", std::string("bidirectional"));
  if (!cell.activations.empty()) node.Set("activations", cell.activations);
  if (cell.clip != 0) node.Set("clip", cell.clip);
  node.Set(cell.gates == 3 ? "linear_before_reset" : "input_forget", cell.flag);
  return node;
}

TEST(RecurrentTest, PanelsAndRowsComputeWhatTheCellInDoubleDoes) {
  std::mt19937 random(7);
  int panels = 0;
  for (int i = 0; i < 400; ++i) {
    CellCase cell = RandomCase(random);
    // Sums of products stay small.
    for (size_t w = 1; w < 3; ++w) {
      const std::span<const float> values = cell.inputs[w].As<float>();
      std::vector<float> scaled(values.begin(), values.end());
      for (float& value : scaled) {
        value *= 0.5F / std::sqrt(static_cast<float>(cell.input + cell.hidden));
      }
      cell.inputs[w] = Tensor::FromVector(cell.inputs[w].shape(), scaled);
    }
    const std::vector<Tensor> expected =
        MakeNode(cell, false, true).Run(BuiltinTargets().front()).value();
    for (const Target& target : BuiltinTargets()) {
      for (const bool constant : {false, true}) {
        NodeUnderTest node = MakeNode(cell, constant, false);
        const Lowering lowering = node.Lower(target).value();
        if (lowering.calls[0].name.find("PanelProduct") != std::string::npos) ++panels;
        const std::vector<Tensor> results = node.Run(target).value();
        ASSERT_EQ(results.size(), expected.size());
        for (size_t o = 0; o < results.size(); ++o) {
          for (int64_t e = 0; e < results[o].NumElements(); ++e) {
            const double wanted = expected[o].As<double>()[static_cast<size_t>(e)];
            ASSERT_NEAR(static_cast<double>(results[o].As<float>()[static_cast<size_t>(e)]), wanted,
                        2e-5 * (1 + std::fabs(wanted)))
                << cell.op_type << " case " << i << ", " << lowering.calls[0].name << ", hidden "
                << cell.hidden << ", input " << cell.input << ", output " << o << " element " << e;
          }
        }
      }
    }
  }
  EXPECT_GT(panels, 0);
}

}  // namespace
}  // namespace onnx_memplan
