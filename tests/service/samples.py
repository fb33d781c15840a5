"""Campaigns to look at: what the tests of the pages and the screenshots show."""

from __future__ import annotations

import math
import random
import time
from contextlib import suppress

from tightrope import Features, Interval, Limit, Resolve, Scales, Task, open_campaign
from tightrope.errors import TightropeError
from tightrope.live.stores.memory import MemoryStore, wall_clock
from tightrope.policies import UniformRandom
from tightrope.problem import Box

DAY = 86400.0
# What a call costs in dollars, how often its answer is good, bad, slow.
MODELS = {
    "haiku": (0.0021, 0.71, 0.085, 0.01),
    "sonnet": (0.0068, 0.83, 0.032, 0.04),
    "opus": (0.0190, 0.91, 0.018, 0.16),
}


class SimulatedClock:
    """The store's clock: moved by hand, and the real one when it is let go."""

    def __init__(self, at: float) -> None:
        self.at: float | None = at  # seconds

    def __call__(self) -> int:
        return wall_clock() if self.at is None else int(self.at * 1e6)


def answer(model, luck, worse=1.0):
    cost, good, bad, slow = MODELS[model]
    draw = luck.random()
    return {
        "cost": round(cost * luck.uniform(0.6, 1.6), 6),
        "reward": float(draw < good),
        "penalty": {"bad": float(draw > 1 - bad * worse), "slow": float(luck.random() < slow)},
    }


def routing_task():
    limits = {"bad": Limit(0.05, per="pull"), "slow": Limit(0.08, per="pull")}
    return Task(list(MODELS), limits, Scales(cost=0.04))


def routing(store, clock, name="router-november", pulls=3000, days=3.0, budget=50.0, seed=4):
    """A router among models for some days; one of them gets worse on the way. Twelve in flight."""
    luck = random.Random(seed)
    policy = Resolve(risk=0.01, watch=0.01)
    campaign = open_campaign(
        store,
        name,
        task=routing_task(),
        budget=budget,
        policy=policy,
        expire_after=3000,
    )
    step, flying = days * DAY / pulls, []
    for pull in range(pulls):
        clock.at += step * (0.5 + 0.618034 * pull % 1.0)
        flying.append(campaign.ask(f"req-{pull:06d}"))
        late = pull % 400 == 399
        while len(flying) > 12:
            ticket = flying.pop(0)
            if not late:
                worse = 1.9 if ticket.arm == "sonnet" and pull > 0.45 * pulls else 1.0
                campaign.tell(ticket.id, **answer(ticket.arm, luck, worse))
    return campaign


def troubles(campaign, clock, luck):
    """Reports that went wrong: refused, late, above what was reserved."""
    first, second, third = (campaign.ask(f"odd-{i}") for i in range(3))
    for id, cost in ((first.id, float("nan")), ("req-00041", 0.0031)):
        with suppress(TightropeError):
            campaign.tell(id, cost=cost, reward=1.0, penalty={"bad": 0, "slow": 0})
    clock.at += 3100
    for i in range(3, 12):
        clock.at += 5
        campaign.ask(f"odd-{i}")
    campaign.tell(second.id, **answer(second.arm, luck))
    return third


