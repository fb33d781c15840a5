// How fast can a GPU simulate LyOn with few arms? The paper's two Bernoulli arms, single precision.
//
//   nvcc -O3 -arch=native -use_fast_math few_arms.cu -o few_arms && ./few_arms
//
// A thread per run, and all that the run remembers in its registers: two arms of eight numbers,
// the queue, the generator. Memory is touched once, at the end. A line for each number of runs
// and each budget: steps per second on the device alone, then the mean reward and the mean violation
// per unit of budget, which are those of `tightrope simulate paper --policy lyon`.
#include "device.h"
#include <vector>

constexpr int THREADS = 128; // of a block
constexpr double COST[2] = {0.4, 0.6}, REWARD[2] = {0.8, 0.6}, PENALTY[2] = {0.6, 0.3};

struct Edges { // thresholds of the outcomes of both arms
  int32_t cost[2], reward[2], penalty[2];
};

// Totals, and the terms of the index: V r, y, V w (1 + r), w (1 + y) of lyon.py's docstring.
struct Arm {
  float pulls = 0, cost = 0, reward = 0, penalty = 0;
  float gain = 0, rate = 0, gain_width = 0, rate_width = 0;

  __device__ float index(float queue, float clock) const {
    return queue * rate - gain - clock * (gain_width + queue * rate_width);
  }

  __device__ void learn(float new_cost, float new_reward, float new_penalty, float v) {
    pulls += 1, cost += new_cost, reward += new_reward, penalty += new_penalty;
    float per_cost = __fdividef(1.0f, fmaxf(cost, TINY));
    float earned = reward * per_cost, width = __fsqrt_rn(pulls) * per_cost;
    rate = penalty * per_cost;
    gain = v * earned;
    gain_width = v * width * (1 + earned);
    rate_width = width * (1 + rate);
  }
};

struct Outcome { // of a whole run
  float reward, penalty;
  int steps;
};

struct Run {
  Generator draw;
  Arm first, second;
  float queue = 0, spent = 0;

  __device__ explicit Run(uint64_t number) : draw(number) {}

  // `resting` leaves the queue alone, as in the first exploration.
  __device__ void pull(bool pick, const Edges &edges, const Setting &lyon, bool resting) {
    float cost = draw.outcome(pick ? edges.cost[1] : edges.cost[0]);
    float reward = draw.outcome(pick ? edges.reward[1] : edges.reward[0]);
    float penalty = draw.outcome(pick ? edges.penalty[1] : edges.penalty[0]);
    Arm arm = pick ? second : first; // one copy learns: threads of a warp differ in their arms
    arm.learn(cost, reward, penalty, lyon.v);
    if (pick) second = arm;
    else first = arm;
    spent += cost;
    if (!resting) queue = fmaxf(0.0f, queue + penalty - lyon.drain * cost);
  }
};

__global__ void simulate(Setting lyon, Edges edges, int runs, Outcome *outcomes) {
  int number = blockIdx.x * blockDim.x + threadIdx.x;
  if (number >= runs) return;
  Run run(number);
  int step = 0;
  for (; step < 2 * lyon.explore && run.spent <= lyon.budget; step++)
    run.pull(step % 2, edges, lyon, true);
  for (; run.spent <= lyon.budget; step++) {
    float clock = clock_at(step);
    bool pick = run.second.index(run.queue, clock) < run.first.index(run.queue, clock);
    run.pull(pick, edges, lyon, false);
  }
  outcomes[number] = {run.first.reward + run.second.reward,
                      run.first.penalty + run.second.penalty, step};
}

void time_it(double budget, int runs) {
  Setting lyon = setting(budget, COST[0]);
  Edges edges;
  for (int k = 0; k < 2; k++) {
    edges.cost[k] = threshold(COST[k]);
    edges.reward[k] = threshold(REWARD[k]);
    edges.penalty[k] = threshold(PENALTY[k]);
  }
  Outcome *there;
  require(cudaMalloc(&there, runs * sizeof(Outcome)));
  int blocks = (runs + THREADS - 1) / THREADS;
  simulate<<<blocks, THREADS>>>(setting(100.0, COST[0]), edges, runs, there); // warms up
  Stopwatch watch;
  simulate<<<blocks, THREADS>>>(lyon, edges, runs, there);
  float taken = watch.stop();
  std::vector<Outcome> outcomes(runs);
  require(cudaMemcpy(outcomes.data(), there, runs * sizeof(Outcome), cudaMemcpyDeviceToHost));
  require(cudaFree(there));

  double steps = 0, reward = 0, penalty = 0;
  for (const Outcome &one : outcomes)
    steps += one.steps, reward += one.reward, penalty += one.penalty;
  printf("runs %d B %g: %.1f ms, %.3g steps/s, reward rate %.5f violation %.5f\n", runs, budget,
         taken, 1e3 * steps / taken, reward / runs / budget, penalty / runs / budget - LIMIT);
}

int main() {
  for (int runs : {10000, 100000, 1000000})
    for (double budget : {1e4, 1e5}) time_it(budget, runs);
  time_it(1e4, 4000000);
}
