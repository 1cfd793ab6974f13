"""The figures of the status bar: how full the window is, what it cost, what is being summarised."""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from tidegate.agent.runtime import OpenAgent
from tidegate.core.errors import TidegateError
from tidegate.core.events import Event, NoteAdded
from tidegate.session.reports.costs import CostReport
from tidegate.session.summaries.background import BackgroundSummarizer

_POLL_SECONDS: Final = 0.2
"""Seconds between two looks while something goes on that nobody tells of."""


class StatusFigures(NamedTuple):
    """`size` is what the next request weighs, `room` what it may; None: not known. `dollars` None: no price is known.

    `counted` is False while the log is still being read for what was spent.
    """

    model: str = ""
    size: int | None = None
    room: int | None = None
    dollars: float | None = None
    cached: float = 0.0
    spent: int = 0
    compactions: int = 0
    summarising: bool = False
    counted: bool = False

    @property
    def percent(self) -> int | None:
        return None if self.size is None or not self.room else round(100 * self.size / self.room)


class StatusWatcher:
    """Looks at an agent and tells when something is different. What takes long is read a piece at a time."""

    def __init__(self, agent: OpenAgent, tell: Callable[[StatusFigures], None]) -> None:
        self._agent = agent
        self._tell = tell
        self._bill = CostReport(agent.session.log, agent.reached.prices)
        self._told: StatusFigures | None = None
        self._task: asyncio.Task[None] | None = None
        self._writing = False

    def take(self, event: Event) -> None:
        """A compaction that has a summary written says so in the log, before and after."""
        if isinstance(event.what, NoteAdded) and event.what.topic in ("compaction_start", "compaction_end"):
            self._writing = event.what.topic == "compaction_start"
            self.look()

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def look(self) -> None:
        more = self._bill.advance()
        standing = self._standing(counted=not more)
        if standing != self._told:
            self._told = standing
            self._tell(standing)
        if (more or standing.summarising) and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._go_on())

    async def _go_on(self) -> None:
        while self._told is not None and (self._told.summarising or not self._told.counted):
            await asyncio.sleep(_POLL_SECONDS if self._told.counted else 0)
            self.look()

    def _standing(self, *, counted: bool) -> StatusFigures:
        session, total = self._agent.session, self._bill.total
        try:
            budget = session.budget()
            size, room = session.size(), budget.capacity if budget.window is not None else None
        except TidegateError:  # the fixed part leaves no room: the turn will say so, with the numbers
            size, room = None, None
        summarise = self._agent.agent.summarise
        priced = total.tokens > total.unpriced or not total.tokens
        return StatusFigures(
            session.model,
            size,
            room,
            total.dollars if priced else None,
            total.cached_share,
            total.tokens,
            total.compactions,
            summarising=self._writing or (isinstance(summarise, BackgroundSummarizer) and summarise.busy),
            counted=counted,
        )
