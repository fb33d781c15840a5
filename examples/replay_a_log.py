"""Replay policies over the rows of a log, and evaluate a mixture of arms that nobody ran.

python examples/replay_a_log.py
"""

import numpy as np

from tightrope import Limit, Log, Resolve, replay
from tightrope.data import evaluate_mixture
from tightrope.policies import UniformRandom

MODELS = ["small", "large"]
SHARES = {"small": 0.2, "large": 0.8}

# A router that sent most hard questions to the large model and logged its probabilities.
random = np.random.default_rng(4)
hard = random.random(20_000) < 0.5
chance = np.where(hard, 0.8, 0.3)  # of the large model
chosen = (random.random(20_000) < chance).astype(int)
cents = np.where(chosen == 1, 1.0, 0.2) * random.uniform(0.5, 1.5, 20_000)
good = random.random(20_000) < np.where(chosen == 1, 0.9, 0.8) - np.where(hard, 0.3, 0.0)
slow = random.random(20_000) < np.where(chosen == 1, 0.2, 0.02)
propensity = np.where(chosen == 1, chance, 1 - chance)
log = Log(MODELS, ["slow"], chosen, np.array([cents, good, slow], float), propensity)

naive = sum(SHARES[name] * log.of_arm(k)[1].mean() for k, name in enumerate(MODELS))
found = evaluate_mixture(log, SHARES)
value = found.value("reward")
print(f"mostly large: {value.mean:.3f} good answers per question, ± {value.reach:.3f}")
print(f"the truth is 0.730; the log without weights says {naive:.3f}")
print(f"{found.count} rows tell as much as {found.effective:.0f} of that mixture would")

limits = {"slow": Limit(0.1, per="pull")}
for row in replay(log, limits, [Resolve(), UniformRandom()], budget=500, orders=50):
    low, _, high = row.reward_quantiles
    broken, least, most = row.broken[0]
    print(f"{row.policy}: {low:.3f} to {high:.3f} good answers per cent in nine of ten orders,")
    print(f"  slow limit broken in {broken:.0%} ({least:.0%} to {most:.0%}),")
    print(f"  {row.rows_used:,.0f} of {row.rows_passed:,.0f} rows used")
