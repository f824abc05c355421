// From GraphProto to Graph.
#ifndef ONNX_MEMPLAN_LOAD_GRAPH_BUILDER_H_
#define ONNX_MEMPLAN_LOAD_GRAPH_BUILDER_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "load/external_data.h"
#include "load/input_types.h"
#include "load/value_names.h"
#include "onnx/onnx_pb.h"
#include "onnx_memplan/graph.h"

namespace onnx_memplan {

// Domain -> versions, of which there should be one (opset_choice.h); "" is ai.onnx.
using OpsetImports = std::map<std::string, std::set<int64_t>>;

// "ai.onnx" and "" are the same domain.
std::string NormalizedDomain(const std::string& domain);

struct ModelFunction {
  onnx::FunctionProto* proto = nullptr;
  OpsetImports opsets;
};

// What all graphs of a model share.
struct ModelContext {
  explicit ModelContext(std::string folder) : external(std::move(folder)) {}

  ExternalData external;
  OpsetImports opsets;
  // Of values of the main graph, where the file says it; read when it imports several opsets only.
  std::unordered_map<std::string, int64_t> ranks;
  // Types that the file declares for values inside the main graph are kept: LoadOptions.
  bool keep_declared_types = false;
  // By FunctionKey.
  std::map<std::string, ModelFunction> functions;
  // Nodes so far, those of inlined functions included: a small file can describe a huge graph.
  int64_t nodes = 0;
  std::vector<std::string> warnings;
};

std::string FunctionKey(const std::string& domain, const std::string& name,
                        const std::string& overload);

class GraphBuilder {
 public:
  explicit GraphBuilder(ModelContext& model) : model_(model) {}

  // The whole model. `proto` gives up its tensor data.
  absl::StatusOr<Graph> BuildMain(onnx::GraphProto& proto, const std::vector<LoadedInput>& inputs);

 private:
  // Where names mean something: the graph itself, or the body of a function that is inlined.
  struct Scope {
    std::unordered_map<std::string, ValueId> values;
    const OpsetImports* opsets = nullptr;
    // Attributes of the call, by the name that the function gives them.
    std::map<std::string, onnx::AttributeProto> arguments;
    // For names of values and nodes: "call/" in an inlined function.
    std::string prefix;
    // Values of the caller that these names stand for: outputs of a function.
    std::unordered_map<std::string, ValueId> results;
    // Names that are not here may belong to the graph around (not from inside a function).
    bool sees_outside = false;
    // Tensors are used once: their data may be moved out of the proto.
    bool consumes_tensors = true;
    int32_t call_depth = 0;
  };

  struct Subgraph {
    std::string attribute;
    Graph graph;
    ValueNames names;
    // Value outside -> value inside, by first use.
    std::vector<std::pair<ValueId, ValueId>> captures;
  };

  GraphBuilder(ModelContext& model, GraphBuilder& outer, Scope& outer_scope)
      : model_(model), outer_(&outer), outer_scope_(&outer_scope) {}

  absl::Status AddInitializers(onnx::GraphProto& proto, Scope& scope);
  absl::Status AddNodes(google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, Scope& scope);
  absl::Status AddOutputs(const onnx::GraphProto& proto, Scope& scope);
  // Types of what nodes make, where the file says them.
  void KeepDeclaredTypes(const onnx::GraphProto& proto, const Scope& scope);
  absl::Status DeclareOutputs(onnx::NodeProto& proto, Scope& scope);
  absl::Status DeclareConstant(onnx::NodeProto& proto, Scope& scope);
  ValueId DeclareValue(const std::string& name, Scope& scope);
  absl::StatusOr<Tensor> ConstantOf(onnx::NodeProto& proto, Scope& scope);
  absl::Status AddNode(onnx::NodeProto& proto, Scope& scope);
  absl::Status AddOperator(onnx::NodeProto& proto, std::vector<ValueId> inputs, Scope& scope);
  absl::Status ToCanonicalForm(const onnx::NodeProto& proto, const Scope& scope, Node& node);
  absl::Status Inline(const ModelFunction& function, const onnx::NodeProto& call,
                      const std::vector<ValueId>& inputs, Scope& caller);
  absl::StatusOr<Scope> EnterFunction(const ModelFunction& function, const onnx::NodeProto& call,
                                      const std::vector<ValueId>& inputs, Scope& caller);
  absl::Status SetAttribute(onnx::AttributeProto& proto, Scope& scope, Node& node,
                            std::vector<Subgraph>& subgraphs);
  absl::StatusOr<Subgraph> BuildSubgraph(onnx::GraphProto& proto, Scope& scope);
  void AttachSubgraphs(std::vector<Subgraph> subgraphs, Node& node);
  absl::StatusOr<std::vector<ValueId>> InputsOf(const onnx::NodeProto& proto, Scope& scope);

  // kNoValue: nothing of this name.
  ValueId Find(Scope& scope, const std::string& name);
  ValueId Capture(const std::string& name);

  ModelContext& model_;
  GraphBuilder* outer_ = nullptr;
  Scope* outer_scope_ = nullptr;
  Graph graph_;
  ValueNames names_;
  std::vector<std::pair<ValueId, ValueId>> captures_;
  std::vector<const onnx::FunctionProto*> active_functions_;
};

}  // namespace onnx_memplan

#endif  // ONNX_MEMPLAN_LOAD_GRAPH_BUILDER_H_
