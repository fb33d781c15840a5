"""Whatever bytes are sent, the service answers or refuses them, and serves others meanwhile."""

from __future__ import annotations

import time

from tests.fuzz.requests import Target, request

SEED, INPUTS, SECONDS = 7, 1000, 20.0  # as many as the seconds allow


def test_generated_bytes_end_well():
    end, number, answered = time.monotonic() + SECONDS, 0, 0
    with Target(seconds=15.0) as target:  # a test asserts no times; the long form does
        while number < INPUTS and time.monotonic() < end:
            one = request(SEED, number)
            found = target.run(one)
            assert not found, f"input {number}:\n{one}\n{found}"
            answered += found.status is not None
            number += 1
    assert number > 100
    assert answered > number / 2


def test_bytes_are_the_same_every_time():
    assert [request(3, n) for n in range(50)] == [request(3, n) for n in range(50)]
    assert len({request(3, n) for n in range(50)}) > 40
