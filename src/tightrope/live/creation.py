"""Open a campaign: create it in its store, or open the existing one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from os import PathLike
from pathlib import Path
from typing import Any, cast

import numpy as np

from tightrope.callers import also_called, warn_caller
from tightrope.errors import InputError, ReservationWarning, RiskWarning, SoftBudgetWarning
from tightrope.live.arguments import (
    as_policy,
    known_who,
    microseconds,
    moment,
    one_of,
    own_name,
    positive,
)
from tightrope.live.campaign import Campaign
from tightrope.live.controller import Controller
from tightrope.live.core import ON_OVERRUN, STOPS, CampaignSettings, Core, digest_of
from tightrope.live.events import START
from tightrope.live.follower import unknown_campaign
from tightrope.live.kinds import Created
from tightrope.live.ledger import Account, hard_totals, moved, reservations, tick_digits, uncapped
from tightrope.live.past import NOT_KEPT, PastData, PastLines, PastSums, past_sums
from tightrope.live.snapshots import task_of
from tightrope.live.spaced import by_place
from tightrope.live.stores import Saved, Store, open_store
from tightrope.live.writer import Writer
from tightrope.policies.aim import aim_of
from tightrope.policies.base import Policy
from tightrope.policies.resolve import Resolve
from tightrope.problem import Problem, Task, check_budget
from tightrope.problem.features import as_contexts, contexts_table
from tightrope.problem.values import shown
from tightrope.version import __version__

MOST = 5  # differences that a message names
Terms = dict[str, str]  # the terms of a campaign, by name


@also_called("budgets", "budget")
def open_campaign(
    store: str | Path | Store,
    name: str,
    *,
    task: Task | Problem | None = None,
    budget: float | None = None,
    policy: Policy | str | None = None,
    seed: int = 0,
    stop: str = "hard",
    expire_after: timedelta | float = 86400.0,
    release: str | None = None,
    starts: datetime | str | None = None,
    ends: datetime | str | None = None,
    per_day: float | None = None,
    shadow: bool = False,
    on_overrun: str = "pause",
    who: str | None = None,
    learn_from: PastData | None = None,
    weight: float = 0.3,
) -> Campaign:
    """Create a campaign, or open the one with this name.

    ``store``: the path of a SQLite file, or ``postgresql://...``. ``task`` and ``budget`` are
    needed to create a campaign. To open one they can be left out; if given, they must agree.
    ``stop``: "hard" reserves each arm's largest cost before a pull and never overspends; "paper"
    ends after the pull that exceeds the budget. ``expire_after``: seconds, or a timedelta, until a
    ticket expires. ``release="even"`` releases the budget evenly between ``starts`` and ``ends``;
    ``per_day`` caps the spending of a day. ``shadow``: only recommend; another system decides.
    ``on_overrun``: the reaction to a report or an amendment above its reservation. "pause" stops
    decisions until ``resume``; "alert" goes on and counts it in the status. ``learn_from``: a
    ``Log`` or a ``FullTable`` that a new campaign learns from, ``weight`` pulls for each row.

    There are many parameters because a campaign's settings are all given here.

    >>> import tempfile
    >>> from tightrope import Task, open_campaign
    >>> task = Task(arms=["mail", "call"], limits={"complaints": "10% per pull"})
    >>> campaign = open_campaign(f"{tempfile.mkdtemp()}/sales.db", "spring", task=task, budget=20)
    >>> campaign.status()["free"]
    20.0
    >>> campaign.disconnect()
    """
    if not isinstance(name, str) or not name or len(name) > 128 or not name.isprintable():
        raise InputError(f"name = {shown(name)}: must be 1 to 128 printable characters")
    if task is not None and not isinstance(task, Task | Problem):
        raise InputError(f"task = {shown(task)}: must be a Task; load_task reads one from a file")
    if not isinstance(store, str | PathLike | Store):
        raise InputError(f"store = {shown(store)}: must be a path, postgresql://... or memory:")
    opened = open_store(store if isinstance(store, Store) else str(store), create=task is not None)
    owned = opened is not store
    try:
        if not opened.read(name, 0, 1) and opened.saved(name) is None:
            if name in (".", ".."):
                raise InputError(f"name = {shown(name)}: must be a name other than . and ..")
            if task is None:
                more = "" if opened.names() else "; task= and budget= create it"
                raise InputError(f"{unknown_campaign(opened, name)}{more}")
            if budget is None:
                raise InputError(f"campaign {name!r}: budget is missing; a new campaign needs it")
            settings = _settings(
                stop, expire_after, release, starts, ends, per_day, shadow, on_overrun
            )
            chosen, text = as_policy(Resolve() if policy is None else policy)
            past: list[PastSums] | PastLines = []
            if learn_from is not None:
                reading = PastLines.of if task.feature_columns else past_sums
                past = reading(learn_from, task.stated, weight)
            _create(opened, name, task, budget, chosen, text, seed, settings, who, past)
        given = as_policy(policy)[0] if policy is not None else None
        campaign = Campaign(opened, name, policy=given, who=who, owned=owned)
        require_same(campaign, task, budget, given)
        return campaign
    except BaseException:
        if owned:
            opened.close()
        raise


def notices_of(
    name: str, task: Task, settings: CampaignSettings, budget: float, policy: Policy
) -> dict[str, type[Warning]]:
    """Warnings for the creator of a campaign, with their categories."""
    found, scales = dict[str, type[Warning]](), task.scales
    if settings.stop == "soft":
        loose = (uncapped(task) or ["cost"])[0]
        text = f"campaign {name!r} is soft: it may overspend, because the largest {loose} is not"
        found[f'{text} known; declare a cap, such as Scales(grow={{"{loose}": 10}})'] = (
            SoftBudgetWarning
        )
    declared = (
        scales.cost != 1.0 or scales.says_cost or "cost" in cast(Mapping[str, float], scales.grow)
    )
    if settings.reserves and not declared and np.isnan(task.known_outcomes[:, 0]).any():
        text = f"campaign {name!r} reserves 1 per decision: at most {budget // 1:,.0f} in flight"
        advice = (
            "if the largest cost of a pull is not 1, declare it as the cost in the task's scales"
        )
        found[f"{text}; {advice}"] = ReservationWarning
    if aim := aim_of(policy, task, budget / task.scales.cost):
        found[f"campaign {name!r}: {aim}"] = RiskWarning
    return found


def _settings(
    stop: str,
    expire_after: timedelta | float,
    release: str | None,
    starts: datetime | str | None,
    ends: datetime | str | None,
    per_day: float | None,
    shadow: bool,
    on_overrun: str,
) -> CampaignSettings:
    if release not in (None, "even"):
        raise InputError(f"release = {shown(release)}: must be 'even', or be left out")
    if release is None and (starts is not None or ends is not None):
        raise InputError("release = None: must be 'even' if starts or ends is given")
    if release is not None and (starts is None or ends is None):
        raise InputError(f"release = {shown(release)}: must come with starts and ends")
    first = None if starts is None else moment(starts, "starts")
    last = None if ends is None else moment(ends, "ends")
    if first is not None and last is not None and last <= first:
        raise InputError(f"ends = {shown(ends)}: must be after starts = {shown(starts)}")
    return CampaignSettings(
        stop=one_of(stop, STOPS, "stop"),
        expire_after=microseconds(expire_after),
        starts=first,
        ends=last,
        per_day=None if per_day is None else positive(per_day, "per_day"),
        shadow=bool(shadow),
        on_overrun=one_of(on_overrun, ON_OVERRUN, "on_overrun"),
    )


def _create(
    store: Store,
    name: str,
    task: Task | Problem,
    budget: float,
    policy: Policy,
    text: str,
    seed: int,
    settings: CampaignSettings,
    who: str | None,
    past: list[PastSums] | PastLines,
) -> None:
    """Write a campaign's first event, if no other process was faster."""
    controller = by_place(task)(task, policy, budget, seed=seed, background=True)
    known = controller.task
    erasable = getattr(known.contexts, "erasable", False)
    sums, lines = _learned(controller, past, not erasable)
    loose = uncapped(known)
    if loose and settings.stop == "hard":
        settings = replace(settings, stop="soft")
    core = Core()
    core.controller, core.settings, core.policy_text = controller, settings, text
    core.digest = digest_of(core.controller)
    pairs = zip(known.limit_names, known.limit_kinds, strict=True)
    names = ["cost", *(name for name, limit in pairs if limit.hard)]
    accounts = list(zip(names, [float(budget), *hard_totals(known, budget)], strict=True))
    made = [Account(one, tick_digits(total)) for one, total in accounts]
    moves = [account.ticks(total) for account, (_, total) in zip(made, accounts, strict=True)]
    _require_fine(made[0], known.scales.cost, budget)
    least = min(one[0] for one in reservations(known, made, settings.reserves))
    for place, value in (("budget", float(budget)), ("per_day", settings.per_day)):
        if value is not None and made[0].ticks(value) < least:
            what = f"must be at least {made[0].amount(least):g}, the largest cost of a pull"
            raise InputError(f"{place} = {value:g}: {what}")
    for text, kind in notices_of(name, known, settings, budget, policy).items():
        warn_caller(text, kind)
    body = Created(
        **core.state(),
        name=name,
        budget=float(budget),
        seed=seed,
        program=__version__,
        penalties=known.penalty_count,
        accounts=[(one, tick_digits(total)) for one, total in accounts],
        moves=moved(moves),
        past=sums,
        lines=lines,
    )
    with store.turn(name) as turn:
        if turn.read(0, 1):
            return
        fresh = Core(policy)
        writer = Writer(fresh, START, turn, known_who(who) or own_name())
        writer.emit(body)
        turn.append(writer.rows, {})
        if erasable:
            turn.keep({})
    last = writer.rows[-1]
    store.save(name, Saved(last.seq, last.hash, fresh.snapshot()))


