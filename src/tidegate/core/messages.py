"""What was said.

A `Message` is neutral: it belongs to no provider. Everything a provider sent that we do not understand (signed
thinking, encrypted reasoning, thought signatures) is carried as an opaque string, byte for byte, and is rendered
again only for the dialect named in `Message.origin`. A block is kept whole or goes whole.

Values are frozen msgspec structs: cheap to make, cheap to compare, and encoded without code of ours. They cannot hold
cycles, so the garbage collector need not look at them.
"""

from collections.abc import Iterator
from typing import Literal

import msgspec

Role = Literal["system", "user", "assistant", "tool"]

TOOL_RESULT = "tool_result"
ARCHIVED = "tool_result_archived"
TOOL_SUMMARY = "tool_summary"
SUMMARY = "summary"
REMINDER = "reminder"
NOTE = "note"
INTERRUPTED = "interrupted"


class Text(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="text", omit_defaults=True):
    text: str
    opaque: str = ""


class Image(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="image", omit_defaults=True):
    """Base64 `data` or a `url`. Width and height are pixels, 0 when unknown: they decide what it costs."""

    media: str = "image/png"
    data: str = ""
    url: str = ""
    width: int = 0
    height: int = 0


class Thinking(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="thinking", omit_defaults=True):
    """Plain reasoning text, or `block`: the provider's own JSON of a signed or encrypted block, never to be touched."""

    text: str = ""
    block: str = ""


class Call(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="call", omit_defaults=True):
    """A tool call. `arguments` is the JSON text as the model wrote it; it may be broken, a renderer mends it."""

    id: str
    name: str
    arguments: str = "{}"
    opaque: str = ""


class Result(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="result", omit_defaults=True):
    call_id: str
    parts: tuple[Text | Image, ...] = ()
    error: bool = False


Part = Text | Image | Thinking | Call | Result


class Message(msgspec.Struct, frozen=True, gc=False, array_like=True, omit_defaults=True):
    """One thing said. A tool message holds exactly one Result; calls stand only in assistant messages.

    `kind` is empty for what people and models said, and names the purpose of what the engine added (a summary, a
    reminder, ...) or did (an archived result). `origin` is the dialect that produced it.
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


def user(text: str, kind: str = "") -> Message:
    """A user-role text; with a kind it is a note of the engine, which starts no turn."""
    return Message("user", (Text(text),), kind=kind, user_visible=not kind)


def calls_of(message: Message) -> list[Call]:
    if message.role != "assistant":
        return []
    return [part for part in message.parts if isinstance(part, Call)]


def result_of(message: Message) -> Result | None:
    for part in message.parts:
        if isinstance(part, Result):
            return part
    return None


def is_request(message: Message) -> bool:
    """The words of the user themselves: these start a turn."""
    return message.role == "user" and not message.kind


def texts(message: Message) -> Iterator[str]:
    """Every readable text of a message, results included, thinking and arguments not."""
    for part in message.parts:
        if isinstance(part, Text):
            yield part.text
        elif isinstance(part, Result):
            yield from (inner.text for inner in part.parts if isinstance(inner, Text))


def text_of(message: Message) -> str:
    if len(message.parts) == 1:  # nearly all are
        only = message.parts[0]
        if isinstance(only, Result) and len(only.parts) == 1:
            only = only.parts[0]
        if isinstance(only, Text):
            return only.text
    return "\n".join(texts(message))
