#include "load/export.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "load/tensor_proto.h"
#include "load/value_names.h"
#include "onnx/onnx_pb.h"
#include "ops/epilogue.h"
#include "support/check.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

// The oldest opset in which every operator has its canonical form: opset 22 only added bfloat16,
// and runtimes lack more of its kernels (ONNX Runtime 1.30 has no RoiAlign-22).
constexpr int64_t kExportOpset = 21;
// The oldest IR version that knows kExportOpset.
constexpr int64_t kIrVersion = 10;

// Operators that are younger.
int64_t OpsetOf(const Node& node) { return node.Is("RMSNormalization") ? 23 : kExportOpset; }

void SetTensor(const Tensor& tensor, const std::string& name, onnx::TensorProto& proto) {
  proto.set_name(name);
  proto.set_data_type(DTypeToOnnx(tensor.dtype()));
  for (int64_t dim : tensor.shape()) proto.add_dims(dim);
  proto.set_raw_data(tensor.data(), static_cast<size_t>(tensor.Bytes()));
}

void SetValueInfo(const Value& value, onnx::ValueInfoProto& proto) {
  proto.set_name(value.name);
  onnx::TypeProto::Tensor& type = *proto.mutable_type()->mutable_tensor_type();
  type.set_elem_type(DTypeToOnnx(value.type->dtype));
  type.mutable_shape();
  for (int64_t dim : value.type->shape) type.mutable_shape()->add_dim()->set_dim_value(dim);
}

struct AttributeWriter {
  onnx::AttributeProto& proto;

  void operator()(int64_t value) const {
    proto.set_type(onnx::AttributeProto::INT);
    proto.set_i(value);
  }
  void operator()(float value) const {
    proto.set_type(onnx::AttributeProto::FLOAT);
    proto.set_f(value);
  }
  void operator()(const std::string& value) const {
    proto.set_type(onnx::AttributeProto::STRING);
    proto.set_s(value);
  }
  void operator()(const std::vector<int64_t>& values) const {
    proto.set_type(onnx::AttributeProto::INTS);
    for (int64_t value : values) proto.add_ints(value);
  }
  void operator()(const std::vector<float>& values) const {
    proto.set_type(onnx::AttributeProto::FLOATS);
    for (float value : values) proto.add_floats(value);
  }
  void operator()(const std::vector<std::string>& values) const {
    proto.set_type(onnx::AttributeProto::STRINGS);
    for (const std::string& value : values) proto.add_strings(value);
  }
  void operator()(const Tensor& tensor) const {
    proto.set_type(onnx::AttributeProto::TENSOR);
    SetTensor(tensor, "", *proto.mutable_t());
  }
  void operator()(const std::shared_ptr<const Graph>&) const {
    MEMPLAN_CHECK_MSG(false, "graphs are refused before");
  }
};

class Exporter {
 public:
  explicit Exporter(const Graph& graph) : graph_(graph) {
    for (const Value& value : graph.values) names_.Unique(value.name);
  }

  absl::StatusOr<std::string> Run() {
    proto_.set_name(graph_.name.empty() ? "graph" : graph_.name);
    for (const Node& node : graph_.nodes) RETURN_IF_ERROR(AddNode(node));
    AddInputsAndOutputs();
    RETURN_IF_ERROR(AddConstants());
    return Serialize();
  }

 private:
  const Value& At(ValueId id) const { return graph_.values[static_cast<size_t>(id)]; }
  std::string NameOf(ValueId id) const { return id == kNoValue ? "" : At(id).name; }

  absl::Status AddNode(const Node& node) {
    for (const auto& [name, attribute] : node.attributes) {
      if (std::holds_alternative<std::shared_ptr<const Graph>>(attribute)) {
        return absl::UnimplementedError(absl::StrCat("node '", graph_.NodeName(node), "' (",
                                                     node.op_type,
                                                     "): a node with a subgraph is not exported"));
      }
    }
    std::vector<std::string> inputs;
    for (ValueId id : node.inputs) inputs.push_back(NameOf(id));
    std::string residual;
    if (node.epilogue.has_residual) {
      residual = inputs.back();
      inputs.pop_back();
    }
    while (!inputs.empty() && inputs.back().empty()) inputs.pop_back();
    for (ValueId id : node.inputs) MarkConstant(id);

    std::vector<std::string> outputs;
    for (ValueId id : node.outputs) outputs.push_back(NameOf(id));
    const std::string result = outputs.empty() ? "" : outputs[0];
    if (!node.epilogue.empty()) outputs[0] = names_.Unique(result + "/plain");
    const std::string plain = outputs.empty() ? "" : outputs[0];
    onnx::NodeProto& proto = Emit(node.op_type, node.domain, std::move(inputs), std::move(outputs));
    proto.set_name(node.name);
    for (const auto& [name, attribute] : node.attributes) {
      onnx::AttributeProto& entry = *proto.add_attribute();
      entry.set_name(name);
      std::visit(AttributeWriter{entry}, attribute);
    }
    opset_ = std::max(opset_, OpsetOf(node));
    if (!node.epilogue.empty()) AddEpilogue(node.epilogue, plain, residual, result);
    return absl::OkStatus();
  }

  void AddEpilogue(const Epilogue& epilogue, std::string plain, const std::string& residual,
                   const std::string& result) {
    if (epilogue.has_residual) {
      const std::string sum = epilogue.activation.empty() ? result : names_.Unique(result + "/sum");
      Emit("Add", "", {plain, residual}, {sum});
      plain = sum;
    }
    if (!epilogue.activation.empty()) AddActivation(epilogue, plain, result);
  }

