"""Which session a request belongs to.

A client's id names the session. Without one, a session is found by the messages: a request belongs to a session if it
begins with messages that the session knows and with an answer that the session gave. Its name is the hash of the
messages of its first request, and a unique part, so that conversations with the same first message stay apart, however
many there are. The hash includes the caller's key (`callers.py`): another caller who sends the same messages gets a
session of its own. A first request that has no whole answer and is not under way any more is continued by the next one
like it: that is a retry.

Some clients rewrite the beginning of their list: Gemini CLI and Qwen Code shorten old results in it, and describe the
folder anew when they continue a conversation. Then a session of the same caller is continued that ends with the last
call, its results and the answer of the list. The list becomes a branch of its own, so what it may recall are its own
messages. Requests of the user that it left out are put back (`session/left_out_requests.py`). If no session is found, a
new one is made: that loses a link to the past, never a secret.
"""

import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from tidegate.core.messages import calls_of
from tidegate.core.notes import CallerMark, ParentSession, read_note
from tidegate.datafolder.data_folder import DataFolder
from tidegate.gateway.callers import Caller
from tidegate.gateway.conversations import Conversation, Conversations
from tidegate.gateway.routing import ClientId
from tidegate.gateway.store_gate import StoreGate
from tidegate.session.following import HostItem
from tidegate.store.store import list_names
from tidegate.wire.splicing.units import HostUnit

_MAX_ALIKE: Final = 1_000
"""Sessions with the same first messages that are remembered, the last used first."""
_MAX_OPENED: Final = 64
"""Sessions that are opened to look for one request. Looking into those that are open costs nothing."""
_MAX_KNOWN_CHAINS: Final = 20_000
_MIN_COMPARED: Final = 3
"""Messages by which a list is found again whose beginning was rewritten: its last call, results and the answer."""
_MAX_GROWING_CHAINS: Final = 64
"""Conversations whose hashes are kept to be continued."""
_OLD_NAME: Final = re.compile(r"auto-[0-9a-f]{24}(-\d{1,2})?\Z")
"""Names of versions that did not know callers."""
"""A note with the mark of the caller who continued a session of a version that did not know callers."""


class SearchedRequest(NamedTuple):
    """What is known of a request before its session is found."""

    client: ClientId
    scope: str
    caller: Caller
    model: str
    dialect: str
    items: Sequence[HostItem[HostUnit]]
    has_tools: bool
    window: int | None


