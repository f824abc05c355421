// Regions of nodes that can work on blocks of channels are found first; a region is converted as a
// whole, so that images change their layout at its borders only.
#include "passes/block_channels.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ops/blocked.h"
#include "ops/op_def.h"
#include "passes/blocked_rule.h"
#include "passes/blocked_rules.h"
#include "passes/match.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

class Regions {
 public:
  Regions(GraphEditor& editor, int64_t macs_per_converted_element)
      : editor_(editor), plans_(Count()), parent_(Count()) {
    std::iota(parent_.begin(), parent_.end(), size_t{0});
    for (int32_t n = 0; n < editor_.num_nodes(); ++n) {
      if (editor_.alive(n)) plans_[Index(n)] = PlanBlocked(editor_, n);
    }
    DropLeadingNodes();
    for (int32_t n = 0; n < editor_.num_nodes(); ++n) {
      for (const ValueId v : ImagesOf(n)) {
        const int32_t producer = MemberThatMakes(v);
        if (producer >= 0) parent_[Find(Index(n))] = Find(Index(producer));
      }
    }
    DropWhatDoesNotPay(macs_per_converted_element);
  }

  // Nodes that will work on blocks; ascending.
  std::vector<int32_t> Members() const {
    std::vector<int32_t> members;
    for (int32_t n = 0; n < editor_.num_nodes(); ++n) {
      if (plans_[Index(n)]) members.push_back(n);
    }
    return members;
  }
  const BlockedPlan& plan(int32_t n) const { return *plans_[Index(n)]; }

  // The member that makes image `v`; -1: none does.
  int32_t MemberThatMakes(ValueId v) const {
    const int32_t producer = editor_.producer(v);
    return producer >= 0 && plans_[Index(producer)] ? producer : -1;
  }

  // Someone outside of the regions reads `v`.
  bool IsReadOutside(ValueId v) const {
    if (editor_.is_graph_output(v)) return true;
    const std::vector<int32_t>& readers = editor_.consumers(v);
    return std::any_of(readers.begin(), readers.end(), [&](int32_t reader) {
      const std::vector<ValueId> images = ImagesOf(reader);
      return std::find(images.begin(), images.end(), v) == images.end();
    });
  }

 private:
  static size_t Index(int32_t n) { return static_cast<size_t>(n); }
  size_t Count() const { return static_cast<size_t>(editor_.num_nodes()); }

  size_t Find(size_t n) {
    while (parent_[n] != n) n = parent_[n] = parent_[parent_[n]];
    return n;
  }

  // The inputs that member `n` needs in blocks; empty for other nodes.
  std::vector<ValueId> ImagesOf(int32_t n) const {
    std::vector<ValueId> images;
    if (!plans_[Index(n)]) return images;
    const Node& node = editor_.node(n);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (plan(n).operands[i] == BlockedOperand::kImage) images.push_back(node.inputs[i]);
    }
    return images;
  }

  // What comes before the first convolution works on plain images as well.
  void DropLeadingNodes() {
    std::vector<int32_t> order = Members();
    std::sort(order.begin(), order.end(),
              [&](int32_t a, int32_t b) { return editor_.Before(a, b); });
    for (const int32_t n : order) {
      if (plan(n).macs > 0) continue;
      const std::vector<ValueId> images = ImagesOf(n);
      const bool leads = std::none_of(images.begin(), images.end(),
                                      [&](ValueId v) { return MemberThatMakes(v) >= 0; });
      if (leads) plans_[Index(n)].reset();
    }
  }

  int64_t BlockedElements(ValueId v) const {
    return TensorType{DType::kFloat, BlockedShape(editor_.shape(v))}.NumElements();
  }

  void DropWhatDoesNotPay(int64_t macs_per_converted_element) {
    std::vector<int64_t> gain(Count());
    std::map<std::pair<size_t, ValueId>, bool> entering;
    for (const int32_t n : Members()) {
      int64_t& of_region = gain[Find(Index(n))];
      of_region += plan(n).macs;
      for (const ValueId v : ImagesOf(n)) {
        const bool stays = plan(n).takes_plain_image && v == editor_.node(n).inputs[0];
        if (MemberThatMakes(v) >= 0 || stays) continue;
        if (entering.emplace(std::pair(Find(Index(n)), v), true).second) {
          of_region -= macs_per_converted_element * BlockedElements(v);
        }
      }
      for (const ValueId v : editor_.node(n).outputs) {
        if (v != kNoValue && IsReadOutside(v)) {
          of_region -= macs_per_converted_element * BlockedElements(v);
        }
      }
    }
    for (const int32_t n : Members()) {
      if (gain[Find(Index(n))] <= 0) plans_[Index(n)].reset();
    }
  }

  GraphEditor& editor_;
  std::vector<std::optional<BlockedPlan>> plans_;  // by node
  std::vector<size_t> parent_;                     // by node: towards its region's root
};

