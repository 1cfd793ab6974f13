"""The notes of a log, each with a type of its own: the one place that knows the topics and how the texts are packed.

    log event   NoteAdded("weighed", "120 5000 gpt-4o", 6100)          what is stored
    note        RequestWeighed(120, 5000, "gpt-4o", 6100)              what all other modules use

    note.pack()                            the event for the log
    read_note(payload, RequestWeighed)     the note, if the payload is one of this kind and can be read
    kind_of(payload)                       its kind, without reading its text

A text is kept as it is, so logs of before are read and the bytes of new ones stay the same. A log may hold anything:
another program may have written a note, or its text may have been forgotten. Notes of other topics (`add_note`) have no
kind.
"""

from typing import Any, ClassVar, Final, Protocol, Self, TypeGuard, TypeVar, cast

import msgspec

from tidegate.core.events import EventPayload, HostNote, NoteAdded, read_edit_number
from tidegate.core.messages import STATE_NOTE, Tool
from tidegate.core.thinking_walk import seq_of_id
from tidegate.core.usage import Usage


class Note(Protocol):
    """A note of one kind."""

    topic: ClassVar[str]

    def pack(self) -> NoteAdded:
        """The event for the log."""

    @classmethod
    def unpack(cls, note: NoteAdded) -> Self:
        """The note of an event with this topic. It raises what is wrong with the text."""


NoteKind = type[Note]
N = TypeVar("N", bound=Note)


class MarkNote(msgspec.Struct, frozen=True):
    """A note without a text: that something happened."""

    topic: ClassVar[str]

    def pack(self) -> NoteAdded:
        return NoteAdded(self.topic)

    @classmethod
    def unpack(cls, note: NoteAdded) -> Self:
        return cls()


class TextNote(msgspec.Struct, frozen=True):
    """A note whose text is for people: why something was done, or what became of it."""

    topic: ClassVar[str]
    text: str = ""

    def pack(self) -> NoteAdded:
        return NoteAdded(self.topic, self.text)

    @classmethod
    def unpack(cls, note: NoteAdded) -> Self:
        return cls(note.text)


