"""What left the view is read back from the log: by id, by range, by words, a bounded piece at a time."""

import json
import re
from collections.abc import Iterator
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.conversations import law
from tidegate import MemoryLog, Session
from tidegate.core.edits import Drop, Replace
from tidegate.core.errors import BadInput
from tidegate.core.events import BranchStarted, Event, ViewEdited
from tidegate.core.messages import Image, Message, Result, Text
from tidegate.proof.session_generator import generate_session
from tidegate.session.conversation_log import ConversationLog
from tidegate.session.recall import MIN_RECALL_CHARS, RECALL_USAGE, Recalled, recall_message, recall_text
from tidegate.session.recall_index import RecallIndex
from tidegate.store.log import Log


class Counted:
    """A log that knows how many events were read from it."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.read_so_far = 0

    @property
    def head(self) -> int:
        return self._log.head

    def append(self, *events: Event) -> None:
        self._log.append(*events)

    def catch_up(self) -> Iterator[Event]:
        return self._log.read_new_events()

    def read(self, start: int = 1) -> Iterator[Event]:
        for event in self._log.read(start):
            self.read_so_far += 1
            yield event


def said(*texts: str) -> MemoryLog:
    log = MemoryLog()
    Session(log=log, clock=lambda: 1.0).add(*({"role": "user", "content": text} for text in texts))
    return log


@cache
def long_log() -> MemoryLog:
    """A session that was compacted on the way."""
    log = MemoryLog()
    session = Session("gpt-4o", window=9_000, count="estimate", log=log, clock=lambda: 1.0)
    for message in generate_session(20, seed=2):
        if message["role"] != "system":
            session.add(message)
            session.prepare()
    assert session.edit_counts
    return log


def all_of(log: Log, what: str, max_chars: int) -> list[Recalled]:
    """Page after page, to the end."""
    pages = [recall_text(log, what, max_chars=max_chars)]
    while pages[-1].next_query:
        assert len(pages) < 10_000
        pages.append(recall_text(log, pages[-1].next_query, max_chars=max_chars, offset=pages[-1].next_offset))
    return pages


def body(page: Recalled) -> str:
    """A page without what it says of the pages after it."""
    text = page.text.rsplit("\n[go on with", 1)[0] if page.next_query else page.text
    return text.rsplit("\n[", 1)[0] if page.next_query and "characters of" in text.rsplit("\n", 1)[-1] else text


# --- by id ------------------------------------------------------------------------------------------------------------


def test_a_message_comes_back_whole() -> None:
    log = said("first", "second\nwith two lines")
    found = recall_text(log, " m2 ")
    assert found == Recalled("## m2 user\n\nsecond\nwith two lines\n\n", ("m2",))


def test_what_an_edit_added_comes_back() -> None:
    added = [
        item for event in long_log().read() for item in getattr(event.payload, "edits", ()) if hasattr(item, "message")
    ]
    assert added
    for insert in added:
        assert recall_message(long_log(), insert.message.id) == insert.message
        assert recall_text(long_log(), insert.message.id).ids == (insert.message.id,)


def test_calls_and_images_are_told() -> None:
    log = MemoryLog()
    picture = Image("image/png", data="QUJD")
    Session(log=log, clock=lambda: 1.0).add(
        {
            "role": "assistant",
            "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"at":"x.png"}'}}
            ],
        },
        Message("tool", (Result("c", (Text("here"), picture)),)),
    )
    assert 'call look {"at":"x.png"}' in recall_text(log, "m1").text
    assert "here" in recall_text(log, "m2").text
    assert "(image/png)" in recall_text(log, "m2").text


def test_a_long_message_comes_in_pieces_that_make_it_up() -> None:
    text = "".join(f"line {number} of many\n" for number in range(900))
    log = said("short", text)
    pages = all_of(log, "m2", 1_000)
    assert len(pages) > 15
    assert all(len(page.text) <= 1_000 for page in pages)
    assert "".join(body(page) for page in pages) == f"## m2 user\n\n{text}\n\n"
    assert {page.ids for page in pages} == {("m2",)}
    assert "go on with m2, offset 880" in pages[0].text


def test_an_offset_behind_the_end_says_so() -> None:
    assert "no more than 500 characters" in recall_text(said("short"), "m1", offset=500).text


# --- by range ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_chars", [400, 1_500, 8_000, 1_000_000])
def test_a_range_comes_page_by_page_and_nothing_is_missing(max_chars: int) -> None:
    whole = recall_text(long_log(), "m5..m60", max_chars=10**9)
    assert whole.next_query == ""
    assert len(whole.ids) > 30
    pages = all_of(long_log(), "m5..m60", max_chars)
    assert "".join(body(page) for page in pages) == whole.text
    assert all(len(page.text) <= max_chars for page in pages)
    assert list(dict.fromkeys(ident for page in pages for ident in page.ids)) == list(whole.ids)


@pytest.mark.parametrize(
    "what", ["m2..m3", "m3..m2", "m2 .. m3", "m2...3", "m2-m3", "m2-3", "m2..m99999", "m2 to m3", "m2, m3", "m2,m3..m3"]
)
def test_a_range_may_be_written_in_several_ways(what: str) -> None:
    assert recall_text(said("one", "two", "three"), what).ids == ("m2", "m3")


@pytest.mark.parametrize("max_chars", [400, 1_500, 1_000_000])
def test_a_list_of_ids_and_ranges_comes_page_by_page(max_chars: int) -> None:
    """As a summary or a ledger prints it."""
    what = "m40..m44, m5, m12..m30"
    every = [recall_text(long_log(), part, max_chars=10**9) for part in what.split(", ")]
    pages = all_of(long_log(), what, max_chars)
    assert "".join(body(page) for page in pages) == "".join(each.text for each in every)
    assert all(len(page.text) <= max_chars for page in pages)
    assert recall_text(long_log(), "m5, m999999").ids == (), "one that is not there is named"


def test_what_a_page_says_may_be_given_back_as_it_stands() -> None:
    page = recall_text(long_log(), "m5..m60, m5", max_chars=400)
    pages = [page]
    while page.next_query:
        said = page.text.rsplit("\n[go on with ", 1)[1].removesuffix("]")
        page = recall_text(long_log(), said, max_chars=400)
        pages.append(page)
    assert "".join(map(body, pages)) == recall_text(long_log(), "m5..m60, m5", max_chars=10**9).text


@pytest.mark.exhaustive
def test_a_range_of_edits_names_the_messages_they_cover() -> None:
    log = long_log()
    edited = ((event.seq, event.payload.edits) for event in log.read() if isinstance(event.payload, ViewEdited))
    seq, edits = next((seq, some) for seq, some in edited if any(isinstance(each, Drop | Replace) for each in some))
    found = recall_text(log, f"m{seq}..m{seq}")
    assert found.ids == ()
    said_first = f"No messages are in this range, only edits of the view:\n{seq}: an edit that covers m"
    assert found.text.startswith(said_first)
    assert found.text.endswith(RECALL_USAGE)
    spans = found.text.split("covers ", 1)[1].split("\n", 1)[0]
    spans = spans.rpartition(",")[0] if spans.endswith("…") else spans
    covered = {edit.id for edit in edits if isinstance(edit, Replace)}
    covered |= {ident for edit in edits if isinstance(edit, Drop) for ident in edit.ids}
    assert set(recall_text(log, spans, max_chars=10**9).ids) <= covered


def test_a_range_without_messages_says_so() -> None:
    assert recall_text(said("one"), "m5..m9").ids == ()
    assert RECALL_USAGE in recall_text(said("one"), "m5..m9").text


def test_ids_and_ranges_cost_what_they_show() -> None:
    log = Counted(long_log())
    recall_text(log, f"m{long_log().head - 3}")
    assert log.read_so_far <= 1
    log.read_so_far = 0
    found = recall_text(log, f"m20..m{long_log().head}", max_chars=2_000)
    assert found.next_query
    assert log.read_so_far < 40


# --- by words ---------------------------------------------------------------------------------------------------------


TALK = (
    "The port is configured in server.toml",
    "I had lunch",
    "Which PORT does the proxy use?",
    "端口在配置文件里",
    "configured: the port is 8080, in server.toml",
    "Zażółć gęślą jaźń",
)


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        ("port", ("m3", "m1", "m5")),
        ("port configured", ("m1", "m5", "m3")),
        ("configures ports?", ("m1", "m5", "m3")),
        ("SERVER.TOML", ("m1", "m5")),
        ("gesla JAZN", ("m6",)),
        ("配置", ("m4",)),
        ("置", ("m4",)),
        ("confgured", ("m1", "m5")),
        ("serv", ("m1", "m5")),
        ("port nowhere else at all whatsoever", ("m3", "m1", "m5")),
        ('"the port is"', ("m5", "m1")),
        ('the "port is 8080" configured', ("m5",)),
    ],
)
def test_words_are_found_the_best_first(words: str, ids: tuple[str, ...]) -> None:
    """Messages beside them follow: they often have the answer, but none of the words."""
    found = recall_text(said(*TALK), words).ids
    assert tuple(ident for ident in found if ident in ids)[: len(ids)] == ids
    assert found[0] == ids[0]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("getUserById", "def get_user_by_id(ident):"),
        ("user id", "we call getUserById here"),
        ("src/core/view.py", "error in /home/me/src/core/view.py:12"),
        ("=>", "a => b"),
        ("what was it", "What was it?"),
        ("connections", "It connected twice."),
    ],
)
def test_other_forms_of_a_word_are_found(words: str, text: str) -> None:
    log = said("Good morning", "Nothing here", text, "Nothing there", "Good night")
    assert recall_text(log, words).ids[0] == "m3"


def test_a_hit_shows_where_the_words_stand() -> None:
    text = "x " * 3_000 + "the needle is here" + " y" * 3_000
    found = recall_text(said("hay", text), "needle")
    assert found.ids[0] == "m2"
    assert found.text.startswith("m2 user: ")
    assert "the needle is here" in found.text
    assert len(found.text) < 700


def test_a_hit_shows_the_lines_around_the_match() -> None:
    code = "\n".join(f"    value_{number} = compute({number})" for number in range(200))
    shown = recall_text(said(code, "Thanks."), "value_120").text
    assert "\n      value_119 = compute(119)\n      value_120 = compute(120)\n" in shown
    assert "value_199" not in shown


def test_the_line_with_the_rare_words_is_the_best_match() -> None:
    for before in range(20, 60):  # it may stand anywhere in a passage, also across its end
        lines = [f"{number}: entry {number * 7919:06x} of shelf 1" for number in range(before)]
        text = "\n".join(["Part 1", *lines, "The code word is HERON.", *lines])
        assert "The code word is HERON." in recall_text(said("Hello.", text), "Part 1 The code word is").text


def test_many_hits_come_in_pages() -> None:
    log = said(*(f"the needle number {number}" for number in range(150)))
    pages = all_of(log, "needle", 500)
    assert len(pages) > 10
    assert all(len(page.text) <= 500 for page in pages)
    assert sorted(int(ident[1:]) for page in pages for ident in page.ids) == list(range(1, 151))
    assert "the same words, offset" in pages[0].text


def test_the_newest_come_first_among_equals() -> None:
    log = said(*(text for number in range(5) for text in ("the needle", *["hay"] * 5)))
    assert recall_text(log, "needle").ids[:5] == ("m25", "m19", "m13", "m7", "m1")


def test_words_that_are_nowhere() -> None:
    found = recall_text(said(*TALK), "zeppelin")
    assert (found.ids, found.next_query) == ((), "")
    assert "Nothing in this log" in found.text
    assert "Nothing more" in recall_text(said(*TALK), "port", offset=6).text


def test_a_search_reads_only_what_is_new() -> None:
    memory = said(*TALK * 50)
    log = Counted(memory)
    index = RecallIndex(log)
    recall_text(log, "port", index=index, max_chars=400)
    log.read_so_far = 0
    Session(log=memory, clock=lambda: 2.0).add({"role": "user", "content": "The zeppelin has landed."})
    assert recall_text(log, "zeppelin", index=index, max_chars=400).ids[0] == f"m{memory.head}"
    assert log.read_so_far < 20


def test_a_session_searches_with_its_own_index() -> None:
    session = Session(log=MemoryLog(), clock=lambda: 1.0)
    for text in TALK:
        session.add({"role": "user", "content": text})
        assert session.history.search(text).ids[0] == f"m{session.log.head}"


# --- files ------------------------------------------------------------------------------------------------------------


def call(name: str, ident: str, **arguments: object) -> dict[str, object]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": ident, "type": "function", "function": function}],
    }


def result(ident: str, text: str) -> dict[str, object]:
    return {"role": "tool", "tool_call_id": ident, "content": text}


def edited_files() -> MemoryLog:
    log = MemoryLog()
    Session(log=log, clock=lambda: 1.0).add(
        {"role": "user", "content": "Fix the retry in src/net/client.py"},
        call("read", "1", path="/repo/src/net/client.py"),
        result("1", "RETRIES = 3\ndef send(): ..."),
        call("read", "2", path="/repo/src/other/client.py"),
        result("2", "class Other: ..."),
        call("edit", "3", path="/repo/src/net/client.py", old_string="RETRIES = 3", new_string="RETRIES = 5"),
        result("3", "done"),
        call("read", "4", path="/repo/src/net/client.py", offset=1, limit=1),
        result("4", "RETRIES = 5"),
        call("recall", "5", what="RETRIES"),
        result("5", "m3 tool: RETRIES = 3"),
    )
    return log


@pytest.mark.parametrize(
    "path", ["src/net/client.py", "/repo/src/net/client.py", "`src/net/client.py`", "net/client.py:7"]
)
def test_a_path_returns_the_newest_text_of_the_file_and_lists_later_changes(path: str) -> None:
    found = recall_text(edited_files(), path)
    assert found.ids[0] == "m3"
    assert found.text.count("RETRIES = 3\ndef send(): ...") == 1
    assert "\n[Other messages about it:]\n" in found.text
    assert "m1 user: Fix the retry in src/net/client.py" in found.text
    head, _, body = found.text.partition("\n")
    assert head == (
        "[/repo/src/net/client.py, as it was read in m3, the newest whole text in this log. Changed later: m6. Read in"
        " part later: m9. The file on disk may differ.]"
    )
    assert "RETRIES = 3\ndef send(): ..." in body


def test_a_file_that_no_call_named_is_searched_by_words() -> None:
    assert recall_text(edited_files(), "net/server.py").ids
    assert recall_text(said("Look at main.py", "Yes"), "main.py").ids[0] == "m1"


def test_a_hit_names_the_tool_and_the_file_and_leaves_searches_out() -> None:
    found = recall_text(edited_files(), "RETRIES")
    assert "m3 tool read /repo/src/net/client.py:\n  RETRIES = 3\n" in found.text
    assert "m6 assistant edit /repo/src/net/client.py: " in found.text
    assert not {"m10", "m11"} & set(found.ids)


def test_a_whole_message_may_be_larger_than_a_page() -> None:
    log = said("word " * 4_000, "short")
    assert recall_text(log, "m1", whole_chars=30_000).text == recall_text(log, "m1", max_chars=30_000).text
    page = recall_text(log, "m1", max_chars=1_000, whole_chars=5_000)
    assert 4_000 < len(page.text) <= 5_000
    assert len(recall_text(log, "word", max_chars=1_000, whole_chars=30_000).text) <= 1_000


# --- ranking ----------------------------------------------------------------------------------------------------------


def test_a_rare_name_counts_more_than_common_words() -> None:
    filler = ["hay"] * 3
    log = said(*["the error of the test", *filler] * 6, "heliotrope", *filler, "the error of the test")
    assert recall_text(log, "error test heliotrope").ids[0] == "m25"


def test_hits_of_the_same_file_are_listed_together() -> None:
    log = MemoryLog()
    session = Session(log=log, clock=lambda: 1.0)
    for number, name in enumerate(("a.py", "b.py", "a.py", "b.py")):
        session.add(call("read", str(number), path=f"src/{name}"), result(str(number), "timeout = 30"))
        session.add(*({"role": "user", "content": "Go on."} for _ in range(4)))
    shown = re.findall(r"^m\d+ tool read (\S+):", recall_text(log, "timeout").text, re.MULTILINE)
    assert shown == ["src/b.py", "src/b.py", "src/a.py", "src/a.py"]


# --- odd input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["", "   ", None, 12, ["m1"], b"m1"])
def test_what_is_nothing_to_look_for_is_told_what_is(what: object) -> None:
    assert recall_text(said("one"), what) == Recalled(RECALL_USAGE)


@pytest.mark.parametrize("what", ["m2", "m0", "e1.0", "m999999999999999"])
def test_an_id_that_is_not_there(what: str) -> None:
    found = recall_text(said("one"), what)
    assert found.ids == ()
    assert found.text == f"There is no message {what!r} in this log. {RECALL_USAGE}"
    with pytest.raises(BadInput, match="There is no message"):
        recall_message(said("one"), what)


@pytest.mark.parametrize("what", ["", "x", "m", "e", "e1", "m1.1", "m-1", "m١", "m" + "9" * 6_000, "M1", "m1 "])
def test_the_library_refuses_what_is_no_id(what: str) -> None:
    with pytest.raises(BadInput, match="not the id"):
        recall_message(said("one"), what)


def test_an_error_quotes_eighty_characters_of_what_is_no_id() -> None:
    with pytest.raises(BadInput, match=rf"^'{'x' * 80}' is not the id"):
        recall_message(said("one"), "x" * 81)


FEW = said(*TALK, *("x y z " * size for size in (1, 200, 2_000)), *TALK)


@law(60)
@given(
    st.one_of(st.text(max_size=30), st.from_regex(r"[me]?\d{1,2}(\.\.|-|\.)?[me]?\d{0,2}", fullmatch=True)),
    st.integers(-5, 5_000),
    st.integers(-5, 3_000),
)
def test_nothing_that_is_asked_raises_and_every_answer_is_bounded(what: str, offset: int, max_chars: int) -> None:
    found = recall_text(FEW, what, max_chars=max_chars, offset=offset)
    assert found.text
    assert len(found.text) <= max(max_chars, MIN_RECALL_CHARS)
    assert bool(found.next_query) == ("go on with" in found.text.rsplit("\n", 1)[-1])


def test_the_branches_of_a_log_are_read_once_and_then_from_what_is_new() -> None:
    memory = said(*TALK * 50)
    head = memory.head
    log = Counted(memory)
    index = RecallIndex(log)
    assert index.read_branch_points() == []
    log.read_so_far = 0
    memory.append(Event(head + 1, 0.0, BranchStarted(text="2")))
    part = ConversationLog(log, None, index.read_branch_points())
    assert log.read_so_far < 5
    assert [event.seq for event in part.read()] == [1, 2, head + 1]


def test_other_lines_of_a_long_message_with_the_same_words_are_shown() -> None:
    lines = [f"line {number}: nothing of interest happens in this part of the file" for number in range(600)]
    lines[90] = "    steps_count = state.step_count"
    lines[400] = "    report(steps_count, result)"
    lines[560] = "    return Condensed(steps_count, state.step_count)"
    session = Session(policy="default", window=32_000)
    session.add({"role": "user", "content": "Count."}, {"role": "assistant", "content": "\n".join(lines)})
    text = session.history.search("steps_count state.step_count").text
    assert "steps_count = state.step_count" in text
    assert "return Condensed(steps_count, state.step_count)" in text
    assert "report(steps_count, result)" not in text
