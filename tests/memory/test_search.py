"""Search finds what is there, keeps step with what changes and takes any query."""

import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.memory.tape import DOCS, Tape, places
from tidegate.memory.logs import Line
from tidegate.memory.notes import Notes
from tidegate.memory.search import Search, snippet


@pytest.fixture(scope="module")
def search() -> Iterator[Search]:
    with closing(Search(logs=Tape())) as search:
        yield search


@pytest.mark.parametrize(
    ("query", "first"),
    [
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
    ],
)
def test_found_first(search: Search, query: str, first: int) -> None:
    assert places(search, query)[:1] == [first]


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
    assert search.rebuilt == 0


SYNTAX = st.lists(
    st.sampled_from(
        ["AND", "OR", "NOT", "NEAR(", '"', "'", "*", "(", ")", ":", "^", "parts", "-", "port", "数", "\0", "%"]
    )
).map(" ".join)


@settings(max_examples=150, deadline=None)
@given(
    query=st.text() | SYNTAX | st.text(st.characters(categories=["Cs", "Lo", "Mn", "Cc"])), limit=st.integers(-5, 500)
)
def test_any_query_is_taken(search: Search, query: str, limit: int) -> None:
    hits = search.search(query, limit)
    assert len(hits) <= max(1, limit)
    assert all(hit.place in DOCS and len(hit.snippet) <= 240 for hit in hits)
    assert search.rebuilt == 0, "no query makes the index look damaged"


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


@pytest.mark.timeout(20)
@pytest.mark.parametrize("query", HOSTILE)
def test_queries_and_texts_made_to_be_slow(query: str) -> None:
    texts = [query * 20, "\u0e31" * 20_000, "a-" * 20_000, "a" * 50_000, "-" * 50_000]
    search = Search(logs=Tape(dict(enumerate(texts, 1))))
    assert 1 in places(search, query)
    assert search.rebuilt == 0
    search.close()


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_any_piece_of_any_text_is_found(data: st.DataObject) -> None:
    texts = data.draw(st.lists(st.text(max_size=60), min_size=1, max_size=4))
    search = Search(logs=Tape(dict(enumerate(texts, 1))))
    pieces = [(seq, piece) for seq, text in enumerate(texts, 1) for piece in text.split() if len(piece) <= 40]
    for seq, piece in pieces:
        assert seq in places(search, piece, limit=100)
    assert search.rebuilt == 0
    search.close()


@settings(deadline=None)
@given(text=st.text(), at=st.integers(0, 300), chars=st.integers(-5, 300))
def test_snippets_are_bounded(text: str, at: int, chars: int) -> None:
    shown = snippet(text, min(at, len(text)), chars)
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


# Keeping step.


def test_notes_are_followed(tmp_path: Path) -> None:
    notes = Notes(tmp_path / "memory")
    search = Search(notes, path=tmp_path / "search.db")
    notes.write("a.md", "apple")
    notes.write("b.md", "banana")
    assert search.refresh().changed == ("a.md", "b.md")
    assert search.refresh().changed == ()
    (tmp_path / "memory" / "a.md").write_text("cherry\n")
    assert [hit.name for hit in search.search("cherry")] == ["a.md"]
    assert search.search("apple") == []
    (tmp_path / "memory" / "b.md").unlink()
    assert search.search("banana") == []
    (tmp_path / "memory" / "a.md").write_bytes(b"x" * 3_000_000)
    done = search.refresh()
    assert done.removed == ("a.md",)
    assert "a.md has 3,000,000 bytes" in done.skipped[0]
    assert stat.S_IMODE((tmp_path / "search.db").stat().st_mode) == 0o600


def test_logs_are_read_once_over_restarts(tmp_path: Path) -> None:
    tape = Tape(dict(DOCS))
    search = Search(logs=tape, path=tmp_path / "search.db")
    assert places(search, "nginx") == [1]
    search.close()
    tape.docs[12] = "nginx once more"
    search = Search(logs=tape, path=tmp_path / "search.db")
    assert sorted(places(search, "nginx")) == [1, 12]
    assert tape.read == list(range(1, 13))


def test_what_is_known_is_not_taken_twice() -> None:
    search = Search(logs=lambda _: Tape()(lambda _: 0))
    assert search.refresh().lines == len(DOCS)
    assert search.refresh().lines == 0


def test_a_log_that_grows_line_by_line_packs_as_well(tmp_path: Path) -> None:
    lines = {seq: f"step {seq}: read src/module_{seq % 7}.py and found nothing wrong with it" for seq in range(1, 151)}
    sizes: list[int] = []
    for step in (150, 1):
        tape, path = Tape({}), tmp_path / f"{step}.db"
        search = Search(logs=tape, path=path)
        for seq, text in lines.items():
            tape.docs[seq] = text
            if seq % step == 0:
                search.refresh()
        assert [places(search, f"step {seq}")[0] for seq in (1, 64, 65, 150)] == [1, 64, 65, 150]
        search.close()
        with closing(sqlite3.connect(path)) as db:
            sizes.append(db.execute("SELECT sum(length(data)) FROM blocks").fetchone()[0])
    assert sizes[1] == sizes[0]


def test_an_error_of_the_log_is_the_log_s(tmp_path: Path) -> None:
    def logs(_: Callable[[str], int]) -> Iterator[Line]:
        yield Line("s", 1, "one")
        raise sqlite3.DatabaseError("the store is broken")

    search = Search(logs=logs, path=tmp_path / "search.db")
    with pytest.raises(sqlite3.DatabaseError, match="the store is broken"):
        search.search("one")
    assert search.rebuilt == 0


def test_kinds_and_names_narrow(tmp_path: Path) -> None:
    notes = Notes(tmp_path)
    notes.write("a.md", "port")
    search = Search(notes, Tape())
    assert {hit.kind for hit in search.search("port")} == {"note", "session"}
    assert [hit.name for hit in search.search("port", kind="note")] == ["a.md"]
    assert {hit.name for hit in search.search("port", name="s")} == {"s"}
    assert search.search("rt", kind="note")[0].name == "a.md"


def test_what_is_forgotten_is_in_no_byte(tmp_path: Path) -> None:
    secret = "hunter2swordfish"
    noise = " ".join(str(number**5) for number in range(20_000))
    tape = Tape({1: f"my password is {secret}", 2: "and more", 3: noise})
    search = Search(logs=tape, path=tmp_path / "search.db")
    assert places(search, secret) == [1]
    files = list(tmp_path.iterdir())
    assert any(secret.encode() in path.read_bytes() for path in files), "it was there to be seen"
    tape.docs = {1: "[forgotten]", 2: "and more"}
    search.forget("s")
    assert not any(secret.encode() in path.read_bytes() for path in tmp_path.iterdir())
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 150_000, "the room is given back"
    assert search.search(secret) == []
    assert places(search, "forgotten") == [1]


def test_two_share_one_file(tmp_path: Path) -> None:
    tape, path = Tape(), tmp_path / "search.db"
    searches = [Search(logs=tape, path=path) for _ in range(2)]
    found: list[list[int]] = []

    def look(search: Search) -> None:
        found.extend(places(search, word) for word in ("nginx", "8443", "gateway") * 5)

    threads = [threading.Thread(target=look, args=(search,)) for search in (*searches, *searches)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[1]] * 60
