#include "plan/sections.h"

#include <algorithm>

namespace onnx_memplan {

Sections::Sections(const Blocks& blocks) {
  const auto index = [](int32_t step) { return static_cast<size_t>(step); };
  std::vector<bool> begins(index(blocks.step_count) + 1, false), ends(begins);
  for (const Window& window : blocks.windows) {
    begins[index(window.first_step)] = true;
    ends[index(window.end_step)] = true;
  }
  // A step is kept when something begins after the last kept one, and something ends right after
  // it: then it has a window that each of its neighbours lacks.
  bool grown = false;
  for (int32_t step = 0; step < blocks.step_count; ++step) {
    grown = grown || begins[index(step)];
    if (!grown || !ends[index(step) + 1]) continue;
    steps_.push_back(step);
    grown = false;
  }
}

int32_t Sections::AtOrAfter(int32_t step) const {
  return static_cast<int32_t>(std::lower_bound(steps_.begin(), steps_.end(), step) -
                              steps_.begin());
}

}  // namespace onnx_memplan
