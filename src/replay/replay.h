// Runs a program on the host exactly as the plan lays it out: the same kernel calls as the
// generated code, in the same order, at the same addresses of one arena.
#ifndef ONNX_MEMPLAN_REPLAY_REPLAY_H_
#define ONNX_MEMPLAN_REPLAY_REPLAY_H_

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memplan/plan.h"
#include "onnx_memplan/tensor.h"
#include "plan_build/program.h"

namespace onnx_memplan {

struct ReplayOptions {
  // Fills the arena before the run, every storage when it dies, each output buffer before the run
  // and each scratch before its step with bytes 0xFF (NaN as float), so that a read of memory that
  // the plan says is free does not go unnoticed.
  bool poison = true;
  // The states by graph.states index, before the run and then after it. Empty, or nullptr: the run
  // starts from State::initial.
  std::vector<Tensor>* states = nullptr;
};

// `inputs` in the order of graph.inputs. The outputs in the order of graph.outputs.
// InvalidArgument when an input or a state has another type than the graph says; Unimplemented when
// a step has no kernel.
absl::StatusOr<std::vector<Tensor>> Replay(const Program& program, const Plan& plan,
                                           std::span<const Tensor> inputs,
                                           const ReplayOptions& options);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_REPLAY_REPLAY_H_
