#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "onnx_memplan/profile_allocator.h"
#include "profile/csv.h"
#include "profile/recorder.h"
#include "profile/replayer.h"

namespace onnx_memplan {
namespace {

void* AlignedMalloc(size_t bytes, size_t alignment) {
  void* pointer = nullptr;
  return posix_memalign(&pointer, alignment, std::max<size_t>(bytes, 1)) == 0 ? pointer : nullptr;
}

}  // namespace

// One of the two is set.
struct ProfileHeap::State {
  std::unique_ptr<profile::Recorder> recorder;
  std::unique_ptr<profile::Replayer> replayer;
};

ProfileHeap::ProfileHeap(std::unique_ptr<State> state) : state_(std::move(state)) {}
ProfileHeap::~ProfileHeap() = default;

std::unique_ptr<ProfileHeap> ProfileHeap::Record() {
  auto state = std::make_unique<State>();
  state->recorder = std::make_unique<profile::Recorder>();
  return std::unique_ptr<ProfileHeap>(new ProfileHeap(std::move(state)));
}

std::unique_ptr<ProfileHeap> ProfileHeap::Replay(const std::vector<PlannedBlock>& plan,
                                                 std::string* error) {
  profile::MappedArray<PlannedBlock> blocks;
  bool copied = true;
  for (const PlannedBlock& block : plan) copied = copied && blocks.PushBack(block);
  auto state = std::make_unique<State>();
  state->replayer = std::make_unique<profile::Replayer>();
  const char* fault = copied ? state->replayer->Init(blocks) : "there is no memory for the plan";
  if (fault != nullptr) {
    *error = fault;
    return nullptr;
  }
  return std::unique_ptr<ProfileHeap>(new ProfileHeap(std::move(state)));
}

std::unique_ptr<ProfileHeap> ProfileHeap::ReplayFile(const std::string& path, std::string* error) {
  profile::MappedArray<PlannedBlock> blocks;
  const profile::FileFault fault = profile::ReadPlan(path.c_str(), &blocks);
  if (fault.what != nullptr) {
    *error = path + ": ";
    if (fault.line > 0) *error += "line " + std::to_string(fault.line) + ": ";
    *error += fault.what;
    return nullptr;
  }
  auto heap = Replay({blocks.begin(), blocks.end()}, error);
  if (heap == nullptr) *error = path + ": " + *error;
  return heap;
}

void* ProfileHeap::Allocate(size_t bytes, size_t alignment) noexcept {
  alignment = std::max(alignment, kProfileAlignment);
  if (state_->recorder != nullptr) {
    void* pointer = AlignedMalloc(bytes, alignment);
    state_->recorder->Begin(pointer, bytes, alignment);
    return pointer;
  }
  bool fresh;
  void* pointer = state_->replayer->Allocate(bytes, alignment, &fresh);
  if (pointer != nullptr) return pointer;
  pointer = AlignedMalloc(bytes, alignment);
  state_->replayer->NoteFallback(pointer, bytes);
  return pointer;
}

void ProfileHeap::Deallocate(void* pointer) noexcept {
  if (pointer == nullptr) return;
  if (state_->recorder != nullptr) {
    state_->recorder->End(pointer);
  } else if (state_->replayer->Owns(pointer)) {
    state_->replayer->Release(pointer);
    return;
  } else {
    state_->replayer->NoteForeignRelease(pointer);
  }
  std::free(pointer);
}

void ProfileHeap::EndStep() noexcept {
  if (state_->recorder != nullptr) state_->recorder->EndStep();
  if (state_->replayer != nullptr) state_->replayer->EndStep();
}

void ProfileHeap::Restart() noexcept {
  if (state_->replayer != nullptr) state_->replayer->Restart();
}

std::vector<RecordedBlock> ProfileHeap::Trace(int loop_steps) const {
  std::vector<RecordedBlock> rows;
  if (state_->recorder == nullptr) return rows;
  state_->recorder->VisitTrace(loop_steps, [&](const RecordedBlock& row) { rows.push_back(row); });
  return rows;
}

bool ProfileHeap::WriteTrace(const std::string& path, int loop_steps) const {
  return state_->recorder != nullptr &&
         profile::WriteTrace(path.c_str(), *state_->recorder, loop_steps);
}

ProfileStatistics ProfileHeap::Statistics() const {
  return state_->replayer == nullptr ? ProfileStatistics{} : state_->replayer->Statistics();
}

}  // namespace onnx_memplan
