// Cases of what a training step ends in: optimizers, updates with their weight gradients in them,
// and normalisation apart from its statistics.
#ifndef ONNX_MEMPLAN_TESTS_OPS_CASES_UPDATES_H_
#define ONNX_MEMPLAN_TESTS_OPS_CASES_UPDATES_H_

#include <string>
#include <vector>

#include "ops/cases.h"
#include "ops/cases_linear.h"

namespace onnx_memplan::cases {

inline Attributes AdamWAttributes() {
  return {{"beta1", 0.5F},
          {"beta2", 0.75F},
          {"epsilon", 0.25F},
          {"weight_decay", 0.25F},
          {"decoupled_weight_decay", int64_t{1}}};
}

inline std::vector<OpCase> OptimizerCases() {
  const std::string own = "onnx_memplan";
  const Tensor w = Floats({4}, {1, -2, 0.5F, 4});
  const Tensor g = Floats({4}, {0.5F, 1, -1, 2});
  const Tensor m = Floats({4}, {0.25F, -0.5F, 1, 0});
  const Tensor v = Floats({4}, {0.5F, 0.25F, 1, 2});
  const Tensor rate = ScalarFloat(0.5F);
  const Attributes momentum = {
      {"momentum", 0.5F}, {"weight_decay", 0.25F}, {"nesterov", int64_t{1}}};
  Attributes every_three = momentum;
  every_three["accumulate_steps"] = int64_t{3};
  return {
      {"SgdUpdate",
       {w, g, rate},
       {Floats({4}, {0.625F, -2.25F, 0.9375F, 2.5F})},
       {{"weight_decay", 0.25F}},
       own},
      {"SgdUpdate",
       {w, g, rate, std::nullopt, ScalarFloat(0.5F), m},
       {Floats({4}, {0.59375F, -1.9375F, 0.65625F, 2.5F}),
        Floats({4}, {0.625F, -0.25F, 0.125F, 2})},
       momentum,
       own},
      // Not the last step of its group: nothing changes.
      {"SgdUpdate", {w, g, rate, Ints({}, {5}), std::nullopt, m}, {w, m}, every_three, own},
      {"AdamUpdate",
       {w, g, rate, Ints({}, {2}), std::nullopt, m, v},
       {Floats({4}, {0.675F, -1.88333333F, 0.4375F, 3.24751847F}),
        Floats({4}, {0.375F, 0.25F, 0, 1}), Floats({4}, {0.4375F, 0.4375F, 1, 2.5F})},
       AdamWAttributes(),
       own},
      {"AccumulateGradient", {w, g, Ints({}, {4})}, {g}, {{"accumulate_steps", int64_t{3}}}, own},
      {"AccumulateGradient",
       {w, g, Ints({}, {6})},
       {Floats({4}, {1.5F, -1, -0.5F, 6})},
       {{"accumulate_steps", int64_t{3}}},
       own},
      {"ClipCoefficient", {ScalarFloat(25)}, {ScalarFloat(0.39999992F)}, {{"max_norm", 2.0F}}, own},
      {"ClipCoefficient", {ScalarFloat(25)}, {ScalarFloat(1)}, {{"max_norm", 6.0F}}, own},
  };
}

inline std::vector<OpCase> FusedUpdateCases() {
  const std::string own = "onnx_memplan";
  const Tensor rate = ScalarFloat(0.5F);
  const Tensor a = Floats({3, 2}, {1, 2, 0, -1, 2, 1});
  const Tensor b = Floats({3, 4}, {1, 0, 2, -1, 3, 1, 0, 0.5F, -1, 2, 1, 0});
  const Tensor w = Floats({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  Attributes sgd = {{"transA", int64_t{1}},
                    {"alpha", 0.5F},
                    {"weight_decay", 0.25F},
                    {"optimizer", std::string("SgdUpdate")}};
  Attributes adam = AdamWAttributes();
  adam.insert({{"transA", int64_t{1}}, {"alpha", 0.5F}, {"optimizer", std::string("AdamUpdate")}});
  const std::vector<float> twos(12, 2.0F);
  return {
      {"MatMulUpdate",
       {a, b, rate, std::nullopt, std::nullopt, std::nullopt, std::nullopt, w},
       {Floats({2, 4}, {1.125F, 0.75F, 1.625F, 3.75F, 4.875F, 5, 4.875F, 7.625F})},
       sgd,
       own},
      {"MatMulUpdate",
       {a, b, rate, Ints({}, {2}), std::nullopt, Floats({2, 4}, std::vector<float>(8, 0.5F)),
        Floats({2, 4}, std::vector<float>(8, 1.0F)), w},
       {Floats({2, 4}, {0.875F, 1.37962963F, 2.25462963F, 3.5F, 4.46959711F, 5.0433163F,
                        5.73269978F, 7.13407234F}),
        Floats({2, 4}, {0, 1.25F, 1.25F, 0, -0.25F, 0.5F, 1.5F, -0.375F}),
        Floats({2, 4}, {0.8125F, 1.75F, 1.75F, 0.8125F, 1, 0.8125F, 2.3125F, 1.140625F})},
       adam,
       own},
      {"ConvWeightUpdate",
       {Floats({1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9}),
        Floats({1, 3, 2, 2}, {1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 2}), rate, std::nullopt,
        std::nullopt, Floats({3, 1, 2, 2}, twos), std::nullopt,
        Floats({3, 1, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})},
       {Floats({3, 1, 2, 2},
               {-5.5F, -6.5F, -9.5F, -10.5F, 4, 4.5F, 4.5F, 5, 3.5F, 3.5F, 2.5F, 2.5F}),
        Floats({3, 1, 2, 2}, {13, 17, 25, 29, 2, 3, 5, 6, 11, 13, 17, 19})},
       {{"kernel_shape", IntList{2, 2}},
        {"momentum", 0.5F},
        {"optimizer", std::string("SgdUpdate")}},
       own},
  };
}

// The parts of BatchNormInternal's row in NormalizationGradientCases.
inline std::vector<OpCase> BatchStatisticsCases() {
  const std::string own = "onnx_memplan";
  const Tensor x = Floats({2, 3}, {1, 2, 4, 3, -1, 0.5F});
  const Tensor mean = Floats({3}, {2, 0.5F, 2.25F});
  const Tensor inverse = Floats({3}, {0.894427191F, 0.632455532F, 0.549442256F});
  return {
      {"BatchStatistics",
       {x, Floats({3}, {0, 1, 2}), Floats({3}, {1, 1, 2})},
       {mean, inverse, Floats({3}, {1, 0.75F, 2.125F}), Floats({3}, {1.5F, 2.75F, 4.0625F})},
       {{"epsilon", 0.25F}, {"momentum", 0.5F}, {"unbiased_running_variance", int64_t{1}}},
       own},
      {"BatchStatistics",
       {x, Floats({3}, {0, 1, 2}), Floats({3}, {1, 1, 2})},
       {mean, inverse},
       {{"epsilon", 0.25F}},
       own},
      {"NormalizeByStatistics",
       {x, Floats({3}, {1, 2, 0.5F}), Floats({3}, {0, 1, -1}), mean, inverse},
       {Floats({2, 3}, {-0.894427191F, 2.897366596F, -0.519238026F, 0.894427191F, -0.897366596F,
                        -1.480761974F})},
       {},
       own},
  };
}

}  // namespace onnx_memplan::cases

#endif  // ONNX_MEMPLAN_TESTS_OPS_CASES_UPDATES_H_
