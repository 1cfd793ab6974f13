"""The script of the demonstration: its messages and the narration."""

import asyncio
import textwrap
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from tidegate.tui.plain.chat_streams import ChatOutput

_MAX_SECONDS: Final = 30.0
"""Seconds after which an unattended demonstration sends no more messages, so that it ends on a slow machine."""
INTRO_TEXT: Final = (
    "A model that runs on this machine chats in a window of {window} tokens: far too few for what will be said."
    " It is a tiny model, so do not mind its answers; watch the window."
)
TAKEOVER_TEXT: Final = (
    "The chat is yours. F2 shows what fills the window, /undo takes a compaction back, ctrl+q leaves."
)


class DemoStep(NamedTuple):
    """A message, and the narration before it."""

    message: str
    narration: str = ""


DEMO_SCRIPT: Final = (
    DemoStep(
        "Hello, my name is Ada. We deploy to the host db7 on port 8443. Who are you?",
        "Some facts.",
    ),
    DemoStep("/pin Never restart db7 before 18:00.", "What is pinned stays in the window, whatever happens."),
    DemoStep(
        "Here is the first page of my notes. The workers read jobs from a queue and write what they found into the"
        " database. On Monday the queue grew to forty jobs, because one worker had stopped in the night and nobody saw"
        " it. We now look at the queue every hour, and each worker writes a line when it starts, one when it stops, and"
        " one when it could not read a job. Sum it up in one sentence.",
        "Now pages of notes, until the window is full.",
    ),
    DemoStep(
        "Here is the second page. On Tuesday the disk of the database was almost full, because the old backups were"
        " never removed. We removed the oldest ten, and since then a small program does it every night at two. It keeps"
        " the backups of the last seven days, and one of each month. It also sends a mail when it could not remove one,"
        " or when there was none to remove. Sum it up in one sentence."
    ),
    DemoStep(
        "Here is the third page. On Thursday we moved the search to a server of its own. It takes half the time now,"
        " but it needs more memory than we thought, and once it was ended by the system for it. We gave it four more"
        " gigabytes. On Friday nothing happened at all, so we wrote these notes. What must we never do?",
        "This does not fit any more. Before the call, room is made: cheapest loss first.",
    ),
    DemoStep("/recall 8443", "What left the window did not leave the log."),
    DemoStep("/pins", "And what was pinned is still in the window."),
)


class ScriptedInput:
    """The script as the input of a plain chat."""

    can_ask = False

    def __init__(self, window: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._window = window
        self._clock = clock
        self._steps = iter(DEMO_SCRIPT)
        self._started: float | None = None

    async def read_message(self, out: ChatOutput) -> str | None:
        await asyncio.sleep(0)
        if self._started is None:
            self._started = self._clock()
            out.write_line(textwrap.fill(INTRO_TEXT.format(window=self._window), 100))
        step = next(self._steps, None)
        late = self._clock() - self._started > _MAX_SECONDS
        while step is not None and late and not step.message.startswith("/"):
            step = next(self._steps, None)
        if step is None:
            return None
        if step.narration:
            out.write_line(f"\n# {step.narration}")
        out.write_line(f"> {step.message}")
        return step.message

    async def read_answer(self, out: ChatOutput, prompt: str) -> str | None:
        return None
