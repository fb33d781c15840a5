"""Code that several policies share: mixtures, sampling, schedules, bounds, forgetting.

Plain functions and records over normalised numbers, compiled with the policies that call them. Your
own policy can use them, but their names may change between versions.
"""
