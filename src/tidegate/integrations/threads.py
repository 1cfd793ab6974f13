"""The sessions of a framework's threads: one session for each thread id, opened when it is first used.

threads = ThreadSessions("data", window=32_000)
preparer = CallPreparer(threads, format)
call = preparer.prepare("thread-1", messages)     # call.messages is what to send
call.record(reply, usage)
"""

import os
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from threading import RLock
from typing import Any, Generic, NamedTuple, TypeVar

from tidegate.core.messages import Message
from tidegate.core.policy.policy import Policy
from tidegate.datafolder.data_folder import DataFolder
from tidegate.datafolder.location import STORE_VARIABLE, locate_user_data
from tidegate.integrations.host_messages import HostPiece, HostReader, MessageFormat, write_view
from tidegate.session.following import FixedPart, FollowedRequest, FollowingSession
from tidegate.session.recall import recall_text
from tidegate.session.session import Session
from tidegate.session.summaries.drivers import Summarizer

HostObject = TypeVar("HostObject")

RECALL_DESCRIPTION = (
    "Read earlier messages of this conversation that are no longer shown. Notes such as [cleared: ...; recall m12] or"
    " '- recall m2..m97' name what can be read. Give an id (m12), a range (m12..m40), or words to search for. A long"
    " answer ends with a line that says how to go on."
)
"""The description of the recall tool that every adapter offers to the model."""
RECALL_CHARS = 8_000
_MAX_OPEN = 1_000
"""Sessions that stay open; above it the one that was used least recently is closed."""

DataLocation = DataFolder | str | os.PathLike[str] | None


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
        self._options = {"window": window, "reserve": reserve}
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

    def name_thread(self, thread: object, default: str) -> str:
        """The name of the session: that of the settings, the thread id, or the default of the framework."""
        return self._session or (str(thread) if thread else default)

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
            while len(self._open) > _MAX_OPEN:
                self._open.popitem(last=False)[1].session.close()
            return self._open[name]

    def _read_model(self, name: str) -> str:
        """The model of a stored session. Opening it under another one would be noted in its log."""
        return self.data.open_conversation(name).model if self.data.store.head(name) else ""

    def session(self, thread: str) -> Session:
        """The session of a thread: `explain`, `recall`, `history` and everything else that a session has."""
        return self.follow(thread).session

    def recall(self, thread: str, what: str, offset: int = 0) -> str:
        """The answer of the recall tool: bounded, and never an error."""
        return recall_text(self.session(thread).log, what, max_chars=RECALL_CHARS, offset=offset).text

    def close(self) -> None:
        """Close all sessions. Nothing that was logged depends on it."""
        with self._lock:
            while self._open:
                self._open.popitem()[1].session.close()
            if self._data is not None and self._data is not self._location:
                self._data.close()
                self._data = None


class PreparedCall(NamedTuple, Generic[HostObject]):
    """The messages to send with one call, and what is needed to record its answer."""

    messages: list[HostObject]
    request: FollowedRequest[HostPiece[HostObject]]
    following: FollowingSession[HostPiece[HostObject]]

    def record(self, reply: Message | None, usage: Mapping[str, object] | None = None) -> None:
        self.following.record_reply(self.request, reply, usage)


class CallPreparer(Generic[HostObject]):
    """Makes the list of messages to send from the list that a framework has."""

    def __init__(self, threads: ThreadSessions, form: MessageFormat[HostObject]) -> None:
        self._threads = threads
        self._form = form
        self._readers: OrderedDict[str, HostReader[HostObject]] = OrderedDict()

    def prepare(
        self,
        thread: str,
        hosts: Sequence[HostObject],
        *,
        model: str = "",
        fixed_part: FixedPart | None = None,
        summarise: Summarizer | None = None,
    ) -> PreparedCall[HostObject]:
        """Log what is new in the framework's list, and return the list to send."""
        reader = self._readers.setdefault(thread, HostReader(self._form))
        while len(self._readers) > _MAX_OPEN:
            self._readers.popitem(last=False)
        following: FollowingSession[HostPiece[HostObject]] = self._threads.follow(thread, model)
        request = following.prepare(reader.read(hosts), summarise, fixed_part=fixed_part)
        return PreparedCall(write_view(self._form, hosts, request), request, following)


def name_part(name: str, part: str) -> str:
    """The name of the session of a sub-agent: that of its thread, and a short hash of what tells it apart."""
    return f"{name}.{blake2b(part.encode(), digest_size=4).hexdigest()}"


def make_usage(input_tokens: int, output_tokens: int, cache_read: int = 0, cache_write: int = 0) -> dict[str, object]:
    """A usage report from counts of a framework, where `input_tokens` are all input tokens, cached or not."""
    cache_read = min(cache_read, input_tokens)
    cache_write = min(cache_write, input_tokens - cache_read)
    return {
        "input_tokens": input_tokens - cache_read - cache_write,
        "output_tokens": output_tokens,
        "cache_read_input_tokens": cache_read,
        "cache_creation_input_tokens": cache_write,
    }


def describe_missing_framework(extra: str, missing: ImportError) -> ImportError:
    """The error for an adapter whose framework is not installed."""
    return ImportError(
        f"tidegate.integrations.{extra.replace('-', '_')} needs a package that is not installed ({missing})."
        f" Run: pip install 'tidegate[{extra}]'",
        name=missing.name,
    )
