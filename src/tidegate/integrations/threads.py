"""The sessions of a framework's threads: each conversation has its own, opened when it is first used.

threads = ThreadSessions("data", window=32_000)
name, following = threads.follow_list(threads.name("langchain", "thread-1"), items)
request = following.prepare(items)
threads.recall("thread-1", "m12")

A framework's ids name the session (`session_names.py`). Where it has no id, or one that others may have as well, the
session is found by its messages: a list belongs to a session if it begins with everything that the session has on its
current branch. Otherwise it gets a new session. So no list ever brings text of another conversation with it.
"""

import asyncio
import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import Any, NamedTuple, TypedDict

from tidegate.core.errors import BadInput, TidegateError
from tidegate.core.policy.policy import Policy
from tidegate.datafolder.data_folder import DataFolder
from tidegate.datafolder.location import STORE_VARIABLE, locate_user_data
from tidegate.integrations.session_names import SessionName, encode_part, make_random_id, name_program, name_session
from tidegate.session.conversation_log import ConversationLog
from tidegate.session.following import FollowingSession, HostItem, count_continued
from tidegate.session.host_tree import ROOT, HostTree
from tidegate.session.recall import recall_text
from tidegate.session.session import Session

RECALL_DESCRIPTION = (
    "Read earlier messages of this conversation that are no longer shown. Notes such as [cleared: ...; recall m12] or"
    " '- recall m2..m97' name what can be read. Give an id (m12), a range (m12..m40), the path of a file, or words to"
    " search for. A long answer ends with a line that says how to go on."
)
"""The description of the recall tool that every adapter offers to the model."""
NOTHING_LOGGED = "There is nothing to recall yet."
"""The answer of the recall tool before the first call of a conversation."""
RECALL_CHARS = 8_000
WHOLE_RECALL_CHARS = 24_000
"""Characters of one message that an answer may have at once. The room of the request that asks is not known here."""
MAX_OPEN = 1_000
"""Sessions that stay open; above it the one that was used least recently is closed."""

DataLocation = DataFolder | str | os.PathLike[str] | None


class SessionSettings(TypedDict, total=False):
    """The settings of the sessions of an adapter, as `ThreadSessions` describes them."""

    model: str
    window: int | None
    reserve: int | None
    policy: str | Policy
    session: str
    app: str


class ConversationPlace(NamedTuple):
    """Where a conversation is: the name of its session, and the id of its last message there."""

    session: str
    last_id: str