  void AddActivation(const Epilogue& epilogue, const std::string& x, const std::string& result) {
    const std::string& activation = epilogue.activation;
    if (activation == "Clip") {
      Emit("Clip", "",
           {x, FloatConstant(result + "/min", epilogue.alpha),
            FloatConstant(result + "/max", epilogue.beta)},
           {result});
      return;
    }
    const auto table = ActivationTable();
    const auto def = std::find_if(table.begin(), table.end(), [&](const ActivationDef& candidate) {
      return candidate.name == activation;
    });
    MEMPLAN_CHECK_MSG(def != table.end(), activation);
    // x * sigmoid(alpha * x) has no operator of its own in kExportOpset.
    if (activation == "Silu" || activation == "Swish" || activation == "QuickGelu") {
      std::string argument = x;
      if (activation != "Silu" && epilogue.alpha != 1) {
        argument = names_.Unique(result + "/scaled");
        Emit("Mul", "", {x, FloatConstant(result + "/alpha", epilogue.alpha)}, {argument});
      }
      const std::string gate = names_.Unique(result + "/gate");
      Emit("Sigmoid", "", {argument}, {gate});
      Emit("Mul", "", {x, gate}, {result});
      return;
    }
    onnx::NodeProto& proto =
        Emit(std::string(def->op_type), std::string(def->op_domain), {x}, {result});
    if (activation == "Gelu") {
      SetAttribute(proto, "approximate", std::string(epilogue.alpha == 1 ? "tanh" : "none"));
    }
    if (!def->alpha_attribute.empty()) {
      SetAttribute(proto, std::string(def->alpha_attribute), epilogue.alpha);
    }
    if (!def->beta_attribute.empty()) {
      SetAttribute(proto, std::string(def->beta_attribute), epilogue.beta);
    }
  }

  template <class T>
  static void SetAttribute(onnx::NodeProto& node, const std::string& name, const T& value) {
    onnx::AttributeProto& entry = *node.add_attribute();
    entry.set_name(name);
    AttributeWriter{entry}(value);
  }

  onnx::NodeProto& Emit(const std::string& op_type, const std::string& domain,
                        std::vector<std::string> inputs, std::vector<std::string> outputs) {
    onnx::NodeProto& proto = *proto_.add_node();
    proto.set_op_type(op_type);
    if (!domain.empty()) proto.set_domain(domain);
    for (std::string& input : inputs) proto.add_input(std::move(input));
    for (std::string& output : outputs) proto.add_output(std::move(output));
    if (!domain.empty()) domains_.insert(domain);
    return proto;
  }

  std::string FloatConstant(const std::string& base, float value) {
    std::string name = names_.Unique(base);
    SetTensor(Tensor::FromVector<float>({}, {value}), name, *proto_.add_initializer());
    return name;
  }

  void MarkConstant(ValueId id) {
    if (id != kNoValue && At(id).constant) constants_.insert(id);
  }

  void AddInputsAndOutputs() {
    for (ValueId id : graph_.inputs) SetValueInfo(At(id), *proto_.add_input());
    std::set<std::string> seen;
    for (ValueId id : graph_.outputs) {
      Value value = At(id);
      // An output must be made by a node, and be listed once.
      const bool is_input =
          std::find(graph_.inputs.begin(), graph_.inputs.end(), id) != graph_.inputs.end();
      if (value.constant || is_input || !seen.insert(value.name).second) {
        value.name = names_.Unique(value.name + "/output");
        Emit("Identity", "", {At(id).name}, {value.name});
        MarkConstant(id);
      }
      SetValueInfo(value, *proto_.add_output());
    }
    for (const Node& node : graph_.nodes) {
      for (ValueId id : node.outputs) {
        if (id == kNoValue || seen.contains(At(id).name)) continue;
        SetValueInfo(At(id), *proto_.add_value_info());
      }
    }
  }

  absl::Status AddConstants() {
    int64_t total_bytes = 0;
    for (ValueId id : constants_) total_bytes += At(id).constant->Bytes();
    if (total_bytes > std::numeric_limits<int32_t>::max() / 64 * 63) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "the constants have ", total_bytes, " bytes; one ONNX file holds less than 2 GiB"));
    }
    for (ValueId id : constants_) {
      SetTensor(*At(id).constant, At(id).name, *proto_.add_initializer());
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Serialize() {
    onnx::ModelProto model;
    model.set_ir_version(kIrVersion);
    model.set_producer_name("onnx-memplan");
    *model.mutable_graph() = std::move(proto_);
    onnx::OperatorSetIdProto& standard = *model.add_opset_import();
    standard.set_domain("");
    standard.set_version(opset_);
    for (const std::string& domain : domains_) {
      onnx::OperatorSetIdProto& import = *model.add_opset_import();
      import.set_domain(domain);
      import.set_version(1);
    }
    std::string bytes;
    {
      google::protobuf::io::StringOutputStream stream(&bytes);
      google::protobuf::io::CodedOutputStream coded(&stream);
      coded.SetSerializationDeterministic(true);
      if (!model.SerializeToCodedStream(&coded)) {
        return absl::ResourceExhaustedError("the model does not fit in one ONNX file");
      }
    }
    return bytes;
  }

  const Graph& graph_;
  onnx::GraphProto proto_;
  ValueNames names_;
  std::set<ValueId> constants_;
  std::set<std::string> domains_;
  int64_t opset_ = kExportOpset;
};

}  // namespace

absl::StatusOr<std::string> ExportOnnx(const Graph& graph) { return Exporter(graph).Run(); }

}  // namespace onnx_memplan
