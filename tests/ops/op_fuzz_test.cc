// Mutated rows of the case table: whatever a file may hold, an operator refuses it or runs it
// within its tensors. Most useful under AddressSanitizer and UndefinedBehaviorSanitizer.
#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "ops/all_cases.h"
#include "ops/op_def.h"
#include "ops/run_node.h"

namespace onnx_memplan {
namespace {

using cases::OpCase;

constexpr int64_t kAbsurd[] = {0,         1,         -1,          2,         -2,        3,
                               7,         -7,        100,         INT32_MAX, INT32_MIN, INT64_MAX,
                               INT64_MIN, 1 << 16,   -65537,      1LL << 31, 1LL << 32, 1LL << 40,
                               1LL << 61, 1LL << 62, -(1LL << 62)};

class Mutator {
 public:
  explicit Mutator(uint32_t seed) : random_(seed) {}

  void Mutate(OpCase* row) {
    const int64_t changes = RandomInt(1, 3, random_);
    for (int64_t i = 0; i < changes; ++i) {
      switch (RandomInt(0, 4, random_)) {
        case 0:
          MutateAttribute(row);
          break;
        case 1:
          MutateShape(row);
          break;
        case 2:
          DropInput(row);
          break;
        default:
          MutateData(row);
          break;
      }
    }
  }

 private:
  int64_t AnyInt() {
    return kAbsurd[static_cast<size_t>(RandomInt(0, std::size(kAbsurd) - 1, random_))];
  }
  float AnyFloat() {
    constexpr float kInf = std::numeric_limits<float>::infinity();
    constexpr float kFloats[] = {0, -1, 0.5F, 3, 1e30F, -1e30F, 1e-30F, 1e9F, kInf, -kInf, NAN};
    return kFloats[static_cast<size_t>(RandomInt(0, std::size(kFloats) - 1, random_))];
  }
  bool Coin() { return RandomInt(0, 1, random_) == 1; }

  void MutateAttribute(OpCase* row) {
    if (row->attributes.empty()) return;
    auto it = row->attributes.begin();
    std::advance(it, RandomInt(0, static_cast<int64_t>(row->attributes.size()) - 1, random_));
    if (auto* value = std::get_if<int64_t>(&it->second)) {
      *value = AnyInt();
    } else if (auto* real = std::get_if<float>(&it->second)) {
      *real = AnyFloat();
    } else if (auto* list = std::get_if<std::vector<int64_t>>(&it->second)) {
      if (Coin() && !list->empty()) {
        (*list)[static_cast<size_t>(
            RandomInt(0, static_cast<int64_t>(list->size()) - 1, random_))] = AnyInt();
      } else {
        list->resize(static_cast<size_t>(RandomInt(0, 5, random_)), AnyInt());
      }
    } else {
      row->attributes.erase(it);
    }
  }

  std::optional<Tensor>* AnyInput(OpCase* row) {
    if (row->inputs.empty()) return nullptr;
    auto& input = row->inputs[static_cast<size_t>(
        RandomInt(0, static_cast<int64_t>(row->inputs.size()) - 1, random_))];
    return input ? &input : nullptr;
  }

  // Another shape of at most a few thousand elements, the old elements over and over.
  void MutateShape(OpCase* row) {
    std::optional<Tensor>* input = AnyInput(row);
    if (input == nullptr) return;
    Shape shape = (*input)->shape();
    if (Coin() || shape.empty()) {
      const int64_t rank = RandomInt(0, 9, random_);
      shape.assign(static_cast<size_t>(rank), 1);
      for (int64_t& dim : shape) dim = RandomInt(0, 3, random_);
    } else {
      auto& dim =
          shape[static_cast<size_t>(RandomInt(0, static_cast<int64_t>(shape.size()) - 1, random_))];
      dim = Coin() ? 0 : RandomInt(1, 9, random_);
      // An empty tensor may have any other dimensions.
      if (dim == 0 && Coin()) {
        shape[static_cast<size_t>(RandomInt(0, static_cast<int64_t>(shape.size()) - 1, random_))] =
            std::max(int64_t{0}, AnyInt());
      }
    }
    const std::optional<int64_t> count = CheckedNumElements(shape);
    if (!count || *count > 4096) return;
    std::byte* data = nullptr;
    const Tensor& old = **input;
    Tensor changed = Tensor::Zeros({old.dtype(), shape}, &data);
    const auto bytes = static_cast<size_t>(changed.Bytes());
    const auto old_bytes = static_cast<size_t>(old.Bytes());
    for (size_t at = 0; old_bytes != 0 && at < bytes; at += old_bytes) {
      std::memcpy(data + at, old.data(), std::min(old_bytes, bytes - at));
    }
    *input = changed;
  }

