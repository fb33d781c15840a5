"""Logs in, decisions out: problems from data, replay, off-policy estimates and planning."""
