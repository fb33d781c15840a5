// How fast can a GPU simulate LyOn with many arms? Bernoulli arms, single precision.
//
//   nvcc -O3 -arch=native -use_fast_math many_arms.cu -o many_arms && ./many_arms
//
// A group of threads per run. Each thread owns every SIZE-th arm of its run, in shared memory: a row
// of four numbers for the arm's index, and a row of four totals. It finds the smallest index among
// its own arms; the group then finds the smallest of all by shuffles. All threads of a group draw the
// same outcomes, and the arm's owner alone learns from them, so no thread ever waits at a barrier.
// Arms as in the paper's Figures 2 and 3 (benchmarks/gpu.py: paper_arms). A line for each number
// of arms and each size of a group, with the block that did best: steps per second on the device
// alone, then the mean reward and the mean violation per unit of budget.
#include "device.h"
#include <initializer_list>
#include <vector>

constexpr int NOBODY = 1 << 30; // an arm's number above all others
constexpr int REPEATS = 2;

struct Edges { // thresholds of an arm's outcomes
  int32_t cost, reward, penalty, unused; // 16 bytes: read at once
};

struct Outcome { // of a whole run
  float reward, penalty;
  int steps;
};

// The group's SIZE threads that play one run. `terms` and `sums` are the run's rows.
template <int SIZE> struct Run {
  int lane, arms;
  unsigned members; // of the warp, as bits
  const Edges *edges;
  float4 *terms; // V r, y, V w (1 + r), w (1 + y) of lyon.py's docstring
  float4 *sums;  // pulls, cost, reward, penalty
  Generator draw;
  float queue = 0, spent = 0, reward = 0, penalty = 0;

  __device__ Run(int number, int arms, const Edges *edges, float4 *rows)
      : lane(threadIdx.x % SIZE), arms(arms), edges(edges), terms(rows), sums(rows + arms),
        draw(number) {
    members = (SIZE == 32 ? ~0u : (1u << SIZE % 32) - 1) << (threadIdx.x % 32 / SIZE * SIZE);
    for (int arm = lane; arm < arms; arm += SIZE)
      terms[arm] = sums[arm] = make_float4(0, 0, 0, 0);
  }

  // The arm with the smallest index; of equals the one with the lowest number.
  __device__ int decide(float clock) const {
    float best = INFINITY;
    int winner = NOBODY;
#pragma unroll 4
    for (int arm = lane; arm < arms; arm += SIZE) {
      float4 term = terms[arm];
      float index = queue * term.y - term.x - clock * (term.z + queue * term.w);
      bool smaller = index < best;
      best = smaller ? index : best;
      winner = smaller ? arm : winner;
    }
#pragma unroll
    for (int apart = SIZE / 2; apart > 0; apart /= 2) {
      float index = __shfl_xor_sync(members, best, apart);
      int arm = __shfl_xor_sync(members, winner, apart);
      bool smaller = index < best || (index == best && arm < winner);
      best = smaller ? index : best;
      winner = smaller ? arm : winner;
    }
    return winner;
  }

  // `resting` leaves the queue alone, as in the first exploration.
  __device__ void pull(int arm, const Setting &lyon, bool resting) {
    Edges edge = edges[arm];
    float x = draw.outcome(edge.cost), r = draw.outcome(edge.reward), y = draw.outcome(edge.penalty);
    if (lane == arm % SIZE) learn(arm, x, r, y, lyon.v);
    spent += x, reward += r, penalty += y;
    if (!resting) queue = fmaxf(0.0f, queue + y - lyon.drain * x);
  }

  __device__ void learn(int arm, float x, float r, float y, float v) {
    float4 sum = sums[arm];
    sum.x += 1, sum.y += x, sum.z += r, sum.w += y;
    sums[arm] = sum;
    float per_cost = __fdividef(1.0f, fmaxf(sum.y, TINY));
    float earned = sum.z * per_cost, rate = sum.w * per_cost, width = sqrtf(sum.x) * per_cost;
    terms[arm] = make_float4(v * earned, rate, v * width * (1 + earned), width * (1 + rate));
  }
};

