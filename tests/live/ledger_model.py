"""A reference model of a campaign's ledger: slow, obvious, and nothing of it is the library's.

Every ticket has a state, what is reserved for it and what was charged for it, per account, in whole
numbers of a unit of the caller's. All totals are sums over tickets. It says what must happen to
each request; it does not choose arms.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Slip:
    """One ticket."""

    arm: int
    reserved: tuple[int, ...]
    expires: int
    state: str = "new"
    charged: tuple[int, ...] = ()
    said: tuple = ()
    refused: list[int] = field(default_factory=list)  # quarantined reports


class Model:
    """The money and the tickets of one campaign."""

    def __init__(self, budgets, most, reserves=True, keeps=1000, pauses=True, rates=None):
        """``budgets`` and ``most``: per account; ``keeps``: so many refused reports.

        ``pauses``: at an overrun; ``rates``: per account, of the budget, None for one in total.
        """
        self.budgets, self.reserves, self.keeps = list(budgets), reserves, keeps
        self.pauses, self.rates = pauses, rates or [1, *[None] * (len(self.budgets) - 1)]
        self.most = list(map(tuple, most))  # per arm and account
        self.nothing = (0,) * len(self.budgets)
        self.slips: dict[str, Slip] = {}
        self.open: dict[str, Slip] = {}  # in the order of their asks
        self.retired: set[int] = set()
        self.quarantine: dict[int, str | None] = {}
        self.told = self.voided = self.expired = self.late = self.overruns = 0
        self.spent = [0 for _ in budgets]
        self.reserved = [0 for _ in budgets]
        self.excess = [0 for _ in budgets]  # what was paid beyond reservations, or billed later
        self.paused, self.closed, self.pinned = None, False, None

    def free(self):
        return [b - s - r for b, s, r in zip(self.budgets, self.spent, self.reserved, strict=True)]

    def _move(self, slip, state, reserved, charged):
        """The one place where money moves: take out what a ticket held, put in what it holds."""
        held = slip.reserved if slip.state == "open" else self.nothing
        paid = slip.charged or self.nothing
        for i in range(len(self.spent)):
            self.reserved[i] += reserved[i] - held[i]
            self.spent[i] += charged[i] - paid[i]
            was = paid[i] if slip.state in ("told", "voided") else slip.reserved[i]
            self.excess[i] += max(charged[i] - was, 0)
        slip.state, slip.charged = state, tuple(charged)

    def need(self, arm):
        """What is reserved for a pull of an arm."""
        return self.most[arm] if self.reserves else self.nothing

    def may_pull(self, eligible=None):
        """The arms of which one has to be chosen; none: the ask must be refused."""
        if self.closed or self.paused:
            return []
        if not self.reserves and any(s > b for s, b in zip(self.spent, self.budgets, strict=True)):
            return []
        arms = range(len(self.most)) if eligible is None else eligible
        arms = [arm for arm in arms if arm not in self.retired]
        free = self.free()
        fits = [k for k in arms if all(n <= f for n, f in zip(self.need(k), free, strict=True))]
        if not self.reserves:
            fits = arms
        return fits if self.pinned is None else [k for k in fits if k == self.pinned]

    def ask(self, name, arm, expires):
        assert name not in self.slips, f"{name} was decided twice"
        slip = self.slips[name] = self.open[name] = Slip(arm, self.need(arm), expires)
        self._move(slip, "open", slip.reserved, self.nothing)

    def tell(self, name, paid, said, possible):
        """``paid`` per account; ``possible``: within the scales. Taken, same, conflict, unknown."""
        slip = self.slips.get(name)
        if slip is None:
            return "unknown"
        if slip.state == "told":
            return "same" if slip.said == said else "conflict"
        was = slip.state
        self._move(slip, "told", self.nothing, paid)
        slip.said = said
        self.open.pop(name, None)
        self.told += 1
        self.expired -= was == "expired"
        self.late += was == "expired"
        self.voided -= was == "voided"
        if was in ("expired", "quarantined"):
            for seq in slip.refused:
                self.quarantine.pop(seq, None)
        above = self.reserves and any(p > r for p, r in zip(paid, slip.reserved, strict=True))
        if was == "voided" or above or not possible:
            self._overrun(was != "voided" or min(self.free()) < 0)
        return "taken"

    def _overrun(self, pauses=True):
        self.overruns += 1
        if pauses and self.pauses:
            self.paused = self.paused or "overrun"

    def refuse(self, name, seq):
        """A report that cannot be read; whether it must be kept, as number ``seq``."""
        slip = self.slips.get(name)
        if slip is None or slip.state != "open":
            if len(self.quarantine) >= self.keeps:
                return False
        else:
            self.open.pop(name)
            self._move(slip, "quarantined", self.nothing, slip.reserved)
        if slip is not None:
            slip.refused.append(seq)
        self.quarantine[seq] = name
        return True

    def void(self, name):
        slip = self.slips.get(name)
        if slip is None or slip.state not in ("open", "voided"):
            return "refused"
        if slip.state == "open":
            self._move(slip, "voided", self.nothing, self.nothing)
            del self.open[name]
            self.voided += 1
        return "voided"

    def expire(self, now, most=256):
        due = sorted((s.expires, name) for name, s in self.open.items() if s.expires <= now)[:most]
        due = [name for _, name in due]
        for name in due:
            slip = self.open.pop(name)
            self._move(slip, "expired", self.nothing, slip.reserved)
            self.expired += 1
        return due

    def amend(self, name, paid):
        slip = self.slips.get(name)
        if slip is None or slip.state != "told":
            return False
        old, most = slip.charged, slip.reserved if self.reserves else self.most[slip.arm]
        new = [was if p is None else p for was, p in zip(old, paid, strict=True)]
        self._move(slip, "told", self.nothing, new)
        if any(n > max(was, m) for n, was, m in zip(new, old, most, strict=True)):
            self._overrun()
        return True

    def set_budget(self, budget):
        """Whether the budget may be this; a lower one must cover what is spent and reserved."""
        wanted = [was if rate is None else rate * budget
                  for rate, was in zip(self.rates, self.budgets, strict=True)]  # fmt: skip
        columns = zip(wanted, self.budgets, self.spent, self.reserved, strict=True)
        if any(new < was and new < spent + held for new, was, spent, held in columns):
            return False
        self.budgets = wanted
        return True

    def table(self):
        """What a ledger has to show."""
        return {
            "spent": self.spent, "reserved": self.reserved, "budget": self.budgets,
            "in_flight": list(self.open), "asked": len(self.slips), "told": self.told,
            "voided": self.voided, "expired": self.expired, "late": self.late,
            "overruns": self.overruns, "quarantine": self.quarantine, "paused": self.paused,
            "closed": self.closed, "pinned": self.pinned,
        }  # fmt: skip


def follow(model, event, unit):
    """Take an event of a log: what it says was done, and not the money it says it moved.

    ``unit``: an amount of the user's in whole units.
    """
    kind, name, body = event.kind, event.ticket, event.body
    if kind == "asked":
        assert body.arm in model.may_pull(body.eligible), f"event {event.seq}: {body}"
        model.ask(name, body.arm, body.expires_at)
    elif kind == "told":
        cost, _, *penalties = body.values
        paid = [unit(cost), *map(unit, penalties)][: len(model.budgets)]
        slip = model.slips[name]
        above = model.reserves and any(p > n for p, n in zip(paid, slip.reserved, strict=True))
        assert model.tell(name, paid, tuple(body.values), not above) == "taken", (
            f"event {event.seq}"
        )
    elif kind == "voided":
        assert model.slips[name].state == "open"
        model.void(name)
    elif kind == "expired":
        assert model.expire(model.slips[name].expires, most=1) == [name]
    elif kind == "quarantined":
        assert model.refuse(name, event.seq)
    elif kind == "discarded":
        model.quarantine.pop(body.of, None)
    elif kind == "budget_set":
        assert model.set_budget(unit(body.budget))
    elif kind == "budget_added":
        model.budgets[0] += unit(body.amount)
    elif kind == "paused":
        model.paused = body.why
    elif kind == "resumed":
        model.paused = None
    elif kind == "closed":
        model.closed = True
    elif kind == "pinned":
        model.pinned = body.arm
    elif kind == "arm_retired":
        model.retired.add(body.arm)
