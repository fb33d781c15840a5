// How fast can one thread simulate LyOn? The paper's two Bernoulli arms, single precision, AVX2.
//
//   g++ -O3 -march=native -ffast-math avx2.cpp -o avx2 && ./avx2 [budget] [runs]
//
// Eight runs share a vector, a run to a lane, and several vectors are interleaved so that one's
// square root and division hide behind another's arithmetic; which number is best depends on the
// processor, so each is timed. A line for each: nanoseconds per step, then the mean reward and
// the mean violation per unit of budget, which are those of `tightrope simulate paper --policy lyon`.
#include "lyon.h"
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <immintrin.h>

typedef float Floats __attribute__((vector_size(32)));
typedef int32_t Ints __attribute__((vector_size(32)));
typedef uint32_t Words __attribute__((vector_size(32)));

constexpr int LANES = 8;
constexpr int STRIDE = 32; // steps between two looks at whether all runs are done
constexpr double COST[2] = {0.4, 0.6}, REWARD[2] = {0.8, 0.6}, PENALTY[2] = {0.6, 0.3};

static inline Floats pick(Ints mask, Floats yes, Floats no) { // one blend
  return (Floats)_mm256_blendv_ps((__m256)no, (__m256)yes, (__m256)mask);
}
static inline Floats largest(Floats a, Floats b) {
  return (Floats)_mm256_max_ps((__m256)a, (__m256)b);
}
static inline Floats root(Floats a) { return (Floats)_mm256_sqrt_ps((__m256)a); }

// An arm in eight runs: totals, and the terms of its index, which change only when it is pulled.
struct Arm {
  Floats pulls, cost, reward, penalty;
  Floats gain, rate, gain_width, rate_width; // V r, y, V w (1 + r), w (1 + y)
};

static inline Arm picked(Ints mask, const Arm &yes, const Arm &no) {
  return {pick(mask, yes.pulls, no.pulls),           pick(mask, yes.cost, no.cost),
          pick(mask, yes.reward, no.reward),         pick(mask, yes.penalty, no.penalty),
          pick(mask, yes.gain, no.gain),             pick(mask, yes.rate, no.rate),
          pick(mask, yes.gain_width, no.gain_width), pick(mask, yes.rate_width, no.rate_width)};
}

// Eight runs: their arms, queues and generators.
struct Runs {
  Words words[4];
  Arm arms[2];
  Floats queue, spent, alive; // alive: 1 while the budget is not exceeded, then 0

  void begin(uint64_t first) {
    *this = Runs();
    alive += 1.0f;
    for (int lane = 0; lane < LANES; lane++) {
      uint32_t seeds[4];
      seed_words(first + lane, seeds);
      for (int at = 0; at < 4; at++) words[at][lane] = seeds[at];
    }
  }

  // xorshift128's next word, written where the oldest one was
  inline Words next(int oldest, int newest) {
    Words mixed = words[oldest] ^ (words[oldest] << 11);
    return words[oldest] = words[newest] ^ (words[newest] >> 19) ^ mixed ^ (mixed >> 8);
  }

  // 1 in the lanes that are alive and whose word is below the threshold of their arm
  inline Floats outcome(Words word, Ints second, const double (&means)[2]) const {
    Ints none = {}, low = none + threshold(means[0]), high = none + threshold(means[1]);
    Ints edge = (second & high) | (~second & low);
    return (Floats)((Ints)alive & ((Ints)(word >> 1) < edge));
  }

  // The arm whose index is smaller: all bits set where it is the second one.
  inline Ints decide(float clock) const {
    Floats index[2];
    for (int k = 0; k < 2; k++) {
      const Arm &arm = arms[k];
      index[k] = queue * arm.rate - arm.gain - clock * (arm.gain_width + queue * arm.rate_width);
    }
    return index[1] < index[0];
  }

