"""The lines above the input: whether the agent is working, and the queued messages."""

from typing import Final

from rich.text import Text
from textual.widgets import Static

from tidegate.terminal.output import TextSanitizer
from tidegate.tui.turn_state import TurnState

_SPINNER: Final = "◐◓◑◒"
_MAX_QUEUED: Final = 3
_TICK_SECONDS: Final = 0.25
"""Seconds between two updates. More would only load a slow connection."""


class ActivityLine(Static):
    def __init__(self, turn_state: TurnState, sanitizer: TextSanitizer, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id, markup=False)
        self._turn_state = turn_state
        self._sanitizer = sanitizer
        self._spinner_step = 0
        self.agent_ready = False

    def on_mount(self) -> None:
        self.set_interval(_TICK_SECONDS, self._tick)
        self.update_lines()

    def _tick(self) -> None:
        if self._turn_state.is_busy:
            self._spinner_step += 1
            self.update_lines()

    def update_lines(self) -> None:
        lines = self._format_lines()
        self.update(Text("\n".join(lines), no_wrap=True, overflow="ellipsis"))
        self.display = bool(lines)

    def _format_lines(self) -> list[str]:
        turn = self._turn_state
        lines: list[str] = []
        if turn.is_busy:
            hint = "esc interrupts · ⏎ sends it now · ↑ edits it" if turn.queue else "esc interrupts"
            lines.append(f"{_SPINNER[self._spinner_step % len(_SPINNER)]} working · {hint}")
        elif not self.agent_ready:
            lines.append("opening…")
        elif turn.queue:
            lines.append("⏎ sends the queued message · ↑ edits it")
        lines += [f"  queued: {self._sanitizer.sanitize_line(draft.text)[:200]}" for draft in turn.queue[:_MAX_QUEUED]]
        return [*lines, f"  and {len(turn.queue) - _MAX_QUEUED} more"] if len(turn.queue) > _MAX_QUEUED else lines
