"""The arena: many policies on many problems, who earns most and who keeps the limits.

``problems`` and ``families`` are the arena's own problems, ``contest`` has :func:`arena`, ``rows``
what is measured, ``ranking`` who is ahead, ``report`` the page; ``tuning`` searches parameters.
"""
