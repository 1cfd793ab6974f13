"""What every store must do, as checks that anyone can run over a backend of their own.

    import pytest
    from tidegate.store.conformance import suite

    @pytest.mark.parametrize("check", suite(make_store, again), ids=lambda check: check.name)
    def test_my_store(check):
        check.run()

`make_store()` gives a new, empty store each time. `again(store)` opens the same data a second time, as another process
would; a backend that keeps its data leaves it out only if it promises nothing beyond one object. A check that fails
raises AssertionError and says what it found. Nothing here needs pytest.
"""

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from tidegate.core.errors import TidegateError
from tidegate.store.store import Missing, SessionInfo, Stale, Store

MakeStore = Callable[[], Store]
Again = Callable[[Store], Store]


class Check(NamedTuple):
    name: str
    run: Callable[[], None]


def suite(make_store: MakeStore, again: Again | None = None) -> list[Check]:
    """All checks; those about a second handle on the same data only where `again` is given."""
    checks = [Check(_title(check), partial(_over_one, check, make_store)) for check in ONE]
    if again is not None:
        checks += [Check(_title(check), partial(_over_two, check, make_store, again)) for check in TWO]
    return checks


def _title(check: Callable[..., None]) -> str:
    return check.__name__.strip("_").replace("_", " ")


def _over_one(check: Callable[[Store], None], make_store: MakeStore) -> None:
    store = make_store()
    try:
        _run(partial(check, store))
    finally:
        store.close()


def _over_two(check: Callable[[Store, Callable[[], Store]], None], make_store: MakeStore, again: Again) -> None:
    opened = [make_store()]

    def another() -> Store:
        opened.append(again(opened[0]))
        return opened[-1]

    try:
        _run(partial(check, opened[0], another))
    finally:
        for store in opened:
            store.close()


def _run(check: Callable[[], None]) -> None:
    try:
        check()
    except AssertionError:
        raise
    except Exception as failure:
        raise AssertionError(f"an error where none should be: {type(failure).__name__}: {failure}") from failure


# --- saying what is wrong -----------------------------------------------------------------------------------------


