#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "load/adapters.h"
#include "onnx/onnx_pb.h"

namespace onnx_memplan::adapters {

// Squeeze and Unsqueeze before 13, reductions before 18 (ReduceSum: 13).
absl::Status AxesToInput(Adaptation& a) {
  if (const auto axes = a.TakeInts("axes")) a.SetInput(1, a.Ints("axes", *axes));
  return absl::OkStatus();
}

absl::Status ReshapeShapeToInput(Adaptation& a) {
  const auto shape = a.TakeInts("shape");
  if (!shape) return a.Invalid("attribute 'shape' is missing");
  a.SetInput(1, a.Ints("shape", *shape));
  return absl::OkStatus();
}

absl::Status SliceToInputs(Adaptation& a) {
  const auto starts = a.TakeInts("starts");
  const auto ends = a.TakeInts("ends");
  if (!starts || !ends) return a.Invalid("attributes 'starts' and 'ends' are required");
  a.SetInput(1, a.Ints("starts", *starts));
  a.SetInput(2, a.Ints("ends", *ends));
  if (const auto axes = a.TakeInts("axes")) a.SetInput(3, a.Ints("axes", *axes));
  return absl::OkStatus();
}

// Pad-1 calls the pads 'paddings'.
absl::Status PadToInputs(Adaptation& a) {
  auto pads = a.TakeInts("pads");
  if (!pads) pads = a.TakeInts("paddings");
  if (!pads) return a.Invalid("attribute 'pads' is missing");
  a.SetInput(1, a.Ints("pads", *pads));
  const float value = a.TakeFloat("value").value_or(0.0F);
  if (value != 0) a.SetInput(2, a.Constant("value", Tensor::FromVector<float>({}, {value})));
  return absl::OkStatus();
}

absl::Status ClipToInputs(Adaptation& a) {
  const std::pair<size_t, const char*> bounds[] = {{1, "min"}, {2, "max"}};
  for (const auto& [input, name] : bounds) {
    if (const auto value = a.TakeFloat(name)) {
      a.SetInput(input, a.Constant(name, Tensor::FromVector<float>({}, {*value})));
    }
  }
  return absl::OkStatus();
}

// 'split' became an input in 13; equal parts are said by 'num_outputs' since 18.
absl::Status SplitToInput(Adaptation& a) {
  if (const auto split = a.TakeInts("split")) a.SetInput(1, a.Ints("split", *split));
  if (!a.HasInput(1)) {
    a.node.attributes["num_outputs"] = static_cast<int64_t>(a.node.outputs.size());
  }
  return absl::OkStatus();
}

absl::Status TopKToInput(Adaptation& a) {
  const auto k = a.TakeInt("k");
  if (!k) return a.Invalid("attribute 'k' is missing");
  a.SetInput(1, a.Ints("k", {*k}));
  return absl::OkStatus();
}

absl::Status DftAxisToInput(Adaptation& a) {
  a.SetInput(2, a.Constant("axis", Tensor::ScalarInt64(a.TakeInt("axis").value_or(1))));
  return absl::OkStatus();
}

// Cast-1 says the type by its name.
absl::Status CastFromName(Adaptation& a) {
  const std::string name = absl::AsciiStrToUpper(a.TakeString("to").value_or(""));
  onnx::TensorProto::DataType type = onnx::TensorProto::UNDEFINED;
  if (!onnx::TensorProto::DataType_Parse(name, &type)) {
    return a.Invalid(absl::StrCat("attribute 'to' names no element type: '", name, "'"));
  }
  a.node.attributes["to"] = static_cast<int64_t>(type);
  return absl::OkStatus();
}

absl::Status ConcatDefaultAxis(Adaptation& a) {
  a.node.attributes.try_emplace("axis", int64_t{1});
  return absl::OkStatus();
}

absl::Status SeluDefaults(Adaptation& a) {
  a.node.attributes.try_emplace("alpha", 1.6732F);
  a.node.attributes.try_emplace("gamma", 1.0507F);
  return absl::OkStatus();
}

// LpPool-1 and GlobalLpPool-1 have a float 'p'.
absl::Status LpPoolIntegerP(Adaptation& a) {
  const float p = a.TakeFloat("p").value_or(2.0F);
  if (!(p >= 1 && p <= 1024) || p != static_cast<float>(static_cast<int64_t>(p))) {
    return a.Unsupported(absl::StrCat("p = ", p, " is not an integer"));
  }
  a.node.attributes["p"] = static_cast<int64_t>(p);
  return absl::OkStatus();
}

absl::Status GridSampleModes(Adaptation& a) {
  const std::string mode = a.TakeString("mode").value_or("bilinear");
  a.node.attributes["mode"] = mode == "bilinear"  ? std::string("linear")
                              : mode == "bicubic" ? std::string("cubic")
                                                  : mode;
  return absl::OkStatus();
}

absl::Status RoiAlignOutputHalfPixel(Adaptation& a) {
  a.node.attributes["coordinate_transformation_mode"] = std::string("output_half_pixel");
  return absl::OkStatus();
}

absl::Status ScatterToScatterElements(Adaptation& a) {
  a.node.op_type = "ScatterElements";
  return absl::OkStatus();
}

// Since 7 C always broadcasts.
absl::Status GemmBroadcast(Adaptation& a) {
  a.Drop("broadcast");
  return absl::OkStatus();
}

}  // namespace onnx_memplan::adapters
