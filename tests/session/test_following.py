"""A session that follows a host's own list of messages."""

import asyncio
from itertools import count
from pathlib import Path

import pytest

from tidegate.core.events import BranchStarted, Event, HostMessageAdded, MessageAdded, NoteAdded, encode_event
from tidegate.core.log_fold import fold_log
from tidegate.core.messages import Message, Text, Thinking, text_of
from tidegate.datafolder.data_folder import DataFolder
from tidegate.session.following import FixedPart, FollowedRequest, FollowingSession, HostItem, make_host_item
from tidegate.session.session import Session
from tidegate.store.errors import DamagedData
from tidegate.store.log import Log, MemoryLog
from tidegate.wire.registry import parse_any_message

Host = dict[str, object]


def items_of(*messages: Host) -> list[HostItem[Host]]:
    return [make_host_item(message, parsed) for message in messages for parsed in parse_any_message(message)]


def user(text: str) -> Host:
    return {"role": "user", "content": text}


def assistant(text: str) -> Host:
    return {"role": "assistant", "content": text}


def step(number: int, size: int = 4000) -> list[Host]:
    call = {"id": f"call{number}", "type": "function", "function": {"name": "read", "arguments": f'{{"n": {number}}}'}}
    content = "".join(f"port_{number}_{line} = {line * 7919}\n" for line in range(size // 20))
    return [
        {"role": "assistant", "content": f"Step {number}.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call{number}", "content": content},
    ]


def follow(log: Log | None = None, window: int = 100_000) -> FollowingSession[Host]:
    return FollowingSession(Session("gpt-4o", window=window, log=log, clock=count(1.0).__next__))


def shown_texts(request: FollowedRequest[Host]) -> list[str]:
    return [text_of(shown.message) for shown in request.shown]


def branch_events(log: Log) -> list[BranchStarted]:
    return [event.payload for event in log.read() if isinstance(event.payload, BranchStarted)]


def test_the_hosts_own_objects_come_back_untouched() -> None:
    following = follow()
    first = user("hello")
    request = following.prepare(items_of(first))
    assert request.is_unchanged
    assert request.shown[0].item is not None
    assert request.shown[0].item.host is first


def test_only_new_messages_are_added() -> None:
    following = follow()
    following.prepare(items_of(user("one")))
    before = following.session.log.head
    request = following.prepare(items_of(user("one"), assistant("two"), user("three")))
    said = [event for event in following.session.log.read(before + 1) if isinstance(event.payload, MessageAdded)]
    assert request.new_messages == len(said) == 2
    assert shown_texts(request) == ["one", "two", "three"]


def test_the_reply_is_recognized_when_the_host_sends_it_back() -> None:
    following = follow()
    request = following.prepare(items_of(user("one")))
    thinking = Thinking(block='{"type":"thinking","signature":"x"}')
    reply = Message("assistant", (thinking, Text("two\n")), origin="anthropic")
    following.record_reply(request, reply, {"prompt_tokens": 10, "completion_tokens": 2})
    again = following.prepare(items_of(user("one"), assistant("two"), user("three")))
    assert again.new_messages == 1
    assert not branch_events(following.session.log)


def test_a_rewritten_past_becomes_a_branch_and_both_are_kept() -> None:
    following = follow()
    following.prepare(items_of(user("one"), assistant("two"), user("three"), assistant("four"), user("five")))
    request = following.prepare(items_of(user("one"), assistant("two"), user("THREE")))
    assert request.branched
    assert shown_texts(request) == ["one", "two", "THREE"]
    log = following.session.log
    said = [text_of(e.payload.message) for e in log.read() if isinstance(e.payload, MessageAdded)]
    assert said == ["one", "two", "three", "four", "five", "THREE"]
    assert [text_of(item.message) for item in fold_log(log.read).items] == ["one", "two", "THREE"]


def test_returning_to_the_first_branch_continues_it() -> None:
    following = follow()
    first = [user("one"), assistant("two"), user("three")]
    following.prepare(items_of(*first))
    following.prepare(items_of(user("one"), assistant("other")))
    head = following.session.log.head
    request = following.prepare(items_of(*first, assistant("four")))
    assert request.new_messages == 1
    assert shown_texts(request) == ["one", "two", "three", "four"]
    assert len(branch_events(following.session.log)) == 2
    assert following.session.log.head <= head + 3


def test_a_rewind_returns_the_view_of_that_moment() -> None:
    """Edits that were made since then are on the other branch: the provider's cache still has the older prefix."""
    following = follow(window=16_000)
    history = [user("start")]
    views: list[list[str]] = []
    for number in range(24):
        history += step(number)
        views.append(shown_texts(following.prepare(items_of(*history))))
    assert following.session.edit_counts, "the window was never full"
    for number in (23, 12, 2):
        assert shown_texts(following.prepare(items_of(*history[: 1 + 2 * (number + 1)]))) == views[number]


def test_a_followed_session_fits_and_keeps_the_hosts_order() -> None:
    following = follow(window=12_000)
    history = [user("start")]
    request = following.prepare(items_of(*history))
    states = set[str]()
    for number in range(40):
        history += step(number)
        request = following.prepare(items_of(*history))
        assert request.tokens <= 12_000
        places = [history.index(shown.item.host) for shown in request.shown if shown.item is not None]
        assert places == sorted(places)
        states.update(shown.state for shown in request.shown)
    assert states >= {"kept", "replaced"}
    assert shown_texts(request)[0] == "start"


def test_the_log_alone_tells_the_branches_after_a_restart(tmp_path: Path) -> None:
    history = [user("one"), assistant("two"), user("three")]
    with DataFolder(tmp_path).open("s", "gpt-4o") as session:
        following: FollowingSession[Host] = FollowingSession(session)
        following.prepare(items_of(*history))
        following.prepare(items_of(user("one"), assistant("other"), user("more")))
    with DataFolder(tmp_path).open("s", "gpt-4o") as session:
        head = session.log.head
        again: FollowingSession[Host] = FollowingSession(session)
        request = again.prepare(items_of(user("one"), assistant("other"), user("more")))
        assert request.new_messages == 0
        assert not request.branched
        assert session.log.head == head
        assert again.prepare(items_of(*history)).branched
        assert [text_of(item.message) for item in session.view.items] == ["one", "two", "three"]


def test_a_reply_to_a_conversation_that_went_another_way_is_kept_but_not_shown() -> None:
    following = follow()
    request = following.prepare(items_of(user("one")))
    following.prepare(items_of(user("ONE")))
    following.record_reply(request, Message("assistant", (Text("late"),)))
    assert shown_texts(following.prepare(items_of(user("ONE")))) == ["ONE"]
    said = [text_of(e.payload.message) for e in following.session.log.read() if isinstance(e.payload, MessageAdded)]
    assert "late" in said


def test_undo_takes_back_only_edits_of_the_current_branch() -> None:
    following = follow(window=12_000)
    history = [user("start")]
    for number in range(30):
        history += step(number)
    following.prepare(items_of(*history))
    assert following.session.edit_counts
    following.prepare(items_of(user("something else")))
    assert following.session.history.undo() is None


def test_a_change_of_the_fixed_part_leaves_signed_data_alone() -> None:
    following = follow()
    signed = Message("assistant", (Thinking(block='{"type":"thinking"}'), Text("two")), origin="openai_chat")
    items = [*items_of(user("one")), make_host_item(assistant("two"), signed), *items_of(user("three"))]
    following.prepare(items, fixed_part=FixedPart("old prompt"))
    request = following.prepare(items, fixed_part=FixedPart("new prompt"))
    assert following.session.view.system == "new prompt"
    assert request.is_unchanged


@pytest.mark.parametrize("seed", range(3))
def test_concurrent_requests_are_never_mixed(tmp_path: Path, seed: int) -> None:
    async def run() -> None:
        with DataFolder(tmp_path).open("s", "gpt-4o") as session:
            following: FollowingSession[Host] = FollowingSession(session)

            async def call(number: int) -> None:
                texts = [f"{number}.{part}" for part in range(3 + (number * (seed + 1)) % 4)]
                request = await following.prepare_async(items_of(*map(user, texts)))
                assert shown_texts(request) == texts
                await asyncio.sleep(0)
                await following.record_reply_async(request, Message("assistant", (Text(f"reply {number}"),)))

            await asyncio.gather(*map(call, range(8)))
            said = [text_of(e.payload.message) for e in session.log.read() if isinstance(e.payload, MessageAdded)]
            assert {f"reply {number}" for number in range(8)} <= set(said)

    asyncio.run(run())


def test_a_version_that_does_not_know_an_event_refuses_the_log_and_says_why(tmp_path: Path) -> None:
    """How versions without branches see a log with one: the record is whole, but of a kind they do not know."""
    branch = encode_event(Event(2, 1.0, BranchStarted(text="1")))
    unknown = branch.replace(b"branched", b"latertag")
    assert unknown != branch
    data = DataFolder(tmp_path)
    with data.open("s", "gpt-4o") as session:
        head = session.log.head
    record = unknown.replace(b"\x93\x02", b"\x93" + bytes([head + 1]), 1)
    data.store.append("s", head, [record])
    with pytest.raises(DamagedData, match="newer tidegate"):
        DataFolder(tmp_path).open("s", "gpt-4o")


def test_a_branch_that_names_no_earlier_event_is_refused() -> None:
    log = MemoryLog()
    log.append(Event(1, 1.0, NoteAdded("hello")))
    log.append(Event(2, 1.0, BranchStarted(text="7")))
    with pytest.raises(Exception, match="Record 2 does not follow"):
        fold_log(log.read)


class BatchLog(MemoryLog):
    """Remembers how many events each append had."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[int] = []

    def append(self, *events: Event) -> None:
        self.batches.append(len(events))
        super().append(*events)


def test_a_long_list_is_stored_in_one_step() -> None:
    log = BatchLog()
    follow(log).prepare(items_of(*(user(f"message {number}") for number in range(200))))
    added = [event for event in log.read() if isinstance(event.payload, HostMessageAdded)]
    assert len(added) == 200
    assert 200 in log.batches


def test_a_request_that_is_sent_again_is_the_same_although_its_answer_is_in_the_log() -> None:
    """A client that did not receive the answer asks again. What the answer taught must not change the request."""
    following = follow(window=16_000)
    history = [user("start")]
    for number in range(12):
        history += step(number)
        first = following.prepare(items_of(*history))
        reply = Message("assistant", (Text(f"lost answer {number}"),))
        following.record_reply(first, reply, {"prompt_tokens": int(first.tokens * 1.3), "completion_tokens": 9})
        again = following.prepare(items_of(*history))
        assert again.branched
        assert (again.tokens, shown_texts(again)) == (first.tokens, shown_texts(first))


def test_a_call_takes_one_append_before_it_and_one_for_its_answer() -> None:
    log = BatchLog()
    following, history = follow(log), list[Host]()
    for turn in range(3):
        history.append(user(f"question {turn}"))
        log.batches.clear()
        request = following.prepare(items_of(*history))
        assert len(log.batches) == 1
        reply = Message("assistant", (Text(f"answer {turn}"),))
        following.record_reply(request, reply, {"prompt_tokens": 10, "completion_tokens": 2})
        assert len(log.batches) == 2
        history.append(assistant(f"answer {turn}"))
    topics = [event.payload.topic if isinstance(event.payload, NoteAdded) else "" for event in log.read()]
    assert topics.count("turn") == 3  # each is stored with the answer of its turn


def test_the_start_of_a_turn_is_noted_once_if_its_answer_never_comes() -> None:
    log = BatchLog()
    following = follow(log)
    following.prepare(items_of(user("one")))
    following.prepare(items_of(user("one")))
    following.prepare(items_of(user("one"), user("two")))
    following.prepare(items_of(user("another")))  # a branch: the note of a turn that it does not have is dropped
    topics = [event.payload.topic for event in log.read() if isinstance(event.payload, NoteAdded)]
    assert topics.count("turn") == 1
    view = fold_log(log.read)
    assert (view.total_turns, view.started_turns) == (1, 0)


def test_a_view_that_is_continued_is_the_same_as_one_that_is_arranged_alone() -> None:
    """`prepare` continues the arrangement of the last request; `preview` always makes a new one."""
    following = follow(window=12_000)
    history = [user("start")]
    edited = 0
    for number in range(40):
        history += step(number)
        if number % 7 == 3:
            history.append(user(f"Question {number}."))
        if number == 25:
            del history[-6:]
        items = items_of(*history)
        request = following.prepare(items)
        alone = following.preview(items)
        assert alone is not None
        if request.changed is None:
            assert [shown.item for shown in alone] == items
        else:
            assert alone == request.changed
            edited += 1
        if number % 5 == 0:
            answer = assistant(f"Answer {number}.")
            following.record_reply(request, parse_any_message(answer)[0])
            history.append(answer)
    assert edited > 20
    assert branch_events(following.session.log)


@pytest.mark.parametrize("factor", [1, 2])
def test_what_is_saved_is_in_the_providers_tokens(factor: int) -> None:
    """The summary of `wrap` compares it with the size of the request, which follows the provider's reports."""
    following = follow(window=16_000 * factor)
    messages = [user("Look.")]
    for number in range(24):
        request = following.prepare(items_of(*messages))
        own = sum(request.measured)
        answer, result = step(number)
        (reply,) = parse_any_message(answer)
        following.record_reply(request, reply, {"prompt_tokens": own * factor, "completion_tokens": 9})
        messages += [answer, result]
    request = following.prepare(items_of(*messages))
    assert request.saved_tokens > 8_000
    whole = following.tree.tokens * factor
    assert request.tokens + request.saved_tokens == pytest.approx(whole, rel=0.05)
