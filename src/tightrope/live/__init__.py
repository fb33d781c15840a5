"""Decisions for live campaigns.

``Controller`` asks a policy for arms, takes the outcomes, and can be saved at any moment
(``snapshots``). ``plain`` is the implementation for policies that cannot be compiled.
"""

from tightrope.live.controller import Controller

__all__ = ["Controller"]
