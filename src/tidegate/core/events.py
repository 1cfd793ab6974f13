"""Events: the records of the log, and their encoding.

The log is append-only, and everything else is derived from it. Events carry token counts, so a view is folded from the
log without counting again. Structs are encoded as arrays without field names: a new field must be added at the end,
with a default, so that old logs can still be read.
"""

from typing import Final

import msgspec

from tidegate.core.edits import Edit
from tidegate.core.messages import Message, Tool


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
    """Any other fact to record, by topic.

    The fold and the session act on these topics and ignore others (`summary_failed`, for example, is for people):

    - `system`, `tools`: the fixed part of every request, its text and its tokens
    - `undo`, `redo`: text is the seq of a ViewEdited; the view is folded again without or with it
    - `forgotten`: text names messages whose records were rewritten to remove content; the view is folded again
    - `clear`: everything before it leaves the view
    - `turn`: the rules of `turn_start` have run for this turn
    - `overflow`: a provider refused a request for its length
    - `weighed`: the same, and the provider said the length; text is the log's head, our count and the model
    - `foreign`: everything before it was imported; usage reports, cooldowns and cache times in it are ignored
    - `unsigned`: a provider rejected its own signed blocks; those so far are not sent any more
    - `birth`: what was sent before the newest answer, which has signed thinking (`core/thinking_walk.py`)
    - `cleared`: the provider left out so many tokens of the last request before the model read it
    - `tried`: text is a rule that freed nothing although a summary was made; it waits until the view changes
    - `key`: text is a number of messages and the idempotency key that those just before it were added with
    - `state_note`: text is JSON, a state note that a model wrote (`core/state_note/note.py`); the next sweep shows it
    - `prepared_summary`: text is JSON, a summary that the policy will ask for (`session/summaries/prepared.py`)
    - `client_speaking`: text is JSON: which client speaks from here on (`session/shared_timeline.py`)
    - `work_record`: text is JSON: the next message is the record of what other clients did, up to an event of this log
    - `repository_state`: text is JSON: the state of the folder's git repository when a client stopped
    - `stored_answer`: text is JSON: under which id the provider stored the newest answer (`session/stored_answers.py`)
    - `model`: text is JSON with `model` and `wire`: the model and dialect from here on, to render past requests

    The gateway records with these, for people, what became of a request on its way; the text says why:

    - `thinking_left_out`, `thinking_dropped`: signed thinking that was not sent, or that the provider dropped
    - `sent_unmanaged`: the client's own request was sent, because no view of it could be
    - `sent_whole`: a request that continued an answer stored by the provider was sent with the whole view instead
    - `cache_miss_reason`: the provider's own reason why it did not read the request from its cache
    """

    topic: str
    text: str = ""
    tokens: int = 0

    @property
    def edit(self) -> int:
        """The seq of the event that an `undo`, a `redo` or a branch names, or 0."""
        return int(self.text) if self.text.isdecimal() and len(self.text) < 20 else 0


THINKING_LEFT_OUT: Final = "thinking_left_out"
THINKING_DROPPED: Final = "thinking_dropped"
CLEARED: Final = "cleared"
SENT_UNMANAGED: Final = "sent_unmanaged"
SENT_WHOLE: Final = "sent_whole"
STORED_ANSWER: Final = "stored_answer"
CACHE_MISS_REASON: Final = "cache_miss_reason"
STATE_NOTE: Final = "state_note"
"""The topic of the events that hold a state note, and the kind of the message that shows one (`core/state_note/`)."""
STATE_NOTE_FAILED: Final = "state_note_failed"
"""The topic of the events that say why there is no new state note, or no prepared summary."""
PREPARED_SUMMARY: Final = "prepared_summary"
"""The topic of the events that hold a summary for a policy (`session/summaries/prepared.py`)."""
CLIENT_SPEAKING: Final = "client_speaking"
WORK_RECORD: Final = "work_record"
LISTED_TOPICS: Final = frozenset(
    {
        *("undo", "redo", "clear", "forgotten", "overflow", "unsigned"),
        *(THINKING_LEFT_OUT, THINKING_DROPPED, SENT_UNMANAGED, SENT_WHOLE),
        *(STATE_NOTE, STATE_NOTE_FAILED, PREPARED_SUMMARY),
        *(CLIENT_SPEAKING, WORK_RECORD),
    }
)
"""Notes that a list of what happened to a session has, beside its edits."""

BRANCH = "branch"


class BranchStarted(NoteAdded, frozen=True, gc=False, array_like=True, tag="branched", omit_defaults=True):
    """The conversation continues from an earlier event (`edit`): everything since then is on another branch.

    It is a separate struct, not only a topic, so that versions that do not know branches refuse the log instead of
    showing both branches as one conversation.
    """

    topic: str = BRANCH


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


def read_tools(noted: NoteAdded) -> tuple[Tool, ...]:
    """The tools that a note of the topic `tools` lists."""
    return msgspec.json.decode(noted.text, type=tuple[Tool, ...])


def encode_event(event: Event) -> bytes:
    buffer = bytearray()  # not `encode`: see `encode_into_bytes`
    _encoder.encode_into(event, buffer)
    return bytes(buffer)


def decode_event(data: bytes) -> Event:
    return _decoder.decode(data)
