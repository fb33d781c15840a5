from __future__ import annotations

from contextlib import closing

import pytest

from tests.live.postgres import Server, server_programs
from tightrope.live.stores import open_store
from tightrope.live.stores.memory import MemoryStore
from tightrope.live.stores.sqlite import SQLiteStore


@pytest.fixture(scope="session")
def postgres_server():
    """A PostgreSQL server for all tests of a process that ask for it."""
    programs = server_programs()
    if programs is None:
        pytest.skip("PostgreSQL's server is not installed: apt-get install postgresql")
    server = Server(programs)
    yield server
    server.remove()


@pytest.fixture
def postgres_url(postgres_server):
    """The address of an empty schema on it, for ``open_store`` and ``open_campaign``."""
    return postgres_server.url()


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self, at=1_700_000_000_000_000):
        self.at = at

    def __call__(self):
        return self.at


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path, clock):
    if request.param == "memory":
        yield MemoryStore(clock)
    else:
        made = SQLiteStore(str(tmp_path / "campaigns.db"), clock=clock)
        yield made
        made.close()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def any_store(request, tmp_path):
    if request.param == "memory":
        yield MemoryStore()
    else:
        postgres = request.param == "postgres"
        url = request.getfixturevalue("postgres_url") if postgres else str(tmp_path / "all.db")
        with closing(open_store(url)) as store:
            yield store
