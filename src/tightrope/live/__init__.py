"""Decisions for a campaign that is really running."""

from tightrope.live.controller import Controller

__all__ = ["Controller"]
