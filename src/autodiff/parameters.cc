#include "autodiff/parameters.h"

#include <algorithm>
#include <set>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

size_t Index(int32_t id) { return static_cast<size_t>(id); }

bool IsBatchNormalization(const Node& node) { return node.Is("BatchNormalization"); }

// The operand is data of the operator, as its weights are, and neither a setting (the limits of a
// Clip) nor a statistic.
bool IsLearnable(const Node& node, size_t operand) {
  if (IsBatchNormalization(node)) return operand <= 2;
  for (const char* type : {"Clip", "Pad", "Resize", "Upsample", "Dropout", "OneHot", "Range"}) {
    if (node.Is(type)) return operand == 0;
  }
  return true;
}

bool IsBias(const Node& node, size_t operand) {
  for (const char* type : {"Conv", "ConvTranspose", "Gemm", "BatchNormalization",
                           "LayerNormalization", "InstanceNormalization", "GroupNormalization"}) {
    if (node.Is(type)) return operand == 2;
  }
  return node.Is("Add");
}

bool MatchesAny(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return MatchesGlob(pattern, name); });
}

struct Use {
  int32_t node = 0;
  size_t operand = 0;
};

class Selector {
 public:
  Selector(const TrainOptions& options, const std::vector<std::string>& initializers,
           const Graph& graph)
      : options_(options),
        initializers_(initializers.begin(), initializers.end()),
        graph_(graph),
        uses_(graph.values.size()) {
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      const std::vector<ValueId>& inputs = graph.nodes[n].inputs;
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i] != kNoValue) uses_[Index(inputs[i])].push_back({static_cast<int32_t>(n), i});
      }
    }
  }

  // By value.
  std::vector<bool> Select() const {
    std::vector<bool> selected(graph_.values.size(), false);
    for (size_t v = 0; v < selected.size(); ++v) selected[v] = IsCandidate(v) && IsAskedFor(v);
    if (options_.last_layers > 0) KeepLastLayers(selected);
    return selected;
  }

  bool IsCandidate(size_t v) const {
    const Value& value = graph_.values[v];
    if (!value.constant || !initializers_.contains(value.name)) return false;
    return std::any_of(uses_[v].begin(), uses_[v].end(), [&](const Use& use) {
      return IsLearnable(graph_.nodes[Index(use.node)], use.operand);
    });
  }

 private:
  bool IsAskedFor(size_t v) const {
    const std::string& name = graph_.values[v].name;
    if (MatchesAny(options_.freeze, name)) return false;
    if (options_.biases_only && !IsBiasEverywhere(v)) return false;
    if (!options_.trainable.empty()) return MatchesAny(options_.trainable, name);
    // Scalars are scales and epsilons that an exporter wrote as initializers; a learned one is
    // asked for by name.
    return graph_.values[v].constant->NumElements() > 1 || graph_.values[v].type->rank() > 0;
  }

  bool IsBiasEverywhere(size_t v) const {
    return std::all_of(uses_[v].begin(), uses_[v].end(), [&](const Use& use) {
      return IsBias(graph_.nodes[Index(use.node)], use.operand);
    });
  }

  void KeepLastLayers(std::vector<bool>& selected) const {
    std::set<int32_t> layers;
    for (size_t v = 0; v < selected.size(); ++v) {
      for (const Use& use : uses_[v]) {
        if (selected[v]) layers.insert(use.node);
      }
    }
    while (layers.size() > static_cast<size_t>(options_.last_layers)) layers.erase(layers.begin());
    for (size_t v = 0; v < selected.size(); ++v) {
      selected[v] =
          selected[v] && std::any_of(uses_[v].begin(), uses_[v].end(),
                                     [&](const Use& use) { return layers.contains(use.node); });
    }
  }

  const TrainOptions& options_;
  const std::unordered_set<std::string> initializers_;
  const Graph& graph_;
  std::vector<std::vector<Use>> uses_;  // by value
};

absl::Status CheckPatterns(const std::vector<std::string>& patterns, const char* option,
                           const Selector& selector, const Graph& graph) {
  for (const std::string& pattern : patterns) {
    std::vector<std::string> names;
    bool matched = false;
    for (size_t v = 0; v < graph.values.size(); ++v) {
      if (!selector.IsCandidate(v)) continue;
      matched |= MatchesGlob(pattern, graph.values[v].name);
      if (names.size() < 30) names.push_back(graph.values[v].name);
    }
    if (!matched) {
      return absl::InvalidArgumentError(
          absl::StrCat(option, " '", pattern, "' matches no parameter; the model has: ",
                       names.empty() ? "none" : absl::StrJoin(names, ", ")));
    }
  }
  return absl::OkStatus();
}

