"""Reads lines from a pipe, a file or a terminal without a thread, so that waiting can be canceled at any time."""

import asyncio
import os
import select
from typing import Final

_CHUNK_BYTES: Final = 65_536


class LineReader:
    """Reads `fd` only while a line is awaited: unread input stays for other programs, or in the terminal."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._buffer = b""
        self._at_end = fd < 0

    async def read_message(self) -> str | None:
        """Return one message: a line, joined with the next while it ends with a backslash. None: there are no more."""
        lines: list[str] = []
        while (line := await self.read_line()) is not None:
            slashes = len(line) - len(line.rstrip("\\"))
            if slashes % 2 == 0:
                return "\n".join([*lines, line])
            lines.append(line[:-1])
        return "\n".join(lines) if lines else None

    async def read_line(self) -> str | None:
        while b"\n" not in self._buffer and not self._at_end:
            await self._wait_until_readable()
            self._read_chunk()
        if not self._buffer:
            return None
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode("utf-8", "replace").removesuffix("\r")

    async def read_new_line(self) -> str | None:
        """Return a line typed from now on: input from before a question must not answer it."""
        while not self._at_end and select.select([self._fd], [], [], 0)[0]:
            self._read_chunk()
        before, self._buffer = self._buffer, b""
        try:
            return await self.read_line()
        finally:
            self._buffer = before + self._buffer

    def _read_chunk(self) -> None:
        try:
            read = os.read(self._fd, _CHUNK_BYTES)
        except OSError:  # the terminal has gone
            read = b""
        self._buffer += read
        self._at_end = not read

    async def _wait_until_readable(self) -> None:
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        try:
            loop.add_reader(self._fd, ready.set)
        except (OSError, ValueError):  # a file on disk cannot be waited for and need not be
            return
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._fd)
