// Properties that every operator of the table has, over the shared case table.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "ops/all_cases.h"
#include "ops/cases.h"
#include "ops/op_def.h"
#include "ops/parallel_axis.h"
#include "ops/target.h"

namespace onnx_memplan {
namespace {

using cases::AllCases;
using cases::Build;
using cases::CaseGraph;
using cases::InferOutputs;
using cases::OpCase;

// Memory with guards before and after, filled with a pattern that is no sensible number.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(int64_t bytes)
      : bytes_(static_cast<size_t>(bytes)),
        memory_(new std::byte[bytes_ + 3 * kGuard], std::default_delete<std::byte[]>()) {
    std::memset(memory_.get(), 0xa5, bytes_ + 3 * kGuard);
    const auto address = reinterpret_cast<uintptr_t>(memory_.get()) + kGuard;
    data_ = memory_.get() + kGuard + (kGuard - address % kGuard) % kGuard;
  }
  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  bool GuardsIntact() const {
    for (size_t i = 1; i <= kGuard; ++i) {
      if (*(data_ - i) != std::byte{0xa5} || data_[bytes_ + i - 1] != std::byte{0xa5}) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kGuard = 64;
  size_t bytes_;
  std::shared_ptr<std::byte> memory_;
  std::byte* data_ = nullptr;
};

std::vector<Alias> AliasesOf(const CaseGraph& built) {
  const OpDef* def = FindOp(built.node().op_type, built.node().domain);
  return def->aliases == nullptr ? std::vector<Alias>{}
                                 : def->aliases(NodeContext(built.graph, built.node()));
}

std::string Name(const OpCase& row) {
  std::string name = row.op;
  for (const std::optional<Tensor>& input : row.inputs) {
    name += input ? " " + input->type().ToString() : " nothing";
  }
  return name;
}

// The bytes of each output after a run in which `alias`, if any, shares memory.
std::vector<std::string> RunCase(const CaseGraph& built, const Lowering& lowering,
                                 const Alias* alias) {
  const Node& node = built.node();
  std::map<ValueId, GuardedBuffer> buffers;
  const auto buffer_of = [&](ValueId id) -> GuardedBuffer& {
    return buffers.try_emplace(id, built.value(id).type->Bytes()).first->second;
  };
  std::map<ValueId, std::byte*> places;
  for (const ValueId id : node.outputs) {
    if (id != kNoValue) places[id] = buffer_of(id).data();
  }
  for (const ValueId id : node.inputs) {
    if (id != kNoValue) places[id] = buffer_of(id).data();
  }
  if (alias != nullptr) {
    const ValueId input = node.inputs[static_cast<size_t>(alias->input)];
    const ValueId output = node.outputs[static_cast<size_t>(alias->output)];
    if (alias->kind == Alias::Kind::kPart) {
      places[input] = places[output] + alias->byte_offset;
    } else {
      places[output] = places[input] + alias->byte_offset;
    }
  }
  std::vector<const std::byte*> inputs;
  for (const ValueId id : node.inputs) {
    inputs.push_back(id == kNoValue ? nullptr : places[id]);
    if (id == kNoValue) continue;
    std::memcpy(places[id], built.value(id).constant->data(),
                static_cast<size_t>(built.value(id).type->Bytes()));
  }
  std::vector<std::byte*> outputs;
  for (const ValueId id : node.outputs) outputs.push_back(id == kNoValue ? nullptr : places[id]);
  const GuardedBuffer scratch(lowering.scratch_bytes);
  for (const KernelCall& call : lowering.calls) {
    InvokeOnHost(call, inputs, outputs, scratch.data());
  }

  EXPECT_TRUE(scratch.GuardsIntact());
  for (const auto& [id, buffer] : buffers) {
    EXPECT_TRUE(buffer.GuardsIntact()) << built.value(id).name;
    if (alias == nullptr && built.value(id).constant) {
      EXPECT_EQ(std::memcmp(buffer.data(), built.value(id).constant->data(), buffer.bytes()), 0)
          << "wrote over " << built.value(id).name;
    }
  }
  std::vector<std::string> results;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i] == nullptr) {
      results.emplace_back();
      continue;
    }
    const auto bytes = static_cast<size_t>(built.value(node.outputs[i]).type->Bytes());
    results.emplace_back(reinterpret_cast<const char*>(outputs[i]), bytes);
  }
  return results;
}

template <class T>
void ExpectClose(std::span<const T> expected, std::span<const T> actual, double tolerance) {
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto e = static_cast<double>(expected[i]);
    const auto a = static_cast<double>(actual[i]);
    const bool same = (std::isnan(e) && std::isnan(a)) || e == a;
    const bool close = std::abs(e - a) <= tolerance * std::fmax(1, std::abs(e));
    EXPECT_TRUE(same || close) << "element " << i << ": expected " << e << ", got " << a;
  }
}

void ExpectClose(const Tensor& expected, const std::string& bytes, double tolerance) {
  std::byte* data = nullptr;
  const Tensor actual = Tensor::Zeros(expected.type(), &data);
  std::memcpy(data, bytes.data(), bytes.size());
  if (expected.dtype() == DType::kFloat) {
    ExpectClose(expected.As<float>(), actual.As<float>(), tolerance);
  } else if (expected.dtype() == DType::kDouble) {
    ExpectClose(expected.As<double>(), actual.As<double>(), tolerance);
  } else {
    EXPECT_EQ(expected.ToInt64s(), actual.ToInt64s());
  }
}

