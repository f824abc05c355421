// STEM_selftest.cpp: a program that runs the network on embedded inputs and compares.
#ifndef ONNX_MEMPLAN_EMIT_SELF_TEST_H_
#define ONNX_MEMPLAN_EMIT_SELF_TEST_H_

#include <string>

#include "absl/status/status.h"
#include "emit/api.h"
#include "onnx_memplan/emit.h"

namespace onnx_memplan {

// InvalidArgument, naming the tensor, unless the types are those of the API.
absl::Status CheckSelfTest(const Api& api, const SelfTest& test);

std::string RenderSelfTest(const Api& api, const SelfTest& test, const Provenance& provenance);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_EMIT_SELF_TEST_H_
