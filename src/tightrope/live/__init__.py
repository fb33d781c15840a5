"""Decisions for live campaigns.

``Controller`` asks a policy for arms, takes the outcomes, and can be saved at any moment
(``snapshots``). ``outlook`` computes what can be said about its end. ``plain`` is the
implementation for policies that cannot be compiled.
"""

from tightrope.live.controller import Controller
from tightrope.live.outlook import LimitOutlook, Outlook

__all__ = ["Controller", "LimitOutlook", "Outlook"]
