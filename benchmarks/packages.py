"""The packages that are compared, and how each is used."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Package:
    """One package: what to install and import, its script, and how the page describes its use."""

    name: str
    requirements: tuple[str, ...]
    module: str  # the module that its script imports to make decisions
    policy: str
    decides: str
    runner: str = "none"  # what it simulates with
    remark: str = ""

    @property
    def key(self) -> str:
        """Its name on PyPI in lower case; also names its virtual environment and script."""
        return self.name.lower().replace(" ", "")

    @property
    def top(self) -> str:
        """Its top package."""
        return self.module.partition(".")[0]

    @property
    def script(self) -> Path:
        return Path(__file__).parent / "peers" / f"with_{self.key}.py"


OURS = Package(
    name="tightrope",
    requirements=(str(Path(__file__).parents[1]),),
    module="tightrope.live",
    policy="LyOn",
    decides="`Controller.ask`, `.tell`",
    runner="`simulate`",
    remark="Learns cost, reward and penalty, keeps the budget and the limit.",
)

PEERS = (
    Package(
        name="MABWiser",
        requirements=("mabwiser",),
        module="mabwiser.mab",
        policy="UCB1",
        decides="`predict`, `partial_fit`",
        remark="Its `Simulator` replays logged decisions; it does not play an environment.",
    ),
    Package(
        name="river",
        requirements=("river",),
        module="river.bandit",
        policy="UCB, delta = 1 (UCB1)",
        decides="`pull`, `update`",
        runner="`bandit.evaluate`",
    ),
    Package(
        name="Vowpal Wabbit",
        requirements=("vowpalwabbit",),
        module="vowpalwabbit",
        policy="epsilon-greedy: `--cb_explore K --cb_type dm --epsilon 0.05`",
        decides="`predict`, `learn` on reused `Example` objects, constant context",
        remark="Its UCB-like policy (`--regcbopt`) takes an example for each arm.",
    ),
    Package(
        name="SMPyBandits",
        requirements=("SMPyBandits", "numpy<2", "scipy<1.14"),
        module="SMPyBandits.Policies",
        policy="UCBalpha, alpha = 1",
        decides="`choice`, `getReward`",
        runner="`Evaluator`",
        remark="Does not import with current scipy (no `btdtri`), so older numpy and scipy.",
    ),
    Package(
        name="contextualbandits",
        requirements=("contextualbandits",),
        module="contextualbandits.online",
        policy="LinUCB, `method='sm'`, constant context",
        decides="`predict`, `partial_fit`, one row at a time",
        runner="the same in batches of 50",
        remark="Within a batch it does not learn. Installing it needs a C++ compiler.",
    ),
)
