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
        self._sanitizer = shown
        self._in_line = False

    def write(self, text: str) -> None:
        """As it is: it has passed `Shown`."""
        if text:
            self._in_line = not text.endswith("\n")
            print(text, end="", flush=True)

    def write_line(self, text: str) -> None:
        self.end_line()
        self.write(self._sanitizer(text).rstrip("\n") + "\n")

    def end_line(self) -> None:
        if self._in_line:
            self.write("\n")

    def mark_line_ended(self) -> None:
        """The terminal showed the line that was typed, and its end."""
        self._in_line = False

    def write_notice(self, text: str) -> None:
        """What is not part of the conversation."""
        if sys.stdout.isatty():
            self.end_line()
        print(f"tidegate: {self._sanitizer(text)}", file=sys.stderr, flush=True)


class ChatInput(Protocol):
    """Who gives messages to a plain chat, and answers its questions. None: there are no more."""

    @property
    def can_ask(self) -> bool:
        """Is a person there?"""

    async def read_message(self, out: ChatOutput) -> str | None: ...

    async def read_answer(self, out: ChatOutput, prompt: str) -> str | None: ...


class TypedInput:
    """What a person or a script says, as `Plain` wants it."""

    def __init__(self, lines: LineReader, *, asks: bool) -> None:
        self.can_ask = asks
        self._reader = lines

    async def read_message(self, out: ChatOutput) -> str | None:
        if self.can_ask:
            out.write("> ")
        said = await self._reader.read_message()
        if self.can_ask:
            out.mark_line_ended() if said is not None else out.end_line()
        return said

    async def read_answer(self, out: ChatOutput, prompt: str) -> str | None:
        out.write(prompt)
        said = await self._reader.read_new_line()
        out.mark_line_ended() if said is not None else out.end_line()
        return said


def has_interactive_terminal() -> bool:
    streams = (sys.stdin, sys.stdout)
    return all(each is not None and each.isatty() for each in streams) and os.environ.get("TERM") != "dumb"


def format_resume_hint(session: str) -> str:
    """The last line of a chat."""
    name = clean_line(session)
    which = f"--session {shlex.quote(name)}" if name == session else "--last"  # what cannot be seen cannot be typed
    return f"session {name}: go on with `tidegate chat {which}`"
