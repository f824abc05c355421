// Sections: the steps that matter to offsets.
#ifndef ONNX_MEMPLAN_PLAN_SECTIONS_H_
#define ONNX_MEMPLAN_PLAN_SECTIONS_H_

#include <cstdint>
#include <vector>

#include "plan/liveness.h"

namespace onnx_memplan {

// Maximal runs of steps with the same live windows, without those whose windows are all live in a
// neighbouring section too: what fits in all sections fits in all steps, and two windows share a
// step if and only if they share a section.
class Sections {
 public:
  explicit Sections(const Blocks& blocks);

  int32_t count() const { return static_cast<int32_t>(steps_.size()); }
  // The first section whose steps do not all lie before `step`. A window [first_step, end_step) is
  // live in the sections from AtOrAfter(first_step) up to AtOrAfter(end_step).
  int32_t AtOrAfter(int32_t step) const;

 private:
  std::vector<int32_t> steps_;  // by section: its last step
};

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_PLAN_SECTIONS_H_
