#include <algorithm>
#include <tuple>
#include <vector>

#include "ops/families.h"
#include "ops/op_def.h"

namespace onnx_memplan {
namespace {

bool Before(const OpDef* a, const OpDef* b) {
  return std::tie(a->domain, a->type) < std::tie(b->domain, b->type);
}

std::vector<const OpDef*> SortedTable() {
  std::vector<const OpDef*> table = {
#define ONNX_MEMPLAN_OP(name) &name,
#include "ops/op_list.inc"
#undef ONNX_MEMPLAN_OP
  };
  std::sort(table.begin(), table.end(), Before);
  return table;
}

}  // namespace

std::span<const OpDef* const> OpTable() {
  static const auto table = SortedTable();
  return table;
}

const OpDef* FindOp(std::string_view type, std::string_view domain) {
  const OpDef key = {.type = type, .domain = domain};
  const std::span<const OpDef* const> table = OpTable();
  const auto it = std::lower_bound(table.begin(), table.end(), &key, Before);
  return it != table.end() && (*it)->type == type && (*it)->domain == domain ? *it : nullptr;
}

}  // namespace onnx_memplan
