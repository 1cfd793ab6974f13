"""Small conversations as an agent's loop makes them, every text with a name and an exact size.

A text begins with `<name>` and ends with `</name>`, so a test can ask of a request which texts it holds, whole or cut.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from tidegate import Flush, Policy, Request, Session, Spill, SummaryRequest
from tidegate.core.events import Event, MessageAdded, NoteAdded, ViewEdited
from tidegate.core.messages import text_of
from tidegate.store.log import MemoryLog

Json = dict[str, Any]
T = TypeVar("T")
WORDS = "the valve opens at four bar and the pump follows after nine seconds unless the sensor says otherwise "
SYSTEM = "You are a careful engineer."


class Preset(Protocol):
    """The fixture `preset`: a shipped policy with these settings over its own."""

    def __call__(
        self,
        name: str,
        config: Mapping[str, object] | None = None,
        /,
        *,
        ignore_unknown: bool = False,
        **settings: object,
    ) -> Policy: ...


# --- what is said -----------------------------------------------------------------------------------------------------


def passage(name: str, size: int = 120, lines: int = 1) -> str:
    """`size` characters in so many lines, with the name at both ends."""
    head, tail = f"<{name}> ", f" </{name}>"
    middle = size - len(head) - len(tail)
    assert middle >= 0, f"{size} characters cannot hold the name {name}"
    text = (WORDS * (middle // len(WORDS) + 1))[:middle]
    breaks = {middle * line // lines for line in range(1, lines)}
    if breaks:
        text = "".join("\n" if place in breaks else each for place, each in enumerate(text))
    return head + text + tail


def asks(name: str, size: int = 120) -> Json:
    return {"role": "user", "content": passage(name, size)}


def replies(name: str, size: int = 120) -> Json:
    return {"role": "assistant", "content": passage(name, size)}


def calls(*ids: str, tool: str = "read_file", says: str = "", arguments: str = "") -> Json:
    """One assistant message with these calls; several ids are a parallel batch."""
    made = [
        {
            "id": each,
            "type": "function",
            "function": {"name": tool, "arguments": arguments or json.dumps({"path": each})},
        }
        for each in ids
    ]
    return {"role": "assistant", "content": says or None, "tool_calls": made}


def result(ident: str, text: str) -> Json:
    return {"role": "tool", "tool_call_id": ident, "content": text}


def batch(name: str, *sizes: int, tool: str = "read_file") -> list[Json]:
    """A parallel batch with its results: call ids and results are called `<name>.1`, `<name>.2`, ..."""
    ids = [f"{name}.{place}" for place in range(1, len(sizes) + 1)]
    texts = [passage(each, size) for each, size in zip(ids, sizes, strict=True)]
    return [calls(*ids, tool=tool), *(result(each, text) for each, text in zip(ids, texts, strict=True))]


def turn(number: int, *steps: Sequence[int], ask: int = 120, reply: int = 120, tool: str = "read_file") -> list[Json]:
    """A whole turn: `ask-3`, for every step a batch `call-3.1` with results of these sizes, and `reply-3`."""
    said = [asks(f"ask-{number}", ask)]
    for place, sizes in enumerate(steps, 1):
        said += batch(f"call-{number}.{place}", *sizes, tool=tool)
    return [*said, replies(f"reply-{number}", reply)]


def turns(first: int, last: int, *steps: Sequence[int], **sizes: Any) -> list[Json]:
    return [message for number in range(first, last + 1) for message in turn(number, *steps, **sizes)]


def tool(name: str, description: str = "Does what its name says.") -> Json:
    parameters = {"type": "object", "properties": {"path": {"type": "string"}}}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


# --- who is there -----------------------------------------------------------------------------------------------------


def opened(policy: Policy, *, window: int | None = 200_000, system: str = SYSTEM, **more: Any) -> Session:
    return Session(policy=policy, window=window, system=system, count="chars/4", **more)


def reopened(session: Session, **more: Any) -> Session:
    """The same session after a restart: made from the bytes of its log and nothing else."""
    assert isinstance(session.log, MemoryLog)
    log = MemoryLog(session.log.records())
    return Session(policy=session.policy, window=session.window, count="chars/4", log=log, **more)


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Scribe:
    """A model that writes summaries, and remembers what it was asked."""

    def __init__(self, text: str = "the scribe's words") -> None:
        self.text = text
        self.asked: list[SummaryRequest] = []

    def __call__(self, request: SummaryRequest) -> str:
        self.asked.append(request)
        return self.text

    def read(self) -> str:
        """All texts it was handed."""
        return "\n".join(text_of(message) for request in self.asked for message in request.messages)


class Edge:
    """Carries effects out, and remembers them in order."""

    def __init__(self, broken: bool = False) -> None:
        self.broken = broken
        self.carried: list[Spill | Flush] = []

    def __call__(self, effect: Spill | Flush) -> None:
        if self.broken:
            raise OSError("disk full")
        self.carried.append(effect)

    @property
    def flushed(self) -> list[Flush]:
        return [effect for effect in self.carried if isinstance(effect, Flush)]

    @property
    def spilled(self) -> list[Spill]:
        return [effect for effect in self.carried if isinstance(effect, Spill)]


# --- what a request holds ---------------------------------------------------------------------------------------------

Messages = Sequence[Mapping[str, Any]]
Shown = Request | Messages


def messages_of(shown: Shown) -> Messages:
    return shown.messages if isinstance(shown, Request) else shown


def flat(shown: Shown) -> str:
    """Every text of the messages of a request, calls included, one after the other."""
    return "\n".join(_strings(messages_of(shown)))


def _strings(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, Sequence):
        for inner in value:
            yield from _strings(inner)


def names(shown: Shown, start: str = "") -> list[str]:
    """The texts that begin in this request, in order, of those whose name begins so."""
    return [name for name in re.findall(r"<([a-z][a-z0-9.-]*)>", flat(shown)) if name.startswith(start)]


def numbers(shown: Shown, start: str) -> list[int]:
    """`numbers(request, "ask-")`: which turns' requests are there."""
    return [int(name.removeprefix(start).partition(".")[0]) for name in names(shown, start)]


