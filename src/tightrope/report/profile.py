"""The profile of a log: on the terminal, and as a self-contained HTML page."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from tightrope.data.profile import MOST_ARMS, MOST_CHANNELS, ArmProfile, LimitProfile, Profile
from tightrope.formats import NOTHING, at_most, estimates, number, percent
from tightrope.names import in_table, in_text
from tightrope.report.model import Column, Table, names, print_table
from tightrope.report.page import fill
from tightrope.statistics import Bounded, Estimate

if TYPE_CHECKING:
    from markupsafe import Markup

WIDTH, HEIGHT = 168, 40  # of a histogram, in pixels
TEMPLATE = "profile.html.j2"
TONES = {"yes": "good", "no": "bad", "unclear": "open"}
MOST_PRINTED = 40  # arms in the printed table


def _means(found: Profile, place: int) -> list[str]:
    """Every arm's mean of an outcome with half of its 95 % interval, as text."""
    return estimates([one.means[place] for one in found.arms])


def print_profile(found: Profile) -> None:
    """Print the arms with their means, the scales, and which limits can be kept."""
    arms, most = found.arms[:MOST_PRINTED], slice(MOST_PRINTED)
    columns = [
        names("arm", [*(one.name for one in arms), "largest (scale)"]),
        Column("rows", [*(f"{one.rows:,}" for one in arms), ""]),
    ]
    for place, channel in enumerate(found.channels):
        texts = [*_means(found, place)[most], f"{found.scales[place]:g}"]
        columns.append(Column(channel, texts))
    if found.limits:
        kept = [*(one.keeps for one in arms), ""]
        columns.append(names("keeps the limits", kept))
    what = "arms" if found.interval is None else f"points of {found.interval}"
    title = f"{found.rows:,} rows, {len(found.arms):,} {what}; ± is half of a 95 % interval"
    left = len(found.arms) - len(arms)
    notes = [f"and {left:,} more arms"] if left else []
    ends = [False] * (len(arms) - 1) + [True, False]
    print_table(Table(columns, title, notes=notes, ends=ends))
    if found.types:
        print_table(_types(found))
    for line in _verdict(found):
        print(in_text(line))


def _types(found: Profile) -> Table:
    """Each arm for each type of request, with its share of the type's pulls in the best mixture."""
    pairs = [(kind, k) for kind in found.types for k in range(len(kind.arms))]
    some = pairs[:MOST_PRINTED]
    arms = [kind.arms[k] for kind, k in some]
    columns = [
        names("type", ["" if k else f"{kind.name} ({kind.share:.0%})" for kind, k in some]),
        names("arm", [one.arm for one in arms]),
        Column("rows", [f"{one.rows:,}{' *' * one.pooled}" for one in arms]),
    ]
    for place, channel in enumerate(found.channels):
        means = estimates([one.means[place] if one.rows else None for one in arms])
        columns.append(Column(channel, means))
    if found.limits:
        tones = [TONES.get(one.keeps or "", "") for one in arms]
        kept = [one.keeps or NOTHING for one in arms]
        columns.append(names("keeps the limits", kept, tones=tones))
    if found.types[0].shares is not None:
        shares = [kind.shares and kind.shares[k] for kind, k in some]
        columns.append(Column("best mixture", shares, percent))
    notes = [f"and {len(pairs) - len(some):,} more pairs"] if len(some) < len(pairs) else []
    if any(one.pooled for one in arms):
        notes.append("* few rows: the problem draws the arm's rows of all types")
    ends = [k == len(kind.arms) - 1 for kind, k in some]
    return Table(columns, f"{len(found.types):,} types of requests", notes=notes, ends=ends)


def _verdict(found: Profile) -> list[str]:
    """What can be said of the limits, a line each."""
    lines = []
    for one in found.limits:
        if one.lowest is not None:
            together = ""
            if len(found.limits) > 1 and one.lowest_together is not None:
                together = f", {_beside(one)} beside the other limits"
            lines.append(
                f"limit {one.name} = {one.limit:g} {one.words}: the lowest that can be kept is"
                f" {_lowest(one)} ({_by(one)}){together}"
            )
    if found.infeasible is not None:
        lines.append(f"not feasible: {found.infeasible}")
    elif found.reward_rate is not None and found.shares is not None:
        parts = [
            f"{share:.1%} {arm.name}"
            for arm, share in zip(found.arms, found.shares, strict=True)
            if share > 0.0
        ]
        kept = " that keeps the limits" if found.limits else ""
        lines.append(
            f"in the log, the best mixture{kept} earns {found.reward_rate:.5g} per"
            " unit of cost (`plan` allows for the luck of the best arms); of its pulls"
            f" {', '.join(parts[:6])}{' ...' * (len(parts) > 6)}"
        )
    return lines


