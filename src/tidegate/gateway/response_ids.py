"""Requests that continue an answer which the provider has stored, by its id (`session/stored_answers.py`).

An id belongs to whom it was given: it is looked up by the gateway's token and the caller's key, so the id of another
user is unknown here, whatever the provider makes of it. A request with an unknown id is passed on as it is.

Which session an id belongs to is remembered, and written to the data folder where a later request could have nothing
else: for the first answer of a conversation, and for answers to requests with such an id.
"""

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from typing import Final

from tidegate.core.errors import TidegateError
from tidegate.core.events import NoteAdded
from tidegate.core.notes import SentUnmanaged, SentWhole
from tidegate.disk.folder import TextFolder
from tidegate.gateway.callers import identify_caller
from tidegate.gateway.conversations import Conversation, Conversations
from tidegate.gateway.exchange import Exchange
from tidegate.gateway.hidden_recall import restore_waiting_results
from tidegate.gateway.page import SessionActivity
from tidegate.gateway.session_search import SearchedRequest
from tidegate.gateway.store_gate import StoreGate
from tidegate.gateway.upstream_clients import CLIENT_KEY_HEADERS, IncomingRequest
from tidegate.session.answer_copy import AnswerCopy, CopiedAnswer
from tidegate.session.managed_request import ClientRequest, continue_stored, make_logged_unit, read_client_request
from tidegate.session.stored_answers import StoredChain, find_leading, list_phases_by_message, make_stored_note
from tidegate.wire.registry import get_dialect

IDS_FILE: Final = "gateway-responses"
_MAX_IDS: Final = 20_000
_MAX_FILE_BYTES: Final = 4_000_000
_UNKNOWN: Final = "it continues an answer (previous_response_id) that this gateway does not know from this caller"
_WHOLE: Final = (
    "the whole view was sent in place of previous_response_id, because it had to be shortened; the hidden reasoning of"
    " the model so far is not in it"
)


