"""The full-text index in PostgreSQL, for all hosts of a shared store. It can be rebuilt from notes and logs.

Texts are split by `memory/words.py`, as in the index file, so the same queries find the same passages. The words of a
passage are a tsvector: the parts in text order, then the whole identifiers, after a gap that no phrase spans. Ranks are
those of PostgreSQL (`ts_rank`), each word weighted by how rare it is.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, cast

from tidegate.memory.index import IndexedNote, RankedPassage, contains_all
from tidegate.memory.passages import Passage, SourceKind
from tidegate.memory.text_pieces import TextPiece, split_text
from tidegate.memory.words import QueryUnit, extract_words, list_query_terms
from tidegate.store.store import SharedStore, Store

if TYPE_CHECKING:  # psycopg is loaded by those who use it
    from tidegate.store.postgres.connection import Link

_GAP = 2
_MAX_POSITION = 16_383
_SCANNED_PASSAGES = 200
_UNKNOWN_CHANGE = "Search again: the index is brought up to date then."
_MINE = "tenant = (select tidegate_tenant())"
_SOURCE = f"select id, head from tidegate_sources where {_MINE} and kind = %(kind)s and name = %(name)b"
_ADD_SOURCE = """
insert into tidegate_sources (tenant, kind, name, hash, seen, head)
values (tidegate_tenant(), %(kind)s, %(name)b, %(hash)b, %(seen)s, 0) on conflict (tenant, kind, name) do nothing
"""
_ADD_PASSAGES = """
insert into tidegate_passages (source, place, body, words)
select %(source)s, place, body, words::tsvector
from unnest(%(places)s::bigint[], %(bodies)b::bytea[], %(words)s::text[])
    with ordinality as given (place, body, words, nth)
order by nth
"""
_PASSAGES = f"""
from tidegate_passages p join tidegate_sources s on s.id = p.source
where s.{_MINE} and (%(kind)s = '' or s.kind = %(kind)s) and (%(name)b = ''::bytea or s.name = %(name)b)
"""
_COUNT = (
    "select least(count(*), 10000) from (select from tidegate_passages where words @@ %s::tsquery limit 10000) found"
)
_ESTIMATE = "select greatest(reltuples, 1)::bigint from pg_class where oid = 'tidegate_passages'::regclass"


def open_shared_index(store: Store) -> "PostgresIndex | None":
    """The index of a shared store; None if the store has none."""
    if not isinstance(store, SharedStore):
        return None
    from tidegate.store.postgres import PostgresStore  # noqa: PLC0415 - psycopg is loaded by those who use it

    return PostgresIndex(store.connection) if isinstance(store, PostgresStore) else None


class PostgresIndex:
    """Every change is one transaction, which locks its source: hosts that index the same log take turns."""

    def __init__(self, connect: "Callable[[str], AbstractContextManager[Link]]") -> None:
        self._connect = connect

    def close(self) -> None:
        """Nothing is open between two calls."""

    def indexed_notes(self) -> dict[str, IndexedNote]:
        with self._connect("Search again.") as link:
            rows = link.execute(f"select name, hash, seen from tidegate_sources where {_MINE} and kind = 'note'")
            return {name.decode(): IndexedNote(digest, seen) for name, digest, seen in rows.fetchall()}

    def indexed_sessions(self) -> list[str]:
        with self._connect("Search again.") as link:
            rows = link.execute(f"select name from tidegate_sources where {_MINE} and kind = 'session'").fetchall()
        return sorted(name.decode() for (name,) in rows)

    def set_file_stamp(self, name: str, seen: str) -> None:
        with self._connect(_UNKNOWN_CHANGE) as link:
            link.execute(
                f"update tidegate_sources set seen = %s where {_MINE} and kind = 'note' and name = %b",
                (seen, name.encode()),
            )

    def indexed_head(self, name: str) -> int:
        with self._connect("Search again.") as link:
            row = link.execute(_SOURCE, {"kind": "session", "name": name.encode()}).fetchone()
        return row[1] if row else 0

    def replace_note(self, name: str, known: IndexedNote, pieces: Iterable[TextPiece]) -> None:
        with self._connect(_UNKNOWN_CHANGE) as link, link.transaction():
            source, _ = _lock_source(link, "note", name, known)
            link.execute("delete from tidegate_passages where source = %s", (source,))
            link.execute("update tidegate_sources set hash = %b, seen = %s where id = %s", (*known, source))
            _add_passages(link, source, pieces)

    def extend_session(self, name: str, pieces: Iterable[TextPiece]) -> int:
        with self._connect(_UNKNOWN_CHANGE) as link, link.transaction():
            source, head = _lock_source(link, "session", name, IndexedNote(b"", ""))
            new = [piece for piece in pieces if piece.place > head]
            told = [piece for piece in new if piece.text]
            _add_passages(link, source, told)
            last = max((piece.place for piece in new), default=head)
            link.execute("update tidegate_sources set head = %s where id = %s", (last, source))
        return len(told)

    def remove_source(self, kind: SourceKind, name: str) -> None:
        with self._connect(_UNKNOWN_CHANGE) as link:
            link.execute(
                f"delete from tidegate_sources where {_MINE} and kind = %s and name = %b", (kind, name.encode())
            )

    def purge(self) -> None:
        """Nothing to do: no query reads removed rows, and the server's autovacuum frees their space."""

    # --- looking --------------------------------------------------------------------------------------------------

    def find_passages(
        self, units: Sequence[QueryUnit], most: int, kind: str = "", name: str = "", *, prefix: bool, every: bool
    ) -> Iterator[RankedPassage]:
        terms = list_query_terms(units, prefix=prefix, every=every)
        queries = [_write_term(alternatives) for alternatives in terms]
        whole = (" & " if every else " | ").join(queries)
        with self._connect("Search again.") as link:
            weights = _compute_rarities(link, queries) if len(queries) > 1 else [1.0]
            values: dict[str, Any] = {"kind": kind, "name": name.encode(), "match": whole, "most": most}
            for nth, (query, weight) in enumerate(zip(queries, weights, strict=True)):
                values |= {f"q{nth}": query, f"w{nth}": weight}
            score = " + ".join(
                f"ts_rank(p.words, %(q{nth})s::tsquery, 1) * %(w{nth})s::float8" for nth in range(len(queries))
            )
            rows = link.execute(
                f"select s.kind, s.name, p.place, p.body, {score} as score {_PASSAGES}"
                " and p.words @@ %(match)s::tsquery order by score desc, p.id desc limit %(most)s",
                values,
            ).fetchall()
        return (RankedPassage(_make_passage(*row[:4]), row[4]) for row in rows)

    def scan_passages(self, needles: Sequence[str], chars: int, kind: str = "", name: str = "") -> Iterator[Passage]:
        before = (1 << 63) - 1
        while chars > 0:
            values = {"kind": kind, "name": name.encode(), "before": before, "most": _SCANNED_PASSAGES}
            with self._connect("Search again.") as link:
                rows = link.execute(
                    f"select s.kind, s.name, p.place, p.body, p.id {_PASSAGES}"
                    " and p.id < %(before)s order by p.id desc limit %(most)s",
                    values,
                ).fetchall()
            for row in rows:
                passage = _make_passage(*row[:4])
                if contains_all(passage.text, needles):
                    yield passage
                chars -= len(passage.text)
                before = row[4]
            if len(rows) < _SCANNED_PASSAGES:
                return


