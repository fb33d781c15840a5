"""Decisions for live campaigns.

``Controller`` has three parts: ``controller`` decides and learns from reports, which ``reports``
checks; in ``arms`` pulls are in flight and arms come and go (``rebuild``); ``live_run`` has what it
remembers, which can be saved at any moment (``snapshots``). ``calls`` are the policy's functions,
compiled or plain. ``outlook`` computes what can be said about the end.

``Campaign`` is a controller with a ledger, kept in a store; ``creation`` makes one. Events
(``events``, with their ``kinds``) change ``ledger`` (money and ``tickets``) and ``core`` (what is
learned, which arm next). ``writer`` is what happens in one turn, ``turns`` takes them for a
``campaign``, ``queue`` shares them among threads, ``stores`` keep the log, ``log`` reads it,
``follower`` follows it, ``verification`` follows it again.
"""

from tightrope.errors import SoftBudgetWarning
from tightrope.live.campaign import Campaign
from tightrope.live.controller import Controller
from tightrope.live.creation import open_campaign
from tightrope.live.outlook import LimitOutlook, Outlook
from tightrope.live.tickets import Ticket

__all__ = [
    "Campaign",
    "Controller",
    "LimitOutlook",
    "Outlook",
    "SoftBudgetWarning",
    "Ticket",
    "open_campaign",
]
