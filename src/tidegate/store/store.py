"""What a store promises: nothing acknowledged is ever lost, and nothing is ever rewritten.

A store keeps the logs of many sessions as records: the bytes of one event each (`core.events.encode`). It knows nothing
of what is in them. Records of a session are numbered from 1 without gaps; that number is the event's seq.

Every backend passes `tidegate.store.conformance`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

import msgspec


class SessionInfo(msgspec.Struct, frozen=True):
    """`size` is what the session takes on disk, in bytes; times are seconds since the epoch."""

    name: str
    head: int
    created: float
    used: float
    size: int


class Store(Protocol):
    def append(self, session: str, after: int, records: Sequence[bytes]) -> int:
        """Append records behind record `after`, all or none, and give the new head.

        When this returns they survive a power cut. `after` must be the head (0 makes the session), else Stale.
        """

    def read(self, session: str, start: int = 1) -> Iterator[bytes]:
        """The records from number `start` on, as they were when reading began or later; Missing if there is none."""

    def head(self, session: str) -> int:
        """The number of the last record; 0 if there is no such session."""

    def sessions(self) -> list[SessionInfo]:
        """All sessions, the last used first."""

    def fork(self, session: str, at: int, new: str) -> None:
        """A new session whose records are the first `at` of another, made in one step."""

    def delete(self, session: str, head: int | None = None) -> None:
        """Remove a session whole. With `head`, only if it still ends there, else Stale: someone is using it."""

    def close(self) -> None: ...


@runtime_checkable
class AsyncAppendStore(Protocol):
    """A store in which the appends of many tasks go together. Of any other, each waits in a thread of its own."""

    async def append_async(self, session: str, after: int, records: Sequence[bytes]) -> int:
        """As `Store.append`. Cancelled, it may have been done all the same: read on from your head to see."""


@runtime_checkable
class SharedCleanUpStore(Protocol):
    """A store that rewrites its file after a deletion, and can do so once for several deletions."""

    def clean_up_once(self) -> AbstractContextManager[None]:
        """Delay the clean-up of all deletions within this context to its end."""


@runtime_checkable
class RewritableStore(Protocol):
    """A store in which records can be replaced, as only `forget` and `doctor` do."""

    def rewrite(self, session: str, changes: Mapping[int, bytes]) -> None:
        """Put other records in the place of some, all or none. What stood there is gone, as far as the disk allows.

        A number outside the log is BadInput. Records that are damaged may be put in order so.
        """
