"""The screen on which output with cursor movements is drawn.

It is a separate module, because importing pyte takes a while and most output does not need it.
"""

from typing import Any
from unicodedata import combining

import pyte
from pyte.screens import wcwidth

_COLUMNS = 4096


class _Screen(pyte.Screen):
    """A screen that keeps only text. Erased cells are deleted, not filled with blanks, so a wide screen costs nothing.

    There is no terminal driver that adds a carriage return to a line feed, so every line feed returns to column one.
    """

    def __init__(self, rows: int) -> None:
        self.scrolled: list[str] = []
        super().__init__(_COLUMNS, rows)

    def draw(self, data: str) -> None:
        """Draw as pyte does, but leave out joiners and selectors, at which pyte would stop."""
        super().draw(data if data.isascii() else "".join(char for char in data if _is_drawable(char)))

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
        """Ignore a program that asks for another width."""

    def row(self, y: int) -> str:
        line = self.buffer[y]
        return "".join(line[x].data for x in range(max(line, default=-1) + 1)).rstrip()

    def text(self) -> str:
        rows = [self.row(y) for y in range(self.lines)]
        return "\n".join([*self.scrolled, *rows]).rstrip()


def _is_drawable(char: str) -> bool:
    return wcwidth(char) > 0 or combining(char) > 0


def draw_screen(text: str, rows: int) -> str:
    screen = _Screen(rows)
    pyte.Stream(screen).feed(text)
    return screen.text()
