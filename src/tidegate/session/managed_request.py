"""A request of a client with the view of its conversation: the bytes that are sent in its place.

The gateway and `tidegate.managed` use it: both have the HTTP request that a client wrote. The adapter for OpenAI Agents
has a list of items that were never bytes (`ClientRequestReader.read_list`).
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from threading import Lock
from typing import Any, Final, NamedTuple

import msgspec

from tidegate.core.errors import BadRequest
from tidegate.core.ledger.recall_pointers import omit_recall_pointers, rename_recall_pointers
from tidegate.core.message_key import hash_message
from tidegate.core.messages import LEDGER, Message, Part, Result, Text, Tool, text_of
from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.session.following import FixedPart, FollowedRequest, HostItem, Shown, make_host_item
from tidegate.session.stored_answers import StoredChain
from tidegate.wire.dialect import Dialect
from tidegate.wire.openai_responses.dialect import DIALECT as RESPONSES
from tidegate.wire.parsing import encode_json_text
from tidegate.wire.registry import get_dialect
from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.request_check import RequestCheck, find_request_faults
from tidegate.wire.splicing.memo import ReadMemo, WriteMemo
from tidegate.wire.splicing.request_text import ListText, RequestText, decode_request
from tidegate.wire.splicing.units import HostRequest, HostUnit, PartOrigin, ShownUnit, show_unit
from tidegate.wire.validation.faults import RequestFault

_MIN_OUTPUT = 256
"""Tokens of output that are always left: less would end every answer at once."""
_MAX_KNOWN_BYTES: Final = 64_000_000
"""Of the requests that a ClientRequestReader remembers."""
_LIST_PLACE: Final = LazyPattern(r"(\w+)[.\[](\d+)")
_CALL_ID_KEYS: Final = ("id", "call_id", "tool_call_id", "tool_use_id")
_CALL_FIELDS: Final = ("content", "parts", "tool_calls", "functionCall", "functionResponse")


class ClientRequest(NamedTuple):
    """A request as the client sent it: its bytes (not compressed), its JSON, and its messages.

    With `offers_recall`, `text` has the tool `recall` beside the client's own. `recall_name` is the name of such a tool
    that the client has itself. `listed` is `text` with the places of its messages, if these are known. `source` is what
    is known of the client's own text and of the last request. With a `chain`, the request continues a stored answer:
    the first of the `items` are the messages up to it, which the text does not have. `cache_lifetime` is for how many
    seconds the client asks the provider to keep the request in its cache.
    """

    dialect: str
    text: bytes
    body: JsonObject
    host: HostRequest
    items: list[HostItem[HostUnit]]
    offers_recall: bool = False
    recall_name: str = ""
    source: "RequestSource | None" = None
    listed: ListText | None = None
    chain: StoredChain | None = None
    cache_lifetime: float = 0.0

    def change_head(self, text: bytes, change: Callable[[bytes], bytes]) -> bytes:
        """An edited request with a change outside its messages. They are not searched if that is possible."""
        return self.listed.change_head_of(text, change) if self.listed is not None else change(text)

    def add_tool(self, tool: Tool) -> "ClientRequest | None":
        """The request with a tool that the client does not have; None if it has no list of tools, or this name."""
        listed = self.listed or ListText(self.text, get_dialect(self.dialect).messages_key)
        heads = self.source.heads if self.source else _HeadsWithTool()
        head = heads.append(self.dialect, listed.read_head(), tool)
        host = msgspec.structs.replace(self.host, tools=(*self.host.tools, tool))
        if head is None:
            dialect = get_dialect(self.dialect)
            form, leading = dialect.calls, self.host.fixed_items
            text = form.append_tool_to_item(self.text, dialect.messages_key, leading, tool)
            return self._replace(text=text, listed=None, host=host, offers_recall=True) if text else None
        listed = listed.replace_head(head)
        return self._replace(text=listed.text, listed=listed, host=host, offers_recall=True)

    @property
    def fixed_part(self) -> FixedPart:
        return FixedPart(self.host.system, self.host.tools, self.offers_recall, self.cache_lifetime)


class _ViewUnits:
    """The units of the views of a conversation. Those that the last view had at its start are not made again."""

    def __init__(self) -> None:
        self._last: tuple[str | None, list[Shown[HostUnit]], list[ShownUnit]] = None, [], []
        self.memo = WriteMemo()

    def make(self, view: list[Shown[HostUnit]], recall_name: str | None) -> list[ShownUnit]:
        """`recall_name` is the name of the tool in notes; None leaves them as they are, an empty one takes it out."""
        known_name, last_view, units = self._last
        size = len(last_view)
        if known_name != recall_name or view[:size] != last_view:
            size = 0
        units = units[:size] + [_make_unit(each, recall_name) for each in view[size:]]
        self._last = recall_name, view, units
        return units


class _HeadsWithTool:
    """The heads of a conversation's requests with one more tool. One that is repeated is not written again."""

    def __init__(self) -> None:
        self._last: tuple[bytes, Tool, bytes | None] | None = None

    def append(self, dialect: str, head: bytes, tool: Tool) -> bytes | None:
        last = self._last
        if last is None or last[0] != head or last[1] != tool:
            last = self._last = head, tool, get_dialect(dialect).calls.append_tool(head, tool)
        return last[2]