class SessionSearch:
    def __init__(self, data: DataFolder, conversations: Conversations, gate: StoreGate) -> None:
        self._data = data
        self._conversations = conversations
        self._gate = gate
        self._by_chain: OrderedDict[str, list[str]] = OrderedDict()
        self._chains = _KnownChains()
        self._created: OrderedDict[str, None] = OrderedDict()
        self._owners: OrderedDict[str, tuple[str, ...]] = OrderedDict()  # whose sessions these are, the last used last

    async def find(self, request: SearchedRequest, *, create: bool = True) -> Conversation | None:
        """The conversation of a request; None for a side request, which has none. Not `create`: only a known one."""
        if request.client.name:
            return await self._find_named(request, create)
        return await self._find_by_messages(request, create)

    def find_named(self, request: SearchedRequest) -> Conversation | None:
        """The open conversation that the client names, whatever the request is for."""
        return self._conversations.find_open(request.scope + request.client.name)

    async def _open(self, name: str, request: SearchedRequest) -> Conversation:
        client = request.client.client
        return await self._conversations.get(name, request.model, request.dialect, client, request.window)

    # --- by name --------------------------------------------------------------------------------------------------

    async def _find_named(self, request: SearchedRequest, create: bool) -> Conversation | None:
        client, scope = request.client, request.scope
        name = scope + client.name
        if client.old_name and not await self._conversations.exists(name):
            name = await self._find_old_name(request) or name
        if not create and not await self._conversations.exists(name):
            return None
        if not client.is_explicit and not request.has_tools and not await self._knows_first(name, request):
            return None
        conversation = await self._open(name, request)
        conversation.parent = scope + client.parent if client.parent else ""
        if client.parent and conversation.following.session.log.head <= 2:
            with conversation.in_use():
                parent = conversation.parent
                await self._gate.run(conversation.following.session.history.append_note, ParentSession(parent))
        return conversation

    async def _find_old_name(self, request: SearchedRequest) -> str:
        """The name that an earlier version gave this conversation, if that session really is this conversation."""
        name = request.scope + request.client.old_name
        if not await self._conversations.exists(name):
            return ""
        tree = (await self._open(name, request)).following.tree
        return name if len(tree.match([item.key for item in request.items])) > 1 else ""

    async def _knows_first(self, name: str, request: SearchedRequest) -> bool:
        if not await self._conversations.exists(name):
            return False
        conversation = await self._open(name, request)
        return bool(conversation.following.tree.match([item.key for item in request.items[:1]]))

    # --- by messages ----------------------------------------------------------------------------------------------

    async def _find_by_messages(self, request: SearchedRequest, create: bool) -> Conversation | None:
        keys = [item.key for item in request.items]
        start, mark = f"{request.scope}{request.dialect}", request.caller.mark
        chains = self._chains.list_hashes(f"{request.scope}{mark}{request.dialect}" if mark else start, keys)
        answers = [place for place, item in enumerate(request.items) if item.message.role == "assistant"]
        conversation = await self._match(request, keys, chains, (len(keys), *reversed(answers)))
        if conversation is None and mark and answers:
            before = chain_keys(start, keys)
            conversation = await self._match(request, keys, before, list(reversed(answers)), only_old=True)
        conversation = conversation or self._find_rewritten(request, keys, answers)
        if conversation is None:
            if not create:
                return None
            name = f"{request.scope}auto-{chains[-1]}-{time.time_ns() // 1_000_000:x}{secrets.token_hex(3)}"
            self._created[name] = None
            while len(self._created) > _MAX_KNOWN_CHAINS:
                self._created.popitem(last=False)
            conversation = await self._open(name, request)
        conversation.is_found = True
        self._remember(chains[-1], conversation.name)
        self._owners[conversation.name] = _identify_owner(request)
        self._owners.move_to_end(conversation.name)
        while len(self._owners) > _MAX_ALIKE:
            self._owners.popitem(last=False)
        return conversation

    def _find_rewritten(
        self, request: SearchedRequest, keys: Sequence[str], answers: Sequence[int]
    ) -> Conversation | None:
        """The open session of this caller that ends as the list does, up to its last answer."""
        end = answers[-1] + 1 if answers else 0
        calls = (at for at in range(end - 2, -1, -1) if calls_of(request.items[at].message))
        last = request.items[next(calls, end) : end]
        if len(last) < _MIN_COMPARED or not request.caller.is_lasting:
            return None
        owner = _identify_owner(request)
        for name in [name for name, each in reversed(self._owners.items()) if each == owner]:
            candidate = self._conversations.find_open(name)
            if (
                candidate is not None
                and not candidate.users
                and candidate.following.tree.ends_with([item.key for item in last])
            ):
                candidate.following.restores_requests = True
                return candidate
        return None

    async def _match(
        self,
        request: SearchedRequest,
        keys: Sequence[str],
        chains: Sequence[str],
        places: Sequence[int],
        *,
        only_old: bool = False,
    ) -> Conversation | None:
        """The session that knows most of the messages: of those in memory, else of those in the store."""
        conversation = await self._match_names(
            request, keys, [(at, self._by_chain.get(chains[at], ())) for at in places]
        )
        if conversation is not None:
            return conversation
        prefix = f"{request.scope}auto-"

        def look_up() -> list[tuple[int, list[str]]]:
            by_place = [(at, list_names(self._data.store, prefix + chains[at])) for at in places]
            return [(at, [each for each in names if not only_old or _is_old(each)]) for at, names in by_place]

        return await self._match_names(request, keys, await self._gate.run(look_up))

    async def _match_names(
        self, request: SearchedRequest, keys: Sequence[str], names_by_place: Sequence[tuple[int, Sequence[str]]]
    ) -> Conversation | None:
        best: tuple[int, str] | None = None
        for place, names in names_by_place:
            is_open = self._conversations.find_open
            closed = [name for name in names if is_open(name) is None]
            for name in [*(name for name in names if is_open(name) is not None), *closed[:_MAX_OPENED]]:
                conversation = is_open(name) or await self._open(name, request)
                matched = conversation.following.tree.match(keys)
                is_unanswered = len(matched) == len(keys) and matched[-1:] == [conversation.following.tree.tip]
                is_retry = is_unanswered and not conversation.users
                if not (len(matched) > place or is_retry) or (best is not None and len(matched) <= best[0]):
                    continue
                if not _is_old(name) or await self._claim(conversation, request.caller.mark):
                    best = len(matched), name
            if best is not None:
                return await self._open(best[1], request)  # it may have been closed while others were looked into
        return None

    async def _claim(self, conversation: Conversation, mark: str) -> bool:
        """Whether this caller may continue a session of a version that did not know callers. The first one may."""
        session = conversation.following.session

        def claim() -> bool:
            payloads = (event.payload for event in session.log.read())
            marks = {note.text for each in payloads if (note := read_note(each, CallerMark)) is not None}
            if not marks and mark:
                session.history.append_note(CallerMark(mark))
            return marks <= {mark}

        with conversation.in_use():
            return await self._gate.run(claim)

    def _remember(self, chain: str, name: str) -> None:
        names = self._by_chain.setdefault(chain, [])
        self._by_chain.move_to_end(chain)
        if name in names:
            names.remove(name)
        names.insert(0, name)
        del names[_MAX_ALIKE:]
        while len(self._by_chain) > _MAX_KNOWN_CHAINS:
            self._by_chain.popitem(last=False)

    def is_surely_callers(self, request: SearchedRequest, conversation: Conversation) -> bool:
        """Whether the caller surely is the one whose words the session has, so that they may be recalled.

        A login without a part that stays cannot be recognized: its sessions are surely its own only in the process that
        made them.
        """
        is_known = bool(request.client.name) or request.caller.is_lasting
        return is_known or conversation.name in self._created


