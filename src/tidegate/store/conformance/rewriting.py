"""What a store must do that can put other records in the place of some."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import cast

from tidegate.core.errors import BadInput
from tidegate.store.conformance.races import at_once, push
from tidegate.store.conformance.saying import all_of, info_of, numbered, refused, same
from tidegate.store.errors import Missing
from tidegate.store.store import Rewrites, Store


def _rewrite(store: Store, session: str, changes: Mapping[int, bytes]) -> None:
    cast(Rewrites, store).rewrite(session, changes)


def _filled(store: Store, session: str = "s") -> list[bytes]:
    """Some came in batches, some one by one."""
    wanted = numbered(1, 230)
    store.append(session, 0, wanted[:150])
    for place in range(150, 230):
        store.append(session, place, [wanted[place]])
    return wanted


def _what_is_rewritten_stands_in_its_place(store: Store) -> None:
    wanted = _filled(store)
    for changes in (
        {1: b"first"},
        {230: b""},
        {63: b"a", 64: b"b" * 5000, 65: b"c"},
        {number: b"new %d" % number for number in range(140, 161)},
        {number: bytes([number]) * 3000 for number in (2, 99, 193, 229)},
    ):
        _rewrite(store, "s", changes)
        for number, record in changes.items():
            wanted[number - 1] = record
        same(all_of(store, "s"), wanted, f"records after {min(changes)} to {max(changes)} were rewritten")
        same(all_of(store, "s", max(changes)), wanted[max(changes) - 1 :], "and from there on")
    same(store.head("s"), 230, "head")


def _what_cannot_be_rewritten_changes_nothing(store: Store) -> None:
    refused(Missing, "rewriting no session", lambda: _rewrite(store, "s", {1: b"x"}))
    wanted = _filled(store)
    before = store.sessions()
    for number in (0, -1, 231, 10**9):
        refused(BadInput, f"rewriting {number} of 230", partial(_rewrite, store, "s", {5: b"x", number: b"y"}))
    _rewrite(store, "s", {})
    same(all_of(store, "s"), wanted, "records")
    same(store.sessions(), before, "the list")


def _a_rewritten_session_goes_on(store: Store) -> None:
    wanted = _filled(store)
    store.fork("s", 200, "before")
    store.append("other", 0, [b"theirs"])
    changes = dict.fromkeys(range(3, 229, 5), b"")
    _rewrite(store, "s", changes)
    same(all_of(store, "before"), wanted[:200], "a fork of before")
    same(all_of(store, "other"), [b"theirs"], "another session")
    wanted = [changes.get(number, record) for number, record in enumerate(wanted, 1)]
    for number in range(231, 301):
        same(store.append("s", number - 1, [b"on %d" % number]), number, "the next head")
        wanted.append(b"on %d" % number)
    store.fork("s", 250, "after")
    same(all_of(store, "s"), wanted, "records")
    same(all_of(store, "after"), wanted[:250], "a fork of after")
    _rewrite(store, "after", {1: b"its own"})
    same(all_of(store, "s"), wanted, "records when the fork was rewritten")


def _the_list_tells_what_a_rewritten_session_takes(store: Store) -> None:
    large = [b"%d," % number * 700 + bytes([number]) for number in range(100)]
    store.append("s", 0, large)
    store.append("t", 0, [b"x"] * 100)
    before = info_of(store, "s")
    _rewrite(store, "s", dict.fromkeys(range(1, 101), b"x"))
    after = info_of(store, "s")
    same(after.size, info_of(store, "t").size, "the size, beside that of a session with the same records")
    same((after.head, after.created, after.used), (before.head, before.created, before.used), "head and times")
    same([info.name for info in store.sessions()], ["t", "s"], "the order: forgetting is not using")


def _rewriting_and_appending_go_together(store: Store) -> None:
    store.append("s", 0, numbered(1, 100))

    def write() -> None:
        for number in range(80):
            push(store, b"more %d" % number)

    def rewrite() -> None:
        for number in range(1, 101, 4):
            _rewrite(store, "s", {number: b"", store.head("s"): b"more, rewritten"})

    at_once([write, rewrite])
    found = all_of(store, "s")
    wanted = [b"" if number % 4 == 1 else record for number, record in enumerate(numbered(1, 100), 1)]
    same(len(found), 180, "records in all")
    same([found[0], *found[1:99]], wanted[:99], "records of before")
    kept = {b"more %d" % number: number for number in range(80)}
    wrong = [record for place, record in enumerate(found[100:]) if kept.get(record, place) != place]
    same(set(wrong) <= {b"more, rewritten"}, True, "what was appended meanwhile is there, or what was put there")


def _what_was_rewritten_is_seen_by_another(store: Store, another: Callable[[], Store]) -> None:
    wanted = _filled(store)
    other = another()
    same(other.append("s", 230, [b"231"]), 231, "the other's append")
    for number, handle in ((10, store), (200, other), (231, store)):
        _rewrite(handle, "s", {number: b"gone"})
    wanted = [b"gone" if number in (10, 200, 231) else record for number, record in enumerate([*wanted, b""], 1)]
    same((all_of(store, "s"), all_of(other, "s")), (wanted, wanted), "records")
    same(store.append("s", 231, [b"on"]), 232, "the next append")
    store.close()
    same(all_of(another(), "s"), [*wanted, b"on"], "records, opened again")


REWRITES: tuple[Callable[[Store], None], ...] = (
    _what_is_rewritten_stands_in_its_place,
    _what_cannot_be_rewritten_changes_nothing,
    _a_rewritten_session_goes_on,
    _the_list_tells_what_a_rewritten_session_takes,
    _rewriting_and_appending_go_together,
)
REWRITES_TWO: tuple[Callable[[Store, Callable[[], Store]], None], ...] = (_what_was_rewritten_is_seen_by_another,)
