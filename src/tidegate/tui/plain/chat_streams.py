"""Both ends of a plain chat: what is printed and what is typed."""

import os
import shlex
import sys
from typing import Protocol

from tidegate.core.text.terminal_text import clean_line
from tidegate.terminal.output import TextSanitizer
from tidegate.tui.plain.line_reader import LineReader


class ChatOutput:
    """Both streams, and whether a line is begun: what begins another must end it first."""

    def __init__(self, shown: TextSanitizer) -> None:
        self._shown = shown
        self._begun = False

    def flow(self, text: str) -> None:
        """As it is: it has passed `Shown`."""
        if text:
            self._begun = not text.endswith("\n")
            print(text, end="", flush=True)

    def line(self, text: str) -> None:
        self.end()
        self.flow(self._shown(text).rstrip("\n") + "\n")

    def end(self) -> None:
        if self._begun:
            self.flow("\n")

    def entered(self) -> None:
        """The terminal showed the line that was typed, and its end."""
        self._begun = False

    def aside(self, text: str) -> None:
        """What is not part of the conversation."""
        if sys.stdout.isatty():
            self.end()
        print(f"tidegate: {self._shown(text)}", file=sys.stderr, flush=True)


class ChatInput(Protocol):
    """Who gives messages to a plain chat, and answers its questions. None: there are no more."""

    @property
    def asks(self) -> bool:
        """Is a person there?"""

    async def message(self, out: ChatOutput) -> str | None: ...

    async def answer(self, out: ChatOutput, prompt: str) -> str | None: ...


class TypedInput:
    """What a person or a script says, as `Plain` wants it."""

    def __init__(self, lines: LineReader, *, asks: bool) -> None:
        self.asks = asks
        self._lines = lines

    async def message(self, out: ChatOutput) -> str | None:
        if self.asks:
            out.flow("> ")
        said = await self._lines.message()
        if self.asks:
            out.entered() if said is not None else out.end()
        return said

    async def answer(self, out: ChatOutput, prompt: str) -> str | None:
        out.flow(prompt)
        said = await self._lines.fresh()
        out.entered() if said is not None else out.end()
        return said


def has_interactive_terminal() -> bool:
    streams = (sys.stdin, sys.stdout)
    return all(each is not None and each.isatty() for each in streams) and os.environ.get("TERM") != "dumb"


def format_resume_hint(session: str) -> str:
    """The last line of a chat."""
    name = clean_line(session)
    which = f"--session {shlex.quote(name)}" if name == session else "--last"  # what cannot be seen cannot be typed
    return f"session {name}: go on with `tidegate chat {which}`"
