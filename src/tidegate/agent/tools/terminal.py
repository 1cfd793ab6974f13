"""What a process wrote, as it would stand on a screen: a progress bar costs its last state.

The emulator is pyte. Most output needs none: colours leave no trace in a text, and a carriage return among plain
characters is a simple matter. Lines are brought to that form as they come, so that only the rest, from the first line
on that moves a cursor, goes through the emulator, which is exact and slow.
"""

import codecs
import re
from collections import deque
from typing import Any
from unicodedata import combining

import pyte
from pyte.screens import wcwidth

from tidegate.agent.tools.tool import MAX_STREAM, last_bytes

COLUMNS, ROWS = 4096, 50
KEEP = 1 << 20
"""Characters that are held. A screen forgets what scrolled away; this much is more than a result may have."""
_LONG_LINE = 1 << 13
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]")
_MOVES = re.compile(r"[\x00-\x0c\x0e-\x1f\x7f]")
"""What else than a carriage return keeps a line from being overwritten by simple means. A tab moves, too."""


class Terminal:
    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._pieces: deque[str] = deque()
        self._held = 0
        self._rest = ""
        self._continued = False
        self.dropped = 0

    def feed(self, data: bytes) -> None:
        lines = (self._rest + self._decode(data)).split("\n")
        self._rest = lines.pop()
        for line in lines:
            self._hold(self._done(line) + "\n")
            self._continued = False
        if len(self._rest) > _LONG_LINE:
            self._shorten()

    def _done(self, line: str) -> str:
        """The end of a line whose beginning is held already may write over that: the emulator's to say."""
        return line.rstrip("\r") if self._continued else settled(line)

    def _shorten(self) -> None:
        """A line that does not end: if it is a progress bar it becomes short, else it is held in pieces."""
        *before, last = self._rest.split("\r")
        done = settled("\r".join(before))
        if before and not self._continued and not _CONTROL.search(done):
            self._rest = f"{done}\r{last}"
        if len(self._rest) > _LONG_LINE:
            self._hold(self._rest)
            self._rest, self._continued = "", True

    def _hold(self, piece: str) -> None:
        self._pieces.append(piece)
        self._held += len(piece)
        while self._held > KEEP and len(self._pieces) > 1:
            gone = self._pieces.popleft()
            self._held -= len(gone)
            self.dropped += len(gone.encode("utf-8", "replace"))

    def text(self) -> str:
        whole = "".join(self._pieces) + self._done(self._rest + self._decode(b"", True))
        first = _CONTROL.search(whole)
        if first is not None:
            start = first.start()
            for _ in range(ROWS):  # a cursor goes up no further than the screen
                start = whole.rfind("\n", 0, max(start, 0))
            whole = whole[: start + 1] + emulated(whole[start + 1 :])
        return last_bytes(whole.rstrip(), MAX_STREAM, before=self.dropped)


def settled(line: str) -> str:
    """A line without colours and, where no cursor moves in it, as its last carriage return left it."""
    if "\x1b" in line:
        line = _COLOUR.sub("", line)
    if "\r" not in line:
        return line
    line = line.rstrip("\r")
    if not line.isascii() or _MOVES.search(line):
        return line
    done = ""
    for piece in line.split("\r"):
        done = piece + done[len(piece) :]
    return done


class _Screen(pyte.Screen):
    """Only text matters, so erased cells go instead of being filled with blanks: a wide screen costs nothing.

    A pipe has no driver that makes two characters of a line end, so every line feed returns to the first column.
    """

    def __init__(self) -> None:
        self.scrolled: list[str] = []
        super().__init__(COLUMNS, ROWS)

    def draw(self, data: str) -> None:
        """As pyte draws, but a joiner or a selector, which pyte takes for the end of the text, is left out."""
        super().draw(data if data.isascii() else "".join(char for char in data if _drawable(char)))

    def linefeed(self) -> None:
        self.index()
        self.carriage_return()

    def index(self) -> None:
        top, bottom = self.margins or (0, self.lines - 1)
        if self.cursor.y == bottom and top == 0:
            self.scrolled.append(self.row(0))
        super().index()

    def erase_in_line(self, how: int = 0, private: bool = False) -> None:
        line, at = self.buffer[self.cursor.y], self.cursor.x
        for x in [x for x in line if how == 2 or (how == 0 and x >= at) or (how == 1 and x <= at)]:
            del line[x]

    def erase_in_display(self, how: int = 0, *args: Any, **kwargs: Any) -> None:
        if how in (0, 1, 2, 3):
            super().erase_in_display(how, *args, **kwargs)

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        """A program that asks for another width does not get it."""

    def row(self, y: int) -> str:
        line = self.buffer[y]
        return "".join(line[x].data for x in range(max(line, default=-1) + 1)).rstrip()

    def text(self) -> str:
        rows = [self.row(y) for y in range(self.lines)]
        return "\n".join([*self.scrolled, *rows]).rstrip()


def _drawable(char: str) -> bool:
    return wcwidth(char) > 0 or combining(char) > 0


def emulated(text: str) -> str:
    screen = _Screen()
    try:
        pyte.Stream(screen).feed(text)
    except Exception:  # noqa: BLE001 - some sequences are not in its tables; the text is worth more than the form
        return _CONTROL.sub("", _SEQUENCE.sub("", text))
    return screen.text()