def results(shown: Shown) -> dict[str, str]:
    """Tool results of an OpenAI chat request by call id."""
    return {message["tool_call_id"]: message["content"] for message in messages_of(shown) if message["role"] == "tool"}


def paired(shown: Shown) -> list[tuple[str, ...]]:
    """The batches of an OpenAI chat request; fails where a call has no result right behind it, or the reverse."""
    found: list[tuple[str, ...]] = []
    waiting: list[str] = []
    for message in messages_of(shown):
        if message["role"] == "tool":
            assert message["tool_call_id"] in waiting, f"a result without its call: {message['tool_call_id']}"
            waiting.remove(message["tool_call_id"])
            continue
        assert not waiting, f"calls without results: {waiting}"
        waiting = [call["id"] for call in message.get("tool_calls", ())]
        if waiting:
            found.append(tuple(waiting))
    assert not waiting, f"calls without results: {waiting}"
    return found


def encoded(shown: Shown) -> list[bytes]:
    return [json.dumps(message).encode() for message in messages_of(shown)]


def only(found: Sequence[T]) -> T:
    assert len(found) == 1, f"{len(found)} instead of one"
    return found[0]


# --- what the log tells -----------------------------------------------------------------------------------------------


class Made(NamedTuple):
    """A transaction of the log."""

    seq: int
    edited: ViewEdited


def edits(session: Session) -> list[Made]:
    return [Made(event.seq, event.payload) for event in session.log.read() if isinstance(event.payload, ViewEdited)]


def stages(session: Session) -> list[str]:
    """Which stages acted, in order. An empty list: the log holds no edit."""
    return [made.edited.stage for made in edits(session)]


def rules(session: Session) -> list[str]:
    return [made.edited.rule or made.edited.stage for made in edits(session)]


def said(session: Session) -> list[str]:
    """All texts ever said, from the log."""
    return [text_of(event.payload.message) for event in session.log.read() if isinstance(event.payload, MessageAdded)]


def noted(session: Session, topic: str) -> list[Event]:
    return [
        event for event in session.log.read() if isinstance(event.payload, NoteAdded) and event.payload.topic == topic
    ]


def fate(session: Session, rule: str) -> str:
    """What `explain` says of a rule: the line of the last request that names it."""
    lines = [line.strip() for line in str(session.explain()).splitlines()]
    found = [line for line in lines if line.startswith((f"{rule} acted", f"{rule} did not act"))]
    assert found, f"explain says nothing of {rule}: {lines}"
    return found[-1]
