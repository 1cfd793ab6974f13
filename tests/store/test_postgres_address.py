"""The address of a PostgreSQL store: what is no address is refused, and the password in it is never shown."""

from collections.abc import Callable

import psycopg
import pytest

from tests.store.conftest import Server
from tidegate.core.errors import BadInput, TidegateError
from tidegate.store.errors import StoreUnreachable
from tidegate.store.open import open_store
from tidegate.store.postgres import PostgresStore

SECRET = "hunter2secret"
BAD_ADDRESSES = [
    f"mysql://u:{SECRET}@h/d",
    f"postgresql://u:{SECRET}%zz@h/d",
    f"postgresql://u:x@{SECRET}@h/d",
    f"postgresql://u:x/{SECRET}@h/d",
    f"postgresql://u:x@h/d?{SECRET}",
    f"postgresql://u:x@h/d?nonsense={SECRET}",
    f"postgresql://u:x@h:{SECRET}/d",
    f"postgresql://u:{SECRET}",
]


@pytest.mark.parametrize("url", BAD_ADDRESSES)
@pytest.mark.parametrize("way", [PostgresStore, open_store])
def test_a_bad_address_is_not_repeated(url: str, way: Callable[[str], object]) -> None:
    with pytest.raises(TidegateError) as caught:
        way(url)
    assert_hidden(caught.value)


def test_only_an_address_will_do() -> None:
    with pytest.raises(BadInput, match="not an address of PostgreSQL") as caught:
        PostgresStore(f"host=localhost password={SECRET}")
    assert_hidden(caught.value)


def assert_hidden(error: BaseException | None) -> None:
    while error is not None:
        assert SECRET not in f"{error} {error!r} {error.args}"
        error = None if error.__suppress_context__ and not error.__cause__ else error.__cause__ or error.__context__


def test_the_password_is_not_shown(postgres: Server, postgres_url: str) -> None:
    url = postgres_url.replace("postgres:@", f"postgres:{SECRET}@")
    store = PostgresStore(url)
    assert SECRET not in f"{store} {store!r}"
    assert str(psycopg.conninfo.conninfo_to_dict(url)["dbname"]) in repr(store)
    store.close()
    with pytest.raises(BadInput, match="This store is closed") as closed:
        store.head("s")
    assert_hidden(closed.value)
    for wrong in (
        postgres.database("absent").replace("postgres:@", f"postgres:{SECRET}@"),
        url.replace("postgres:", "nobody_such:"),
        f"postgresql://u:{SECRET}@127.0.0.1:1/d",
    ):
        with pytest.raises(StoreUnreachable, match="Check that the server runs") as caught:
            PostgresStore(wrong)
        assert_hidden(caught.value)