  // Pull, learn, settle. `resting` leaves the queue alone, as in the first exploration.
  inline void pull(Ints second, const Setting &lyon, bool resting) {
    Words word[3] = {next(0, 3), next(1, 0), next(2, 1)};
    Words oldest = words[3]; // the only one that is left of before
    words[3] = words[2], words[2] = words[1], words[1] = words[0], words[0] = oldest;
    Floats cost = outcome(word[0], second, COST);
    Floats reward = outcome(word[1], second, REWARD);
    Floats penalty = outcome(word[2], second, PENALTY);

    Arm arm = picked(second, arms[1], arms[0]);
    arm.pulls += alive, arm.cost += cost, arm.reward += reward, arm.penalty += penalty;
    Floats one = {}, tiny = {};
    one += 1.0f, tiny += TINY;
    Floats per_cost = one / largest(arm.cost, tiny);
    Floats earned = arm.reward * per_cost, width = root(arm.pulls) * per_cost;
    arm.rate = arm.penalty * per_cost;
    arm.gain = lyon.v * earned;
    arm.gain_width = lyon.v * width * (one + earned);
    arm.rate_width = width * (one + arm.rate);
    arms[1] = picked(second, arm, arms[1]);
    arms[0] = picked(second, arms[0], arm);

    spent += cost;
    if (!resting) queue = largest(queue + penalty - lyon.drain * cost, Floats{});
    alive = (Floats)((Ints)one & (spent <= lyon.budget));
  }

  bool running() const {
    for (int lane = 0; lane < LANES; lane++)
      if (alive[lane] > 0.0f) return true;
    return false;
  }
};

struct Totals {
  double steps = 0, reward = 0, penalty = 0;

  void add(const Runs &runs) {
    for (const Arm &arm : runs.arms)
      for (int lane = 0; lane < LANES; lane++)
        steps += arm.pulls[lane], reward += arm.reward[lane], penalty += arm.penalty[lane];
  }
};

// VECTORS * LANES runs from their first pull to the last, step by step side by side.
template <int VECTORS> void simulate(const Setting &lyon, uint64_t first, Totals &totals) {
  Runs runs[VECTORS];
  for (int j = 0; j < VECTORS; j++) runs[j].begin(first + j * LANES);

  long step = 0;
  for (; step < 2 * lyon.explore; step++)
    for (int j = 0; j < VECTORS; j++) runs[j].pull(Ints{} - (int)(step % 2), lyon, true);
  for (bool running = true; running;) {
    for (int stride = 0; stride < STRIDE; stride++, step++) {
      float clock = std::sqrt(2.0f * ALPHA * std::log((float)step));
#pragma GCC unroll 8
      for (int j = 0; j < VECTORS; j++) runs[j].pull(runs[j].decide(clock), lyon, false);
    }
    running = false;
    for (int j = 0; j < VECTORS; j++) running |= runs[j].running();
  }
  for (int j = 0; j < VECTORS; j++) totals.add(runs[j]);
}

template <int VECTORS> void time_it(double budget, int runs) {
  Setting lyon = setting(budget, COST[0]);
  Totals totals;
  auto start = std::chrono::steady_clock::now();
  for (int first = 0; first < runs; first += VECTORS * LANES)
    simulate<VECTORS>(lyon, first, totals);
  std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  printf("vectors=%d %.3f ns/step, reward rate %.4f violation %.4f\n", VECTORS,
         1e9 * taken.count() / totals.steps, totals.reward / runs / budget,
         totals.penalty / runs / budget - LIMIT);
}

int main(int count, char **arguments) {
  double budget = count > 1 ? std::atof(arguments[1]) : 30000.0;
  int runs = count > 2 ? std::atoi(arguments[2]) : 512;
  if (budget < 2.0 || runs < 64 || runs % 64) {
    fprintf(stderr, "budget: at least 2; runs: a multiple of 64, of the largest group\n");
    return 2;
  }
  time_it<1>(budget, runs);
  time_it<2>(budget, runs);
  time_it<4>(budget, runs);
  time_it<8>(budget, runs);
}
