"""Policies of other authors as the arena enters them: formulas, properties, what they are told."""

from __future__ import annotations

from tightrope.experiments.arena import default_policies
from tightrope.policies import parse_policy


def test_they_enter_the_arena_with_the_settings_of_their_authors():
    entered = default_policies()
    assert len(set(entered)) == len(entered)
    assert [parse_policy(text).label for text in entered] == entered
    assert {"ts-lp", "ts-lp:update=true"} <= set(entered)
