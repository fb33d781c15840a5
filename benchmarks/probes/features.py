"""The memory traffic of a step with features on a GPU: no simulator there could be faster.

    python benchmarks/probes/features.py [--runs 16384] [--steps 2000]

A run has two matrices of 32 by 32 numbers for each of three arms and three channels. A step of the
probe reads and writes 576 numbers of one of them and computes nothing else. A warp makes a run.
Prints the best of five measurements.
"""

from __future__ import annotations

import argparse
import time

from numba import cuda, uint64

RUN, MATRIX, TOUCHED = 9 * 2 * 32 * 32, 2 * 32 * 32, 576


@cuda.jit
def traffic(memory, steps):
    """Each warp reads and writes part of a random matrix of its run in every step."""
    lane, run = cuda.threadIdx.x % 32, (cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x) // 32
    word = uint64(run) + uint64(1)
    for _ in range(steps):
        word = word * uint64(6364136223846793005) + uint64(1442695040888963407)
        place = run * RUN + int((word >> uint64(33)) % uint64(9)) * MATRIX
        for at in range(place + lane, place + TOUCHED, 32):
            memory[at] = 0.999 * memory[at] + 0.5


def main() -> None:
    """Print the steps per second."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=16_384)
    parser.add_argument("--steps", type=int, default=2_000)
    chosen = parser.parse_args()
    memory = cuda.device_array(chosen.runs * RUN)
    best = float("inf")
    for _ in range(6):  # the first one compiles
        start = time.perf_counter()
        traffic[chosen.runs // 4, 128](memory, chosen.steps)
        cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    print(f"{chosen.runs * chosen.steps / best / 1e6:.0f} million steps a second")


if __name__ == "__main__":
    main()
