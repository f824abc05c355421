#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "load/adapters.h"

namespace onnx_memplan {
namespace {

// Versions below `until` (and not below the `until` of the entry before) are rewritten.
struct Change {
  int64_t until;
  Adapter adapter;
};

// Operators whose meaning or inputs changed between opset 1 and kCanonicalOpset, changes ascending.
// What is not here never changed in a way that matters, or only gained element types, optional
// inputs, or attributes whose default is the old meaning.
//
// Axes as an attribute are taken in any opset: tools that edit graphs (Deeploy's) leave them behind
// when they set a newer one, and what they mean is not in doubt.
const std::map<std::string, std::vector<Change>, std::less<>>& Changes() {
  using namespace adapters;  // NOLINT(google-build-using-namespace): a table of their names
  static const auto* const kChanges = new std::map<std::string, std::vector<Change>, std::less<>>{
      {"Add", {{7, LegacyBroadcast}}},
      {"And", {{7, LegacyBroadcast}}},
      {"BatchNormalization", {{14, BatchNormalizationOld}}},
      {"Cast", {{6, CastFromName}}},
      {"Clip", {{11, ClipToInputs}}},
      {"Concat", {{4, ConcatDefaultAxis}}},
      {"DFT", {{20, DftAxisToInput}}},
      {"Div", {{7, LegacyBroadcast}}},
      {"Dropout", {{12, DropoutOld}}},
      {"Equal", {{7, LegacyBroadcast}}},
      {"GRU", {{7, Refuse}}},
      {"Gemm", {{7, GemmBroadcast}}},
      {"GlobalLpPool", {{2, LpPoolIntegerP}}},
      {"Greater", {{7, LegacyBroadcast}}},
      {"GridSample", {{20, GridSampleModes}}},
      {"GroupNormalization", {{21, GroupNormalizationByGroup}}},
      {"Hardmax", {{13, SoftmaxOfFlattened}}},
      {"LSTM", {{7, Refuse}}},
      {"Less", {{7, LegacyBroadcast}}},
      {"LogSoftmax", {{13, SoftmaxOfFlattened}}},
      {"LpPool", {{2, LpPoolIntegerP}}},
      {"Mul", {{7, LegacyBroadcast}}},
      {"Or", {{7, LegacyBroadcast}}},
      {"PRelu", {{7, PReluByChannel}}},
      {"Pad", {{11, PadToInputs}}},
      {"Pow", {{7, LegacyBroadcast}}},
      {"RNN", {{7, Refuse}}},
      {"ReduceL1", {{kCanonicalOpset + 1, AxesToInput}}},
      {"ReduceL2", {{kCanonicalOpset + 1, AxesToInput}}},
      {"ReduceLogSum", {{kCanonicalOpset + 1, AxesToInput}}},
      {"ReduceLogSumExp", {{kCanonicalOpset + 1, AxesToInput}}},
      {"ReduceMax", {{kCanonicalOpset + 1, AxesToInput}}},
      {"ReduceMean", {{kCanonicalOpset + 1, AxesToInput}}},
      {"ReduceMin", {{kCanonicalOpset + 1, AxesToInput}}},
      {"ReduceProd", {{kCanonicalOpset + 1, AxesToInput}}},
      {"ReduceSum", {{kCanonicalOpset + 1, AxesToInput}}},
      {"ReduceSumSquare", {{kCanonicalOpset + 1, AxesToInput}}},
      {"Reshape", {{5, ReshapeShapeToInput}}},
      {"Resize", {{11, Resize10}, {13, ResizeOptionalInputs}}},
      {"RoiAlign", {{16, RoiAlignOutputHalfPixel}}},
      {"Scan", {{9, Refuse}}},
      {"Scatter", {{kCanonicalOpset + 1, ScatterToScatterElements}}},
      {"Selu", {{6, SeluDefaults}}},
      {"Slice", {{10, SliceToInputs}}},
      {"Softmax", {{13, SoftmaxOfFlattened}}},
      {"Split", {{18, SplitToInput}}},
      {"Squeeze", {{kCanonicalOpset + 1, AxesToInput}}},
      {"Sub", {{7, LegacyBroadcast}}},
      {"Tile", {{6, Refuse}}},
      {"TopK", {{10, TopKToInput}}},
      {"Unsqueeze", {{kCanonicalOpset + 1, AxesToInput}}},
      {"Upsample", {{kCanonicalOpset + 1, UpsampleToResize}}},
      {"Xor", {{7, LegacyBroadcast}}},
  };
  return *kChanges;
}

}  // namespace

absl::StatusOr<Adapter> FindAdapter(const std::string& op_type, int64_t opset) {
  if (opset < 1 || opset > kCanonicalOpset) {
    return absl::UnimplementedError(absl::StrCat("the version is not known; opsets ", kOldestOpset,
                                                 " to ", kCanonicalOpset, " are"));
  }
  const auto it = Changes().find(op_type);
  if (it == Changes().end()) return Adapter{nullptr};
  for (const Change& change : it->second) {
    if (opset < change.until) return change.adapter;
  }
  return Adapter{nullptr};
}

}  // namespace onnx_memplan
