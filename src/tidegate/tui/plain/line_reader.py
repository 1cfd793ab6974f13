"""Lines from a pipe, a file or a terminal, without a thread: a wait for one can be given up at any time."""

import asyncio
import os
import select
from typing import Final

_CHUNK_BYTES: Final = 65_536


class LineReader:
    """`fd` is read only while someone waits for a line: what is not read yet stays for others, or in the terminal."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._read = b""
        self._over = fd < 0

    async def message(self) -> str | None:
        """One message: a line, and as long as one ends with a backslash, the next. None: there are no more."""
        lines: list[str] = []
        while (line := await self.line()) is not None:
            slashes = len(line) - len(line.rstrip("\\"))
            if slashes % 2 == 0:
                return "\n".join([*lines, line])
            lines.append(line[:-1])
        return "\n".join(lines) if lines else None

    async def line(self) -> str | None:
        while b"\n" not in self._read and not self._over:
            await self._readable()
            self._more()
        if not self._read:
            return None
        line, _, self._read = self._read.partition(b"\n")
        return line.decode("utf-8", "replace").removesuffix("\r")

    async def fresh(self) -> str | None:
        """A line that is typed from now on: an answer to a question must not be what was typed before it."""
        while not self._over and select.select([self._fd], [], [], 0)[0]:
            self._more()
        before, self._read = self._read, b""
        try:
            return await self.line()
        finally:
            self._read = before + self._read

    def _more(self) -> None:
        try:
            read = os.read(self._fd, _CHUNK_BYTES)
        except OSError:  # the terminal has gone
            read = b""
        self._read += read
        self._over = not read

    async def _readable(self) -> None:
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        try:
            loop.add_reader(self._fd, ready.set)
        except (OSError, ValueError):  # a file on disk cannot be waited for and need not be
            return
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._fd)
