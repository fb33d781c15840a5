"""A campaign's log as lines of JSON, with or without the features of its requests."""

from __future__ import annotations

import json
from base64 import b85encode
from collections.abc import Iterator
from typing import cast

from tightrope.live.core import restored
from tightrope.live.events import Row, event_of, line_of, text_of
from tightrope.live.featured import FeaturedController
from tightrope.live.kinds import Asked, Created, Stateful, Told
from tightrope.live.log import MANY, rows_of
from tightrope.live.past import NOT_KEPT
from tightrope.live.snapshots import task_of
from tightrope.live.stores import Store


def exported(store: Store, name: str, *, features: bool = True) -> Iterator[str]:
    """The events of a store as lines of JSON, with their notes; also unknown kinds.

    ``features``: whether to add the features that are outside of the log. Without features, those
    in the log are left out, and the hashes of their events do not fit any more.
    """
    notes, vectors = store.notes(name), {0: ""}
    for row in rows_of(store, name):
        if features and (row.seq % MANY == 1 or len(vectors) == 1):
            vectors = {0: "", **store.vectors(name, row.seq, row.seq + MANY - 1)}
        elif not features:
            row = _without_features(row)
        vector = vectors.get(row.seq)
        yield line_of(row, notes.get(row.seq), vector and vector.partition(" ")[2])


def _without_features(row: Row) -> Row:
    """An event without features: in its own body, in a log that was learned from, in the state."""
    if row.kind in (Asked.kind, Told.kind):
        body = json.loads(row.body) if '"features":' in row.body else {}
        return row if body.pop("features", None) is None else row._replace(body=json.dumps(body))
    event = event_of(row) if '"state":' in row.body else None
    if event is None or not isinstance(event.body, Stateful):
        return row
    stateful = event.body
    if not task_of(stateful.snapshot).feature_columns:
        return row
    controller = restored(stateful.snapshot, stateful.policy, stateful.code, None)
    cast(FeaturedController, controller).forget_requests()
    stateful.state = b85encode(controller.snapshot()).decode()
    if isinstance(stateful, Created):
        stateful.lines = stateful.lines and NOT_KEPT
    return row._replace(body=text_of(stateful))
