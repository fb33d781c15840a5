"""Parse policies as written in the shell: ``lyon:delta0=15,alpha=2``.

The name is that of a policy of tightrope, of an entry point in the group ``tightrope.policies`` of
an installed package, or of a class in a file (``mine.py:Greedy``) or in a module
(``package.mine:Greedy``). Parameters follow after a colon.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from tightrope.errors import PolicyError, nearest
from tightrope.files import read_file
from tightrope.policies import POLICIES
from tightrope.policies.base import Policy
from tightrope.policies.faults import failed, require_dataclass

GROUP = "tightrope.policies"
OF_A_FILE = "tightrope_policy_file_"  # prefix of the names of modules loaded from a file
MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def parse_policy(text: str) -> Policy:
    """Parse a policy written as ``name:parameter=value,parameter=value``.

    A value is a number, ``none``, a list such as ``0.3/0.7``, or a string.

    >>> parse_policy("resolve:risk=0.01,window0=2")
    Resolve(risk=0.01, mu_min=None, window0=2.0, discount0=None, watch=None, watch_block=1)
    """
    if not isinstance(text, str):
        raise PolicyError(f"policy {text!r:.80}: must be text, such as 'lyon:delta0=15'")
    name, rest = _split(text)
    return _made(text, name, rest, policy_class(name))


def _made(text: str, name: str, rest: str, policy: type[Policy]) -> Policy:
    """The policy of a class with the parameters in ``rest``."""
    require_dataclass(policy)
    known = [one.name for one in fields(policy)] if is_dataclass(policy) else list[str]()
    parameters: dict[str, Any] = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise PolicyError(f"policy {text!r}: {part!r} must read parameter=value")
        if key not in known:
            hint = nearest(key, known) if known else "it takes no parameters"
            raise PolicyError(f"policy {name}: parameter {key!r} is unknown; {hint}")
        if key in parameters:
            raise PolicyError(f"policy {text!r}: parameter {key!r} is given twice")
        parameters[key] = _value(value)
    try:
        return policy(**parameters)
    except TypeError as error:
        raise PolicyError(f"policy {text!r} cannot be made: {error}") from error
    except PolicyError:
        raise
    except Exception as error:
        raise failed(policy, error) from error


# Policies named in a store, whose content may come from somebody else.

_trusted: dict[str, type[Policy]] = {}  # by the names of their classes
_digests: dict[str, str] = {}  # SHA-256 of the code of modules, by the modules' names


def trust_policy(text: str) -> None:
    """Trust and load ``FILE.py:Class`` or ``module:Class``, for stores that name this class."""
    kind = policy_class(_split(text)[0])
    _trusted[kind.__name__] = kind


def lasting(text: str) -> str:
    """A policy's text with the same meaning in any working folder."""
    place, found, rest = text.partition(".py:")
    return f"{os.path.abspath(place)}.py:{rest}" if found else text


def code_of(kind: type[Policy], text: str) -> str:
    """The SHA-256 of the code that ``text`` names and ``kind`` was loaded from; "" if unknown."""
    place = _split(text)[0].rpartition(":")[0]
    return _digests.get(kind.__module__ if place.endswith(".py") else place, "")


def stored_policy(text: str, digest: str) -> Policy:
    """The policy named in a store; ``digest``: the recorded hash of its code, or "".

    Code runs only if it is already loaded here, if it was trusted, or if its absolute files have
    the same content as when the policy was chosen. Otherwise raises a ``PolicyError``.
    """
    name, rest = _split(text)
    if trusted := _trusted_class(name):
        return _made(text, name, rest, trusted)
    place, colon, kind = name.rpartition(":")
    if colon and place not in sys.modules:
        _require_same_code(place, kind, digest)
    elif not colon and name not in known_policies():
        ask = "add --trust-policy FILE.py:CLASS or MODULE:CLASS (in Python: policy=)"
        raise PolicyError(f"the store names the policy {name!r}, which is not installed; {ask}")
    return parse_policy(text)


def _trusted_class(name: str) -> type[Policy] | None:
    """The trusted class with this place, or with this name if the store has the name alone."""
    _, colon, kind = name.rpartition(":")
    if colon or name in known_policies():
        return _trusted.get(kind) if colon else None
    return next((one for one in _trusted.values() if one.name == name), None)


def _require_same_code(place: str, kind: str, digest: str) -> None:
    """Raise unless a file or a module is the recorded one."""
    if place.endswith(".py"):
        what = f"the policy file {place!r}"
        found = hashlib.sha256(read_file(place, "policy file", error=PolicyError)).hexdigest()
    else:
        what, found = f"the module {place!r}", _module_digest(place)
    reason = f"the recorded one is {digest[:12]}" if digest else "none is recorded"
    if not found:
        reason = "it is not found here as a file"
    elif place.endswith(".py") and not os.path.isabs(place):
        reason = "its path is not absolute"
    elif found == digest:
        return
    ask = f"if you trust it, add --trust-policy {place}:{kind} (in Python: policy=)"
    which = f", SHA-256 {found[:12]}" if found else ""
    raise PolicyError(f"the store names {what}{which}; it was not run, because {reason}; {ask}")


