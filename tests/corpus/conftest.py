from __future__ import annotations

from tests.live.conftest import postgres_server

__all__ = ["postgres_server"]