void MakeState(ValueId id, StateKind kind, Graph& graph) {
  Value& value = graph.values[Index(id)];
  graph.states.push_back({id, kNoValue, kind, *std::move(value.constant)});
  value.constant.reset();
}

constexpr size_t kMean = 3;
constexpr size_t kVariance = 4;

// Exporters store equal tensors once, and in a fresh model the scale and the running variance of
// every BatchNormalization are ones. Each statistic gets a constant of its own.
void GiveStatisticsConstantsOfTheirOwn(Graph& graph) {
  std::vector<int32_t> uses(graph.values.size(), 0);
  for (const Node& node : graph.nodes) {
    for (ValueId input : node.inputs) {
      if (input != kNoValue) ++uses[Index(input)];
    }
  }
  for (Node& node : graph.nodes) {
    if (!IsBatchNormalization(node)) continue;
    for (size_t operand : {kMean, kVariance}) {
      const size_t shared = Index(node.inputs[operand]);
      if (uses[shared] < 2 || !graph.values[shared].constant) continue;
      --uses[shared];
      const std::string name = graph.UniqueValueName(graph.values[shared].name);
      node.inputs[operand] = graph.AddConstant(name, *graph.values[shared].constant);
    }
  }
}

absl::Status MakeStatistics(const TrainOptions& options, Graph& graph) {
  for (const Node& node : graph.nodes) {
    if (!TrainsStatistics(options, node)) continue;
    for (size_t operand : {kMean, kVariance}) {
      const ValueId id = node.inputs[operand];
      if (!graph.values[Index(id)].constant) {
        return absl::InvalidArgumentError(absl::StrCat(
            "node '", graph.NodeName(node), "' (BatchNormalization): its running statistics '",
            graph.values[Index(id)].name,
            "' are not constants of its own, so that they cannot be trained; try --batch-norm "
            "frozen"));
      }
      MakeState(id, StateKind::kStatistic, graph);
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool MatchesGlob(std::string_view pattern, std::string_view text) {
  // Where the last '*' was, and how much of the text it covers so far.
  size_t star = std::string_view::npos;
  size_t covered = 0;
  size_t p = 0;
  size_t t = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      covered = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++covered;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool TrainsStatistics(const TrainOptions& options, const Node& node) {
  if (!IsBatchNormalization(node)) return false;
  if (options.batch_norm != BatchNormMode::kAsInModel) {
    return options.batch_norm == BatchNormMode::kTrain;
  }
  const auto it = node.attributes.find("training_mode");
  const auto* mode = it == node.attributes.end() ? nullptr : std::get_if<int64_t>(&it->second);
  return mode != nullptr && *mode != 0;
}

absl::Status SelectParameters(const TrainOptions& options,
                              const std::vector<std::string>& initializers, Graph& graph) {
  GiveStatisticsConstantsOfTheirOwn(graph);
  const Selector selector(options, initializers, graph);
  RETURN_IF_ERROR(CheckPatterns(options.trainable, "--trainable", selector, graph));
  RETURN_IF_ERROR(CheckPatterns(options.freeze, "--freeze", selector, graph));
  const std::vector<bool> selected = selector.Select();
  for (size_t v = 0; v < selected.size(); ++v) {
    if (selected[v]) MakeState(static_cast<ValueId>(v), StateKind::kParameter, graph);
  }
  if (graph.states.empty()) {
    return absl::InvalidArgumentError(
        "nothing is left to train: no float or double initializer is selected; see --trainable, "
        "--freeze and --last-layers");
  }
  return MakeStatistics(options, graph);
}

void DemoteParameters(const std::vector<std::string>& names, Graph& graph) {
  const std::unordered_set<std::string> demoted(names.begin(), names.end());
  std::erase_if(graph.states, [&](State& state) {
    Value& value = graph.values[Index(state.in)];
    if (state.kind != StateKind::kParameter || !demoted.contains(value.name)) return false;
    value.constant = std::move(state.initial);
    return true;
  });
}

}  // namespace onnx_memplan
