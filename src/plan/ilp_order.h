// An execution order by integer programming, in cumulative form.
#ifndef ONNX_MEMPLAN_PLAN_ILP_ORDER_H_
#define ONNX_MEMPLAN_PLAN_ILP_ORDER_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plan/order_model.h"
#include "solver/ilp_model.h"

namespace onnx_memplan {

struct IlpOrderOptions {
  IlpOptions ilp = {};
  // Models of at most so many tasks get one step for each task: then the optimum and every bound
  // of the program hold for all orders. Larger ones get `stretch` x (longest path) steps, which
  // several tasks may share; those give orders and no bound.
  int32_t max_exact_tasks = 48;
  double stretch = 1.15;
  // Every order is known to need this many bytes.
  int64_t lower_bound = 0;
};

struct IlpOrderResult {
  // Its peak is smaller than that of the order given; empty when none was found.
  std::vector<int32_t> order;
  // Every order needs this many bytes at some step; 0: nothing was proven.
  int64_t lower_bound = 0;
  std::string description;
};

// Variables: X[v,t], task v runs at or before step t (0 before its earliest step, 1 from its latest
// on); L[s,t], storage s is live during step t; Y[o,t], in-place option o is taken at step t; M.
//   X[v,t] >= X[v,t-1];  X[c,t] <= X[p,t-1] for each precedence p -> c;
//   L[s,t] >= X[u,t] - X[c,t-1] for touchers u that may be the first and c that may be the last;
//   M >= sum of bytes[s] L[s,t] + extra[v] (X[v,t] - X[v,t-1]) - saved[o] Y[o,t];
//   with one step for each task: sum over v of X[v,t] = t + 1.
// All bytes are divided by their greatest common divisor. `order` is a legal order: its peak is the
// cutoff, itself the warm start.
IlpOrderResult SolveOrderIlp(const OrderModel& model, std::span<const int32_t> order,
                             const IlpOrderOptions& options);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_ILP_ORDER_H_
