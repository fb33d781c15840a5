"""``tightrope campaign``: a command opens the campaign, does one thing and prints what came of it.

``parsers`` has the commands' options and help; ``deciding``, ``looking`` and ``changing`` are what
they do, with what is common to them in ``opening``; ``tables`` are what people see.
"""

from tightrope.shell.campaigns.parsers import add_campaign

__all__ = ["add_campaign"]
