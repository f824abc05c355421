#include <nlohmann/json.hpp>

#include "report/memory_report.h"

namespace onnx_memplan {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json OrNull(const std::optional<T>& value) {
  return value.has_value() ? Json(*value) : Json(nullptr);
}

Json TensorJson(const ReportTensor& tensor) {
  return {{"name", tensor.name},
          {"dtype", std::string(DTypeName(tensor.type.dtype))},
          {"shape", tensor.type.shape},
          {"bytes", tensor.bytes},
          {"offset", OrNull(tensor.offset)},
          {"first_step", OrNull(tensor.first_step)},
          {"last_step", OrNull(tensor.last_step)},
          {"kind", tensor.kind}};
}

Json PortsJson(const std::vector<ReportPort>& ports) {
  Json json = Json::array();
  for (const ReportPort& port : ports) {
    json.push_back({{"name", port.name},
                    {"dtype", std::string(DTypeName(port.type.dtype))},
                    {"shape", port.type.shape},
                    {"bytes", port.type.Bytes()}});
  }
  return json;
}

Json StepJson(const ReportStep& step) {
  Json json = {{"index", step.index},
               {"op", step.op},
               {"name", step.name},
               {"kernel", step.kernel},
               {"live_bytes", step.live_bytes},
               {"scratch_bytes", step.scratch_bytes},
               {"scratch_offset", OrNull(step.scratch_offset)},
               {"macs", step.macs}};
  if (!step.missing_kernel.empty()) json["missing_kernel"] = step.missing_kernel;
  return json;
}

Json StateJson(const ReportState& state) {
  return {{"name", state.name},        {"dtype", std::string(DTypeName(state.type.dtype))},
          {"shape", state.type.shape}, {"bytes", state.type.Bytes()},
          {"offset", state.offset},    {"kind", state.kind}};
}

Json EntryPointJson(const ReportEntryPoint& entry) {
  Json json = {{"name", entry.name},
               {"steps", entry.steps},
               {"arena_bytes", entry.arena_bytes},
               {"lower_bound_bytes", entry.lower_bound_bytes},
               {"proven_optimal", entry.proven_optimal},
               {"method", entry.method},
               {"macs", entry.macs}};
  if (entry.planning_seconds.has_value()) json["planning_seconds"] = *entry.planning_seconds;
  if (entry.savings != ReportSavings()) {
    json["recomputed_values"] = entry.savings.recomputed_values;
    json["recomputed_bytes"] = entry.savings.recomputed_bytes;
    json["extra_work"] = entry.savings.extra_work;
    json["gradient_bytes_not_stored"] = entry.savings.gradient_bytes_not_stored;
  }
  return json;
}

}  // namespace

std::string RenderJson(const MemoryReport& report) {
  Json json = {{"format_version", 1},
               {"model",
                {{"name", report.model.name},
                 {"sha256", report.model.sha256},
                 {"producer", report.model.producer},
                 {"ir_version", report.model.ir_version},
                 {"opset", report.model.opset}}},
               {"target", report.target},
               {"threads", report.threads},
               {"planner", report.planner},
               {"method", report.method},
               {"arena_bytes", report.arena_bytes},
               {"lower_bound_bytes", report.lower_bound_bytes},
               {"proven_optimal", report.proven_optimal},
               {"peak_step", report.peak_step},
               {"weights_bytes", report.weights_bytes},
               {"persistent_bytes", report.persistent_bytes},
               {"shared_arena_bytes", report.shared_arena_bytes()},
               {"input_bytes", report.input_bytes()},
               {"output_bytes", report.output_bytes()},
               {"macs", report.macs},
               {"stack_bound_bytes", report.stack_bound_bytes}};
  if (report.plain_arena_bytes) json["plain_layout_arena_bytes"] = *report.plain_arena_bytes;
  if (report.threads > 1) json["shared_steps"] = report.shared_steps;
  if (report.one_thread_arena_bytes) {
    json["one_thread_arena_bytes"] = *report.one_thread_arena_bytes;
  }
  if (report.planning_seconds.has_value()) json["planning_seconds"] = *report.planning_seconds;
  json["inputs"] = PortsJson(report.inputs);
  json["outputs"] = PortsJson(report.outputs);
  json["tensors"] = Json::array();
  for (const ReportTensor& tensor : report.tensors) json["tensors"].push_back(TensorJson(tensor));
  json["steps"] = Json::array();
  for (const ReportStep& step : report.steps) json["steps"].push_back(StepJson(step));
  json["peak"] = Json::array();
  for (const ReportAlive& alive : report.peak) {
    json["peak"].push_back({{"name", alive.name},
                            {"bytes", alive.bytes},
                            {"offset", alive.offset},
                            {"why", alive.why}});
  }
  json["states"] = Json::array();
  for (const ReportState& state : report.states) json["states"].push_back(StateJson(state));
  json["entry_points"] = Json::array();
  for (const ReportEntryPoint& entry : report.entry_points) {
    json["entry_points"].push_back(EntryPointJson(entry));
  }
  // Names come from the file and need not be UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace onnx_memplan