class ThreadSessions:
    """The open sessions of an adapter. All methods may be called from any thread.

    Parameters:

    - `data`: a data folder or its path. Without it, the folder that the command `tidegate` uses.
    - `model`: the name of the model, if the framework does not tell it. It selects window and token counter.
    - `window`, `reserve`, `policy`: as for `Session`.
    - `session`: the name of the session, for an adapter that has one conversation only. It takes the place of the
      framework's ids.
    - `app`: the name of the application, in front of the framework's ids. Without it, and without a data folder of its
      own, it is the program that runs: programs that share the user's data folder do not share sessions.
    """

    def __init__(
        self,
        data: DataLocation = None,
        *,
        model: str = "",
        window: int | None = None,
        reserve: int | None = None,
        policy: str | Policy = "default",
        session: str = "",
        app: str = "",
    ) -> None:
        self._location = data
        self._model = model
        self._options: dict[str, Any] = {"window": window, "reserve": reserve}
        self._policy = policy
        self._session = session
        is_common = data is None or (not isinstance(data, DataFolder) and bool(os.environ.get(STORE_VARIABLE)))
        self._app = encode_part(app) if app else name_program() if is_common else ""
        self._open: OrderedDict[str, FollowingSession[Any]] = OrderedDict()
        self._found = _FoundSessions(self._get_tree)
        self._names: OrderedDict[str, list[str]] = OrderedDict()  # by thread id, those that were used
        self._old_names: dict[str, str] = {}  # those of version 0.1.0 that are still used
        self._lock = RLock()
        self._data = data if isinstance(data, DataFolder) else None

    @property
    def data(self) -> DataFolder:
        """The data folder, opened when it is first needed."""
        with self._lock:
            if self._data is None:
                where = self._location if isinstance(self._location, str | os.PathLike) else locate_user_data()
                self._data = DataFolder(where, store=os.environ.get(STORE_VARIABLE, ""))
            return self._data

    def name(
        self,
        framework: str,
        thread: object = None,
        *,
        user: str | None = None,
        application: str = "",
        agent: str = "",
        is_shared: bool = False,
        old_name: str = "",
    ) -> SessionName:
        """The name for the ids of a framework: those of its application, user, thread and agent.

        Without a `thread` the session is found by its messages. `is_shared`: so it is if others have the same ids.
        """
        thread_id = "" if thread is None else str(thread)
        above = "/".join(filter(None, (self._app, application and encode_part(application))))
        if self._session:
            name = f"{self._session}.{encode_part(agent)}" if agent else self._session
            return SessionName(name, is_shared and bool(agent), name, name)
        if not thread_id:
            beginning = name_session(framework, application=above, agent=agent)
            return SessionName("", True, beginning, beginning if agent else "")
        name = name_session(thread_id, user=user, application=above, agent=agent)
        return SessionName(name, is_shared, name, name if agent else thread_id, old_name)

    def name_thread(self, thread: str) -> SessionName:
        """The name for a thread id of this application, also if `session` names another one."""
        name = thread if thread == self._session else name_session(thread, application=self._app)
        return SessionName(name, thread=thread)

    def follow_list(
        self, name: SessionName, items: Sequence[HostItem[Any]], model: str = "", wire: str = ""
    ) -> tuple[str, FollowingSession[Any]]:
        """The session for a list of messages, and what its name is."""
        with self._lock:
            choice = self._find_by_messages(name, items) if name.is_shared else self._find_stored(name, items)
            try:
                following = self.follow(choice, model, wire)
            except TidegateError:
                self._found.forget(choice)
                raise
            names = self._names.setdefault(name.thread, [])
            self._names.move_to_end(name.thread)
            if choice not in names:
                names.append(choice)
                del names[:-MAX_OPEN]
            while len(self._names) > MAX_OPEN:
                self._names.popitem(last=False)
            return choice, following

    def _find_stored(self, name: SessionName, items: Sequence[HostItem[Any]]) -> str:
        """The name itself, or the one that version 0.1.0 gave the same conversation."""
        if name.name in self._old_names:
            return self._old_names[name.name]
        if name.old_name in ("", name.name) or self._exists(name.name):
            return name.name
        if not self._exists(name.old_name) or not self._is_continued(name.old_name, items):
            return name.name
        self._old_names[name.name] = name.old_name
        return name.old_name

    def _find_by_messages(self, name: SessionName, items: Sequence[HostItem[Any]]) -> str:
        """The session that the list continues: one that was found so before, or that of the name. Else a new one."""
        choice, count = self._found.find(name.name, items)
        if count <= 1 and name.name:  # with only the first message in common, the name's own session may have more
            stored_name = self._find_stored(name, items)
            if stored_name not in self._found and (
                not self._exists(stored_name) or self._is_continued(stored_name, items)
            ):
                choice = stored_name
        choice = choice or f"{name.beginning}{'.' if name.name else '-'}{make_random_id()}"
        self._found.add(name.name, choice, items)
        return choice

    def expect_retry(self, session: str) -> None:
        """Note that a call got no whole answer. The next list like its own is the same call again, not another one."""
        with self._lock:
            self._found.expect_retry(session)

    def _get_tree(self, name: str) -> HostTree | None:
        following = self._open.get(name)
        return following.tree if following else None

    def _exists(self, name: str) -> bool:
        return name in self._open or self.data.store.head(name) > 0

    def _is_continued(self, name: str, items: Sequence[HostItem[Any]]) -> bool:
        return count_continued(self._get_tree(name) or HostTree(self.data.open_log(name).read()), items) > 0

    def follow(self, name: str, model: str = "", wire: str = "") -> FollowingSession[Any]:
        """The followed session of this name. Another model or dialect (`wire`) than before opens it again."""
        with self._lock:
            current = self._open.get(name)
            model = self._model or model
            if (
                current is not None
                and model in ("", current.session.model)
                and wire in ("", current.session.dialect.name)
            ):
                self._open.move_to_end(name)
                return current
            if current is not None:
                self._open.pop(name).session.close()
            model = model or self._read_model(name)
            session = self.data.open(name, model, policy=self._policy, restore=False, wire=wire, **self._options)
            self._open[name] = FollowingSession(session)
            while len(self._open) > MAX_OPEN:
                self._close_oldest()
            return self._open[name]

    def _close_oldest(self) -> None:
        name, following = self._open.popitem(last=False)
        self._found.forget(name)
        following.session.close()

    def _read_model(self, name: str) -> str:
        """The model of a stored session. Opening it under another one would be noted in its log."""
        return self.data.open_conversation(name).model if self.data.store.head(name) else ""

    def find_name(self, thread: str) -> str:
        """The name of the session of a thread; a name of a session is returned as it is.

        BadInput if several conversations have had this thread id, or none.
        """
        with self._lock:
            thread = thread or self._session
            names = self._names.get(thread, [])
            if thread and (thread in names or thread == self._session):
                return thread
            if len(names) > 1:
                whose = f"The thread {thread!r}" if thread else "This adapter"
                raise BadInput(
                    f"{whose} has {len(names)} sessions, such as {names[0]!r} and {names[-1]!r}.",
                    "Give the name of one of them.",
                )
            if names:
                return names[0]
            if not thread:
                raise BadInput("There is no session yet.", "Run the agent first, or give the name of a session.")
            name = name_session(thread, application=self._app)
            return thread if not self._exists(name) and self._exists(thread) else name

    def session(self, thread: str = "") -> Session:
        """The session of a thread: `explain`, `recall`, `history` and everything else that a session has.

        Without a thread it is the session of the conversation that has no id, if there was only one.
        """
        return self.follow(self.find_name(thread)).session

    def find_place(self, name: SessionName, items: Sequence[HostItem[Any]]) -> ConversationPlace | None:
        """Where a list of messages is in the session of this name, which is its own; None if others may have it."""
        if name.is_shared:
            return None
        match = HostTree(self.data.open_log(name.name).read()).match([item.key for item in items])
        return ConversationPlace(name.name, match[-1] if match else "")

    def recall(self, thread: str, what: str, offset: int = 0) -> str:
        """What the current branch of a session has, as the recall tool answers: bounded, and never an error.

        What others have logged meanwhile is found, too.
        """
        return self._recall(self.find_name(thread), None, what, offset)

    def recall_at(self, place: ConversationPlace | None, what: str, offset: int = 0) -> str:
        """The answer of the recall tool in a conversation: from its own messages, whatever else its session has."""
        return self._recall(*place, what, offset) if place else NOTHING_LOGGED

    async def recall_at_async(self, place: ConversationPlace | None, what: str, offset: int = 0) -> str:
        """The same for async code."""
        return await asyncio.to_thread(self.recall_at, place, what, offset)

    def _recall(self, name: str, last_id: str | None, what: str, offset: int) -> str:
        index = self.data.recall_index(name)
        return recall_text(
            ConversationLog(self.data.open_log(name), last_id, index.read_branch_points()),
            what,
            max_chars=RECALL_CHARS,
            offset=offset,
            whole_chars=WHOLE_RECALL_CHARS,
            index=index,
        ).text

    def close(self) -> None:
        """Close all sessions. Nothing that was logged depends on it."""
        with self._lock:
            while self._open:
                self._close_oldest()
            if self._data is not None and self._data is not self._location:
                self._data.close()
                self._data = None


