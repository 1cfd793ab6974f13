"""The types of the notes: what is stored stays as it was, and is read again; a log may hold anything."""

from typing import Any

import msgspec
import pytest

from tidegate.core.events import BranchStarted, Event, HostNote, MessageAdded, NoteAdded, decode_event, encode_event
from tidegate.core.messages import Tool, user_message
from tidegate.core.notes import (
    NOTE_KINDS,
    RESERVED_TOPICS,
    AnswerBirth,
    ClientNote,
    ContentForgotten,
    ContextCleared,
    Denial,
    EditRedone,
    EditUndone,
    FileState,
    HandoffNote,
    HiddenCall,
    HiddenCalls,
    HookFailed,
    HookLogged,
    ImportOrigin,
    KeyUsed,
    ModelNote,
    Note,
    NotePassage,
    PreparedSummary,
    RepositoryState,
    RequestWeighed,
    SideCost,
    StateNote,
    StoredAnswerNote,
    SystemSet,
    ToolsSet,
    ViewCleared,
    is_note,
    kind_of,
    read_note,
)
from tidegate.core.usage import Usage

PASSAGE = NotePassage("the bug", "def f", "m4", "Read", "a.py", 1, 2, 2, "def f():\n    pass")
STORED: list[tuple[Note, str, int]] = [
    (SystemSet("Be brief.", 5), "Be brief.", 5),
    (ToolsSet((Tool("read", "Read a file."),), 9), '[{"name":"read","description":"Read a file."}]', 9),
    (EditUndone(12), "12", 0),
    (EditRedone(12), "12", 0),
    (ContentForgotten(("m3", "e4")), "m3 e4", 0),
    (RequestWeighed(120, 5_000, "gpt 4o", 6_100), "120 5000 gpt 4o", 6_100),
    (ContextCleared(700), "", 700),
    (KeyUsed(2, "order 7"), "2 order 7", 0),
    (
        ModelNote("gpt-4o", "openai_chat", 100, window=8_000, extra={"seed": 1}),
        '{"model":"gpt-4o","wire":"openai_chat","max_tokens":100,"window":8000,"extra":{"seed":1}}',
        0,
    ),
    (
        StateNote("m9", {"State": "- done"}, (PASSAGE,), held=1),
        '{"horizon":"m9","sections":{"State":"- done"},"passages":[{"why":"the bug","find":"def f","id":"m4",'
        '"source":"Read","file":"a.py","first_line":1,"last_line":2,"lines":2,"text":"def f():\\n    pass"}],"held":1}',
        0,
    ),
    (PreparedSummary("ab", ("m1", "m2"), "So far."), '{"task":"ab","ids":["m1","m2"],"text":"So far."}', 0),
    (SideCost("small", Usage(9, 1, 0, 0), "summary"), '{"model":"small","usage":[9,1,0,0,0],"purpose":"summary"}', 0),
    (Denial("c1", "shell", "the user"), '{"call_id":"c1","tool":"shell","by":"the user"}', 0),
    (HookFailed("tidy", "OSError: full"), "tidy: OSError: full", 0),
    (HookLogged("tidy", "done"), "tidy: done", 0),
    (ClientNote("codex", "Codex"), '{"client":"codex","title":"Codex","own_id":""}', 0),
    (
        HandoffNote(8, ("Codex",), 90),
        '{"source":8,"clients":["Codex"],"tokens":90,"messages":0,"whole":0,"masked":0,"is_return":false}',
        0,
    ),
    (
        RepositoryState("main", "ab12", (FileState("a.py", "M."),)),
        '{"branch":"main","commit":"ab12","files":[["a.py","M.",0,0]]}',
        0,
    ),
    (ImportOrigin("codex", "ab12", "codex-cli"), '{"format":"codex","sha256":"ab12","agent":"codex-cli"}', 0),
    (HiddenCalls((HiddenCall("c1", msgspec.Raw(b'{"a": 1}')),)), '[{"id":"c1","raw":{"a": 1}}]', 0),
    (StoredAnswerNote("r1", "ff", phases=["final"]), '{"id":"r1","view":"ff","phases":["final"]}', 0),
]


def samples() -> list[tuple[Note, str, int]]:
    """One note of each kind: those above, and the others, which have a text or nothing."""
    known = {type(note) for note, _, _ in STORED}
    others: list[tuple[Note, str, int]] = []
    for kind in NOTE_KINDS.values():
        if kind not in known:
            made: Any = kind
            text = "because" if msgspec.structs.fields(made) else ""
            others.append((made(*([text] if text else [])), text, 0))
    return [*STORED, *others]


@pytest.mark.parametrize(("note", "text", "tokens"), samples(), ids=lambda each: getattr(each, "topic", ""))
def test_a_note_is_stored_as_before_and_read_again(note: Note, text: str, tokens: int) -> None:
    packed = note.pack()
    assert packed == NoteAdded(note.topic, text, tokens)
    stored = decode_event(encode_event(Event(1, 1.0, packed))).payload
    assert kind_of(stored) is type(note)
    assert is_note(stored, ViewCleared, type(note))
    again = read_note(stored, type(note))
    assert again is not None
    assert again.pack() == packed
    assert read_note(stored, EditUndone if type(note) is not EditUndone else EditRedone) is None


def test_each_topic_has_one_kind() -> None:
    assert len(NOTE_KINDS) == 48
    assert RESERVED_TOPICS - NOTE_KINDS.keys() == {"branch"}


def test_what_a_host_changed_itself_keeps_its_own_type() -> None:
    for note in (SystemSet("Be brief.", 5, by_host=True), ToolsSet((), 0, by_host=True)):
        packed = note.pack()
        assert type(packed) is HostNote
        assert read_note(packed, type(note)) == note


@pytest.mark.parametrize(
    ("topic", "text"),
    [
        ("weighed", "no numbers here"),
        ("key", "many keys"),
        ("spent", "{}"),
        ("denied", '{"call_id": 1}'),
        ("hidden_calls", "[" * 100_000),
        ("state_note", "[forgotten]"),
        ("tools", "nothing"),
    ],
)
def test_a_text_that_cannot_be_read_is_no_note(topic: str, text: str) -> None:
    noted = NoteAdded(topic, text)
    kind = kind_of(noted)
    assert kind is not None
    assert read_note(noted, kind) is None
    assert is_note(noted, kind), "its topic still says what it was"


def test_other_events_have_no_kind() -> None:
    for payload in (NoteAdded("my own"), BranchStarted(text="3"), MessageAdded(user_message("hello"), 1)):
        assert kind_of(payload) is None
        assert read_note(payload, AnswerBirth) is None
    assert read_note(NoteAdded("undo", "no number"), EditUndone) == EditUndone(0)
