#include <algorithm>
#include <cmath>
#include <utility>

#include "passes/channel_classes.h"
#include "passes/match.h"

namespace onnx_memplan {
namespace {

bool IsUnpadded(const NodeContext& conv) {
  const std::string auto_pad = conv.String("auto_pad", "NOTSET");
  if (auto_pad == "VALID") return true;
  const std::vector<int64_t> pads = conv.Ints("pads", {});
  return auto_pad == "NOTSET" &&
         std::all_of(pads.begin(), pads.end(), [](int64_t pad) { return pad == 0; });
}

bool IsFloat(const Tensor* tensor) { return tensor != nullptr && tensor->dtype() == DType::kFloat; }

}  // namespace

std::optional<ChannelMatrix> ChannelMatrix::Of(const NodeContext& node) {
  const bool gemm = node.node().Is("Gemm");
  if (!gemm && !node.node().Is("Conv")) return std::nullopt;
  const Tensor* weights = node.InputConstant(1);
  if (!node.node().epilogue.empty() || node.InputDType(0) != DType::kFloat || !IsFloat(weights) ||
      weights->NumElements() == 0 || (gemm && node.Int("transA", 0) != 0)) {
    return std::nullopt;
  }
  ChannelMatrix matrix;
  matrix.weights_ = weights->As<float>().data();
  matrix.shape_ = weights->shape();
  matrix.rows_are_outputs_ = !gemm || node.Int("transB", 0) != 0;
  matrix.outputs_ = matrix.shape_[matrix.rows_are_outputs_ ? 0 : 1];
  matrix.inputs_ = matrix.shape_[matrix.rows_are_outputs_ ? 1 : 0];
  matrix.taps_ = weights->NumElements() / (matrix.outputs_ * matrix.inputs_);
  matrix.output_stride_ = matrix.rows_are_outputs_ ? matrix.inputs_ * matrix.taps_ : 1;
  matrix.input_stride_ = matrix.rows_are_outputs_ ? matrix.taps_ : matrix.outputs_;
  const int64_t group = gemm ? 1 : node.Int("group", 1);
  matrix.depthwise_ = group > 1;
  if (group > 1 && (matrix.inputs_ != 1 || matrix.outputs_ != group)) return std::nullopt;
  matrix.unpadded_ = gemm || IsUnpadded(node);
  if (gemm) matrix.alpha_ = static_cast<double>(node.Float("alpha", 1));
  if (!node.HasInput(2)) return matrix;
  const Tensor* bias = node.InputConstant(2);
  if (!IsFloat(bias)) return std::nullopt;
  Shape full(std::max<size_t>(bias->shape().size(), 1), 1);
  full.back() = matrix.outputs_;
  std::optional<std::vector<double>> values =
      AlongAxis(*bias, full, static_cast<int64_t>(full.size()) - 1);
  if (!values || static_cast<int64_t>(values->size()) != matrix.outputs_) return std::nullopt;
  const double beta = gemm ? static_cast<double>(node.Float("beta", 1)) : 1;
  for (double& value : *values) value *= beta;
  matrix.bias_ = *std::move(values);
  return matrix;
}

double ChannelMatrix::MagnitudeOf(int64_t o, int64_t i) const {
  const float* taps = weights_ + At(o, i);
  double sum = 0;
  for (int64_t t = 0; t < taps_; ++t) sum += std::fabs(static_cast<double>(taps[t]));
  return std::fabs(alpha_) * sum;
}

std::vector<double> ChannelMatrix::MagnitudesByOutput() const { return Magnitudes(true); }

std::vector<double> ChannelMatrix::MagnitudesByInput() const { return Magnitudes(false); }

std::vector<double> ChannelMatrix::Magnitudes(bool by_output) const {
  std::vector<double> sums(static_cast<size_t>(by_output ? outputs_ : inputs_), 0.0);
  const bool by_row = by_output == rows_are_outputs_;
  // In the order of memory.
  const float* taps = weights_;
  for (int64_t row = 0; row < shape_[0]; ++row) {
    for (int64_t column = 0; column < shape_[1]; ++column) {
      double& sum = sums[static_cast<size_t>(by_row ? row : column)];
      for (int64_t t = 0; t < taps_; ++t) sum += std::fabs(static_cast<double>(*taps++));
    }
  }
  for (double& sum : sums) sum *= std::fabs(alpha_);
  return sums;
}

double ChannelMatrix::SumOf(int64_t o, int64_t i) const {
  const float* taps = weights_ + At(o, i);
  double sum = 0;
  for (int64_t t = 0; t < taps_; ++t) sum += static_cast<double>(taps[t]);
  return alpha_ * sum;
}

Tensor ChannelMatrix::Select(const std::vector<int64_t>& kept_outputs,
                             const std::vector<int64_t>& kept_inputs) const {
  static const std::vector<int64_t> kOnly = {0};
  const std::vector<int64_t>& inputs = depthwise_ ? kOnly : kept_inputs;
  const std::vector<int64_t>& rows = rows_are_outputs_ ? kept_outputs : inputs;
  const std::vector<int64_t>& columns = rows_are_outputs_ ? inputs : kept_outputs;
  Shape shape = shape_;
  shape[0] = static_cast<int64_t>(rows.size());
  shape[1] = static_cast<int64_t>(columns.size());
  std::vector<float> selected;
  for (int64_t row : rows) {
    for (int64_t column : columns) {
      const float* taps = weights_ + (rows_are_outputs_ ? At(row, column) : At(column, row));
      selected.insert(selected.end(), taps, taps + taps_);
    }
  }
  return Tensor::FromVector(std::move(shape), selected);
}

}  // namespace onnx_memplan
