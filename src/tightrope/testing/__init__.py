"""Contracts as test classes: subclass one, name your class, run pytest.

class TestMine(PolicyContract):
    policies = (Mine(), Mine(boldness=2.0))

class TestMyStore(StoreContract):
    def store(self):
        return MyStore(a_new_place())

    def again(self, store):
        return MyStore(store.url)
"""

from tightrope.testing.policies import PolicyContract
from tightrope.testing.stores import StoreContract

__all__ = ["PolicyContract", "StoreContract"]
