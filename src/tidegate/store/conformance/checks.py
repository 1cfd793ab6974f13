"""Checks of a single handle on a store, and of two handles on the same data."""

from collections.abc import Callable
from functools import partial

from tidegate.core.errors import TidegateError
from tidegate.store.conformance.assertions import (
    abbreviate_repr,
    expect_equal,
    expect_error,
    get_session_info,
    make_records,
    read_records,
)
from tidegate.store.conformance.concurrency import check_racing_appends, check_removal_during_use
from tidegate.store.errors import SessionNotFound, StaleHead
from tidegate.store.store import Store


def _an_empty_store_is_empty(store: Store) -> None:
    expect_equal(store.sessions(), [], "sessions")
    expect_equal(store.head("nobody"), 0, "head of no session")
    expect_error(SessionNotFound, "reading no session", lambda: read_records(store, "nobody"))
    expect_error(SessionNotFound, "deleting no session", lambda: store.delete("nobody"))
    expect_error(SessionNotFound, "forking no session", lambda: store.fork("nobody", 1, "new"))
    expect_equal(store.sessions(), [], "sessions afterwards")


def _records_come_back_in_order(store: Store) -> None:
    records = make_records(1, 200)
    for number, record in enumerate(records):
        expect_equal(store.append("s", number, [record]), number + 1, "the new head")
        expect_equal(store.head("s"), number + 1, "head")
    expect_equal(read_records(store, "s"), records, "records")


def _batches_are_numbered_like_single_records(store: Store) -> None:
    records = make_records(1, 1000)
    place = 0
    for size in (1, 63, 2, 64, 65, 1, 200, 7, 128, 300, 100, 69):
        place = store.append("s", place, records[place : place + size])
    expect_equal(place, 1000, "the head")
    for start in (-3, 0, 1, 2, 63, 64, 65, 66, 129, 500, 999, 1000):
        expect_equal(read_records(store, "s", start), records[max(0, start - 1) :], f"records from {start}")
    expect_equal(read_records(store, "s", 1001), [], "records behind the head")


def _any_bytes_are_kept_as_they_are(store: Store) -> None:
    records = [b"", b"\0", b"\xff\xfe\0\x80", bytes(range(256)) * 7, "注文\ud7ff".encode(), b"", b"\xed\xa0\x80"]
    expect_equal(store.append("s", 0, records), len(records), "the head")
    for _ in range(12):
        store.append("s", store.head("s"), records)
    expect_equal(read_records(store, "s"), records * 13, "records")
    if not all(type(record) is bytes for record in store.read("s")):
        raise AssertionError("a record is not bytes")


def _large_records_are_kept(store: Store) -> None:
    large = b"".join(b"%d," % (number * 7919) for number in range(200_000))
    records = [b"before", large, b"after", bytes(3_000_000), b"end"]
    for place, record in enumerate(records):
        store.append("s", place, [record])
    expect_equal(read_records(store, "s") == records, True, "large records come back the same")
    expect_equal(read_records(store, "s", 5), [b"end"], "the last one")


def _a_stale_append_writes_nothing(store: Store) -> None:
    for after in (1, -1, 7):
        expect_error(StaleHead, f"first append after {after}", partial(store.append, "s", after, [b"x"]))
    expect_equal(store.sessions(), [], "sessions after a refused first append")
    store.append("s", 0, [b"a", b"b", b"c"])
    for after in (0, 1, 2, 4, -1):
        expect_error(StaleHead, f"append after {after} at head 3", partial(store.append, "s", after, [b"x"] * 70))
        expect_error(StaleHead, f"empty append after {after} at head 3", partial(store.append, "s", after, []))
    expect_equal(read_records(store, "s"), [b"a", b"b", b"c"], "records")
    expect_equal(store.append("s", 3, [b"d"]), 4, "the next good append")


def _an_empty_append_changes_nothing(store: Store) -> None:
    expect_equal(store.append("s", 0, []), 0, "head of nothing")
    expect_equal(store.sessions(), [], "sessions")
    store.append("s", 0, [b"a"])
    expect_equal(store.append("s", 1, []), 1, "head")
    expect_equal(read_records(store, "s"), [b"a"], "records")