class ResponseIds:
    """`activity` gets what the page says of requests that belong to no session."""

    def __init__(
        self,
        folder: TextFolder,
        conversations: Conversations,
        gate: StoreGate,
        activity: SessionActivity,
        note_once: Callable[[str], None],
    ) -> None:
        self._folder = folder
        self._conversations = conversations
        self._gate = gate
        self._activity = activity
        self._note_once = note_once
        self._sessions: OrderedDict[str, str] = OrderedDict()
        self._read_bytes = 0

    # --- requests -------------------------------------------------------------------------------------------------

    async def find(
        self, request: IncomingRequest, client: ClientRequest, searched: SearchedRequest
    ) -> tuple[Conversation | None, ClientRequest]:
        """The conversation of a request that names a stored answer, and the request with what the log has before it.

        None if the log does not know the answer: then the request is passed on as it is. Use what is found before the
        next `await`.
        """
        if name := await self._find_session(_hash_id(request, client.host.previous_id)):
            conversation = await self._conversations.get(
                name, searched.model, searched.dialect, searched.client.client, searched.window
            )
            conversation.is_found = conversation.is_found or not searched.client.name
            with conversation.in_use():
                session = conversation.following.session
                continuation = await self._gate.wait(session.call_async, _continue_answer, conversation, client)
                if continuation is not None:
                    return conversation, continuation
        self._activity.note_passed_on(request.scope, _UNKNOWN)
        self._note_once(f"a request is passed on unmanaged and not logged: {_UNKNOWN}")
        name = request.scope + searched.client.name
        if searched.client.name and await self._conversations.exists(name):
            named_session = await self._conversations.get(
                name, searched.model, searched.dialect, searched.client.client, searched.window
            )
            with named_session.in_use(), suppress(TidegateError, OSError):
                history = named_session.following.session.history
                await self._gate.run(history.append_note, SentUnmanaged(_UNKNOWN))
        return None, client

    async def _find_session(self, key: str) -> str:
        """The session with this answer; empty if there is none, or if it is another's."""
        if key not in self._sessions:
            await self._gate.run(self._read_file)
        name = self._sessions.get(key, "")
        return name if name and await self._conversations.exists(name) else ""

    def _read_file(self) -> None:
        size = self._folder.size(IDS_FILE)
        if size == self._read_bytes:
            return
        self._read_bytes = size
        for line in (self._folder.read(IDS_FILE) or "").splitlines():
            key, _, name = line.partition(" ")
            if name and key not in self._sessions:
                self._keep(key, name)

    def note_sent(self, exchange: Exchange, text: bytes, *, is_view: bool) -> None:
        """Take note of what the provider stores with the next answer; not `is_view`: something else than the view."""
        form, client = exchange.dialect.stored_answers, exchange.client
        if form is None:
            return
        exchange.sent_view = exchange.followed.hash_view() if is_view and form.stores_answer(client.body) else ""
        note = SentWhole(_WHOLE).pack()
        if client.chain is not None and not form.has_previous_id(text) and note not in exchange.notes:
            exchange.notes.append(note)

    # --- answers --------------------------------------------------------------------------------------------------

    def make_notes(self, exchange: Exchange, copy: AnswerCopy, copied: CopiedAnswer) -> list[NoteAdded]:
        """The note after an answer that the provider stores, if the client can name it."""
        client, form = exchange.client, exchange.dialect.stored_answers
        exchange.response_id = exchange.response_id or copy.response_id
        goes_on = exchange.recall is not None and exchange.recall.merged.goes_on
        if form is None or not copy.response_id or goes_on or not form.stores_answer(client.body):
            return []
        messages = client.body.get(exchange.dialect.messages_key)
        first = messages[: client.host.fixed_items] if isinstance(messages, list) else []
        return [
            make_stored_note(
                exchange.conversation.following.tree.stored_answers,
                exchange.response_id,
                copy.response_id,
                exchange.sent_view,
                form.list_phases(copied.client_messages),
                client.chain.leading if client.chain is not None else first,
            ).pack()
        ]

    async def remember(self, exchange: Exchange) -> None:
        """Remember to whom and to which session the answer belongs that was just logged."""
        request, name = exchange.sent_request, exchange.conversation.name
        if request is None or exchange.response_id not in exchange.conversation.following.tree.stored_answers:
            return
        key = _hash_id(request, exchange.response_id)
        self._keep(key, name)
        own = exchange.own
        if own.chain is None and any(item.message.role == "assistant" for item in own.items):
            return
        try:
            await self._gate.run(self._write, f"{key} {name}\n")
        except (TidegateError, OSError) as failure:
            self._note_once(f"the id of an answer was not stored: {type(failure).__name__}")

    def _keep(self, key: str, name: str) -> None:
        self._sessions[key] = name
        self._sessions.move_to_end(key)
        while len(self._sessions) > _MAX_IDS:
            self._sessions.popitem(last=False)

    def _write(self, line: str) -> None:
        if self._folder.size(IDS_FILE) > _MAX_FILE_BYTES:
            self._folder.update(IDS_FILE, _drop_older_half)
        self._folder.append(IDS_FILE, line)


def _drop_older_half(text: str | None) -> str:
    lines = (text or "").splitlines(keepends=True)
    return "".join(lines[len(lines) // 2 :])


def _hash_id(request: IncomingRequest, ident: str) -> str:
    """An answer by its id and by who may continue it: the caller, or the key itself if it names nobody."""
    mark = identify_caller(request.headers, request.query, b"").mark
    keys = [] if mark else [request.headers.get(name, "") for name in CLIENT_KEY_HEADERS]
    who = "\0".join([request.scope, request.route.upstream.name, mark, *keys, ident])
    return sha256(who.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _continue_answer(conversation: Conversation, client: ClientRequest) -> ClientRequest | None:
    """The request with what is before it; None if the log does not know the answer. This reads the log."""
    following, dialect = conversation.following, get_dialect(client.dialect)
    answers, ident = following.tree.stored_answers, client.host.previous_id
    if ident not in answers:
        following.session.history.refresh()  # another worker may have logged it
    answer = answers.get(ident)
    if answer is None or dialect.stored_answers is None:
        return None
    if answer.provider_id != ident:
        text = dialect.stored_answers.replace_previous_id(client.text, answer.provider_id)
        client = read_client_request(client.dialect, text, client.host.model) or client
    client = restore_waiting_results(conversation, client, answer.message)
    leading = find_leading(answers, answer)
    first = dialect.read_request({dialect.messages_key: list(leading)}).system
    system = "\n\n".join(each for each in (client.host.system, first) if each)
    logged = following.list_logged(answer.message, make_logged_unit)
    return continue_stored(client, StoredChain(answer, leading, list_phases_by_message(answers)), logged, system)
