"""Optima for known distributions: pi*, the limits' multipliers, and the exact OPT(B).

``pi_star`` finds the best stationary mixture of arms (``oracle``), ``exact`` the highest expected
reward of any policy within a budget (``optimum``); ``grid`` and ``recursion`` are used by
``exact``.
"""

from tightrope.optimum.exact import optimum
from tightrope.optimum.pi_star import Oracle, oracle

__all__ = ["Oracle", "optimum", "oracle"]
