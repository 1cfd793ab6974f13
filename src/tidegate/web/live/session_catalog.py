"""The sessions of a gateway for its page: the list with its figures, the tree of sub-agents, the index of one session.

A look at the list reads a bounded number of events. Rows whose figures are not complete then say so, and the page asks
again. What was read is kept, so later looks cost the events that were added since.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from tidegate.core.errors import TidegateError
from tidegate.core.notes import ParentSession, read_note
from tidegate.datafolder.data_folder import DataFolder
from tidegate.datafolder.session_names import read_session_title
from tidegate.datafolder.session_use import find_session_use
from tidegate.models.catalog import ModelInfo
from tidegate.session.shared_timeline import name_client
from tidegate.store.store import SessionInfo
from tidegate.web.live.session_figures import FiguresReader, FindWindow, SessionFigures
from tidegate.web.live.session_index import SessionIndex
from tidegate.web.request_history import RequestReader, RequestRecord

PAGE_ROWS: Final = 25
MAX_CHILDREN: Final = 10
"""Sub-agents that the list shows below a session. The page of the session has all of them."""
MAX_TREE: Final = 300
_EVENTS_PER_LOOK: Final = 6_000
_MAX_READERS: Final = 600
_MAX_INDEXES: Final = 8
_PARENT_EVENTS: Final = 4
"""The note about the parent is among the first events of a session."""
_FIRST_EVENTS: Final = 8
"""The note about the model is among them, unless the model was changed later."""
_NEWEST_EVENTS: Final = 700


class SessionRow(msgspec.Struct, frozen=True):
    """A session in the list. `depth` is how many agents are above it; `is_read`: the figures are complete.

    `title` are the first words of its first request; `folder` is where its client ran, if that is known.
    """

    name: str
    title: str
    folder: str
    client: str
    depth: int
    head: int
    created: float
    used: float
    is_running: bool
    is_read: bool
    figures: SessionFigures


class SessionList(msgspec.Struct, frozen=True):
    """One page of the list. `total` counts the sessions, `roots` those that are not sub-agents."""

    rows: list[SessionRow]
    page: int
    pages: int
    total: int
    roots: int
    is_read: bool


class NewestRequests(NamedTuple):
    """The end of a log. Only `model`, `dialect`, `window` and `filled` of the figures are those of the session."""

    requests: list[RequestRecord]
    figures: SessionFigures


class _ReaderEntry(NamedTuple):
    created: float
    reader: FiguresReader


class _TitleEntry(NamedTuple):
    created: float
    title: str


class _IndexEntry(NamedTuple):
    created: float
    session: SessionIndex


class SessionCatalog:
    """Thread-safe: one look at a time."""

    def __init__(
        self, data: DataFolder, find_window: FindWindow, prices: Mapping[str, ModelInfo] | None = None
    ) -> None:
        self._data = data
        self._find_window = find_window
        self._prices = prices
        self._readers: OrderedDict[str, _ReaderEntry] = OrderedDict()
        self._indexes: OrderedDict[str, _IndexEntry] = OrderedDict()
        self._parents: dict[str, tuple[float, str]] = {}
        self._titles: dict[str, _TitleEntry] = {}
        self._lock = threading.Lock()

    # --- the list -------------------------------------------------------------------------------------------------

    def list_page(self, scope: str, page: int, running: set[str], words: str = "") -> SessionList:
        """A page of the sessions whose names begin with `scope`, last used first, sub-agents below their parents."""
        with self._lock:
            infos = self._list_infos(scope)
            groups = list(self._group(infos, scope, words.casefold()))
            pages = max(1, -(-len(groups) // PAGE_ROWS))
            page = min(max(page, 0), pages - 1)
            budget = [_EVENTS_PER_LOOK]
            rows = [
                self._make_row(infos[name], depth, scope, running, budget)
                for group in groups[page * PAGE_ROWS : (page + 1) * PAGE_ROWS]
                for name, depth in group[: 1 + MAX_CHILDREN]
            ]
            return SessionList(rows, page, pages, len(infos), len(groups), all(row.is_read for row in rows))

    def list_tree(self, scope: str, name: str, running: set[str]) -> list[SessionRow]:
        """The agents above and below a session, and the session itself, from the first agent on."""
        with self._lock:
            infos = self._list_infos(scope)
            if name not in infos:
                return []
            root = self._find_root(name, infos)
            family = self._list_family(root, self._children(infos))[:MAX_TREE]
            budget = [_EVENTS_PER_LOOK]
            return [self._make_row(infos[each], depth, scope, running, budget) for each, depth in family]

    def _list_infos(self, scope: str) -> dict[str, SessionInfo]:
        return {info.name: info for info in self._data.store.sessions() if info.name.startswith(scope)}

    def _group(self, infos: Mapping[str, SessionInfo], scope: str, words: str) -> Iterator[list[tuple[str, int]]]:
        """The sessions by the agent at the top, in the order of their last use."""
        children = self._children(infos)
        roots: set[str] = set()
        for name in infos:
            root = self._find_root(name, infos)
            if root not in roots:
                roots.add(root)
                if not words or any(words in each[len(scope) :].casefold() for each in (root, *children.get(root, ()))):
                    yield self._list_family(root, children)

    def _children(self, infos: Mapping[str, SessionInfo]) -> dict[str, list[str]]:
        children: dict[str, list[str]] = {}
        for name, info in infos.items():
            parent = self._find_parent(info)
            if parent in infos and parent != name:
                children.setdefault(parent, []).append(name)
        return children

    def _find_parent(self, info: SessionInfo) -> str:
        """The session of the agent that started this one. The name of a sub-agent has a dot (`gateway/routing.py`)."""
        if "." not in info.name:
            return ""
        entry = self._parents.get(info.name)
        if entry is not None and entry[0] == info.created:
            return entry[1]
        parent = ""
        try:
            for event in islice(self._data.open_log(info.name).read(), _PARENT_EVENTS):
                if (note := read_note(event.payload, ParentSession)) is not None:
                    parent = note.text
        except TidegateError:
            return ""
        if info.head >= _PARENT_EVENTS or parent:
            self._parents[info.name] = (info.created, parent)
        return parent

    def _find_root(self, name: str, infos: Mapping[str, SessionInfo]) -> str:
        path = {name}
        while (parent := self._find_parent(infos[name])) in infos and parent not in path:
            path.add(parent)
            name = parent
        return name

    def _list_family(self, root: str, children: Mapping[str, Sequence[str]]) -> list[tuple[str, int]]:
        family: list[tuple[str, int]] = []
        left = [(root, 0)]
        names: set[str] = set()
        while left:
            name, depth = left.pop()
            if name not in names:
                names.add(name)
                family.append((name, depth))
                left += [(child, depth + 1) for child in reversed(children.get(name, ()))]
        return family

    def _make_row(self, info: SessionInfo, depth: int, scope: str, running: set[str], budget: list[int]) -> SessionRow:
        reader, use = self._read_figures(info, budget), find_session_use(self._data, info.name)
        return SessionRow(
            info.name,
            self._find_title(info),
            use.folder,
            ", ".join(use.clients) or name_client(info.name[len(scope) :]),
            depth,
            info.head,
            info.created,
            info.used,
            info.name in running,
            reader.head >= info.head,
            reader.figures,
        )

    def _find_title(self, info: SessionInfo) -> str:
        entry = self._titles.get(info.name)
        if entry is None or entry.created != info.created or not entry.title:
            if len(self._titles) > _MAX_READERS:
                self._titles.clear()
            entry = self._titles[info.name] = _TitleEntry(info.created, read_session_title(self._data, info.name))
        return entry.title

    def _find_reader(self, info: SessionInfo) -> FiguresReader:
        """The sums of a session as far as they are known: the list and the index of the session share them."""
        entry = self._readers.get(info.name)
        if entry is None or entry.created != info.created or entry.reader.head > info.head:
            entry = self._readers[info.name] = _ReaderEntry(
                info.created, FiguresReader(self._find_window, self._prices)
            )
        self._readers.move_to_end(info.name)
        while len(self._readers) > _MAX_READERS:
            self._readers.popitem(last=False)
        return entry.reader

    def _read_figures(self, info: SessionInfo, budget: list[int]) -> FiguresReader:
        reader = self._find_reader(info)
        if reader.head < info.head and budget[0] > 0:
            try:
                for event in islice(self._data.open_log(info.name).read(reader.head + 1), budget[0]):
                    reader.feed(event)
                    budget[0] -= 1
            except TidegateError:  # damaged: `doctor` reports it, and the other sessions are still shown
                reader.head = info.head
        return reader

    # --- one session ----------------------------------------------------------------------------------------------

    def find_info(self, scope: str, name: str) -> SessionInfo | None:
        return self._list_infos(scope).get(name) if name.startswith(scope) else None

    def read_newest(self, info: SessionInfo) -> NewestRequests:
        """The newest requests, from the end of the log only: the cost does not depend on the length of the log."""
        log = self._data.open_log(info.name)
        totals, requests = FiguresReader(self._find_window, self._prices), RequestReader(self._prices)
        start = max(1, info.head - _NEWEST_EVENTS + 1)
        for event in islice(log.read(), min(_FIRST_EVENTS, start - 1)):
            totals.feed(event)
        for event in log.read(start):
            totals.feed(event)
            requests.feed(event)
        return NewestRequests(requests.requests, totals.figures)

    def read_index(self, info: SessionInfo, most: int) -> SessionIndex:
        """The index of a session, after reading at most `most` more events."""
        with self._lock:
            entry = self._indexes.get(info.name)
            if entry is None or entry.created != info.created or entry.session.head > info.head:
                entry = self._indexes[info.name] = self._make_index(info)
            self._indexes.move_to_end(info.name)
            while len(self._indexes) > _MAX_INDEXES:
                self._indexes.popitem(last=False)
            was_read = entry.session.head
            entry.session.update(self._data.open_log(info.name), most)
            if was_read and entry.session.forgotten_at > was_read:  # the index may hold what was forgotten
                self._readers.pop(info.name, None)
                entry = self._indexes[info.name] = self._make_index(info)
                entry.session.update(self._data.open_log(info.name), most)
            return entry.session

    def _make_index(self, info: SessionInfo) -> _IndexEntry:
        index = SessionIndex(self._find_reader(info), self._find_window, self._prices, info.name)
        return _IndexEntry(info.created, index)