  void DropInput(OpCase* row) {
    if (!row->inputs.empty() && Coin()) row->inputs.pop_back();
  }

  template <class T>
  void Overwrite(const Tensor& old, T value, std::optional<Tensor>* input) {
    std::byte* data = nullptr;
    Tensor changed = Tensor::Zeros(old.type(), &data);
    std::memcpy(data, old.data(), static_cast<size_t>(old.Bytes()));
    const int64_t at = RandomInt(0, old.NumElements() - 1, random_);
    std::memcpy(data + at * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
    *input = changed;
  }

  void MutateData(OpCase* row) {
    std::optional<Tensor>* input = AnyInput(row);
    if (input == nullptr || (*input)->NumElements() == 0) return;
    const Tensor old = **input;
    switch (old.dtype()) {
      case DType::kInt64:
        return Overwrite(old, AnyInt(), input);
      case DType::kInt32:
        return Overwrite(old, static_cast<int32_t>(AnyInt()), input);
      case DType::kFloat:
        return Overwrite(old, AnyFloat(), input);
      case DType::kDouble:
        return Overwrite(old, static_cast<double>(AnyFloat()), input);
      default:
        return;
    }
  }

  std::mt19937 random_;
};

// Infers, and where that succeeds with a result of a sensible size, asks for the aliases, lowers
// and runs. `known`: inputs are constants.
void Exercise(const OpCase& row, bool known) {
  cases::CaseGraph built = cases::Build(row);
  if (!known) {
    for (Value& value : built.graph.values) value.constant.reset();
  }
  if (!cases::InferOutputs(built).ok()) return;
  int64_t bytes = 0;
  for (const ValueId id : built.node().outputs) {
    if (id != kNoValue) bytes = std::max(bytes, built.value(id).type->Bytes());
  }
  const OpDef* def = FindOp(row.op, row.domain);
  const NodeContext context(built.graph, built.node());
  if (def->aliases != nullptr) {
    for (const Alias& alias : def->aliases(context)) {
      const int64_t in = context.InputType(alias.input).Bytes();
      const int64_t out = context.OutputType(alias.output).Bytes();
      EXPECT_GE(alias.byte_offset, 0);
      // A view lies within its input, a part within its output.
      EXPECT_LE(alias.byte_offset + (alias.kind == Alias::Kind::kView ? out : in),
                alias.kind == Alias::Kind::kView ? in : out);
    }
  }
  const absl::StatusOr<Lowering> lowering =
      LowerNode(built.graph, built.node(), BuiltinTargets().front());
  if (!lowering.ok()) return;
  EXPECT_GE(lowering->scratch_bytes, 0);
  if (known && bytes <= (1 << 20) && lowering->scratch_bytes <= (1 << 20)) {
    EXPECT_TRUE(EvaluateNode(built.graph, built.node()).ok());
  }
}

TEST(OpFuzzTest, MutatedNodesAreRefusedOrRunWithinTheirTensors) {
  const std::vector<OpCase> rows = cases::AllCases();
  constexpr uint32_t kRounds = 40;
  for (uint32_t round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < rows.size(); ++i) {
      const uint32_t seed = round * 1000 + static_cast<uint32_t>(i);
      SCOPED_TRACE(rows[i].op + ", seed " + std::to_string(seed));
      OpCase row = rows[i];
      Mutator(seed).Mutate(&row);
      Exercise(row, true);
      Exercise(row, false);
    }
  }
}

}  // namespace
}  // namespace onnx_memplan
