"""Parse values of policy parameters from the shell."""

from __future__ import annotations

from tightrope.errors import PolicyError, nearest
from tightrope.problem import Known

FLAGS = {"true": True, "false": False, "yes": True, "no": False, "1.0": True, "0.0": False}


def as_flag(value: object) -> object:
    """A bool from the shell's word or number; any other value unchanged.

    >>> as_flag("true"), as_flag(0.0), as_flag(True), as_flag("maybe")
    (True, False, True, 'maybe')
    """
    return FLAGS.get(str(value).lower(), value)


def as_arm(value: object) -> object:
    """An arm's number from the shell's float; any other value unchanged.

    >>> as_arm(2.0), as_arm("careful"), as_arm(1.5)
    (2, 'careful', 1.5)
    """
    return int(value) if isinstance(value, float) and value.is_integer() else value


def arm_number(policy: str, parameter: str, arm: int | str, known: Known) -> int:
    """The number, from 0, of an arm that is given by its number from 1 or its name."""
    place = f"policy {policy}: {parameter} = {arm!r}"
    if isinstance(arm, str):
        if arm not in known.names:
            raise PolicyError(f"{place} is not an arm; {nearest(arm, known.names)}")
        return known.names.index(arm)
    if not 1 <= arm <= known.arm_count:
        raise PolicyError(f"{place} must be a number from 1 to {known.arm_count}")
    return arm - 1