def _same(found: object, wanted: object, what: str) -> None:
    if found != wanted:
        raise AssertionError(f"{what}: {_short(found)} instead of {_short(wanted)}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}... ({len(text)} characters)"


def _refused(error: type[TidegateError], what: str, act: Callable[[], object]) -> None:
    try:
        act()
    except error as refusal:
        if not refusal.remedy:
            raise AssertionError(f"{what}: the {error.__name__} has no remedy") from refusal
        return
    except Exception as other:
        raise AssertionError(f"{what}: {type(other).__name__} instead of {error.__name__}: {other}") from other
    raise AssertionError(f"{what}: no {error.__name__} was raised")


def _all(store: Store, session: str, start: int = 1) -> list[bytes]:
    return list(store.read(session, start))


def _numbered(first: int, last: int) -> list[bytes]:
    return [b"record %d " % number + bytes([number % 256]) * (number % 40) for number in range(first, last + 1)]


def _info(store: Store, name: str) -> SessionInfo:
    found = [info for info in store.sessions() if info.name == name]
    _same(len(found), 1, f"entries of {name!r} in sessions()")
    return found[0]


# --- one handle ---------------------------------------------------------------------------------------------------


def _an_empty_store_is_empty(store: Store) -> None:
    _same(store.sessions(), [], "sessions")
    _same(store.head("nobody"), 0, "head of no session")
    _refused(Missing, "reading no session", lambda: _all(store, "nobody"))
    _refused(Missing, "deleting no session", lambda: store.delete("nobody"))
    _refused(Missing, "forking no session", lambda: store.fork("nobody", 1, "new"))
    _same(store.sessions(), [], "sessions afterwards")


def _records_come_back_in_order(store: Store) -> None:
    wanted = _numbered(1, 200)
    for number, record in enumerate(wanted):
        _same(store.append("s", number, [record]), number + 1, "the new head")
        _same(store.head("s"), number + 1, "head")
    _same(_all(store, "s"), wanted, "records")


def _batches_are_numbered_like_single_records(store: Store) -> None:
    wanted = _numbered(1, 1000)
    place = 0
    for size in (1, 63, 2, 64, 65, 1, 200, 7, 128, 300, 100, 69):
        place = store.append("s", place, wanted[place : place + size])
    _same(place, 1000, "the head")
    for start in (-3, 0, 1, 2, 63, 64, 65, 66, 129, 500, 999, 1000):
        _same(_all(store, "s", start), wanted[max(0, start - 1) :], f"records from {start}")
    _same(_all(store, "s", 1001), [], "records behind the head")


def _any_bytes_are_kept_as_they_are(store: Store) -> None:
    wanted = [b"", b"\0", b"\xff\xfe\0\x80", bytes(range(256)) * 7, "注文\ud7ff".encode(), b"", b"\xed\xa0\x80"]
    _same(store.append("s", 0, wanted), len(wanted), "the head")
    for _ in range(12):
        store.append("s", store.head("s"), wanted)
    _same(_all(store, "s"), wanted * 13, "records")
    if not all(type(record) is bytes for record in store.read("s")):
        raise AssertionError("a record is not bytes")


def _large_records_are_kept(store: Store) -> None:
    large = b"".join(b"%d," % (number * 7919) for number in range(200_000))
    wanted = [b"before", large, b"after", bytes(3_000_000), b"end"]
    for place, record in enumerate(wanted):
        store.append("s", place, [record])
    _same(_all(store, "s") == wanted, True, "large records come back the same")
    _same(_all(store, "s", 5), [b"end"], "the last one")


def _a_stale_append_writes_nothing(store: Store) -> None:
    for after in (1, -1, 7):
        _refused(Stale, f"first append after {after}", partial(store.append, "s", after, [b"x"]))
    _same(store.sessions(), [], "sessions after a refused first append")
    store.append("s", 0, [b"a", b"b", b"c"])
    for after in (0, 1, 2, 4, -1):
        _refused(Stale, f"append after {after} at head 3", partial(store.append, "s", after, [b"x"] * 70))
        _refused(Stale, f"empty append after {after} at head 3", partial(store.append, "s", after, []))
    _same(_all(store, "s"), [b"a", b"b", b"c"], "records")
    _same(store.append("s", 3, [b"d"]), 4, "the next good append")


def _an_empty_append_changes_nothing(store: Store) -> None:
    _same(store.append("s", 0, []), 0, "head of nothing")
    _same(store.sessions(), [], "sessions")
    store.append("s", 0, [b"a"])
    _same(store.append("s", 1, []), 1, "head")
    _same(_all(store, "s"), [b"a"], "records")


def _sessions_do_not_mix(store: Store) -> None:
    names = ["a", "A", "a ", "b/../a", "%", "_", "'; --", "日本", "é", "e\u0301", "x" * 200, "0", "null"]
    for round_ in range(3):
        for name in names:
            store.append(name, round_, [f"{name} {round_}".encode()])
    for name in names:
        _same(_all(store, name), [f"{name} {n}".encode() for n in range(3)], f"records of {name!r}")
    _same(sorted(info.name for info in store.sessions()), sorted(names), "names")


def _impossible_names_are_refused_or_kept(store: Store) -> None:
    for name in ("", "\0", "a\0b", "half \ud800 pair", "x" * 100_000):
        _same(store.head(name), 0, f"head of {_short(name)}")
        _refused(Missing, f"reading {_short(name)}", partial(_all, store, name))
        try:
            store.append(name, 0, [b"x"])
        except TidegateError:
            _same(store.head(name), 0, f"head of the refused {_short(name)}")
        else:
            _same(_all(store, name), [b"x"], f"records of {_short(name)}")


def _the_list_tells_of_every_session(store: Store) -> None:
    for name in ("first", "second", "third"):
        store.append(name, 0, _numbered(1, 10))
    store.append("first", 10, _numbered(11, 100))
    _same(store.sessions()[0].name, "first", "the session used last")
    info = _info(store, "first")
    _same(info.head, 100, "head in the list")
    if not info.created <= info.used or info.created < 1:
        raise AssertionError(f"times: created {info.created}, used {info.used}")
    if not _info(store, "second").size > 0:
        raise AssertionError("a session of ten records has no size")


def _a_fork_goes_its_own_way(store: Store) -> None:
    wanted = _numbered(1, 300)
    store.append("s", 0, wanted[:150])
    for place in range(150, 300, 3):
        store.append("s", place, wanted[place : place + 3])
    for at in (1, 63, 64, 65, 150, 151, 299, 300):
        store.fork("s", at, f"fork {at}")
        _same(store.head(f"fork {at}"), at, f"head of the fork at {at}")
        _same(_info(store, f"fork {at}").head, at, f"head of the fork at {at} in the list")
        own = [b"own %d" % number for number in range(100)]
        for place in range(0, 100, 9):
            store.append(f"fork {at}", at + place, own[place : place + 9])
        _same(_all(store, f"fork {at}"), wanted[:at] + own, f"the fork at {at}")
    store.append("s", 300, [b"more"])
    _same(_all(store, "s"), [*wanted, b"more"], "the source")
    store.delete("s")
    _same(_all(store, "fork 65")[:65], wanted[:65], "a fork whose source is gone")


def _a_bad_fork_changes_nothing(store: Store) -> None:
    store.append("s", 0, [b"a", b"b"])
    store.append("t", 0, [b"c"])
    for at in (0, 3, -1):
        _refused(TidegateError, f"fork at {at} of 2", partial(store.fork, "s", at, "new"))
        _same(store.head("new"), 0, "head of the fork that was refused")
    _refused(TidegateError, "fork onto a session that is there", lambda: store.fork("s", 1, "t"))
    _refused(TidegateError, "fork onto itself", lambda: store.fork("s", 1, "s"))
    _same((_all(store, "s"), _all(store, "t")), ([b"a", b"b"], [b"c"]), "records")


def _a_deleted_session_is_gone_and_its_name_is_free(store: Store) -> None:
    store.append("s", 0, _numbered(1, 150))
    store.append("t", 0, _numbered(1, 70))
    store.delete("s")
    _same(store.head("s"), 0, "head")
    _refused(Missing, "reading it", lambda: _all(store, "s"))
    _refused(Missing, "deleting it again", lambda: store.delete("s"))
    _refused(Stale, "appending where it ended", lambda: store.append("s", 150, [b"x"]))
    _same([info.name for info in store.sessions()], ["t"], "sessions")
    _same(store.append("s", 0, [b"new"]), 1, "the first record of the new one")
    _same((_all(store, "s"), _all(store, "t")), ([b"new"], _numbered(1, 70)), "records")


def _reading_and_writing_go_together(store: Store) -> None:
    store.append("s", 0, _numbered(1, 100))
    reading = store.read("s")
    found = [next(reading) for _ in range(50)]
    for place in range(100, 300):
        store.append("s", place, _numbered(place + 1, place + 1))
    found += reading
    _same(found[:100], _numbered(1, 100), "what was there when reading began")
    _same(found, _numbered(1, len(found)), "what came after, without gap")
    two = store.read("s", 10), store.read("s", 20)
    _same([next(two[0]), next(two[1]), next(two[0])], [_numbered(n, n)[0] for n in (10, 20, 11)], "two readers")


def _a_reader_is_told_when_its_session_goes(store: Store) -> None:
    wanted = _numbered(1, 500)
    store.append("s", 0, wanted)
    reading = store.read("s")
    found = [next(reading)]
    store.delete("s")
    store.append("s", 0, [b"another"] * 600)
    try:
        found += reading
    except TidegateError:
        return
    _same(found, wanted, "a session deleted while it is read, if it is read to its end")


def _threads_lose_nothing(store: Store) -> None:
    _race([store] * 4)


# --- two handles --------------------------------------------------------------------------------------------------


def _what_was_acknowledged_is_there_when_opened_again(store: Store, another: Callable[[], Store]) -> None:
    for place in range(100):
        store.append("s", place, _numbered(place + 1, place + 1))
    store.fork("s", 70, "f")
    store.append("gone", 0, [b"x"])
    store.delete("gone")
    before = store.sessions()
    store.close()
    reopened = another()
    _same(_all(reopened, "s"), _numbered(1, 100), "records")
    _same(_all(reopened, "f"), _numbered(1, 70), "records of the fork")
    _same(reopened.sessions(), before, "the list")
    _same(reopened.append("s", 100, [b"on"]), 101, "the next append")


def _one_sees_at_once_what_the_other_wrote(store: Store, another: Callable[[], Store]) -> None:
    other = another()
    handles = (store, other)
    for place in range(150):
        handles[place % 2].append("s", place, _numbered(place + 1, place + 1))
        _same(handles[(place + 1) % 2].head("s"), place + 1, "the other's head")
    _same(_all(other, "s"), _numbered(1, 150), "records")
    _refused(Stale, "a stale append through the other", lambda: other.append("s", 149, [b"x"]))
    other.delete("s")
    _refused(Missing, "reading what the other deleted", lambda: _all(store, "s"))


def _two_handles_lose_nothing(store: Store, another: Callable[[], Store]) -> None:
    other = another()
    _race([store, other, store, other])


def _race(stores: list[Store]) -> None:
    """Each writer appends its own records, and on Stale reads on and tries again."""
    each = 40
    failures: list[BaseException] = []

    def write(writer: int) -> None:
        try:
            for number in range(each):
                _push(stores[writer], b"%d:%d" % (writer, number))
        except BaseException as failure:  # noqa: BLE001 - told by the main thread
            failures.append(failure)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(len(stores))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise AssertionError(f"a writer failed: {failures[0]!r}") from failures[0]
    found = _all(stores[0], "s")
    _same(stores[0].head("s"), len(stores) * each, "head")
    for writer in range(len(stores)):
        own = [record for record in found if record.startswith(b"%d:" % writer)]
        _same(own, [b"%d:%d" % (writer, number) for number in range(each)], f"records of writer {writer}, in order")


def _push(store: Store, record: bytes) -> None:
    for head in _heads(store):
        try:
            store.append("s", head, [record])
        except Stale:
            continue
        return


def _heads(store: Store) -> Iterator[int]:
    for _ in range(100_000):
        yield store.head("s")
    raise AssertionError("100,000 appends in a row were stale")


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
    _reading_and_writing_go_together,
    _a_reader_is_told_when_its_session_goes,
    _threads_lose_nothing,
)
TWO: tuple[Callable[[Store, Callable[[], Store]], None], ...] = (
    _what_was_acknowledged_is_there_when_opened_again,
    _one_sees_at_once_what_the_other_wrote,
    _two_handles_lose_nothing,
)
