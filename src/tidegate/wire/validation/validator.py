"""The part that the validators of all dialects share: reading a body message by message, with forks.

A validator is a state machine over the message list. A prefix that was checked is never read again: keep its
validator, fork it, and feed the new messages to the fork.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import ClassVar, Literal, NamedTuple, Protocol, Self

import msgspec

from tidegate.wire.validation.faults import STRICT_PROFILE, RequestFault, ValidationProfile

MAX_STRING_CHARS = 10_485_760
_encoder = msgspec.json.Encoder()


class RequestValidator(Protocol):
    """Checks a request message by message. A fork continues independently of its parent."""

    @property
    def faults(self) -> list[RequestFault]: ...
    def feed(self, message: object, /) -> None: ...
    def fork(self) -> Self: ...
    def finish(self) -> list[RequestFault]: ...


class BodyFormat(NamedTuple):
    """Where a body holds its messages, and the provider's words for a body that is malformed or too large.

    `place_start` and `place_end` enclose the number of a message in the provider's notation. `long_string` words a
    string longer than the provider takes; None: it has no such limit. `too_large` is the fault of a body with more
    than `max_bytes`.
    """

    messages_key: str
    place_start: str
    place_end: str
    bad_body: Callable[[object], str]
    bad_list: Callable[[object], str]
    bad_message: Callable[[str, object], str]
    unsendable: str
    long_string: Callable[[str, int, int], str] | None = None
    max_bytes: int = 0
    too_large: RequestFault | None = None


class MessageListValidator(ABC):
    """Feed the messages in order; `finish` may be called at any point and changes nothing.

    A dialect sets its state and then calls `_read_head`. All state is copied by `fork`.
    """

    body_format: ClassVar[BodyFormat]

    def __init__(self, head: Mapping[str, object], profile: ValidationProfile = STRICT_PROFILE) -> None:
        self._profile = profile
        self._found = FaultLog()
        self._at = 0  # the number of messages fed
        self._bytes = 0

    @classmethod
    def validate(cls, body: object, profile: ValidationProfile = STRICT_PROFILE) -> list[RequestFault]:
        """Every fault of the body; a body of any shape is judged, none raises."""
        if not isinstance(body, Mapping):
            return [RequestFault("SHAPE", cls.body_format.bad_body(body), "")]
        validator = cls(body, profile)
        messages = cls._messages_of(body)
        if not isinstance(messages, list):
            key = cls.body_format.messages_key
            return [*validator.faults, RequestFault("SHAPE", cls.body_format.bad_list(messages), key)]
        for message in messages:
            validator.feed(message)
        return validator.finish()

    @classmethod
    def _messages_of(cls, body: Mapping[str, object]) -> object:
        return body.get(cls.body_format.messages_key)

    @property
    def faults(self) -> list[RequestFault]:
        """The faults that no later message can correct."""
        return self._found.all()

    def feed(self, message: object, /) -> None:
        at = self._at
        self._at = at + 1
        body_format = self.body_format
        where = f"{body_format.place_start}{at}{body_format.place_end}"
        if not isinstance(message, dict):
            self._add("SHAPE", body_format.bad_message(where, message), where)
            return
        self._weigh(message, where)
        self._check_message(message, at, where)

    def fork(self) -> Self:
        child = object.__new__(type(self))
        child.__dict__.update((name, _fork_value(value)) for name, value in self.__dict__.items())
        return child

    def finish(self) -> list[RequestFault]:
        faults = [*self.faults, *self._end_faults()]
        if self.body_format.too_large and self._bytes > self.body_format.max_bytes:
            faults.append(self.body_format.too_large)
        return faults

    def _read_head(self, head: Mapping[str, object]) -> None:
        for key, value in head.items():
            if key != self.body_format.messages_key:
                self._weigh(value, str(key))
        self._check_head(head)

    def _weigh(self, value: object, where: str) -> None:
        """OC10: the value can be sent as JSON, and no string in it is too long."""
        try:
            size = measure_json_bytes(value)
        except UnsendableError as error:
            self._add("OC10", f"{self.body_format.unsendable}: {error}", where)
            return
        self._bytes += size
        if size > MAX_STRING_CHARS and (long_string := self.body_format.long_string):
            longest = longest_string_length(value)
            if longest > MAX_STRING_CHARS:
                self._add("OC10", long_string(where, MAX_STRING_CHARS, longest), where)

    def _add(self, rule: str, text: str, where: str) -> None:
        self._found.add(rule, text, where)

    @abstractmethod
    def _check_head(self, head: Mapping[str, object]) -> None: ...

    @abstractmethod
    def _check_message(self, message: dict[str, object], at: int, where: str) -> None: ...

    @abstractmethod
    def _end_faults(self) -> Iterator[RequestFault]:
        """What is wrong if no message follows."""


class ForkableState:
    """A part of a validator's state that changes and that a fork continues by itself."""

    __slots__ = ()

    def fork(self) -> Self:
        raise NotImplementedError


