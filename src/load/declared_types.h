// What a file says of the types of values inside its graph.
#ifndef ONNX_MEMPLAN_LOAD_DECLARED_TYPES_H_
#define ONNX_MEMPLAN_LOAD_DECLARED_TYPES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "onnx/onnx_pb.h"
#include "onnx_memplan/tensor.h"

namespace onnx_memplan {

// Symbolic dimension -> size.
using SymbolSizes = std::map<std::string, int64_t, std::less<>>;

// Adds the symbols of a declaration whose sizes `shape` gives.
void AddSymbols(const onnx::ValueInfoProto& declaration, const Shape& shape, SymbolSizes& symbols);

// The size of a dimension as a tool writes it: a symbol, or integer arithmetic of symbols and
// numbers with + - * / and parentheses ("16*batch", "batch*(length - 1)"). nullopt when it names a
// symbol without a size, is no such text, does not divide evenly, overflows or is negative.
std::optional<int64_t> EvaluateDimension(std::string_view text, const SymbolSizes& symbols);

// nullopt when it is no tensor, its rank is not said, or a dimension has no size.
std::optional<TensorType> DeclaredType(const onnx::ValueInfoProto& declaration,
                                       const SymbolSizes& symbols);

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_LOAD_DECLARED_TYPES_H_
