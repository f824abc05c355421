#include "onnx_memplan/passes.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "passes/block_channels.h"
#include "passes/editor.h"
#include "passes/fold_affine.h"
#include "passes/fuse.h"
#include "passes/infer.h"
#include "passes/pass_list.h"
#include "passes/recognise.h"
#include "passes/remove_channels.h"
#include "passes/simplify.h"
#include "passes/transposes.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

template <absl::StatusOr<int64_t> (*kEdit)(GraphEditor&)>
absl::StatusOr<int64_t> Edit(const PassOptions&, Graph& graph) {
  GraphEditor editor(graph);
  ASSIGN_OR_RETURN(const int64_t rewrites, kEdit(editor));
  RETURN_IF_ERROR(editor.Finish());
  return rewrites;
}

absl::StatusOr<int64_t> RunInferAndFold(const PassOptions&, Graph& graph) {
  const size_t before = graph.nodes.size();
  RETURN_IF_ERROR(InferAndFold(graph));
  return before > graph.nodes.size() ? static_cast<int64_t>(before - graph.nodes.size()) : 0;
}

absl::StatusOr<int64_t> RunBlockChannels(const PassOptions& options, Graph& graph) {
  if (options.channel_block == 0) return 0;
  GraphEditor editor(graph);
  ASSIGN_OR_RETURN(const int64_t rewrites, BlockChannels(editor));
  RETURN_IF_ERROR(editor.Finish());
  return rewrites;
}

absl::StatusOr<int64_t> RunRemoveChannels(const PassOptions& options, Graph& graph) {
  return RemoveChannels(std::max(options.channel_block, 1), graph);
}

absl::StatusOr<int64_t> RunSeparateOutputs(const PassOptions&, Graph& graph) {
  return SeparateOutputs(graph);
}

constexpr uint8_t kCleanup = kSimplify | kFuse;

// Folding into weights comes before fusion, which fills the epilogues that it needs empty.
constexpr Pass kPasses[] = {
    {{.name = "infer-and-fold",
      .summary = "infer every type; compute what depends on constants only",
      .required = true},
     kCleanup,
     RunInferAndFold},
    {{.name = "gemm-to-matmul",
      .summary = "Gemm of other ranks than 2, as training graphs of Deeploy have it, as MatMul",
      .required = true},
     kSimplify,
     Edit<GemmToMatMul>},
    {{.name = "eliminate-no-ops",
      .summary = "drop Identity, Dropout, empty Pad, whole Slice and other nodes that give their "
                 "input"},
     kCleanup,
     Edit<EliminateNoOps>},
    {{.name = "merge-views",
      .summary = "one Reshape for chains of Reshape, Flatten, Squeeze and Unsqueeze"},
     kCleanup,
     Edit<MergeViews>},
    {{.name = "share-common-subexpressions",
      .summary = "compute and store once what is there several times"},
     kCleanup,
     Edit<ShareCommonSubexpressions>},
    {{.name = "remove-dead-code", .summary = "drop nodes and outputs that nothing reads"},
     kCleanup,
     Edit<RemoveDeadCode>},
    {{.name = "canonicalise", .summary = "spatial means as GlobalAveragePool, Sum of two as Add"},
     kSimplify,
     Edit<Canonicalise>},
    {{.name = "recognise-activations",
      .summary = "decomposed Gelu, HardSwish, HardSigmoid, SiLU, Mish"},
     kSimplify,
     Edit<RecogniseActivations>},
    {{.name = "recognise-layer-normalization", .summary = "decomposed LayerNormalization"},
     kSimplify,
     Edit<RecogniseLayerNormalization>},
    {{.name = "recognise-softmax", .summary = "decomposed Softmax and LogSoftmax"},
     kSimplify,
     Edit<RecogniseSoftmax>},
    {{.name = "merge-scalars", .summary = "one Mul or Add for chains of them with constants"},
     kSimplify,
     Edit<MergeScalars>},
    {{.name = "factor-gates", .summary = "x + x * g as x * (g + 1), g being the smaller"},
     kSimplify,
     Edit<FactorGates>},
    {{.name = "matmul-to-gemm",
      .summary = "MatMul with a constant matrix, and MatMul and Add, as Gemm"},
     kSimplify,
     Edit<MatMulToGemm>},
    {{.name = "fold-affine-into-producer",
      .summary = "BatchNormalization, bias and scale into the weights of the node before"},
     kSimplify,
     Edit<FoldAffineIntoProducer>},
    {{.name = "fold-affine-into-consumer",
      .summary = "BatchNormalization and scale into the weights of the node behind"},
     kSimplify,
     Edit<FoldAffineIntoConsumer>},
    {{.name = "fold-padding", .summary = "Pad into Conv, MaxPool and AveragePool"},
     kSimplify,
     Edit<FoldPadding>},
    {{.name = "absorb-transposes", .summary = "Transpose into Transpose, Gemm and weights"},
     kSimplify,
     Edit<AbsorbTransposes>},
    {{.name = "sink-transposes",
      .summary = "Transpose behind elementwise nodes, to where it meets its inverse"},
     kSimplify,
     Edit<SinkTransposes>},
    {{.name = "remove-constant-channels",
      .summary =
          "channels of Conv and Gemm that are the same for all inputs, or that nothing reads"},
     kFuse,
     RunRemoveChannels},
    {{.name = "fuse-attention",
      .summary = "softmax(scale * Q K^T + mask) V, which then never holds all scores"},
     kFuse,
     Edit<FuseAttention>},
    {{.name = "merge-affine",
      .summary = "scale and shift that are left, one behind the other, as one BatchNormalization"},
     kFuse,
     Edit<MergeAffine>},
    {{.name = "share-concat-prefixes",
      .summary = "a Concat that starts like another one begins with that one's result"},
     kFuse,
     Edit<ShareConcatPrefixes>},
    {{.name = "fuse-residual-add", .summary = "Add into the kernel that makes its operand"},
     kFuse,
     Edit<FuseResidualAdd>},
    {{.name = "fuse-activations",
      .summary = "activations into the kernel that makes their operand"},
     kFuse,
     Edit<FuseActivations>},
    {{.name = "fuse-updates", .summary = "weight gradients into the updates that read them"},
     kFuse,
     Edit<FuseUpdates>},
    {{.name = "block-channels",
      .summary = "images in blocks of eight channels, where the target's vectors gain by it"},
     kLayout,
     RunBlockChannels},
    {{.name = "fuse-pool",
      .summary = "a maximum pool into the convolution before it, in blocks of channels"},
     kLayout,
     Edit<FusePool>},
    {{.name = "fuse-depthwise",
      .summary = "a depthwise convolution of a large image with those before and behind it"},
     kLayout,
     Edit<FuseDepthwise>},
    {{.name = "separate-outputs",
      .summary = "no output is an input, a constant or another output",
      .required = true},
     kFinish,
     RunSeparateOutputs},
};

