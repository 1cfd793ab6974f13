"""The output and the input of a plain chat."""

import os
import shlex
import sys
from collections.abc import Sequence
from typing import Final, Protocol

from tidegate.core.text.terminal_text import clean_line
from tidegate.terminal.output import TextSanitizer
from tidegate.tui.plain.line_reader import LineReader


class ChatOutput:
    """Standard output and standard error, and whether a line is unfinished: it is ended before another begins."""

    def __init__(self, sanitizer: TextSanitizer) -> None:
        self._sanitizer = sanitizer
        self._in_line = False

    def write(self, text: str) -> None:
        """Write text that is already sanitized."""
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
        """Note that the terminal echoed the typed line with its end."""
        self._in_line = False

    def write_notice(self, text: str) -> None:
        """Write a line that is not part of the conversation."""
        if sys.stdout.isatty():
            self.end_line()
        print(f"tidegate: {self._sanitizer(text)}", file=sys.stderr, flush=True)


class ChatInput(Protocol):
    """Where a plain chat gets messages and answers from. None means that there are no more."""

    @property
    def can_ask(self) -> bool:
        """Whether a person can answer questions."""

    async def read_message(self, out: ChatOutput) -> str | None: ...

    async def read_answer(self, out: ChatOutput, prompt: str) -> str | None: ...


class TypedInput:
    """The lines that a person or a script types."""

    def __init__(self, lines: LineReader, *, asks: bool) -> None:
        self.can_ask = asks
        self._reader = lines

    async def read_message(self, out: ChatOutput) -> str | None:
        if self.can_ask:
            out.write("> ")
        line = await self._reader.read_message()
        if self.can_ask:
            out.mark_line_ended() if line is not None else out.end_line()
        return line

    async def read_answer(self, out: ChatOutput, prompt: str) -> str | None:
        out.write(prompt)
        line = await self._reader.read_new_line()
        out.mark_line_ended() if line is not None else out.end_line()
        return line


def can_ask_user() -> bool:
    """Whether a person can be asked before the chat begins."""
    return all(each is not None and each.isatty() for each in (sys.stdin, sys.stdout))


def has_interactive_terminal() -> bool:
    return can_ask_user() and os.environ.get("TERM") != "dumb"


NOTHING_KEPT_TEXT: Final = "Nothing was said, so no session is kept."


def format_resume_hint(session: str, options: Sequence[str] = ()) -> str:
    """Return the end of a chat: how to continue it. The command has a line of its own, so that it can be copied.

    `options` are those of the chat that are needed again. The session itself knows its model.
    """
    name = clean_line(session)
    which = ["--session", name] if name == session else ["--last"]  # invisible characters cannot be typed
    command = shlex.join(["tidegate", "chat", *which, *map(clean_line, options)])
    return f"Session {name} is kept. To continue it:\n  {command}"
