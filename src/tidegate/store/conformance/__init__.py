"""What every store must do, as checks that anyone can run over a backend of their own.

    import pytest
    from tidegate.store.conformance import suite

    @pytest.mark.parametrize("check", suite(make_store, again), ids=lambda check: check.name)
    def test_my_store(check):
        check.run()

`make_store()` returns a new, empty store each time. `again(store)` opens the same data a second time, as another
process would; leave it out only for a backend whose data lives in one object. A check that fails raises AssertionError
and says what it found. Nothing here needs pytest.

A store that can also rewrite records (`RewritableStore`: `forget` and `doctor` need it) is checked for that, too.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from tidegate.store.conformance.checks import SHARED_DATA_CHECKS, STORE_CHECKS
from tidegate.store.conformance.rewrite_checks import REWRITE_CHECKS, SHARED_REWRITE_CHECKS
from tidegate.store.store import RewritableStore, Store

MakeStore = Callable[[], Store]
Reopen = Callable[[Store], Store]


class StoreCheck(NamedTuple):
    name: str
    run: Callable[[], None]


def suite(make_store: MakeStore, again: Reopen | None = None) -> list[StoreCheck]:
    """All checks; those about a second handle on the same data only where `again` is given."""
    rewrites = _can_rewrite(make_store)
    checks = [
        StoreCheck(_title(check), partial(_over_one, check, make_store))
        for check in STORE_CHECKS + REWRITE_CHECKS * rewrites
    ]
    if again is not None:
        more = SHARED_DATA_CHECKS + SHARED_REWRITE_CHECKS * rewrites
        checks += [StoreCheck(_title(check), partial(_over_two, check, make_store, again)) for check in more]
    return checks


def _can_rewrite(make_store: MakeStore) -> bool:
    store = make_store()
    store.close()
    return isinstance(store, RewritableStore)


def _title(check: Callable[..., None]) -> str:
    return check.__name__.strip("_").replace("_", " ")


def _over_one(check: Callable[[Store], None], make_store: MakeStore) -> None:
    store = make_store()
    try:
        _run(partial(check, store))
    finally:
        store.close()


def _over_two(check: Callable[[Store, Callable[[], Store]], None], make_store: MakeStore, again: Reopen) -> None:
    stores = [make_store()]

    def another() -> Store:
        stores.append(again(stores[0]))
        return stores[-1]

    try:
        _run(partial(check, stores[0], another))
    finally:
        for store in stores:
            store.close()


def _run(check: Callable[[], None]) -> None:
    try:
        check()
    except AssertionError:
        raise
    except Exception as failure:
        raise AssertionError(f"an error where none should be: {type(failure).__name__}: {failure}") from failure
