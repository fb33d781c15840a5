// What the CUDA probes share: a run's generator, errors, and the clock of the device.
#pragma once
#include "lyon.h"
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

// xorshift128, as in tightrope but for the Weyl sequence that is added there.
struct Generator {
  uint32_t words[4];

  __device__ explicit Generator(uint64_t run) { seed_words(run, words); }

  // 1 with the probability of the threshold, else 0
  __device__ float outcome(int32_t edge) {
    uint32_t mixed = words[0] ^ (words[0] << 11), newest = words[3];
    words[0] = words[1], words[1] = words[2], words[2] = newest;
    words[3] = newest ^ (newest >> 19) ^ mixed ^ (mixed >> 8);
    return (int32_t)(words[3] >> 1) < edge ? 1.0f : 0.0f;
  }
};

// sqrt(2 alpha log n): the confidence radius but for the arm's pulls
__device__ inline float clock_at(int step) { return sqrtf(2.0f * ALPHA * __logf((float)step)); }

inline void require(cudaError_t status) { // a figure with an error behind it must not be printed
  if (status == cudaSuccess) return;
  fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(status));
  std::exit(1);
}

// Milliseconds of the device between construction and `stop`.
struct Stopwatch {
  cudaEvent_t start, end;

  Stopwatch() {
    require(cudaEventCreate(&start));
    require(cudaEventCreate(&end));
    require(cudaEventRecord(start));
  }
  float stop() {
    float taken;
    require(cudaGetLastError()); // of the launch
    require(cudaEventRecord(end));
    require(cudaEventSynchronize(end));
    require(cudaEventElapsedTime(&taken, start, end));
    require(cudaEventDestroy(start));
    require(cudaEventDestroy(end));
    return taken;
  }
};
