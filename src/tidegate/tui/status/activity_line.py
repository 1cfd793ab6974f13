"""The lines above the input: what is running and for how long, and the queued messages."""

from typing import Final

from rich.text import Text
from textual.widgets import Static

from tidegate.terminal.output import TextSanitizer
from tidegate.tui.conversation.block_renderer import shorten_cells
from tidegate.tui.turn_state import RunningTask, TurnState, format_duration

_SPINNER: Final = "◐◓◑◒"
_MAX_QUEUED: Final = 3
_MAX_TOOLS: Final = 3
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
        if self._turn_state.is_busy or self._turn_state.running_command is not None:
            self._spinner_step += 1
            self.update_lines()

    def update_lines(self) -> None:
        lines = self._format_lines()
        self.update(Text("\n".join(lines), no_wrap=True, overflow="ellipsis"))
        self.display = bool(lines)

    def _format_lines(self) -> list[str]:
        turn = self._turn_state
        spinner = _SPINNER[self._spinner_step % len(_SPINNER)]
        lines = ["plan mode: the agent only reads · /plan off approves"] if turn.plan_mode else []
        if turn.is_busy:
            hint = "esc interrupts · ⏎ sends it now · ↑ edits it" if turn.queue else "esc interrupts"
            lines.append(f"{spinner} working{self._format_elapsed(turn.turn_since)} · {hint}")
            tools = [] if turn.is_asking else list(turn.running_tools.values())[:_MAX_TOOLS]
            lines += [self._format_task(task, "esc cancels") for task in tools]
        elif not self.agent_ready:
            lines.append("opening…")
        elif turn.queue:
            lines.append("⏎ sends the queued message · ↑ edits it")
        if turn.running_command is not None:
            lines.append(f"{spinner}{self._format_task(turn.running_command, 'esc stops it')[1:]}")
        lines += [f"  queued: {self._sanitizer.sanitize_line(draft.text)[:200]}" for draft in turn.queue[:_MAX_QUEUED]]
        return [*lines, f"  and {len(turn.queue) - _MAX_QUEUED} more"] if len(turn.queue) > _MAX_QUEUED else lines

    def _format_task(self, task: RunningTask, hint: str) -> str:
        """Return the task with its subject cut so that the time and the hint fit, also on a narrow screen."""
        name = self._sanitizer.sanitize_line(f"{task.name} {task.subject[:4000]}")
        elapsed = self._format_elapsed(task.since)
        tail = f"{' ·' if elapsed else ''}{elapsed} · {hint}"
        room = max(12, self.size.width - len(tail) - 4)
        return f"  {shorten_cells(name, room)}{tail}"

    def _format_elapsed(self, since: float) -> str:
        """Return how long something has been running; nothing in the first second."""
        seconds = self._turn_state.clock() - since
        return f" {format_duration(seconds)}" if seconds >= 1 else ""
