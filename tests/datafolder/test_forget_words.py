"""Words are forgotten wherever and however they were written, and counts stay upper bounds."""

import hashlib
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.datafolder.forgetting import SECRET, WORDS, alive, leaked, opened, remains, rooms
from tests.datafolder.test_retention import Killed, killing
from tests.scale import mark_all_but
from tidegate.core.edits import Replace
from tidegate.core.events import Event, MessageAdded, NoteAdded, ViewEdited
from tidegate.core.messages import Call, Message, Result, Text, Thinking, text_of
from tidegate.core.tokens.counting import TokenCounter, count_message, count_system, count_tools
from tidegate.datafolder.data_folder import DataFolder
from tidegate.datafolder.forget.forget import forget_words
from tidegate.datafolder.forget.tombstones import TOMBSTONE, PhraseRemover, blank_event
from tidegate.models.token_counters import create_counter
from tidegate.wire.registry import parse_tools

AWKWARD = f'{SECRET[:12]}"ü\\ /{SECRET[12:24]}😀 {SECRET[24:]}'


@pytest.mark.parametrize("secret", [SECRET, AWKWARD], ids=["plain", "awkward"])
def test_words_leave_every_place(secret: str, tmp_path: Path) -> None:
    data = DataFolder(tmp_path, secrets=[])
    leaked(data, secret)
    parts = [secret] if secret is SECRET else [SECRET[:12], SECRET[12:24], SECRET[24:]]
    assert rooms(tmp_path, parts[0]) >= {"memory", "sessions", "traces", "tidegate.db", "search.db"}
    head = data.store.head("s")
    done = forget_words(data, "s", secret)
    assert [remains(tmp_path, part) for part in parts] == [[] for _ in parts]
    assert set(done.changed_notes) == {"keys.md", data.notes.daily_names()[0]}
    assert done.changed_records > 10
    assert data.store.head("s") == head + 1
    assert secret not in str(done)
    with alive(data) as session:
        body = json.dumps(session.prepare().body)
        assert f"The key is {TOMBSTONE}." in body
        assert f"uses {TOMBSTONE}" in body
        arguments = [json.loads(call.arguments) for call in calls(data)]
        assert arguments[0] == {"k": TOMBSTONE}
        assert arguments[1] == {"k": f"/srv/{TOMBSTONE}/x"}
        assert not any(isinstance(part, Thinking) for message in messages(data) for part in message.parts)
    assert forget_words(data, "s", secret).changed_records == 0, "there is nothing left to forget"


def messages(data: DataFolder) -> list[Message]:
    return [event.payload.message for event in data.open_log("s").read() if isinstance(event.payload, MessageAdded)]


def calls(data: DataFolder) -> list[Call]:
    return [part for message in messages(data) for part in message.parts if isinstance(part, Call)]


def test_what_a_notice_says_of_a_file_stays_true(tmp_path: Path) -> None:
    data = DataFolder(tmp_path, secrets=[])
    leaked(data, SECRET)
    forget_words(data, "s", SECRET)
    notices = [
        text
        for event in data.open_log("s").read()
        if isinstance(event.payload, ViewEdited)
        for edit in event.payload.edits
        if isinstance(edit, Replace) and "SHA-256" in (text := text_of(Message("tool", edit.parts)))
    ]
    files = [name for name in data.session_files("s").names() if name.startswith("large_tool_results/")]
    assert len(files) == len(notices) == 4
    for name in files:
        digest = hashlib.sha256((data.session_files("s").root / name).read_bytes()).hexdigest()
        assert any(f"Saved to {name} (SHA-256 {digest})" in notice for notice in notices)


WORD_STEPS = (
    *("snapshot removed", "log rewritten", "forgetting noted", "blobs claimed", "blobs collected", "files cleaned"),
    *("notes cleaned", "trace made again", "index cleaned"),
)


@pytest.mark.parametrize("at", mark_all_but(WORD_STEPS, "snapshot removed", "blobs collected", "notes cleaned"))
def test_words_too_are_forgotten_by_a_rerun(at: str, tmp_path: Path) -> None:
    data = DataFolder(tmp_path, secrets=[])
    leaked(data, SECRET)
    with pytest.raises(Killed, match=at):
        forget_words(data, "s", SECRET, step=killing(at))
    data = DataFolder(tmp_path, secrets=[])
    with opened(data) as session:
        session.prepare()
    forget_words(data, "s", SECRET)
    assert remains(tmp_path, SECRET) == []
    topics = [event.payload.topic for event in data.open_log("s").read() if isinstance(event.payload, NoteAdded)]
    assert topics.count("forgotten") == 1
    alive(data).close()


