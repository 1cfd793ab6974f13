"""The contents of a data folder: where each kind of data is and how to reach it.

Removal, retention, `forget`, the archive and the doctor work on this. `DataFolder` adds how sessions are opened.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from tidegate.core.errors import BadInput
from tidegate.datafolder.recall_files import RecallFile
from tidegate.datafolder.search_feed import SearchFeed
from tidegate.datafolder.session_logs import SessionLogs
from tidegate.datafolder.shared_index import open_shared_index
from tidegate.datafolder.snapshots import Snapshots
from tidegate.disk.atomic_files import sync_folder
from tidegate.disk.folder import Folder, TextFolder, session_file_key
from tidegate.memory.log_lines import LogLine, extract_log_lines
from tidegate.memory.notes import MAX_NOTE_BYTES, Notes
from tidegate.memory.search import Search
from tidegate.session.recall_index import RecallIndex
from tidegate.store.errors import DamagedData
from tidegate.store.session_log import KeptLog
from tidegate.store.store import SharedStore, Store
from tidegate.wire.parsing import repair_unicode

_MAX_RECALL_INDICES = 4
_MAX_FILE_BYTES = 64 * 1024 * 1024
_MAX_STATE_BYTES = 256 * 1024 * 1024


class FolderContents:
    """The stores and folders inside a data folder.

    See `SessionLogs` for the options. If the store is a `SharedStore` (PostgreSQL), notes, marks, spending, learned
    windows, the files of sessions and the search index are there too: the folder holds only caches.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        store: str | Store = "",
        secrets: list[str] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._logs = SessionLogs(folder, store=store, secrets=secrets, clock=clock)
        self.root, self.clock, self.store = self._logs.root, clock, self._logs.store
        self._is_shared = isinstance(self.store, SharedStore)  # this takes long, and each event asks for it
        self._search_path = os.path.join(self.root, "search.db")
        self.mask, self.blobs, self.locks = self._logs.mask, self._logs.blobs, self._logs.locks
        self.notes = Notes(
            self._open_folder("memory", max_file=MAX_NOTE_BYTES, ending=".md"), mask=self.mask, clock=clock
        )
        self.snapshots = Snapshots(self.root / "views", self.mask)
        self.retention_folder = self._open_folder("retention", max_file=10_000)
        self.workspaces = self._logs.workspaces
        self.unfinished_folder = self._open_folder("unfinished", max_file=_MAX_FILE_BYTES)
        self.spending_folder = self._open_folder("spend", max_file=10_000)
        self.state_folder = self._open_folder("", max_file=_MAX_STATE_BYTES)
        """Single files: the removed sessions and the learned windows."""
        self.preferences = Folder(self.root / "preferences", max_file=1_000)
        self._search: Search | None = None
        self._is_searched = False
        may_exist = self._may_have_index if self._is_shared else partial(os.path.exists, self._search_path)
        self.search_feed = SearchFeed(self._index_session, may_exist, self._has_index)
        self._recall_indices: dict[str, RecallIndex] = {}

    def _open_folder(self, name: str, *, max_file: int, ending: str = "", is_cached: bool = False) -> TextFolder:
        if isinstance(self.store, SharedStore):
            return self.store.open_folder(name, self.root / name, max_file=max_file, ending=ending, is_cached=is_cached)
        return Folder(self.root / name, max_file=max_file, ending=ending)

    def check_new(self, name: str) -> None:
        """BadInput if the name of a new session contains a secret: its files are named after it."""
        if self.mask(name) != name and not self.store.head(name):
            raise BadInput(
                "The name of this session contains a secret.",
                "Use another name: the session's files are named after it.",
            )

    def open_log(self, name: str) -> KeptLog:
        """Return the log of a session, empty if there is none."""
        return KeptLog(self.store, name, self.blobs)

    def recall_index(self, name: str) -> RecallIndex:
        """Return the index for recall from the log of a session. The last ones that were used stay in memory."""
        log, cached = self.open_log(name), self._recall_indices.pop(name, None)
        index = cached or RecallIndex(log)
        index.log = log
        if cached is None:
            index.save_to(self.recall_file(name), self.mask)
        self._recall_indices[name] = index
        for oldest in list(self._recall_indices)[:-_MAX_RECALL_INDICES]:
            self._recall_indices.pop(oldest, None)
        return index

    def recall_file(self, name: str) -> RecallFile:
        """Return the file with the recall index of a session."""
        path = self.root / "recall" / session_file_key(name)
        return RecallFile(path, name, self.locks, lambda: self.open_log(name))

    def session_files(self, name: str) -> TextFolder:
        """The folder with the plain files of a session. The view refers to them by their names in it."""
        return self._open_folder(f"sessions/{session_file_key(name)}", max_file=_MAX_FILE_BYTES, is_cached=True)

    def trace_path(self, name: str) -> Path:
        """Return the file with the trace of a session."""
        return self.root / f"traces/{session_file_key(name)}.jsonl"

    def remove_snapshot(self, name: str) -> None:
        """Remove the snapshot and the recall index of a session durably: a power cut must not bring them back."""
        self.snapshots.remove(session_file_key(name))
        self.recall_file(name).remove()
        for folder in (self.root / "views", self.root / "recall"):
            if folder.is_dir():
                sync_folder(folder)

    def open_search(self) -> Search:
        """Search over the notes and all logs. It is brought up to date by each query."""
        self.search_feed.look_again()
        if self._search is None:
            shared = open_shared_index(self.store)
            path = None if shared else self.root / "search.db"
            self._search = Search(self.notes, self._read_log_lines, path=path, index=shared, mask=self.mask)
        return self._search

    def open_existing_search(self) -> Search | None:
        """The search index, or None if there is none: it is not created only to remove something from it."""
        return self.open_search() if self._may_have_index() else None

    def _may_have_index(self) -> bool:
        return self._is_shared or os.path.exists(self._search_path)

    def count_unindexed_events(self) -> int:
        """How many events of all logs a search would have to index first."""
        heads = self.open_search().indexed_heads()
        return sum(max(0, info.head - heads.get(repair_unicode(info.name), 0)) for info in self.store.sessions())

    def _has_index(self) -> bool:
        search = None if self._is_searched else self.open_existing_search()
        self._is_searched = self._is_searched or (search is not None and bool(search.indexed_heads()))
        return self._is_searched

    def _index_session(self, name: str) -> None:
        self.open_search().index_session(
            name, lambda known: self._read_session_lines(name, self.store.head(name), known)
        )

    def _read_log_lines(self, read_to: Callable[[str], int]) -> Iterator[LogLine]:
        for info in self.store.sessions():
            yield from self._read_session_lines(info.name, info.head, read_to(info.name))

    def _read_session_lines(self, name: str, head: int, last_indexed: int) -> Iterator[LogLine]:
        if last_indexed > head:  # the session was removed, and another was made with its name
            yield LogLine(name, 0, "", reindex=True)
            last_indexed = 0
        if last_indexed < head:
            with suppress(DamagedData):  # the other sessions are still found; `doctor` reports this one
                yield from extract_log_lines(name, self.open_log(name).read(last_indexed + 1))

    def close_search(self) -> None:
        """Close the full-text index; `open_search` opens it again."""
        self._is_searched = False
        if self._search is not None:
            self._search.close()
            self._search = None

    def close(self) -> None:
        """Close the store and the index. Sessions that are still open can no longer be read."""
        self.search_feed.close()
        self.close_search()
        self._logs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
