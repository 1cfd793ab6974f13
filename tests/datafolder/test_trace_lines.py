"""What the lines of a trace say, how long they get, and how they are read."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.datafolder.traced import traced
from tests.layers import imports_of, package_sources
from tidegate.core.edits import Drop, Insert, Replace
from tidegate.core.events import Event, EventPayload, MessageAdded, NoteAdded, UsageReported, ViewEdited
from tidegate.core.messages import Call, Message, Result, Text, user_message
from tidegate.datafolder.trace.lines import encode_trace_line
from tidegate.datafolder.trace.writer import ModelUsage, TraceLine, make_trace_lines, read_trace, sum_usage_by_model

TIME = 1_000_000.25
PAIR = Message("assistant", (Text("Let me look."), Call("c1", "read", '{"path":"a"}'), Call("c2", "run")), id="m3")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "traces" / "s.jsonl"


def shown(what: EventPayload) -> list[dict[str, object]]:
    """The lines of an event as a reader gets them, without what stands in all of them."""
    lines = [json.loads(line) for line in written(what).splitlines()]
    assert all(list(line)[:4] == ["time", "seq", "event", "session"] for line in lines)
    common = {"time": TIME, "seq": 3, "session": "s"}
    assert all({key: line.pop(key) for key in common} == common for line in lines)
    return lines


def written(what: EventPayload, mask: Callable[[str], str] = str, session: str = "s") -> str:
    return b"".join(encode_trace_line(line) for line in make_trace_lines(Event(3, TIME, what), session, mask)).decode()


def test_each_call_is_a_line_and_the_last_one_ends_the_event() -> None:
    assert shown(MessageAdded(PAIR, 30)) == [
        {
            "event": "tool_call",
            "id": "m3",
            "call": "c1",
            "name": "read",
            "arguments": '{"path":"a"}',
            "chars": 12,
            "more": True,
        },
        {"event": "tool_call", "id": "m3", "call": "c2", "name": "run", "arguments": "{}", "chars": 2},
    ]


@pytest.mark.parametrize(
    ("what", "line"),
    [
        (
            MessageAdded(Message("tool", (Result("c1", (Text("four"), Text("bar")), error=True),), id="m3"), 9),
            {"event": "tool_result", "id": "m3", "call": "c1", "error": True, "tokens": 9, "chars": 7},
        ),
        (
            MessageAdded(Message("user", (Text("A secret wish"),), id="m3"), 0),
            {"event": "message", "role": "user", "id": "m3", "tokens": 0, "chars": 13},
        ),
        (
            MessageAdded(Message("user", (Text("Be brief"),), id="m3", kind="reminder"), 4),
            {"event": "message", "role": "user", "kind": "reminder", "id": "m3", "tokens": 4, "chars": 8},
        ),
        (
            UsageReported("gpt-4o", 2, 90, 100, 0, 80),
            {
                "event": "model_usage",
                "model": "gpt-4o",
                "input_tokens": 100,
                "output_tokens": 0,
                "cache_read": 80,
                "cache_write": 0,
                "counted": 90,
                "head": 2,
            },
        ),
        (NoteAdded("overflow"), {"event": "error", "topic": "overflow"}),
        (
            NoteAdded("summary_failed", "OSError"),
            {"event": "error", "topic": "summary_failed", "text": "OSError", "chars": 7},
        ),
        (NoteAdded("error", "no route"), {"event": "error", "topic": "error", "text": "no route", "chars": 8}),
        (NoteAdded("clear"), {"event": "context_clear"}),
        (NoteAdded("undo", "7"), {"event": "context_undo", "text": "7", "chars": 1}),
        (NoteAdded("redo", "7"), {"event": "context_redo", "text": "7", "chars": 1}),
        (NoteAdded("compaction_start", "9 tokens"), {"event": "compaction_start", "text": "9 tokens", "chars": 8}),
        (NoteAdded("compaction_end", "9 tokens"), {"event": "compaction_end", "text": "9 tokens", "chars": 8}),
        (NoteAdded("forgotten", "m2"), {"event": "forgotten", "text": "m2", "chars": 2}),
        (NoteAdded("model", "{}"), {"event": "model", "text": "{}", "chars": 2}),
        (
            NoteAdded("system", "Be kind.", 6),
            {"event": "note", "topic": "system", "text": "Be kind.", "chars": 8, "tokens": 6},
        ),
        (NoteAdded("turn"), {"event": "note", "topic": "turn"}),
    ],
    ids=lambda value: value.get("topic", value["event"]) if isinstance(value, dict) else "",
)
def test_other_events_are_one_line(what: EventPayload, line: dict[str, object]) -> None:
    assert shown(what) == [line]


def test_a_compaction_says_what_it_did_and_saved() -> None:
    edits = (Drop(("m11", "m9", "m10")), Replace("m12", (Text("[cleared]"),)), Insert(user_message("sum", "summary")))
    edited = ViewEdited("summarize", "before_call", "before_call/summarize", "too full", 900, 300, edits)
    assert shown(edited) == [
        {
            "event": "context_compaction",
            "stage": "summarize",
            "rule": "before_call/summarize",
            "moment": "before_call",
            "why": "too full",
            "before": 900,
            "after": 300,
            "dropped": 3,
            "replaced": 1,
            "inserted": 1,
            "ids": ["", "m9", "m10", "m11", "m12"],
        }
    ]


BIG = "\0" * 300_000


@pytest.mark.parametrize(
    "what",
    [
        MessageAdded(Message("assistant", (Call(BIG, BIG, BIG),), id=BIG), 1),
        MessageAdded(Message("tool", (Result(BIG, (Text(BIG),)),), id="m3"), 1),
        ViewEdited("drop", "manual", "r", BIG, 9, 1, (Drop(tuple(f"m{number}" for number in range(20_000))),)),
        NoteAdded(BIG, BIG),
        UsageReported(BIG, 1, 1, 1),
    ],
    ids=["calls", "result", "edited", "noted", "used"],
)
def test_no_line_is_long(what: EventPayload) -> None:
    """The end of the file is looked for in a piece of 8 KiB: a line must fit into it."""
    assert all(len(line) < 8_000 for line in written(what, session="n" * 100_000).splitlines())


SECRET = "hunter2-" * 60


def mask(text: str) -> str:
    return text.replace(SECRET, "[masked]")


@pytest.mark.parametrize("behind", [1_000, 30_000])
@pytest.mark.parametrize("before", [0, 20, 490, 499, 600, 19_700, 25_000])
def test_a_secret_is_masked_wherever_a_cut_falls(before: int, behind: int) -> None:
    """Also where what stands before it shrinks so far under the mask that the cut of a huge text comes into sight."""
    for padding in ("x" * before, SECRET * (before // len(SECRET)) + "x" * (before % len(SECRET))):
        text = padding + SECRET + "y" * behind
        for what in (
            MessageAdded(Message("assistant", (Call("c", "run", text),), id="m3"), 1),
            NoteAdded("thought", text),
        ):
            line = written(what, mask)
            assert "hunter" not in line
            assert "[...]" in line


def test_names_and_reasons_are_masked_too() -> None:
    text = f"say {SECRET}"
    for what in (
        MessageAdded(Message("assistant", (Call("c", text),), id="m3"), 1),
        NoteAdded(text),
        ViewEdited("drop", "manual", "r", text, 9, 1, ()),
    ):
        assert "say [masked]" in written(what, mask)


def test_a_reader_passes_over_what_is_torn_or_damaged(path: Path) -> None:
    traced(path, 1)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b"\xff\0 rubbish\n", b"[1]\n", *lines[3:], lines[2][:-1]]))
    first = [line.seq for line in read_trace(path)]
    assert 3 not in first
    assert first[:3] == [1, 2, 4]
    assert [line.seq for line in read_trace(path, 5)] == [seq for seq in first if seq >= 5]
    assert list(read_trace(path.with_name("none.jsonl"))) == []


def test_usage_adds_up_by_model() -> None:
    used = [UsageReported("a", 0, 0, 100, 10, 50, 5), UsageReported("b", 0, 0, 7), UsageReported("a", 0, 0, 200, 20)]
    lines = [line for seq, what in enumerate(used, 1) for line in make_trace_lines(Event(seq, TIME, what))]
    lines += make_trace_lines(Event(4, TIME, MessageAdded(PAIR, 1_000)))
    assert sum_usage_by_model(lines) == {"a": ModelUsage(2, 300, 30, 50, 5), "b": ModelUsage(1, 7)}
    assert sum_usage_by_model([]) == {}


def test_a_newer_line_can_be_read_and_nought_is_told_from_nothing(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_text('{"time":1.0,"seq":1,"event":"new_kind","session":"s","tokens":0,"colour":"red"}\n')
    assert list(read_trace(path)) == [TraceLine(1.0, 1, "new_kind", "s", tokens=0)]


READERS = {"read_trace", "sum_usage_by_model", "decode_trace_line", "*", "writer", "lines"}
DOCTOR = "tidegate.datafolder.doctor."
FACES = tuple(f"tidegate.{room}." for room in ("cli", "tui", "web", "proof", "commands", "lab", "agent", "gateway"))


def test_nothing_that_makes_a_view_can_read_a_trace() -> None:
    """Only the faces, the lab and the doctor do; `Trace` reads the end of its file to know where to continue."""
    # Whoever imports one of them has this word in its text; to parse all others takes time and memory.
    sources = [
        source for source in package_sources() if re.search(r"datafolder[. ]+(trace|doctor|import)", source.text)
    ]
    known = [(source.module, target) for source in sources for _, target, _ in imports_of(source)]
    readers = {
        module
        for module, target in known
        if target.startswith("tidegate.datafolder.trace") and target.rpartition(".")[2] in READERS
    }
    assert readers  # else the names above are out of date
    allowed = ("tidegate.datafolder.trace.", DOCTOR, *FACES)
    assert {module for module in readers if not module.startswith(allowed)} == set()
    callers = {module for module, target in known if target.startswith(DOCTOR)}
    assert {module for module in callers if not module.startswith((DOCTOR, *FACES))} == set()
