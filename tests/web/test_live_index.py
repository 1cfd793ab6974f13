"""The index behind the page of the gateway: the same as a fold of the whole log, at the cost of what is new."""

import asyncio
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.fake.server import Fake
from tests.gateway.scripted_client import ScriptedClient, step_answer
from tests.gateway.serving import open_http, run_gateway, upstream_of
from tests.session.test_continuation import PART, begin_session, follow, list_work
from tests.web.live_logs import make_long_log, write_long_session
from tests.web.sample_sessions import lived
from tidegate.core.events import Event, HostMessageAdded, MessageAdded, encode_event
from tidegate.core.log_fold import fold_log
from tidegate.core.messages import Call, Message, Text, calls_of, user_message
from tidegate.datafolder.data_folder import DataFolder
from tidegate.datafolder.forget.forget import forget_words
from tidegate.session.costs import CostReport
from tidegate.session.following import FollowingSession, make_host_item
from tidegate.session.session import Session
from tidegate.session.storage import SessionStorage
from tidegate.store.log import LogReader, MemoryLog
from tidegate.store.memory import MemoryStore
from tidegate.web.live.session_catalog import SessionCatalog
from tidegate.web.live.session_data import SessionLooks
from tidegate.web.live.session_figures import FiguresReader
from tidegate.web.live.session_index import SessionIndex, thin_requests
from tidegate.web.request_history import read_request_history
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer


def read_index(log: LogReader, step: int = 1 << 30) -> SessionIndex:
    index = SessionIndex(FiguresReader(lambda noted: 16_000), lambda noted: 16_000)
    while index.head < log.head:
        index.update(log, step)
    return index


def message_at(index: SessionIndex, log: LogReader, ref: int) -> Message:
    own = index.own_message(ref)
    if own is not None:
        return own
    what = next(log.read(ref)).payload
    assert isinstance(what, MessageAdded)
    return what.message


def sides(index: SessionIndex, log: LogReader, head: int) -> tuple[list[Message], list[Message]]:
    """The messages of the client, and those that were forwarded."""
    said: list[int] = []
    sent: list[int] = []
    for each in index.compare_request(head):
        said += [pair[0] for pair in each.pairs] + (each.refs if each.state in ("kept", "gone") else [])
        sent += [pair[1] for pair in each.pairs] + (each.refs if each.state in ("kept", "come") else [])
    return [message_at(index, log, ref) for ref in said], [message_at(index, log, ref) for ref in sent]


def branching_log() -> tuple[MemoryLog, dict[int, list[str]]]:
    """A host that rewinds twice; its own list by the head of the log for each request."""
    log = MemoryLog()
    following: FollowingSession[Message] = FollowingSession(
        Session("gpt-4o", log=SessionStorage(log), window=1_200, clock=lambda: 1_794_700_000.0)
    )
    texts: list[str] = []
    asked: dict[int, list[str]] = {}
    for turn in range(40):
        if turn in (15, 30):
            texts = texts[:8]
        texts.append(f"question {turn} " + "word " * 60)
        messages = [
            user_message(text) if place % 2 == 0 else Message("assistant", (Text(text),))
            for place, text in enumerate(texts)
        ]
        request = following.prepare([make_host_item(message, message) for message in messages])
        asked[request.measured[0]] = list(texts)
        texts.append(f"answer {turn}")
        following.record_reply(
            request, Message("assistant", (Text(texts[-1]),)), {"prompt_tokens": 500, "completion_tokens": 5}
        )
    return log, asked


def test_both_sides_of_every_request_are_those_of_the_log() -> None:
    log, asked = branching_log()
    index = read_index(log)
    assert len(index.requests.requests) == len(asked) == 40
    assert index.totals.figures.compactions > 2
    edited = 0
    for request in index.requests.requests:
        said, sent = sides(index, log, request.head)
        assert ["".join(part.text for part in each.parts if isinstance(part, Text)) for each in said] == asked[
            request.head
        ]
        view = fold_log(lambda head=request.head: islice(log.read(), head))  # type: ignore[misc]
        assert sent == [item.message for item in view.items]
        edited += sent != said
    assert edited > 10


