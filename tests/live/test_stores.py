"""Every store keeps the contract."""

from __future__ import annotations

import pytest

from tightrope.errors import InputError
from tightrope.live.stores import open_store
from tightrope.live.stores.memory import MemoryStore
from tightrope.testing import StoreContract


class TestMemory(StoreContract):
    durable = False

    def store(self):
        return MemoryStore()

    def again(self, store):
        return store


class TestSQLite(StoreContract):
    @pytest.fixture(autouse=True)
    def _path(self, tmp_path):
        self.path = str(tmp_path / "store.db")

    def store(self):
        return open_store(self.path)

    def again(self, store):
        return open_store(self.path, create=False)


class TestPostgres(StoreContract):
    @pytest.fixture(autouse=True)
    def _url(self, postgres_url):
        self.url = postgres_url

    def store(self):
        return open_store(self.url)

    def again(self, store):
        return open_store(self.url, create=False)


def test_an_option_that_went_astray_is_no_store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"store = '-q': must not begin with '-'"):
        open_store("-q")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("url", ["mysql://me:secret@host/base", "http://x", ":memory:"])
def test_other_addresses_are_refused_without_their_passwords(url):
    with pytest.raises(InputError, match=r"must be a path of a file, postgresql://...") as caught:
        open_store(url)
    assert "secret" not in str(caught.value)
