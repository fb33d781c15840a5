"""A hash of the package's sources, so that nothing cached by other code is used again.

Compiled kernels on the disk and finished runs in a store are filed under it. It covers every module
that can change a run; the shell, reports and experiments cannot.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

__all__ = ["source_digest"]

PACKAGE = Path(__file__).parent
ROOMS = ("kernels", "policies", "problem", "engine")
MODULES = ("compiled.py", "version.py")


@cache
def source_digest() -> str:
    """The SHA-256 of the sources as hex digits, computed once per process."""
    digest = hashlib.sha256()
    files = [PACKAGE / name for name in MODULES]
    for room in ROOMS:
        files += sorted((PACKAGE / room).rglob("*.py"))
    for path in files:
        digest.update(str(path.relative_to(PACKAGE)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
