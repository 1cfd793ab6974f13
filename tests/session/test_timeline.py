"""The timeline: each edit with what it took, cost and saved, read from the end of the log."""

from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scale import scaled
from tests.session.figures import own_policy, reported, said, step
from tidegate import Session
from tidegate.core.events import Event, NoteAdded
from tidegate.core.messages import user_message
from tidegate.core.notes import SideCost
from tidegate.core.usage import Usage
from tidegate.models.catalog import ModelInfo
from tidegate.models.pricing import TokenRates
from tidegate.session.costs import CostReport
from tidegate.session.reports.timeline import MAX_SCANNED_EVENTS, TimelineEntry, read_timeline
from tidegate.store.log import Log, MemoryLog

PRICES = {"mine": ModelInfo(prices=(TokenRates(10.0, 50.0, 1.0),))}


def talked(turns: int = 3, log: MemoryLog | None = None) -> Session:
    session = Session("mine", policy=own_policy(), window=60_000, count="chars/4", log=log)
    for number in range(turns):
        session.add(user_message(f"ask {number} " * 40), *step(number, "read"), said("Done. " * 20))
    return session


def spent(session: Session, read: int, written: int) -> None:
    session.history.add_note(SideCost.topic, msgspec.json.encode(SideCost("mine", Usage(read, written, 0, 0))).decode())


def entries(session: Session) -> list[TimelineEntry]:
    return list(read_timeline(session.log, model_overrides=PRICES).entries)


def test_a_compaction_with_what_it_took() -> None:
    session = talked()
    before = session.view.tokens
    left = [item.message.id for item in session.view.items][:8]
    session.compact()
    (entry,) = entries(session)
    change = entry.change
    assert (change.name, change.rule, change.moment) == ("summarize", "manual/summarize", "manual")
    assert (change.tokens_before, change.tokens_after) == (before, session.view.tokens)
    assert list(entry.removed_ids) == left
    assert (change.drops, change.inserts) == (8, 2)
    assert "8 old messages were replaced by one summary" in change.reason
    assert (change.is_undone, entry.calls_affected, entry.saved_tokens, entry.saved_dollars) == (False, 0, 0, None)