template <int SIZE>
__global__ void simulate(Setting lyon, int arms, const Edges *laws, int runs, Outcome *outcomes) {
  extern __shared__ float4 memory[]; // the laws, which all runs read; then two rows per run and arm
  Edges *edges = (Edges *)memory;
  for (int arm = threadIdx.x; arm < arms; arm += blockDim.x) edges[arm] = laws[arm];
  __syncthreads();

  int group = threadIdx.x / SIZE, number = blockIdx.x * (blockDim.x / SIZE) + group;
  if (number >= runs) return;
  Run<SIZE> run(number, arms, edges, memory + arms + (size_t)group * 2 * arms);
  int step = 0;
  for (int round = 0; round < lyon.explore; round++)
    for (int arm = 0; arm < arms && run.spent <= lyon.budget; arm++, step++)
      run.pull(arm, lyon, true);
  for (; run.spent <= lyon.budget; step++) run.pull(run.decide(clock_at(step)), lyon, false);
  if (run.lane == 0) outcomes[number] = {run.reward, run.penalty, step};
}

std::vector<Edges> paper_arms(int arms, double &smallest_cost) {
  std::vector<Edges> laws(arms);
  smallest_cost = 1.0;
  for (int k = 0; k < arms; k++) {
    double cost = std::fmin((k % 2 ? 0.6 : 0.4) * std::pow(1.005, k / 2), 1.0);
    double rate = std::fmin((k % 2 ? 0.3 : 0.6) * std::pow(1.01, k / 2), 1.0);
    laws[k] = {threshold(cost), threshold(rate), threshold(rate), 0};
    smallest_cost = std::fmin(smallest_cost, cost);
  }
  return laws;
}

size_t most_shared() { // bytes of a block
  int bytes;
  require(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
  return bytes;
}

template <int SIZE> void time_it(int arms, double budget, int runs) {
  double smallest_cost;
  std::vector<Edges> laws = paper_arms(arms, smallest_cost);
  Setting lyon = setting(budget, smallest_cost);
  Edges *laws_there;
  Outcome *there;
  require(cudaMalloc(&laws_there, arms * sizeof(Edges)));
  require(cudaMalloc(&there, runs * sizeof(Outcome)));
  require(cudaMemcpy(laws_there, laws.data(), arms * sizeof(Edges), cudaMemcpyHostToDevice));

  float best = INFINITY;
  int best_block = 0;
  for (int block : {32, 64, 128, 256}) {
    int groups = block / SIZE;
    size_t bytes = sizeof(float4) * arms * (1 + 2 * (size_t)groups);
    if (bytes > most_shared()) continue;
    require(cudaFuncSetAttribute(simulate<SIZE>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 (int)bytes));
    for (int repeat = 0; repeat < REPEATS; repeat++) {
      Stopwatch watch;
      simulate<SIZE><<<(runs + groups - 1) / groups, block, bytes>>>(lyon, arms, laws_there, runs,
                                                                    there);
      float taken = watch.stop();
      if (taken < best) best = taken, best_block = block;
    }
  }
  std::vector<Outcome> outcomes(runs);
  require(cudaMemcpy(outcomes.data(), there, runs * sizeof(Outcome), cudaMemcpyDeviceToHost));
  require(cudaFree(there));
  require(cudaFree(laws_there));
  if (!best_block) return; // no block has room for so many arms

  double steps = 0, reward = 0, penalty = 0;
  for (const Outcome &one : outcomes)
    steps += one.steps, reward += one.reward, penalty += one.penalty;
  printf("K %d G %d runs %d B %.0f: %.1f ms, %.3g steps/s, block %d, ", arms, SIZE, runs, budget,
         best, 1e3 * steps / best, best_block);
  printf("reward rate %.4f violation %.4f\n", reward / runs / budget,
         penalty / runs / budget - LIMIT);
}

int main() {
  for (int arms : {20, 50, 100, 200, 500}) {
    int runs = arms < 150 ? 100000 : 40000;
    time_it<2>(arms, 1e4, runs);
    time_it<4>(arms, 1e4, runs);
    time_it<8>(arms, 1e4, runs);
    time_it<16>(arms, 1e4, runs);
  }
}