def _require_fine(account: Account, cost: float, budget: float) -> None:
    """Raise if ticks are so coarse that costs much below the largest are rounded away."""
    if account.ticks(cost) < 1000:
        finer = np.ceil(3 - np.log10(cost)) - account.digits
        most = 10.0 ** (np.floor(np.log10(budget)) + 1 - finer)
        raise InputError(
            f"budget = {budget:g}: must be below {most:g} for pulls that cost at most {cost:g};"
            f" amounts are counted in units of {account.amount(1):g}"
        )


def _learned(
    controller: Controller, past: list[PastSums] | PastLines, keep: bool
) -> tuple[list[PastSums], str]:
    """Learn from a log; returns what the event has of it. ``keep``: also the features of lines."""
    if isinstance(past, PastLines):
        controller.learn_past(past, past.weight)
        return [], past.text() if keep else NOT_KEPT
    if past:
        controller.learn_sums(past)
    return past, ""


def require_same(
    campaign: Campaign, task: Task | Problem | None, budget: float | None, policy: Policy | None
) -> None:
    """Raise, and name the differences, if an argument does not agree.

    A term agrees if the campaign has it now, or had it when it was created. Arms, limits, scales
    and prices are terms of a task.
    """
    controller = campaign.refreshed().controller
    here, there = Terms(), Terms()
    arms = frozenset() if task is None else frozenset(task.task.names)
    if budget is not None:
        here["budget"], there["budget"] = repr(check_budget(budget)), repr(controller.budget)
    if task is not None:
        here |= _terms_of(task.task, arms)
        there |= _terms_of(controller.task, arms)
    if policy is not None:
        here["policy"] = policy.for_task(controller.task).label
        there["policy"] = controller.policy.label
    names = [one for one in dict.fromkeys([*here, *there]) if here.get(one) != there.get(one)]
    first = _first_terms(campaign, arms) if names else {}
    wrong = [
        f"{name} ({there.get(name, 'none')} there, {here.get(name, 'none')} here)"
        for name in names
        if name not in first or here.get(name) != first[name]
    ]
    if wrong:
        more = f" and {len(wrong) - MOST} more" * (len(wrong) > MOST)
        raise InputError(
            f"campaign {campaign.name!r}: already exists with other terms: "
            f"{', '.join(wrong[:MOST])}{more}; leave out these arguments, or change the "
            "campaign first"
        )