TEST(OpTableTest, IsSortedWithoutDuplicatesAndComplete) {
  const OpDef* previous = nullptr;
  for (const OpDef* def : OpTable()) {
    SCOPED_TRACE(std::string(def->type));
    EXPECT_NE(def->infer, nullptr);
    EXPECT_NE(def->lower, nullptr);
    EXPECT_LE(def->min_inputs, def->max_inputs);
    EXPECT_LE(def->min_outputs, def->max_outputs);
    EXPECT_EQ(FindOp(def->type, def->domain), def);
    if (previous != nullptr) {
      EXPECT_LT(std::pair(previous->domain, previous->type), std::pair(def->domain, def->type));
    }
    previous = def;
  }
}

TEST(OpTableTest, EveryOperatorHasACase) {
  std::set<std::pair<std::string, std::string>> covered;
  for (const OpCase& row : AllCases()) covered.emplace(row.domain, row.op);
  for (const OpDef* def : OpTable()) {
    EXPECT_TRUE(covered.contains({std::string(def->domain), std::string(def->type)}))
        << def->domain << (def->domain.empty() ? "" : ":") << def->type
        << " has no row in tests/ops/cases_*.h";
  }
}

TEST(OpTableTest, EveryCaseGivesTheExpectedTypesAndValues) {
  for (const OpCase& row : AllCases()) {
    SCOPED_TRACE(Name(row));
    CaseGraph built = Build(row);
    const absl::Status inferred = InferOutputs(built);
    ASSERT_TRUE(inferred.ok()) << inferred;
    for (const Target& target : BuiltinTargets()) {
      SCOPED_TRACE(target.name);
      const absl::StatusOr<Lowering> lowering = LowerNode(built.graph, built.node(), target);
      ASSERT_TRUE(lowering.ok()) << lowering.status();
      const std::vector<std::string> outputs = RunCase(built, *lowering, nullptr);
      for (size_t i = 0; i < outputs.size(); ++i) {
        SCOPED_TRACE("output " + std::to_string(i));
        const ValueId id = built.node().outputs[i];
        if (id == kNoValue) continue;
        ASSERT_EQ(*built.value(id).type, row.expected[i].type());
        ExpectClose(row.expected[i], outputs[i], row.tolerance);
      }
    }
  }
}

TEST(OpTableTest, SharedMemoryThatIsOfferedGivesTheSameBits) {
  int pairs = 0;
  for (const OpCase& row : AllCases()) {
    SCOPED_TRACE(Name(row));
    CaseGraph built = Build(row);
    ASSERT_TRUE(InferOutputs(built).ok());
    for (const Target& target : BuiltinTargets()) {
      const absl::StatusOr<Lowering> lowering = LowerNode(built.graph, built.node(), target);
      ASSERT_TRUE(lowering.ok()) << lowering.status();
      const std::vector<std::string> apart = RunCase(built, *lowering, nullptr);
      for (const Alias& alias : AliasesOf(built)) {
        if (built.node().outputs[static_cast<size_t>(alias.output)] == kNoValue) continue;
        SCOPED_TRACE("output " + std::to_string(alias.output) + " over input " +
                     std::to_string(alias.input) + " for " + target.name);
        EXPECT_EQ(apart, RunCase(built, *lowering, &alias));
        ++pairs;
      }
    }
  }
  EXPECT_GT(pairs, 200);
}

TEST(OpTableTest, PartsForThreadsGiveTheSameBitsInAnyOrderAndInPlace) {
  std::set<std::string> shared_kernels;
  for (const OpCase& row : AllCases()) {
    SCOPED_TRACE(Name(row));
    CaseGraph built = Build(row);
    ASSERT_TRUE(InferOutputs(built).ok());
    const std::vector<Alias> aliases = AliasesOf(built);
    for (const Target& target : BuiltinTargets()) {
      absl::StatusOr<Lowering> lowering = LowerNode(built.graph, built.node(), target);
      ASSERT_TRUE(lowering.ok()) << lowering.status();
      const std::vector<std::string> whole = RunCase(built, *lowering, nullptr);
      for (const int32_t threads : {2, 3, 8}) {
        Lowering shared = *lowering;
        SplitCalls(threads, target.arena_alignment, aliases, shared, /*least_work=*/1);
        for (KernelCall& call : shared.calls) {
          if (call.parts.empty()) continue;
          ASSERT_LE(call.parts.size(), threads);
          shared_kernels.insert(call.name.substr(0, call.name.find('<')));
          std::reverse(call.parts.begin(), call.parts.end());
        }
        SCOPED_TRACE(std::to_string(threads) + " threads, " + target.name);
        EXPECT_EQ(whole, RunCase(built, shared, nullptr));
        for (const Alias& alias : aliases) {
          if (built.node().outputs[static_cast<size_t>(alias.output)] == kNoValue) continue;
          EXPECT_EQ(whole, RunCase(built, shared, &alias));
        }
      }
    }
  }
  EXPECT_GE(shared_kernels.size(), 8);
}

TEST(OpTableTest, OtherElementTypesAreComputedOrRefusedButNeverCrash) {
  for (const OpCase& row : AllCases()) {
    SCOPED_TRACE(Name(row));
    for (size_t changed = 0; changed < row.inputs.size(); ++changed) {
      if (!row.inputs[changed]) continue;
      for (int type = 0; type <= static_cast<int>(DType::kBool); ++type) {
        OpCase other = row;
        std::byte* data = nullptr;
        const auto dtype = static_cast<DType>(type);
        other.inputs[changed] = Tensor::Zeros({dtype, row.inputs[changed]->shape()}, &data);
        CaseGraph built = Build(other);
        if (!InferOutputs(built).ok()) continue;
        for (const Target& target : BuiltinTargets()) {
          const absl::StatusOr<Lowering> lowering = LowerNode(built.graph, built.node(), target);
          if (lowering.ok()) RunCase(built, *lowering, nullptr);
        }
      }
    }
  }
}

}  // namespace
}  // namespace onnx_memplan
