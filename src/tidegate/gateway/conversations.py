"""Which session a request belongs to, and the sessions that are open.

A client's id names the session. Without one, a session is found by the messages: its name is the hash of the messages
of its first request, and a later request belongs to it if it begins with these messages and with an answer that the
session gave. So two conversations with the same first message stay two sessions, also while both wait for their first
answer. A first request that has no whole answer and is not under way any more is continued by the next one like it:
that is a retry.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Final

import msgspec

from tidegate.core.errors import TidegateError
from tidegate.core.events import Event
from tidegate.core.messages import Message
from tidegate.datafolder.data_folder import DataFolder
from tidegate.gateway.metrics import Metrics
from tidegate.gateway.page import SessionActivity
from tidegate.gateway.routing import ClientId
from tidegate.gateway.settings import GatewaySettings
from tidegate.presets import load
from tidegate.session.following import FixedPart, FollowedRequest, FollowingSession, HostItem
from tidegate.store.errors import SessionNotFound
from tidegate.wire.splicing.units import HostUnit

_MAX_ALIKE: Final = 64
"""Sessions whose first requests are the same; beyond that the newest is not told apart any more."""
_MAX_KNOWN_CHAINS: Final = 20_000
PARENT_TOPIC: Final = "parent"
_WINDOWS_FILE: Final = "gateway-windows.json"
MakeWatcher = Callable[[str], Callable[[Event], None]]


class Conversation:
    """An open session of a client. `users` counts the requests that are using it now.

    `parent` is the session of the agent that started this one. `hidden_messages` are those of the log that the client
    does not know, as far as they were needed.
    """

    def __init__(self, name: str, dialect: str, following: FollowingSession[HostUnit]) -> None:
        self.name = name
        self.dialect = dialect
        self.following = following
        self.parent = ""
        self.hidden_messages: dict[str, Message] = {}
        self.users = 0

    @property
    def model(self) -> str:
        return self.following.session.model


class Conversations:
    """`make_watcher`, called with the name of a session that is opened, returns what is to see its events."""

    def __init__(
        self,
        data: DataFolder,
        settings: GatewaySettings,
        metrics: Metrics,
        activity: SessionActivity,
        make_watcher: MakeWatcher | None = None,
    ) -> None:
        self._data = data
        self._make_watcher = make_watcher
        self._activity = activity
        activity.list_running = self._list_running
        self._settings = settings
        self._metrics = metrics
        self._open: OrderedDict[str, Conversation] = OrderedDict()
        self._by_chain: OrderedDict[str, list[str]] = OrderedDict()

    def learn_window(self, model: str, window: int) -> None:
        """Store a window that an upstream named, for all workers. If that fails, it is learned again."""

        def change(text: str | None) -> str:
            return msgspec.json.encode(_parse_windows(text) | {model: window}).decode()

        with suppress(TidegateError):
            self._data.state_folder.update(_WINDOWS_FILE, change)

    def _find_learned_window(self, model: str) -> int | None:
        with suppress(TidegateError):
            return _parse_windows(self._data.state_folder.read(_WINDOWS_FILE)).get(model)
        return None

    def find(
        self,
        client: ClientId,
        scope: str,
        model: str,
        dialect: str,
        items: Sequence[HostItem[HostUnit]],
        *,
        has_tools: bool,
        create: bool = True,
    ) -> Conversation | None:
        """The conversation of a request; None for a side request, which has none. Not `create`: only a known one."""
        if not client.name:
            return self._find_by_messages(scope, model, dialect, items, create)
        name = scope + client.name
        if not create and not self._exists(name):
            return None
        if not client.is_explicit and not has_tools and not self._shares_prefix(name, model, dialect, items):
            return None
        conversation = self._get(name, model, dialect, client.client)
        conversation.parent = scope + client.parent if client.parent else ""
        if client.parent and conversation.following.session.log.head <= 2:
            conversation.following.session.history.add_note(PARENT_TOPIC, scope + client.parent)
        return conversation

    def _shares_prefix(self, name: str, model: str, dialect: str, items: Sequence[HostItem[HostUnit]]) -> bool:
        if not self._exists(name):
            return False
        return bool(self._get(name, model, dialect, "").following.tree.match([item.key for item in items[:1]]))

    def _exists(self, name: str) -> bool:
        return name in self._open or self._data.store.head(name) > 0

    def _find_by_messages(
        self, scope: str, model: str, dialect: str, items: Sequence[HostItem[HostUnit]], create: bool
    ) -> Conversation | None:
        keys = [item.key for item in items]
        chains = chain_keys(f"{scope}{dialect}", keys)
        answers = [place for place, item in enumerate(items) if item.message.role == "assistant"]
        best: tuple[int, Conversation] | None = None
        for place in (len(keys), *reversed(answers)):
            for name in self._names_by_chain(scope, chains[place]):
                conversation = self._get(name, model, dialect, "")
                matched = conversation.following.tree.match(keys)
                is_unanswered = len(matched) == len(keys) and matched[-1:] == [conversation.following.tree.tip]
                is_retry = is_unanswered and not conversation.users
                if (len(matched) > place or is_retry) and (best is None or len(matched) > best[0]):
                    best = len(matched), conversation
            if best is not None:
                break
        if best is None and not create:
            return None
        found = best[1] if best else self._create_by_messages(scope, chains[-1], model, dialect)
        self._remember_chain(chains[-1], found.name)
        return found

    def _names_by_chain(self, scope: str, chain: str) -> list[str]:
        """Sessions in which a request with these messages was seen, and those that began with such a request."""
        found = list(self._by_chain.get(chain, ()))
        base = f"{scope}auto-{chain}"
        for number in range(1, _MAX_ALIKE + 1):
            name = base if number == 1 else f"{base}-{number}"
            if name not in found:
                if not self._exists(name):
                    break
                found.append(name)
        return found

    def _create_by_messages(self, scope: str, chain: str, model: str, dialect: str) -> Conversation:
        base = f"{scope}auto-{chain}"
        names = (base if number == 1 else f"{base}-{number}" for number in range(1, _MAX_ALIKE + 1))
        name = next((name for name in names if not self._exists(name)), f"{base}-{_MAX_ALIKE}")
        return self._get(name, model, dialect, "")

    def _remember_chain(self, chain: str, name: str) -> None:
        names = self._by_chain.setdefault(chain, [])
        self._by_chain.move_to_end(chain)
        if name not in names:
            names.append(name)
            del names[:-_MAX_ALIKE]
        while len(self._by_chain) > _MAX_KNOWN_CHAINS:
            self._by_chain.popitem(last=False)

    def _get(self, name: str, model: str, dialect: str, client: str) -> Conversation:
        known = self._open.get(name)
        if known is not None and (known.users or (known.model == model and known.dialect == dialect)):
            self._open.move_to_end(name)
            return known
        if known is not None:
            self._close(name)
        settings = self._settings
        policy = load(settings.policy_for(model, client))
        if settings.retention_days:
            policy = msgspec.structs.replace(policy, retention=settings.retention_days)
        session = self._data.open(
            name,
            model,
            policy=policy,
            window=settings.window_for(model) or self._find_learned_window(model),
            wire=dialect,
            restore=False,
            live_trace=False,
        )
        session.history.observe(lambda event: self._activity.note_change(name))
        if self._make_watcher is not None:
            session.history.observe(self._make_watcher(name))
        conversation = Conversation(name, dialect, FollowingSession(session))
        self._open[name] = conversation
        self._close_idle()
        return conversation

    def _list_running(self) -> set[str]:
        return {name for name, conversation in self._open.copy().items() if conversation.users}

    def _close_idle(self) -> None:
        """Close the sessions that were not used for the longest time. What is open never grows without bound."""
        for name in list(self._open)[:-1]:
            if len(self._open) <= self._settings.open_sessions:
                break
            if not self._open[name].users:
                self._close(name)
        self._metrics.open_sessions = len(self._open)

    def _close(self, name: str) -> None:
        self._open.pop(name).following.session.close()

    async def prepare(
        self, conversation: Conversation, items: Sequence[HostItem[HostUnit]], fixed_part: FixedPart
    ) -> FollowedRequest[HostUnit]:
        """Log what is new and compute the view. If another worker removed the session, it is closed here, too."""
        try:
            return await conversation.following.prepare_async(items, fixed_part=fixed_part)
        except SessionNotFound:
            if self._open.get(conversation.name) is conversation:
                self._close(conversation.name)
            raise

    def close(self) -> list[TidegateError]:
        """Close every session. Return what went wrong: nothing that was acknowledged depends on it."""
        failed: list[TidegateError] = []
        for name in list(self._open):
            try:
                self._close(name)
            except TidegateError as failure:
                failed.append(failure)
        return failed


def _parse_windows(text: str | None) -> dict[str, int]:
    """The learned windows by model; none if the file is missing or damaged."""
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, int])
    except msgspec.MsgspecError:
        return {}


def chain_keys(start: str, keys: Sequence[str]) -> list[str]:
    """The hash of every beginning of a list of keys: the entry n is that of the first n keys."""
    state = blake2b(start.encode(), digest_size=12)
    found = [state.copy().hexdigest()]
    for key in keys:
        state.update(key.encode())
        found.append(state.copy().hexdigest())
    return found
