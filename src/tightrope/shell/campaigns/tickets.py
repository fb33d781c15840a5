"""Commands that create campaigns, make decisions, take reports, and correct them."""

from __future__ import annotations

import csv
import sys
import warnings
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import tightrope
from tightrope.errors import InputError, nearest
from tightrope.files import lines_in, not_utf8, open_text
from tightrope.formats import counted
from tightrope.shell.campaigns import tables
from tightrope.shell.campaigns.access import (
    AtCampaign,
    Note,
    OnOverrun,
    Penalties,
    PerDay,
    TicketId,
    arm_of,
    brief,
    context_of,
    eligible_of,
    opened,
    past_of,
    penalty_of,
    status_after,
    stored,
    task_of,
    ticket_after,
)
from tightrope.shell.commands import Argument
from tightrope.shell.fits import LogColumns, names_of
from tightrope.shell.named import by_name
from tightrope.shell.options import LearnFrom, PolicyName, ProblemName, Weight, learned
from tightrope.shell.output import answer, say


@dataclass(kw_only=True, eq=False, repr=False)
class Terms:
    """How a campaign decides, apart from its task, budget and policy.

    stop hard|paper: hard reserves each arm's largest cost and never overspends; paper stops after
        the first pull beyond the budget
    seed: seed of policies that randomise
    expire_after SECONDS: time to wait for a ticket's report; default 86400, a day
    release even: release the budget evenly between --starts and --ends
    starts DATE: such as 2026-11-01T00:00:00+00:00; default zone UTC
    ends DATE: such as 2026-12-01T00:00:00+00:00; default zone UTC
    shadow: only decide: another system acts, and its reports train the policy
    on_overrun pause|alert: after a report or an amendment above its reservation, pause the
        campaign, or continue and count it; default pause
    """

    stop: Literal["hard", "paper"] = "hard"
    seed: int = 0
    expire_after: float = 86400.0
    release: Literal["even"] | None = None
    starts: str | None = None
    ends: str | None = None
    per_day: PerDay = None
    shadow: bool = False
    on_overrun: OnOverrun = "pause"


def create(
    at: AtCampaign,
    *,
    task: ProblemName,
    budget: float,
    policy: PolicyName | None = None,
    types: str | None = None,
    learn_from: LearnFrom = None,
    weight: Weight = None,
    columns: LogColumns,
    terms: Terms,
) -> int:
    r"""Create a campaign from a task, a budget and a policy.

    With --learn-from, the policy learns from a log first: a CSV or Parquet file, whose columns the
    options name, or a campaign's export.

    tightrope campaign create router.db november --task task.toml --budget 50
    tightrope campaign create router.db november --task task.toml --budget 50 --types math,code
    tightrope campaign create router.db november --task task.toml --budget 50 \
        --learn-from october.csv --arm model --cost usd --reward score --weight 0.3

    task FILE: a task's or problem's TOML file, or a ready problem's name
    budget B: budget in the task's unit of cost
    policy: default resolve
    types NAME,...: types of requests, which ask --context names, beside the features of the task;
        default those of the task
    """
    from tightrope.problem import Mixed
    from tightrope.problem.ready import load_task

    known = load_task(task)
    if types is not None:
        kinds, given = names_of(types), known.contexts
        pairs = Mixed(kinds, getattr(given, "features", given)) if known.feature_columns else kinds
        known = replace(known, contexts=pairs)
    wanted = {"task": known, "budget": budget, "policy": policy, **vars(terms)}
    wanted |= learned(past_of(learn_from, columns, known), weight)
    name = at.campaign
    with redirect_stdout(sys.stderr), brief():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tightrope.open_campaign(
                "memory:", name, **wanted
            )  # so that a mistake leaves no file behind
        with stored(at, create=True) as store:
            exists = f"campaign {name!r}: exists already; must be a new name"
            if store.read(name, 0, 1) or store.saved(name):
                raise InputError(exists)
            campaign = tightrope.open_campaign(store, name, **wanted)
            if next(campaign.events(0, 1)).who != campaign.who:
                raise InputError(exists)  # another process was faster
            status = campaign.status()
    arms = counted(len(status["arms"]), "arm")
    what = f"created with {arms}, policy {status['policy']}, stop {status['stop']}"
    return status_after(at, status, what)


