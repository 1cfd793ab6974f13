"""The sessions of a framework's threads: one session for each thread id, opened when it is first used.

threads = ThreadSessions("data", window=32_000)
threads.follow("thread-1").prepare(items)
threads.recall("thread-1", "m12")
"""

import asyncio
import os
from collections import OrderedDict
from hashlib import blake2b
from threading import RLock
from typing import Any, TypedDict

from tidegate.core.policy.policy import Policy
from tidegate.datafolder.data_folder import DataFolder
from tidegate.datafolder.location import STORE_VARIABLE, locate_user_data
from tidegate.session.following import FollowingSession
from tidegate.session.recall import recall_text
from tidegate.session.session import Session

RECALL_DESCRIPTION = (
    "Read earlier messages of this conversation that are no longer shown. Notes such as [cleared: ...; recall m12] or"
    " '- recall m2..m97' name what can be read. Give an id (m12), a range (m12..m40), or words to search for. A long"
    " answer ends with a line that says how to go on."
)
"""The description of the recall tool that every adapter offers to the model."""
RECALL_CHARS = 8_000
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


class ThreadSessions:
    """The open sessions of an adapter. All methods may be called from any thread.

    Parameters:

    - `data`: a data folder or its path. Without it, the folder that the command `tidegate` uses.
    - `model`: the name of the model, if the framework does not tell it. It selects window and token counter.
    - `window`, `reserve`, `policy`: as for `Session`.
    - `session`: the name of the session, where the framework has no thread id.
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
    ) -> None:
        self._location = data
        self._model = model
        self._options: dict[str, Any] = {"window": window, "reserve": reserve}
        self._policy = policy
        self._session = session
        self._open: OrderedDict[str, FollowingSession[Any]] = OrderedDict()
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

    def name_thread(self, thread: object, default: str, part: str = "") -> str:
        """The name of the session: that of the settings, the thread id, or the default of the framework.

        A sub-agent has a session of its own: a short hash of the `part` that tells it apart is added.
        """
        name = self._session or (str(thread) if thread else default)
        return f"{name}.{blake2b(part.encode(), digest_size=4).hexdigest()}" if part else name

    def follow(self, name: str, model: str = "", wire: str = "") -> FollowingSession[Any]:
        """The followed session of this name. Another model or dialect (`wire`) than before opens it again."""
        with self._lock:
            known = self._open.get(name)
            model = self._model or model
            if known is not None and model in ("", known.session.model) and wire in ("", known.session.dialect.name):
                self._open.move_to_end(name)
                return known
            if known is not None:
                self._open.pop(name).session.close()
            model = model or self._read_model(name)
            session = self.data.open(name, model, policy=self._policy, restore=False, wire=wire, **self._options)
            self._open[name] = FollowingSession(session)
            while len(self._open) > MAX_OPEN:
                self._open.popitem(last=False)[1].session.close()
            return self._open[name]

    def _read_model(self, name: str) -> str:
        """The model of a stored session. Opening it under another one would be noted in its log."""
        return self.data.open_conversation(name).model if self.data.store.head(name) else ""

    def session(self, thread: str) -> Session:
        """The session of a thread: `explain`, `recall`, `history` and everything else that a session has."""
        return self.follow(thread).session

    def recall(self, thread: str, what: str, offset: int = 0) -> str:
        """The answer of the recall tool: bounded, never an error, and with what others have logged meanwhile."""
        return recall_text(self.data.open_log(thread), what, max_chars=RECALL_CHARS, offset=offset).text

    async def recall_async(self, thread: str, what: str, offset: int = 0) -> str:
        """The same for async code."""
        return await asyncio.to_thread(self.recall, thread, what, offset)

    def close(self) -> None:
        """Close all sessions. Nothing that was logged depends on it."""
        with self._lock:
            while self._open:
                self._open.popitem()[1].session.close()
            if self._data is not None and self._data is not self._location:
                self._data.close()
                self._data = None


class SessionAccess:
    """The part of an adapter through which programs reach its sessions."""

    threads: ThreadSessions

    def session(self, name: str) -> Session:
        """The session of a thread, to explain and to recall."""
        return self.threads.session(name)


def describe_missing_framework(extra: str, missing: ImportError) -> ImportError:
    """The error for an adapter whose framework is not installed."""
    return ImportError(
        f"tidegate.integrations.{extra.replace('-', '_')} needs a package that is not installed ({missing})."
        f" Run: pip install 'tidegate[{extra}]'",
        name=missing.name,
    )
