// The rewritings of adapter.h, one for each change of an operator's meaning in ONNX's changelog
// (https://github.com/onnx/onnx/blob/main/docs/Changelog.md). adapter_table.cc says which one is
// for which versions.
#ifndef ONNX_MEMPLAN_LOAD_ADAPTERS_H_
#define ONNX_MEMPLAN_LOAD_ADAPTERS_H_

#include "load/adapter.h"

namespace onnx_memplan::adapters {

// adapters_inputs.cc: what became an input, or changed its name or default.
absl::Status AxesToInput(Adaptation& a);
absl::Status ReshapeShapeToInput(Adaptation& a);
absl::Status SliceToInputs(Adaptation& a);
absl::Status PadToInputs(Adaptation& a);
absl::Status ClipToInputs(Adaptation& a);
absl::Status SplitToInput(Adaptation& a);
absl::Status TopKToInput(Adaptation& a);
absl::Status DftAxisToInput(Adaptation& a);
absl::Status CastFromName(Adaptation& a);
absl::Status ConcatDefaultAxis(Adaptation& a);
absl::Status SeluDefaults(Adaptation& a);
absl::Status LpPoolIntegerP(Adaptation& a);
absl::Status GridSampleModes(Adaptation& a);
absl::Status RoiAlignOutputHalfPixel(Adaptation& a);
absl::Status ScatterToScatterElements(Adaptation& a);
absl::Status GemmBroadcast(Adaptation& a);

// adapters_meaning.cc: what meant something else.
absl::Status LegacyBroadcast(Adaptation& a);
absl::Status PReluByChannel(Adaptation& a);
absl::Status SoftmaxOfFlattened(Adaptation& a);
absl::Status BatchNormalizationOld(Adaptation& a);
absl::Status DropoutOld(Adaptation& a);
absl::Status UpsampleToResize(Adaptation& a);
absl::Status Resize10(Adaptation& a);
absl::Status ResizeOptionalInputs(Adaptation& a);
absl::Status GroupNormalizationByGroup(Adaptation& a);
absl::Status Refuse(Adaptation& a);

}  // namespace onnx_memplan::adapters

#endif  // ONNX_MEMPLAN_LOAD_ADAPTERS_H_