def ask(
    at: AtCampaign,
    *,
    id: str | None = None,
    eligible: Annotated[Sequence[str] | None, Argument(many=True)] = None,
    context: Sequence[str] = (),
    count: int | None = None,
    expire_after: float | None = None,
) -> int:
    """Ask which arm to pull now, and print a ticket.

    The same --id again returns the same ticket.

    tightrope campaign ask router.db november
    tightrope campaign ask router.db november --context math
    tightrope campaign ask router.db november --count 2 --context math --context code
    tightrope campaign ask router.db november --eligible haiku sonnet --json
    tightrope campaign ask auctions.db november --eligible 0.5 2.0

    id: your own id for this decision
    eligible ARM: arms that may be pulled this time, by name or number; over an interval its
        lowest and highest number, over a box NAME=LOW,HIGH for a side; default all
    context NAME: type of the request, or its features, as in 320,1; once for all tickets, or each
    count: number of tickets; fewer if the budget ends
    expire_after SECONDS: time to wait for the report; default the campaign's
    """
    if count is not None and id is not None:
        raise InputError(f"--count {count}: must not come with --id")
    kinds = [*context] * (count or 1) if len(context) == 1 else [*context]
    if kinds and len(kinds) != (count or 1):
        allowed = f"must come once, or {count} times" if count else "must come once"
        raise InputError(f"--context {context[-1]}: {allowed}, not {len(kinds)} times")
    out = sys.stdout
    with opened(at) as campaign:
        arms = eligible_of(campaign, eligible)
        kinds = [context_of(campaign, text) for text in kinds]
        wanted: dict[str, Any] = {"eligible": arms, "expire_after": expire_after}
        if count is None:
            tickets = [campaign.ask(id, **wanted, context=kinds[0] if kinds else None)]
        else:
            tickets = campaign.ask_many(count, **wanted, contexts=kinds or None)
        with redirect_stdout(out):  # before anything else can go wrong
            rows = [one.table() for one in tickets]
            printed = rows[0] if count is None else rows
            answer(at.json, printed, map(tables.ticket_words, tickets))
            sys.stdout.flush()
        if count is not None and len(tickets) < count:
            say(f"only {len(tickets):,} of {count:,}: {tables.money_words(campaign.status())}")
    return 0


def tell(
    at: AtCampaign,
    id: TicketId,
    *,
    cost: float | None = None,
    penalty: Penalties = (),
    reward: float | None = None,
    arm: str | None = None,
) -> int:
    """Report the outcome of a ticket.

    Values that the task declares as known may be left out. The same report again changes nothing.

    tightrope campaign tell router.db november 1-00000001 --cost 0.3 --reward 1 --penalty bad=0

    cost: cost of the pull
    reward: reward of the pull
    arm: arm that was pulled, in a campaign with --shadow
    """

    def act(campaign: tightrope.Campaign) -> None:
        pulled = None if arm is None else arm_of(campaign, arm)
        campaign.tell(id, cost, reward, penalty_of(penalty), arm=pulled)

    return ticket_after(at, id, act)


def void(at: AtCampaign, id: TicketId) -> int:
    """Take back a ticket whose arm was not pulled, and free its reservation.

    tightrope campaign void router.db november 1-00000001
    """
    return ticket_after(at, id, lambda c: c.void(id))


def amend(
    at: AtCampaign,
    id: str | None = None,
    *,
    cost: float | None = None,
    penalty: Penalties = (),
    bill: str | None = None,
    note: Note = None,
) -> int:
    """Correct the cost or the penalties of reported tickets.

    The ledger changes; what the policy has learned stays. A bill is accepted whole or not at all.

    tightrope campaign amend router.db november 1-00000001 --cost 0.28
    tightrope campaign amend router.db november --bill invoice.csv --note "invoice 114"

    id: a reported ticket
    cost: true cost
    penalty: true penalty by its limit's name; X alone if there is one limit
    bill FILE.csv: amend many tickets: columns id, cost, and names of penalties; an empty cell
        changes nothing
    """
    if (id is None) == (bill is None):
        raise InputError("amend: must have either a ticket's ID or --bill FILE.csv")
    if bill is not None and (cost is not None or penalty):
        raise InputError(
            "--bill: must not come with --cost or --penalty, which are columns of the file"
        )
    if id is not None and cost is None and not penalty:
        raise InputError("amend: must have --cost or --penalty beside the ticket's ID")
    if id is not None:

        def act(campaign: tightrope.Campaign) -> None:
            found = by_name(penalty, "--penalty", task_of(campaign).limit_names)
            campaign.amend(id, cost, found, note=note)

        return ticket_after(at, id, act, "amended")
    with opened(at) as campaign:
        rows = _bill(str(bill), task_of(campaign).limit_names)
        count, status = campaign.amend_many(rows, note=note), campaign.status()
    return status_after(at, status, f"{count:,} tickets amended")


