"""Compiled code (numba): one step of a run, and the loops around it.

The modules: ``step`` has the functions of a step, ``run_state`` the memory of a run, ``argmin``
finds the smallest index, ``rng`` makes random words. The loops are ``simd``, ``single_run``,
``cuda_few``, ``cuda_group``, ``cuda_thread`` and ``live``. Only ``engine`` and the package ``live``
use this package; policies do not. A change here must not change the golden files.
"""