@dataclass
class RequestSource:
    """The client's own text, and what is known of the requests of its conversation."""

    decoded: RequestText
    _check: RequestCheck = field(compare=False, repr=False)
    _own_check: RequestCheck = field(compare=False, repr=False)
    _lock: Lock = field(default_factory=Lock, compare=False, repr=False)
    units: _ViewUnits = field(default_factory=_ViewUnits, compare=False, repr=False)
    heads: _HeadsWithTool = field(default_factory=_HeadsWithTool, compare=False, repr=False)

    @classmethod
    def start(cls, dialect: str, decoded: RequestText) -> "RequestSource":
        """The source of the first request of a conversation."""
        return cls(decoded, RequestCheck(dialect), RequestCheck(dialect))

    def follow(self, decoded: RequestText) -> "RequestSource":
        """The source of the next request of the conversation."""
        return replace(self, decoded=decoded)

    def find_faults(self, text: bytes, model: str) -> list[RequestFault]:
        """The faults of an edited request. What the one before it had is not checked again."""
        with self._lock:
            return self._check.find_faults(text, model)

    def find_own_faults(self, text: bytes, model: str) -> list[RequestFault]:
        """The faults of the request before it was edited, which only matter if the edited one has some."""
        with self._lock:
            return self._own_check.find_faults(text, model)


class ItemWriter:
    """Writes the list of a Responses request that was never bytes: the host's own items where the view keeps them.

    Edited items are written once and kept as JSON, because the host may change those that it got.
    """

    def __init__(self) -> None:
        self._written: dict[int, tuple[Shown[HostUnit], bytes]] = {}

    def write(self, items: Sequence[JsonObject], view: Sequence[Shown[HostUnit]]) -> list[JsonObject]:
        output: list[JsonObject] = []
        before, self._written = self._written, {}
        for each in view:
            unit = each.item.host if each.item else None
            if unit is not None and each.state == "kept":
                output += items[unit.origins[0].item : unit.origins[-1].item + 1]  # the items of an answer are adjacent
                continue
            entry = before.get(id(each))
            if entry is None or entry[0] is not each:
                entry = each, _write_edited(items, unit, each)
            self._written[id(each)] = entry
            new_items = msgspec.json.decode(entry[1], type=dict[str, list[JsonObject]])["input"]
            content = _join_user_content(output[-1], new_items[0]) if unit is None and output else []
            if content:
                output[-1] = {**output[-1], "content": content}
            else:
                output += new_items
        return output


def _write_edited(items: Sequence[JsonObject], unit: HostUnit | None, entry: Shown[HostUnit]) -> bytes:
    """A request with the items of an edited unit."""
    own: list[JsonObject] = []
    if unit is not None:
        places = {place: number for number, place in enumerate(unit.items)}
        own = [items[place] for place in unit.items]
        origins = tuple(PartOrigin(places[origin.item], origin.block) for origin in unit.origins)
        unit = msgspec.structs.replace(unit, origins=origins)
    body = encode_json_text({"input": own}).encode()
    return RESPONSES.form.write_messages(body, [show_unit(unit, entry.message, entry.signed)])


def _join_user_content(first: JsonObject, second: JsonObject) -> list[object]:
    """The content of two user messages as one: some servers want the sides to alternate. Empty for others."""
    if first.get("role") != "user" or second.get("role") != "user":
        return []
    contents = [
        [{"type": "input_text", "text": each["content"]}] if isinstance(each["content"], str) else each["content"]
        for each in (first, second)
    ]
    return [block for content in contents if isinstance(content, list) for block in content]