def test_an_exchange_that_the_client_does_not_see_is_added_by_tidegate(tmp_path: Path) -> None:
    """The sums have the rounds of an answer with a hidden recall; the client's side does not have its messages."""

    async def run() -> None:
        steps: list[Any] = [
            step_answer(0),
            ScriptedAnswer(calls=(Call("r1", "recall", '{"what":"m3"}'),)),
            step_answer(1),
            "done",
        ]
        async with (
            Fake("anthropic", steps) as fake,
            run_gateway(tmp_path, upstream_of(fake), recall=True) as running,
            open_http() as http,
        ):
            client = ScriptedClient("anthropic", running.url, http, {"x-tidegate-session": "s"})
            client.say("start")
            for _ in range(3):
                await client.turn("a result")
            assert len(fake.seen) == 4
            log = running.data.open_log("s")
            index = read_index(log)
            assert len(index.requests.requests) == 4
            assert index.totals.figures.requests == 4
            said, sent = sides(index, log, index.requests.requests[-1].head)
            calls = [call.name for message in said for call in calls_of(message)]
            assert calls == ["step", "step"]
            assert [call.name for message in sent for call in calls_of(message)] == ["step", "recall", "step"]
            assert len(sent) == len(said) + 2
            assert [each.state for each in index.compare_request(log.head)] == ["kept", "come", "kept"]

    asyncio.run(run())


def test_every_turn_of_a_conversation_is_in_the_chart(tmp_path: Path) -> None:
    """Each request is measured, also where the note of a turn is between the user's message and the answer."""

    async def run() -> None:
        async with (
            Fake("openai_chat", [f"answer {number}" for number in range(4)]) as fake,
            run_gateway(tmp_path, upstream_of(fake)) as running,
            open_http() as http,
        ):
            client = ScriptedClient("openai_chat", running.url, http, {"x-tidegate-session": "s"})
            for number in range(4):
                client.say(f"question {number}")
                await client.turn()
            log = running.data.open_log("s")
            index = read_index(log)
            requests = index.requests.requests
            assert len(requests) == 4
            assert [measured.messages for each in requests if (measured := index.measured(each))] == [1, 3, 5, 7]
            for each in requests:
                assert sum(index.parts_of(each)) == index.total_of(each) > 0

    asyncio.run(run())


def test_an_index_read_in_pieces_is_the_same() -> None:
    for log in (branching_log()[0], lived().log):
        whole, pieces = read_index(log), read_index(log, 7)
        assert pieces.totals.figures == whole.totals.figures
        assert pieces.changes == whole.changes
        assert pieces.edits.made == whole.edits.made
        for request in whole.requests.requests:
            assert pieces.compare_request(request.head) == whole.compare_request(request.head)
            assert pieces.parts_of(request) == whole.parts_of(request)


def test_the_figures_are_those_of_the_other_reports() -> None:
    log = lived().log
    index, cost = read_index(log), CostReport(log).read_all()
    figures = index.totals.figures
    assert figures.dollars == pytest.approx(cost.dollars)
    assert (figures.requests, figures.input_tokens, figures.cached_tokens) == (
        cost.calls,
        cost.input_tokens,
        cost.cached_tokens,
    )
    requests = sorted(index.requests.requests, key=lambda each: each.head)
    assert requests == read_request_history(log).requests
    for request in requests:
        assert sum(index.parts_of(request)) == index.total_of(request)


def feed_all(events: Sequence[Event]) -> FiguresReader:
    reader = FiguresReader(lambda noted: 16_000)
    for event in events:
        reader.feed(event)
    return reader


def test_the_cost_without_tidegate_is_that_of_the_whole_history() -> None:
    events = list(make_long_log(290))  # no sweep yet
    unedited = feed_all(events).figures
    assert unedited.dollars == unedited.dollars_without > 0
    swept = feed_all(list(make_long_log(1_500))).figures
    assert swept.dollars_without > swept.dollars
    assert swept.too_long > unedited.too_long
    tokens = sum(each.payload.tokens for each in events if isinstance(each.payload, HostMessageAdded))
    assert tokens > 16_000  # so it would not have fit


class CountingStore(MemoryStore):
    """Counts the records that are read."""

    def __init__(self) -> None:
        super().__init__()
        self.records = 0

    def read(self, session: str, start: int = 1) -> Iterator[bytes]:
        for record in super().read(session, start):
            self.records += 1
            yield record


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[tuple[CountingStore, DataFolder]]:
    store = CountingStore()
    with DataFolder(tmp_path, store=store) as data:
        yield store, data


def test_a_look_at_the_list_reads_a_bounded_number_of_events(counted: tuple[CountingStore, DataFolder]) -> None:
    store, data = counted
    for number in range(52):
        write_long_session(data, f"claude-{number}", 600)
    catalog = SessionCatalog(data, lambda noted: 0)
    looks = 0
    found = None
    while found is None or not found.is_read:
        store.records = 0
        found = catalog.list_page("", 0, set())
        looks += 1
        assert store.records < 7_000
    assert looks > 2
    assert len(found.rows) == 25
    assert found.pages == 3
    store.records = 0
    assert catalog.list_page("", 0, set()) == found
    assert store.records == 0