def _bill(path: str, limits: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of a bill: id, cost, and penalties by name; an empty cell changes nothing."""
    try:
        with open_text(path, "bill") as file:
            reader = csv.reader(lines_in(file, f"bill {path!r}"), strict=True)
            heading = [cell.strip() for cell in next(reader, [])]
            _check_columns(heading, path, limits)
            rows, seen = list[dict[str, Any]](), set[str]()
            for cells in reader:
                if any(cells):
                    place = f"bill {path!r}, line {reader.line_num}"
                    rows.append(_bill_row(heading, cells, place))
                    if rows[-1]["id"] in seen:
                        raise InputError(f"{place}: id = {rows[-1]['id']!r}: must be there once")
                    seen.add(rows[-1]["id"])
    except UnicodeDecodeError as error:
        raise not_utf8("bill", path, error) from None
    except (OSError, csv.Error) as error:
        told = getattr(error, "strerror", None) or str(error)
        raise InputError(f"bill {path!r}: must be a readable CSV file ({told})") from error
    if not rows:
        raise InputError(f"bill {path!r}: must have a row for each ticket to be amended")
    return rows


def _check_columns(heading: Sequence[str], path: str, limits: Sequence[str]) -> None:
    allowed = ["id", "cost", *limits]
    for name in heading:
        if name not in allowed or heading.count(name) > 1:
            told = "is there twice" if name in allowed else f"is unknown; {nearest(name, allowed)}"
            raise InputError(f"bill {path!r}: column {name!r} {told}")
    if "id" not in heading or len(heading) < 2:
        raise InputError(f"bill {path!r}: must have the column id, and some of {allowed[1:]}")


def _bill_row(heading: Sequence[str], cells: Sequence[str], place: str) -> dict[str, Any]:
    if len(cells) != len(heading):
        raise InputError(f"{place}: has {len(cells)} columns; must have {len(heading)}")
    found = {name: cell.strip() for name, cell in zip(heading, cells, strict=True)}
    ticket, numbers = found.pop("id"), dict[str, float]()
    for name, cell in found.items():
        try:
            if cell:
                numbers[name] = float(cell)
        except ValueError:
            raise InputError(f"{place}: {name} = {cell!r}: must be a number") from None
    return {"id": ticket, "cost": numbers.pop("cost", None), "penalty": numbers}


def quarantine(
    at: AtCampaign,
    action: Literal["list", "correct", "discard"] = "list",
    number: int | None = None,
    *,
    cost: float | None = None,
    penalty: Penalties = (),
    reward: float | None = None,
    id: str | None = None,
    note: Note = None,
) -> int:
    """List refused reports, correct one, or discard one.

    tightrope campaign quarantine router.db november
    tightrope campaign quarantine router.db november correct 3 --cost 0.3 --reward 1

    action list|correct|discard: what to do; default list
    number NUMBER: number of the report, as listed
    cost: cost of the pull
    reward: reward of the pull
    id: the right ticket, if the report names a wrong one
    """
    if action != "list" and number is None:
        raise InputError(f"quarantine {action}: must be followed by a report's NUMBER")
    given = cost is not None or reward is not None or penalty
    if action != "correct" and (given or id is not None):
        raise InputError(f"quarantine {action}: takes no outcome; quarantine correct NUMBER does")
    with opened(at) as campaign:
        if action == "correct" and number is not None:
            campaign.correct(number, cost, reward, penalty_of(penalty), id=id)
        elif action == "discard" and number is not None:
            campaign.discard(number, note=note)
        kept, status = campaign.quarantine(), campaign.status()
    if action != "list":
        return status_after(at, status, f"report {number} {DONE[action]}")
    lines = [tables.refused_words(one) for one in kept] or ["no report is in quarantine"]
    return answer(at.json, kept, lines)


DONE = {"correct": "corrected", "discard": "discarded"}
