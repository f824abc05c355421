// The steps of programs as calls of functions that are kernels with fixed parameters.
#ifndef ONNX_MEMPLAN_EMIT_STEP_RENDERER_H_
#define ONNX_MEMPLAN_EMIT_STEP_RENDERER_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "emit/api.h"
#include "emit/constants.h"
#include "emit/entry_point.h"
#include "ops/kernel_call.h"

namespace onnx_memplan {

// The functions that call a kernel with fixed parameters, each once for all programs of a file.
class KernelInstances {
 public:
  // The function for this kernel, these parameters and these omitted operands.
  std::string Add(const KernelCall& call, const KernelParams& params, const Node& node);

  const std::string& functions() const { return functions_; }
  const std::set<std::string>& headers() const { return headers_; }

 private:
  std::map<std::string, std::string> instances_;  // key -> function; named in order of first use
  std::set<std::string> headers_;
  std::string functions_;
};

// The body of one entry point.
class StepRenderer {
 public:
  // Renders at once. `function` is that of `entry`.
  StepRenderer(const EntryPoint& entry, const ApiFunction& function,
               const ConstantOffsets& constants, KernelInstances& instances);

  const std::string& body() const { return body_; }
  // Whether the body mentions `base`: "arena", "state", "weights", "gradients", "in0", "out0", ...
  bool Uses(const std::string& base) const { return bases_.contains(base); }
  // Whether any step is shared out to several threads.
  bool uses_threads() const { return uses_threads_; }

 private:
  void Render();
  void RenderCall(size_t task, size_t c, const Node& node);
  // "Relu_3(At<float>(arena, 64), ...)", of a part of the call if `part` is not null.
  std::string CallText(size_t task, size_t c, const Node& node, const CallPart* part);
  // `offset`: bytes to add.
  std::string Address(size_t task, size_t c, const Node& node, size_t arg_index, int64_t offset);
  std::string ValueAddress(ValueId value, const std::string& element, int64_t offset);
  std::string BufferAddress(const ApiTensor& tensor, const char* prefix, const Location& location,
                            const std::string& element);
  std::string At(const std::string& element, const std::string& base, int64_t offset);

  const Program& program_;
  const Plan& plan_;
  const ApiFunction& function_;
  const ConstantOffsets& constants_;
  KernelInstances& instances_;
  std::set<std::string> bases_;
  std::string body_;
  bool uses_threads_ = false;
};

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_EMIT_STEP_RENDERER_H_
