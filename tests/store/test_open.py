"""One word picks the store, and no error gives a password away."""

import traceback
from pathlib import Path

import pytest

from tidegate import BadInput, TidegateError
from tidegate.store.memory import MemoryStore
from tidegate.store.open import open_store
from tidegate.store.sqlite import SqliteStore


def test_a_path_and_its_url_are_the_same_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for url in (tmp_path / "data", str(tmp_path / "data"), "data", "sqlite:///data", f"SQLite:///{tmp_path / 'data'}"):
        store = open_store(url)
        assert isinstance(store, SqliteStore)
        store.append("s", store.head("s"), [b"x"])
        store.close()
    store = open_store("./data")
    assert store.head("s") == 5
    store.close()
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_folder_may_have_an_odd_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for url in ("./host=x", Path("user=x"), "a/b=c", "sqlite:///key=value", "notes for a=b", "2026=x"):
        open_store(url).close()
    assert {path.name for path in tmp_path.iterdir()} == {
        "host=x",
        "user=x",
        "a",
        "key=value",
        "notes for a=b",
        "2026=x",
    }


@pytest.mark.parametrize("name", ["q?mode=memory&x", "a#b", "100%41", "Übung 日本", "back\\slash", "..."])
def test_signs_that_mean_something_in_an_address_are_part_of_the_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for url in (tmp_path / name, f"./{name}"):
        store = open_store(url)
        store.append("s", store.head("s"), [b"x"])
        store.close()
    store = SqliteStore(name)
    assert store.head("s") == 2
    store.close()
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("url", ["memory:", "memory://"])
def test_memory(url: str) -> None:
    assert isinstance(open_store(url), MemoryStore)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "sqlite:",
        "sqlite:///",
        "sqlite:/data",
        "sqlite://data",
        "memory:data",
        "mysql://me:s3cr%40t@host/db",
        "postgresq://me:s3cr%40t@host/db",
        "postgresql:/me:s3cr%40t@host/db",
        "postgresql:me:s3cr%40t@host/db",
        "host=localhost password=s3cr%40t",
        "password = 's3cr%40t' host=localhost",
        " dbname=d user=me password=s3cr%40t",
        "PASSWORD=s3cr%40t",
    ],
)
def test_what_is_no_store_is_refused_with_what_is(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match="sqlite:///FOLDER") as refusal:
        open_store(url)
    assert "s3cr" not in "".join(traceback.format_exception(refusal.value))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:s3cr%40t@127.0.0.1:9/db?connect_timeout=1",
        "postgres://me:s3cr%40t@127.0.0.1:notaport/db",
        "postgresql://me@127.0.0.1:9/db?password=s3cr%40t&connect_timeout=1",
        "postgresql://me@127.0.0.1:9/db?connect_timeout=1&sslpassword=s3cr%40t",
    ],
)
def test_no_error_of_postgresql_gives_the_password_away(url: str) -> None:
    with pytest.raises(TidegateError) as refusal:
        open_store(url)
    told = "".join(traceback.format_exception(refusal.value)).replace(url, "")
    assert "s3cr%40t" not in told
    assert "s3cr@t" not in told
