"""What left the view is read back from the log: by id, by range, by words, a bounded piece at a time."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.conversations import law
from tidegate import MemoryLog, Session
from tidegate.core.errors import BadInput
from tidegate.core.events import Event
from tidegate.core.messages import Image, Message, Result, Text
from tidegate.memory.log_lines import extract_log_lines
from tidegate.memory.search import Search
from tidegate.proof.session_generator import generate_session
from tidegate.session.recall import MIN_RECALL_CHARS, RECALL_USAGE, Recalled, recall_message, recall_text
from tidegate.store.log import Log
from tidegate.store.session_log import KeptLog
from tidegate.store.sqlite import SqliteStore


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
        ("port", ("m5", "m3", "m1")),
        ("port configured", ("m5", "m1", "m3")),
        ("port?", ("m5", "m3", "m1")),
        ("SERVER.TOML", ("m5", "m1")),
        ("配置", ("m4",)),
        ("gesla JAZN", ("m6",)),
        ("port configured nowhere else at all whatsoever", ()),
    ],
)
def test_words_are_found_the_best_first(words: str, ids: tuple[str, ...]) -> None:
    assert recall_text(said(*TALK), words).ids == ids


def test_a_hit_shows_where_the_words_stand() -> None:
    text = "x " * 3_000 + "the needle is here" + " y" * 3_000
    found = recall_text(said("hay", text), "needle")
    assert found.ids == ("m2",)
    assert found.text.startswith("m2 user: ")
    assert "the needle is here" in found.text
    assert len(found.text) < 400


def test_many_hits_come_in_pages() -> None:
    log = said(*(f"the needle number {number}" for number in range(150)))
    pages = all_of(log, "needle", 500)
    assert len(pages) > 10
    assert all(len(page.text) <= 500 for page in pages)
    assert [ident for page in pages for ident in page.ids] == [f"m{seq}" for seq in range(150, 0, -1)]
    assert "the same words, offset" in pages[0].text


def test_words_that_are_nowhere() -> None:
    found = recall_text(said(*TALK), "nowhere")
    assert (found.ids, found.next_query) == ((), "")
    assert "Nothing in this log" in found.text
    assert "Nothing more" in recall_text(said(*TALK), "port", offset=3).text


def test_the_search_index_may_do_the_finding(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    log = KeptLog(store, "s")
    Session(log=log, clock=lambda: 1.0).add(*({"role": "user", "content": text} for text in TALK))
    search = Search(None, lambda read_to: extract_log_lines("s", log.read(read_to("s") + 1)))

    def find(words: str, most: int) -> list[int]:
        return [hit.place for hit in search.search(words, most, kind="session", name="s")]

    assert set(recall_text(log, "server toml", search=find).ids) == {"m1", "m5"}
    assert recall_text(log, "port", search=lambda words, most: [99, 2, 3]).ids == ("m2", "m3"), "a stale index"
    search.close()
    store.close()


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
