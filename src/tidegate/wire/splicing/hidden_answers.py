"""Answers with calls of a tool that the client does not declare, and the parts of the client's answer among them.

The client has several answers of the provider as one, without the hidden calls (`MessageForm.insert_exchanges`).
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from tidegate.core.messages import Call, Message, Part, Text, Thinking
from tidegate.core.notes import HiddenCall
from tidegate.wire.parsing import decode_object
from tidegate.wire.splicing.spans import find_members, replace_value

_encode = msgspec.json.encode
_SIGNED_KEYS: Final = ("signature", "data", "encrypted_content", "thoughtSignature")


class HiddenResult(NamedTuple):
    """The result of a hidden call of the tool `name`."""

    call_id: str
    name: str
    text: str


class HiddenAnswer(NamedTuple):
    """An answer as the provider gave it, its hidden calls, and their results if they follow at once."""

    message: Message
    calls: tuple[HiddenCall, ...] = ()
    results: tuple[HiddenResult, ...] = ()


class PlacedPart(NamedTuple):
    """A part of the client's answer and its bytes."""

    part: Part
    raw: bytes


def _is_same(one: Part, other: Part) -> bool:
    if isinstance(one, Text) and isinstance(other, Text):
        return one.text.strip() == other.text.strip()
    if isinstance(one, Call) and isinstance(other, Call):
        return one.id == other.id and one.name == other.name
    if isinstance(one, Thinking) and isinstance(other, Thinking) and one.block:
        return _identify_thinking(one.block) == _identify_thinking(other.block)
    return one == other


def _identify_thinking(block: str) -> object:
    """What stays the same of a provider's thinking block when a client sends it back: some omit ids, or order keys."""
    value = decode_object(block)
    signed = next((signature for key in _SIGNED_KEYS if (signature := value.get(key))), None)
    return signed or {key: each for key, each in value.items() if key not in ("id", "status")}


def arrange_parts(
    parts: list[PlacedPart], answers: Sequence[HiddenAnswer], *, restores_thinking: bool = False
) -> list[list[bytes]]:
    """The bytes of each answer: the client's own, in its order, with the hidden calls between them.

    A client may leave out thinking, and join adjacent texts or thinking. With `restores_thinking`, thinking that
    it left out of an answer before the last is taken from the log: the client does not know that it belongs to a call.
    """
    runs: list[list[bytes]] = []
    for answer in answers:
        here: list[bytes] = []
        raw = {call.id: bytes(call.raw) for call in answer.calls}
        for part in answer.message.parts:
            if isinstance(part, Call) and part.id in raw:
                here.append(raw[part.id])
            elif isinstance(part, Text) and answer is not answers[-1] and (start := _find_start(part, parts)) >= 0:
                first, rest = _split_text(parts[start], part.text)
                here += [*(each.raw for each in parts[:start]), first.raw]
                parts[: start + 1] = [rest]
            else:
                end = next((n for n, each in enumerate(parts, 1) if _is_same(each.part, part)), 0)
                here += [each.raw for each in parts[:end]]
                del parts[:end]
                if restores_thinking and not end and isinstance(part, Thinking) and answer is not answers[-1]:
                    here += [part.block.encode()] if part.block else []
        runs.append(here)
    runs[-1] += [each.raw for each in parts]
    return runs


def _find_start(part: Text, parts: Sequence[PlacedPart]) -> int:
    """The place of the client's text that begins with this one, after thinking that no answer has like that; or -1."""
    place = next((number for number, each in enumerate(parts) if not isinstance(each.part, Thinking)), -1)
    return place if place >= 0 and _is_start(part, parts[place]) else -1


def _is_start(part: Text, place: PlacedPart) -> bool:
    whole = place.part
    if not isinstance(whole, Text) or not part.text or _is_same(whole, part) or not whole.text.startswith(part.text):
        return False
    return "text" in find_members(place.raw)


def _split_text(place: PlacedPart, first: str) -> tuple[PlacedPart, PlacedPart]:
    assert isinstance(place.part, Text)
    texts = first, place.part.text[len(first) :]
    one, other = (PlacedPart(Text(text), replace_value(place.raw, ("text",), _encode(text))) for text in texts)
    return one, other