def test_what_it_cost_and_saved() -> None:
    """Two requests since, one of them half again as long as we count: each would have been longer by what left."""
    session = talked()

    def summarize(_: object) -> str:
        spent(session, 2_000, 100)
        return "## Session intent\nWords were read."

    session.compact(summarize)
    session.add(user_message("next"))
    size = session.prepare().tokens
    session.record({"input_tokens": size, "output_tokens": 1})
    session.add(said("Yes."), user_message("next"))
    counted = session.view.fixed_tokens + 16 + session.view.tokens
    session.prepare()
    session.record({"input_tokens": counted * 3 // 2, "output_tokens": 1})
    (entry,) = entries(session)
    freed = entry.change.tokens_before - entry.change.tokens_after
    assert entry.summary_tokens == 2_100
    assert entry.summary_dollars == pytest.approx(2_000 / 1e5 + 100 * 5 / 1e5)
    assert entry.calls_affected == 2
    assert entry.saved_tokens == pytest.approx(freed * 2.5, abs=2)
    assert entry.saved_dollars == pytest.approx(entry.saved_tokens / 1e5, rel=0.01)


def test_it_saves_only_as_long_as_it_holds() -> None:
    session = talked()
    session.compact()
    for act in (None, "undo", "redo", None):
        if act:
            getattr(session.history, act)()
        session.add(user_message("next"))
        reported(session)
        session.add(said("Yes."))
    redo, undo, entry = entries(session)
    assert (redo.change.name, undo.change.name, undo.change.reason) == ("redo", "undo", f"edit {entry.change.seq}")
    assert (entry.change.is_undone, entry.calls_affected) == (False, 3)
    session.history.undo()
    session.add(user_message("next"))
    reported(session)
    entry = entries(session)[-1]
    assert (entry.change.is_undone, entry.calls_affected) == (True, 3)


def test_the_next_compaction_ends_the_count() -> None:
    session = talked()
    session.compact()
    session.add(user_message("next"))
    reported(session)
    session.add(*step(9, "read", size=900), said("Yes."), user_message("on"))
    session.compact()
    reported(session)
    newest, oldest = entries(session)
    assert (newest.calls_affected, oldest.calls_affected) == (1, 1)
    session.history.clear()
    session.add(user_message("anew"))
    reported(session)
    assert [entry.calls_affected for entry in entries(session)] == [0, 1, 1], "what was cleared would be gone anyway"


def test_one_that_was_undone_ends_nothing() -> None:
    session = talked()
    session.compact()
    session.add(*step(9, "read", size=900), said("Yes."), user_message("on"))
    session.compact()
    session.history.undo()
    reported(session)
    assert [(entry.change.name, entry.change.is_undone, entry.calls_affected) for entry in entries(session)] == [
        ("undo", False, 0),
        ("summarize", True, 0),
        ("summarize", False, 1),
    ]


def test_a_mark_can_be_used_twice() -> None:
    session = talked()
    session.compact()
    session.add(user_message("next"))
    reported(session)
    session.history.undo()
    first = read_timeline(session.log, max_entries=1)
    pages = [read_timeline(session.log, before=first.next_page, max_entries=1) for _ in range(2)]
    assert [[entry.calls_affected for entry in page.entries] for page in pages] == [[1], [1]]


def test_what_had_to_be_read_again() -> None:
    session = talked()
    session.prepare()
    session.record({"input_tokens": 100, "cache_read_input_tokens": 900, "output_tokens": 1})
    session.compact()
    session.add(user_message("next"))
    session.prepare()
    session.record({"input_tokens": 300, "cache_read_input_tokens": 200, "output_tokens": 1})
    assert entries(session)[0].lost_cache_tokens == 700


ACTS = st.lists(st.sampled_from(["ask", "report", "compact", "undo", "redo", "clear", "spent"]), max_size=25)


def find_undone_edits(log: Log) -> set[int]:
    undone: set[int] = set()
    for event in log.read():
        if isinstance(event.payload, NoteAdded) and event.payload.topic in ("undo", "redo"):
            undone ^= {int(event.payload.text)}
    return undone


@given(ACTS, st.integers(1, 4))
@settings(max_examples=scaled(30))
def test_pages_are_the_whole(acts: list[str], most: int) -> None:
    session = talked(1)
    for number, act in enumerate(acts):
        if act == "ask":
            session.add(user_message("x" * 400), *step(number, "read", size=80), said("ok"))
        elif act == "report":
            reported(session)
        elif act == "spent":
            spent(session, 10, 10)
        else:
            getattr(session if act == "compact" else session.history, act)()
    whole = read_timeline(session.log, max_entries=1_000, model_overrides=PRICES)
    assert whole.next_page is None
    paged: list[TimelineEntry] = []
    page = read_timeline(session.log, max_entries=most, model_overrides=PRICES)
    while True:
        paged += page.entries
        if page.next_page is None:
            break
        page = read_timeline(session.log, before=page.next_page, max_entries=most, model_overrides=PRICES)
    assert paged == list(whole.entries)
    undone = {entry.change.seq for entry in whole.entries if entry.change.is_undone}
    assert undone == find_undone_edits(session.log)
    bill = CostReport(session.log, PRICES)
    while bill.read_more(3):
        pass
    assert bill.total == CostReport(session.log, PRICES).read_all()
    assert bill.total.compactions == sum(each.is_compaction and not each.change.is_undone for each in whole.entries)


class Counted(MemoryLog):
    read_events = 0

    def read(self, start: int = 1) -> Iterator[Event]:
        for event in super().read(start):
            self.read_events += 1
            yield event


def test_a_page_reads_the_end_of_the_log() -> None:
    log = Counted()
    session = talked(250, log)
    session.compact()
    session.add(user_message("next"))
    reported(session)
    log.read_events = 0
    page = read_timeline(log, max_entries=1)
    assert [entry.change.name for entry in page.entries] == ["summarize"]
    assert log.read_events <= 600 < log.head
    assert page.next_page is not None


def test_a_page_has_an_end_where_nothing_happened() -> None:
    log = Counted()
    session = Session("mine", policy=own_policy(), window=10**7, count="chars/4", log=log)
    for _ in range(MAX_SCANNED_EVENTS + 100):
        session.history.add_note("nothing")
    page = read_timeline(log)
    assert (page.entries, log.read_events <= MAX_SCANNED_EVENTS) == ((), True)
    assert page.next_page is not None
    assert read_timeline(log, before=page.next_page).next_page is None


def test_the_bill() -> None:
    session = talked()
    session.prepare()
    session.record({"input_tokens": 1_000, "cache_read_input_tokens": 3_000, "output_tokens": 100})
    spent(session, 500, 50)
    other = Session("nobody", policy=own_policy(), window=60_000, log=session.log)
    other.prepare()
    other.record({"prompt_tokens": 600, "completion_tokens": 6})
    bill = CostReport(session.log, PRICES)
    total = bill.read_all()
    assert (total.calls, total.input_tokens, total.cached_tokens, total.output_tokens) == (2, 4_600, 3_000, 106)
    assert (total.side_tokens, total.unpriced_tokens, total.tokens) == (550, 606, 4_706 + 550)
    assert total.cached_share == pytest.approx(3_000 / 4_600)
    assert total.dollars == pytest.approx((1_000 * 10 + 3_000 * 1 + 100 * 50 + 500 * 10 + 50 * 50) / 1e6)
    assert set(bill.by_model) == {"mine", "nobody"}
    assert bill.by_model["nobody"].dollars == 0
    session.history.add_note(SideCost.topic, "not ours")
    assert bill.read_all() == total
