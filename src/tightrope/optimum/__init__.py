"""The best that can be earned when the laws are known: pi*, multipliers and the exact OPT(B).

What lives here: the best fixed mixture of arms (``pi_star``, the oracle), the most that any
policy can earn within a budget (``exact``), and what it is computed with (``grid``, ``recursion``).
From outside take ``optimum`` and ``oracle``.
"""

from tightrope.optimum.exact import optimum
from tightrope.optimum.pi_star import Oracle, oracle

__all__ = ["Oracle", "optimum", "oracle"]
