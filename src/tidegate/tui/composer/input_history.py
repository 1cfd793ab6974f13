"""The inputs typed before.

They are read from the logs in the data folder and stored nowhere else, so what is forgotten there is forgotten here,
too. Commands are remembered until the app ends.
"""

import threading
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from tidegate.core.errors import TidegateError
from tidegate.core.events import MessageAdded
from tidegate.core.messages import MENTIONED_FILE, Text, is_user_request
from tidegate.datafolder.data_folder import DataFolder
from tidegate.store.log import Log

_BATCH_EVENTS: Final = 64
_MAX_ENTRIES: Final = 500
_MAX_SESSIONS: Final = 20


class EarlierInput(NamedTuple):
    """A message of the user and its place in the log."""

    seq: int
    text: str


class InputHistory:
    """Steps back and forth from the current input. Nothing is read before the first step.

    A search reads in another thread, so reading is locked.
    """

    def __init__(self, data: DataFolder, session: str) -> None:
        self._unread = _read_inputs(data, session)
        self._reading = threading.Lock()
        self._entries: list[str] = []
        self._position = 0
        self._draft = ""

    def add(self, text: str) -> None:
        if not self._entries or self._entries[0] != text:
            self._entries.insert(0, text)
        self._position = 0

    def older(self, draft: str) -> str | None:
        if not self._position:
            self._draft = draft
        while self._position >= len(self._entries) and self._read_next():
            pass
        if self._position >= len(self._entries):
            return None
        self._position += 1
        return self._entries[self._position - 1]

    def _read_next(self) -> bool:
        """Read one more input from the logs. Return whether there may be others."""
        with self._reading:
            text = next(self._unread, None) if len(self._entries) < _MAX_ENTRIES else None
            if text is not None and text not in self._entries:
                self._entries.append(text)
        return text is not None

    def search(self, words: str) -> list[str]:
        """Return the inputs that contain all these words, newest first. It reads logs: call it in another thread."""
        while self._read_next():
            pass
        query_words = words.casefold().split()
        return [text for text in list(self._entries) if all(word in text.casefold() for word in query_words)]

    def newer(self) -> str | None:
        if not self._position:
            return None
        self._position -= 1
        return self._entries[self._position - 1] if self._position else self._draft

    def reset(self) -> None:
        """Restart at the newest input: something else was typed."""
        self._position = 0


def _read_inputs(data: DataFolder, session: str) -> Iterator[str]:
    """Yield the inputs of this session, newest first, then those of the sessions used last."""
    others = [info.name for info in data.store.sessions() if info.name != session and ".task-" not in info.name]
    for name in (session, *others[:_MAX_SESSIONS]):
        try:
            yield from (each.text for each in read_inputs_backwards(data.open_log(name)))
        except TidegateError:  # a damaged log does not hide the others
            continue


def read_inputs_backwards(log: Log) -> Iterator[EarlierInput]:
    """Yield the messages of the user in a log, newest first."""
    end = log.head
    while end > 0:
        start = max(0, end - _BATCH_EVENTS)
        for event in reversed(list(islice(log.read(start + 1), end - start))):
            if isinstance(event.payload, MessageAdded) and is_user_request(event.payload.message):
                parts = event.payload.message.parts
                texts = [part.text for part in parts if isinstance(part, Text)]
                typed_text = "\n".join(text for text in texts if not text.startswith(MENTIONED_FILE))
                if typed_text:
                    yield EarlierInput(event.seq, typed_text)
        end = start
