"""Inputs at the edge: TOML problems, policies with parameters and shell arguments, from a seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from random import Random

from tightrope.policies import POLICIES

__all__ = ["Case", "case"]

BUDGETS = ["20", "3.5", "50", "1", "0.5", "100", "7", "1e2"]
RUNS = ["1", "2", "3"]
SOUND = ["0.5", "0.4", "1", "0.01", "1.0", "0.9999999", "2", "3", "1_0"]
EDGES = [
    *("0", "-0.0", "nan", "inf", "-inf", "-1", "-0.5", "1e-15", "1e-9", "4.6e-9", "5e-9"),
    *("5e-324", "1e-310", "1e-300", "1e-100", "1e-30", "1e30", "1e100", "1e300", "1.7e308"),
    *("9007199254740993", "18446744073709551616", "1" + "0" * 400, "-" + "9" * 30, "1e16"),
    *("1e8", "1e15", "0.9999999999999999", "1.0000000000000002", "1e-16"),
]
NOT_NUMBERS = [
    *('"0.5"', '""', "[]", "{}", "[0.5]", "[[0.5]]", "true", "false", "2024-01-01", "1e"),
    *("{ bernoulli = 0.5 }", "'''\n'''", '"' + "x" * 3000 + '"', "1" + "0" * 5000, "１２", "0x1F"),
]
WORDS = ["", "none", "true", "0.5/0.5", "1/0", "nan/1", "/", "x" * 3000, "１２", "٣", "1e", "a=b"]
NAMES = ['""', '"a"', '"b"', '"é \\n\\t"', '"\\u0000"', '"' + "n" * 2000 + '"', "3", "nan", "[]"]

LAWS: dict[str, Sequence[str]] = {
    "bernoulli": ("0.5",),
    "constant": ("0.5",),
    "uniform": ("0.1", "0.7"),
    "two-point": ("0.0", "1.0", "0.3"),
    "beta": ("2", "3"),
    "beta ": ("2", "3", "0.1", "0.9"),
    "truncated-normal": ("0.5", "0.2", "0.1", "0.9"),
    "discrete": ("[0.2, 0.5, 1.0]", "[1, 2, 3]"),
    "cost-above": ("0.5",),
}


class Draw(Random):
    """Random numbers for one input; ``heat`` says how much of it is at the edge."""

    heat: float = 1.0

    def rarely(self, odds: float) -> bool:
        return self.random() < odds * self.heat


@dataclass(frozen=True)
class Case:
    """A command line; ``{file}`` among its arguments stands for the path of ``content``."""

    arguments: tuple[str, ...]
    content: bytes = b""
    kind: str = field(default="", compare=False)

    def __str__(self) -> str:
        text = " ".join(_short(argument) for argument in self.arguments)
        return f"tightrope {text}\n{_short(self.content.decode('utf-8', 'backslashreplace'), 1500)}"


def _short(text: str, most: int = 200) -> str:
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"


def case(seed: int, number: int) -> Case:
    """Input ``number`` of a seed: always the same."""
    draw = Draw(f"{seed} {number}")
    draw.heat = draw.choice([0.0, 0.2, 0.5, 1.0, 3.0])
    kind, content = _problem(draw)
    problem = "{file}"
    if draw.random() < 0.15:
        ready = ["paper", "wireless", "arena-two-limits", "arena-abrupt", "hiring", "arena-cheap"]
        odd = [
            "",
            ".",
            "/",
            "/dev/null",
            "paper-arms-３",
            "arena-random-5-99999999999",
            "\x00",
            "*",
        ]
        problem, content = draw.choice(ready * 2 + odd), b""
    command = draw.choices(list(COMMANDS), weights=[10, 4, 4, 1, 0.1])[0]
    arguments = COMMANDS[command](draw, problem)
    if draw.rarely(0.02):
        arguments.insert(draw.randrange(len(arguments) + 1), _odd(draw))
    return Case(tuple(arguments), content, kind)


# --- the shell ----------------------------------------------------------------------------


def _odd(draw: Draw) -> str:
    return draw.choice([*EDGES, *WORDS, "--json", "--runs", "--budget", "-", "--", "--nothing"])


def _number(draw: Draw, sound: Sequence[str], odds: float = 0.15) -> str:
    if not draw.rarely(odds):
        return draw.choice(sound)
    return draw.choice(EDGES) if draw.random() < 0.8 else draw.choice(WORDS)


def _simulate(draw: Draw, problem: str) -> list[str]:
    backend = "cpu" if draw.random() < 0.02 else "python"
    arguments = ["simulate", problem, "--quiet", "--backend", _rarely(draw, backend)]
    for _ in range(draw.choice([1, 1, 1, 2])):
        arguments += ["--budget", _number(draw, BUDGETS)]
    arguments += ["--runs", _number(draw, RUNS, 0.05), "--seed", _number(draw, SEEDS, 0.05)]
    for _ in range(draw.choice([0, 1, 1, 2])):
        # Only LyOn is compiled: every other kernel would take seconds.
        text = "lyon" if backend == "cpu" else _policy(draw)
        arguments += ["--policy", text]
    if draw.random() < 0.02:
        arguments += ["--threads", _number(draw, ["1", "2"], 0.5)]
    return arguments + ["--json"] * (draw.random() < 0.7)


SEEDS = ["0", "1", "7", "18446744073709551615"]


def _rarely(draw: Draw, value: str) -> str:
    return draw.choice(["", "gpu2", "python "]) if draw.rarely(0.01) else value


def _oracle(draw: Draw, problem: str) -> list[str]:
    budget = ["--budget", _number(draw, BUDGETS, 0.3)] * (draw.random() < 0.6)
    return ["oracle", problem, *budget, *["--json"] * (draw.random() < 0.7)]


def _theory(draw: Draw, problem: str) -> list[str]:
    arguments = ["theory", problem, "--budget", _number(draw, ["1000", "1e6", "20", "1e12"], 0.3)]
    for name in ("--v0", "--delta0", "--alpha"):
        if draw.random() < 0.3:
            arguments += [name, _number(draw, SOUND, 0.5)]
    return arguments + ["--json"] * (draw.random() < 0.7)


def _problems(draw: Draw, problem: str) -> list[str]:
    return ["problems", problem, *["--json"] * (draw.random() < 0.3)]


def _tune(draw: Draw, problem: str) -> list[str]:
    arguments = ["tune", problem, "--quiet", "--out", "{out}", "--json"]
    arguments += ["--budget", _number(draw, BUDGETS), "--runs", _number(draw, RUNS, 0.2)]
    if draw.random() < 0.5:
        arguments += ["--max-violation", _number(draw, ["0.1", "-0.1", "0"], 0.5)]
    if draw.random() < 0.3:
        arguments += ["--policy", _policy(draw)]
    return arguments


COMMANDS: dict[str, Callable[[Draw, str], list[str]]] = {
    "simulate": _simulate,
    "oracle": _oracle,
    "theory": _theory,
    "problems": _problems,
    "tune": _tune,
}


def _policy(draw: Draw) -> str:
    """A policy in the shell's words, with some of its parameters."""
    name = draw.choice(list(POLICIES))
    known = [f.name for f in fields(POLICIES[name])]  # type: ignore[arg-type]
    chosen = [p for p in known if draw.random() < 0.3]
    if draw.rarely(0.03):
        chosen.append(draw.choice(["", "v9", "name", *known]))
    parts = [f"{parameter}={_number(draw, [*SOUND, '1', '2'], 0.35)}" for parameter in chosen]
    text = ":".join([name, ",".join(parts)] if parts else [name])
    odd = [text + ":", text + ",", "", text.upper()]
    return draw.choice(odd) if draw.rarely(0.03) else text


