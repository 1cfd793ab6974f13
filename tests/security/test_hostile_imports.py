"""Threat: an imported archive, an edited store or a provider's report holds token counts of -3,000,000,000 or 2^62,
times of 1e300 and other numbers that cannot be. Believed, they send a request far above the window, stop commands for a
whole data folder, or switch off cooldowns, retention and calibration for good.
"""

import json
import math
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.calling import called
from tests.scale import FACTOR, mark_all_but, scaled
from tests.security.archives import Line, read_lines, write_lines
from tests.tui.stage import on_stage, played
from tidegate import Session
from tidegate.commands.actions import ResumeSession
from tidegate.core.edits import Replace
from tidegate.core.events import Event, MessageAdded, NoteAdded, UsageReported, ViewEdited, encode_event
from tidegate.core.messages import Image, Message, Text, user_message
from tidegate.core.notes import SideCost
from tidegate.core.tokens.estimate import TokenEstimator
from tidegate.datafolder.data_folder import DataFolder
from tidegate.datafolder.retention import DAY_SECONDS, remove_expired_sessions, set_retention
from tidegate.datafolder.workspaces import find_last_session, note_workspace
from tidegate.disk.folder import session_file_key
from tidegate.presets import load
from tidegate.proof.session_generator import generate_session
from tidegate.store.log import MemoryLog
from tidegate.store.sqlite.rows import compute_seal
from tidegate.wire.answers import read_usage

MODEL = "house-7b"
"""Of no known vocabulary, so that the estimate counts it here, in an import and in the test."""
WINDOW = 3_000
NOW = 1_700_000_000.0


SENT = ("content", "text", "name", "arguments", "description")
"""What a chat template puts before a model, beside the framing of each message: 4 tokens."""


