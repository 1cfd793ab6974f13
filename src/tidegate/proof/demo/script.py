"""The script of the demonstration: its messages and the narration."""

import asyncio
import textwrap
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from tidegate.tui.plain.chat_streams import ChatOutput

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


class GuideScript(NamedTuple):
    """What a demonstration says: the introduction, its steps, and the text when the user takes over or it ends."""

    intro: str
    steps: Iterable[DemoStep]


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


_PAGE: Final = DEMO_SCRIPT[3].message.replace("second", "next")
_PAGE_TOKENS: Final = 100
_MAX_MORE_PAGES: Final = 12


def list_steps(window: int, has_compacted: Callable[[], bool]) -> Iterator[DemoStep]:
    """The steps in order. If the pages have not filled a large window, more follow, each a third of it."""
    for step in DEMO_SCRIPT:
        more = _MAX_MORE_PAGES if step.message.startswith("/recall") else 0
        while more and not has_compacted():
            yield DemoStep(" ".join([_PAGE] * max(1, window // 3 // _PAGE_TOKENS)), "The window is not full yet.")
            more -= 1
        yield step


def make_demo_script(window: int, has_compacted: Callable[[], bool]) -> GuideScript:
    return GuideScript(INTRO_TEXT.format(window=window), list_steps(window, has_compacted))


class ScriptedInput:
    """The script as the input of a plain chat."""

    can_ask = False

    def __init__(self, script: GuideScript) -> None:
        self._intro = script.intro
        self._steps = iter(script.steps)
        self._has_started = False

    async def read_message(self, out: ChatOutput) -> str | None:
        await asyncio.sleep(0)
        if not self._has_started:
            self._has_started = True
            out.write_line(textwrap.fill(self._intro, 100))
        step = next(self._steps, None)
        if step is None:
            return None
        if step.narration:
            out.write_line(f"\n# {step.narration}")
        out.write_line(f"> {step.message}")
        return step.message

    async def read_answer(self, out: ChatOutput, prompt: str) -> str | None:
        return None
