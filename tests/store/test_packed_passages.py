"""The search index in PostgreSQL packs the passages of a source: it finds what it found before, in fewer rows."""

import random
from pathlib import Path

import pytest

from tests.store.conftest import run_sql
from tidegate.datafolder.shared_index import PostgresIndex
from tidegate.memory.index import SearchIndex
from tidegate.memory.text_pieces import TextPiece
from tidegate.memory.words import parse_query
from tidegate.store.postgres import PostgresStore

COUNT = 200
WORDS = "the parser fails with error seventeen in build module reader maxContextTokens open_file 数据库 連接".split()
QUERIES = (
    "parser",
    "error build",
    "maxContextTokens",
    "max context",
    "open_file reader",
    "数据",
    "number77",
    "absent",
    "pars err",
)


def make_pieces() -> list[TextPiece]:
    chance = random.Random(5)
    return [TextPiece(seq, f"number{seq} {' '.join(chance.sample(WORDS, 6))}") for seq in range(1, COUNT + 1)]


def find_places(
    index: PostgresIndex | SearchIndex, query: str, *, prefix: bool, every: bool, name: str = ""
) -> set[int]:
    units = parse_query(query, 16)
    return {each.passage.place for each in index.find_passages(units, 2 * COUNT, name=name, prefix=prefix, every=every)}


@pytest.mark.parametrize("step", [1, 70, COUNT])
def test_packed_passages_are_found_as_the_index_file_finds_them(step: int, store_url: str, tmp_path: Path) -> None:
    """Whether they come one by one, as a session grows, or all at once."""
    store = PostgresStore(store_url)
    packed, single = PostgresIndex(store.connection), SearchIndex(tmp_path / "search.db", 10)
    pieces = make_pieces()
    for start in range(0, COUNT, step):
        packed.extend_session("s", pieces[start : start + step])
    packed.extend_session("other", [TextPiece(1, "parser of another session")])
    single.extend_session("s", pieces)
    single.extend_session("other", [TextPiece(1, "parser of another session")])
    for query in QUERIES:
        for name in ("", "s", "other"):
            for prefix, every in ((False, True), (True, True), (True, False)):
                options = {"prefix": prefix, "every": every}
                found = find_places(packed, query, name=name, **options)
                assert found == find_places(single, query, name=name, **options), (query, name, options)
    assert [each.place for each in packed.scan_passages(["number7"], 10**6, name="s")] == [
        each.place for each in single.scan_passages(["number7"], 10**6, name="s")
    ]
    rows = run_sql(store_url, "select count(*) from tidegate_passages")
    assert int(str(rows[0][0])) < COUNT / 2
    store.close()


def test_what_old_rows_hold_is_packed_with_the_next_passages(store_url: str) -> None:
    store = PostgresStore(store_url)
    index = PostgresIndex(store.connection)
    for seq in range(1, 64):
        index.extend_session("s", [TextPiece(seq, f"number{seq}")])
    assert run_sql(store_url, "select count(*) from tidegate_passages where places is null") == [(63,)]
    index.extend_session("s", [TextPiece(64, "number64")])
    assert run_sql(store_url, "select cardinality(places) from tidegate_passages") == [(64,)]
    index.extend_session("s", [TextPiece(65, "number65")])
    assert [find_places(index, f"number{seq}", prefix=False, every=True) for seq in (1, 64, 65)] == [{1}, {64}, {65}]
    index.remove_source("session", "s")
    assert run_sql(store_url, "select count(*) from tidegate_passages") == [(0,)]
    store.close()
