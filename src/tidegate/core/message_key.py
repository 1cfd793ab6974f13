"""The key of a message: a hash of its content, by which a message is recognized when it is sent again."""

from collections.abc import Collection
from hashlib import blake2b

import msgspec

from tidegate.core.messages import Call, Compaction, Image, Message, Part, Result, Text

_UNSTABLE_KEYS = ("id", "status", "cache_control")
"""Of a provider's block: a client may leave them out or change them."""


def hash_message(message: Message) -> str:
    """The key of a message by its content.

    Ids of messages, thinking, marks and the way in which texts are wrapped do not count: hosts change them between
    two requests. Calls and results count with their ids, and compactions by a provider with their content.
    """
    parts = [message.role, *filter(None, map(_describe_part, message.parts))]
    try:
        encoded = msgspec.msgpack.encode(parts)
    except UnicodeEncodeError:  # half a surrogate pair
        encoded = repr(parts).encode("utf-8", "backslashreplace")
    return blake2b(encoded, digest_size=12).hexdigest()


def _describe_part(part: Part) -> list[object] | None:
    if isinstance(part, Text):
        text = part.text.strip()
        return ["text", text] if text else None
    if isinstance(part, Image):
        return ["image", part.data or part.url]
    if isinstance(part, Call):
        return ["call", part.id, part.name, _canonical_json(part.arguments)]
    if isinstance(part, Result):
        return ["result", part.call_id, *filter(None, map(_describe_part, part.parts))]
    if isinstance(part, Compaction):
        return ["compaction", _canonical_json(part.block, _UNSTABLE_KEYS)]
    return None


def _canonical_json(text: str, without: Collection[str] = ()) -> bytes:
    try:
        value = msgspec.json.decode(text)
        if isinstance(value, dict):
            value = {key: inner for key, inner in value.items() if key not in without}
        return msgspec.json.encode(value, order="sorted")
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return text.encode("utf-8", "surrogatepass")