def samples(store: MemoryStore, clock: SimulatedClock) -> None:
    """All of them; the clock runs by itself afterwards."""
    luck, now = random.Random(7), time.time()
    clock.at = now - 3 * DAY - 3300
    first = routing(store, clock)
    troubles(first, clock, luck)

    clock.at = now - 1.5 * DAY
    task = Task(
        ["call", "mail", "none"],
        {"complaints": Limit(0.04)},
        Scales(cost=1.0),
        safe="none",
        safe_rates={"complaints": 0.01},
    )
    promised = open_campaign(
        store, "sales-spring", task=task, budget=5000, policy=Resolve(risk=0.01)
    )
    for _ in range(1500):
        clock.at += 60
        ticket = promised.ask()
        bad = {"call": 0.06, "mail": 0.03, "none": 0.004}[ticket.arm]
        good = {"call": 0.5, "mail": 0.35, "none": 0.2}[ticket.arm]
        promised.tell(
            ticket.id,
            cost=luck.uniform(0.3, 1.0),
            reward=float(luck.random() < good),
            penalty={"complaints": float(luck.random() < bad)},
        )

    clock.at = now - 5 * 3600
    over = routing(store, clock, "router-eu", pulls=300, days=0.15, budget=9.0, seed=3)
    ticket = over.ask("over-1")
    over.tell(ticket.id, cost=0.09, reward=1.0, penalty={"bad": 0.0, "slow": 0.0})

    clock.at = now - 1800
    open_campaign(store, "labels", task=Task(["crowd", "expert"], {}), budget=200)
    clock.at = now - 900
    done = open_campaign(store, "pilot", task=Task(["a", "b"], {"bad": Limit(0.4, per="pull")}),
                         budget=40)  # fmt: skip
    for _ in range(60):
        clock.at += 5
        ticket = done.ask()
        done.tell(ticket.id, cost=0.5, reward=luck.random(), penalty=float(luck.random() < 0.2))
    done.close()
    clock.at = None


KINDS = {"math": 0.2, "code": 0.3, "chat": 0.5}  # how often each type comes
TYPED = {  # dollars, how often the answer is good, bad; of each type
    "haiku": {"math": (0.002, 0.4, 0.12), "code": (0.002, 0.6, 0.06), "chat": (0.001, 0.9, 0.01)},
    "opus": {"math": (0.02, 0.9, 0.02), "code": (0.018, 0.9, 0.03), "chat": (0.015, 0.92, 0.01)},
}


def typed(store, clock, name="router-types", pulls=2000, changes=True):
    """A router that sees the type of each request; with ``changes``, there is more math later."""
    luck = random.Random(6)
    task = Task(
        list(TYPED), {"bad": Limit(0.04, per="pull")}, Scales(cost=0.05), contexts=list(KINDS)
    )
    campaign = open_campaign(store, name, task=task, budget=40.0, policy=Resolve())
    for pull in range(pulls):
        clock.at += 20
        shares = {**KINDS, "math": 1.2} if changes and pull > 0.7 * pulls else KINDS
        kind = luck.choices(list(shares), list(shares.values()))[0]
        ticket = campaign.ask(f"req-{pull:06d}", context=kind)
        cost, good, bad = TYPED[ticket.arm][kind]
        draw = luck.random()
        campaign.tell(
            ticket.id, cost=cost, reward=float(draw < good), penalty=float(draw > 1 - bad)
        )
    return campaign


def auctions(store, clock, reports, policy=None):
    """Bids in second-price auctions against one uniform bid; a sale may cost 1.20."""
    luck = random.Random(1)
    task = Task(Interval(0, 1, name="bid"), {"dollars": Limit(1.2, per="reward")}, costs=1)
    campaign = open_campaign(store, "auctions", task=task, budget=4000, policy=policy or Resolve())
    for _ in range(reports):
        clock.at += 20
        ticket, other = campaign.ask(), luck.random()
        won = other < ticket.value
        sale = won and luck.random() < 0.25
        campaign.tell(ticket, reward=float(sale), penalty=other if won else 0.0)


def prices(store, clock, reports, policy=None):
    """A price and an effort: a sale earns the price, and both annoy some customers."""
    luck = random.Random(2)
    box = Box({"price": (0, 2), "effort": (0, 1)})
    task = Task(box, {"complaints": Limit(0.06, per="pull")}, Scales(reward=2), costs=1)
    campaign = open_campaign(store, "prices", task=task, budget=4000, policy=policy or Resolve())
    for _ in range(reports):
        clock.at += 20
        ticket = campaign.ask()
        price, effort = ticket.value
        sold = (0.3 + 1.4 * effort * (1 - 0.5 * effort)) / (1 + math.exp(4.5 * (price - 1.3)))
        annoyed = luck.random() < 0.01 + 0.04 * price**2 + 0.1 * effort**2
        campaign.tell(ticket, reward=price * (luck.random() < sold), penalty=float(annoyed))


