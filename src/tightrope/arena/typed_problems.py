"""The arena's problems whose requests have types: ``arena-types-NAME``.

    equal     four types that do not differ: types are worth nothing
    swap      two types; the arm that earns most for one earns least for the other
    rare      one request in twenty is of a type for which the bold arms are dangerous
    many      sixteen types whose means are within ten per cent of each other
    routing   nine benchmarks and three language models: means of the table of ``routing``

The usual arena leaves them out. ``arena-types`` names all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

from tightrope.arena.families import bernoulli_arms, short
from tightrope.problem import Arm, Limit, Problem
from tightrope.problem.distributions import Beta, Constant, Uniform
from tightrope.problem.scales import Scales

ALL_TYPED = "arena-types"
Odds = Sequence[Sequence[float]]  # of every arm: cost, reward, penalty

ARMS = ((0.4, 0.8, 0.6), (0.6, 0.6, 0.3), (0.5, 0.55, 0.4), (0.5, 0.3, 0.1))
MODELS = ("llama-8b", "mistral-large", "gemini-pro")
# Of each benchmark: requests, then the models' mean quality and mean dollars per thousand requests.
ROUTING: dict[str, tuple[int, Sequence[float], Sequence[float]]] = {
    "arc": (159, (0.841, 0.955, 0.942), (0.0304, 0.4255, 14.74)),
    "bbh": (310, (0.752, 0.909, 0.937), (0.0213, 0.5999, 12.98)),
    "gsm8k": (360, (0.935, 0.978, 0.967), (0.0285, 0.5797, 10.67)),
    "hellaswag": (171, (0.699, 0.874, 0.853), (0.0217, 0.3430, 12.73)),
    "mbpp": (49, (0.711, 0.887, 0.917), (0.0424, 0.8039, 40.09)),
    "mmlu": (399, (0.773, 0.930, 0.948), (0.0416, 0.5322, 20.17)),
    "openbookqa": (174, (0.771, 0.895, 0.907), (0.0137, 0.1510, 11.13)),
    "truthfulqa": (113, (0.715, 0.850, 0.883), (0.0368, 1.186, 21.30)),
    "winogrande": (89, (0.734, 0.924, 0.958), (0.0170, 0.3126, 10.17)),
}
SPREAD = 10.0  # of an answer's quality: Beta(10 mean, 10 (1 - mean))


def _bernoulli(
    name: str, limit: float, shares: Mapping[str, float], odds: Mapping[str, Odds]
) -> Problem:
    arms = {kind: bernoulli_arms(*each) for kind, each in odds.items()}
    return Problem(arms, limit=limit, contexts=shares, name=name)


def _equal(name: str) -> Problem:
    shares = {"a": 4.0, "b": 3.0, "c": 2.0, "d": 1.0}
    return _bernoulli(name, 0.8, shares, dict.fromkeys(shares, ARMS))


def _swap(name: str) -> Problem:
    """Over both types the two bold arms are the same: a policy without types cannot tell them."""
    first, second, careful = (0.5, 0.85, 0.5), (0.5, 0.25, 0.5), (0.5, 0.35, 0.1)
    odds = {"day": (first, second, careful), "night": (second, first, careful)}
    return _bernoulli(name, 0.6, {"day": 1.0, "night": 1.0}, odds)


def _rare(name: str) -> Problem:
    """Without types only the careful arm keeps the limit by itself."""
    usual = ((0.5, 0.8, 0.01), (0.5, 0.6, 0.006), (0.5, 0.4, 0.002))
    danger = ((0.5, 0.8, 0.9), (0.5, 0.6, 0.3), (0.5, 0.4, 0.05))
    shares = {"usual": 19.0, "dangerous": 1.0}
    return _bernoulli(name, 0.025, shares, {"usual": usual, "dangerous": danger})


def _many(name: str) -> Problem:
    """Each mean of an arm is up to ten per cent off, by type."""
    draw, names = Random("many types").random, [f"type {x}" for x in range(1, 17)]
    odds = {
        kind: [[short(mean * (0.9 + 0.2 * draw())) for mean in arm] for arm in ARMS]
        for kind in names
    }
    return _bernoulli(name, 0.8, {kind: short(0.5 + draw()) for kind in names}, odds)


def _routing(name: str) -> Problem:
    """At most 0.000235 dollars per request; prices are uniform, qualities beta distributed."""
    arms = {kind: list(map(_model, MODELS, *means)) for kind, (_, *means) in ROUTING.items()}
    return Problem(
        arms,
        limits={"dollars": Limit(2.35e-4)},
        scales=Scales(penalty={"dollars": 0.15}),
        contexts={kind: float(count) for kind, (count, *_) in ROUTING.items()},
        name=name,
    )


def _model(name: str, quality: float, price: float) -> Arm:
    answer = Beta(short(SPREAD * quality), short(SPREAD * (1.0 - quality)))
    return Arm(name, Constant(1.0), answer, {"dollars": Uniform(0.0, 0.002 * price)})


MAKERS: dict[str, Callable[[str], Problem]] = {
    f"{ALL_TYPED}-{make.__name__.removeprefix('_')}": make
    for make in (_equal, _swap, _rare, _many, _routing)
}

LISTED: dict[str, str] = {
    "arena-types-equal": "four Bernoulli arms and four types of requests that do not differ",
    "arena-types-swap": "three Bernoulli arms and two types, which swap the best arm",
    "arena-types-rare": "three Bernoulli arms; for one request in twenty the bold ones are risky",
    "arena-types-many": "four Bernoulli arms and sixteen types with small differences",
    "arena-types-routing": "three language models and nine types of prompts, dollars limited",
}