class FaultLog(ForkableState):
    """Faults in the order they were found. A fork keeps the earlier faults and grows independently of its parent."""

    __slots__ = ("_before", "_own", "_upto")

    def __init__(self, before: "FaultLog | None" = None, upto: int = 0) -> None:
        self._before = before
        self._upto = upto
        self._own: list[RequestFault] = []

    def add(self, rule: str, text: str, where: str) -> None:
        self._own.append(RequestFault(rule, text, where))

    def extend(self, faults: Iterable[RequestFault]) -> None:
        self._own.extend(faults)

    def fork(self) -> Self:
        # An empty link of the chain is skipped, so forks of a clean prefix cost nothing.
        return type(self)(self, len(self._own)) if self._own else type(self)(self._before, self._upto)

    def all(self) -> list[RequestFault]:
        parts = [self._own]
        node = self
        while node._before is not None:
            parts.append(node._before._own[: node._upto])
            node = node._before
        return [fault for part in reversed(parts) for fault in part]


class IdSet(ForkableState):
    """A set of ids with O(1) fork. The number stored with an id hides from a fork what its parent added later.

    A lookup walks the chain of forks that added something: keep one trunk and fork it again for each tail.
    """

    __slots__ = ("_before", "_own", "_upto")

    def __init__(self, before: "IdSet | None" = None, upto: int = 0) -> None:
        self._before = before
        self._upto = upto
        self._own: dict[str, int] = {}

    def add(self, key: str) -> bool:
        """True if the id is new."""
        if key in self:
            return False
        self._own[key] = len(self._own)
        return True

    def __contains__(self, key: str) -> bool:
        if key in self._own:
            return True
        node = self
        while node._before is not None:
            if node._before._own.get(key, node._upto) < node._upto:
                return True
            node = node._before
        return False

    def fork(self) -> Self:
        return type(self)(self, len(self._own)) if self._own else type(self)(self._before, self._upto)


class UnsendableError(ValueError):
    """The value has no JSON form that a provider can read."""


def measure_json_bytes(value: object) -> int:
    """Return the size of the value as compact JSON, in bytes.

    One pass in C answers three questions: how large it is, whether every string is valid Unicode, and whether it is
    JSON.
    """
    encoded = bytearray()
    try:
        _encoder.encode_into(value, encoded)  # not `encode`: see `encode_into_bytes`
        return len(encoded)
    except UnicodeEncodeError as error:
        raise UnsendableError(f"no low surrogate in string (character {error.start})") from None
    except RecursionError:
        raise UnsendableError("nested too deeply") from None
    except (TypeError, ValueError) as error:
        raise UnsendableError(str(error)) from None


def longest_string_length(value: object) -> int:
    longest = 0
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            longest = max(longest, len(node))
        elif isinstance(node, dict):
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)
    return longest


_IMMUTABLE = (str, int, tuple, frozenset, type(None), ValidationProfile, Mapping)


def _fork_value(value: object) -> object:
    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, ForkableState):
        return value.fork()
    if isinstance(value, _IMMUTABLE):
        return value
    raise TypeError(f"A validator holds {type(value).__name__}, which cannot be forked.")


class ToolEntry(NamedTuple):
    """One entry of a list of tools. `tool` is the object with the tool's name, None if the entry holds none."""

    where: str
    entry: object
    tool: dict[str, object] | None
    problem: Literal["", "bad name", "repeated name"] = ""


def walk_tools(
    entries: Iterable[tuple[str, object]],
    is_name: Callable[[str], object],
    names: set[str],
    tool_of: Callable[[object], object] = lambda entry: entry,
) -> Iterator[ToolEntry]:
    """Check the names of tools. Each entry comes with its place; `names` are those already taken."""
    for where, entry in entries:
        tool = tool_of(entry)
        if not isinstance(tool, dict):
            yield ToolEntry(where, entry, None)
            continue
        name = tool.get("name")
        if not isinstance(name, str) or not is_name(name):
            yield ToolEntry(where, entry, tool, "bad name")
        elif name in names:
            yield ToolEntry(where, entry, tool, "repeated name")
        else:
            names.add(name)
            yield ToolEntry(where, entry, tool)
