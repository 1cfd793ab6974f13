"""Masks secrets in events that leave the data folder. The log itself is not changed.

A signed block of reasoning is kept as it is, or, if it holds a secret, becomes plain reasoning without its signature:
with one byte changed the provider would refuse it, and with it the whole conversation. Ids and names are left alone:
they tie results to their calls.
"""

from collections.abc import Callable, Iterator

import msgspec

from tidegate.core.edits import Drop, Edit, RemoveRule, Replace
from tidegate.core.events import Event, EventPayload, MessageAdded, UsageReported, ViewEdited
from tidegate.core.messages import Call, Image, Message, Part, Result, Text, Thinking
from tidegate.core.notes import ModelNote, ToolsSet, is_note
from tidegate.store.log import LogReader

_MASK = "[masked]"
_EXTRA_TOKENS = 8
"""Tokens by which a mark may exceed the text it replaces. A count must stay an upper bound of what is sent."""

_JSON_NOTES = (ToolsSet, ModelNote)


class MaskedLog:
    """A log whose events are masked: a text must be masked before it is cut.

    `is_known`: the events with these numbers are left as they are, because the reader has seen them.
    """

    def __init__(
        self, log: LogReader, mask: Callable[[str], str], is_known: Callable[[int], bool] = lambda seq: False
    ) -> None:
        self._log = log
        self._masker = EventMasker(mask)
        self._is_known = is_known

    @property
    def head(self) -> int:
        return self._log.head

    def read(self, start: int = 1) -> Iterator[Event]:
        """Yield the events from this seq on."""
        for event in self._log.read(start):
            yield event if self._is_known(event.seq) else self._masker.mask_event(event)


class EventMasker:
    """`count` is how many secrets were masked so far."""

    def __init__(self, mask: Callable[[str], str]) -> None:
        self._mask = mask
        self.count = 0

    def mask_event(self, event: Event) -> Event:
        what = self._mask_payload(event.payload)
        return event if what is event.payload else msgspec.structs.replace(event, payload=what)

    def mask_text(self, text: str) -> str:
        safe_text = self._mask(text)
        if safe_text != text:
            self.count += max(1, safe_text.count(_MASK) - text.count(_MASK))
        return safe_text

    def mask_json(self, text: str) -> str:
        """Mask a text so that JSON stays JSON: if masking the whole text would break it, each string is masked."""
        safe_text = self._mask(text)
        if safe_text == text:
            return text
        value = _parse_json(text)
        if value is not None and _parse_json(safe_text) is None:
            return msgspec.json.encode(self._mask_value(value.value)).decode()
        self.count += max(1, safe_text.count(_MASK) - text.count(_MASK))
        return safe_text

    def _mask_value(self, value: object) -> object:
        if isinstance(value, str):
            return self.mask_text(value)
        if isinstance(value, list):
            return [self._mask_value(inner) for inner in value]
        if isinstance(value, dict):
            return {self.mask_text(key): self._mask_value(inner) for key, inner in value.items()}
        return value

    def _mask_payload(self, what: EventPayload) -> EventPayload:
        before = self.count
        if isinstance(what, MessageAdded):
            message = self._mask_message(what.message)
            tokens = self._raise_count(what.tokens, before)
            new_payload: EventPayload = msgspec.structs.replace(what, message=message, tokens=tokens)
        elif isinstance(what, ViewEdited):
            edits = tuple(self._mask_edit(edit) for edit in what.edits)
            new_payload = msgspec.structs.replace(what, why=self.mask_text(what.why), edits=edits)
        elif isinstance(what, UsageReported):
            return what
        else:
            text = self.mask_json(what.text) if is_note(what, *_JSON_NOTES) else self.mask_text(what.text)
            new_payload = msgspec.structs.replace(what, text=text, tokens=self._raise_count(what.tokens, before))
        return new_payload if self.count > before else what

    def _raise_count(self, tokens: int, before: int) -> int:
        return tokens + _EXTRA_TOKENS * (self.count - before) if tokens else 0

    def _mask_edit(self, edit: Edit) -> Edit:
        before = self.count
        if isinstance(edit, Drop):
            return edit
        if isinstance(edit, RemoveRule):
            return RemoveRule(self.mask_text(edit.text), edit.id)
        if isinstance(edit, Replace):
            parts = tuple(self._mask_part(part) for part in edit.parts)
            return msgspec.structs.replace(edit, parts=parts, tokens=self._raise_count(edit.tokens, before))
        message = self._mask_message(edit.message)
        return msgspec.structs.replace(edit, message=message, tokens=self._raise_count(edit.tokens, before))

    def _mask_message(self, message: Message) -> Message:
        return msgspec.structs.replace(message, parts=tuple(self._mask_part(part) for part in message.parts))

    def _mask_part(self, part: Part) -> Part:
        if isinstance(part, Result):
            return Result(part.call_id, tuple(self._mask_visible_part(inner) for inner in part.parts), part.error)
        if isinstance(part, Call):
            return Call(part.id, part.name, self.mask_json(part.arguments), part.opaque)
        if isinstance(part, Thinking):
            return self._mask_thinking(part)
        return self._mask_visible_part(part)

    def _mask_thinking(self, part: Thinking) -> Thinking:
        if not part.block:
            return Thinking(self.mask_text(part.text))
        if self._mask(part.block) == part.block:
            return part
        block = _parse_json(part.block)
        text = "\n".join(_read_reasoning(block.value)) if block is not None else ""
        self.count += not text
        return Thinking(self.mask_text(text) if text else _MASK)

    def _mask_visible_part(self, part: Text | Image) -> Text | Image:
        if isinstance(part, Text):
            return msgspec.structs.replace(part, text=self.mask_text(part.text))
        return msgspec.structs.replace(part, url=self.mask_text(part.url)) if part.url else part


class _JsonValue(msgspec.Struct, frozen=True):
    value: object


def _read_reasoning(value: object) -> Iterator[str]:
    """Return the readable text of a provider's block of reasoning."""
    if isinstance(value, list):
        for inner in value:
            yield from _read_reasoning(inner)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key in ("thinking", "text") and isinstance(inner, str):
                yield inner
            else:
                yield from _read_reasoning(inner)


def _parse_json(text: str) -> _JsonValue | None:
    try:
        return _JsonValue(msgspec.json.decode(text))
    except (msgspec.DecodeError, RecursionError):
        return None
