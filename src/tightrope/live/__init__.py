"""Decisions for live campaigns.

``Controller`` asks a policy for arms, takes the outcomes, and can be saved at any moment
(``snapshots``). ``outlook`` computes what can be said about its end. ``plain`` is the
implementation for policies that cannot be compiled.

``Campaign`` is a controller with a ledger, kept in a store; ``opening`` makes one. Events change
``ledger`` (money and tickets) and ``core`` (what is learned, which arm next). ``writing`` is what
happens in one turn, ``campaign`` takes turns, ``sharing`` shares them among threads, ``stores``
keep the log, ``following`` follows it, ``verifying`` follows it again.
"""

from tightrope.errors import SoftBudgetWarning
from tightrope.live.campaign import Campaign
from tightrope.live.controller import Controller
from tightrope.live.opening import open_campaign
from tightrope.live.outlook import LimitOutlook, Outlook
from tightrope.live.writing import Ticket

__all__ = [
    "Campaign",
    "Controller",
    "LimitOutlook",
    "Outlook",
    "SoftBudgetWarning",
    "Ticket",
    "open_campaign",
]