class JsonNote(msgspec.Struct, frozen=True):
    """A note whose text is the JSON of its fields."""

    topic: ClassVar[str]

    def write_text(self) -> str:
        return msgspec.json.encode(self).decode()

    def pack(self) -> NoteAdded:
        return NoteAdded(self.topic, self.write_text())

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The note in a text; None if it has none, as after a phrase was removed from it."""
        try:
            return msgspec.json.decode(text, type=cls)
        except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
            return None

    @classmethod
    def unpack(cls, note: NoteAdded) -> Self:
        return msgspec.json.decode(note.text, type=cls)


class ToggleNote(msgspec.Struct, frozen=True):
    """A note about one edit: the seq of its ViewEdited, or 0 if the text names none."""

    topic: ClassVar[str]
    edit: int

    def pack(self) -> NoteAdded:
        return NoteAdded(self.topic, str(self.edit))

    @classmethod
    def unpack(cls, note: NoteAdded) -> Self:
        return cls(read_edit_number(note.text))


class HookNote(msgspec.Struct, frozen=True):
    """A note of a hook: its id, and a text."""

    topic: ClassVar[str]
    hook: str
    text: str

    def pack(self) -> NoteAdded:
        return NoteAdded(self.topic, f"{self.hook}: {self.text}")

    @classmethod
    def unpack(cls, note: NoteAdded) -> Self:
        hook, _, text = note.text.partition(": ")
        return cls(hook, text)


# --- what the fold acts on --------------------------------------------------------------------------------------------


class SystemSet(msgspec.Struct, frozen=True):
    """The system prompt from here on, with its tokens. `by_host`: a host changed it, and sends signed data itself."""

    topic: ClassVar[str] = "system"
    text: str
    tokens: int
    by_host: bool = False

    def pack(self) -> NoteAdded:
        return (HostNote if self.by_host else NoteAdded)(self.topic, self.text, self.tokens)

    @classmethod
    def unpack(cls, note: NoteAdded) -> Self:
        return cls(note.text, note.tokens, isinstance(note, HostNote))


class ToolsSet(msgspec.Struct, frozen=True):
    """The tools from here on, with the tokens of their definitions."""

    topic: ClassVar[str] = "tools"
    tools: tuple[Tool, ...]
    tokens: int
    by_host: bool = False

    def pack(self) -> NoteAdded:
        text = msgspec.json.encode(self.tools).decode()
        return (HostNote if self.by_host else NoteAdded)(self.topic, text, self.tokens)

    @classmethod
    def unpack(cls, note: NoteAdded) -> Self:
        tools = msgspec.json.decode(note.text, type=tuple[Tool, ...])
        return cls(tools, note.tokens, isinstance(note, HostNote))


class EditUndone(ToggleNote, frozen=True):
    """The view is folded again without this edit."""

    topic: ClassVar[str] = "undo"


class EditRedone(ToggleNote, frozen=True):
    """The view is folded again with this edit."""

    topic: ClassVar[str] = "redo"


class ContentForgotten(msgspec.Struct, frozen=True):
    """Records of these messages were rewritten to remove content; the view is folded again."""

    topic: ClassVar[str] = "forgotten"
    places: tuple[str, ...] = ()

    def pack(self) -> NoteAdded:
        return NoteAdded(self.topic, " ".join(self.places))

    @classmethod
    def unpack(cls, note: NoteAdded) -> Self:
        return cls(tuple(note.text.split()))


class ViewCleared(MarkNote, frozen=True):
    """Everything before it leaves the view."""

    topic: ClassVar[str] = "clear"


class TurnStarted(MarkNote, frozen=True):
    """The rules of `turn_start` have run for this turn."""

    topic: ClassVar[str] = "turn"


class RequestOverflowed(MarkNote, frozen=True):
    """A provider refused a request for its length."""

    topic: ClassVar[str] = "overflow"


class RequestWeighed(msgspec.Struct, frozen=True):
    """A provider refused a request and said its length. `log_head` and `counted_tokens` are those of the request."""

    topic: ClassVar[str] = "weighed"
    log_head: int
    counted_tokens: int
    model: str
    tokens: int

    def pack(self) -> NoteAdded:
        return NoteAdded(self.topic, f"{self.log_head} {self.counted_tokens} {self.model}", self.tokens)

    @classmethod
    def unpack(cls, note: NoteAdded) -> Self:
        head, _, rest = note.text.partition(" ")
        tokens_text, _, model = rest.partition(" ")
        if not (head.isdecimal() and tokens_text.isdecimal() and len(head) < 12 and len(tokens_text) < 12):
            raise ValueError("it does not say which request was refused")
        return cls(int(head), int(tokens_text), model, note.tokens)


class LogImported(TextNote, frozen=True):
    """Everything before it was imported from the session of this name: reports, cooldowns and times are ignored."""

    topic: ClassVar[str] = "foreign"


class SignaturesRefused(TextNote, frozen=True):
    """A provider rejected its own signed blocks; those so far are not sent any more."""

    topic: ClassVar[str] = "unsigned"


class AnswerBirth(TextNote, frozen=True):
    """What was sent before the newest answer, which has signed thinking (`core/thinking_walk.py`)."""

    topic: ClassVar[str] = "birth"


class ContextCleared(msgspec.Struct, frozen=True):
    """The provider left out so many tokens of the last request before the model read it."""

    topic: ClassVar[str] = "cleared"
    tokens: int

    def pack(self) -> NoteAdded:
        return NoteAdded(self.topic, tokens=self.tokens)

    @classmethod
    def unpack(cls, note: NoteAdded) -> Self:
        return cls(note.tokens)


class RuleFruitless(TextNote, frozen=True):
    """A rule that freed nothing although a summary was made; it waits until the view changes."""

    topic: ClassVar[str] = "tried"


class KeyUsed(msgspec.Struct, frozen=True):
    """The idempotency key that the messages just before it were added with, and how many they are."""

    topic: ClassVar[str] = "key"
    messages: int
    key: str

    def pack(self) -> NoteAdded:
        return NoteAdded(self.topic, f"{self.messages} {self.key}")

    @classmethod
    def unpack(cls, note: NoteAdded) -> Self:
        count, _, key = note.text.partition(" ")
        if not (count.isdecimal() and len(count) < 20):
            raise ValueError("it names no number of messages")
        return cls(int(count), key)


class ModelNote(JsonNote, frozen=True, omit_defaults=True):
    """The model, the dialect, and the options of requests from here on, so that past ones can be rendered."""

    topic: ClassVar[str] = "model"
    model: str = ""
    wire: str = ""
    max_tokens: int = 0
    temperature: float | None = None
    top_p: float | None = None
    window: int = 0
    cache: bool = False
    extra: dict[str, Any] = {}


# --- what models wrote ------------------------------------------------------------------------------------------------


class NotePassage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Lines `first_line` to `last_line` of a message, word for word. `changed_in` are later edits of that text.

    With `edited_in`, these are lines of the file after the edits of these messages.

    `find` is what the model searched for, and `why` what it needs the lines for.
    """

    why: str
    find: str
    id: str
    source: str
    file: str
    first_line: int
    last_line: int
    lines: int
    text: str
    changed_in: tuple[str, ...] = ()
    edited_in: tuple[str, ...] = ()