def _sessions_do_not_mix(store: Store) -> None:
    names = ["a", "A", "a ", "b/../a", "%", "_", "'; --", "日本", "é", "e\u0301", "x" * 200, "0", "null"]
    for round_ in range(3):
        for name in names:
            store.append(name, round_, [f"{name} {round_}".encode()])
    for name in names:
        expect_equal(read_records(store, name), [f"{name} {n}".encode() for n in range(3)], f"records of {name!r}")
    expect_equal(sorted(info.name for info in store.sessions()), sorted(names), "names")


def _impossible_names_are_refused_or_kept(store: Store) -> None:
    for name in ("", "\0", "a\0b", "half \ud800 pair", "x" * 100_000):
        expect_equal(store.head(name), 0, f"head of {abbreviate_repr(name)}")
        expect_error(SessionNotFound, f"reading {abbreviate_repr(name)}", partial(read_records, store, name))
        try:
            store.append(name, 0, [b"x"])
        except TidegateError:
            expect_equal(store.head(name), 0, f"head of the refused {abbreviate_repr(name)}")
        else:
            expect_equal(read_records(store, name), [b"x"], f"records of {abbreviate_repr(name)}")


def _the_list_tells_of_every_session(store: Store) -> None:
    for name in ("first", "second", "third"):
        store.append(name, 0, make_records(1, 10))
    store.append("first", 10, make_records(11, 100))
    expect_equal(store.sessions()[0].name, "first", "the session used last")
    info = get_session_info(store, "first")
    expect_equal(info.head, 100, "head in the list")
    if not info.created <= info.used or info.created < 1:
        raise AssertionError(f"times: created {info.created}, used {info.used}")
    if not get_session_info(store, "second").size > 0:
        raise AssertionError("a session of ten records has no size")


def _a_fork_goes_its_own_way(store: Store) -> None:
    records = make_records(1, 300)
    store.append("s", 0, records[:150])
    for place in range(150, 300, 3):
        store.append("s", place, records[place : place + 3])
    for at in (1, 63, 64, 65, 150, 151, 299, 300):
        store.fork("s", at, f"fork {at}")
        expect_equal(store.head(f"fork {at}"), at, f"head of the fork at {at}")
        expect_equal(get_session_info(store, f"fork {at}").head, at, f"head of the fork at {at} in the list")
        own = [b"own %d" % number for number in range(100)]
        for place in range(0, 100, 9):
            store.append(f"fork {at}", at + place, own[place : place + 9])
        expect_equal(read_records(store, f"fork {at}"), records[:at] + own, f"the fork at {at}")
    store.append("s", 300, [b"more"])
    expect_equal(read_records(store, "s"), [*records, b"more"], "the source")
    store.delete("s")
    expect_equal(read_records(store, "fork 65")[:65], records[:65], "a fork whose source is gone")


def _a_bad_fork_changes_nothing(store: Store) -> None:
    store.append("s", 0, [b"a", b"b"])
    store.append("t", 0, [b"c"])
    for at in (0, 3, -1):
        expect_error(TidegateError, f"fork at {at} of 2", partial(store.fork, "s", at, "new"))
        expect_equal(store.head("new"), 0, "head of the fork that was refused")
    expect_error(TidegateError, "fork onto a session that is there", lambda: store.fork("s", 1, "t"))
    expect_error(TidegateError, "fork onto itself", lambda: store.fork("s", 1, "s"))
    expect_equal((read_records(store, "s"), read_records(store, "t")), ([b"a", b"b"], [b"c"]), "records")


def _a_deleted_session_is_gone_and_its_name_is_free(store: Store) -> None:
    store.append("s", 0, make_records(1, 150))
    store.append("t", 0, make_records(1, 70))
    store.delete("s")
    expect_equal(store.head("s"), 0, "head")
    expect_error(SessionNotFound, "reading it", lambda: read_records(store, "s"))
    expect_error(SessionNotFound, "deleting it again", lambda: store.delete("s"))
    expect_error(StaleHead, "appending where it ended", lambda: store.append("s", 150, [b"x"]))
    expect_equal([info.name for info in store.sessions()], ["t"], "sessions")
    expect_equal(store.append("s", 0, [b"new"]), 1, "the first record of the new one")
    expect_equal((read_records(store, "s"), read_records(store, "t")), ([b"new"], make_records(1, 70)), "records")


