"""The dashboard: pages that show whether the limits hold, and forms that change a campaign.

``history`` reads the state and the log; ``watch`` is its thread. ``curves`` has
the charts. ``facts`` has the text of a page: ``standing`` the headline and the banners,
``limit_words`` and ``rate_words`` the limits, ``arm_facts`` and ``mixture`` the arms. ``listing``
is the list, ``actions`` and ``creating`` are the forms. ``access`` checks permissions (with
``sessions``, ``signins`` and ``proxies``). ``routes`` puts them together, and
``answers`` renders the pages.
"""

from __future__ import annotations

from tightrope.service.pages.routes import Pages

__all__ = ["Pages"]
