"""The messages of a framework, read for the engine and written back as the view shows them.

A framework has its own message objects. `HostReader` reads each of them once. `write_view` returns the list to send:
what the view keeps is the framework's own object; what it edits is a copy with the edited parts.

A `MessageFormat` says how the objects of one framework are read and copied. One object may hold several messages of the
engine, such as a request with several tool results.
"""

from collections.abc import Iterator, Sequence
from operator import is_
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from tidegate.core.messages import Image, Message, Part, Result, Text, Thinking, result_of
from tidegate.session.following import FollowedRequest, HostItem, Shown, make_host_item
from tidegate.wire.rendering.layout import FIRST_USER_FILLER, NO_OUTPUT_TEXT

HostObject = TypeVar("HostObject")


class MessagePiece(NamedTuple):
    """A message of the engine, and the places in the framework's object where its parts are."""

    message: Message
    places: tuple[int, ...]


class HostPiece(NamedTuple, Generic[HostObject]):
    """One of the pieces of the object at a place of a framework's list. `is_whole`: the object has no other."""

    host: HostObject
    places: tuple[int, ...]
    is_whole: bool
    number: int


class PartEdit(NamedTuple):
    """A part of the copy: that at `place` of the original, unchanged if `part` is None. A new part has the place -1."""

    place: int
    part: Part | None = None


class MessageFormat(Protocol[HostObject]):
    """How the messages of a framework are read and written. `results_are_user`: results are parts of user messages."""

    results_are_user: bool

    def read(self, host: HostObject, /) -> Sequence[MessagePiece]:
        """The messages in an object of the framework."""

    def rewrite(self, host: HostObject, edits: Sequence[PartEdit], /) -> HostObject:
        """A copy of the object with these parts. The original must not be changed."""

    def insert(self, message: Message, /) -> HostObject:
        """A new object for a message of the engine: a text, or the result of a call."""


class HostReader(Generic[HostObject]):
    """Reads the list of a framework. Objects that are at their place of the last call are not read again."""

    def __init__(self, form: MessageFormat[HostObject]) -> None:
        self._form = form
        self._known: tuple[list[HostObject], list[HostItem[HostPiece[HostObject]]]] = [], []

    def read(self, hosts: Sequence[HostObject]) -> list[HostItem[HostPiece[HostObject]]]:
        known, items = self._known
        same = len(known) if len(known) <= len(hosts) and all(map(is_, known, hosts)) else 0
        found = items[:] if same else []
        for number in range(same, len(hosts)):
            found += self._read_one(hosts[number], number)
        self._known = list(hosts), found
        return found[:]

    def _read_one(self, host: HostObject, number: int) -> list[HostItem[HostPiece[HostObject]]]:
        pieces = self._form.read(host)
        return [
            make_host_item(HostPiece(host, piece.places, len(pieces) == 1, number), piece.message) for piece in pieces
        ]


class _Output(NamedTuple, Generic[HostObject]):
    """An object to send: one of the framework's with its parts, or a message of the engine.

    `number` is its number in the framework's list, or -1. `texts` are its parts if it consists of texts alone.
    """

    role: str
    host: HostObject | None
    number: int
    edits: list[PartEdit]
    texts: tuple[Text, ...]
    message: Message | None = None
    is_kept: bool = False


def write_view(
    form: MessageFormat[HostObject], hosts: Sequence[HostObject], request: FollowedRequest[HostPiece[HostObject]]
) -> list[HostObject]:
    """The list to send in place of `hosts`."""
    if request.is_unchanged:
        return list(hosts)
    outputs: list[_Output[HostObject]] = []
    for group in _group_by_object(request.shown):
        output = _make_output(form, group)
        outputs += _join(outputs.pop(), output) if outputs else [output]
    if outputs and outputs[0].role == "assistant" and outputs[0].number != 0:
        filler = Message("user", (Text(FIRST_USER_FILLER),))
        outputs.insert(0, _Output[HostObject]("user", None, -1, [], (), filler))
    return [_write_output(form, output) for output in outputs]


def _group_by_object(
    listed: Sequence[Shown[HostPiece[HostObject]]],
) -> Iterator[list[Shown[HostPiece[HostObject]]]]:
    group: list[Shown[HostPiece[HostObject]]] = []
    for shown in listed:
        item, last = shown.item, group[-1].item if group else None
        if group and not (item is not None and last is not None and item.host.host is last.host.host):
            yield group
            group = []
        group.append(shown)
    if group:
        yield group