def profile_page(found: Profile, title: str) -> str:
    """The page as HTML; every text is escaped."""
    arms, few = found.arms[:MOST_ARMS], found.channels[:MOST_CHANNELS]
    return fill(
        TEMPLATE,
        title=f"Profile of {in_table(title)}",
        found=found,
        facts=_facts(found),
        arms=arms,
        means=[_means(found, place) for place in range(len(found.channels))],
        bars=_bars,
        left=len(found.arms) - len(arms),
        tops=[
            max(scale, *(one.largest[place] for one in found.arms))
            for place, scale in enumerate(found.scales)
        ],
        pairs=[f"{one}, {two}" for one, two in combinations(few, 2)],
        limits=_limits(found),
        types=_types(found) if found.types else None,
        tones=TONES,
    )


def _limits(found: Profile) -> Table:
    """The penalty rates of the arms; below them the limits, and the lowest that can be kept."""
    arms = [one.name for one in found.arms[:MOST_ARMS]]
    below = ["limit", "lowest limit that can be kept"]
    below += ["lowest beside the other limits"] * (len(found.limits) > 1)
    columns = [names("arm", arms + below)]
    for one in found.limits:
        rates = list(map(_rate, one.rates[: len(arms)]))
        lowest = [number(one.limit), _lowest(one), _beside(one)][: len(below)]
        tones = [TONES[kept] for kept in one.kept[: len(arms)]]
        heading = f"{one.name} {one.words}"
        columns.append(Column(heading, [*rates, *lowest], tones=tones + [""] * len(below)))
    return Table(columns, ends=[False] * (len(arms) - 1) + [True] + [False] * len(below))


def _rate(rate: Estimate) -> str:
    return at_most(rate) if isinstance(rate, Bounded) else number(rate.mean)


def _lowest(one: LimitProfile) -> str:
    """The lowest limit that can be kept; a dash if it depends on the budget."""
    if one.lowest is None or one.lowest_arm is None:
        return number(one.lowest)
    return _rate(min(one.rates, key=lambda rate: rate.mean))


def _by(one: LimitProfile) -> str:
    """What keeps the lowest limit."""
    return "the best arm of each type" if one.lowest_arm is None else f"{one.lowest_arm} alone"


def _beside(one: LimitProfile) -> str:
    """The same beside the other limits."""
    same = one.lowest_together == one.lowest
    return _lowest(one) if same else number(one.lowest_together)


def _facts(found: Profile) -> list[tuple[str, str]]:
    feasible = "yes" if found.infeasible is None else "no"
    facts = [
        ("rows", f"{found.rows:,}"),
        ("arms", f"{len(found.arms):,}"),
        *(
            (f"largest {c} (scale)", f"{s:g}")
            for c, s in zip(found.channels, found.scales, strict=True)
        ),
    ]
    if found.limits:
        facts.append(("some mixture keeps the limits", feasible))
    if found.reward_rate is not None:
        facts.append(("its reward per unit of cost", f"{found.reward_rate:.5g}"))
    return [(in_table(name), value) for name, value in facts]


def _bars(one: ArmProfile, place: int) -> Markup:
    """A histogram as SVG, from 0 to the scale; the highest bar is full."""
    from markupsafe import Markup

    counts = one.histograms[place]
    top, step = max(counts) or 1, WIDTH / len(counts)
    drawn = "".join(
        f'<rect x="{i * step:.1f}" y="{HEIGHT - height:.1f}" width="{step - 1:.1f}"'
        f' height="{height:.1f}"/>'
        for i, count in enumerate(counts)
        if (height := max(HEIGHT * count / top, 1.0 if count else 0.0)) > 0.0
    )
    return Markup(
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" aria-hidden="true">'
        f"{drawn}</svg>"
    )
