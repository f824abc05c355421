#include "onnx_memplan/load.h"

#include <exception>
#include <filesystem>
#include <limits>
#include <set>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/stubs/logging.h"
#include "load/graph_builder.h"
#include "load/input_types.h"
#include "load/mapped_file.h"
#include "load/proto_fields.h"
#include "load/sha256.h"
#include "onnx/onnx_pb.h"
#include "support/status_macros.h"

namespace onnx_memplan {
namespace {

absl::Status Parse(std::span<const std::byte> bytes, onnx::ModelProto& model) {
  if (bytes.empty()) return absl::InvalidArgumentError("the file is empty");
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max())) {
    return absl::InvalidArgumentError(
        "the file is larger than 2 GiB, the limit of the format; store the weights as external "
        "data (onnx.save with save_as_external_data=True)");
  }
  // Protobuf would write to standard error.
  const google::protobuf::LogSilencer silencer;
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t*>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  if (!model.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage()) {
    return absl::InvalidArgumentError("not an ONNX model, or one that is cut off");
  }
  if (!model.has_graph()) return absl::InvalidArgumentError("not an ONNX model: it has no graph");
  return absl::OkStatus();
}

OpsetImports ReadImports(
    const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports) {
  OpsetImports result;
  for (const onnx::OperatorSetIdProto& entry : imports) {
    result[NormalizedDomain(entry.domain())].insert(entry.version());
  }
  return result;
}

// What is needed to tell versions apart, and the warning.
void NoteSeveralOpsets(const onnx::GraphProto& graph, const std::set<int64_t>& versions,
                       ModelContext& context) {
  for (const auto* infos : {&graph.input(), &graph.value_info(), &graph.output()}) {
    for (const onnx::ValueInfoProto& info : *infos) {
      if (!info.type().tensor_type().has_shape()) continue;
      context.ranks[info.name()] = info.type().tensor_type().shape().dim_size();
    }
  }
  context.warnings.push_back(absl::StrCat("opsets ", absl::StrJoin(versions, ", "),
                                          " of ai.onnx are imported; each node is read as of the "
                                          "newest in which it is well formed"));
}

absl::Status ReadFunctions(onnx::ModelProto& model, ModelContext& context) {
  for (onnx::FunctionProto& function : *model.mutable_functions()) {
    OpsetImports opsets = ReadImports(function.opset_import());
    opsets.insert(context.opsets.begin(), context.opsets.end());
    const std::string key = FunctionKey(function.domain(), function.name(), OverloadOf(function));
    if (!context.functions.emplace(key, ModelFunction{&function, std::move(opsets)}).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("two model-local functions are named '", function.name(), "'"));
    }
  }
  return absl::OkStatus();
}

void CountOperators(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes,
                    std::map<std::string, int64_t>& counts) {
  for (const onnx::NodeProto& node : nodes) {
    const std::string domain = NormalizedDomain(node.domain());
    ++counts[domain.empty() ? node.op_type() : absl::StrCat(domain, ":", node.op_type())];
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) CountOperators(attribute.g().node(), counts);
    }
  }
}

ModelInfo ReadInfo(const onnx::ModelProto& model, const OpsetImports& opsets) {
  ModelInfo info;
  info.ir_version = model.ir_version();
  for (const auto& [domain, versions] : opsets) info.opset_imports[domain] = *versions.rbegin();
  info.producer = absl::StrCat(model.producer_name(), model.producer_version().empty() ? "" : " ",
                               model.producer_version());
  CountOperators(model.graph().node(), info.operators);
  for (const onnx::FunctionProto& function : model.functions()) {
    CountOperators(function.node(), info.operators);
  }
  return info;
}

// Initializers that are listed as inputs too, as IR versions below 4 had to, are constants.
std::vector<const onnx::ValueInfoProto*> TrueInputs(const onnx::GraphProto& graph) {
  std::unordered_set<std::string> initializers;
  for (const onnx::TensorProto& tensor : graph.initializer()) initializers.insert(tensor.name());
  for (const onnx::SparseTensorProto& tensor : graph.sparse_initializer()) {
    initializers.insert(tensor.values().name());
  }
  std::vector<const onnx::ValueInfoProto*> inputs;
  for (const onnx::ValueInfoProto& input : graph.input()) {
    if (!initializers.contains(input.name())) inputs.push_back(&input);
  }
  return inputs;
}

absl::StatusOr<LoadedModel> Load(std::span<const std::byte> bytes, const LoadOptions& options,
                                 const std::string& folder) {
  onnx::ModelProto model;
  RETURN_IF_ERROR(Parse(bytes, model));
  ModelContext context(folder);
  context.opsets = ReadImports(model.opset_import());
  context.keep_declared_types = options.keep_declared_types;
  if (context.opsets.empty()) {
    // IR versions 1 and 2 had one opset and did not write it.
    if (model.ir_version() >= 3) {
      return absl::InvalidArgumentError("not a whole ONNX model: it imports no opset");
    }
    context.opsets[""] = {1};
  }
  if (const auto it = context.opsets.find("");
      it != context.opsets.end() && it->second.size() > 1) {
    NoteSeveralOpsets(model.graph(), it->second, context);
  }
  RETURN_IF_ERROR(ReadFunctions(model, context));
  LoadedModel loaded;
  loaded.info = ReadInfo(model, context.opsets);
  loaded.info.sha256 = Sha256Hex(bytes);
  for (const onnx::TensorProto& tensor : model.graph().initializer()) {
    if (tensor.data_type() == onnx::TensorProto::FLOAT ||
        tensor.data_type() == onnx::TensorProto::DOUBLE) {
      loaded.info.initializers.push_back(tensor.name());
    }
  }
  ASSIGN_OR_RETURN(const std::vector<LoadedInput> inputs,
                   ResolveInputs(TrueInputs(model.graph()), options));
  ASSIGN_OR_RETURN(loaded.graph, GraphBuilder(context).BuildMain(*model.mutable_graph(), inputs));
  loaded.info.warnings = std::move(context.warnings);
  return loaded;
}

}  // namespace

absl::StatusOr<LoadedModel> LoadModelFromBytes(std::span<const std::byte> bytes,
                                               const LoadOptions& options,
                                               const std::string& folder) {
  // The standard library and protobuf throw when memory runs out; that must not pass this border.
  try {
    return Load(bytes, options, folder);
  } catch (const std::exception& error) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot load the model: ", error.what()));
  }
}

absl::StatusOr<LoadedModel> LoadModel(const std::string& path, const LoadOptions& options) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const MappedFile> file, MappedFile::Open(path));
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  absl::StatusOr<LoadedModel> loaded = LoadModelFromBytes(file->bytes(), options, folder);
  if (!loaded.ok()) {
    return absl::Status(loaded.status().code(),
                        absl::StrCat("'", path, "': ", std::string(loaded.status().message())));
  }
  return loaded;
}

}  // namespace onnx_memplan
