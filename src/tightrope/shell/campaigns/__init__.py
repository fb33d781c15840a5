"""``tightrope campaign``: a command opens the campaign, does one thing and prints what came of it.

``tickets``, ``views`` and ``changes`` have the commands, with what is common to them in ``access``;
``tables`` are what people see.
"""

from tightrope.shell.campaigns import changes, tickets, views
from tightrope.shell.commands import Group

__all__ = ["CAMPAIGN"]

CAMPAIGN = Group(
    "campaign",
    """\
Run a live campaign: ask which arm to pull, tell what came of it.
It is kept in a store, which any number of processes may use at once. What a
command reports as done survives a crash.

  tightrope campaign create router.db november --task task.toml --budget 50
  tightrope campaign ask router.db november
  tightrope campaign tell router.db november 1-00000001 --cost 0.3 --reward 1 \\
      --penalty bad=0
  tightrope campaign status router.db november
""",
    *tickets.COMMANDS,
    *views.COMMANDS,
    *changes.COMMANDS,
)