absl::Status CheckNames(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const bool known = std::any_of(std::begin(kPasses), std::end(kPasses),
                                   [&](const Pass& pass) { return pass.info.name == name; });
    if (known) continue;
    const std::string all = absl::StrJoin(
        kPasses, ", ", [](std::string* out, const Pass& pass) { out->append(pass.info.name); });
    return absl::InvalidArgumentError(
        absl::StrCat("no pass is named '", name, "'; there are: ", all));
  }
  return absl::OkStatus();
}

bool Contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool IsOn(const PassInfo& info, const PassOptions& options) {
  if (info.required) return true;
  if (Contains(options.off, info.name)) return false;
  if (Contains(options.on, info.name)) return true;
  return info.on_by_default && !options.only_named;
}

// Runs `pass` and checks what it left; adds to `runs` when it changed something.
absl::StatusOr<bool> RunPass(const Pass& pass, const PassOptions& options, Graph& graph,
                             std::vector<PassRun>* runs) {
  const std::string name(pass.info.name);
  const auto before = static_cast<int64_t>(graph.nodes.size());
  absl::StatusOr<int64_t> rewrites = pass.run(options, graph);
  // What the operators' rules say of the user's graph is for the user as it is.
  if (!rewrites.ok() && pass.run == RunInferAndFold && runs->empty()) return rewrites.status();
  const absl::Status status = rewrites.ok() ? graph.Verify(/*typed=*/true) : rewrites.status();
  if (!status.ok()) {
    return absl::InternalError(
        absl::StrCat("after pass '", name, "': ", std::string(status.message())));
  }
  const auto after = static_cast<int64_t>(graph.nodes.size());
  if (*rewrites > 0) runs->push_back({name, *rewrites, before, after});
  return *rewrites > 0;
}

}  // namespace

std::span<const Pass> PassList() { return kPasses; }

std::vector<PassInfo> ListPasses() {
  std::vector<PassInfo> infos;
  for (const Pass& pass : kPasses) infos.push_back(pass.info);
  return infos;
}

absl::StatusOr<std::vector<PassRun>> OptimizeGraph(const PassOptions& options, Graph& graph) {
  RETURN_IF_ERROR(CheckNames(options.on));
  RETURN_IF_ERROR(CheckNames(options.off));
  for (const Pass& pass : kPasses) {
    if (pass.info.required && Contains(options.off, pass.info.name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("pass '", std::string(pass.info.name),
                       "' cannot be switched off: later stages rely on it"));
    }
  }
  // Every rewrite makes the graph smaller or a pattern rarer; the limit is for a pair of passes
  // that would undo each other for ever, and is far above what any graph takes.
  constexpr int kMaxRounds = 100;
  std::vector<PassRun> runs;
  for (const uint8_t group : {kSimplify, kFuse, kLayout, kFinish}) {
    bool changed = true;
    for (int round = 0; changed && round < kMaxRounds; ++round) {
      changed = false;
      for (const Pass& pass : kPasses) {
        if ((pass.groups & group) == 0 || !IsOn(pass.info, options)) continue;
        ASSIGN_OR_RETURN(const bool pass_changed, RunPass(pass, options, graph, &runs));
        changed |= pass_changed;
      }
    }
    if (changed)
      return absl::InternalError(absl::StrCat("pass '", runs.back().pass, "' never ends"));
  }
  return runs;
}

}  // namespace onnx_memplan