# --- TOML ---------------------------------------------------------------------------------


def _problem(draw: Draw) -> tuple[str, bytes]:
    kind = draw.choices(list(KINDS), weights=[30, 4, 2, 1, 1, 1, 1])[0]
    return kind, KINDS[kind](draw)


def _mutated(draw: Draw) -> bytes:
    """A sound problem with some values at the edge, or lines out of place."""
    limits = draw.choice([0, 1, 1, 1, 2, 3])
    lines = _head(draw, limits)
    for k in range(draw.choice([1, 2, 2, 3, 5])):
        lines += ["[[arms]]", *_arm(draw, k, limits)]
    for j in range(draw.choice([0, 0, 0, 0, 1, 2])):
        lines += ["[[changes]]", f"at = {_value(draw, str(0.3 + 0.3 * j), 0.05)}"]
        for k in range(sum(line == "[[arms]]" for line in lines)):
            lines += ["[[changes.arms]]", *_arm(draw, k, limits)]
    if draw.rarely(0.1):
        at = draw.randrange(len(lines))
        lines[at : at + draw.choice([0, 1, 2])] = [draw.choice(lines)] * draw.choice([0, 1])
    return draw.choice(["\n", "\n", "\n", "\r\n"]).join(lines).encode("utf-8", "surrogatepass")


def _value(draw: Draw, sound: str, odds: float = 0.04) -> str:
    if not draw.rarely(odds):
        return sound
    return draw.choice(EDGES) if draw.random() < 0.75 else draw.choice(NOT_NUMBERS)


def _head(draw: Draw, limits: int) -> list[str]:
    lines = []
    values = [
        _value(draw, draw.choice(["0.8", "1.5", "2.0", "3", "0.3"]), 0.1) for _ in range(limits)
    ]
    style = draw.random()
    if style < 0.3 and limits:
        lines.append("limits = { " + ", ".join(f"p{m} = {v}" for m, v in enumerate(values)) + " }")
    elif style < 0.35 and limits:
        per = _value(draw, '"cost"', 0.2)
        lines.append(f"limits = {{ bad = {{ at_most = {values[0]}, per = {per} }} }}")
    elif limits:
        lines.append(f"limit = {values[0] if limits == 1 else '[' + ', '.join(values) + ']'}")
    if draw.random() < 0.25:
        scale = _value(draw, draw.choice(["1", "2", "50"]), 0.3)
        channel = draw.choice(["cost", "reward", "penalty"][: 2 + (limits == 1)])
        lines.append(f"scales = {{ {channel} = {scale} }}")
    if draw.random() < 0.1:
        lines.append(f"name = {draw.choice(NAMES)}")
    if draw.rarely(0.02):
        lines.append(f"{draw.choice(['slack', 'smallest_cost', 'nmae'])} = {_value(draw, '1')}")
    return lines


