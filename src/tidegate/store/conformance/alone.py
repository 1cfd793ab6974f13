"""What a store must do by itself."""

from collections.abc import Callable
from functools import partial

from tidegate.core.errors import TidegateError
from tidegate.store.conformance.races import race
from tidegate.store.conformance.saying import all_of, info_of, numbered, refused, same, short
from tidegate.store.errors import Missing, Stale
from tidegate.store.store import Store


def _an_empty_store_is_empty(store: Store) -> None:
    same(store.sessions(), [], "sessions")
    same(store.head("nobody"), 0, "head of no session")
    refused(Missing, "reading no session", lambda: all_of(store, "nobody"))
    refused(Missing, "deleting no session", lambda: store.delete("nobody"))
    refused(Missing, "forking no session", lambda: store.fork("nobody", 1, "new"))
    same(store.sessions(), [], "sessions afterwards")


def _records_come_back_in_order(store: Store) -> None:
    wanted = numbered(1, 200)
    for number, record in enumerate(wanted):
        same(store.append("s", number, [record]), number + 1, "the new head")
        same(store.head("s"), number + 1, "head")
    same(all_of(store, "s"), wanted, "records")


def _batches_are_numbered_like_single_records(store: Store) -> None:
    wanted = numbered(1, 1000)
    place = 0
    for size in (1, 63, 2, 64, 65, 1, 200, 7, 128, 300, 100, 69):
        place = store.append("s", place, wanted[place : place + size])
    same(place, 1000, "the head")
    for start in (-3, 0, 1, 2, 63, 64, 65, 66, 129, 500, 999, 1000):
        same(all_of(store, "s", start), wanted[max(0, start - 1) :], f"records from {start}")
    same(all_of(store, "s", 1001), [], "records behind the head")


def _any_bytes_are_kept_as_they_are(store: Store) -> None:
    wanted = [b"", b"\0", b"\xff\xfe\0\x80", bytes(range(256)) * 7, "注文\ud7ff".encode(), b"", b"\xed\xa0\x80"]
    same(store.append("s", 0, wanted), len(wanted), "the head")
    for _ in range(12):
        store.append("s", store.head("s"), wanted)
    same(all_of(store, "s"), wanted * 13, "records")
    if not all(type(record) is bytes for record in store.read("s")):
        raise AssertionError("a record is not bytes")


def _large_records_are_kept(store: Store) -> None:
    large = b"".join(b"%d," % (number * 7919) for number in range(200_000))
    wanted = [b"before", large, b"after", bytes(3_000_000), b"end"]
    for place, record in enumerate(wanted):
        store.append("s", place, [record])
    same(all_of(store, "s") == wanted, True, "large records come back the same")
    same(all_of(store, "s", 5), [b"end"], "the last one")


def _a_stale_append_writes_nothing(store: Store) -> None:
    for after in (1, -1, 7):
        refused(Stale, f"first append after {after}", partial(store.append, "s", after, [b"x"]))
    same(store.sessions(), [], "sessions after a refused first append")
    store.append("s", 0, [b"a", b"b", b"c"])
    for after in (0, 1, 2, 4, -1):
        refused(Stale, f"append after {after} at head 3", partial(store.append, "s", after, [b"x"] * 70))
        refused(Stale, f"empty append after {after} at head 3", partial(store.append, "s", after, []))
    same(all_of(store, "s"), [b"a", b"b", b"c"], "records")
    same(store.append("s", 3, [b"d"]), 4, "the next good append")


def _an_empty_append_changes_nothing(store: Store) -> None:
    same(store.append("s", 0, []), 0, "head of nothing")
    same(store.sessions(), [], "sessions")
    store.append("s", 0, [b"a"])
    same(store.append("s", 1, []), 1, "head")
    same(all_of(store, "s"), [b"a"], "records")


def _sessions_do_not_mix(store: Store) -> None:
    names = ["a", "A", "a ", "b/../a", "%", "_", "'; --", "日本", "é", "e\u0301", "x" * 200, "0", "null"]
    for round_ in range(3):
        for name in names:
            store.append(name, round_, [f"{name} {round_}".encode()])
    for name in names:
        same(all_of(store, name), [f"{name} {n}".encode() for n in range(3)], f"records of {name!r}")
    same(sorted(info.name for info in store.sessions()), sorted(names), "names")


def _impossible_names_are_refused_or_kept(store: Store) -> None:
    for name in ("", "\0", "a\0b", "half \ud800 pair", "x" * 100_000):
        same(store.head(name), 0, f"head of {short(name)}")
        refused(Missing, f"reading {short(name)}", partial(all_of, store, name))
        try:
            store.append(name, 0, [b"x"])
        except TidegateError:
            same(store.head(name), 0, f"head of the refused {short(name)}")
        else:
            same(all_of(store, name), [b"x"], f"records of {short(name)}")


