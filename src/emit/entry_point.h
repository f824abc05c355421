// One of the functions of a generated file that run a program.
#ifndef ONNX_MEMPLAN_EMIT_ENTRY_POINT_H_
#define ONNX_MEMPLAN_EMIT_ENTRY_POINT_H_

#include <string>
#include <vector>

#include "onnx_memplan/plan.h"
#include "plan_build/program.h"

namespace onnx_memplan {

struct EntryPoint {
  // "train_step" for NAME_train_step.
  std::string suffix = "run";
  const Program* program = nullptr;
  const Plan* plan = nullptr;
  // What the function does, for the header: sentences, with a line break where a line is to end.
  std::string summary = "Runs the network once.";
  // Names of graph inputs with one element that are passed by value, such as a learning rate.
  std::vector<std::string> by_value = {};
  // By graph output: the name of the parameter whose gradient it is; empty: none. Such outputs have
  // no parameter of their own: the last one, `void* gradients`, is a block of NAME_GRADIENTS_BYTES
  // in which each lies at the offset of its parameter. Shorter than the outputs: no gradients
  // there.
  std::vector<std::string> gradient_of = {};
};

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_EMIT_ENTRY_POINT_H_
