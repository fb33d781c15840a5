"""Policies from the literature, to compare with; each says where it differs from its paper."""
