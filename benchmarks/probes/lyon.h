// What the probes share: LyOn's numbers at a budget, and the seeds of a run's random words.
// The policy is tightrope's LyOn() with its defaults: src/tightrope/policies/lyon.py.
#pragma once
#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define ANYWHERE __host__ __device__ // both the processor and the device compile it
#else
#define ANYWHERE
#endif

constexpr double LIMIT = 0.8;   // penalty per unit of cost
constexpr float ALPHA = 2.0f;   // the confidence radius is sqrt(2 alpha log n / pulls)
constexpr float TINY = 1e-9f;   // stands for a cost of 0 so far: such an arm is pulled again
constexpr double TICKS = 2147483648.0; // outcomes are drawn in steps of 2^-31

struct Setting {
  float budget, v, drain; // v weighs reward against the queue; drain = limit - delta
  int explore;            // pulls of each arm before the first decision, with the queue at rest
};

inline Setting setting(double budget, double smallest_cost) {
  double growth = std::log(budget);
  double delta = 0.5 * std::sqrt(growth / budget);
  int explore = (int)std::ceil(std::log(2.0 * budget / smallest_cost));
  return {(float)budget, (float)std::sqrt(budget * growth), (float)(LIMIT - delta), explore};
}

// A probability as a threshold: an outcome is 1 where a word's upper 31 bits are below it. Fits
// into a signed number, which AVX2 can compare; certainty loses 2^-31.
inline int32_t threshold(double mean) { return (int32_t)std::fmin(mean * TICKS, TICKS - 1.0); }

ANYWHERE inline uint64_t splitmix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// The first state of xorshift128 for a run: four words, not all of them 0.
ANYWHERE inline void seed_words(uint64_t run, uint32_t words[4]) {
  uint64_t first = splitmix(run + 1), second = splitmix(first);
  words[0] = (uint32_t)first | 1u;
  words[1] = (uint32_t)(first >> 32);
  words[2] = (uint32_t)second;
  words[3] = (uint32_t)(second >> 32);
}