class AskedRange(msgspec.Struct, frozen=True):
    """The messages of a request that asked for a block, up to `last_id`, when the log's head was `head`.

    `key` is a hash of the view up to there, `birth` that of an answer to it, and `origin` the dialect of the request.
    """

    last_id: str
    head: int
    key: str
    birth: str
    origin: str


class NoteBlock(msgspec.Struct, frozen=True):
    """A note that the provider wrote as a block in the place of messages (`core/state_note/block.py`).

    `block` is its JSON, never to be changed, and `text` its words. It stands for the `asked` messages.
    """

    text: str
    block: str
    asked: AskedRange


class StateNote(JsonNote, frozen=True, omit_defaults=True):
    """A state note (`core/state_note/note.py`). `horizon` is the id of the last message that its writer saw.

    `feedback` tells the writer at the next update what could not be used. `dropped` are lines that the check removed,
    `marked` is how many it marked, `held` how many it confirmed. The next sweep shows the newest one.
    """

    topic: ClassVar[str] = STATE_NOTE
    horizon: str
    sections: dict[str, str] = {}
    passages: tuple[NotePassage, ...] = ()
    feedback: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    marked: int = 0
    held: int = 0
    block: NoteBlock | None = None

    @property
    def horizon_seq(self) -> int:
        return seq_of_id(self.horizon)


class StateNoteFailed(TextNote, frozen=True):
    """Why there is no new state note, or no prepared summary."""

    topic: ClassVar[str] = "state_note_failed"


class PreparedSummary(JsonNote, frozen=True):
    """A summary that a policy will ask for (`session/summaries/prepared.py`). `ids` are the messages that it covers.

    `task` is a hash of the prompt and of the summary that it continues.
    """

    topic: ClassVar[str] = "prepared_summary"
    task: str
    ids: tuple[str, ...]
    text: str


class SummaryFailed(TextNote, frozen=True):
    """The summarizer failed, with this kind of error."""

    topic: ClassVar[str] = "summary_failed"


class SummaryRejected(TextNote, frozen=True):
    """Why a summary was not used."""

    topic: ClassVar[str] = "summary_rejected"


class CompactionStarted(TextNote, frozen=True):
    """A summary of old messages is asked for; the text says how large the view is."""

    topic: ClassVar[str] = "compaction_start"


class CompactionEnded(TextNote, frozen=True):
    """What became of it."""

    topic: ClassVar[str] = "compaction_end"


class FocusGiven(TextNote, frozen=True):
    """What a compaction on demand should keep in detail."""

    topic: ClassVar[str] = "focus"


# --- what calls cost, and which did not run ---------------------------------------------------------------------------


class SideCost(JsonNote, frozen=True, omit_defaults=True):
    """Spending besides the conversation's own calls. `purpose` is summary, state_note, subagent, interrupted or
    compaction (one that the provider made); older notes have none.

    The calls of a subagent are in its own log, too.
    """

    topic: ClassVar[str] = "spent"
    model: str
    usage: Usage
    purpose: str = ""


