"""Recounts the tokens of an imported log: counts decide what fits the window, so those of the file are not trusted."""

import msgspec

from tidegate.core.edits import Edit, Insert, Replace
from tidegate.core.errors import BadInput, BadPolicy
from tidegate.core.events import Event, MessageAdded, NoteAdded, ViewEdited
from tidegate.core.messages import Image, Message, Part, Result, Role, resolve_visibility
from tidegate.core.notes import ModelNote, SystemSet, ToolsSet, is_note, read_note
from tidegate.core.tokens.counting import TokenCounter, TokenEstimator, count_message, count_system, count_tools
from tidegate.core.tokens.image_size import read_image_size
from tidegate.models.token_counters import create_counter
from tidegate.session.request import parse_model_note
from tidegate.wire.registry import resolve_dialect

_LONGEST_NAME = 200
"""Characters of a model's name that is looked up."""


class EventRecounter:
    """Takes the events of a log in order and returns each with our own counts, for the model that the log names.

    `model_note` is the first note of a model in the log: a session writes its system prompt before it.
    """

    def __init__(self, model_note: str) -> None:
        self._counter: TokenCounter
        self._labelled: set[str] = set()
        self._turn_to(model_note)

    def _turn_to(self, model_note: str) -> None:
        note = parse_model_note(model_note)
        is_known = len(note.model) <= _LONGEST_NAME
        self._counter = create_counter(note.model) if is_known else TokenEstimator()
        try:
            self._thinking = resolve_dialect(note.wire, note.model if is_known else "").capabilities.plain_thinking
        except (BadInput, BadPolicy):
            self._thinking = False

    def event(self, event: Event) -> Event:
        what = event.payload
        if isinstance(what, MessageAdded):
            message = _measure_images(what.message)
            if message.role == "system":
                self._labelled.add(message.id)
            visible = resolve_visibility(message)
            tokens = 0 if visible is None else self._count(visible)
            return _with(event, msgspec.structs.replace(what, message=message, tokens=tokens))
        if isinstance(what, ViewEdited):
            return _with(event, msgspec.structs.replace(what, edits=tuple(map(self._edit, what.edits))))
        if is_note(what, SystemSet, ToolsSet, ModelNote):
            return _with(event, self._note(what))
        return event

    def _edit(self, edit: Edit) -> Edit:
        if isinstance(edit, Replace):
            parts = _measure_images(Message("user", edit.parts)).parts
            role: Role = "system" if edit.id in self._labelled else "user"
            return msgspec.structs.replace(edit, parts=parts, tokens=self._count(Message(role, parts)))
        if isinstance(edit, Insert):
            message = _measure_images(edit.message)
            return msgspec.structs.replace(edit, message=message, tokens=self._count(message))
        return edit

    def _note(self, note: NoteAdded) -> NoteAdded:
        if is_note(note, ModelNote):
            self._turn_to(note.text)
            return note
        if is_note(note, SystemSet):
            return msgspec.structs.replace(note, tokens=count_system(note.text, self._counter))
        change = read_note(note, ToolsSet)
        if change is None:  # the fold refuses it
            return note
        return msgspec.structs.replace(note, tokens=count_tools(change.tools, self._counter))

    def _count(self, message: Message) -> int:
        return count_message(message, self._counter, thinking=self._thinking)


def _with(event: Event, what: MessageAdded | ViewEdited | NoteAdded) -> Event:
    return event if what == event.payload else msgspec.structs.replace(event, payload=what)


def _measure_images(message: Message) -> Message:
    """Return the message with the true size of each picture, which decides its tokens; 0 by 0 if its data is
    missing.
    """
    parts = tuple(map(_measure_part, message.parts))
    return message if parts == message.parts else msgspec.structs.replace(message, parts=parts)


def _measure_part(part: Part) -> Part:
    if isinstance(part, Result):
        inner = tuple(_measure_image(each) if isinstance(each, Image) else each for each in part.parts)
        return part if inner == part.parts else msgspec.structs.replace(part, parts=inner)
    return _measure_image(part) if isinstance(part, Image) else part


def _measure_image(image: Image) -> Image:
    size = read_image_size(image.data)
    return (
        image if size == (image.width, image.height) else msgspec.structs.replace(image, width=size[0], height=size[1])
    )