def _lock_source(link: "Link", kind: SourceKind, name: str, known: IndexedNote) -> tuple[int, int]:
    values = {"kind": kind, "name": name.encode(), "hash": known.digest, "seen": known.file_stamp}
    link.execute(_ADD_SOURCE, values)
    row = link.execute(f"{_SOURCE} for update", values).fetchone()
    assert row is not None
    return row[0], row[1]


def _add_passages(link: "Link", source: int, pieces: Iterable[TextPiece]) -> None:
    parts = [part for piece in pieces for part in split_text(piece)]
    if parts:
        values = {
            "source": source,
            "places": [part.place for part in parts],
            "bodies": [part.text.encode() for part in parts],
            "words": [_write_words(part.text) for part in parts],
        }
        link.execute(_ADD_PASSAGES, values)


def _write_words(text: str) -> str:
    """The words of a passage as a tsvector. They are letters and digits only, so nothing needs to be escaped."""
    words = extract_words(text)
    wholes = list(dict.fromkeys(words.wholes))
    start = len(words.parts) + _GAP
    placed = [*enumerate(words.parts, 1), *((start + _GAP * nth, whole) for nth, whole in enumerate(wholes))]
    return " ".join(f"'{word}':{place}" if place <= _MAX_POSITION else f"'{word}'" for place, word in placed)


def _write_term(alternatives: Sequence[Sequence[tuple[Sequence[str], bool]]]) -> str:
    """Alternatives of phrases that must all be there, as a tsquery."""
    return (
        "("
        + " | ".join("(" + " & ".join(_write_phrase(*phrase) for phrase in some) + ")" for some in alternatives)
        + ")"
    )


def _write_phrase(words: Sequence[str], is_prefix: bool) -> str:
    quoted = [f"'{word}'" for word in words]
    return "(" + " <-> ".join([*quoted[:-1], quoted[-1] + (":*" if is_prefix else "")]) + ")"


def _compute_rarities(link: "Link", queries: Sequence[str]) -> list[float]:
    """The weight of each word: the rarer it is, the more a passage with it matters."""
    counts = [int((link.execute(_COUNT, (query,)).fetchone() or (0,))[0]) for query in queries]
    total = max(int((link.execute(_ESTIMATE).fetchone() or (1,))[0]), *counts, 1)
    return [math.log(1 + total / (count + 0.5)) for count in counts]


def _make_passage(kind: str, name: bytes, place: int, body: bytes) -> Passage:
    return Passage(cast(SourceKind, kind), name.decode(), place, body.decode())
