"""Decisions for a campaign that is really running.

``Controller`` is the door: it asks a policy for arms, is told what happened, and can be saved at
any moment (``snapshots``). ``plain`` is the same for a policy that cannot be compiled.
"""

from tightrope.live.controller import Controller

__all__ = ["Controller"]
