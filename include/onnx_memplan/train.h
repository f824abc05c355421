// On-device training: what is trained, by which loss and optimizer. See docs/training.md.
#ifndef ONNX_MEMPLAN_TRAIN_H_
#define ONNX_MEMPLAN_TRAIN_H_

#include <cstdint>
#include <string>
#include <vector>

namespace onnx_memplan {

enum class LossKind : uint8_t {
  // The model's only output is a scalar: a model that ends in its own loss node.
  kModelOutput,
  // PyTorch's CrossEntropyLoss of scores; the target is an int64 class for each score vector.
  kCrossEntropy,
  // The same with a float target of the scores' shape: a probability for each class.
  kCrossEntropyProbabilities,
  kMse,
  kL1,
  kHuber,
  // PyTorch's BCEWithLogitsLoss: float targets of the scores' shape in [0, 1].
  kBceWithLogits,
};

struct LossOptions {
  LossKind kind = LossKind::kCrossEntropy;
  // Sum of the elements' losses instead of their mean.
  bool sum = false;
  // Axis of the scores that counts the classes: 1 for N x C x ..., -1 for N x tokens x C.
  int64_t class_axis = 1;
  // Targets of this class count nothing (kCrossEntropy).
  int64_t ignore_index = -100;
  // In [0, 1): the target becomes (1 - s) * target + s / classes (cross-entropy only).
  double label_smoothing = 0;
  // One for each class, or empty: all 1 (cross-entropy; positive weights for kBceWithLogits).
  std::vector<float> class_weights = {};
  double huber_delta = 1;
};

enum class OptimizerKind : uint8_t { kSgd, kAdam, kAdamW };

// The meaning of each number is PyTorch's (torch.optim.SGD, Adam, AdamW).
struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kSgd;
  double momentum = 0;  // kSgd
  bool nesterov = false;
  double weight_decay = 0;
  double beta1 = 0.9;  // kAdam, kAdamW
  double beta2 = 0.999;
  double epsilon = 1e-8;
  // Scales all gradients so that their common L2 norm is at most this (clip_grad_norm_). 0: off.
  double clip_norm = 0;
  // Calls whose gradients are averaged before one update.
  int64_t accumulate_steps = 1;
};

enum class BatchNormMode : uint8_t {
  kAsInModel,  // trained where the node says training_mode = 1
  kTrain,      // statistics of the batch; running statistics are updated
  kFrozen,     // running statistics as they are
};

struct TrainOptions {
  LossOptions loss;
  OptimizerOptions optimizer;
  // The output that the loss takes; empty: the only one.
  std::string loss_output;
  // Patterns of initializer names, '*' and '?' as in a shell. Trained is what matches one of
  // `trainable` (empty: everything) and none of `freeze`.
  std::vector<std::string> trainable = {};
  std::vector<std::string> freeze = {};
  // Only the last k nodes that have trainable parameters. 0: no limit.
  int64_t last_layers = 0;
  // Only parameters that are added: biases of Conv, Gemm and normalizations.
  bool biases_only = false;
  BatchNormMode batch_norm = BatchNormMode::kAsInModel;
  // Running variance by ONNX's rule (population variance) instead of PyTorch's (unbiased).
  bool onnx_running_variance = false;
  // Of the generator of Dropout's masks.
  uint64_t dropout_seed = 1;
  // Work of the step, as a share of itself, that may be added by computing values of the forward
  // pass again instead of keeping them, where that makes the arena smaller.
  double recompute = 0.05;
  // The same under CompileOptions::arena_limit_bytes, tried in steps until the arena fits.
  double recompute_for_limit = 0.35;
  // Also generate NAME_gradients.
  bool gradients = false;
};

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_TRAIN_H_