def featured(store, clock, name="router-features", pulls=2000, erasable=False):
    """A router that sees the length of a prompt and whether it has code; prompts get longer."""
    luck = random.Random(7)
    task = Task(
        ["haiku", "opus"],
        {"bad": Limit(0.2, per="pull")},
        Scales(cost=0.05),
        contexts=Features(["length", "has_code", "hour"], erasable),
    )
    campaign = open_campaign(store, name, task=task, budget=40.0, policy=Resolve())
    for pull in range(pulls):
        clock.at += 20
        length = luck.lognormvariate(5 if pull < 0.7 * pulls else 5.8, 0.8)
        code = float(luck.random() < 0.3)
        ticket = campaign.ask(f"req-{pull:06d}", context=[length, code, luck.random()])
        hard = min(0.0004 * length + 0.3 * code, 0.9)
        dear, failing = (0.002, hard) if ticket.arm == "haiku" else (0.02, 0.2 * hard)
        draw = luck.random()
        campaign.tell(
            ticket.id,
            cost=min(dear * (0.5 + length / 400), 0.05),
            reward=float(draw > failing),
            penalty=float(draw < failing / 2),
        )
    return campaign


def told(campaign, luck, pulls, arms, more=1.0):
    """Pulls whose outcomes are coins: ``arms`` has a cost, a chance of reward, one of a penalty."""
    for _ in range(pulls):
        ticket = campaign.ask()
        cost, good, bad = arms[ticket.arm]
        penalty = float(luck.random() < bad * more)
        campaign.tell(ticket.id, cost=cost, reward=float(luck.random() < good), penalty=penalty)


def crowd(store: MemoryStore, clock: SimulatedClock) -> None:
    """Fifty campaigns; among them forty arms, a change, types, a broken limit, one report."""
    luck, now = random.Random(5), time.time()
    clock.at = now - 3600
    small = {"left": (0.4, 0.5, 0.02), "right": (0.6, 0.7, 0.04)}
    task = Task(list(small), {"bad": Limit(0.05, per="pull")}, Scales(cost=1.0))
    for number in range(45):
        name = (
            f"market-{number:02d}"
            if number
            else "a-campaign-whose-long-name-nobody-could-shorten" * 2
        )
        one = open_campaign(store, name, task=task, budget=100.0, policy=UniformRandom())
        told(one, luck, number % 7, small)
        if number % 9 == 4:
            one.pause("by hand")
        if number % 11 == 5:
            one.close()
    once = open_campaign(store, "one-report", task=task, budget=100.0)
    told(once, luck, 1, small)

    clock.at = now - 7200
    forty = {
        f"variant-{k:02d}-with-a-name-as-long-as-people-make-them": (0.5, 0.2 + 0.015 * k, 0.03)
        for k in range(40)
    }
    wide = Task(list(forty), {"bad": Limit(0.05, per="pull")}, Scales(cost=1.0))
    many = open_campaign(store, "forty-arms", task=wide, budget=2000.0)
    for _ in range(30):
        clock.at += 60
        told(many, luck, 50, forty)

    clock.at = now - 3600
    changing = open_campaign(
        store, "changed", task=task, budget=2000.0, policy=Resolve(risk=0.01, watch=0.01)
    )
    for part in range(30):
        clock.at += 60
        told(changing, luck, 30, small, 1.0 if part < 20 else 20.0)

    clock.at = now - 43200
    typed(store, clock)

    total = Task(list(small), {"bad": Limit(total=4)}, Scales(cost=1.0))
    broken = open_campaign(store, "broken", task=total, budget=100.0, policy=UniformRandom())
    told(broken, luck, 120, small, 2.0)
    clock.at = None
