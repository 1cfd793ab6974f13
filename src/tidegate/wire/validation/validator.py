"""The part that the validators of all dialects share: reading a body message by message, with forks.

A validator is a state machine over the message list. A prefix that was checked is never read again: keep its
validator, fork it, and feed the new messages to the fork.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import ClassVar, Literal, NamedTuple, Protocol, Self, runtime_checkable

from tidegate.wire.validation.faults import STRICT_PROFILE, FaultLog, RequestFault, ValidationProfile
from tidegate.wire.validation.json_checks import (
    MAX_STRING_CHARS,
    UnsendableError,
    longest_string_length,
    measure_json_bytes,
)


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


@runtime_checkable
class _Forkable(Protocol):
    def fork(self) -> Self: ...


_IMMUTABLE = (str, int, tuple, frozenset, type(None), ValidationProfile, Mapping)


def _fork_value(value: object) -> object:
    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, _IMMUTABLE):
        return value
    if isinstance(value, _Forkable):
        return value.fork()
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