def test_a_cut_through_the_words_leaves_no_half_of_them(tmp_path: Path) -> None:
    """The preview of a long result ends where it ends, also in the midst of a key."""
    data = DataFolder(tmp_path, secrets=[])
    with opened(data) as session:
        session.add({"role": "user", "content": "read"})
        for number in range(0, 40, 3):
            text = "x" * (900 + number) + SECRET + WORDS * 100
            session.add({"role": "assistant", "tool_calls": [_call(number)], "content": None})
            session.add({"role": "tool", "tool_call_id": f"c{number}", "content": text})
            session.prepare()
    assert remains(tmp_path, SECRET[:20]) != []
    forget_words(data, "s", SECRET)
    assert remains(tmp_path, SECRET[:12]) == []
    assert remains(tmp_path, SECRET[-12:]) == []


def _call(number: int) -> dict[str, Any]:
    return {"id": f"c{number}", "type": "function", "function": {"name": "read_file", "arguments": "{}"}}


FORMS = {
    "as it is": 'a "ü\\ /😀\nb',
    "json": json.dumps('a "ü\\ /😀\nb'),
    "json unescaped": json.dumps('a "ü\\ /😀\nb', ensure_ascii=False),
    "json in json": json.dumps(json.dumps('a "ü\\ /😀\nb')),
    "three deep": json.dumps(json.dumps(json.dumps('a "ü\\ /😀\nb'))),
    "capital hex and slashes": '"a \\"\\u00FC\\\\ \\/\\uD83D\\uDE00\\nb"',
    "url": quote('a "ü\\ /😀\nb'),
    "url, all of it": quote('a "ü\\ /😀\nb', safe="").lower(),
    "other line ends": 'a "ü\\ /😀\r\nb',
    "on one line": 'a "ü\\ /😀 b',
}


@pytest.mark.parametrize("form", FORMS)
def test_words_are_found_in_every_form(form: str) -> None:
    words = PhraseRemover('a "ü\\ /😀\nb')
    assert words.matches(f"before {FORMS[form]} behind")
    left = words.remove_from_text(f"before <{FORMS[form]}> behind")
    assert TOMBSTONE in left
    assert "ü" not in left
    assert "\U0001f600" not in left


@pytest.mark.parametrize(
    "char", ["\b", "\f", "\x01", "/", '"', "'", "\u2028", "\xa0", "\u3000", "\x1c", "é", "\U0001f600", "+", "%", "\\"]
)
def test_every_character_is_found_raw_and_escaped(char: str) -> None:
    words = PhraseRemover(f"ab{char}cd")
    for form in (f"ab{char}cd", json.dumps(f"ab{char}cd"), json.dumps(json.dumps(f"ab{char}cd")), quote(f"ab{char}cd")):
        assert words.matches(form), form
    assert not words.matches("abcd")


def test_many_blanks_and_backslashes_are_found() -> None:
    for gap in (" " * 3_000, "\n" * 70, "\\" * 40, " + ", "+"):
        words = PhraseRemover(f"ab{gap}cd")
        assert words.remove_from_text(f"<ab{gap}cd>") == f"<{TOMBSTONE}>"
        assert words.matches(json.dumps(json.dumps(f"ab{gap}cd")))
    assert PhraseRemover("ab cd").remove_from_text("ab" + " " * 200_000) == "ab" + " " * 200_000


def test_words_do_not_take_their_neighbours() -> None:
    words = PhraseRemover("hunter22")
    assert words.remove_from_text("hunter2 hunter222 Hunter22") == f"hunter2 {TOMBSTONE}2 Hunter22"
    assert words.remove_from_text("hunthunter22er22") == f"hunt{TOMBSTONE}er22"


