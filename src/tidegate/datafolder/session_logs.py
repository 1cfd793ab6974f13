"""The logs of a data folder, and which of them are open: what a list of the sessions needs. It loads quickly."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from tidegate.core.text.secrets import SecretMask, keys_of
from tidegate.datafolder.locks import SessionLocks
from tidegate.disk.folder import Folder, TextFolder
from tidegate.store.blobs import Blobs
from tidegate.store.open import open_store
from tidegate.store.session_log import KeptLog
from tidegate.store.store import SharedStore, Store

_MAX_WORKSPACE_BYTES = 100_000
_MAX_SEARCHED_BYTES = 8 * 1024 * 1024
"""Bytes of a record that is searched for secrets before it is put into a blob."""


class SessionLogs:
    """The store of a data folder with its locks, its large records and the mask for secrets.

    `store` is another place for the logs, for example the URL of a database. Large records then stay in the logs, where
    other hosts can read them, and `blobs` is None.

    `secrets` are values that are masked everywhere but in the logs. The default is the API keys in the environment.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        store: str | Store = "",
        secrets: list[str] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.root = Path(folder)
        self.clock = clock
        self.store: Store = open_store(store or self.root, clock) if isinstance(store, str) else store
        self.mask = SecretMask(keys_of(os.environ) if secrets is None else secrets)
        self.blobs = None if store else Blobs(self.root / "blobs", has_secret=self._has_secret)
        self.locks = SessionLocks(self.root / "locks", self.store if isinstance(self.store, SharedStore) else None)

    def _has_secret(self, record: bytes) -> bool:
        """Whether a record holds a secret. One that is too long to be searched counts as if it did."""
        if len(record) > _MAX_SEARCHED_BYTES:
            return True
        text = record.decode("utf-8", "ignore")
        return self.mask(text) != text

    def open_log(self, name: str) -> KeptLog:
        """Return the log of a session, empty if there is none."""
        return KeptLog(self.store, name, self.blobs)

    @property
    def workspaces(self) -> TextFolder:
        """Where each session was last used (`datafolder/workspaces.py`)."""
        path = self.root / "workspaces"
        if isinstance(self.store, SharedStore):
            return self.store.open_folder("workspaces", path, max_file=_MAX_WORKSPACE_BYTES, ending="", is_cached=False)
        return Folder(path, max_file=_MAX_WORKSPACE_BYTES, ending="")

    def close(self) -> None:
        """Close the store. Sessions that are still open can no longer be read."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class LogSource(Protocol):
    """What the title of a session is read from: `SessionLogs`, or the contents of a data folder."""

    mask: SecretMask
    store: Store
    blobs: Blobs | None