class Rewriter {
 public:
  Rewriter(GraphEditor& editor, const Regions& regions) : editor_(editor), regions_(regions) {}

  absl::StatusOr<int64_t> Run() {
    std::vector<int32_t> members = regions_.Members();
    std::sort(members.begin(), members.end(),
              [&](int32_t a, int32_t b) { return editor_.Before(a, b); });
    std::vector<ValueId> read_outside;
    for (const int32_t n : members) {
      for (const ValueId v : editor_.node(n).outputs) {
        if (v != kNoValue && regions_.IsReadOutside(v)) read_outside.push_back(v);
      }
    }
    for (const int32_t n : members) RETURN_IF_ERROR(Rewrite(n));
    for (const ValueId v : read_outside) RETURN_IF_ERROR(Unblock(v));
    for (const int32_t n : members) NameAfterImages(n);
    for (auto n = members.rbegin(); n != members.rend(); ++n) {
      if (editor_.alive(*n) && editor_.IsUnread(*n)) editor_.Remove(*n);
    }
    return static_cast<int64_t>(members.size());
  }

 private:
  absl::Status Rewrite(int32_t n) {
    const BlockedPlan& plan = regions_.plan(n);
    const ValueId first = editor_.node(n).inputs[0];
    ASSIGN_OR_RETURN(const std::vector<ValueId> outputs,
                     EmitBlocked(editor_, n, plan, [&](ValueId v) -> absl::StatusOr<ValueId> {
                       if (v == first && plan.takes_plain_image && !blocked_.contains(v)) return v;
                       return Blocked(n, v);
                     }));
    for (size_t i = 0; i < outputs.size(); ++i) blocked_[editor_.node(n).outputs[i]] = outputs[i];
    return absl::OkStatus();
  }

  absl::StatusOr<ValueId> Blocked(int32_t n, ValueId v) {
    const auto known = blocked_.find(v);
    if (known != blocked_.end()) return known->second;
    Node node = MakeNode("BlockChannels", "", {v});
    node.domain = kMemplan;
    const std::string name = editor_.value(v).name + "_blocked";
    ASSIGN_OR_RETURN(const ValueId y, editor_.Emit(n, std::move(node), name));
    blocked_[v] = y;
    return y;
  }

  // A blocked value stands for the image of that name, unless both are there.
  void NameAfterImages(int32_t n) {
    if (!editor_.alive(n)) return;
    for (const ValueId v : editor_.node(n).outputs) {
      if (v != kNoValue && !unblocked_.contains(v)) editor_.SwapNames(v, blocked_.at(v));
    }
  }

  absl::Status Unblock(ValueId v) {
    Node node = MakeNode("UnblockChannels", "", {blocked_.at(v)});
    node.domain = kMemplan;
    node.attributes["channels"] = editor_.shape(v)[1];
    const std::string name = editor_.value(v).name;
    ASSIGN_OR_RETURN(const ValueId y, editor_.Emit(editor_.producer(v), std::move(node), name));
    editor_.ReplaceUses(v, y);
    unblocked_.insert(v);
    return absl::OkStatus();
  }

  GraphEditor& editor_;
  const Regions& regions_;
  std::map<ValueId, ValueId> blocked_;  // by image
  std::set<ValueId> unblocked_;         // images that are made from blocks, for readers outside
};

}  // namespace

absl::StatusOr<int64_t> BlockChannels(GraphEditor& editor, int64_t macs_per_converted_element) {
  ASSIGN_OR_RETURN(const int64_t shuffles, GatherShuffledChannels(editor));
  const Regions regions(editor, macs_per_converted_element);
  ASSIGN_OR_RETURN(const int64_t rewrites, Rewriter(editor, regions).Run());
  return shuffles + rewrites;
}

}  // namespace onnx_memplan
