"""One hash of the package's sources: what was made by other code is not used again.

Kernels on the disk and finished runs in a store carry it. It covers every module that decides what
a run is; the shell, reports and experiments only ask for runs and read them.
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
    """A digest of the sources, as they are when first asked for."""
    digest = hashlib.sha256()
    files = [PACKAGE / name for name in MODULES]
    for room in ROOMS:
        files += sorted((PACKAGE / room).rglob("*.py"))
    for path in files:
        digest.update(str(path.relative_to(PACKAGE)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
