"""The envelope against a look at every arm."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tightrope.kernels.argmin.envelope import MOST, Envelope, make_envelope


def chosen(envelope: Envelope, queue: np.floating) -> int | None:
    """What a decision reads off the envelope; None where it would look at every arm."""
    segment = np.searchsorted(envelope.edges, queue, side="right")
    candidates = np.sort(envelope.candidates[slice(*envelope.first[segment : segment + 2])])
    rewards, penalties = envelope.lines[:, candidates]
    return int(candidates[np.argmin(rewards + queue * penalties)]) if len(candidates) else None


def by_hand(lines: np.ndarray, queue: np.floating) -> int:
    return int(np.argmin(lines[0] + queue * lines[1]))


def queues_to_try(envelope: Envelope, seed: int) -> np.ndarray:
    """Any, and those at and right beside the edges, in the lines' precision."""
    dtype = envelope.lines.dtype.type
    edges = envelope.edges[:60].astype(dtype)
    beside = [np.nextafter(edges, dtype(end)) for end in (0.0, np.inf)]
    anywhere = 10.0 ** np.random.default_rng(seed).uniform(-4, 7, 20)
    tried = np.concatenate([[0.0], edges, *beside, anywhere.astype(dtype)]).astype(dtype)
    return tried[tried >= 0.0]


def random_lines(kind: str, count: int, random: np.random.Generator) -> list[np.ndarray]:
    slopes = random.uniform(0, 5, count)
    return {
        "any": [-(10.0 ** random.uniform(-3, 4, count)), random.normal(0, 1, count)],
        "few": list(-random.integers(0, 4, (2, count)).astype(float)),
        "one point": [1.3 - 7.0 * slopes, slopes],
        "near-parallel": [random.uniform(0, 1e-5, count) - 50, 1 + random.uniform(0, 1e-6, count)],
        "a curve": [-np.sqrt(slopes), slopes],
    }[kind]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["any", "few", "one point", "near-parallel", "a curve"])
@given(count=st.integers(1, 80), seed=st.integers(0, 2**32))
def test_it_chooses_as_a_look_at_every_arm_does(kind, dtype, count, seed):
    random = np.random.default_rng(seed)
    lines = np.array(random_lines(kind, count, random)).astype(dtype)
    twins = random.integers(0, count, (2, count // 4))
    lines[:, twins[0]] = lines[:, twins[1]]
    envelope = make_envelope(lines)
    for queue in queues_to_try(envelope, seed):
        assert chosen(envelope, queue) in (None, by_hand(lines, queue))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_is_short_where_lines_are_no_special_case(dtype):
    lines = np.random.default_rng(3).uniform(0, 1, (2, 100_000)).astype(dtype)
    envelope = make_envelope(lines)
    assert len(envelope.edges) < 100
    assert (np.diff(envelope.first) > 0).all()
    assert np.diff(envelope.first).max() < MOST


def test_only_around_the_point_that_all_lines_pass_through_does_it_give_up():
    slopes = np.linspace(0.1, 5, 500)
    envelope = make_envelope(np.array([1.3 - 7.0 * slopes, slopes]))
    given_up = np.flatnonzero(np.diff(envelope.first) == 0)
    assert len(given_up) > 0
    around = envelope.edges[[given_up.min() - 1, given_up.max()]]
    np.testing.assert_allclose(around, 7.0, rtol=1e-12)
    assert chosen(envelope, np.float64(6.9)) == 499
    assert chosen(envelope, np.float64(7.1)) == 0


def test_of_the_same_lines_the_lowest_number_stays():
    lines = np.array([[2.0, 1.0, 1.0, 1.0], [3.0, 1.0, 1.0, 0.5]])
    envelope = make_envelope(lines)
    assert 2 not in envelope.candidates
    assert chosen(envelope, np.float64(0.0)) == 1  # ties with 3 here, with the same height
    assert chosen(envelope, np.float64(0.1)) == 3


def test_lines_without_end_are_left_to_a_look_at_every_arm():
    envelope = make_envelope(np.array([[-np.inf, 1.0], [0.0, 1.0]]))
    assert chosen(envelope, np.float64(1.0)) is None