def _identify_owner(request: SearchedRequest) -> tuple[str, ...]:
    return request.scope, request.caller.mark, request.dialect, request.model


def _is_old(name: str) -> bool:
    return _OLD_NAME.search(name) is not None


class _Chain:
    """The hashes of every beginning of a list of keys: the entry n is that of the first n keys."""

    def __init__(self, start: str) -> None:
        self._state = blake2b(start.encode(), digest_size=12)
        self.keys: Sequence[str] = []
        self.hashes = [self._state.copy().hexdigest()]

    def extend(self, keys: Sequence[str]) -> None:
        """Take over a list that begins with the keys so far."""
        for key in keys[len(self.keys) :]:
            self._state.update(key.encode())
            self.hashes.append(self._state.copy().hexdigest())
        self.keys = keys


class _KnownChains:
    """The chains of the lists that were seen last: what a list repeats is not hashed again."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], _Chain] = OrderedDict()

    def list_hashes(self, start: str, keys: Sequence[str]) -> list[str]:
        name = start, keys[0] if keys else ""
        chain = self._known.pop(name, None)
        if chain is None or keys[: len(chain.keys)] != chain.keys:
            chain = _Chain(start)
        chain.extend(keys)
        self._known[name] = chain
        while len(self._known) > _MAX_GROWING_CHAINS:
            self._known.popitem(last=False)
        return chain.hashes[:]


def chain_keys(start: str, keys: Sequence[str]) -> list[str]:
    """The hash of every beginning of a list of keys: the entry n is that of the first n keys."""
    chain = _Chain(start)
    chain.extend(keys)
    return chain.hashes