class Denial(JsonNote, frozen=True):
    """A tool call that was denied and therefore not run. `by` completes the words "denied by".

    It comes before the result of the call. A result alone does not prove a denial: its text may come from a tool.
    """

    topic: ClassVar[str] = "denied"
    call_id: str
    tool: str
    by: str


class ProgramError(TextNote, frozen=True):
    """An error that a program noted (`History.add_note`)."""

    topic: ClassVar[str] = "error"


class SubagentReport(TextNote, frozen=True):
    """The start or the end of a subagent."""

    topic: ClassVar[str] = "task"


class HookFired(TextNote, frozen=True):
    """The id of a hook that ran: its cooldown begins."""

    topic: ClassVar[str] = "hook"


class HookFailed(HookNote, frozen=True):
    topic: ClassVar[str] = "hook_failed"


class HookLogged(HookNote, frozen=True):
    topic: ClassVar[str] = "hook_log"


# --- which client speaks, and where work comes from -------------------------------------------------------------------


class ClientNote(JsonNote, frozen=True):
    """The client that speaks from here on: its command, its title, and its own id of the conversation if it has one."""

    topic: ClassVar[str] = "client_speaking"
    client: str
    title: str
    own_id: str = ""


class HandoffNote(JsonNote, frozen=True):
    """The next message is a handoff: the record of the work up to the event `source`, of these clients.

    `tokens` are those of the record, `messages` how many messages the work has, `whole` how many of them are in it
    whole, and `masked` how many secrets were masked in it. With `is_return`, the client goes on with its own list.
    """

    topic: ClassVar[str] = "work_record"
    source: int
    clients: tuple[str, ...]
    tokens: int = 0
    messages: int = 0
    whole: int = 0
    masked: int = 0
    is_return: bool = False


class FileState(msgspec.Struct, frozen=True, array_like=True):
    """A changed or untracked file: its name, git's two letters, its size, and its time in nanoseconds."""

    name: str
    state: str
    size: int = 0
    time: int = 0


class RepositoryState(JsonNote, frozen=True):
    """The state of the folder's git repository when a client stopped.

    The branch (empty if the head is detached), the commit (empty if there is none), and the files not committed.
    """

    topic: ClassVar[str] = "repository_state"
    branch: str
    commit: str
    files: tuple[FileState, ...] = ()


class ImportOrigin(JsonNote, frozen=True, omit_defaults=True):
    """Which recording was imported. `sha256` is over the messages: the same recording is not imported twice."""

    topic: ClassVar[str] = "imported"
    format: str = ""
    sha256: str = ""
    agent: str = ""
    model: str = ""
    session: str = ""
    project: str = ""
    path: str = ""
    mended: tuple[str, ...] = ()


class ParentSession(TextNote, frozen=True):
    """The session of the agent whose sub-agent speaks here."""

    topic: ClassVar[str] = "parent"


class CallerMark(TextNote, frozen=True):
    """A keyed hash of the caller of the gateway to whom the conversation belongs."""

    topic: ClassVar[str] = "caller"


class RecordsLost(TextNote, frozen=True):
    """It takes the place of records that were damaged."""

    topic: ClassVar[str] = "lost"


class EventLeftOut(MarkNote, frozen=True):
    """It takes the place of an event that a copy of a log leaves out, so that all others keep their numbers."""

    topic: ClassVar[str] = "elsewhere"


class ItemsChanged(TextNote, frozen=True):
    """A change of the items of an OpenAI Agents SDK session, as JSON (`integrations/item_session.py`)."""

    topic: ClassVar[str] = "openai_agents.items"


# --- what became of a request on its way ------------------------------------------------------------------------------


class HiddenCall(msgspec.Struct, frozen=True):
    """A call that the client does not know: its id, and the call in the provider's own JSON, to be sent again."""

    id: str
    raw: msgspec.Raw


