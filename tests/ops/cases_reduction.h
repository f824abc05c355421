// Cases of reductions, softmax, normalisations and losses.
#ifndef ONNX_MEMPLAN_TESTS_OPS_CASES_REDUCTION_H_
#define ONNX_MEMPLAN_TESTS_OPS_CASES_REDUCTION_H_

#include <cmath>
#include <limits>

#include "ops/cases.h"

namespace onnx_memplan::cases {

inline std::vector<OpCase> ReduceCases() {
  const Tensor x = Floats({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor rows = Ints({1}, {1});
  const Tensor columns = Ints({1}, {0});
  const std::map<std::string, Attribute, std::less<>> drop = {{"keepdims", int64_t{0}}};
  const float inf = std::numeric_limits<float>::infinity();
  const float e = std::exp(1.0F);
  return {
      {"ReduceSum", {x, rows}, {Floats({2, 1}, {6, 15})}},
      {"ReduceSum", {x, columns}, {Floats({3}, {5, 7, 9})}, drop},
      {"ReduceSum", {x}, {Floats({}, {21})}, drop},
      {"ReduceSum", {x}, {x}, {{"noop_with_empty_axes", int64_t{1}}}},
      {"ReduceSum", {Ints({2, 2}, {1, 2, 3, 4}), Ints({1}, {-1})}, {Ints({2, 1}, {3, 7})}},
      // The outer and the inner dimension: a kept one between two reduced ones.
      {"ReduceSum",
       {Floats({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), Ints({2}, {0, 2})},
       {Floats({2}, {14, 22})},
       drop},
      {"ReduceSum", {Floats({0, 2}, {}), columns}, {Floats({2}, {0, 0})}, drop},
      {"ReduceMean", {x, rows}, {Floats({2, 1}, {2, 5})}},
      {"ReduceMean", {x, columns}, {Floats({1, 3}, {2.5F, 3.5F, 4.5F})}},
      {"ReduceProd", {x, rows}, {Floats({2, 1}, {6, 120})}},
      {"ReduceMax", {x, columns}, {Floats({1, 3}, {4, 5, 6})}},
      {"ReduceMax", {Floats({2, 0}, {}), rows}, {Floats({2}, {-inf, -inf})}, drop},
      {"ReduceMax", {Uint8s({2, 2}, {1, 200, 3, 4}), rows}, {Uint8s({2, 1}, {200, 4})}},
      {"ReduceMin", {x, rows}, {Floats({2, 1}, {1, 4})}},
      {"ReduceL1", {Floats({1, 2}, {-3, 4}), rows}, {Floats({1, 1}, {7})}},
      {"ReduceL2", {Floats({1, 2}, {-3, 4}), rows}, {Floats({1, 1}, {5})}},
      {"ReduceSumSquare", {Floats({1, 2}, {-3, 4}), rows}, {Floats({1, 1}, {25})}},
      {"ReduceLogSum", {Floats({1, 2}, {1, e - 1}), rows}, {Floats({1, 1}, {1})}},
      {"ReduceLogSumExp",
       {Floats({1, 2}, {1000, 1000}), rows},
       {Floats({1, 1}, {1000 + std::log(2.0F)})}},
      {"ReduceLogSumExp", {Floats({1, 2}, {-inf, -inf}), rows}, {Floats({1, 1}, {-inf})}},
  };
}

inline std::vector<OpCase> ArgTopKCumSumCases() {
  const Tensor x = Floats({2, 3}, {3, 1, 3, -1, 5, 2});
  const std::map<std::string, Attribute, std::less<>> last = {{"axis", int64_t{-1}}};
  return {
      {"ArgMax", {x}, {Ints({2, 1}, {0, 1})}, last},
      {"ArgMax",
       {x},
       {Ints({2}, {2, 1})},
       {{"axis", int64_t{1}}, {"select_last_index", int64_t{1}}, {"keepdims", int64_t{0}}}},
      {"ArgMin", {x}, {Ints({1, 3}, {1, 0, 1})}},
      {"TopK", {x, Ints({1}, {2})}, {Floats({2, 2}, {3, 3, 5, 2}), Ints({2, 2}, {0, 2, 1, 2})}},
      {"TopK",
       {x, Ints({1}, {1})},
       {Floats({1, 3}, {-1, 1, 2}), Ints({1, 3}, {1, 0, 1})},
       {{"axis", int64_t{0}}, {"largest", int64_t{0}}}},
      {"CumSum", {x, Ints({}, {1})}, {Floats({2, 3}, {3, 4, 7, -1, 4, 6})}},
      {"CumSum",
       {x, Ints({}, {0})},
       {Floats({2, 3}, {-1, 5, 2, 0, 0, 0})},
       {{"exclusive", int64_t{1}}, {"reverse", int64_t{1}}}},
  };
}

inline std::vector<OpCase> SoftmaxCases() {
  const float e = std::exp(1.0F);
  const Tensor x = Floats({2, 2}, {0, 1, 1001, 1000});
  const float low = 1 / (1 + e);
  const float high = e / (1 + e);
  const std::map<std::string, Attribute, std::less<>> first = {{"axis", int64_t{0}}};
  return {
      {"Softmax", {x}, {Floats({2, 2}, {low, high, high, low})}},
      {"Softmax", {Floats({2, 2}, {0, 1, 1, 0})}, {Floats({2, 2}, {low, high, high, low})}, first},
      {"Softmax",
       {Floats({2, 9}, std::vector<float>(18, 3))},
       {Floats({2, 9}, std::vector<float>(18, 0.5F))},
       first},
      {"LogSoftmax",
       {x},
       {Floats({2, 2}, {std::log(low), std::log(high), std::log(high), std::log(low)})}},
      {"LogSoftmax",
       {Floats({2, 1}, {7, 7})},
       {Floats({2, 1}, {std::log(0.5F), std::log(0.5F)})},
       first},
      {"Hardmax", {Floats({2, 2}, {1, 1, 0, 2})}, {Floats({2, 2}, {1, 0, 0, 1})}},
  };
}

inline std::vector<OpCase> NormalizationCases() {
  // Each row has mean 3 and variance 4.
  const Tensor x = Floats({1, 2, 2}, {1, 5, 5, 1});
  const Tensor normal = Floats({1, 2, 2}, {-1, 1, 1, -1});
  const Tensor twos = Floats({2}, {2, 2});
  const Tensor ones = Floats({2}, {1, 1});
  const Tensor y = Floats({1, 2, 2}, {-1, 3, 3, -1});
  const std::map<std::string, Attribute, std::less<>> exact = {{"epsilon", 0.0F}};
  return {
      {"BatchNormalization",
       {x, twos, ones, Floats({2}, {3, 1}), Floats({2}, {4, 16})},
       {Floats({1, 2, 2}, {-1, 3, 3, 1})},
       exact},
      {"BatchNormalization",
       {x, twos, ones, Floats({2}, {0, 1}), Floats({2}, {1, 0})},
       {y, Floats({2}, {1.5F, 2}), Floats({2}, {2.5F, 2})},
       {{"epsilon", 0.0F}, {"momentum", 0.5F}, {"training_mode", int64_t{1}}}},
      {"InstanceNormalization", {x, twos, ones}, {y}, exact},
      {"GroupNormalization", {x, twos, ones}, {y}, {{"epsilon", 0.0F}, {"num_groups", int64_t{1}}}},
      {"LayerNormalization",
       {x, twos, ones},
       {y, Floats({1, 2, 1}, {3, 3}), Floats({1, 2, 1}, {0.5F, 0.5F})},
       exact},
      {"LayerNormalization", {x, Floats({1}, {2})}, {Floats({1, 2, 2}, {-2, 2, 2, -2})}, exact},
      {"RMSNormalization", {Floats({1, 2}, {1, 7}), ones}, {Floats({1, 2}, {0.2F, 1.4F})}, exact},
      {"LpNormalization", {Floats({1, 2}, {3, -4})}, {Floats({1, 2}, {0.6F, -0.8F})}},
      {"LpNormalization",
       {Floats({2, 2}, {3, 0, -1, 0})},
       {Floats({2, 2}, {0.75F, 0, -0.25F, 0})},
       {{"p", int64_t{1}}, {"axis", int64_t{0}}}},
      {"MeanVarianceNormalization", {x}, {normal}, {{"axes", std::vector<int64_t>{2}}}},
      {"MeanVarianceNormalization", {x}, {normal}, {{"axes", std::vector<int64_t>{1}}}},
      // A window of the channel itself and the next one.
      {"LRN",
       {Floats({1, 2, 1}, {1, 2})},
       {Floats({1, 2, 1}, {1 / 6.0F, 2 / 5.0F})},
       {{"size", int64_t{2}}, {"alpha", 2.0F}, {"beta", 1.0F}, {"bias", 1.0F}}},
  };
}

inline std::vector<OpCase> LossCases() {
  const Tensor log_p = Floats({2, 2}, {-1, -2, -3, -4});
  const Tensor target = Ints({2}, {1, 0});
  const Tensor zeros = Floats({2, 2}, {0, 0, 0, 0});
  const float log2 = std::log(2.0F);
  return {
      {"NegativeLogLikelihoodLoss", {log_p, target}, {Floats({}, {2.5F})}},
      {"NegativeLogLikelihoodLoss",
       {log_p, target, Floats({2}, {1, 3})},
       {Floats({2}, {6, 3})},
       {{"reduction", std::string("none")}}},
      {"NegativeLogLikelihoodLoss",
       {log_p, Int32s({2}, {1, 0})},
       {Floats({}, {3})},
       {{"reduction", std::string("sum")}, {"ignore_index", int64_t{1}}}},
      {"SoftmaxCrossEntropyLoss", {zeros, target}, {Floats({}, {log2})}},
      {"SoftmaxCrossEntropyLoss",
       {zeros, target},
       {Floats({}, {2 * log2}), Floats({2, 2}, {-log2, -log2, -log2, -log2})},
       {{"reduction", std::string("sum")}}},
  };
}

}  // namespace onnx_memplan::cases

#endif  // ONNX_MEMPLAN_TESTS_OPS_CASES_REDUCTION_H_