def _first_terms(campaign: Campaign, arms: frozenset[str]) -> Terms:
    """The terms at creation; none if that event is archived."""
    body = next(campaign.events(0, 1)).body
    if not isinstance(body, Created):
        return {}
    return {"budget": repr(body.budget), **_terms_of(task_of(body.snapshot), arms)}


def _terms_of(task: Task, arms: frozenset[str]) -> Terms:
    """The terms of a task that concern these arms."""
    found = {f"arm {name!r}": "declared" for name in task.names if name in arms}
    for name, kind in zip(task.limit_names, task.limit_kinds, strict=True):
        found[f"limit {name!r}"] = repr(kind.short)
    caps = cast(Mapping[str, float], task.scales.grow)
    for channel, scale in zip(task.channels, task.scales.channels, strict=True):
        cap = caps.get(channel)
        found[f"scale of {channel}"] = repr(scale) if cap is None else f"growing up to {cap!r}"
    found["contexts"] = str(contexts_table(as_contexts(task.contexts)) or "none")
    if task.safe is not None:
        found["safe arm"] = repr(task.safe)
    prices: dict[str, Any] = {"cost": task.costs or {}, **task.known}
    for channel, by_arm in prices.items():
        for arm in arms.intersection(by_arm):
            found[f"{channel} of arm {arm!r}"] = repr(by_arm[arm])
    return found
