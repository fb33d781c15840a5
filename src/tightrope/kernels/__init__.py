"""What is compiled: one step of a run, and the loops around it: SIMD lanes, one run, GPU, live.

What lives here: the step's functions (``step``), what a run remembers (``run_state``), the loops
(``simd``, ``single_run``, ``cuda_few``, ``cuda_group``, ``cuda_thread``, ``live``), how the
smallest index is found (``argmin``) and random words (``rng``). Only engines and ``live`` call it;
a policy never has to. A change here must leave the golden files as they are.
"""
