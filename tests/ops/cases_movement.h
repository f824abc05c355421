// Cases of operators that move elements: views, transposition, slicing, joining, indexing.
#ifndef ONNX_MEMPLAN_TESTS_OPS_CASES_MOVEMENT_H_
#define ONNX_MEMPLAN_TESTS_OPS_CASES_MOVEMENT_H_

#include "ops/cases.h"

namespace onnx_memplan::cases {

inline std::vector<OpCase> ShapeCases() {
  const Tensor x = Floats({2, 3}, {1, 2, 3, 4, 5, 6});
  return {
      {"Reshape", {x, Ints({2}, {3, -1})}, {Floats({3, 2}, {1, 2, 3, 4, 5, 6})}},
      {"Reshape", {x, Ints({3}, {0, 1, 3})}, {Floats({2, 1, 3}, {1, 2, 3, 4, 5, 6})}},
      {"Flatten", {x}, {Floats({1, 6}, {1, 2, 3, 4, 5, 6})}, {{"axis", int64_t{0}}}},
      {"Flatten", {x}, {x}, {{"axis", int64_t{-1}}}},
      {"Squeeze", {Ints({1, 2, 1}, {7, 8}), Ints({1}, {-1})}, {Ints({1, 2}, {7, 8})}},
      {"Squeeze", {Ints({1, 2, 1}, {7, 8})}, {Ints({2}, {7, 8})}},
      {"Unsqueeze", {x, Ints({2}, {-1, 0})}, {Floats({1, 2, 3, 1}, {1, 2, 3, 4, 5, 6})}},
      {"Identity", {Bools({3}, {1, 0, 1})}, {Bools({3}, {1, 0, 1})}},
      {"Shape", {x}, {Ints({2}, {2, 3})}},
      {"Shape", {x}, {Ints({1}, {3})}, {{"start", int64_t{-1}}}},
      {"Shape", {x}, {Ints({0}, {})}, {{"start", int64_t{1}}, {"end", int64_t{-9}}}},
      {"Size", {x}, {Ints({}, {6})}},
  };
}

inline std::vector<OpCase> TransposeCases() {
  const Tensor x = Floats({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor depth = Uint8s({1, 8, 1, 1}, {0, 1, 2, 3, 4, 5, 6, 7});
  return {
      {"Transpose", {x}, {Floats({3, 2}, {1, 4, 2, 5, 3, 6})}},
      {"Transpose",
       {Uint8s({2, 1, 2}, {1, 2, 3, 4})},
       {Uint8s({1, 2, 2}, {1, 2, 3, 4})},
       {{"perm", std::vector<int64_t>{1, 0, 2}}}},
      {"Transpose",
       {Int8s({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8})},
       {Int8s({2, 2, 2}, {1, 5, 3, 7, 2, 6, 4, 8})},
       {{"perm", std::vector<int64_t>{2, 1, 0}}}},
      {"DepthToSpace",
       {depth},
       {Uint8s({1, 2, 2, 2}, {0, 2, 4, 6, 1, 3, 5, 7})},
       {{"blocksize", int64_t{2}}}},
      {"DepthToSpace",
       {depth},
       {Uint8s({1, 2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7})},
       {{"blocksize", int64_t{2}}, {"mode", std::string("CRD")}}},
      {"SpaceToDepth",
       {Uint8s({1, 2, 2, 2}, {0, 2, 4, 6, 1, 3, 5, 7})},
       {depth},
       {{"blocksize", int64_t{2}}}},
  };
}

inline std::vector<OpCase> SlicePadCases() {
  const Tensor x = Floats({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor row = Floats({1, 3}, {1, 2, 3});
  const Tensor pads = Ints({4}, {0, 2, 0, 2});
  const auto mode = [](const char* name) -> Attributes { return {{"mode", std::string(name)}}; };
  return {
      {"Slice", {x, Ints({1}, {1}), Ints({1}, {9})}, {Floats({1, 3}, {4, 5, 6})}},
      {"Slice",
       {x, Ints({1}, {-1}), Ints({1}, {INT64_MIN}), Ints({1}, {1}), Ints({1}, {-2})},
       {Floats({2, 2}, {3, 1, 6, 4})}},
      {"Slice",
       {x, Int32s({2}, {0, 1}), Int32s({2}, {2, 2}), Int32s({2}, {0, -1})},
       {Floats({2, 1}, {2, 5})}},
      {"Slice", {x, Ints({1}, {5}), Ints({1}, {9})}, {Floats({0, 3}, {})}},
      {"Pad", {row, pads}, {Floats({1, 7}, {0, 0, 1, 2, 3, 0, 0})}},
      {"Pad", {row, pads, ScalarFloat(7)}, {Floats({1, 7}, {7, 7, 1, 2, 3, 7, 7})}},
      {"Pad", {row, pads}, {Floats({1, 7}, {3, 2, 1, 2, 3, 2, 1})}, mode("reflect")},
      {"Pad", {row, pads}, {Floats({1, 7}, {1, 1, 1, 2, 3, 3, 3})}, mode("edge")},
      {"Pad", {row, pads}, {Floats({1, 7}, {2, 3, 1, 2, 3, 1, 2})}, mode("wrap")},
      {"Pad",
       {x, Ints({2}, {-1, 1}), std::nullopt, Ints({1}, {0})},
       {Floats({2, 3}, {4, 5, 6, 0, 0, 0})}},
      {"Pad", {x, Ints({4}, {-1, 0, 0, -1})}, {Floats({1, 2}, {4, 5})}},
      {"CenterCropPad", {x, Ints({2}, {4, 2})}, {Floats({4, 2}, {0, 0, 1, 2, 4, 5, 0, 0})}},
      {"CenterCropPad",
       {Floats({4}, {1, 2, 3, 4}), Ints({1}, {1})},
       {Floats({1}, {2})},
       {{"axes", std::vector<int64_t>{0}}}},
  };
}

inline std::vector<OpCase> ConcatSplitCases() {
  const Tensor a = Floats({1, 2}, {1, 2});
  const Tensor b = Floats({2, 2}, {3, 4, 5, 6});
  const Tensor x = Floats({2, 3}, {1, 2, 3, 4, 5, 6});
  const Attributes first = {{"axis", int64_t{0}}};
  const Attributes last = {{"axis", int64_t{-1}}};
  return {
      {"Concat", {a, b}, {Floats({3, 2}, {1, 2, 3, 4, 5, 6})}, first},
      {"Concat", {b, b}, {Floats({2, 4}, {3, 4, 3, 4, 5, 6, 5, 6})}, last},
      {"Concat", {a, a, Floats({1, 1}, {9})}, {Floats({1, 5}, {1, 2, 1, 2, 9})}, last},
      {"Concat", {b}, {b}, first},
      {"Split", {x}, {Floats({1, 3}, {1, 2, 3}), Floats({1, 3}, {4, 5, 6})}},
      {"Split",
       {x, Ints({2}, {1, 2})},
       {Floats({2, 1}, {1, 4}), Floats({2, 2}, {2, 3, 5, 6})},
       last},
      {"Split",
       {Floats({5}, {1, 2, 3, 4, 5})},
       {Floats({2}, {1, 2}), Tensor(), Floats({1}, {5})},
       {{"num_outputs", int64_t{3}}}},
  };
}

inline std::vector<OpCase> TileExpandCases() {
  const Tensor x = Floats({2, 1}, {1, 2});
  return {
      {"Expand", {x, Ints({2}, {1, 3})}, {Floats({2, 3}, {1, 1, 1, 2, 2, 2})}},
      {"Expand", {x, Ints({3}, {2, 1, 1})}, {Floats({2, 2, 1}, {1, 2, 1, 2})}},
      {"Expand", {x, Ints({1}, {1})}, {x}},
      {"Tile", {x, Ints({2}, {2, 2})}, {Floats({4, 2}, {1, 1, 2, 2, 1, 1, 2, 2})}},
      {"Tile", {x, Ints({2}, {0, 2})}, {Floats({0, 2}, {})}},
      {"Tile", {x, Ints({2}, {1, 1})}, {x}},
  };
}

inline std::vector<OpCase> GatherCases() {
  const Tensor x = Floats({2, 3}, {1, 2, 3, 4, 5, 6});
  const Attributes last = {{"axis", int64_t{1}}};
  return {
      {"Gather", {x, Ints({}, {-1})}, {Floats({3}, {4, 5, 6})}},
      {"Gather", {x, Int32s({3}, {2, 0, -2})}, {Floats({2, 3}, {3, 1, 2, 6, 4, 5})}, last},
      {"Gather", {x, Ints({1, 2}, {0, 2})}, {Floats({2, 1, 2}, {1, 3, 4, 6})}, last},
      {"GatherElements", {x, Ints({2, 2}, {2, -3, 0, 1})}, {Floats({2, 2}, {3, 1, 4, 5})}, last},
      {"GatherElements", {x, Int32s({1, 2}, {1, 0})}, {Floats({1, 2}, {4, 2})}},
      {"GatherND", {x, Ints({2, 2}, {1, -1, 0, 0})}, {Floats({2}, {6, 1})}},
      {"GatherND", {x, Ints({2, 1}, {0, 2})}, {Floats({2}, {1, 6})}, {{"batch_dims", int64_t{1}}}},
      {"Compress", {x, Bools({3}, {1, 0, 1})}, {Floats({2, 2}, {1, 3, 4, 6})}, last},
      {"Compress", {x, Bools({4}, {0, 1, 0, 1})}, {Floats({2}, {2, 4})}},
      {"ReverseSequence",
       {Floats({3, 2}, {1, 2, 3, 4, 5, 6}), Ints({2}, {2, 3})},
       {Floats({3, 2}, {3, 6, 1, 4, 5, 2})}},
      {"ReverseSequence",
       {x, Ints({2}, {2, 1})},
       {Floats({2, 3}, {2, 1, 3, 4, 5, 6})},
       {{"batch_axis", int64_t{0}}, {"time_axis", int64_t{1}}}},
  };
}

inline std::vector<OpCase> ScatterCases() {
  const Tensor x = Floats({2, 2}, {1, 2, 3, 4});
  const Tensor updates = Floats({1, 2}, {10, 20});
  const auto by = [](const char* reduction) -> Attributes {
    return {{"reduction", std::string(reduction)}};
  };
  return {
      {"ScatterElements", {x, Ints({1, 2}, {1, -2}), updates}, {Floats({2, 2}, {1, 20, 10, 4})}},
      {"ScatterElements",
       {x, Int32s({1, 2}, {0, 0}), updates},
       {Floats({2, 2}, {31, 2, 3, 4})},
       {{"axis", int64_t{1}}, {"reduction", std::string("add")}}},
      {"ScatterElements",
       {x, Ints({1, 2}, {1, 0}), updates},
       {Floats({2, 2}, {1, 40, 30, 4})},
       by("mul")},
      {"ScatterND",
       {x, Ints({2, 2}, {1, 1, 0, -1}), Floats({2}, {10, 20})},
       {Floats({2, 2}, {1, 20, 3, 10})}},
      {"ScatterND",
       {x, Ints({2, 1}, {1, 1}), Floats({2, 2}, {10, 2, 5, 20})},
       {Floats({2, 2}, {1, 2, 10, 20})},
       by("max")},
      {"ScatterND",
       {x, Ints({1, 1}, {0}), Floats({1, 2}, {0, 9})},
       {Floats({2, 2}, {0, 2, 3, 4})},
       by("min")},
  };
}

}  // namespace onnx_memplan::cases

#endif  // ONNX_MEMPLAN_TESTS_OPS_CASES_MOVEMENT_H_
