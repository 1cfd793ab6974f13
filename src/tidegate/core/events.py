"""Events: the records of the log, and their encoding.

The log is append-only, and everything else is derived from it. Events carry token counts, so a view is folded from the
log without counting again. Structs are encoded as arrays without field names: a new field must be added at the end,
with a default, so that old logs can still be read.
"""

import msgspec

from tidegate.core.edits import Edit
from tidegate.core.messages import Message


class MessageAdded(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="said"):
    """A message was added to the session. It never changes; the view may show it differently."""

    message: Message
    tokens: int


class HostMessageAdded(MessageAdded, frozen=True, gc=False, array_like=True, tag="host_said"):
    """A message of a host that keeps its own list of messages (`session/following.py`).

    `key` is how the message is recognized when the host sends its list again.
    """

    key: str


class ViewEdited(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="edited"):
    """One transaction on the view: all its edits or none. `rule` is the rule of the policy that caused it."""

    stage: str
    moment: str
    rule: str
    why: str
    tokens_before: int
    tokens_after: int
    edits: tuple[Edit, ...]


class UsageReported(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="used", omit_defaults=True):
    """A provider reported the usage of a request. `log_head` and `counted_tokens` are the head of the log and our count
    at that time. `shared_messages` is how many leading messages it shares with the request before it; the positions of
    prompt-cache marks depend on it."""

    model: str
    log_head: int
    counted_tokens: int
    input_tokens: int
    output_tokens: int = 0
    cache_read: int = 0
    cache_write: int = 0
    shared_messages: int = 0


class HourWriteReported(UsageReported, frozen=True, gc=False, array_like=True, tag="used_1h", omit_defaults=True):
    """A usage report with input that the provider keeps for an hour: `cache_write_1h` of its `cache_write` tokens.

    A record type of its own, because a further field would change the bytes of every report that is already stored.
    """

    cache_write_1h: int = 0


class NoteAdded(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="noted", omit_defaults=True):
    """Any other fact to record, by topic, as it is stored.

    `core/notes.py` has a type for each topic of ours; the fold and the session act on some of them. A program may add
    notes of its own (`History.add_note`), which the engine ignores.
    """

    topic: str
    text: str = ""
    tokens: int = 0


class BranchStarted(NoteAdded, frozen=True, gc=False, array_like=True, tag="branched", omit_defaults=True):
    """The conversation continues from an earlier event (`edit`): everything since then is on another branch.

    It is a separate struct, not only a topic, so that versions that do not know branches refuse the log instead of
    showing both branches as one conversation.
    """

    topic: str = "branch"

    @property
    def edit(self) -> int:
        """The seq of the event after which the conversation continues, or 0."""
        return read_edit_number(self.text)


class HostNote(NoteAdded, frozen=True, gc=False, array_like=True, tag="host_noted", omit_defaults=True):
    """A `system` or `tools` note about a change that the host made itself: signed data stays as the host sends it."""


EventPayload = (
    MessageAdded
    | ViewEdited
    | UsageReported
    | HourWriteReported
    | NoteAdded
    | HostMessageAdded
    | BranchStarted
    | HostNote
)


class Event(msgspec.Struct, frozen=True, gc=False, array_like=True):
    seq: int
    time: float
    payload: EventPayload


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Event)


def read_edit_number(text: str) -> int:
    """The seq of the event that the text of a note names, or 0."""
    return int(text) if text.isdecimal() and len(text) < 20 else 0


def encode_event(event: Event) -> bytes:
    buffer = bytearray()  # not `encode`: see `encode_into_bytes`
    _encoder.encode_into(event, buffer)
    return bytes(buffer)


def decode_event(data: bytes) -> Event:
    return _decoder.decode(data)