class _KnownRequest:
    """The last request of a conversation: what was read from it, and its size."""

    def __init__(self) -> None:
        self.memo = ReadMemo()
        self.writer = ItemWriter()
        self.items: list[HostItem[HostUnit]] = []
        self.source: RequestSource | None = None
        self.size = 0  # in bytes, with what was written for the request before

    def read(self, dialect: Dialect, body: JsonObject) -> tuple[HostRequest, list[HostItem[HostUnit]]]:
        """The request and its items. Those of the last request are used again, because hashing takes longest."""
        old_items, self.items = self.items, []  # if this fails, none is used again
        host = dialect.read_request(body, self.memo)
        items = old_items[: self.memo.known_units]
        items += [HostItem(unit, unit.message, hash_message(unit.message)) for unit in host.units[len(items) :]]
        self.items = items
        return host, items


class ClientRequestReader:
    """Reads requests. A client sends its whole history with each one: what it repeats is not read again.

    It remembers the last request of each conversation, for at most `most` conversations, and within a limit in bytes.
    """

    def __init__(self, most: int = 64) -> None:
        self._most = most
        self._known: OrderedDict[tuple[str, str], _KnownRequest] = OrderedDict()
        self._size = 0

    def read(self, dialect: str, text: bytes, model: str, conversation: str = "") -> ClientRequest | None:
        """Read a request; None if it is not a JSON object, which the upstream shall say.

        `conversation` names the conversation, if that is known; else the first message identifies it.
        """
        form = get_dialect(dialect)
        key, stored_answers = form.form.key, form.stored_answers
        decoded = decode_request(text, key, self._find_last(dialect, text, conversation))
        if decoded is None:
            return None
        if stored_answers is not None and stored_answers.read_previous_id(decoded.body):
            return _read_alone(form, text, decoded, model)
        request = self._find_known(dialect, conversation or _identify_conversation(decoded.body.get(key)))
        host, items = request.read(form, decoded.body)
        host = _complete_host(host, decoded.body.get(key), model)
        source = request.source
        source = RequestSource.start(dialect, decoded) if source is None else source.follow(decoded)
        request.source = source
        self._count(request, len(text) + source.units.memo.size)
        return ClientRequest(
            dialect,
            text,
            decoded.body,
            host,
            items,
            source=source,
            listed=decoded.listed,
            cache_lifetime=form.read_cache_lifetime(decoded.body),
        )

    def _find_last(self, dialect: str, text: bytes, conversation: str) -> RequestText | None:
        """The last request of a conversation; without a name, the newest request that begins with the same message."""
        if conversation:
            request = self._known.get((dialect, conversation))
            return request.source.decoded if request and request.source else None
        sources = (request.source for (name, _), request in [*self._known.items()][::-1] if name == dialect)
        return next((each.decoded for each in sources if each and each.decoded.listed.shares_start(text)), None)

    def read_list(self, items: list[Any]) -> tuple[HostRequest, list[HostItem[HostUnit]], ItemWriter]:
        """Read the list of a Responses request that was never bytes. The caller must not change it afterwards."""
        body: JsonObject = {"input": items}
        request = self._find_known(RESPONSES.name, _identify_conversation(items))
        self._count(request, 0)
        return *request.read(RESPONSES, body), request.writer

    def _find_known(self, dialect: str, conversation: str) -> _KnownRequest:
        request = self._known.get((dialect, conversation))
        if request is None:
            request = self._known[dialect, conversation] = _KnownRequest()
        self._known.move_to_end((dialect, conversation))
        return request

    def _count(self, request: _KnownRequest, size: int) -> None:
        """Take note of the size of the newest request, and forget the oldest ones beyond the limits."""
        self._size += size - request.size
        request.size = size
        while len(self._known) > self._most or self._size > _MAX_KNOWN_BYTES:
            self._size -= self._known.popitem(last=False)[1].size


def _read_alone(form: Dialect, text: bytes, decoded: RequestText, model: str) -> ClientRequest:
    """A request that has only what is new in its conversation: nothing of the last one is in it."""
    host = _complete_host(form.read_request(decoded.body), decoded.body.get(form.messages_key), model)
    items = [make_host_item(unit, unit.message) for unit in host.units]
    source, lifetime = RequestSource.start(form.name, decoded), form.read_cache_lifetime(decoded.body)
    return ClientRequest(
        form.name, text, decoded.body, host, items, source=source, listed=decoded.listed, cache_lifetime=lifetime
    )


