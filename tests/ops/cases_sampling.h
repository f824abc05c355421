// Cases of generators, resampling, Einsum, quantisation and recurrent layers.
#ifndef ONNX_MEMPLAN_TESTS_OPS_CASES_SAMPLING_H_
#define ONNX_MEMPLAN_TESTS_OPS_CASES_SAMPLING_H_

#include <cmath>

#include "ops/cases.h"

namespace onnx_memplan::cases {

inline std::vector<OpCase> GeneratorCases() {
  const Tensor x = Ints({2, 3}, {1, 2, 3, 4, 5, 6});
  const Attributes nine = {{"value", Tensor::FromVector<int32_t>({1}, {9})}};
  return {
      {"Range", {Ints({}, {1}), Ints({}, {6}), Ints({}, {2})}, {Ints({3}, {1, 3, 5})}},
      {"Range",
       {ScalarFloat(1), ScalarFloat(0), ScalarFloat(-0.25F)},
       {Floats({4}, {1, 0.75F, 0.5F, 0.25F})}},
      {"ConstantOfShape", {Ints({2}, {1, 2})}, {Floats({1, 2}, {0, 0})}},
      {"ConstantOfShape", {Ints({1}, {2})}, {Int32s({2}, {9, 9})}, nine},
      {"ConstantOfShape", {Ints({0}, {})}, {Int32s({}, {9})}, nine},
      {"OneHot",
       {Ints({2}, {-1, 0}), Ints({}, {3}), Floats({2}, {0, 5})},
       {Floats({2, 3}, {0, 0, 5, 5, 0, 0})}},
      {"OneHot",
       {Floats({2}, {1, 7}), Floats({1}, {2}), Ints({2}, {0, 1})},
       {Ints({2, 2}, {0, 0, 1, 0})},
       {{"axis", int64_t{0}}}},
      {"Trilu", {x}, {Ints({2, 3}, {1, 2, 3, 0, 5, 6})}},
      {"Trilu", {x, Ints({}, {1})}, {Ints({2, 3}, {1, 2, 0, 4, 5, 6})}, {{"upper", int64_t{0}}}},
      {"EyeLike", {x}, {Ints({2, 3}, {0, 1, 0, 0, 0, 1})}, {{"k", int64_t{1}}}},
      {"EyeLike", {x}, {Floats({2, 3}, {1, 0, 0, 0, 1, 0})}, {{"dtype", int64_t{1}}}},
      {"HannWindow", {Ints({}, {4})}, {Floats({4}, {0, 0.5F, 1, 0.5F})}},
      {"HannWindow", {Ints({}, {3})}, {Floats({3}, {0, 1, 0})}, {{"periodic", int64_t{0}}}},
      {"HammingWindow",
       {Ints({}, {2})},
       {Doubles({2}, {4.0 / 46, 1})},
       {{"output_datatype", int64_t{11}}}},
      {"BlackmanWindow", {Ints({}, {2})}, {Floats({2}, {0, 1})}},
      {"NonZero", {Floats({2, 2}, {0, 1, -2, 0})}, {Ints({2, 2}, {0, 1, 1, 0})}},
  };
}

inline std::vector<OpCase> ResizeCases() {
  const Tensor row = Floats({1, 1, 1, 3}, {1, 2, 4});
  const Tensor scales = Floats({4}, {1, 1, 1, 2});
  const auto with = [](const char* mode, const char* coordinates) -> Attributes {
    return {{"mode", std::string(mode)},
            {"coordinate_transformation_mode", std::string(coordinates)}};
  };
  return {
      {"Resize", {row, {}, scales}, {Floats({1, 1, 1, 6}, {1, 1, 2, 2, 4, 4})}},
      {"Resize", {row, {}, Floats({4}, {1, 1, 1, 1})}, {row}},
      {"Resize",
       {row, {}, scales},
       {Floats({1, 1, 1, 6}, {1, 1.25F, 1.75F, 2.5F, 3.5F, 4})},
       with("linear", "half_pixel")},
      {"Resize",
       {row, {}, {}, Ints({4}, {1, 1, 2, 5})},
       {Floats({1, 1, 2, 5}, {1, 1.5F, 2, 3, 4, 1, 1.5F, 2, 3, 4})},
       with("linear", "align_corners")},
      {"Resize",
       {Uint8s({3}, {10, 20, 40}), {}, Floats({1}, {2})},
       {Uint8s({6}, {10, 15, 20, 30, 40, 40})},
       with("linear", "asymmetric")},
      {"Resize",
       {Floats({2}, {2, 4}), Floats({2}, {0.5F, 1.5F}), {}, Ints({1}, {2})},
       {Floats({2}, {3, -1})},
       {{"mode", std::string("linear")},
        {"coordinate_transformation_mode", std::string("tf_crop_and_resize")},
        {"extrapolation_value", -1.0F}}},
      // Half-way between elements the cubic filter is (-3, 19, 19, -3) / 32.
      {"Resize",
       {Floats({4}, {1, 2, 4, 8}), {}, Floats({1}, {0.5F})},
       {Floats({2}, {1.3125F, 6.1875F})},
       with("cubic", "half_pixel")},
      {"Resize",
       {Floats({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}), {}, {}, Ints({1}, {2})},
       {Floats({2, 2}, {1.5F, 3.5F, 5.5F, 7.5F})},
       {{"axes", std::vector<int64_t>{1}},
        {"mode", std::string("linear")},
        {"keep_aspect_ratio_policy", std::string("not_larger")}}},
  };
}

inline std::vector<OpCase> SamplingCases() {
  const Tensor image = Floats({1, 1, 2, 2}, {1, 2, 3, 4});
  const Tensor centre = Floats({1, 1, 2, 2}, {0, 0, 1, -1});
  return {
      {"GridSample",
       {image, centre},
       {Floats({1, 1, 1, 2}, {2.5F, 2})},
       {{"align_corners", int64_t{1}}}},
      {"GridSample", {image, centre}, {Floats({1, 1, 1, 2}, {2.5F, 0.5F})}},
      {"GridSample",
       {image, Floats({1, 1, 1, 2}, {9, -0.5F})},
       {Floats({1, 1, 1, 1}, {2})},
       {{"mode", std::string("nearest")}, {"padding_mode", std::string("border")}}},
      {"RoiAlign",
       {image, Floats({1, 4}, {0, 0, 2, 2}), Ints({1}, {0})},
       {Floats({1, 1, 1, 1}, {2.5F})},
       {{"sampling_ratio", int64_t{2}}}},
      {"MaxUnpool",
       {Floats({1, 1, 1, 2}, {5, 6}), Ints({1, 1, 1, 2}, {3, 4})},
       {Floats({1, 1, 2, 4}, {0, 0, 0, 5, 6, 0, 0, 0})},
       {{"kernel_shape", std::vector<int64_t>{2, 2}}, {"strides", std::vector<int64_t>{2, 2}}}},
      {"MaxUnpool",
       {Floats({1, 1, 1}, {5}), Ints({1, 1, 1}, {1}), Ints({3}, {1, 1, 4})},
       {Floats({1, 1, 4}, {0, 5, 0, 0})},
       {{"kernel_shape", std::vector<int64_t>{2}}}},
      {"Col2Im",
       {Floats({1, 2, 3}, {1, 2, 3, 4, 5, 6}), Ints({1}, {4}), Ints({1}, {2})},
       {Floats({1, 1, 4}, {1, 6, 8, 6})}},
  };
}

inline std::vector<OpCase> EinsumCases() {
  const Tensor x = Floats({2, 2}, {1, 2, 3, 4});
  const auto equation = [](const char* text) -> Attributes {
    return {{"equation", std::string(text)}};
  };
  return {
      {"Einsum", {x, x}, {Floats({2, 2}, {7, 10, 15, 22})}, equation("ij,jk->ik")},
      {"Einsum", {x}, {Floats({}, {5})}, equation("ii->")},
      {"Einsum", {x}, {Floats({2}, {1, 4})}, equation("...ii -> ...i")},
      {"Einsum", {x, x, Floats({2}, {1, 2})}, {Floats({2}, {9, 41})}, equation("ab,ab,b->a")},
      {"Einsum", {x}, {Floats({2, 2}, {1, 3, 2, 4})}, equation("ba")},
  };
}

inline std::vector<OpCase> FourierCases() {
  const Tensor x = Floats({1, 4, 1}, {1, 2, 3, 4});
  const Tensor transform = Floats({1, 4, 2}, {10, 0, -2, 2, -2, 0, -2, -2});
  return {
      {"DFT", {x}, {transform}},
      {"DFT", {x}, {Floats({1, 3, 2}, {10, 0, -2, 2, -2, 0})}, {{"onesided", int64_t{1}}}},
      {"DFT",
       {transform, {}, Ints({}, {1})},
       {Floats({1, 4, 2}, {1, 0, 2, 0, 3, 0, 4, 0})},
       {{"inverse", int64_t{1}}}},
      {"DFT", {x, Ints({}, {2})}, {Floats({1, 2, 2}, {3, 0, -1, 0})}},
      {"STFT",
       {x, Ints({}, {2}), Floats({2}, {1, 0.5F})},
       {Floats({1, 2, 2, 2}, {2, 0, 0, 0, 5, 0, 1, 0})}},
      {"STFT",
       {x, Ints({}, {3}), {}, Ints({}, {1})},
       {Floats({1, 2, 1, 2}, {1, 0, 4, 0})},
       {{"onesided", int64_t{0}}}},
  };
}

inline std::vector<OpCase> QuantizeCases() {
  const Tensor x = Floats({2, 2}, {-1, 0.5F, 1.5F, 1000});
  const Tensor scales = Floats({2}, {1, 0.5F});
  return {
      {"QuantizeLinear", {x, ScalarFloat(1), Uint8s({}, {10})}, {Uint8s({2, 2}, {9, 10, 12, 255})}},
      {"QuantizeLinear",
       {x, scales, Int8s({2}, {0, 1})},
       {Int8s({2, 2}, {-1, 2, 2, 127})},
       {{"axis", int64_t{1}}}},
      {"DequantizeLinear",
       {Uint8s({2}, {9, 12}), ScalarFloat(2), Uint8s({}, {10})},
       {Floats({2}, {-2, 4})}},
      {"DequantizeLinear",
       {Int32s({2, 1}, {-3, 5}), scales},
       {Floats({2, 1}, {-3, 2.5F})},
       {{"axis", int64_t{0}}}},
      {"DynamicQuantizeLinear",
       {Floats({3}, {-55, 0, 200})},
       {Uint8s({3}, {0, 55, 255}), ScalarFloat(1), Uint8s({}, {55})}},
  };
}

inline std::vector<OpCase> RecurrentCases() {
  const Tensor x = Floats({2, 1, 1}, {1, 2});
  const auto t = [](float v) { return std::tanh(v); };
  const float r1 = t(1);
  const float r2 = t(2 + 0.5F * r1);
  const float b1 = t(2);  // backwards
  const float b2 = t(1 + 0.5F * b1);
  const float g1 = 0.5F * t(1);
  const float g2 = 0.5F * t(2) + 0.5F * g1;
  const float c1 = 0.5F * t(1);
  const float c2 = 0.5F * c1 + 0.5F * t(2);
  const float l1 = 0.5F * t(c1);
  const float l2 = 0.5F * t(c2);
  return {
      {"RNN",
       {x, Floats({1, 1, 1}, {1}), Floats({1, 1, 1}, {0.5F})},
       {Floats({2, 1, 1, 1}, {r1, r2}), Floats({1, 1, 1}, {r2})}},
      {"RNN",
       {Floats({1, 2, 1}, {1, 2}), Floats({2, 1, 1}, {1, 1}), Floats({2, 1, 1}, {0.5F, 0.5F})},
       {Floats({1, 2, 2, 1}, {r1, b2, r2, b1}), Floats({1, 2, 1}, {r2, b2})},
       {{"direction", std::string("bidirectional")}, {"layout", int64_t{1}}}},
      // One of the two steps counts.
      {"RNN",
       {x, Floats({1, 1, 1}, {1}), Floats({1, 1, 1}, {0.5F}), {}, Int32s({1}, {1})},
       {Floats({2, 1, 1, 1}, {r1, 0}), Floats({1, 1, 1}, {r1})}},
      {"GRU",
       {x, Floats({1, 3, 1}, {0, 0, 1}), Floats({1, 3, 1}, {0, 0, 0})},
       {Tensor(), Floats({1, 1, 1}, {g2})}},
      {"GRU",
       {x, Floats({1, 3, 1}, {0, 0, 1}), Floats({1, 3, 1}, {0, 0, 0})},
       {Floats({2, 1, 1, 1}, {g1, g2})},
       {{"linear_before_reset", int64_t{1}}}},
      {"LSTM",
       {x, Floats({1, 4, 1}, {0, 0, 0, 1}), Floats({1, 4, 1}, {0, 0, 0, 0})},
       {Floats({2, 1, 1, 1}, {l1, l2}), Floats({1, 1, 1}, {l2}), Floats({1, 1, 1}, {c2})}},
      // A relu keeps what clip leaves of the gate: 0.5 of 1 and 2.
      {"LSTM",
       {x, Floats({1, 4, 1}, {0, 0, 0, 1}), Floats({1, 4, 1}, {0, 0, 0, 0})},
       {Tensor(), Tensor(), Floats({1, 1, 1}, {0.375F})},
       {{"clip", 0.5F}, {"activations", std::vector<std::string>{"Sigmoid", "Relu", "Tanh"}}}},
  };
}

}  // namespace onnx_memplan::cases

#endif  // ONNX_MEMPLAN_TESTS_OPS_CASES_SAMPLING_H_
