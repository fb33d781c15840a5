"""Decisions for live campaigns.

``Controller`` has three parts: ``controller`` decides and learns from reports, which ``reports``
checks; ``arms`` handles pulls in flight and arms that come and go (``rebuild``); ``live_run`` holds
the state, which can be saved at any moment (``snapshots``). ``calls`` are the policy's functions,
compiled or plain. ``outlook`` computes bounds and projections for the end of the run.

``Campaign`` is a controller with a ledger, kept in a store; ``creation`` makes one. Events
(``events``, with their ``kinds``) change ``ledger`` (money and ``tickets``) and ``core`` (the
policy's state and its decisions). ``writer`` does the work of one turn, ``turns`` takes turns for a
``campaign``, ``queue`` shares them among threads, ``stores`` keep the log, ``log`` reads it,
``follower`` replays new events, ``verification`` replays all of them.
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