def _complete_host(host: HostRequest, messages: object, model: str) -> HostRequest:
    if model and not host.model:
        host = msgspec.structs.replace(host, model=model)
    if not _is_list_of_objects(messages):
        host = msgspec.structs.replace(host, reason="it has messages that are not objects", previous_id="")
    return host


def _is_list_of_objects(value: object) -> bool:
    return not isinstance(value, list) or set(map(type, value)) <= {dict}  # decoded JSON has no other mappings


def _identify_conversation(listed: object) -> str:
    first = listed[0] if isinstance(listed, list) and listed else None
    return blake2b(repr(first).encode("utf-8", "backslashreplace"), digest_size=12).hexdigest()


def read_client_request(dialect: str, text: bytes, model: str) -> ClientRequest | None:
    """Read a single request; None if it is not a JSON object."""
    return ClientRequestReader().read(dialect, text, model)


def write_request(client: ClientRequest, followed: FollowedRequest[HostUnit]) -> bytes:
    """The bytes to send: the client's own, or these with the edits of the view.

    BadRequest if an edited request breaks a rule that the client's own did not break.
    """
    text = client.text
    if client.chain is not None:
        text = _write_chained(client, followed, client.chain)
    elif followed.changed is not None:
        text = write_view(client, followed.shown)
    is_unchanged = text == client.text
    if followed.window:
        tokens = followed.tokens + _count_longer_names(client.recall_name, text)
        room = max(followed.window - tokens, _MIN_OUTPUT)
        limit = get_dialect(client.dialect).output
        if limit.read(client.body) > room:
            text = client.change_head(text, lambda head: limit.lower(head, client.body, room))
    return text if is_unchanged else _check_edited(client, text)


def continue_stored(
    client: ClientRequest, chain: StoredChain, logged: Sequence[HostItem[HostUnit]], system: str
) -> ClientRequest:
    """The request with the messages that it continues. `logged` are those of the log, made by `make_logged_unit`."""
    host = msgspec.structs.replace(client.host, system=system, reason="")
    return client._replace(chain=chain, items=[*logged, *client.items], host=host)


def make_logged_unit(message: Message) -> HostUnit:
    """The unit of a message that the provider has stored: it has no place in the client's text."""
    return HostUnit(message, (), True)


def _is_own(entry: Shown[HostUnit]) -> bool:
    return entry.item is not None and bool(entry.item.host.origins)


def _write_chained(client: ClientRequest, followed: FollowedRequest[HostUnit], chain: StoredChain) -> bytes:
    """The client's request, if the view begins with what the provider has stored; else the whole view.

    A view that begins with the answer itself is one that the provider has compacted in it.
    """
    view, answer = followed.shown, chain.answer
    is_start = followed.view_size > 0 and followed.view_items[0].message.id == answer.message
    if answer.view and (is_start or followed.hash_view(answer.message) == answer.view):
        answer_place = next(place for place, each in enumerate(view) if each.message.id == answer.message)
        rest = view[answer_place + 1 :]
        is_own_list = all(_is_own(each) and each.state == "kept" for each in rest)
        return client.text if is_own_list and len(rest) == len(client.host.units) else write_view(client, rest)
    writer = get_dialect(client.dialect).stored_answers
    assert writer is not None
    start = next((place for place, each in enumerate(view) if _is_own(each)), len(view))
    name = None if client.offers_recall else client.recall_name
    messages = [_write_pointers(each, name) or each.message for each in view[:start]]
    items = writer.render_stored(messages, client.body.get("tools"), chain.phases)
    return writer.write_whole(write_view(client, view[start:]), [*chain.leading, *items])


def write_without_thinking(client: ClientRequest) -> bytes:
    """The client's own request without signed thinking, which may be bound to a view that was sent before."""
    return write_view(client, [Shown("kept", item, item.message, False) for item in client.items])


def write_view(client: ClientRequest, view: list[Shown[HostUnit]]) -> bytes:
    """The client's bytes with the edits of the view."""
    view_units = client.source.units if client.source else _ViewUnits()
    name = None if client.offers_recall else client.recall_name
    if name == "":
        view = [each for each in view if not _is_empty_ledger(each.message)]
    units = view_units.make(view, name)
    items = client.listed.list_items() if client.listed is not None else None
    return get_dialect(client.dialect).form.write_messages(
        client.text, units, client.host.fixed_items, items, view_units.memo
    )