def test_json_stays_json() -> None:
    words = PhraseRemover('"k": 12345')
    assert words.remove_from_json('{"k": 12345}', "{}") == "{}", "the words are more than a string"
    assert words.remove_from_json('{"n": "\\"k\\": 12345"}', "{}") == json.dumps(
        {"n": TOMBSTONE}, separators=(",", ":")
    )
    assert words.remove_from_json('{"broken": "\\"k\\": 12345', "{}") == f'{{"broken": "{TOMBSTONE}'
    assert PhraseRemover("12345").remove_from_json('{"n":12345}', "{}") == '{"n":0}'


def test_a_text_of_backslashes_takes_no_longer_than_another() -> None:
    """Under the timeout of this suite: a pattern that tries every run again would take hours."""
    words = PhraseRemover('""""//\\\\"/"\\"')
    assert words.remove_from_text("\\" * 1_000_000) == "\\" * 1_000_000


def test_a_call_whose_id_is_the_secret_still_has_its_result(tmp_path: Path) -> None:
    data = DataFolder(tmp_path, secrets=[])
    with opened(data) as session:
        session.add({"role": "user", "content": "go"})
        call = {"id": f"call_{SECRET}", "type": "function", "function": {"name": "run", "arguments": "{}"}}
        session.add({"role": "assistant", "content": None, "tool_calls": [call]})
        session.add({"role": "tool", "tool_call_id": f"call_{SECRET}", "content": "the result"})
        session.prepare()
    forget_words(data, "s", SECRET)
    assert remains(tmp_path, SECRET) == []
    with opened(data) as session:
        assert "the result" in json.dumps(session.prepare().body)
        assert session.view.orphans == []


# --- what is counted --------------------------------------------------------------------------------------------------

COUNTERS = [
    *(create_counter(model) for model in ("gpt-4o", "gpt-4", "claude-sonnet-4-5")),
    *(create_counter("", count) for count in ("chars/4", "chars/2")),
]
PARTS = [
    Message("user", (Text(f"{SECRET} {WORDS}" * 3),), id="m1"),
    Message("user", (Text("pass1234 " * 200),), id="m1"),
    Message("user", (Text("日本語pass1234日本語" * 50),), id="m1"),
    Message("assistant", (Text("x"), Call("a", "read_file", '{"k": "pass1234"}'), Call("b", "läs fil")), id="m1"),
    Message("tool", (Result("a", (Text("pass1234\n" * 99), Text("x")), error=True),), id="m1"),
    Message("assistant", (Thinking("pass1234 is the key"), Thinking(block='{"thinking":"pass1234"}')), id="m1"),
    Message("system", (Text("pass1234"),), id="m1"),
]


@pytest.mark.parametrize("counter", COUNTERS, ids=lambda counter: counter.name)
@pytest.mark.parametrize("message", PARTS, ids=range(len(PARTS)))
def test_counts_stay_upper_bounds(message: Message, counter: TokenCounter) -> None:
    event = Event(1, 0.0, MessageAdded(message, count_message(message, counter, thinking=True)))
    for new in (
        blank_event(event, frozenset({"m1"})),
        PhraseRemover("pass1234").remove_from_event(event),
        PhraseRemover(SECRET).remove_from_event(event),
    ):
        assert isinstance(new.payload, MessageAdded)
        assert new.payload.tokens >= count_message(new.payload.message, counter, thinking=True)
    assert blank_event(event, frozenset({"m1"})).payload.tokens < 80  # type: ignore[union-attr]


@pytest.mark.parametrize("counter", COUNTERS, ids=lambda counter: counter.name)
def test_the_fixed_part_is_counted_so_too(counter: TokenCounter) -> None:
    tools = parse_tools([{"name": f"t{n}", "description": "pass1234 " * n, "input_schema": {}} for n in range(9)])
    text = json.dumps([{"name": tool.name, "description": tool.description} for tool in tools])
    for noted, count in (
        (NoteAdded("system", "pass1234 " * 9, count_system("pass1234 " * 9, counter)), count_system),
        (NoteAdded("tools", text, count_tools(tools, counter)), None),
    ):
        new = PhraseRemover("pass1234").remove_from_event(Event(1, 0.0, noted)).payload
        assert isinstance(new, NoteAdded)
        assert "pass1234" not in new.text
        true = count(new.text, counter) if count else count_tools(_tools(new.text), counter)
        assert new.tokens >= true


def _tools(text: str) -> Any:
    return parse_tools([{**tool, "input_schema": {}} for tool in json.loads(text)])
