"""The interface of a store: nothing acknowledged is lost, and only `rewrite` changes a record.

A store keeps the logs of many sessions as records: the bytes of one event each (`core.events.encode_event`). It does
not read them. The records of a session are numbered from 1 without gaps; that number is the event's seq.

Every backend passes `tidegate.store.conformance`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

import msgspec

from tidegate.disk.folder import TextFolder


class SessionInfo(msgspec.Struct, frozen=True):
    """`size` is what the session takes on disk, in bytes; times are seconds since the epoch."""

    name: str
    head: int
    created: float
    used: float
    size: int


class Store(Protocol):
    def append(self, session: str, after: int, records: Sequence[bytes]) -> int:
        """Append records after record `after`, all or none, and return the new head.

        When this returns they survive a power cut. `after` must be the head (0 creates the session), else StaleHead.
        """

    def read(self, session: str, start: int = 1) -> Iterator[bytes]:
        """The records from number `start` on, as they were when reading began or later. Or SessionNotFound."""

    def head(self, session: str) -> int:
        """The number of the last record; 0 if there is no such session."""

    def sessions(self) -> list[SessionInfo]:
        """All sessions, the last used first."""

    def fork(self, session: str, at: int, new: str) -> None:
        """Create a session from the first `at` records of another, in one step."""

    def delete(self, session: str, head: int | None = None) -> None:
        """Remove a whole session. With `head`, only if it still ends there, else StaleHead: someone is using it."""

    def close(self) -> None: ...


@runtime_checkable
class AsyncAppendStore(Protocol):
    """A store that commits the appends of many tasks together. With any other store, each waits in its own thread."""

    async def append_async(self, session: str, after: int, records: Sequence[bytes]) -> int:
        """As `Store.append`. After a cancellation the records may be stored: read from your head on to find out."""


@runtime_checkable
class CheckedStore(Protocol):
    """A store that can say quickly whether it can be written to."""

    def check(self) -> None:
        """Return if an append would be possible now; raise NotKept or StoreUnreachable if not, within a second."""


@runtime_checkable
class NamedStore(Protocol):
    """A store that finds sessions by the beginning of their names without listing all."""

    def list_names(self, prefix: str) -> list[str]:
        """The names of the sessions that begin with `prefix`, the last used first."""


class SessionPage(NamedTuple):
    """Some of the sessions, the last used first. `total`: how many there are."""

    sessions: list[SessionInfo]
    total: int


@runtime_checkable
class PagedStore(Protocol):
    """A store that lists some sessions without reading the others."""

    def list_page(self, first: int, count: int) -> SessionPage:
        """`count` sessions from the number `first` on, counted from 0."""


@runtime_checkable
class SharedCleanUpStore(Protocol):
    """A store that rewrites its file after a deletion, and can do so once for several deletions."""

    def clean_up_once(self) -> AbstractContextManager[None]:
        """Delay the clean-up of all deletions within this context to its end."""


@runtime_checkable
class RewritableStore(Protocol):
    """A store in which records can be replaced, as only `forget` and `doctor` do."""

    def rewrite(self, session: str, changes: Mapping[int, bytes]) -> None:
        """Replace records, all or none. The old ones are erased as far as the disk allows.

        A number outside the log is BadInput. Damaged records may be replaced, too.
        """


@runtime_checkable
class CachingStore(Protocol):
    """A store that keeps the newest records of the sessions it appended to in memory."""

    def release(self, session: str) -> None:
        """Free the memory of a session that was closed. The next append reads its newest records again."""


@runtime_checkable
class SharedStore(Protocol):
    """A store for workers on several hosts. It also holds what is in files of the data folder otherwise."""

    def open_folder(
        self, name: str, root: Path, *, max_file: int, ending: str = "", is_cached: bool = False
    ) -> TextFolder:
        """A folder of files that all hosts see. `is_cached`: copies of them are in the local folder `root`."""

    def lock_session(self, key: str) -> AbstractContextManager[bool]:
        """Lock a session against all other hosts within this context. Yields False if another one has it locked."""

    def is_session_locked(self, key: str) -> bool:
        """Whether another host has the session locked now."""


@runtime_checkable
class TenantStore(Protocol):
    """A store that keeps the sessions of several tenants apart. Its owner can act for each of them."""

    def list_other_tenants(self) -> list[str]:
        """The other tenants whose rows this store may see: all for the owner, none for a worker."""

    def open_tenant(self, tenant: str) -> Store:
        """Another store, with the rows of this tenant. BadInput if this one is not the owner's."""

    def remove_tenant(self) -> int:
        """Remove everything of this store's tenant in one step. Return the number of sessions."""


def list_names(store: Store, prefix: str) -> list[str]:
    """The names of the sessions that begin with `prefix`, the last used first."""
    if isinstance(store, NamedStore):
        return store.list_names(prefix)
    return [info.name for info in store.sessions() if info.name.startswith(prefix)]


def list_page(store: Store, first: int, count: int) -> SessionPage:
    """`count` sessions from the number `first` on, counted from 0, the last used first."""
    if isinstance(store, PagedStore):
        return store.list_page(first, count)
    infos = store.sessions()
    return SessionPage(infos[first : first + count], len(infos))
