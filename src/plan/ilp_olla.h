// OLLA's integer program (arXiv 2210.12924): operator order ("lifetimes") and tensor addresses
// ("locations"), as published.
#ifndef ONNX_MEMPLAN_PLAN_ILP_OLLA_H_
#define ONNX_MEMPLAN_PLAN_ILP_OLLA_H_

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plan/order_model.h"
#include "solver/ilp_model.h"

namespace onnx_memplan {

struct OllaOptions {
  IlpOptions ilp = {};
  // Steps: the longest path times this (1.01 in the paper's code), several tasks in a step.
  // Problems of at most `max_full_steps` tasks get a step for each task.
  double stretch = 1.01;
  int32_t max_full_steps = 12;
  // Forces tasks that nothing waits for (weight updates) to run early.
  bool early_updates = true;
  // Locations in the same program. Otherwise lifetimes only ("split").
  bool joint = false;
};

struct OllaResult {
  // Empty when no solution was found.
  std::vector<int32_t> order;
  // With `joint`, by storage of the model: the address in bytes, as CBC gives it.
  std::vector<double> addresses;
  // No order (with `joint`: no order and no addresses) needs fewer bytes; 0 unless that is proven,
  // which takes a step for each task, no in-place options, no forced early updates, and a unique
  // first toucher of each storage.
  int64_t lower_bound = 0;
  std::string description;
};

// Variables, for tensor e and step t within its span: C[e,t], created at t; P[e,t], preserved at t.
//   (1) P[e,t] + C[e,t] <= 1                   (2) P[e,t] <= P[e,t-1] + C[e,t-1]
//   (3) sum over t of C[e,t] = 1               (4) C[out,t] <= P[in,t] for in and out of one task
//   (5) all outputs of a task are created at once
//   (6) a task without outputs creates a tensor of no size
//   (7) spans: earliest and latest step of the source, latest step of the sinks; preserved in
//       between for sure from the latest creation to the earliest last use
//   (8) control edges: what is created at t needs the other's creation before t
//   M >= sum of bytes (C + P) at each step, in units of the greatest common divisor; min M.
// Scratch is a tensor without sinks. In-place options are not part of the formulation. Storages
// without a unique first toucher count at every step.
// Joint: addresses A[e] >= 0, M >= A[e] + bytes[e]; for each pair that may overlap in time,
// binaries "i below j" and "j below i", of which one is set when both are live in some step; pairs
// whose lifetimes never meet get none, pairs that surely meet get one binary.
OllaResult SolveOlla(const OrderModel& model, const OllaOptions& options);

// (before, after): early gradient application. For a task that nothing waits for, the task that is
// furthest from the end among those one level behind it and fed by its own ancestors waits for it.
std::vector<std::pair<int32_t, int32_t>> EarlyUpdateEdges(const OrderModel& model);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_ILP_OLLA_H_
