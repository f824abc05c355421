// Traces and plans as CSV files, in the format of `onnx-memplan plan` (onnx_memplan/buffers.h),
// without the heap.
//
// The id of a row is `REQUEST.STEP`, or `REQUEST.STEP.loop` for a block of a loop. Rows are in the
// order of the requests.
#ifndef ONNX_MEMPLAN_SRC_PROFILE_CSV_H_
#define ONNX_MEMPLAN_SRC_PROFILE_CSV_H_

#include "onnx_memplan/profile.h"
#include "profile/mapped_array.h"
#include "profile/recorder.h"

namespace onnx_memplan::profile {

// What is wrong with a file.
struct FileFault {
  const char* what = nullptr;  // null: nothing; else a string that lives forever
  int64_t line = 0;            // 0: the file as a whole
};

// Columns are found by their names: size and offset must be there, alignment (64 where absent or
// empty) and id are used, others are ignored. Ids that are not as above count as step 0.
FileFault ReadPlan(const char* path, MappedArray<PlannedBlock>* plan);

// False when the file cannot be written.
bool WriteTrace(const char* path, const Recorder& recorder, int loop_steps);

// Writes the bytes, replacing what was there. False when that fails.
bool WriteFile(const char* path, const char* bytes, size_t count);

}  // namespace onnx_memplan::profile

#endif  // ONNX_MEMPLAN_SRC_PROFILE_CSV_H_
