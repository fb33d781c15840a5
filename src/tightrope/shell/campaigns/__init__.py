"""``tightrope campaign``: a command opens the campaign, does one thing and prints the result.

``tickets``, ``views`` and ``changes`` have the commands, ``access`` what they share, ``tables``
what they print.
"""

from tightrope.shell.campaigns import changes, tickets, views
from tightrope.shell.commands import Group

__all__ = ["CAMPAIGN"]

CAMPAIGN = Group(
    "campaign",
    """\
Run a live campaign: ask which arm to pull, report the outcome.

A campaign is kept in a store, which any number of processes may use at once. A result that a
command prints survives a crash.

tightrope campaign create router.db november --task task.toml --budget 50
tightrope campaign ask router.db november
tightrope campaign tell router.db november 1-00000001 --cost 0.3 --reward 1 --penalty bad=0
tightrope campaign status router.db november
""",
    {
        "decide": (tickets.create, tickets.ask, tickets.tell, tickets.void),
        "look": (
            *(views.status, views.outlook, views.tickets, views.why, views.events),
            views.list_,
        ),
        "change": changes.CHANGING,
        "change arms and types": changes.ARMS,
        "correct": (tickets.quarantine, tickets.amend, changes.notes),
        "keep": (
            *(views.verify, views.export, changes.backup, changes.restore, changes.archive),
            changes.erase_contexts,
        ),
    },
)