def _the_list_tells_of_every_session(store: Store) -> None:
    for name in ("first", "second", "third"):
        store.append(name, 0, numbered(1, 10))
    store.append("first", 10, numbered(11, 100))
    same(store.sessions()[0].name, "first", "the session used last")
    info = info_of(store, "first")
    same(info.head, 100, "head in the list")
    if not info.created <= info.used or info.created < 1:
        raise AssertionError(f"times: created {info.created}, used {info.used}")
    if not info_of(store, "second").size > 0:
        raise AssertionError("a session of ten records has no size")


def _a_fork_goes_its_own_way(store: Store) -> None:
    wanted = numbered(1, 300)
    store.append("s", 0, wanted[:150])
    for place in range(150, 300, 3):
        store.append("s", place, wanted[place : place + 3])
    for at in (1, 63, 64, 65, 150, 151, 299, 300):
        store.fork("s", at, f"fork {at}")
        same(store.head(f"fork {at}"), at, f"head of the fork at {at}")
        same(info_of(store, f"fork {at}").head, at, f"head of the fork at {at} in the list")
        own = [b"own %d" % number for number in range(100)]
        for place in range(0, 100, 9):
            store.append(f"fork {at}", at + place, own[place : place + 9])
        same(all_of(store, f"fork {at}"), wanted[:at] + own, f"the fork at {at}")
    store.append("s", 300, [b"more"])
    same(all_of(store, "s"), [*wanted, b"more"], "the source")
    store.delete("s")
    same(all_of(store, "fork 65")[:65], wanted[:65], "a fork whose source is gone")


def _a_bad_fork_changes_nothing(store: Store) -> None:
    store.append("s", 0, [b"a", b"b"])
    store.append("t", 0, [b"c"])
    for at in (0, 3, -1):
        refused(TidegateError, f"fork at {at} of 2", partial(store.fork, "s", at, "new"))
        same(store.head("new"), 0, "head of the fork that was refused")
    refused(TidegateError, "fork onto a session that is there", lambda: store.fork("s", 1, "t"))
    refused(TidegateError, "fork onto itself", lambda: store.fork("s", 1, "s"))
    same((all_of(store, "s"), all_of(store, "t")), ([b"a", b"b"], [b"c"]), "records")


def _a_deleted_session_is_gone_and_its_name_is_free(store: Store) -> None:
    store.append("s", 0, numbered(1, 150))
    store.append("t", 0, numbered(1, 70))
    store.delete("s")
    same(store.head("s"), 0, "head")
    refused(Missing, "reading it", lambda: all_of(store, "s"))
    refused(Missing, "deleting it again", lambda: store.delete("s"))
    refused(Stale, "appending where it ended", lambda: store.append("s", 150, [b"x"]))
    same([info.name for info in store.sessions()], ["t"], "sessions")
    same(store.append("s", 0, [b"new"]), 1, "the first record of the new one")
    same((all_of(store, "s"), all_of(store, "t")), ([b"new"], numbered(1, 70)), "records")


def _a_session_is_deleted_only_where_it_is_said_to_end(store: Store) -> None:
    refused(Missing, "deleting no session at 0", lambda: store.delete("s", 0))
    store.append("s", 0, numbered(1, 70))
    for head in (0, 1, 69, 71, -1):
        refused(Stale, f"deleting at {head} what ends at 70", partial(store.delete, "s", head))
    same(all_of(store, "s"), numbered(1, 70), "records")
    store.delete("s", 70)
    refused(Missing, "reading it", lambda: all_of(store, "s"))
    refused(Missing, "deleting it again", lambda: store.delete("s", 70))


def _reading_and_writing_go_together(store: Store) -> None:
    store.append("s", 0, numbered(1, 100))
    reading = store.read("s")
    found = [next(reading) for _ in range(50)]
    for place in range(100, 300):
        store.append("s", place, numbered(place + 1, place + 1))
    found += reading
    same(found[:100], numbered(1, 100), "what was there when reading began")
    same(found, numbered(1, len(found)), "what came after, without gap")
    two = store.read("s", 10), store.read("s", 20)
    same([next(two[0]), next(two[1]), next(two[0])], [numbered(n, n)[0] for n in (10, 20, 11)], "two readers")


def _a_reader_is_told_when_its_session_goes(store: Store) -> None:
    wanted = numbered(1, 500)
    store.append("s", 0, wanted)
    reading = store.read("s")
    found = [next(reading)]
    store.delete("s")
    store.append("s", 0, [b"another"] * 600)
    try:
        found += reading
    except TidegateError:
        return
    same(found, wanted, "a session deleted while it is read, if it is read to its end")


def _threads_lose_nothing(store: Store) -> None:
    race([store] * 4)


ONE: tuple[Callable[[Store], None], ...] = (
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
