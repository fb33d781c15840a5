"""Policies from the literature. Each docstring lists the differences from its paper."""
