"""The arena: many policies on many problems, ranked by reward among those that keep the limits.

``problems`` and ``families``: the problems; ``contest``: :func:`arena`; ``rows``: the measurements;
``ranking``: the ranks; ``charts`` and ``report``: the page; ``tuning``: a search for parameters.
"""
