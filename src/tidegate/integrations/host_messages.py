"""The messages of a framework, read for the engine and written back as the view shows them.

A framework has its own message objects. `HostReader` reads each of them once. `ViewWriter` makes the list to send:
what the view keeps is the framework's own object; what it edits is a copy with the edited parts.

A `MessageFormat` says how the objects of one framework are read and copied. One object may hold several messages of the
engine, such as a request with several tool results.
"""

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from tidegate.core.messages import Image, Message, Part, Result, Text, Thinking, result_of
from tidegate.session.following import FollowedRequest, HostItem, Shown, make_host_item
from tidegate.wire.rendering.layout import FIRST_USER_FILLER
from tidegate.wire.splicing.memo import LastList, is_equal

HostObject = TypeVar("HostObject")


class MessagePiece(NamedTuple):
    """A message of the engine, and the places in the framework's object where its parts are."""

    message: Message
    places: tuple[int, ...]


class HostPiece(NamedTuple):
    """One of the `pieces` of the object that is at the place `number` of a framework's list.

    `has_signed_data`: the message has parts that must not be sent as they are behind an edit.
    """

    places: tuple[int, ...]
    pieces: int
    number: int
    has_signed_data: bool


class PartEdit(NamedTuple):
    """A part of the copy: that at `place` of the original, unchanged if `part` is None. A new part has the place -1."""

    place: int
    part: Part | None = None


class MessageFormat(Protocol[HostObject]):
    """How the messages of a framework are read and written.

    `results_are_user`: results are parts of user messages. Messages that are equal (`==`) are the same.
    """

    results_are_user: bool

    def read(self, host: HostObject, /) -> Sequence[MessagePiece]:
        """The messages in an object of the framework."""

    def rewrite(self, host: HostObject, edits: Sequence[PartEdit], /) -> HostObject:
        """A copy of the object with these parts. The original must not be changed."""

    def insert(self, message: Message, /) -> HostObject:
        """A new object for a message of the engine: a text, or the result of a call."""


class Copies(NamedTuple, Generic[HostObject]):
    """How to recognize the messages of a framework that copies all of them for each call.

    `originals` are the objects that it copies. A message is compared by its `get_value`.
    """

    originals: Sequence[object]
    get_value: Callable[[HostObject], object]


RECHECKED = 4
"""Objects at the end of the known list that are read again with every call: frameworks change recent messages."""


class HostReader(Generic[HostObject]):
    """Reads the list of a framework. Objects that are at their place of the last call are not read again.

    The framework's objects are compared by identity, and by value if they are copies: some frameworks copy their
    messages for each call, others when they load a conversation. An object that the framework changes in place is
    noticed if it is one of the last few, or if it is at another place than before.

    With `Copies`, all copies are compared only if the originals are not the same objects as before, or if the list has
    not grown by as many objects as they have. Else those are compared that the last view showed: they may be sent.
    """

    def __init__(self, form: MessageFormat[HostObject]) -> None:
        self._form = form
        self._known = LastList[object]()
        self._originals: list[object] = []
        self._shown: Sequence[int] = ()
        self._items: list[HostItem[HostPiece]] = []
        self._ends: list[int] = []  # for each object the number of items up to its end

    def read(self, hosts: Sequence[HostObject], copies: Copies[HostObject] | None = None) -> list[HostItem[HostPiece]]:
        """The items of the list: the same list as before with what is new, or another if the past was rewritten."""
        if copies is None:
            same = self._known.update(hosts if isinstance(hosts, list) else list(hosts))
        else:
            same = self._update_copies(hosts, copies)
        self._forget_after(same)
        for number in range(max(0, same - RECHECKED), same):
            begin, end = self._ends[number - 1] if number else 0, self._ends[number]
            read = self._read_one(hosts[number], number)
            if [item.key for item in read] != [item.key for item in self._items[begin:end]]:
                self._forget_after(number)
                break
        for number in range(len(self._ends), len(hosts)):
            self._items += self._read_one(hosts[number], number)
            self._ends.append(len(self._items))
        return self._items

    def _update_copies(self, hosts: Sequence[HostObject], copies: Copies[HostObject]) -> int:
        old_items, before, originals = self._known.items, self._originals, list(copies.originals)
        self._originals = originals
        count = len(before)
        is_grown = len(originals) - count == len(hosts) - len(old_items) >= 0
        if is_grown and count:
            # If a framework loads a conversation again, all are other objects. To compare these would take long.
            before += originals[count:]
            is_grown = before[count - 1] is originals[count - 1] and is_equal(before, originals)
        earlier_messages = self._shown if is_grown else ()
        values = [copies.get_value(hosts[number]) for number in earlier_messages]
        if not is_grown or not is_equal([old_items[number] for number in earlier_messages], values):
            return self._known.update(list(map(copies.get_value, hosts)))
        count = len(old_items)
        old_items += map(copies.get_value, hosts[count:])
        return count

    def note_shown(self, request: FollowedRequest[HostPiece]) -> None:
        """Remember which objects of the list the view shows."""
        entries = request.changed
        if entries is None:
            self._shown = range(len(self._ends))
        else:
            self._shown = [entry.item.host.number for entry in entries if entry.item is not None]

    def _forget_after(self, number: int) -> None:
        if number < len(self._ends):
            del self._ends[number:]
            self._items = self._items[: self._ends[-1] if self._ends else 0]

    def _read_one(self, host: HostObject, number: int) -> list[HostItem[HostPiece]]:
        pieces = self._form.read(host)
        return [
            make_host_item(HostPiece(piece.places, len(pieces), number, _has_signed_data(piece.message)), piece.message)
            for piece in pieces
        ]


