"""Helpers of ``tightrope.cli``: commands' names and completion, what they print, live campaigns.

Only ``cli`` imports this package.
"""
