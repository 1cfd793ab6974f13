"""The figures of the status bar: how full the window is, the cost, and whether a summary is being written."""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from tidegate.agent.runtime import OpenAgent
from tidegate.core.errors import TidegateError
from tidegate.core.events import Event
from tidegate.core.notes import CompactionEnded, CompactionStarted, is_note
from tidegate.session.costs import CostReport

_POLL_SECONDS: Final = 0.2
"""Seconds between two checks while a background summary is being written: it sends no event."""


class StatusFigures(NamedTuple):
    """The figures. `request_tokens` is the size of the next request, `capacity` its limit; None: not known.

    `window_is_assumed`: the model's window is not known, and the limit is a guess.
    `dollars` is None if no price is known. `cost_is_complete` is False while the log is still being read for its costs.
    """

    model: str = ""
    request_tokens: int | None = None
    capacity: int | None = None
    dollars: float | None = None
    cached_share: float = 0.0
    spent_tokens: int = 0
    compaction_count: int = 0
    is_summarizing: bool = False
    cost_is_complete: bool = False
    window_is_assumed: bool = False

    @property
    def percent(self) -> int | None:
        return (
            None
            if self.request_tokens is None or not self.capacity
            else round(100 * self.request_tokens / self.capacity)
        )


class StatusWatcher:
    """Watches an agent and reports when a figure changes. A long log is read piece by piece."""

    def __init__(self, agent: OpenAgent, listener: Callable[[StatusFigures], None]) -> None:
        self._agent = agent
        self._listener = listener
        self._cost_report = CostReport(agent.session.log, agent.connection.model_overrides)
        self._last_figures: StatusFigures | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_summarizing = False

    def handle_event(self, event: Event) -> None:
        """Follow the events: a compaction that has a summary written is logged before and after."""
        if is_note(event.payload, CompactionStarted, CompactionEnded):
            self._is_summarizing = is_note(event.payload, CompactionStarted)
            self.update()

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def update(self) -> None:
        more = self._cost_report.read_more()
        figures = self._read_figures(is_complete=not more)
        if figures != self._last_figures:
            self._last_figures = figures
            self._listener(figures)
        if (more or figures.is_summarizing) and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._poll())

    async def _poll(self) -> None:
        while self._last_figures is not None and (
            self._last_figures.is_summarizing or not self._last_figures.cost_is_complete
        ):
            await asyncio.sleep(_POLL_SECONDS if self._last_figures.cost_is_complete else 0)
            self.update()

    def _read_figures(self, *, is_complete: bool) -> StatusFigures:
        session, total = self._agent.session, self._cost_report.total
        try:
            size, capacity = session.tokens, session.budget.capacity
        except TidegateError:  # the fixed part leaves no room: the turn will say so, with the numbers
            size, capacity = None, None
        notes = session.state_notes
        priced = total.tokens > total.unpriced_tokens or not total.tokens
        return StatusFigures(
            session.model,
            size,
            capacity,
            total.dollars if priced else None,
            total.cached_share,
            total.tokens,
            total.compactions,
            is_summarizing=self._is_summarizing
            or (notes.writer is not None and notes.writer.is_busy and not notes.is_offered),
            cost_is_complete=is_complete,
            window_is_assumed=session.window_is_assumed,
        )
