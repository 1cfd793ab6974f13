"""Messages: the neutral form of everything said in a session.

A `Message` belongs to no provider. Data that only a provider understands (signed thinking, encrypted reasoning, thought
signatures) is carried as an opaque string, byte for byte, and is rendered again only for the dialect named in
`Message.origin`. A block is kept whole or dropped whole.

Values are frozen msgspec structs: cheap to make and to compare, and encoded without code of ours. They cannot hold
cycles, so they are excluded from garbage collection (`gc=False`).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, Protocol

import msgspec

Role = Literal["system", "user", "assistant", "tool"]

TOOL_RESULT = "tool_result"
ARCHIVED = "tool_result_archived"
TOOL_SUMMARY = "tool_summary"
SUMMARY = "summary"
REMINDER = "reminder"
NOTE = "note"
LEDGER = "ledger"
PIN = "pin"
INSTRUCTION = "instruction"
"""A system message of whoever wrote the configuration. It is sent as part of the system prompt."""
INTERRUPTED = "interrupted"
CLIENT_NOTE = "client_note"
"""A user message that a client wrote beside results of tools, such as a reminder."""
STATE_NOTE = "state_note"
"""A message that shows a state note (`core/state_note/`). The note in the log has the same name."""
HANDOFF = "handoff"
"""The record of what other clients did before in the session, in front of this client's own messages."""
MENTIONED_FILE = "[file "
"""The beginning of the text of a mentioned file."""


class Text(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="text", omit_defaults=True):
    """Plain text. `opaque` is what a provider wants back with it."""

    text: str
    opaque: str = ""

    @property
    def typed(self) -> bool | None:
        """Whether the user typed this text; None if unknown. See `MarkedText`."""
        return None


class MarkedText(Text, frozen=True, gc=False, array_like=True, tag="marked", omit_defaults=True):
    """A text that is known to be typed by the user or not. Only typed text may give rules (`core/text/rule_text.py`).

    Mentioned files, pasted blocks and text of programs are marked False. It is a separate struct so that a text without
    a mark is stored as before. The mark is never sent to a provider.
    """

    typed: bool = False


OPAQUE_MEDIA = "application/json"
"""The media type of content that the engine does not know: `Image.data` is then its JSON."""


class Image(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="image", omit_defaults=True):
    """Base64 `data` or a `url`. Width and height are pixels, 0 if unknown. Its token count depends on them.

    A document, or content of a client that the engine does not know, is carried in the same way under its own media
    type: it is never cut inside, and dialects that cannot send it name it by a placeholder.
    """

    media: str = "image/png"
    data: str = ""
    url: str = ""
    width: int = 0
    height: int = 0


class Thinking(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="thinking", omit_defaults=True):
    """Plain reasoning text, or `block`: the provider's JSON of a signed or encrypted block, never to be changed."""

    text: str = ""
    block: str = ""


class Compaction(Thinking, frozen=True, gc=False, array_like=True, tag="compaction", omit_defaults=True):
    """A block with a summary that the provider made, and reads in place of everything before it.

    A type of its own, because a further field would change the bytes of all thinking that is already stored.

    One that was made on demand has `horizon`, the id of the last message that it stands for, and `birth`, that of an
    answer to exactly these messages: what follows them keeps its signed thinking (`core/thinking_walk.py`).
    """

    horizon: str = ""
    birth: str = ""


class Call(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="call", omit_defaults=True):
    """A tool call. `arguments` is the JSON text as the model wrote it. It may be invalid; renderers repair it."""

    id: str
    name: str
    arguments: str = "{}"
    opaque: str = ""


class Result(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="result", omit_defaults=True):
    """The result of a tool call; `error` says that the call failed."""

    call_id: str
    parts: tuple[Text | MarkedText | Image, ...] = ()
    error: bool = False


Part = Text | MarkedText | Image | Thinking | Compaction | Call | Result


class Message(msgspec.Struct, frozen=True, gc=False, array_like=True, omit_defaults=True):
    """One message. A tool message has exactly one Result; only assistant messages have calls.

    `kind` is empty for messages of people and models. For messages that the engine added (a summary, a reminder) or
    changed (an archived result) it names the purpose. `origin` is the dialect that produced the message.
    """

    role: Role
    parts: tuple[Part, ...] = ()
    id: str = ""
    kind: str = ""
    agent_visible: bool = True
    user_visible: bool = True
    origin: str = ""