def texts_in(value: object, key: str = "") -> Iterator[str]:
    if isinstance(value, str):
        yield value if key in SENT else ""
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from texts_in(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from texts_in(inner, key)


def tokens_of(body: dict[str, Any]) -> int:
    """A request counted from its JSON, apart from all sums of the engine."""
    return sum(map(TokenEstimator().count_text, texts_in(body))) + 4 * len(body["messages"])


def prepared(data: DataFolder, name: str, **options: Any) -> int:
    """The tokens of the next request of a session in the small window."""
    with data.open(name, MODEL, window=WINDOW, **options) as session:
        session.add(user_message("and now?"))
        return tokens_of(json.loads(session.prepare().to_bytes()))


def long_session(data: DataFolder, name: str) -> None:
    """31,000 tokens in a large window, with usage reports, notes of requests that were refused, and an edit."""
    with data.open(name, MODEL, window=200_000, system="You keep shop.") as session:
        for message in generate_session(400, 3):
            if message["role"] == "system":
                continue
            if message["role"] == "assistant":
                request = session.prepare()
                session.record({"prompt_tokens": request.tokens, "completion_tokens": 20})
            session.add(message)
            if session.view.tokens > 31_000:
                break
        session.recovery.learn_limits(None, session.tokens + 10)
        session.compact()
        session.history.undo()
        assert session.view.tokens > 31_000


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archive")
    data = DataFolder(folder / "data", secrets=[])
    long_session(data, "long")
    data.close()
    done = called("export", "long", folder / "long.tidegate", "--data", folder / "data")
    assert done.returncode == 0, done.stderr
    return folder / "long.tidegate"


def numbers_in(lines: list[Line]) -> list[tuple[int, tuple[object, ...]]]:
    """Where numbers are: the line, and the way into it. A text with a digit is one, too."""
    found: list[tuple[int, tuple[object, ...]]] = []

    def look(value: object, at: int, way: tuple[object, ...]) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                look(inner, at, (*way, key))
        elif isinstance(value, list):
            for key, inner in enumerate(value):
                look(inner, at, (*way, key))
        elif not isinstance(value, bool) and (
            isinstance(value, int | float) or (isinstance(value, str) and re.search(r"\d", value))
        ):
            found.append((at, way))

    for at, line in enumerate(lines):
        look(line, at, ())
    return found


def replaced(lines: list[Line], at: int, way: tuple[object, ...], new: object) -> list[Line]:
    changed = json.loads(json.dumps(lines[at]))
    inner = changed
    for key in way[:-1]:
        inner = inner[key]
    old = inner[way[-1]]
    inner[way[-1]] = re.sub(r"\d+", lambda _: str(new), old, count=1) if isinstance(old, str) else new
    return [*lines[:at], changed, *lines[at + 1 :]]


ABSURD: tuple[object, ...] = (
    -3_000_000_000,
    2**62,
    2**64,
    10**30,
    1e300,
    -1e300,
    -1,
    0,
    1,
    0.5,
    2**31,
    10**9 + 1,
    99_999,
    True,
    "7",
    None,
)


def test_whatever_number_is_changed_it_is_refused_by_its_record_or_fits(archive: Path, tmp_path: Path) -> None:
    """Any number in the file, and any number in a text of it, becomes any other."""
    lines = read_lines(archive)
    places = numbers_in(lines)
    # Most numbers are in what was said; those that decide something are to be drawn as often.
    deciding = [place for place in places if place[1][-1:] != (1,) or len(place[1]) < 4]
    tried = iter(range(10**6))

    @settings(max_examples=scaled(10))
    @given(st.one_of(st.sampled_from(places), st.sampled_from(deciding)), st.sampled_from(ABSURD))
    def holds(place: tuple[int, tuple[object, ...]], new: object) -> None:
        folder = tmp_path / str(next(tried))
        folder.mkdir()
        file = write_lines(folder / "x.tidegate", replaced(lines, *place, new))
        done = called("import", file, "--data", folder / "data")
        assert "internal error" not in done.stderr
        if done.returncode == 0:
            data = DataFolder(folder / "data", secrets=[])
            name = data.store.sessions()[0].name
            assert prepared(data, name) <= WINDOW
            data.close()
        else:
            assert done.returncode == 2
            assert re.search(r"record \d+|its header|there is no version|its sum or its counts|newer", done.stderr)
            assert "nothing of this was kept" in done.stderr or "newer" in done.stderr
        listed = called("sessions", "--data", folder / "data")
        assert listed.returncode == 0, listed.stderr
        shutil.rmtree(folder)

    holds()


@pytest.mark.parametrize("count", mark_all_but([-3_000_000_000, -1, 0, 1, 2**62], -1, 2**62))
def test_counts_of_an_archive_are_made_again(archive: Path, tmp_path: Path, count: int) -> None:
    """All of them at once: of messages, of edits, of the system prompt."""
    lines = read_lines(archive)
    for line in lines[1:]:
        what = line[2]
        if what[0] == "said":
            what[2] = count
        elif what[0] == "noted" and what[1] == "system":
            what[3] = count
        elif what[0] == "edited":
            for edit in what[7]:
                if edit[0] in ("replace", "insert") and len(edit) > 3:
                    edit[3] = count
    file = write_lines(tmp_path / "x.tidegate", lines)
    assert called("import", file, "--data", tmp_path / "data").returncode == 0
    data = DataFolder(tmp_path / "data", secrets=[])
    there = [event.payload.tokens for event in data.open_log("long").read() if isinstance(event.payload, MessageAdded)]
    assert all(tokens >= 4 for tokens in there)
    assert sum(there) > 31_000
    assert prepared(data, "long") <= WINDOW
    data.close()


def test_an_honest_archive_comes_back_as_it_was(archive: Path, tmp_path: Path) -> None:
    data = DataFolder(tmp_path / "data", secrets=[])
    assert called("import", archive, "--trust", "--data", tmp_path / "data").returncode == 0
    lines = [json.loads(msgspec.json.encode(event)) for event in data.open_log("long").read()]
    assert lines[:-1] == read_lines(archive)[1:]
    assert lines[-1][2][:3] == ["noted", "foreign", "long"]
    data.close()


def test_reports_of_an_archive_calibrate_nothing(archive: Path, tmp_path: Path) -> None:
    """Each of them says that the provider counted half of what we count: then twice the window would go out."""
    lines = read_lines(archive)
    for line in lines[1:]:
        if line[2][0] == "used":
            line[2][4] = math.ceil(line[2][3] * 0.5)
    file = write_lines(tmp_path / "x.tidegate", lines)
    assert called("import", file, "--data", tmp_path / "data").returncode == 0
    data = DataFolder(tmp_path / "data", secrets=[])
    assert prepared(data, "long") <= WINDOW
    with data.open("long", MODEL, window=WINDOW) as session:
        assert session.view.scale_by_model == {}
    assert called("trace", "long", "--usage", "--data", tmp_path / "data").returncode == 0
    data.close()


WRONG: dict[str, Callable[[int], list[Any]]] = {
    "a time beyond all calendars": lambda seq: [seq, 1e300, ["noted", "t"]],
    "a time before 1970": lambda seq: [seq, -1.0, ["noted", "t"]],
    "a negative report": lambda seq: [seq, NOW, ["used", "m", 1, 10, -10]],
    "a report of 2^62": lambda seq: [seq, NOW, ["used", "m", 1, 10, 2**62]],
    "a report that counts as 2^62": lambda seq: [seq, NOW, ["used", "m", 1, 2**62, 10]],
    "a report with a negative cache": lambda seq: [seq, NOW, ["used", "m", 1, 10, 10, 1, -5]],
    "a report on the future": lambda seq: [seq, NOW, ["used", "m", seq + 5, 10, 10]],
    "a refused request without numbers": lambda seq: [seq, NOW, ["noted", "weighed", "some words here", 10]],
    "a refused request of 2^62": lambda seq: [seq, NOW, ["noted", "weighed", "1 10 m", 2**62]],
    "a negative window": lambda seq: [seq, NOW, ["noted", "model", '{"model":"m","window":-5}']],
    "a window of 2^62": lambda seq: [seq, NOW, ["noted", "model", '{"model":"m","window":4611686018427387904}']],
    "a negative price": lambda seq: [seq, NOW, ["noted", SideCost.topic, '{"model":"m","usage":[-5,1,1,1]}']],
    "an edit of negative tokens": lambda seq: [seq, NOW, ["edited", "s", "manual", "", "w", -1, 5, []]],
    "a picture of 2^40 pixels": lambda seq: [
        seq,
        NOW,
        ["said", ["user", [["image", "image/png", "", "https://x.y/z", 2**40, 1]], f"m{seq}"], 5],
    ],
    "another number": lambda seq: [seq + 1, NOW, ["noted", "t"]],
    "a count that is no number": lambda seq: [seq, NOW, ["said", ["user", [["text", "x"]], f"m{seq}"], "many"]],
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_is_refused_with_the_number_of_its_record(case: str, archive: Path, tmp_path: Path) -> None:
    lines = read_lines(archive)[:11]
    lines[0]["head"] = 11
    file = write_lines(tmp_path / "x.tidegate", [*lines, WRONG[case](11)])
    done = called("import", file, "--data", tmp_path / "data")
    assert done.returncode == 2
    assert "record 11" in done.stderr, done.stderr
    assert "remedy: " in done.stderr
    assert called("sessions", "--data", tmp_path / "data").stdout == "No sessions are stored yet.\n"


def test_a_header_that_cannot_be_is_refused(archive: Path, tmp_path: Path) -> None:
    lines = read_lines(archive)
    lines[0]["created"] = 1e300
    done = called("import", write_lines(tmp_path / "x.tidegate", lines), "--data", tmp_path / "data")
    assert done.returncode == 2
    assert "its header says that it was begun at 1e+300" in done.stderr


def test_the_size_of_a_picture_is_its_own(tmp_path: Path) -> None:
    """A photograph that says it is one pixel wide would be counted as next to nothing."""
    png = (
        "iVBORw0KGgoAAAANSUhEUgAAC7gAAAu4CAYAAAB" + "A" * 40
    )  # the head of one of 3000 by 3000; no more of it is ever read
    log = MemoryLog()
    session = Session(MODEL, log=log)
    session.add(Message("user", (Image(data=png, width=1, height=1),)))
    event = next(event for event in log.read() if isinstance(event.payload, MessageAdded))
    assert isinstance(event.payload, MessageAdded)
    assert event.payload.tokens > 2_000


def test_recordings_of_other_agents_with_absurd_times(tmp_path: Path) -> None:
    """A time of 400 digits, 1e300 or below zero is no time; the messages are taken in."""
    lines = [
        {"role": "user", "content": "hello", "timestamp": 10**400},
        {"role": "assistant", "content": "hi", "timestamp": 1e300},
        {"role": "user", "content": "more", "timestamp": -5},
    ]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = called("import", tmp_path / "x.jsonl", "--data", tmp_path / "data")
    assert (done.returncode, done.stderr) == (0, "")
    assert called("sessions", "--data", tmp_path / "data").returncode == 0


# --- a folder with one bad session ------------------------------------------------------------------------------------


def rewritten(data: DataFolder, name: str, seq: int, what: Any, time: float = NOW) -> None:
    """Another event in the place of one, with a right sum: as somebody edits a store who knows how."""
    data.store.rewrite(name, {seq: encode_event(Event(seq, time, what))})  # type: ignore[attr-defined]


EDITS: dict[str, Callable[[DataFolder], None]] = {
    "a time of 1e300": lambda data: rewritten(data, "bad", 4, NoteAdded("t"), 1e300),
    "a time of nan": lambda data: rewritten(data, "bad", 4, NoteAdded("t"), math.nan),
    "a time below zero": lambda data: rewritten(data, "bad", 4, NoteAdded("t"), -1e300),
    "an undo of words": lambda data: rewritten(data, "bad", 4, NoteAdded("undo", "that")),
    "tools that are none": lambda data: rewritten(data, "bad", 4, NoteAdded("tools", "{")),
    "a refused request of words": lambda data: rewritten(data, "bad", 4, NoteAdded("weighed", "words")),
    "a report of 2^63": lambda data: rewritten(data, "bad", 4, UsageReported("m", 3, 2**63, 2**63, 2**63)),
    "a negative report": lambda data: rewritten(data, "bad", 4, UsageReported("m", 3, -5, -5, -5)),
    "a report at 1e300": lambda data: rewritten(data, "bad", 4, UsageReported("m", 3, 50, 50, 5), 1e300),
    "a message of 2^63 tokens": lambda data: rewritten(data, "bad", 4, MessageAdded(Message("user", (), "m4"), 2**63)),
    "a message of -3e9 tokens": lambda data: rewritten(
        data, "bad", 4, MessageAdded(Message("user", (), "m4"), -(3 * 10**9))
    ),
    "an id that is none": lambda data: rewritten(data, "bad", 4, MessageAdded(Message("user", (Text("x"),), "mm"), 5)),
    "an edit of 2^63 tokens": lambda data: rewritten(
        data, "bad", 4, ViewEdited("s", "manual", "r", "w", 2**63, -5, (Replace("m3", (Text("x"),), 2**63),)), 1e300
    ),
}


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    data = DataFolder(folder / "data", secrets=[])
    for name in ("good", "bad"):
        with data.open(name, MODEL, window=50_000) as session:
            for message in list(generate_session(2, 1))[1:]:
                session.add(message)
            session.record({"prompt_tokens": 100, "completion_tokens": 5})
    data.close()
    return folder


USUAL_EDITS = ("tools that are none", "an edit of 2^63 tokens")


ALIKE_EDITS = ("a time of 1e300", "a time below zero", "a report at 1e300", "a message of 2^63 tokens")
"""The doctor and the session are tried with them; what other sessions see of them is as of another edit."""


def mark_others(edits: Iterable[str]) -> list[Any]:
    """Parameters of a test: all but the usual edits are exhaustive."""
    return [edit if edit in USUAL_EDITS else pytest.param(edit, marks=pytest.mark.exhaustive) for edit in edits]


@pytest.mark.parametrize("edit", mark_others(edit for edit in EDITS if FACTOR > 1 or edit not in ALIKE_EDITS))
def test_one_bad_session_does_not_stop_the_others(edit: str, two: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    shutil.copytree(two / "data", folder)
    data = DataFolder(folder, secrets=[])
    EDITS[edit](data)
    shutil.rmtree(folder / "views")
    shutil.rmtree(folder / "traces")
    data.close()
    for words in (
        ("sessions",),
        ("sessions", "--json"),
        ("show", "good"),
        ("trace", "good", "--usage"),
        ("recall", "good", "m3"),
        ("memory", "search", "file"),
        ("export", "good", tmp_path / "good.tidegate"),
    ):
        done = called(*words, "--data", folder)
        assert "internal error" not in done.stderr
        assert done.returncode == 0, (words, done.stderr)
    for command in ("show", "trace", "view", "undo", "clear", "export"):
        to = {"view": ("--out", tmp_path / "bad.html"), "export": (tmp_path / "bad.tidegate",)}
        done = called(command, "bad", *to.get(command, ()), "--data", folder)
        assert "internal error" not in done.stderr, done.stderr
        assert not done.returncode or "remedy: " in done.stderr or command == "undo"
    examined = called("doctor", "--data", folder)
    assert examined.returncode == 1
    assert [
        line for line in examined.stdout.splitlines() if "'bad'" in line and re.search(r"(?i)record 4|event 4", line)
    ]
    assert not [line for line in examined.stdout.splitlines() if "'good'" in line and not line.startswith("fine")]
    measured = called(
        "lab", folder, "--window", 1000, "--longer", 0.1, "--policy", "default", "--jobs", 1, "--cache", tmp_path / "c"
    )
    assert "internal error" not in measured.stderr
    unreadable = edit == "tools that are none"
    assert f"window 1,000: {'1 session ' if unreadable else '2 sessions '}" in measured.stdout
    assert ("session 'bad': Record 4 does not describe tools" in measured.stderr) == unreadable
    taken = called("import", folder, "--data", tmp_path / "taken")
    assert "good: " in taken.stdout
    assert (taken.returncode, "session 'bad': Record 4" in taken.stderr) == (int(unreadable), unreadable)
    data = DataFolder(folder, secrets=[])
    assert prepared(data, "good") <= WINDOW
    data.close()


@pytest.mark.parametrize("edit", mark_others(name for name in EDITS if "words" not in name and "none" not in name))
def test_doctor_corrects_what_cannot_be_and_the_session_goes_on(edit: str, two: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    shutil.copytree(two / "data", folder)
    data = DataFolder(folder, secrets=[])
    EDITS[edit](data)
    data.close()
    mended = called("doctor", "--repair", "--data", folder)
    assert mended.returncode == 0, mended.stdout
    assert "mended  session 'bad': 1 record with impossible values; record 4: " in mended.stdout
    assert called("doctor", "--data", folder).returncode == 0
    data = DataFolder(folder, secrets=[])
    assert prepared(data, "bad") <= WINDOW
    data.close()


def test_the_picker_of_the_chat_lists_all(two: Path, tmp_path: Path) -> None:
    shutil.copytree(two / "data", tmp_path / "data")
    data = DataFolder(tmp_path / "data", secrets=[])
    rewritten(data, "bad", 4, NoteAdded("undo", "that"), 1e300)
    note_workspace(data, "bad", tmp_path / "work")
    data.close()
    shutil.rmtree(tmp_path / "data" / "views")

    async def play() -> None:
        async with on_stage(tmp_path, ["done"], name="good") as stage:
            stage.app.action_sessions()
            await stage.sees("bad")
            await stage.sees("(here)")
            await stage.press("escape")
            stage.app.reopen(ResumeSession("bad"))
            await stage.sees("Record 4 does not follow from those before it")

    played(play)


ROWS: list[tuple[str, object]] = [
    ("name", b"\xff\xfe"),
    ("head", 2**62),
    ("head", "abc"),
    ("packed", -1),
    ("size", "abc"),
    ("created", 1e300),
    ("used", math.inf),
    ("used", "abc"),
    ("used", 4e12),
]
SEALED_COLUMNS = ("head", "packed", "size")
"""The checksum of a row is over these. A change of another column leaves it right."""


@pytest.mark.parametrize(
    ("column", "value", "sealed"),
    [
        *(pytest.param(*row, True, id=f"{row[0]}-{row[1]!r}") for row in ROWS),
        *(
            pytest.param(*row, False, id=f"{row[0]}-{row[1]!r}-checksum wrong", marks=pytest.mark.exhaustive)
            for row in ROWS
            if row[0] in SEALED_COLUMNS
        ),
    ],
)
def test_an_absurd_row_is_listed_with_the_others(
    column: str, value: object, sealed: bool, two: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    shutil.copytree(two / "data", folder)
    database = sqlite3.connect(folder / "tidegate.db")
    database.execute(f"UPDATE sessions SET {column} = ? WHERE name = 'bad'", (value,))
    if sealed:
        (row,) = database.execute("SELECT id, head, packed, size FROM sessions WHERE name IS NOT 'good'")
        numbers = [each if isinstance(each, int) else 0 for each in row[1:]]
        database.execute("UPDATE sessions SET seal = ? WHERE id = ?", (compute_seal(*numbers), row[0]))
    database.commit()
    database.close()
    listed = called("sessions", "--data", folder)
    assert listed.returncode == 0, listed.stderr
    assert len(listed.stdout.splitlines()) == 3
    assert ("unknown" in listed.stdout or "1970" in listed.stdout) == (column in ("created", "used"))
    assert ("tidegate doctor" in listed.stderr) == (column in ("created", "used"))
    assert len(json.loads(called("sessions", "--json", "--data", folder).stdout)) == 2
    assert called("show", "good", "--data", folder).returncode == 0
    assert "internal error" not in called("doctor", "--data", folder).stderr


# --- a store that was edited ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "snapshot"),
    [
        (-3_000_000_000, "forged"),
        (0, "none"),
        (1, "forged"),
        (2**62, "none"),
        *(pytest.param(*each, marks=pytest.mark.exhaustive) for each in ((0, "forged"), (1, "none"))),
        *(pytest.param(*each, marks=pytest.mark.exhaustive) for each in ((-3_000_000_000, "none"), (2**62, "forged"))),
    ],
)
def test_counts_of_an_edited_store_send_nothing_over_the_window(
    archive: Path, tmp_path: Path, count: int, snapshot: str
) -> None:
    data = DataFolder(tmp_path / "data", secrets=[])
    shutil.copytree(archive.parent / "data", tmp_path / "data", dirs_exist_ok=True)
    data.close()
    data = DataFolder(tmp_path / "data", secrets=[])
    events = list(data.open_log("long").read())
    changes = {
        event.seq: encode_event(
            msgspec.structs.replace(event, payload=msgspec.structs.replace(event.payload, tokens=count))
        )
        for event in events
        if isinstance(event.payload, MessageAdded)
        or (isinstance(event.payload, NoteAdded) and event.payload.topic == "system")
    }
    data.store.rewrite("long", changes)  # type: ignore[attr-defined]
    shutil.rmtree(tmp_path / "data" / "views")
    if snapshot == "forged":
        with data.open("long", MODEL, window=200_000) as session:
            view = session.view
            for item in view.items:
                item.tokens = item.metered_tokens = min(max(count, 0), 2**40)
            view.tokens = view.metered = sum(item.tokens for item in view.items)
            last = list(session.log.read())[-1]
        assert data.snapshots.save(session_file_key("long"), view, last, "")
        assert data.snapshots.load(session_file_key("long"), data.open_log("long"), "") is not None
    assert prepared(data, "long") <= WINDOW
    data.close()


# --- what a provider reports ------------------------------------------------------------------------------------------

REPORTS: tuple[object, ...] = (
    -5,
    -(2**62),
    2**62,
    2**80,
    10**9 + 1,
    math.nan,
    math.inf,
    1e300,
    True,
    "12",
    None,
    [],
    {},
)


@pytest.mark.parametrize(
    "names",
    [
        ("prompt_tokens", "completion_tokens"),
        ("input_tokens", "output_tokens"),
        ("cache_read_input_tokens", "cache_creation_input_tokens"),
        ("promptTokenCount", "candidatesTokenCount"),
    ],
)
def test_an_impossible_report_teaches_nothing(names: tuple[str, str], tmp_path: Path) -> None:
    data = DataFolder(tmp_path, secrets=[])
    with data.open("s", MODEL, window=WINDOW) as session:
        session.add(user_message("x " * 300))
        session.prepare()
        session.record({"prompt_tokens": session.tokens, "completion_tokens": 1})
        before = dict(session.view.scale_by_model)
        for value in REPORTS:
            session.add({"role": "assistant", "content": "yes"}, user_message("y " * 30))
            size = session.tokens
            session.prepare()
            session.record(dict.fromkeys(names, value))
            assert (session.view.scale_by_model, session.tokens) == (before, size), value
    assert called("trace", "s", "--usage", "--data", tmp_path).returncode == 0
    data.close()


def test_what_was_cached_is_part_of_what_was_read() -> None:
    read = read_usage({"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 10**9}})
    assert (read.input_tokens, read.cache_read) == (100, 100)
    read = read_usage({"input_tokens": 5, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 10**9})
    assert read.cache_read + read.cache_write <= read.input_tokens


@settings(max_examples=scaled(30))
@given(st.lists(st.floats(0.0, 10.0), min_size=1, max_size=40))
def test_the_calibration_is_bounded_whatever_is_reported(shares: list[float]) -> None:
    """At worst a request is twice the window by our own count: a provider that reports half is believed that far."""
    session = Session(MODEL, window=WINDOW)
    for share in shares:
        session.add(user_message("x " * 200))
        request = session.prepare()
        session.record({"prompt_tokens": round(request.tokens * share)})
        session.add({"role": "assistant", "content": "yes"})
        assert 0.5 <= session.budget.scale <= 3.0
        assert tokens_of(json.loads(session.prepare().to_bytes())) <= 2 * WINDOW


# --- clocks -----------------------------------------------------------------------------------------------------------


class Clock:
    def __init__(self, now: float = NOW) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


COOLING = """\
name: cooling
about: summarizes the beginning, at most once an hour
moments:
  before_call:
    - stage: summarize
      when: {tokens: "> 200"}
      keep_turns: 1
      max_tokens: 200
      cooldown: {seconds: 3600}
"""


def test_a_clock_that_was_ahead_does_not_stop_a_cooldown_for_years(tmp_path: Path) -> None:
    (tmp_path / "cooling.yaml").write_text(COOLING)
    clock = Clock(NOW + 10 * 365 * DAY_SECONDS)
    session = Session(MODEL, window=50_000, policy=load(tmp_path / "cooling.yaml"), clock=clock)

    def compacted() -> bool:
        session.add(user_message("word " * 400), {"role": "assistant", "content": "done"}, user_message("next"))
        session.prepare()
        return any(decision.acted for decision in session.last_decisions if decision.stage == "summarize")

    assert compacted()
    assert not compacted(), "an hour has not passed"
    clock.now = NOW
    assert compacted()
    clock.now = NOW + 60
    assert not compacted()


def test_a_clock_that_was_ahead_does_not_keep_a_cache_warm() -> None:
    clock = Clock(NOW + 10 * 365 * DAY_SECONDS)
    session = Session(MODEL, window=50_000, clock=clock)
    session.add(user_message("hello"), {"role": "assistant", "content": "hi"}, user_message("more"))
    session.prepare()
    assert "cache is warm (0 of its" in str(session.explain())
    clock.now = NOW
    assert "cache is warm" not in str(session.explain())


def test_retention_does_not_trust_a_leap_of_the_clock(tmp_path: Path) -> None:
    clock = Clock()
    data = DataFolder(tmp_path, clock=clock, secrets=[])
    with data.open("s", MODEL, window=WINDOW) as session:
        session.add(user_message("hello"))
    set_retention(data, "s", 30)
    assert remove_expired_sessions(data) == []
    clock.now = NOW + 40 * 365 * DAY_SECONDS
    with data.open("other", MODEL, window=WINDOW) as session:
        session.add(user_message("hello"))
    assert data.removed_sessions == []
    assert data.store.head("s")
    clock.now = NOW + 5
    assert remove_expired_sessions(data) == [], "the clock was put right"
    assert data.store.head("s")
    clock.now = NOW + 31 * DAY_SECONDS
    assert [left.session for left in remove_expired_sessions(data)] == ["s"]
    data.close()


def test_after_a_true_absence_retention_waits_for_a_second_look(tmp_path: Path) -> None:
    clock = Clock()
    data = DataFolder(tmp_path, clock=clock, secrets=[])
    with data.open("s", MODEL, window=WINDOW) as session:
        session.add(user_message("hello"))
    set_retention(data, "s", 30)
    remove_expired_sessions(data)
    clock.now = NOW + 800 * DAY_SECONDS
    assert remove_expired_sessions(data) == []
    clock.now += DAY_SECONDS
    assert [left.session for left in remove_expired_sessions(data)] == ["s"]
    data.close()


def test_the_last_session_is_not_one_of_the_future(tmp_path: Path) -> None:
    clock = Clock(NOW + 10 * 365 * DAY_SECONDS)
    data = DataFolder(tmp_path, clock=clock, secrets=[])
    for name, now in (("ahead", clock.now), ("today", NOW)):
        clock.now = now
        with data.open(name, MODEL, window=WINDOW) as session:
            session.add(user_message("hello"))
        note_workspace(data, name, tmp_path)
    assert [info.name for info in data.store.sessions()] == ["ahead", "today"]
    clock.now = NOW + 60
    assert find_last_session(data, tmp_path) == "today"
    clock.now = NOW - DAY_SECONDS
    assert find_last_session(data, tmp_path) == "ahead", "if all are of the future, the clock is what is wrong"
    data.close()


def play_at(times: Sequence[float]) -> bytes:
    """The last request of a session that is opened again from its log at each of these times, in turn."""
    clock, log, request = Clock(), MemoryLog(), b""
    for at, message in enumerate(list(generate_session(4, 2))[1:]):
        clock.now = times[at % len(times)]
        session = Session(MODEL, window=WINDOW, policy="jutul", log=log, clock=clock)
        if message["role"] == "assistant":
            request = session.prepare().to_bytes()
        session.add(message)
    return request


@cache
def play_steadily() -> bytes:
    return play_at([NOW])


@pytest.mark.exhaustive
@settings(max_examples=scaled(4))
@given(st.lists(st.sampled_from([0.0, 1.0, NOW, NOW - 1e6, NOW + 1e9, 2.5e11]), min_size=3, max_size=8))
def test_a_jumping_clock_changes_no_request(times: list[float]) -> None:
    """Under a policy without waiting times."""
    assert play_at(times) == play_steadily()
