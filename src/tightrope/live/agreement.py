"""Check that the arguments for an existing campaign agree with the campaign."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from tightrope.errors import InputError
from tightrope.live.campaign import Campaign
from tightrope.live.kinds import Created
from tightrope.live.snapshots import task_of
from tightrope.policies.base import Policy
from tightrope.problem import Problem, Task, check_budget
from tightrope.problem.features import as_contexts, contexts_table

MOST = 5  # differences that a message names
Terms = dict[str, str]  # the terms of a campaign, by name


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
