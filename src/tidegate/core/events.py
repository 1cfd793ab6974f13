"""What happened: the records of the log, and how they are written down.

The log is the truth and is only appended to. Token counts stand in the events, so that a view can be folded from the
log without counting anything again. Values are written as arrays, without the names of their fields: new fields may be
added at the end of a struct, with a default, and old logs still read.
"""

import msgspec

from tidegate.core.edits import Edit
from tidegate.core.messages import Message, Tool


class MessageAdded(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="said"):
    """A message entered the session. It is never changed; only the view of it may be."""

    message: Message
    tokens: int


class ViewEdited(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="edited"):
    """One transaction on the view: all its edits or none. `rule` names the line of the policy that asked for it."""

    stage: str
    moment: str
    rule: str
    why: str
    tokens_before: int
    tokens_after: int
    edits: tuple[Edit, ...]


class UsageReported(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="used", omit_defaults=True):
    """A provider reported what a request cost. `head` and `counted` are the log's head and our count of it; `shared` is
    how many of its messages began the request before, too: it decides where marks for a prompt cache stood."""

    model: str
    log_head: int
    counted_tokens: int
    input_tokens: int
    output_tokens: int = 0
    cache_read: int = 0
    cache_write: int = 0
    shared_messages: int = 0


class NoteAdded(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="noted", omit_defaults=True):
    """Anything else worth keeping, by topic.

    The fold knows these topics; others are for people to read.

    - `system`, `tools`: the fixed part, its text and its tokens
    - `undo`, `redo`: text is the seq of an Edited; the view is folded again without or with it
    - `forgotten`: text names messages whose records were rewritten, the only way content leaves a log; folded again
    - `clear`: everything before it leaves the view
    - `turn`: the rules for the start of this turn were run
    - `overflow`: a provider refused a request
    - `weighed`: a provider refused a request and said its length; text is the head, our count and the model
    - `foreign`: all before it was written elsewhere and imported; what reports, cooldowns and caches said is forgotten
    - `unsigned`: a provider no longer takes back what it signed: nothing signed so far is sent
    - `tried`: text is a rule that gained nothing, though a summary was asked for; it rests until something changes
    - `model`: text is JSON with `model` and `wire`, who is asked from here on and how, to render past requests
    """

    topic: str
    text: str = ""
    tokens: int = 0

    @property
    def edit(self) -> int:
        """The seq of the edit that an `undo` or `redo` names; 0 if it names none."""
        return int(self.text) if self.text.isdecimal() and len(self.text) < 20 else 0


EventPayload = MessageAdded | ViewEdited | UsageReported | NoteAdded


class Event(msgspec.Struct, frozen=True, gc=False, array_like=True):
    seq: int
    time: float
    payload: EventPayload


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Event)


def read_tools(noted: NoteAdded) -> tuple[Tool, ...]:
    """The tools that a note of the topic `tools` lists."""
    return msgspec.json.decode(noted.text, type=tuple[Tool, ...])


def encode_event(event: Event) -> bytes:
    return _encoder.encode(event)


def decode_event(data: bytes) -> Event:
    return _decoder.decode(data)
