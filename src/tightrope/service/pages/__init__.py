"""The dashboard: pages that show whether the limits are kept, and forms that act on a campaign.

``history`` looks at the state and its past; ``watch`` is the thread that does it. ``curves`` has
the charts. ``facts`` has the text of a page: ``standing`` the headline and the banners,
``limit_words`` and ``rate_words`` the limits, ``arm_facts`` and ``mixture`` the arms. ``listing``
is the list, ``actions`` and ``creating`` are the forms. ``access`` decides who may see and send
them (with ``sessions``, ``signins`` and ``proxies``). ``routes`` puts them together, and
``answers`` renders the pages.
"""

from __future__ import annotations

from tightrope.service.pages.routes import Pages

__all__ = ["Pages"]