def test_a_second_look_at_a_session_reads_only_what_is_new(counted: tuple[CountingStore, DataFolder]) -> None:
    store, data = counted
    write_long_session(data, "claude-long", 6_000)
    looks = SessionLooks(data, SessionCatalog(data, lambda noted: 0))
    first: Any = None
    while first is None or first["read_to"] < first["head"]:
        store.records = 0
        first = msgspec.json.decode(looks.describe_session("", "claude-long", set()))
        assert store.records < 12_000
    assert len(first["points"]) <= 400
    log = data.open_log("claude-long")
    log.append(*(event for event in make_long_log(6_003) if event.seq > 6_000))
    store.records = 0
    again = msgspec.json.decode(looks.describe_session("", "claude-long", set()))
    assert again["head"] == again["read_to"] == 6_003
    assert again["newest"]["total"] == first["newest"]["total"] + 1
    assert store.records < 50
    store.records = 0
    looks.compare_request("", "claude-long", 100)
    looks.list_requests("", "claude-long", 40)
    assert store.records < 50


def test_the_list_and_the_page_of_a_session_share_what_they_read(counted: tuple[CountingStore, DataFolder]) -> None:
    store, data = counted
    write_long_session(data, "claude-long", 8_000)
    catalog = SessionCatalog(data, lambda noted: noted.window)
    looks = SessionLooks(data, catalog)
    assert not catalog.list_page("", 0, set()).is_read  # the list has read a part, the page goes on from there
    whole: Any = None
    while whole is None or whole["read_to"] < whole["head"]:
        whole = msgspec.json.decode(looks.describe_session("", "claude-long", set()))
    log = data.open_log("claude-long")
    for end in (8_003, 8_006):
        log.append(*(event for event in make_long_log(end) if event.seq > log.head))
        store.records = 0
        (row,) = catalog.list_page("", 0, set()).rows
        assert store.records < 50
        fresh = FiguresReader(lambda noted: noted.window)
        for event in make_long_log(end):
            fresh.feed(event)
        assert row.figures == fresh.figures
        again = msgspec.json.decode(looks.describe_session("", "claude-long", set()))
        assert again["figures"] == msgspec.to_builtins(fresh.figures)


def test_the_newest_requests_come_from_the_end_of_the_log(counted: tuple[CountingStore, DataFolder]) -> None:
    store, data = counted
    read: list[int] = []
    for events in (1_500, 4_500):
        write_long_session(data, f"claude-{events}", events)
        looks = SessionLooks(data, SessionCatalog(data, lambda noted: noted.window))
        store.records = 0
        newest = msgspec.json.decode(looks.describe_newest("", f"claude-{events}"))
        read.append(store.records)
        whole: Any = None
        while whole is None or whole["read_to"] < whole["head"]:
            whole = msgspec.json.decode(looks.describe_session("", f"claude-{events}", set()))
        listed = msgspec.json.decode(looks.list_requests("", f"claude-{events}", 1 << 40))["rows"]
        shared = ("head", "time", "model", "total", "input", "output", "read", "written", "paid", "priced")
        assert [[row[key] for key in shared] for row in newest["rows"]] == [
            [row[key] for key in shared] for row in listed
        ]
        for key in ("model", "dialect", "window", "filled"):
            assert newest["figures"][key] == whole["figures"][key]
        assert whole["row"]["is_read"]
    assert read[0] == read[1] < 1_000


def test_a_forgotten_text_leaves_the_index(tmp_path: Path) -> None:
    with DataFolder(tmp_path) as data:
        write_long_session(data, "claude-x", 700)
        looks = SessionLooks(data, SessionCatalog(data, lambda noted: 0))

        def read_shortened() -> bytes:
            looks.describe_session("", "claude-x", set())
            found = msgspec.json.decode(looks.compare_request("", "claude-x", 690))["stretches"]
            own = [pair[1] for each in found for pair in each["pairs"]][:20]
            return looks.read_messages("", "claude-x", own)

        assert b"a result, shortened" in read_shortened()
        forget_words(data, "claude-x", "a result, shortened")
        assert b"a result, shortened" not in read_shortened()


def test_the_chart_keeps_peaks() -> None:
    log = MemoryLog(map(encode_event, make_long_log(2_400)))
    index = read_index(log)
    places = thin_requests(index)
    totals = [index.total_of(each) for each in index.requests.requests]
    assert len(places) <= 401 < len(totals)
    assert max(totals) == max(totals[place] for place in places)
    assert places[-1] == len(totals) - 1


def test_each_request_names_its_client_if_there_are_several() -> None:
    """Also while the log is still read."""
    session = begin_session()
    alone = read_index(session.log)
    assert {alone.timeline.name_speaker(each.head) for each in alone.requests.requests} == {""}
    follow(session).prepare(list_work(2), fixed_part=PART)
    alone.update(session.log, 1 << 30)
    for index in (alone, read_index(session.log, step=3)):
        named = [index.timeline.name_speaker(each.head) for each in index.requests.requests]
        assert named == ["tidegate"] * 9 + ["Codex"] * 2