def _has_signed_data(message: Message) -> bool:
    return any(_without_signature(part) is not part for part in message.parts)


class _Output(NamedTuple):
    """An object to send: that at the place `number` of the framework's list, with these parts; or a message (-1).

    `movable` are its parts, if they can be sent in the message beside it: texts, and results where these are parts of
    user messages. If it `is_kept`, those from `first` on are sent with it, all of them as they are.
    """

    role: str
    first: int
    number: int
    edits: list[PartEdit]
    movable: tuple[Part, ...]
    message: Message | None = None
    is_kept: bool = False


class ViewWriter(Generic[HostObject]):
    """Makes the lists that are sent in place of a framework's own.

    As a rule a view begins with the last one, up to its last object. What to send for that is known; the objects
    themselves are written again, because the framework may change those that it got.
    """

    def __init__(self, form: MessageFormat[HostObject]) -> None:
        self._form = form
        self._known: list[Shown[HostPiece]] = []
        self._outputs: list[_Output] = []  # for those

    def write(self, hosts: Sequence[HostObject], request: FollowedRequest[HostPiece]) -> list[HostObject]:
        """The list to send in place of `hosts`."""
        if request.changed is None:
            return list(hosts)
        outputs = self._plan(request.changed)
        if outputs and outputs[0].role == "assistant" and outputs[0].number != 0:
            outputs.insert(0, _Output("user", -1, -1, [], (), Message("user", (Text(FIRST_USER_FILLER),))))
        objects: list[HostObject] = []
        for output in outputs:
            if output.message is not None:
                objects.append(self._form.insert(output.message))
            elif output.is_kept:
                objects += hosts[output.first : output.number + 1]
            else:
                objects.append(self._form.rewrite(hosts[output.number], output.edits))
        return objects

    def _plan(self, view: list[Shown[HostPiece]]) -> list[_Output]:
        size = len(self._known)
        if view[:size] != self._known:
            self._outputs, size = [], 0
        groups = _group_by_object(view[size:])
        for group in groups[:-1]:
            _add_output(self._outputs, _make_output(self._form, group))
        self._known = view[: len(view) - len(groups[-1])] if groups else view
        outputs = self._outputs[:]
        for group in groups[-1:]:  # it may be joined with what follows
            _add_output(outputs, _make_output(self._form, group))
        return outputs


def write_view(
    form: MessageFormat[HostObject], hosts: Sequence[HostObject], request: FollowedRequest[HostPiece]
) -> list[HostObject]:
    """The list to send in place of `hosts`, for a single request."""
    return ViewWriter(form).write(hosts, request)


_Group = list[Shown[HostPiece]]


def _group_by_object(listed: Sequence[Shown[HostPiece]]) -> list[_Group]:
    """The pieces by their objects."""
    groups: list[_Group] = []
    last = -1
    for entry in listed:
        number = entry.item.host.number if entry.item else -1
        if number >= 0 and number == last:
            groups[-1].append(entry)
        else:
            groups.append([entry])
        last = number
    return groups