class Tool(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A tool definition; `parameters` is its JSON Schema as JSON text."""

    name: str
    description: str = ""
    parameters: str = '{"type":"object","properties":{}}'


def user_message(text: str, kind: str = "", *, typed: bool | None = None) -> Message:
    """A message of role user. With a `kind` it is a note of the engine, which starts no turn."""
    return Message("user", (mark_text(text, typed),), kind=kind, user_visible=not kind)


def mark_text(text: str, typed: bool | None) -> Text:
    return Text(text) if typed is None else MarkedText(text, typed=typed)


def mark_texts(message: Message, typed: bool) -> Message:
    """A user message with its texts marked; other messages unchanged. A text marked as not typed stays so."""
    if message.role != "user":
        return message
    parts = tuple(
        MarkedText(part.text, part.opaque, typed and part.typed is not False) if isinstance(part, Text) else part
        for part in message.parts
    )
    return msgspec.structs.replace(message, parts=parts)


def common_mark(parts: Iterable[Part]) -> bool | None:
    """The mark for a text joined from these parts: typed only if all of them are."""
    marks = {part.typed for part in parts if isinstance(part, Text)}
    return False if False in marks else None if None in marks or not marks else True


def is_instruction(message: Message) -> bool:
    """Whether a message is sent as part of the system prompt. Other system messages are labeled user text."""
    return message.role == "system" and message.kind == INSTRUCTION


def calls_of(message: Message) -> list[Call]:
    if message.role != "assistant":
        return []
    return [part for part in message.parts if type(part) is Call]


def result_of(message: Message) -> Result | None:
    for part in message.parts:
        if type(part) is Result:
            return part
    return None


def is_user_request(message: Message) -> bool:
    """Whether the message is a request of the user. Each one starts a turn."""
    return message.role == "user" and not message.kind


def texts_of(message: Message) -> Iterator[str]:
    """The texts of a message, including results, without thinking and arguments of calls."""
    for part in message.parts:
        if isinstance(part, Text):
            yield part.text
        elif isinstance(part, Result):
            yield from (inner.text for inner in part.parts if isinstance(inner, Text))


def compaction_of(message: Message) -> Compaction | None:
    """The block of this message that the provider reads in place of everything before it."""
    for part in message.parts:
        if type(part) is Compaction:  # for these classes isinstance takes ten times as long if the answer is no
            return part
    return None


def compacts_history(message: Message) -> bool:
    """Whether the provider reads a block of this message in place of everything before it."""
    return compaction_of(message) is not None


def read_out_compaction(message: Message) -> Message:
    """The message with what a compaction by another provider says as plain text."""
    block = compaction_of(message)
    if block is None or not block.text:
        return message
    parts = tuple(Text(f"[summary]\n{block.text}") if part is block else part for part in message.parts)
    return msgspec.structs.replace(message, parts=parts)


def resolve_visibility(message: Message) -> Message | None:
    """How a message enters the view: as it is, not at all, or (an invisible result, whose call needs one) as a stub."""
    if message.agent_visible:
        return message
    result = result_of(message)
    if result is None:
        return None
    stub = Result(result.call_id, (Text("[archived]"),), result.error)
    return msgspec.structs.replace(message, parts=(stub,), kind=ARCHIVED)


def text_of(message: Message) -> str:
    if len(message.parts) == 1:  # nearly all are
        only = message.parts[0]
        if type(only) is Result and len(only.parts) == 1:  # isinstance takes ten times as long if the answer is no
            only = only.parts[0]
        if isinstance(only, Text):
            return only.text
    return "\n".join(texts_of(message))


def encode_into_bytes(encoder: msgspec.msgpack.Encoder | msgspec.json.Encoder, value: object) -> bytes:
    """The same as `encoder.encode(value)`, but if memory runs out it raises MemoryError.

    `encode` of msgspec 0.22 and earlier crashes the interpreter then. Costs one microsecond more.
    """
    buffer = bytearray()
    encoder.encode_into(value, buffer)
    return bytes(buffer)


class _HasMessage(Protocol):
    @property
    def message(self) -> Message: ...


class KindIndex:
    """Finds the places of the messages of one kind in a list that only grows, without reading all of it each time."""

    def __init__(self) -> None:
        self._items: Sequence[_HasMessage] = ()
        self._kind = ""
        self._places: list[int] = []
        self._read = 0

    def find(self, items: Sequence[_HasMessage], kind: str) -> Sequence[int]:
        """The places of the items of a kind. A list object that was passed before may have grown at its end."""
        if items is not self._items or kind != self._kind:
            self._items, self._kind, self._places, self._read = items, kind, [], 0
        for place in range(self._read, len(items)):
            if items[place].message.kind == kind:
                self._places.append(place)
        self._read = len(items)
        return self._places