class HiddenCalls(msgspec.Struct, frozen=True):
    """The calls of the answer just before it that the client does not know."""

    topic: ClassVar[str] = "hidden_calls"
    calls: tuple[HiddenCall, ...]

    def pack(self) -> NoteAdded:
        return NoteAdded(self.topic, msgspec.json.encode(self.calls).decode())

    @classmethod
    def unpack(cls, note: NoteAdded) -> Self:
        return cls(msgspec.json.decode(note.text, type=tuple[HiddenCall, ...]))


class StoredAnswerNote(JsonNote, frozen=True, omit_defaults=True):
    """Under which id the provider stored the newest answer (`session/stored_answers.py`).

    `view` is empty if what was sent was not a view. `sent` is the provider's own id, if the client has another.
    """

    topic: ClassVar[str] = "stored_answer"
    id: str
    view: str
    sent: str = ""
    phases: list[str] = []
    leading: list[dict[str, object]] = []
    root: str = ""


class ThinkingLeftOut(TextNote, frozen=True):
    """Signed thinking was not sent."""

    topic: ClassVar[str] = "thinking_left_out"


class ThinkingDropped(TextNote, frozen=True):
    """The provider dropped signed thinking."""

    topic: ClassVar[str] = "thinking_dropped"


class SentUnmanaged(TextNote, frozen=True):
    """The client's own request was sent, because no view of it could be."""

    topic: ClassVar[str] = "sent_unmanaged"


class SentWhole(TextNote, frozen=True):
    """A request that continued an answer stored by the provider was sent with the whole view instead."""

    topic: ClassVar[str] = "sent_whole"


class CacheMissReason(TextNote, frozen=True):
    """The provider's own reason why it did not read the request from its cache."""

    topic: ClassVar[str] = "cache_miss_reason"


class WindowUnknown(TextNote, frozen=True):
    """The window of the model is assumed."""

    topic: ClassVar[str] = "window_unknown"


NOTE_KINDS: Final[dict[str, NoteKind]] = {
    vars(kind)["topic"]: cast(NoteKind, kind)
    for kind in list(globals().values())
    if isinstance(kind, type) and isinstance(vars(kind).get("topic"), str)
}
"""Every kind, by its topic."""
LISTED_NOTES: Final[tuple[NoteKind, ...]] = (
    *(EditUndone, EditRedone, ViewCleared, ContentForgotten, RequestOverflowed, SignaturesRefused),
    *(ThinkingLeftOut, ThinkingDropped, SentUnmanaged, SentWhole),
    *(StateNote, StateNoteFailed, PreparedSummary, ClientNote, HandoffNote),
)
"""Notes that a list of what happened to a session has, beside its edits."""
REFOLD_NOTES: Final[tuple[NoteKind, ...]] = (EditUndone, EditRedone, ContentForgotten)
"""After these, and after a branch, the view is folded again from the start."""
RESERVED_TOPICS: Final = frozenset(
    {
        *(kind.topic for kind in (SystemSet, ToolsSet, EditUndone, EditRedone, ViewCleared, TurnStarted, ModelNote)),
        *(kind.topic for kind in (RequestOverflowed, RequestWeighed, ContentForgotten, RuleFruitless, LogImported)),
        *(kind.topic for kind in (SignaturesRefused, AnswerBirth, KeyUsed, HiddenCalls, StateNote)),
        *(ClientNote.topic, HandoffNote.topic, "branch"),
    }
)
"""Topics that a program cannot give a note of its own: the fold and the session act on them."""


def kind_of(payload: EventPayload) -> NoteKind | None:
    """The kind of a note, by its topic alone; None for every other event, and for a note of another program."""
    return NOTE_KINDS.get(payload.topic) if isinstance(payload, NoteAdded) else None


def is_note(payload: EventPayload, *kinds: NoteKind) -> TypeGuard[NoteAdded]:
    """Whether an event is a note of one of these kinds, whatever its text says."""
    return isinstance(payload, NoteAdded) and any(payload.topic == kind.topic for kind in kinds)


def read_note(payload: EventPayload, kind: type[N]) -> N | None:
    """The note, if the event is one of this kind and its text can be read."""
    if not (isinstance(payload, NoteAdded) and payload.topic == kind.topic):
        return None
    try:
        return kind.unpack(payload)
    except (ValueError, msgspec.MsgspecError, RecursionError):
        return None
