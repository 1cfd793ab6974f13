"""However long a session is, only what is near the screen is read and drawn."""

from collections.abc import Iterator

import pytest
from hypothesis import strategies as st
from textual.strip import Strip

from tests.laws.sampled_law import sampled_law
from tidegate.core.events import Event, MessageAdded, NoteAdded, UsageReported
from tidegate.core.messages import Call, Message, Result, Text, user_message
from tidegate.store.log import MemoryLog
from tidegate.tui.conversation.log_pages import LogPager, build_rows
from tidegate.tui.conversation.row_cache import RowCache, RowPainter
from tidegate.tui.conversation.transcript_blocks import TranscriptBlock

TURN = 6


class Counted(MemoryLog):
    """A log that counts what is read of it."""

    read_so_far = 0

    def read(self, start: int = 1) -> Iterator[Event]:
        for event in super().read(start):
            self.read_so_far += 1
            yield event


def said(seq: int, message: Message) -> Event:
    return Event(seq, 0.0, MessageAdded(message, 5))


def talk(turns: int) -> Counted:
    """Each turn: a request, a call and its result, an answer, what it cost, a note."""
    log = Counted()
    for turn in range(turns):
        at = turn * TURN
        log.append(said(at + 1, user_message(f"question {turn}")))
        log.append(said(at + 2, Message("assistant", (Call("c", "read", '{"path": "a"}'),))))
        log.append(said(at + 3, Message("tool", (Result("c", (Text(f"result {turn}"),)),))))
        log.append(said(at + 4, Message("assistant", (Text(f"answer {turn}"),))))
        log.append(Event(at + 5, 0.0, UsageReported("m", at, 1, 1)))
        log.append(Event(at + 6, 0.0, NoteAdded("turn")))
    return log


def denied_talk(calls: int) -> MemoryLog:
    """Each call is denied: a note says so between the call and its result."""
    log = MemoryLog()
    for number in range(calls):
        at = number * 3
        log.append(said(at + 1, Message("assistant", (Call("c", "shell", '{"command": "ls"}'),))))
        log.append(Event(at + 2, 0.0, NoteAdded("denied", '{"call_id": "c", "tool": "shell", "by": "you"}')))
        log.append(said(at + 3, Message("tool", (Result("c", (Text(f"not run {number}"),), error=True),))))
    return log


def draw(block: TranscriptBlock) -> list[Strip]:
    return [Strip.blank(10)] * (1 if block.is_card else 3)


def held(log: MemoryLog) -> RowCache:
    return RowCache(LogPager(lambda: log), RowPainter(draw, draw))


def texts(window: RowCache) -> list[str]:
    return [each.block.text if each.block.kind != "call" else each.block.result or "" for each in window.rows]


def expected(first: int, last: int) -> list[str]:
    return [f"{word} {turn}" for turn in range(first, last) for word in ("question", "result", "answer")]


@pytest.mark.parametrize("turns", [40, 4_000])
def test_the_end_costs_the_same_however_long_the_log_is(turns: int) -> None:
    log = talk(turns)
    window = held(log)
    window.show_end(24)
    assert texts(window)[-3:] == expected(turns - 1, turns)
    assert len(window.rows) >= 24
    assert log.read_so_far <= 100
    for _ in range(12):
        window.load_before(24)
    assert len(window.rows) <= window.max_rows
    assert log.read_so_far <= 12 * 200


def test_scrolled_through_to_the_beginning_and_back_nothing_is_missing() -> None:
    turns = 300
    log = talk(turns)
    window = held(log)
    window.show_end(20)
    seen = set(texts(window))
    while window.first_seq > 1:
        window.load_before(20)
        seen |= set(texts(window))
        start = int(texts(window)[0].split()[1])
        assert texts(window) == expected(start, turns)[: len(window.rows)]
    assert seen == set(expected(0, turns))
    assert window.last_seq < log.head
    while window.last_seq < log.head:
        window.load_after(20)
        assert len(window.rows) <= window.max_rows
    assert texts(window)[-3:] == expected(turns - 1, turns)


def test_lines_stay_where_they_are_when_a_page_comes_before_them() -> None:
    window = held(talk(200))
    window.show_end(20)
    before = [window.block_at(spot).key for number in range(window.height) if (spot := window.locate_line(number))]
    grown = window.load_before(20)
    after = [
        window.block_at(spot).key for number in range(grown, window.height) if (spot := window.locate_line(number))
    ]
    assert after == before[: len(after)]
    assert len(after) == len(before)


@sampled_law(15, 40, st.integers(1, 400), st.integers(1, 30), st.lists(st.sampled_from("bfset"), max_size=30))
def test_whatever_is_done_the_rows_are_a_piece_of_the_log(turns: int, least: int, acts: list[str]) -> None:
    log = talk(turns)
    every = [(row.seq, row.block.key) for row in build_rows(log.read())]
    window = held(log)
    window.max_rows = 40
    window.show_end(least)
    for act in acts:
        if act == "b":
            window.load_before(least)
        elif act == "f" and not window.at_tail:
            window.load_after(least)
        elif act == "s":
            window.show_start(least)
        elif act == "e":
            window.show_end(least)
        elif act == "t":
            window.trim_top()
        mine = [(each.seq, each.block.key) for each in window.rows]
        assert mine == [pair for pair in every if window.first_seq <= pair[0] <= window.last_seq]
        assert window.height == len(
            [number for number in range(window.height) if window.locate_line(number) is not None]
        )


def test_what_comes_is_added_only_where_the_end_is_held() -> None:
    log = talk(200)
    window = held(log)
    window.show_end(20)
    fresh = said(log.head + 1, user_message("new"))
    log.append(fresh)
    window.add_event(fresh)
    window.add_event(fresh)
    assert texts(window).count("new") == 1
    window.show_start(20)
    later = said(log.head + 1, user_message("newer"))
    log.append(later)
    window.add_event(later)
    assert "newer" not in texts(window)
    window.show_end(20)
    assert texts(window)[-1] == "newer"


def test_a_result_comes_into_the_card_of_its_call() -> None:
    log = talk(1)
    window = held(log)
    window.show_end(20)
    call = said(7, Message("assistant", (Call("c", "shell"),)))
    result = said(8, Message("tool", (Result("c", (Text("out"),), error=True),)))
    for event in (call, result):
        log.append(event)
        window.add_event(event)
    assert (window.rows[-1].block.kind, window.rows[-1].block.result, window.rows[-1].block.is_error) == (
        "call",
        "out",
        True,
    )


def test_what_others_wrote_meanwhile_is_read_too() -> None:
    log = talk(2)
    window = held(log)
    window.show_end(20)
    log.append(said(13, user_message("theirs")))
    mine = said(14, user_message("mine"))
    log.append(mine)
    window.add_event(mine)
    assert texts(window)[-2:] == ["theirs", "mine"]


@pytest.mark.parametrize("first", [1, 2, 3, 4, 5])
def test_a_denial_is_part_of_its_call_wherever_a_page_begins(first: int) -> None:
    log = denied_talk(4)
    page = LogPager(lambda: log).read_before(first + 7, 1)
    assert [row.block.denied_by for row in page.rows if row.block.kind == "call"]
    assert {row.block.kind for row in page.rows} == {"call"}
    window = held(log)
    window.show_start(1)
    while not window.at_tail:
        window.load_after(1)
    assert [(each.block.failure, each.block.result) for each in window.rows] == [
        ("denied by you", f"not run {number}") for number in range(4)
    ]
