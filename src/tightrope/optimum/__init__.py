"""The best that can be earned when the laws are known: pi*, multipliers and the exact OPT(B).

What lives here: the best fixed mixture of arms (``best_mixture``, the oracle), the most that any
policy can earn within a budget (``exact``), and what it is computed with (``grid``, ``recursion``).
From outside take ``optimum`` and ``oracle``.
"""

from tightrope.optimum.best_mixture import Oracle, oracle
from tightrope.optimum.exact import optimum

__all__ = ["Oracle", "optimum", "oracle"]
