"""What a store must do beside another handle on the same data, as another process would have it."""

from collections.abc import Callable

from tidegate.store.conformance.races import race, use_and_remove
from tidegate.store.conformance.saying import all_of, numbered, refused, same
from tidegate.store.errors import Missing, Stale
from tidegate.store.store import Store


def _what_was_acknowledged_is_there_when_opened_again(store: Store, another: Callable[[], Store]) -> None:
    for place in range(100):
        store.append("s", place, numbered(place + 1, place + 1))
    store.fork("s", 70, "f")
    store.append("gone", 0, [b"x"])
    store.delete("gone")
    before = store.sessions()
    store.close()
    reopened = another()
    same(all_of(reopened, "s"), numbered(1, 100), "records")
    same(all_of(reopened, "f"), numbered(1, 70), "records of the fork")
    same(reopened.sessions(), before, "the list")
    same(reopened.append("s", 100, [b"on"]), 101, "the next append")


def _one_sees_at_once_what_the_other_wrote(store: Store, another: Callable[[], Store]) -> None:
    other = another()
    handles = (store, other)
    for place in range(150):
        handles[place % 2].append("s", place, numbered(place + 1, place + 1))
        same(handles[(place + 1) % 2].head("s"), place + 1, "the other's head")
    same(all_of(other, "s"), numbered(1, 150), "records")
    refused(Stale, "a stale append through the other", lambda: other.append("s", 149, [b"x"]))
    other.delete("s")
    refused(Missing, "reading what the other deleted", lambda: all_of(store, "s"))


def _two_handles_lose_nothing(store: Store, another: Callable[[], Store]) -> None:
    other = another()
    race([store, other, store, other])


def _a_session_that_another_uses_is_not_removed(store: Store, another: Callable[[], Store]) -> None:
    use_and_remove(store, another())


TWO: tuple[Callable[[Store, Callable[[], Store]], None], ...] = (
    _what_was_acknowledged_is_there_when_opened_again,
    _one_sees_at_once_what_the_other_wrote,
    _two_handles_lose_nothing,
    _a_session_that_another_uses_is_not_removed,
)
