"""Decisions for a campaign that is really running.

``Controller`` is the door: it asks a policy for arms, is told what happened, and can be saved at
any moment (``snapshots``). ``outlook`` is what can be said of its end. ``plain`` is the same as the
compiled calls, for a policy that cannot be compiled.
"""

from tightrope.live.controller import Controller
from tightrope.live.outlook import LimitOutlook, Outlook

__all__ = ["Controller", "LimitOutlook", "Outlook"]
