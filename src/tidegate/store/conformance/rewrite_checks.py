"""Checks of a store that can replace records."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import cast

from tidegate.core.errors import BadInput
from tidegate.store.conformance.assertions import (
    expect_equal,
    expect_error,
    get_session_info,
    make_records,
    read_records,
)
from tidegate.store.conformance.concurrency import append_with_retry, run_in_threads
from tidegate.store.errors import SessionNotFound
from tidegate.store.store import RewritableStore, Store


def _rewrite(store: Store, session: str, changes: Mapping[int, bytes]) -> None:
    cast(RewritableStore, store).rewrite(session, changes)


def _fill_session(store: Store, session: str = "s") -> list[bytes]:
    """Append records, some in batches and some one by one."""
    records = make_records(1, 230)
    store.append(session, 0, records[:150])
    for place in range(150, 230):
        store.append(session, place, [records[place]])
    return records


def _what_is_rewritten_stands_in_its_place(store: Store) -> None:
    expected = _fill_session(store)
    for changes in (
        {1: b"first"},
        {230: b""},
        {63: b"a", 64: b"b" * 5000, 65: b"c"},
        {number: b"new %d" % number for number in range(140, 161)},
        {number: bytes([number]) * 3000 for number in (2, 99, 193, 229)},
    ):
        _rewrite(store, "s", changes)
        for number, record in changes.items():
            expected[number - 1] = record
        expect_equal(
            read_records(store, "s"), expected, f"records after {min(changes)} to {max(changes)} were rewritten"
        )
        expect_equal(read_records(store, "s", max(changes)), expected[max(changes) - 1 :], "and from there on")
    expect_equal(store.head("s"), 230, "head")


def _what_cannot_be_rewritten_changes_nothing(store: Store) -> None:
    expect_error(SessionNotFound, "rewriting no session", lambda: _rewrite(store, "s", {1: b"x"}))
    expected = _fill_session(store)
    before = store.sessions()
    for number in (0, -1, 231, 10**9):
        expect_error(BadInput, f"rewriting {number} of 230", partial(_rewrite, store, "s", {5: b"x", number: b"y"}))
    _rewrite(store, "s", {})
    expect_equal(read_records(store, "s"), expected, "records")
    expect_equal(store.sessions(), before, "the list")


def _a_rewritten_session_goes_on(store: Store) -> None:
    expected = _fill_session(store)
    store.fork("s", 200, "before")
    store.append("other", 0, [b"theirs"])
    changes = dict.fromkeys(range(3, 229, 5), b"")
    _rewrite(store, "s", changes)
    expect_equal(read_records(store, "before"), expected[:200], "a fork of before")
    expect_equal(read_records(store, "other"), [b"theirs"], "another session")
    expected = [changes.get(number, record) for number, record in enumerate(expected, 1)]
    for number in range(231, 301):
        expect_equal(store.append("s", number - 1, [b"on %d" % number]), number, "the next head")
        expected.append(b"on %d" % number)
    store.fork("s", 250, "after")
    expect_equal(read_records(store, "s"), expected, "records")
    expect_equal(read_records(store, "after"), expected[:250], "a fork of after")
    _rewrite(store, "after", {1: b"its own"})
    expect_equal(read_records(store, "s"), expected, "records when the fork was rewritten")


def _the_list_tells_what_a_rewritten_session_takes(store: Store) -> None:
    large = [b"%d," % number * 700 + bytes([number]) for number in range(100)]
    store.append("s", 0, large)
    store.append("t", 0, [b"x"] * 100)
    before = get_session_info(store, "s")
    _rewrite(store, "s", dict.fromkeys(range(1, 101), b"x"))
    after = get_session_info(store, "s")
    expect_equal(
        after.size, get_session_info(store, "t").size, "the size, beside that of a session with the same records"
    )
    expect_equal((after.head, after.created, after.used), (before.head, before.created, before.used), "head and times")
    expect_equal([info.name for info in store.sessions()], ["t", "s"], "the order: forgetting is not using")


def _rewriting_and_appending_go_together(store: Store) -> None:
    store.append("s", 0, make_records(1, 100))

    def write() -> None:
        for number in range(80):
            append_with_retry(store, b"more %d" % number)

    def rewrite() -> None:
        for number in range(1, 101, 4):
            _rewrite(store, "s", {number: b"", store.head("s"): b"more, rewritten"})

    run_in_threads([write, rewrite])
    records = read_records(store, "s")
    expected = [b"" if number % 4 == 1 else record for number, record in enumerate(make_records(1, 100), 1)]
    expect_equal(len(records), 180, "records in all")
    expect_equal([records[0], *records[1:99]], expected[:99], "records of before")
    places = {b"more %d" % number: number for number in range(80)}
    wrong = [record for place, record in enumerate(records[100:]) if places.get(record, place) != place]
    expect_equal(
        set(wrong) <= {b"more, rewritten"}, True, "what was appended meanwhile is there, or what was put there"
    )


def _what_was_rewritten_is_seen_by_another(store: Store, another: Callable[[], Store]) -> None:
    expected = _fill_session(store)
    other = another()
    expect_equal(other.append("s", 230, [b"231"]), 231, "the other's append")
    for number, handle in ((10, store), (200, other), (231, store)):
        _rewrite(handle, "s", {number: b"gone"})
    expected = [b"gone" if number in (10, 200, 231) else record for number, record in enumerate([*expected, b""], 1)]
    expect_equal((read_records(store, "s"), read_records(other, "s")), (expected, expected), "records")
    expect_equal(store.append("s", 231, [b"on"]), 232, "the next append")
    store.close()
    expect_equal(read_records(another(), "s"), [*expected, b"on"], "records, opened again")


REWRITE_CHECKS: tuple[Callable[[Store], None], ...] = (
    _what_is_rewritten_stands_in_its_place,
    _what_cannot_be_rewritten_changes_nothing,
    _a_rewritten_session_goes_on,
    _the_list_tells_what_a_rewritten_session_takes,
    _rewriting_and_appending_go_together,
)
SHARED_REWRITE_CHECKS: tuple[Callable[[Store, Callable[[], Store]], None], ...] = (
    _what_was_rewritten_is_seen_by_another,
)