def _module_digest(module: str) -> str:
    """A SHA-256 of the files that importing a module runs, with their absolute paths.

    These are the module's own file and the ``__init__`` files of its packages. This function runs
    none of them. Returns "" if one is not found or not a file.
    """
    files, place = hashlib.sha256(), None
    _look_here()
    try:
        for end in re.finditer(r"\.|$", module):
            name = module[: end.start()]
            spec = _located(name, place)
            if spec is None or not (spec.has_location or spec.submodule_search_locations):
                return ""
            if spec.has_location:  # otherwise a package without an __init__
                origin = os.path.abspath(spec.origin or "")
                content = read_file(origin, "policy module", error=PolicyError)
                files.update(f"{origin}\0{hashlib.sha256(content).hexdigest()}\n".encode())
            place = getattr(sys.modules.get(name), "__path__", spec.submodule_search_locations)
    except (PolicyError, ImportError, KeyError, ValueError):  # modules without a file
        return ""
    return files.hexdigest()


def _located(name: str, place: Sequence[str] | None) -> ModuleSpec | None:
    """Where a module is; ``place``: the folders of the package that it is in."""
    if name in sys.modules:
        return getattr(sys.modules[name], "__spec__", None)
    if "." not in name:
        return importlib.util.find_spec(name)
    return PathFinder.find_spec(name, place) if place else None


def _split(text: str) -> tuple[str, str]:
    """The policy's name and the text of its parameters."""
    place, _, rest = text.partition(".py:")
    if rest:
        name, _, rest = rest.partition(":")
        return f"{place}.py:{name}", rest
    first, _, rest = text.partition(":")
    second, colon, more = rest.partition(":")
    if first not in known_policies() and second.isidentifier() and MODULE.fullmatch(first):
        return f"{first}:{second}", more if colon else ""
    return first, rest


def policy_class(name: str) -> type[Policy]:
    """The class of the policy with this name."""
    if ".py:" in name:
        path, _, kind = name.rpartition(":")
        return _class_in(_file_module(path), kind, name)
    if ":" in name:
        module, _, kind = name.partition(":")
        return _class_in(_import(module, name), kind, name)
    known = known_policies()
    if name.endswith(".py"):
        raise PolicyError(f"policy {name!r} is a file; must name a class of it: {name}:CLASS")
    if name not in known:
        raise PolicyError(f"policy {name!r} is unknown; {nearest(name, known)}")
    found = known[name]
    return found if isinstance(found, type) else _registered(found)


@cache
def known_policies() -> Mapping[str, Any]:
    """Tightrope's policies by name, then the entry points that installed packages register."""
    others = {entry.name: entry for entry in entry_points(group=GROUP)}
    return {**POLICIES, **{name: other for name, other in others.items() if name not in POLICIES}}


def _registered(entry: Any) -> type[Policy]:
    what = f"the entry point {entry.name} = {entry.value!r} of {GROUP}"
    with _importing(f"{what} cannot be loaded"):
        found = entry.load()
    return _require_policy(found, what)


def _file_module(path: str) -> ModuleType:
    """The module in a file, loaded once per content."""
    file = Path(path)
    text = read_file(file, "policy file", error=PolicyError)
    digest = hashlib.sha256(str(file.resolve()).encode() + b"\0" + text).hexdigest()[:12]
    name = f"{OF_A_FILE}{re.sub(r'[^0-9A-Za-z]', '_', file.stem)}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None:
        raise PolicyError(f"policy file {path!r} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    _digests[name] = hashlib.sha256(text).hexdigest()
    try:
        with _importing(f"policy file {path!r} cannot be read"):
            exec(compile(text, str(file), "exec", dont_inherit=True), vars(module))
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _import(module: str, name: str) -> ModuleType:
    _look_here()
    if module not in _digests:
        _digests[module] = _module_digest(module)
    with _importing(f"policy {name!r} cannot be imported"):
        return importlib.import_module(module)


def _look_here() -> None:
    """Find modules in the working folder, as ``python -m`` does."""
    if "" not in sys.path:
        sys.path.insert(0, "")


@contextmanager
def _importing(problem: str) -> Iterator[None]:
    """Turn a user module's errors into :class:`PolicyError`; send its output to standard error."""
    try:
        with redirect_stdout(sys.stderr):  # standard output is for results
            yield
    except (Exception, SystemExit) as error:
        lines = str(error).splitlines()
        reason = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
        raise PolicyError(f"{problem}: {reason}") from error


def _class_in(module: ModuleType, kind: str, name: str) -> type[Policy]:
    found = getattr(module, kind, None)
    if found is None:
        there = [
            key
            for key, value in vars(module).items()
            if isinstance(value, type)
            and issubclass(value, Policy)
            and value.__module__ == module.__name__
        ]
        hint = nearest(kind, there) if there else "it has no policies"
        raise PolicyError(f"policy {name!r}: there is no class {kind!r}; {hint}")
    return _require_policy(found, f"policy {name!r}")


def _require_policy(found: Any, what: str) -> type[Policy]:
    if not isinstance(found, type) or not issubclass(found, Policy):
        raise PolicyError(f"{what}: {found!r} must be a class of policies")
    abstract = sorted(getattr(found, "__abstractmethods__", ()))
    if abstract or not hasattr(found, "name"):
        missing = ", ".join([*abstract, *([] if hasattr(found, "name") else ["name"])])
        raise PolicyError(f"{what}: the class {found.__name__} lacks {missing}")
    return found


def _value(text: str) -> Any:
    if text.lower() == "none":
        return None
    if "/" in text:
        return tuple(_value(part) for part in text.split("/"))
    try:
        return float(text)
    except ValueError:
        return text