class SessionAccess:
    """The part of an adapter through which programs reach its sessions."""

    threads: ThreadSessions

    def session(self, thread: str = "") -> Session:
        """The session of a thread, to explain and to recall: `ThreadSessions.session`."""
        return self.threads.session(thread)


def describe_missing_framework(extra: str, missing: ImportError) -> ImportError:
    """The error for an adapter whose framework is not installed."""
    return ImportError(
        f"tidegate.integrations.{extra.replace('-', '_')} needs a package that is not installed ({missing})."
        f" Run: pip install 'tidegate[{extra}]'",
        name=missing.name,
    )


@dataclass
class _FoundSession:
    """`items` are the list that got the session last, and `ids` its messages in the log, as far as they were matched.

    `is_unanswered`: the call with this list failed.
    """

    name: str
    items: list[HostItem[Any]]
    ids: list[str] = field(default_factory=list)
    is_unanswered: bool = False

    def is_continued_by(self, items: Sequence[HostItem[Any]]) -> bool:
        """Whether a list begins with that of this session. As a rule its items are the same objects."""
        beginning = list(items[: len(self.items)])
        return beginning == self.items or [item.key for item in beginning] == [item.key for item in self.items]


class _FoundSessions:
    """The sessions that were found by their messages, because the framework's ids do not tell them apart.

    A list continues a session if it begins with everything that the session has on its current branch
    (`count_continued`), and with the list that got the session last: that one may not be logged yet. `get_tree` returns
    the tree of an open session, None if it is not open.
    """

    def __init__(self, get_tree: Callable[[str], HostTree | None]) -> None:
        self._get_tree = get_tree
        self._alike: dict[tuple[str, str], dict[str, _FoundSession]] = {}
        self._places: dict[str, tuple[str, str]] = {}  # by name: where it is

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def find(self, base: str, items: Sequence[HostItem[Any]]) -> tuple[str, int]:
        """The session that the list continues, of those that were added under this base, and how many messages of it
        the list has. If there are several, the one with most of them."""
        alike = self._alike.get((base, _get_first_key(items)), {}).values()
        counts = ((session.name, self._count_continued(session, items)) for session in alike)
        return max((each for each in counts if each[1]), key=lambda each: each[1], default=("", 0))

    def _count_continued(self, session: _FoundSession, items: Sequence[HostItem[Any]]) -> int:
        tree = self._get_tree(session.name)
        if tree is None or not session.is_continued_by(items):
            return 0
        unmatched = session.items[len(session.ids) :]
        session.ids += tree.match([item.key for item in unmatched], session.ids[-1] if session.ids else ROOT)
        is_retry = session.is_unanswered and len(session.ids) == len(items)
        return len(items) if is_retry else count_continued(tree, items, session.ids)

    def add(self, base: str, name: str, items: Sequence[HostItem[Any]]) -> None:
        """Note that a list got this session."""
        place = base, _get_first_key(items)
        session = self._alike.setdefault(place, {}).setdefault(name, _FoundSession(name, []))
        session.items, session.is_unanswered = list(items), False
        self._places[name] = place

    def expect_retry(self, name: str) -> None:
        """Note that a call got no whole answer. The next list like its own is the same call again, not another one."""
        if name in self._places:
            self._alike[self._places[name]][name].is_unanswered = True

    def forget(self, name: str) -> None:
        place = self._places.pop(name, None)
        if place is not None:
            del self._alike[place][name]
            if not self._alike[place]:
                del self._alike[place]


def _get_first_key(items: Sequence[HostItem[Any]]) -> str:
    return items[0].key if items else ""