def _a_session_is_deleted_only_where_it_is_said_to_end(store: Store) -> None:
    expect_error(SessionNotFound, "deleting no session at 0", lambda: store.delete("s", 0))
    store.append("s", 0, make_records(1, 70))
    for head in (0, 1, 69, 71, -1):
        expect_error(StaleHead, f"deleting at {head} what ends at 70", partial(store.delete, "s", head))
    expect_equal(read_records(store, "s"), make_records(1, 70), "records")
    store.delete("s", 70)
    expect_error(SessionNotFound, "reading it", lambda: read_records(store, "s"))
    expect_error(SessionNotFound, "deleting it again", lambda: store.delete("s", 70))


def _reading_and_writing_go_together(store: Store) -> None:
    store.append("s", 0, make_records(1, 100))
    reading = store.read("s")
    records = [next(reading) for _ in range(50)]
    for place in range(100, 300):
        store.append("s", place, make_records(place + 1, place + 1))
    records += reading
    expect_equal(records[:100], make_records(1, 100), "what was there when reading began")
    expect_equal(records, make_records(1, len(records)), "what came after, without gap")
    two = store.read("s", 10), store.read("s", 20)
    expect_equal(
        [next(two[0]), next(two[1]), next(two[0])], [make_records(n, n)[0] for n in (10, 20, 11)], "two readers"
    )


def _a_reader_is_told_when_its_session_goes(store: Store) -> None:
    records = make_records(1, 500)
    store.append("s", 0, records)
    reading = store.read("s")
    records_read = [next(reading)]
    store.delete("s")
    store.append("s", 0, [b"another"] * 600)
    try:
        records_read += reading
    except TidegateError:
        return
    expect_equal(records_read, records, "a session deleted while it is read, if it is read to its end")


def _threads_lose_nothing(store: Store) -> None:
    check_racing_appends([store] * 4)


STORE_CHECKS: tuple[Callable[[Store], None], ...] = (
    _an_empty_store_is_empty,
    _records_come_back_in_order,
    _batches_are_numbered_like_single_records,
    _any_bytes_are_kept_as_they_are,
    _large_records_are_kept,
    _a_stale_append_writes_nothing,
    _an_empty_append_changes_nothing,
    _sessions_do_not_mix,
    _impossible_names_are_refused_or_kept,
    _the_list_tells_of_every_session,
    _a_fork_goes_its_own_way,
    _a_bad_fork_changes_nothing,
    _a_deleted_session_is_gone_and_its_name_is_free,
    _a_session_is_deleted_only_where_it_is_said_to_end,
    _reading_and_writing_go_together,
    _a_reader_is_told_when_its_session_goes,
    _threads_lose_nothing,
)


# Checks with a second handle on the same data, as another process would have it.


def _what_was_acknowledged_is_there_when_opened_again(store: Store, another: Callable[[], Store]) -> None:
    for place in range(100):
        store.append("s", place, make_records(place + 1, place + 1))
    store.fork("s", 70, "f")
    store.append("gone", 0, [b"x"])
    store.delete("gone")
    before = store.sessions()
    store.close()
    reopened = another()
    expect_equal(read_records(reopened, "s"), make_records(1, 100), "records")
    expect_equal(read_records(reopened, "f"), make_records(1, 70), "records of the fork")
    expect_equal(reopened.sessions(), before, "the list")
    expect_equal(reopened.append("s", 100, [b"on"]), 101, "the next append")


def _one_sees_at_once_what_the_other_wrote(store: Store, another: Callable[[], Store]) -> None:
    other = another()
    handles = (store, other)
    for place in range(150):
        handles[place % 2].append("s", place, make_records(place + 1, place + 1))
        expect_equal(handles[(place + 1) % 2].head("s"), place + 1, "the other's head")
    expect_equal(read_records(other, "s"), make_records(1, 150), "records")
    expect_error(StaleHead, "a stale append through the other", lambda: other.append("s", 149, [b"x"]))
    other.delete("s")
    expect_error(SessionNotFound, "reading what the other deleted", lambda: read_records(store, "s"))


def _two_handles_lose_nothing(store: Store, another: Callable[[], Store]) -> None:
    other = another()
    check_racing_appends([store, other, store, other])


def _a_session_that_another_uses_is_not_removed(store: Store, another: Callable[[], Store]) -> None:
    check_removal_during_use(store, another())


SHARED_DATA_CHECKS: tuple[Callable[[Store, Callable[[], Store]], None], ...] = (
    _what_was_acknowledged_is_there_when_opened_again,
    _one_sees_at_once_what_the_other_wrote,
    _two_handles_lose_nothing,
    _a_session_that_another_uses_is_not_removed,
)
