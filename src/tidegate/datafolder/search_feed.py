"""Keeps the full-text index up to date while sessions grow, so that a search need not read what was added since.

Nothing is indexed where nobody has searched yet: the first search, or `tidegate memory index`, makes the index. From
then on a thread of its own adds what is new, a moment after it was appended. If that fails, the next search does it.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic

from tidegate.core.errors import TidegateError

_PAUSE = 1.0
"""Seconds between two looks: the events of a moment are indexed together."""


class SearchFeed:
    """`index` adds what is new in a session. `may_exist` is asked at events until there is an index, and must be quick;
    `is_wanted` is asked by the thread.
    """

    def __init__(
        self,
        index: Callable[[str], None],
        may_exist: Callable[[], bool],
        is_wanted: Callable[[], bool],
        *,
        pause: float = _PAUSE,
    ) -> None:
        self._index, self._may_exist, self._is_wanted, self._pause = index, may_exist, is_wanted, pause
        self._lock = threading.Lock()
        self._indexing = threading.Lock()
        self._grown: set[str] = set()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._next_look = 0.0

    def look_again(self) -> None:
        """There may be an index now."""
        self._next_look = 0.0

    def _may_begin(self) -> bool:
        """Whether an index may exist. Another process may make one: that is noticed within the pause."""
        now = monotonic()
        if now < self._next_look:
            return False
        self._next_look = now + self._pause
        return self._may_exist()

    def add(self, name: str, event: object = None) -> None:
        """Note that a session has grown, as with this `event`."""
        if self._thread is None and not self._may_begin():
            return
        with self._lock:
            self._grown.add(name)
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._run, name="tidegate-search", daemon=True)
                self._thread.start()
        self._wake.set()

    def finish(self, name: str) -> None:
        """Index what is left of a session. The thread does not touch it after this, until it is added again."""
        with self._indexing:
            with self._lock:
                is_left = name in self._grown
                self._grown.discard(name)
            if is_left:
                self._index_quietly([name])

    def close(self) -> None:
        """Stop the thread. What is left is indexed by the next search."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait()
            if self._stop.wait(self._pause):
                return
            self._wake.clear()
            with self._indexing:
                with self._lock:
                    names, self._grown = sorted(self._grown), set()
                self._index_quietly(names)

    def _index_quietly(self, names: Sequence[str]) -> None:
        with suppress(TidegateError):
            if self._is_wanted():
                for name in names:
                    self._index(name)
