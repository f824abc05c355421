// What a self-test does: compares outputs with what is expected, and reads a file of weights.
#ifndef MEMPLAN_SKELETON_COMPARE_H_
#define MEMPLAN_SKELETON_COMPARE_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>

namespace skeleton {

// The value of an IEEE 754 half, from its bits.
inline double HalfToDouble(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  double value = 0;
  if (exponent == 31) {
    value = mantissa == 0 ? static_cast<double>(INFINITY) : static_cast<double>(NAN);
  } else {
    value = std::ldexp(static_cast<double>(exponent == 0 ? mantissa : mantissa + 1024),
                       (exponent == 0 ? 1 : exponent) - 25);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

template <class T>
inline double ToDouble(T value) {
  return static_cast<double>(value);
}

// Prints one line for an output. True if |actual - expected| <= absolute + relative * |expected|
// holds for each element; NaN is equal to NaN.
template <class T>
inline bool Compare(const char* name, const T* actual, const T* expected, size_t count,
                    double absolute, double relative, double (*to_double)(T)) {
  double max_difference = 0;
  size_t wrong = 0;
  for (size_t i = 0; i < count; ++i) {
    if (actual[i] == expected[i]) continue;
    const double a = to_double(actual[i]);
    const double e = to_double(expected[i]);
    if (std::isnan(a) && std::isnan(e)) continue;
    const double difference = std::fabs(a - e);
    if (difference > max_difference) max_difference = difference;
    if (!(difference <= absolute + relative * std::fabs(e))) ++wrong;
  }
  std::printf("%s: %lu elements, max abs diff %g, %lu beyond tolerance\n", name,
              static_cast<unsigned long>(count), max_difference, static_cast<unsigned long>(wrong));
  return wrong == 0;
}

// Reads `bytes` bytes of the file `path`; false, with a line that says why, when it has not as
// many.
inline bool ReadFile(const char* path, void* data, size_t bytes) {
  std::FILE* file = std::fopen(path, "rb");
  if (file == nullptr) {
    std::printf("cannot open %s\n", path);
    return false;
  }
  const size_t got = std::fread(data, 1, bytes, file);
  std::fclose(file);
  if (got != bytes) std::printf("%s is too short\n", path);
  return got == bytes;
}

}  // namespace skeleton

#endif  // MEMPLAN_SKELETON_COMPARE_H_
