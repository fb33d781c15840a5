"""What is compiled: one step of a run, and the loops around it: SIMD lanes, one run, GPU, live."""
