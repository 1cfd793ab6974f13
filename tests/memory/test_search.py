"""Search finds what is there and takes any query."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.memory.tape import DOCS, Tape, places
from tests.scale import scaled
from tidegate.memory.notes import Notes
from tidegate.memory.search import Search
from tidegate.memory.words import cut_snippet


@pytest.fixture(scope="module")
def search() -> Iterator[Search]:
    with closing(Search(logs=Tape())) as search:
        yield search


FOUND_FIRST = [
    ("8443", 1),
    ("nginx gateway", 1),
    ("parseHTTPResponse", 2),
    ("parse_http_response", 2),
    ("parsehttpresponse", 2),
    ("HTTP response", 2),
    ("core.plan.run", 2),
    ("plan.run", 2),
    ("max_context_tokens", 2),
    ("maxContextTokens", 2),
    ("context_tokens", 2),
    ("contex", 2),
    ("ontext_tok", 2),
    ("数据库", 3),
    ("数据", 3),
    ("连接", 3),
    ("话", 3),
    ("SQLite数据库", 3),
    ("sqlite", 3),
    ("接続", 4),
    ("データベース", 4),
    ("データ 失敗", 4),
    ("데이터베이스", 5),
    ("시작", 5),
    ("last_resort.py", 6),
    ("stages/last_resort", 6),
    ("core/stages", 6),
    ("->", 6),
    ("CAFE", 7),
    ("zurich", 7),
    ("strasse", 7),
    ("ข้อมูล", 8),
    ("9f17054", 10),
    ("c0ff", 10),
    ("read_file", 10),
    ("readfile", 10),
    ("FooBar", 10),
    ("quxQuux", 10),
    ("qux_quux", 10),
    ("where is the port of the gateway", 1),
    ("is_the_whole_of_it", 12),
    ("not to be", 12),
]


def test_found_first(search: Search) -> None:
    wrong = [(query, found) for query, first in FOUND_FIRST if (found := places(search, query))[:1] != [first]]
    assert wrong == []


def test_rank_and_order(search: Search) -> None:
    assert places(search, "port") == [9, 1, 11], "more of the word, and less of others, comes before"
    assert places(search, "port nginx")[:2] == [1, 9], "all words before any"
    steps = [hit.step for hit in search.search("port nginx")]
    assert steps == sorted(steps)
    assert places(search, "port nginx", limit=1) == [1]
    assert places(search, "nothingofthatkind") == places(search, "") == places(search, " \n") == []


@pytest.mark.parametrize(
    "query", ["port NOT 8443", 'parts:port"', "port*", "^port", "NEAR(port 8443)", "(port", "{a}:port"]
)
def test_signs_mean_nothing(search: Search, query: str) -> None:
    assert {1, 9} <= set(places(search, query))
    assert search.rebuild_count == 0


SYNTAX = st.lists(
    st.sampled_from(
        ["AND", "OR", "NOT", "NEAR(", '"', "'", "*", "(", ")", ":", "^", "parts", "-", "port", "数", "\0", "%"]
    )
).map(" ".join)


@settings(max_examples=scaled(60))
@given(
    query=st.text() | SYNTAX | st.text(st.characters(categories=["Cs", "Lo", "Mn", "Cc"])), limit=st.integers(-5, 500)
)
def test_any_query_is_taken(search: Search, query: str, limit: int) -> None:
    hits = search.search(query, limit)
    assert len(hits) <= max(1, limit)
    assert all(hit.place in DOCS and len(hit.snippet) <= 240 for hit in hits)
    assert search.rebuild_count == 0, "no query makes the index look damaged"


HOSTILE = [
    "数据" * 300,
    "aB" * 300,
    "aB " * 200,
    "( " * 200,
    '"' * 400,
    "\u0e31" * 300,
    "a_" * 200,
    "a.b/" * 90,
    "- " * 200,
]


@pytest.mark.timeout(300)
def test_queries_and_texts_made_to_be_slow() -> None:
    """Any of these would take hours if every place were tried against every other."""
    texts = [*(query * 20 for query in HOSTILE), "\u0e31" * 20_000, "a-" * 20_000, "a" * 50_000, "-" * 50_000]
    search = Search(logs=Tape(dict(enumerate(texts, 1))))
    for place, query in enumerate(HOSTILE, 1):
        assert place in places(search, query, limit=100), query
    assert search.rebuild_count == 0
    search.close()


@settings(max_examples=scaled(40))
@given(st.data())
def test_any_piece_of_any_text_is_found(data: st.DataObject) -> None:
    texts = data.draw(st.lists(st.text(max_size=60), min_size=1, max_size=4))
    search = Search(logs=Tape(dict(enumerate(texts, 1))))
    pieces = [(seq, piece) for seq, text in enumerate(texts, 1) for piece in text.split() if len(piece) <= 40]
    for seq, piece in pieces:
        assert seq in places(search, piece, limit=100)
    assert search.rebuild_count == 0
    search.close()


@settings(max_examples=scaled(60))
@given(text=st.text(), at=st.integers(0, 300), chars=st.integers(-5, 300))
def test_snippets_are_bounded(text: str, at: int, chars: int) -> None:
    shown = cut_snippet(text, min(at, len(text)), chars)
    assert len(shown) <= max(chars, 16)
    assert "\n" not in shown


def test_a_snippet_shows_the_place(tmp_path: Path) -> None:
    filler = "some words that are nothing to the point " * 60
    notes = Notes(tmp_path)
    notes.write("long.md", f"# Title\n{filler}\n\n## Part\n\n{filler}\nthe NeedleInHay is here\n{filler}")
    hit = Search(notes).search("needle_in_hay")[0]
    assert (hit.kind, hit.name, hit.place) == ("note", "long.md", 7)
    assert "NeedleInHay is here" in hit.snippet
    assert len(hit.snippet) <= 240


def test_a_long_message_is_found_to_its_end_and_once() -> None:
    search = Search(logs=Tape({1: "alpha " * 3000 + "omega", 2: "beta"}))
    assert places(search, "omega") == [1]
    assert places(search, "alpha") == [1]
