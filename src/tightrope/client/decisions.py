"""The decisions of both clients, for ``with`` blocks that report a ticket."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from tightrope.client.answers import NotExecuted, Ticket, UnreportedWarning
from tightrope.client.core import Penalty
from tightrope.client.operations import Awaiting, Blocking, Operation, finished, result
from tightrope.errors import InputError, TightropeError

if TYPE_CHECKING:
    from tightrope.client.drivers import AsyncClient, Client


class DecisionMethods:
    """A decision of either client: a ticket, and whether it was settled."""

    def __init__(self, client: Any, campaign: str, asked: Mapping[str, Any]) -> None:
        self._client: Client | AsyncClient = client
        self.campaign, self._asked = campaign, asked
        self._ticket: Ticket | None = None
        self._settled = False

    @property
    def ticket(self) -> Ticket:
        """The ticket; available inside the ``with`` block."""
        if self._ticket is None:
            raise InputError(
                "decision: must be used inside its `with` block, which asks for the ticket"
            )
        return self._ticket

    @property
    def id(self) -> str:
        """The ticket's id."""
        return self.ticket.id

    @property
    def arm(self) -> str:
        """The name of the arm to pull."""
        return self.ticket.arm

    @property
    def value(self) -> float | tuple[float, ...] | None:
        """The number of the arm in an interval; a tuple in a box."""
        return self.ticket.value

    @Operation
    async def report(
        self,
        cost: float | None = None,
        reward: float | None = None,
        penalty: Penalty = None,
        *,
        arm: Any = None,
    ) -> None:
        """Report the outcome."""
        await result(self._client.report(self.campaign, self.id, cost, reward, penalty, arm=arm))
        self._settled = True

    @Operation
    async def void(self) -> None:
        """Cancel the ticket because nothing was done; its reservation is free again."""
        await result(self._client.void(self.campaign, self.id))
        self._settled = True

    async def _begin(self) -> Self:
        self._ticket = await result(self._client.ask(self.campaign, **self._asked))
        return self

    async def _end(self, error: BaseException | None) -> None:
        """At the end of the block: void the ticket if nothing was done."""
        if isinstance(error, NotExecuted) and self._ticket is not None and not self._settled:
            try:
                await DecisionMethods.void(self)
            except TightropeError as why:
                error.add_note(f"its ticket could not be voided and stays in flight: {why}")

    def _warn(self, error: BaseException | None) -> None:
        """At the end of the block: warn if its ticket was not reported."""
        if error is None and self._ticket is not None and not self._settled:
            warnings.warn(
                f"ticket {self.id!r} of campaign {self.campaign!r} was left without a report: it"
                f" stays in flight until {self.ticket.expires_at:%Y-%m-%d %H:%M:%S %Z}, then it is"
                " charged in full",
                UnreportedWarning,
                stacklevel=3,
            )


class Decision(DecisionMethods, Blocking):
    """A decision of :meth:`Client.decide`, inside its ``with`` block.

    >>> with client.decide("spring") as decision:  # doctest: +SKIP
    ...     decision.report(cost=price(decision.arm), reward=1, penalty={"complaints": 0})
    """

    def __enter__(self) -> Self:
        return finished(self._begin())

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._warn(error)
        finished(self._end(error))


class AsyncDecision(DecisionMethods, Awaiting):
    """A decision of :meth:`AsyncClient.decide`, inside its ``async with`` block.

    >>> async with client.decide("spring") as decision:  # doctest: +SKIP
    ...     await decision.report(cost=price(decision.arm), reward=1, penalty={"complaints": 0})
    """

    async def __aenter__(self) -> Self:
        return await self._begin()

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._warn(error)
        await self._end(error)
