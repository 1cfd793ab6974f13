"""Two processes follow one conversation: a request that both get at once is added once."""

from collections.abc import Callable, Sequence
from typing import Any

from tidegate import Session
from tidegate.core.events import HostNote, MessageAdded
from tidegate.core.messages import Message, Text, text_of
from tidegate.session.following import FixedPart, FollowingSession, HostItem, make_host_item
from tidegate.store.memory import MemoryStore
from tidegate.store.session_log import KeptLog


class InterruptedStore(MemoryStore):
    """Calls `before_append` once, just before an append: another process does something there.

    `head_reads` counts how often a head was read.
    """

    before_append: Callable[[], Any] | None = None
    head_reads = 0

    def head(self, session: str) -> int:
        self.head_reads += 1
        return super().head(session)

    def append(self, session: str, after: int, records: Sequence[bytes]) -> int:
        act, self.before_append = self.before_append, None
        if act is not None:
            act()
        return super().append(session, after, records)


def says(role: Any, text: str) -> HostItem[str]:
    return make_host_item(text, Message(role, (Text(text),)))


def follow(store: MemoryStore) -> FollowingSession[str]:
    return FollowingSession(Session("gpt-4o", log=KeptLog(store, "s")))


def shown_texts(following: FollowingSession[str], items: list[HostItem[str]]) -> list[str]:
    return [text_of(each.message) for each in following.prepare(items).shown]


def test_messages_that_both_get_are_added_once() -> None:
    store = InterruptedStore()
    one, other = follow(store), follow(store)
    items = [says("user", "hello"), says("assistant", "hi"), says("user", "go on")]
    one.prepare(items[:1])
    store.before_append = lambda: other.prepare(items)
    assert shown_texts(one, items) == shown_texts(other, items) == ["hello", "hi", "go on"]
    events = KeptLog(store, "s").read()
    texts = [text_of(event.payload.message) for event in events if isinstance(event.payload, MessageAdded)]
    assert texts == ["hello", "hi", "go on"]


def test_of_two_answers_to_one_request_the_first_is_shown() -> None:
    store = InterruptedStore()
    one, other = follow(store), follow(store)
    items = [says("user", "hello")]
    asked, asked_too = one.prepare(items), other.prepare(items)
    store.before_append = lambda: other.record_reply(asked_too, Message("assistant", (Text("first"),)))
    one.record_reply(asked, Message("assistant", (Text("second"),)))
    assert [text_of(item.message) for item in one.session.view.items] == ["hello", "first"]
    more = [*items, says("assistant", "first"), says("user", "go on")]
    assert shown_texts(one, more) == shown_texts(other, more) == ["hello", "first", "go on"]


def test_the_head_is_not_read_before_new_messages_are_added() -> None:
    store = InterruptedStore()
    following = follow(store)
    items = [says("user", "hello"), says("assistant", "hi"), says("user", "go on")]
    following.prepare(items[:1])
    opened = store.head_reads
    following.prepare(items)
    assert store.head_reads == opened
    following.prepare(items)
    assert store.head_reads == opened + 1  # nothing is new: only the head tells whether another process went on


def test_a_changed_system_prompt_is_noted_once_if_another_process_was_first() -> None:
    store = InterruptedStore()
    one, other = follow(store), follow(store)
    items = [says("user", "hello"), says("assistant", "hi"), says("user", "go on")]
    for following in (one, other):
        following.prepare(items[:1], fixed_part=FixedPart("old"))
    other.prepare(items[:1], fixed_part=FixedPart("new"))
    one.prepare(items, fixed_part=FixedPart("new"))
    notes = [event.payload for event in KeptLog(store, "s").read() if isinstance(event.payload, HostNote)]
    assert [note.text for note in notes if note.topic == "system"] == ["old", "new"]