def _make_output(form: MessageFormat[HostObject], group: _Group) -> _Output:
    first, item = group[0], group[0].item
    parts = [part for entry in group for part in entry.message.parts]
    is_movable = all(isinstance(part, Text) or (item is None and isinstance(part, Result)) for part in parts)
    movable = tuple(parts) if is_movable else ()
    role = first.message.role
    if item is None:
        side = "user" if role == "system" or (role == "tool" and form.results_are_user) else role
        return _Output(side, -1, -1, [], movable, first.message)
    number = item.host.number
    edits = [edit for entry in group for edit in list_part_edits(entry)]
    is_kept = len(group) == item.host.pieces and all(map(_is_kept, group))
    roles = {entry.message.role for entry in group}
    if form.results_are_user and roles <= {"tool", "user"}:
        roles, role = {"user"}, "user"
    return _Output(role if len(roles) == 1 else "mixed", number, number, edits, movable, is_kept=is_kept)


def _is_kept(entry: Shown[HostPiece]) -> bool:
    return entry.state == "kept" and entry.item is not None and (entry.signed or not entry.item.host.has_signed_data)


def _add_output(outputs: list[_Output], output: _Output) -> None:
    """Add an output. Adjacent objects that are kept become one output, but the first one and the last one of a view
    may be joined with others, and so may be the last one of those that are kept.
    """
    if not outputs:
        outputs.append(output)
        return
    last = outputs.pop()
    is_next = output.number == last.number + 1
    if is_next and output.is_kept and last.is_kept and outputs:
        outputs.append(output._replace(first=last.first))
        return
    if last.first < last.number:
        outputs.append(last._replace(number=last.number - 1))
    outputs += _join(last._replace(first=last.number), output)


def _join(first: _Output, second: _Output) -> list[_Output]:
    """Join texts of one side that an edit brought together: some servers want the sides to alternate."""
    by_framework = first.number >= 0 and second.number == first.number + 1
    if first.role != second.role or first.role not in ("user", "assistant") or by_framework:
        return [first, second]
    movable = (*first.movable, *second.movable) if first.movable and second.movable else ()
    if first.movable and second.message is None:
        further_edits = [PartEdit(-1, _without_signature(part)) for part in first.movable]
        return [second._replace(edits=[*further_edits, *second.edits], movable=movable, is_kept=False)]
    if second.movable and first.message is None:
        further_edits = [PartEdit(-1, _without_signature(part)) for part in second.movable]
        return [first._replace(edits=[*first.edits, *further_edits], movable=movable, is_kept=False)]
    if movable and first.message:
        texts = _join_texts(movable)
        return [first._replace(message=Message(first.message.role, texts), movable=texts)]
    return [first, second]


def _join_texts(parts: Sequence[Part]) -> tuple[Part, ...]:
    """The results, and the texts as one."""
    texts = [part.text for part in parts if isinstance(part, Text)]
    return (*(part for part in parts if isinstance(part, Result)), *([Text("\n\n".join(texts))] if texts else []))


def list_part_edits(entry: Shown[HostPiece]) -> list[PartEdit]:
    """The parts of a shown piece, in terms of the places of its object."""
    assert entry.item is not None
    old, places = entry.item.message.parts, entry.item.host.places
    new = old if entry.state == "kept" else entry.message.parts
    if not entry.signed:
        new = tuple(part for part in map(_without_signature, new) if part is not None)
    if new == old:
        return [PartEdit(place) for place in places]
    if isinstance(old[0], Result) and len(places) == 1:
        result = result_of(entry.message)
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
    parts: list[PartEdit] = []
    for part in new:
        same = next((place for place in unused if old[place] == part), None)
        if same is None:
            same = next((place for place in unused if _is_successor(old[place], part)), None)
            parts.append(PartEdit(-1 if same is None else places[same], part))
        else:
            parts.append(PartEdit(places[same]))
        if same is not None:
            unused.remove(same)
    return parts


def _is_successor(old: Part, new: Part) -> bool:
    """Whether a part can be the same one with other content. A call goes on only under its own id."""
    if type(old) is not type(new):
        return isinstance(old, Text) and isinstance(new, Text)
    return getattr(old, "id", "") == getattr(new, "id", "") and not isinstance(new, Image)