def _make_unit(entry: Shown[HostUnit], recall_name: str | None) -> ShownUnit:
    return show_unit(entry.item.host if entry.item else None, _write_pointers(entry, recall_name), entry.signed)


def _write_pointers(entry: Shown[HostUnit], recall_name: str | None) -> Message | None:
    """The message that is sent in place of the host's own, with the name of the tool; None for the host's own."""
    if entry.state == "kept" or recall_name is None:
        return None if entry.state == "kept" else entry.message
    change = partial(rename_recall_pointers, name=recall_name) if recall_name else omit_recall_pointers
    return _change_texts(entry.message, change)


def _is_empty_ledger(message: Message) -> bool:
    """Whether a ledger has nothing to say to a model that cannot recall: only its heading and its end are left."""
    if message.kind != LEDGER:
        return False
    return all(line[:1] in ("", "[") for line in omit_recall_pointers(text_of(message)).split("\n"))


def _change_texts(message: Message, change: Callable[[str], str]) -> Message:
    return msgspec.structs.replace(message, parts=tuple(_change_part(part, change) for part in message.parts))


def _change_part(part: Part, change: Callable[[str], str]) -> Part:
    if isinstance(part, Text):
        text = change(part.text)
        return part if text == part.text else msgspec.structs.replace(part, text=text)
    if isinstance(part, Result):
        parts = tuple(_change_part(each, change) for each in part.parts)
        return msgspec.structs.replace(part, parts=parts)
    return part


def _count_longer_names(name: str, text: bytes) -> int:
    """An upper bound of the tokens by which pointers with this name are longer than those that were counted."""
    return text.count(name.encode()) * (len(name) // 3 + 1) if name else 0


def _check_edited(client: ClientRequest, text: bytes) -> bytes:
    faults = find_new_faults(client, text)
    if any("must start with a thinking block" in fault.text for fault in faults):
        text = get_dialect(client.dialect).thinking.leave_out(text)
        faults = find_new_faults(client, text)
    if faults:
        raise BadRequest(
            f"The edited request broke a rule of {client.dialect}: {faults[0].rule} at {faults[0].where}",
            "The client's own request was sent. This is a defect of tidegate; please report it.",
        )
    return text


def find_new_faults(client: ClientRequest, text: bytes) -> list[RequestFault]:
    """The faults of an edited request that the client's own does not have.

    A fault of the client's own history has another place after an edit. So faults are compared by rule and by the
    calls and results of the message that breaks it; if it has none, by its role.
    """
    model, source = client.host.model, client.source
    faults = source.find_faults(text, model) if source else find_request_faults(client.dialect, text, model)
    if not faults:
        return []
    if source:
        own_faults = source.find_own_faults(client.text, model)
    else:
        own_faults = find_request_faults(client.dialect, client.text, model)
    edited, key = msgspec.json.decode(text, type=dict[str, Any]), get_dialect(client.dialect).messages_key
    old_places: dict[str, set[str]] = {}
    for fault in own_faults:
        old_places.setdefault(fault.rule, set()).update(_identify_place(fault.where, key, client.body.get(key)))
    return [
        fault
        for fault in faults
        if old_places.get(fault.rule, set()).isdisjoint(_identify_place(fault.where, key, edited[key]))
    ]


def _identify_place(where: str, key: str, messages: object) -> set[str]:
    """The message at a place of a fault, by its calls and results, else by its role; empty outside the messages."""
    match = _LIST_PLACE.match(where)
    place = int(match[2]) if match and match[1] == key else -1
    message = messages[place] if isinstance(messages, list) and 0 <= place < len(messages) else None
    if not isinstance(message, dict):
        return {""}
    return {*_identify_calls(message)} or {str(message.get("role"))}


def _identify_calls(value: object) -> Iterator[str]:
    """The calls and results in a message: by their ids, where there are none by name and arguments."""
    if isinstance(value, list):
        for each in value:
            yield from _identify_calls(each)
    elif isinstance(value, dict):
        ident = next((value[key] for key in _CALL_ID_KEYS if isinstance(value.get(key), str)), "")
        if ident or "args" in value:
            yield ident or encode_json_text([value.get("name"), value["args"]])
        else:
            for key in _CALL_FIELDS:
                yield from _identify_calls(value.get(key))
