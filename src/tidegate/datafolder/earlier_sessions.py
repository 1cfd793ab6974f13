"""Recall from the earlier sessions of a project: those that were last used in the same folder.

Other sessions are neither searched nor read, also if their name is given. Secrets are masked before a text is cut. Only
the current branch of a session is read.
"""

from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple

from tidegate.core.errors import TidegateError
from tidegate.core.text.terminal_text import clean_line
from tidegate.datafolder.contents import FolderContents
from tidegate.datafolder.masking import MaskedLog
from tidegate.datafolder.time_format import format_time
from tidegate.datafolder.workspaces import find_workspace
from tidegate.memory.message_index import terms_of
from tidegate.session.conversation_log import ConversationLog
from tidegate.session.recall import recall_text
from tidegate.session.recall_hits import format_hit, group_hits
from tidegate.session.recall_index import RecallHit, RecallIndex

ALL_SESSIONS: Final = "*"
SESSION_ARGUMENT: Final = "an earlier session of this project, or * to search them all"
NOT_ALLOWED: Final = (
    "Earlier sessions are not searched: `recall_earlier_sessions: true` in the user's own tidegate.yaml allows it."
)
_MAX_SESSIONS: Final = 20
_MAX_HITS: Final = 30
_MAX_QUERY_CHARS: Final = 2_000


class _SessionHit(NamedTuple):
    session: str
    used: float
    hit: RecallHit


class EarlierSessions:
    """The sessions of one project folder in a data folder. Their indices stay in memory. Thread-safe."""

    def __init__(self, data: FolderContents, project: Path) -> None:
        self._data = data
        self._project = str(project.resolve())
        self._indices: dict[str, RecallIndex] = {}
        self._lock = Lock()

    def list_names(self, current: str = "") -> list[str]:
        """Return the names of the project's sessions, the last used first, without `current` and subagents."""
        infos = sorted(self._data.store.sessions(), key=lambda info: info.used, reverse=True)
        names = [info.name for info in infos if info.name != current and ".task-" not in info.name]
        return [name for name in names if find_workspace(self._data, name) == self._project]

    def recall(self, what: str, session: str, *, current: str = "", max_chars: int = 8_000, offset: int = 0) -> str:
        """Answer like recall, from one earlier session, or with `*` the best hits of the newest ones.

        The answer is always a text, in at most about `max_chars` characters.
        """
        with self._lock:
            names = self.list_names(current)
            if session == ALL_SESSIONS:
                return self._search(what[:_MAX_QUERY_CHARS], names, max_chars, offset)
            if session not in names:
                return f"No earlier session of this project has this name. {_list_sessions(names)}"
            log, index = self._open(session), self._open_index(session)
            return recall_text(log, what, max_chars=max_chars, offset=offset, index=index).text

    def _open(self, name: str) -> ConversationLog:
        index = self._open_index(name)
        return ConversationLog(MaskedLog(self._data.open_log(name), self._data.mask), None, index.read_branch_points())

    def _open_index(self, name: str) -> RecallIndex:
        index = self._indices.pop(name, None)
        if index is None:
            index = RecallIndex(self._data.open_log(name))
            index.save_to(self._data.recall_file(name), self._data.mask)
        index.log = self._data.open_log(name)
        self._indices[name] = index
        for oldest in list(self._indices)[:-_MAX_SESSIONS]:
            del self._indices[oldest]
        return index

    def _search(self, words: str, names: list[str], max_chars: int, offset: int) -> str:
        matches: list[_SessionHit] = []
        for name in names[:_MAX_SESSIONS]:
            try:
                log = self._open(name)
                hits = group_hits(self._open_index(name).find(log, words)[:_MAX_HITS])
                matches += [_SessionHit(name, next(log.read(hit.seq)).time, hit) for hit in hits]
            except TidegateError:  # a damaged session hides no other
                continue
        matches.sort(key=lambda each: (-each.hit.score, -each.used))
        terms = frozenset(terms_of(words))
        lines: list[str] = []
        for place, each in enumerate(matches[offset : offset + _MAX_HITS], offset):
            line = self._format(each, terms, place)
            max_chars -= len(line) + 1
            if max_chars < 0 and lines:
                lines.append(f"[go on with the same words, offset {place}]")
                break
            lines.append(line)
        if not lines:
            return f"Nothing {'more ' if offset else ''}in the earlier sessions of this project has these words."
        more = len(names) - _MAX_SESSIONS
        return "\n".join([*lines, *([f"[{more:,} older sessions were not searched]"] if more > 0 else [])])

    def _format(self, each: _SessionHit, terms: frozenset[str], place: int) -> str:
        event = next(self._open(each.session).read(each.hit.seq))
        name = clean_line(each.session)
        return f"[session {name}, {format_time(event.time)}] {format_hit(event, each.hit, terms, place)}"


def _list_sessions(names: list[str]) -> str:
    first_names = ", ".join(map(clean_line, names[:_MAX_SESSIONS]))
    return f"Its earlier sessions: {first_names}." if first_names else "It has no earlier sessions."
