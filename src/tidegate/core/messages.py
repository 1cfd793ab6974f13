"""What was said.

A `Message` is neutral: it belongs to no provider. Everything a provider sent that we do not understand (signed
thinking, encrypted reasoning, thought signatures) is carried as an opaque string, byte for byte, and is rendered
again only for the dialect named in `Message.origin`. A block is kept whole or goes whole.

Values are frozen msgspec structs: cheap to make, cheap to compare, and encoded without code of ours. They cannot hold
cycles, so the garbage collector need not look at them.
"""

from collections.abc import Iterable, Iterator
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
MENTIONED_FILE = "[file "
"""How the text of a mentioned file begins."""


class Text(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="text", omit_defaults=True):
    text: str
    opaque: str = ""

    @property
    def typed(self) -> bool | None:
        """Whether the user typed this text; None where nobody said. See `MarkedText`."""
        return None


class MarkedText(Text, frozen=True, gc=False, array_like=True, tag="marked", omit_defaults=True):
    """A text of which is known whether the user typed it: only then may it lay down rules (`core/text/rule_text.py`).

    Mentioned files, pasted blocks and text of programs are marked False. A struct of its own, so that a text without a
    mark is written as it always was. No provider is sent the mark.
    """

    typed: bool = False


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
    parts: tuple[Text | MarkedText | Image, ...] = ()
    error: bool = False


Part = Text | MarkedText | Image | Thinking | Call | Result


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


def user_message(text: str, kind: str = "", *, typed: bool | None = None) -> Message:
    """A user-role text; with a kind it is a note of the engine, which starts no turn."""
    return Message("user", (mark_text(text, typed),), kind=kind, user_visible=not kind)


def mark_text(text: str, typed: bool | None) -> Text:
    return Text(text) if typed is None else MarkedText(text, typed=typed)


def mark_texts(message: Message, typed: bool) -> Message:
    """The message of a user with its texts marked, other messages as they are. What was not typed stays so."""
    if message.role != "user":
        return message
    parts = tuple(
        MarkedText(part.text, part.opaque, typed and part.typed is not False) if isinstance(part, Text) else part
        for part in message.parts
    )
    return msgspec.structs.replace(message, parts=parts)


def common_mark(parts: Iterable[Part]) -> bool | None:
    """The mark of a text made of these parts: typed only if all of them were."""
    marks = {part.typed for part in parts if isinstance(part, Text)}
    return False if False in marks else None if None in marks or not marks else True


def calls_of(message: Message) -> list[Call]:
    if message.role != "assistant":
        return []
    return [part for part in message.parts if isinstance(part, Call)]


def result_of(message: Message) -> Result | None:
    for part in message.parts:
        if isinstance(part, Result):
            return part
    return None


def is_user_request(message: Message) -> bool:
    """The words of the user themselves: these start a turn."""
    return message.role == "user" and not message.kind


def texts_of(message: Message) -> Iterator[str]:
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
    return "\n".join(texts_of(message))
