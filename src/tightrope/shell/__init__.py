"""Helpers of ``tightrope.cli``: commands and their help, completion, output, live campaigns.

Only ``cli`` imports this package.
"""
