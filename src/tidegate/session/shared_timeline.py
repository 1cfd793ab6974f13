"""One session that several clients work on: who said what, and which events are the work so far.

Each client has its own list of messages, so each is a branch of the log. Where a client takes over, its branch gets a
handoff: a note that names an event, and a message with the record of the work up to that event. The *timeline* at an
event is therefore its own branch and, for each handoff on it, the timeline at the event that the handoff names. All of
it is in the order of the log, which is the order in which it happened.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from tidegate.core.events import (
    BranchStarted,
    Event,
    HostMessageAdded,
    MessageAdded,
    NoteAdded,
    UsageReported,
)
from tidegate.core.log_fold import BranchPoint, hidden_spans
from tidegate.core.messages import HANDOFF
from tidegate.core.notes import (
    ClientNote,
    EventLeftOut,
    HandoffNote,
    ImportOrigin,
    LogImported,
    ModelNote,
    SystemSet,
    ToolsSet,
    is_note,
    read_note,
)
from tidegate.core.text.plural import format_count

OWN_AGENT: Final = "tidegate"
UNKNOWN_CLIENT: Final = "another client"
_LEFT_OUT: Final = EventLeftOut().pack()
"""What takes the place of an event that a copy of a log leaves out, so that all others keep their numbers."""
_TITLES: Final = (
    ("claude", "Claude Code"),
    ("codex", "Codex"),
    ("opencode", "OpenCode"),
    ("gemini", "Gemini CLI"),
    ("qwen", "Qwen Code"),
    ("copilot", "Copilot CLI"),
    ("pi", "pi"),
)


def read_client_note(payload: NoteAdded) -> ClientNote:
    """Which client speaks. A log may hold anything, so it may be another one."""
    return read_note(payload, ClientNote) or ClientNote("", UNKNOWN_CLIENT)


def read_handoff_note(payload: NoteAdded) -> HandoffNote:
    return read_note(payload, HandoffNote) or HandoffNote(0, ())


def describe_client_note(payload: NoteAdded) -> str:
    """A sentence about a note of one of the two kinds."""
    if is_note(payload, ClientNote):
        return f"{read_client_note(payload).title} speaks from here on."
    note = read_handoff_note(payload)
    secrets = f", {format_count(note.masked, 'secret')} masked" if note.masked else ""
    return (
        f"The work of {', '.join(note.clients) or UNKNOWN_CLIENT} up to here goes before the next message:"
        f" {note.whole:,} of {format_count(note.messages, 'message')} whole, about {note.tokens:,} tokens{secrets}."
    )


def name_client(name: str) -> str:
    """The client of a session by the beginning of its name; empty if the user chose the name."""
    if name.startswith("auto-"):
        return "unnamed client"
    title_of_client = next((title for client, title in _TITLES if name.startswith(f"{client}-")), "")
    return title_of_client if title_of_client not in ("Gemini CLI", "Qwen Code", "Copilot CLI") else ""


def _name_origin(payload: NoteAdded) -> str:
    origin = read_note(payload, ImportOrigin) or ImportOrigin()
    agent = origin.agent or origin.format
    return next((title for client, title in _TITLES if agent.startswith(client)), agent) or UNKNOWN_CLIENT


class ClientSpan(NamedTuple):
    """From the event `first` on, this client spoke."""

    first: int
    title: str


class SharedTimeline:
    """What is known of the clients and branches of a log. It is read once, from its first event."""

    def __init__(self, events: Iterable[Event], name: str) -> None:
        self._points: list[BranchPoint] = []
        self._handoffs: list[tuple[int, int]] = []  # a handoff, and the event that it describes the work up to
        self._messages: list[int] = []  # those that a client or a user added
        self._spans: list[ClientSpan] = []
        self._host = name_client(name) or UNKNOWN_CLIENT
        self._other = OWN_AGENT
        self.head = 0
        self.feed(events)

    def feed(self, events: Iterable[Event]) -> None:
        """Read the next events of the log."""
        for event in events:
            what, self.head = event.payload, event.seq
            if isinstance(what, BranchStarted):
                self._points.append(BranchPoint(event.seq, what.edit))
            elif isinstance(what, MessageAdded) and what.message.kind != HANDOFF:
                if what.message.agent_visible and what.message.role in ("user", "assistant"):
                    self._messages.append(event.seq)
                self._speak(event.seq, self._host if isinstance(what, HostMessageAdded) else self._other)
            elif isinstance(what, NoteAdded):
                self._read_note(event.seq, what)

    def _read_note(self, seq: int, payload: NoteAdded) -> None:
        if is_note(payload, HandoffNote):
            self._handoffs.append((seq, read_handoff_note(payload).source))
        elif is_note(payload, ImportOrigin):
            self._other = _name_origin(payload)
        elif is_note(payload, LogImported):  # everything before it was imported
            self._other = OWN_AGENT
        elif is_note(payload, ClientNote):
            note = read_client_note(payload)
            if note.client == OWN_AGENT:
                self._other = note.title
            else:
                self._host = note.title

    def _speak(self, seq: int, title: str) -> None:
        if not self._spans or self._spans[-1].title != title:
            self._spans.append(ClientSpan(seq, title))

    @property
    def spans(self) -> list[ClientSpan]:
        """Who spoke from which event on, in the order of the log."""
        return self._spans[:]

    def client_of(self, seq: int) -> str:
        """The title of the client that added the message with this number."""
        place = bisect_right(self._spans, seq, key=lambda span: span.first) - 1
        return self._spans[place].title if place >= 0 else ""

    def name_speaker(self, seq: int) -> str:
        """The client of a message in a session that several clients work on; else empty."""
        return self.client_of(seq) if len(self._spans) > 1 else ""

    def list_clients(self, events: bytearray) -> list[str]:
        """The clients of these events, each once, in the order in which they first spoke."""
        return list(dict.fromkeys(self.client_of(seq) for seq in self._messages if events[seq]))

    def list_messages(self, events: bytearray) -> list[int]:
        """The messages of users and models among these events."""
        return [seq for seq in self._messages if events[seq]]

    def find_last_of(self, title: str) -> int:
        """The last message of a client; 0 if it has none."""
        return next((seq for seq in reversed(self._messages) if self.client_of(seq) == title), 0)

    def find_newest_work(self, until: int) -> int:
        """The last event of the branch with the newest message, of the events up to this one; 0 without a message."""
        place = bisect_right(self._messages, until)
        if not place:
            return 0
        newest = self._messages[place - 1]
        following = (point.seq for point in self._points if newest < point.seq <= until)
        return next(following, until + 1) - 1

    def mark_timeline(self, at: int) -> bytearray:
        """The timeline at an event: for each number of an event, whether it is on it."""
        timeline = bytearray(self.head + 1)
        ends: set[int] = set()
        left = [at]
        while left:
            end = left.pop()
            if end in ends:
                continue
            ends.add(end)
            visible = self._mark_branch(end)
            left += [source for seq, source in self._handoffs if visible[seq] and source < seq]
            for seq in range(1, end + 1):
                timeline[seq] |= visible[seq]
        return timeline

    def _mark_branch(self, at: int) -> bytearray:
        """The events of the branch that was the current one at an event, up to it."""
        visible = bytearray(self.head + 1)
        visible[1 : at + 1] = b"\x01" * at
        for span in hidden_spans([point for point in self._points if point.seq <= at]):
            visible[span.first : span.last + 1] = bytes(span.last + 1 - span.first)
        return visible


def select_events(events: Iterable[Event], marks: bytearray) -> Iterator[Event]:
    """The events of a log with all others made empty: they keep their numbers, and so the messages their ids.

    The fixed part, branches, handoffs and reports of usage are left out, too: they say nothing about the work.
    """
    for event in events:
        what = event.payload
        is_about_requests = isinstance(what, BranchStarted | UsageReported) or (
            is_note(what, SystemSet, ToolsSet, ModelNote)
        )
        is_handoff = isinstance(what, MessageAdded) and what.message.kind == HANDOFF
        if event.seq >= len(marks) or not marks[event.seq] or is_about_requests or is_handoff:
            event = msgspec.structs.replace(event, payload=_LEFT_OUT)
        yield event
