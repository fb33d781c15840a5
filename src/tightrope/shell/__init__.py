"""Helpers of ``tightrope.cli``: command names and completion, saving runs, describing policies.

Only ``cli`` imports this package.
"""