def _arm(draw: Draw, k: int, limits: int) -> list[str]:
    name = draw.choice(NAMES) if draw.rarely(0.03) else f'"{"abcdefg"[k]}"'
    lines = [f"name = {name}"] * (not draw.rarely(0.02))
    if draw.random() < 0.08:
        rows = [
            "[" + ", ".join(_value(draw, draw.choice(SOUND[:2])) for _ in range(2 + limits)) + "]"
            for _ in range(0 if draw.rarely(0.1) else draw.choice([1, 3]))
        ]
        return [*lines, f"rows = [{', '.join(rows)}]"]
    cost = _law(draw, list(LAWS)[:-1])
    lines += [f"cost = {cost}", f"reward = {_law(draw)}"]
    laws = [_law(draw) for _ in range(limits)]
    if laws:
        lines.append(f"penalty = {laws[0] if limits == 1 else '[' + ', '.join(laws) + ']'}")
    return lines


def _law(draw: Draw, keys: Sequence[str] = tuple(LAWS)) -> str:
    if draw.rarely(0.01):
        return draw.choice(NOT_NUMBERS)
    key = draw.choice([*keys, *["bernoulli"] * 6])
    if draw.rarely(0.01):
        key = draw.choice(["x", "bernouli", "cost-above"])
    values = [_value(draw, sound, 0.05) for sound in LAWS.get(key, ("1",))]
    if len(values) == 1:
        return f"{{ {key.strip()} = {values[0]} }}"
    return f"{{ {key.strip()} = [{', '.join(values)}] }}"


SOUND_PROBLEM = (
    'limit = 0.8\n[[arms]]\nname = "a"\ncost = { bernoulli = 0.4 }\n'
    "reward = { bernoulli = 0.8 }\npenalty = { bernoulli = 0.3 }\n"
)


def _bytes(draw: Draw) -> bytes:
    """A problem whose bytes were damaged."""
    content = bytearray(_mutated(draw))
    for _ in range(draw.choice([1, 2, 20])):
        content[draw.randrange(len(content))] = draw.randrange(256)
    return bytes(content[: draw.randrange(len(content))] if draw.random() < 0.3 else content)


def _deep(draw: Draw) -> bytes:
    """Very deep nesting."""
    depth = draw.choice([100, 3000, 30000])
    nested = draw.choice(
        ["[" * depth + "]" * depth, "{a=" * depth + "1" + "}" * depth, "[" * depth]
    )
    lines = [f"limit = {nested}", f"{'a.' * depth}b = 1", f"[{'a.' * depth}b]\nc = 1"]
    return (draw.choice(lines) + "\n" + SOUND_PROBLEM.partition("\n")[2]).encode()


def _many(draw: Draw) -> bytes:
    """Many arms, or many limits."""
    count = draw.choice([50, 300])
    arm = SOUND_PROBLEM.partition("\n")[2]
    if draw.random() < 0.5:
        arms = [arm.replace('"a"', f'"{k}"') for k in range(count)]
        return "".join(["limit = 0.8\n", *arms]).encode()
    laws = ", ".join(["{ bernoulli = 0.3 }"] * 50)
    head = f"limit = [{', '.join(['0.8'] * 50)}]\n"
    return (head + arm.replace("{ bernoulli = 0.3 }", f"[{laws}]")).encode()


def _task(draw: Draw) -> bytes:
    """Arms with names alone."""
    lines = _head(draw, draw.choice([0, 1, 2]))
    for fact in ("slack", "smallest_cost"):
        if draw.random() < 0.5:
            lines.append(f"{fact} = {_value(draw, '0.5', 0.3)}")
    for k in range(draw.choice([1, 3])):
        lines += ["[[arms]]", f"name = {_value(draw, f'{chr(34)}{k}{chr(34)}')}"]
    return "\n".join(lines).encode()


def _marked(draw: Draw) -> bytes:
    """With a byte order mark, or in another encoding."""
    text = SOUND_PROBLEM.replace("\n", draw.choice(["\n", "\r\n", "\r"]))
    return text.encode(draw.choice(["utf-8-sig", "utf-16", "utf-32", "utf-8"]))


def _binary(draw: Draw) -> bytes:
    return draw.choice([b"", b"\x00" * 1000, draw.randbytes(500), b"\xff\xfe", b"\n" * 10**5])


KINDS: dict[str, Callable[[Draw], bytes]] = {
    "mutated": _mutated,
    "bytes": _bytes,
    "marked": _marked,
    "deep": _deep,
    "many": _many,
    "task": _task,
    "binary": _binary,
}