def _make_output(form: MessageFormat[HostObject], group: Sequence[Shown[HostPiece[HostObject]]]) -> _Output[HostObject]:
    first, item = group[0], group[0].item
    if item is not None and item.host.is_whole and first.state == "kept" and _keeps_signatures(first):
        return _make_kept_output(form, first, item.host)
    parts = [part for shown in group for part in shown.message.parts]
    texts = tuple(part for part in parts if isinstance(part, Text))
    texts = texts if len(texts) == len(parts) else ()
    role = "user" if first.message.role == "system" and item is None else first.message.role
    if item is None:
        return _Output[HostObject](role, None, -1, [], texts, first.message)
    host = item.host.host
    edits = [edit for shown in group for edit in list_part_edits(shown)]
    places = [place for shown in group if shown.item for place in shown.item.host.places]
    is_complete = item.host.is_whole or len(group) == len(form.read(host))
    kept = is_complete and edits == [PartEdit(place) for place in places]
    roles = {shown.message.role for shown in group}
    if form.results_are_user and roles <= {"tool", "user"}:
        roles, role = {"user"}, "user"
    return _Output(role if len(roles) == 1 else "mixed", host, item.host.number, edits, texts, is_kept=kept)


def _keeps_signatures(shown: Shown[HostPiece[HostObject]]) -> bool:
    return shown.signed or all(_without_signature(part) is part for part in shown.message.parts)


def _make_kept_output(
    form: MessageFormat[HostObject], shown: Shown[HostPiece[HostObject]], piece: HostPiece[HostObject]
) -> _Output[HostObject]:
    """The same for an object that is kept as it is: most are."""
    role, parts = shown.message.role, shown.message.parts
    side = "user" if role == "tool" and form.results_are_user else role
    texts = tuple(part for part in parts if isinstance(part, Text))
    edits = [PartEdit(place) for place in piece.places]
    return _Output(side, piece.host, piece.number, edits, texts if len(texts) == len(parts) else (), None, is_kept=True)


def _join(first: _Output[HostObject], second: _Output[HostObject]) -> list[_Output[HostObject]]:
    """Join texts of one side that an edit brought together: some servers want the sides to alternate."""
    by_framework = first.number >= 0 and second.number == first.number + 1
    if first.role != second.role or first.role not in ("user", "assistant") or by_framework:
        return [first, second]
    if first.texts and second.message is None:
        added = [PartEdit(-1, Text(part.text)) for part in first.texts]
        return [second._replace(edits=[*added, *second.edits], texts=_add(first, second), is_kept=False)]
    if second.texts and first.message is None:
        added = [PartEdit(-1, Text(part.text)) for part in second.texts]
        return [first._replace(edits=[*first.edits, *added], texts=_add(first, second), is_kept=False)]
    if first.texts and second.texts:
        joined = Text("\n\n".join(part.text for part in (*first.texts, *second.texts)))
        return [
            first._replace(message=Message(first.message.role, (joined,)) if first.message else None, texts=(joined,))
        ]
    return [first, second]


def _add(first: _Output[HostObject], second: _Output[HostObject]) -> tuple[Text, ...]:
    return (*first.texts, *second.texts) if first.texts and second.texts else ()


def _write_output(form: MessageFormat[HostObject], output: _Output[HostObject]) -> HostObject:
    if output.host is None:
        assert output.message is not None
        return form.insert(output.message)
    return output.host if output.is_kept else form.rewrite(output.host, output.edits)


def list_part_edits(shown: Shown[HostPiece[HostObject]]) -> list[PartEdit]:
    """The parts of a shown piece, in terms of the places of its object."""
    assert shown.item is not None
    old, places = shown.item.message.parts, shown.item.host.places
    new = old if shown.state == "kept" else shown.message.parts
    if not shown.signed:
        new = tuple(part for part in map(_without_signature, new) if part is not None)
    if new == old:
        return [PartEdit(place) for place in places]
    if isinstance(old[0], Result) and len(places) == 1:
        result = result_of(shown.message)
        return [PartEdit(places[0], None if result == old[0] else result)]
    return _match_parts(old, new, places)


def _without_signature(part: Part) -> Part | None:
    if isinstance(part, Thinking):
        return None if part.block else part
    if isinstance(part, Text) and part.opaque:
        return msgspec.structs.replace(part, opaque="")
    return part


def _match_parts(old: Sequence[Part], new: Sequence[Part], places: Sequence[int]) -> list[PartEdit]:
    """The original part where it is unchanged, else that of the same kind with the new content."""
    unused = list(range(len(old)))
    found: list[PartEdit] = []
    for part in new:
        same = next((place for place in unused if old[place] == part), None)
        if same is None:
            same = next((place for place in unused if _is_successor(old[place], part)), None)
            found.append(PartEdit(-1 if same is None else places[same], part))
        else:
            found.append(PartEdit(places[same]))
        if same is not None:
            unused.remove(same)
    return found


def _is_successor(old: Part, new: Part) -> bool:
    """Whether a part can be the same one with other content. A call goes on only under its own id."""
    if type(old) is not type(new):
        return isinstance(old, Text) and isinstance(new, Text)
    return getattr(old, "id", "") == getattr(new, "id", "") and not isinstance(new, Image)


def render_result_text(result: Result) -> str:
    """The texts of a result as one; never empty, because some providers refuse that."""
    return "\n".join(part.text for part in result.parts if isinstance(part, Text)) or NO_OUTPUT_TEXT
