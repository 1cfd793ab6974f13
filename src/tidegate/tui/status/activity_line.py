"""The line above the input: is the agent at work, and what waits to be sent."""

from typing import Final

from rich.text import Text
from textual.widgets import Static

from tidegate.terminal.output import TextSanitizer
from tidegate.tui.turn_state import TurnState

_SPINNER: Final = "◐◓◑◒"
_MAX_QUEUED: Final = 3
_TICK_SECONDS: Final = 0.25
"""Seconds between two signs of life. More would only keep a slow line busy."""


class ActivityLine(Static):
    def __init__(self, talk: TurnState, shown: TextSanitizer, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id, markup=False)
        self._talk = talk
        self._shown = shown
        self._spin = 0
        self.ready = False

    def on_mount(self) -> None:
        self.set_interval(_TICK_SECONDS, self._tick)
        self.look()

    def _tick(self) -> None:
        if self._talk.busy:
            self._spin += 1
            self.look()

    def look(self) -> None:
        lines = self._lines()
        self.update(Text("\n".join(lines), no_wrap=True, overflow="ellipsis"))
        self.display = bool(lines)

    def _lines(self) -> list[str]:
        talk = self._talk
        lines: list[str] = []
        if talk.busy:
            hint = "esc interrupts · ⏎ says it now · ↑ takes it back" if talk.queue else "esc interrupts"
            lines.append(f"{_SPINNER[self._spin % len(_SPINNER)]} working · {hint}")
        elif not self.ready:
            lines.append("opening…")
        elif talk.queue:
            lines.append("⏎ sends what waits · ↑ takes it back")
        lines += [f"  queued: {self._shown.line(draft.text)[:200]}" for draft in talk.queue[:_MAX_QUEUED]]
        return [*lines, f"  and {len(talk.queue) - _MAX_QUEUED} more"] if len(talk.queue) > _MAX_QUEUED else lines
