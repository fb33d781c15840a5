"""What several policies share: mixtures, sampling, schedules of V and delta, bounds, forgetting.

Plain functions and records over normalised numbers, compiled with the policies that call them. A
policy of one's own may use them; what is here keeps its results, not its names.
"""
