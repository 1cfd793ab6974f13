"""What upstreams said about their windows, kept in the data folder for the next process and for other workers."""

import time
from collections.abc import Callable
from typing import Final

from tidegate.core.errors import TidegateError
from tidegate.disk.folder import TextFolder
from tidegate.gateway.store_gate import StoreGate
from tidegate.models.errors.classification import ProviderError
from tidegate.models.window_evidence import OwnCount, WindowEvidence, WindowKey, estimate_accepted
from tidegate.store.errors import StoreUnreachable

WINDOWS_FILE: Final = "gateway-windows.json"
_REFRESH_SECONDS: Final = 10.0
"""How long a worker does not look for what others have learned."""


class UpstreamWindows:
    """The evidence about windows (`models/window_evidence.py`). The file is read and written in threads."""

    def __init__(
        self,
        folder: TextFolder,
        gate: StoreGate,
        log_line: Callable[[str], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._gate = gate
        self._log_line = log_line
        self._clock = clock
        self._evidence = WindowEvidence()
        self._read_at = 0.0

    async def find(self, key: WindowKey) -> int | None:
        """The window to plan with, if one was learned. StoreUnreachable if the store is silent."""
        now = self._clock()
        if abs(now - self._read_at) >= _REFRESH_SECONDS:
            self._read_at = now
            try:
                self._evidence.merge(await self._gate.run(lambda: self._folder.read(WINDOWS_FILE)))
            except StoreUnreachable:
                self._read_at = 0.0
                raise
            except (TidegateError, OSError) as failure:
                self._log_line(f"the learned windows cannot be read: {type(failure).__name__}")
        return self.find_known(key)

    @property
    def now(self) -> float:
        return self._clock()

    def find_known(self, key: WindowKey) -> int | None:
        """The learned window, as far as it is known without reading the file."""
        return self._evidence.find_window(key, self._clock())

    def largest_accepted(self, key: WindowKey) -> int:
        return self._evidence.largest_accepted(key, self._clock())

    def knows_words(self, key: WindowKey, words: str) -> bool:
        return self._evidence.knows_words(key, words)

    def is_fruitless(self, key: WindowKey, words: str) -> bool:
        """Whether a smaller request was refused after these words as well."""
        return self._evidence.is_fruitless(key, words)

    def note_fruitless(self, key: WindowKey, words: str) -> None:
        self._evidence.note_fruitless(key, words)

    async def take_ceiling(self, key: WindowKey, tokens: int) -> None:
        """Take note of a request that was refused without a number; the ceiling is never below what was accepted."""
        self._evidence.take_ceiling(key, max(tokens, self.largest_accepted(key)), self._clock())
        await self._store()

    async def take_words(self, key: WindowKey, words: str, ceiling: int | None) -> None:
        """Remember the words of a refusal that was about the length, and a ceiling."""
        self._evidence.take_words(key, words, self._clock())
        await (self._store() if ceiling is None else self.take_ceiling(key, ceiling))

    async def take_refusal(self, key: WindowKey, error: ProviderError, count: OwnCount) -> int | None:
        """The window that a refusal names, if it is believed."""
        now = self._clock()
        window = self._evidence.take_refusal(key, error, count, now)
        if window is not None and window == self._evidence.find_window(key, now):
            await self._store()
        return window

    async def take_accepted(self, key: WindowKey, reported: int, counted: int) -> None:
        """Take note of a request that was answered, with its size as the upstream reported and as we counted it."""
        if self._evidence.take_accepted(key, estimate_accepted(reported, counted), self._clock()):
            await self._store()

    async def _store(self) -> None:
        known = self._evidence.encode()

        def combine(text: str | None) -> str:
            evidence = WindowEvidence(text)
            evidence.merge(known)
            return evidence.encode()

        try:
            await self._gate.run(lambda: self._folder.update(WINDOWS_FILE, combine))
        except (TidegateError, OSError) as failure:
            self._log_line(f"a learned window was not stored: {type(failure).__name__}")
