from __future__ import annotations

import pytest

from tests.live.postgres import Server, server_programs


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
