// The list of packers.
#include <algorithm>
#include <string>
#include <utility>

#include "plan/pack_auto.h"
#include "plan/pack_fit.h"
#include "plan/pack_skyline.h"
#include "plan/packer.h"
#include "support/check.h"

namespace onnx_memplan {
namespace {

Packing MakePacking(const Blocks& blocks, std::vector<int64_t> offsets, std::string_view method) {
  Packing packing;
  packing.bytes = PackedBytes(blocks, offsets);
  packing.offsets = std::move(offsets);
  packing.lower_bound = blocks.lower_bound;
  packing.method = std::string(method);
  return packing;
}

template <FitKey key, FitRule rule>
Packing PackFit(const Blocks& blocks, const PackOptions&, std::string_view name) {
  return MakePacking(blocks, FitPlacer(blocks).Place(PlacementOrder(blocks, key), rule), name);
}

template <SkylineKey key>
Packing PackSkyline(const Blocks& blocks, const PackOptions& options, std::string_view name) {
  const Deadline deadline(options.time_limit_seconds, options.cancel);
  std::vector<int64_t> offsets = SkylineOffsets(blocks, key, deadline);
  if (offsets.size() == blocks.blocks.size()) {
    return MakePacking(blocks, std::move(offsets), name);
  }
  // Fixed blocks or no time: the nearest first-fit.
  return PackFit<FitKey::kDuration, FitRule::kFirst>(blocks, options, "first_fit_duration");
}

Packing PackPyramid(const Blocks& blocks, const PackOptions&, std::string_view name) {
  return MakePacking(blocks, FitPlacer(blocks).Place(PyramidOrder(blocks), FitRule::kFirst), name);
}

struct Entry {
  PackerInfo info;
  Packing (*pack)(const Blocks&, const PackOptions&, std::string_view name);
};

constexpr Entry kPackers[] = {
    {{"auto", "portfolio; where it leaves a gap, exact search"},
     [](const Blocks& blocks, const PackOptions& options, std::string_view) {
       return PackAuto(blocks, options);
     }},
    {{"portfolio", "the best of all greedy packers"},
     [](const Blocks& blocks, const PackOptions& options, std::string_view) {
       return PackPortfolio(blocks, options);
     }},
    {{"first_fit_size", "largest first, lowest gap"}, PackFit<FitKey::kSize, FitRule::kFirst>},
    {{"first_fit_area", "bytes x steps, lowest gap"}, PackFit<FitKey::kArea, FitRule::kFirst>},
    {{"first_fit_duration", "longest first, lowest gap"},
     PackFit<FitKey::kDuration, FitRule::kFirst>},
    {{"first_fit_conflicts", "most neighbours first, lowest gap"},
     PackFit<FitKey::kConflicts, FitRule::kFirst>},
    {{"first_fit_size_conflicts", "largest first, then most neighbours, lowest gap"},
     PackFit<FitKey::kSizeConflicts, FitRule::kFirst>},
    {{"first_fit_start", "in order of birth, lowest gap"},
     PackFit<FitKey::kStart, FitRule::kFirst>},
    {{"first_fit_peak", "nearest to the peak first, lowest gap"},
     PackFit<FitKey::kPeak, FitRule::kFirst>},
    {{"best_fit_size", "largest first, tightest gap"}, PackFit<FitKey::kSize, FitRule::kBest>},
    {{"best_fit_area", "bytes x steps, tightest gap"}, PackFit<FitKey::kArea, FitRule::kBest>},
    {{"best_fit_duration", "longest first, tightest gap"},
     PackFit<FitKey::kDuration, FitRule::kBest>},
    {{"best_fit_start", "in order of birth, tightest gap"},
     PackFit<FitKey::kStart, FitRule::kBest>},
    {{"skyline_duration", "best-fit of arXiv 1804.10001: lowest line, longest block"},
     PackSkyline<SkylineKey::kDuration>},
    {{"skyline_size", "the same, largest block"}, PackSkyline<SkylineKey::kSize>},
    {{"skyline_area", "the same, bytes x steps"}, PackSkyline<SkylineKey::kArea>},
    {{"pyramid", "nested lifetimes stacked as in OLLA, the rest by size"}, PackPyramid},
};

class ListedPacker : public Packer {
 public:
  explicit ListedPacker(const Entry& entry) : entry_(entry) {}
  Packing Pack(const Blocks& blocks, const PackOptions& options) const override {
    return entry_.pack(blocks, options, entry_.info.name);
  }

 private:
  const Entry& entry_;
};

}  // namespace

int64_t PackedBytes(const Blocks& blocks, const std::vector<int64_t>& offsets) {
  MEMPLAN_CHECK(offsets.size() == blocks.blocks.size());
  int64_t bytes = 0;
  for (size_t b = 0; b < offsets.size(); ++b) {
    bytes = std::max(bytes, offsets[b] + blocks.blocks[b].bytes);
  }
  return bytes;
}

const std::vector<PackerInfo>& AvailablePackers() {
  static const auto* const infos = [] {
    auto* list = new std::vector<PackerInfo>;
    for (const Entry& entry : kPackers) list->push_back(entry.info);
    return list;
  }();
  return *infos;
}

std::unique_ptr<Packer> MakePacker(std::string_view name) {
  for (const Entry& entry : kPackers) {
    if (entry.info.name == name) return std::make_unique<ListedPacker>(entry);
  }
  return nullptr;
}

}  // namespace onnx_memplan
