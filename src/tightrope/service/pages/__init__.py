"""The dashboard: pages that show whether the promise holds, and forms that act on a campaign.

``history`` looks at the state and its past, ``watch`` is the thread that does it, ``curves`` and
``facts`` make of it what is shown, ``actions`` are the forms, ``access`` is who may see and send
them (with ``sessions``, ``signins`` and ``proxies``), ``routes`` puts them together
and ``answers`` makes pages of them.
"""

from __future__ import annotations

from tightrope.service.pages.routes import Pages

__all__ = ["Pages"]
