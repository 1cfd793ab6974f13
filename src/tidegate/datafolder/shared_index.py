"""The full-text index in PostgreSQL, for all hosts of a shared store. It can be rebuilt from notes and logs.

Texts are split by `memory/words.py`, as in the index file, so the same queries find the same passages. The words of a
passage are a tsvector: the parts in text order, then the whole identifiers, after a gap that no phrase spans. The
server gives candidates, by `ts_rank` with each word weighted by how rare it is; `memory/passage_ranking.py` ranks them.

As soon as a source has enough passages, their rows are replaced by one packed row, which takes a third of the space
(`pack_passages` in `store/postgres/migrations.py`). In it the positions of a word are the numbers of its passages, so
phrases are checked here.

Under row-level security, PostgreSQL does not use an index for `@@`. So the words are looked up by functions of the
owner, which return only rows of the caller's tenant (`search_with_index` in `store/postgres/migrations.py`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, cast

from tidegate.memory.index import IndexedNote, RankedPassage, contains_all
from tidegate.memory.passage_ranking import compute_rarity, rank_passages
from tidegate.memory.passages import Passage, SourceKind
from tidegate.memory.text_pieces import TextPiece, split_text
from tidegate.memory.words import QueryUnit, extract_words, list_query_terms
from tidegate.store.store import SharedStore, Store

if TYPE_CHECKING:  # psycopg is loaded by those who use it
    from tidegate.store.postgres.connection import Link

_GAP = 2
_MAX_POSITION = 16_383
_SCANNED_ROWS = 50
_PACKED_PASSAGES = 64
_PACKED_BYTES = 32_000
"""A packed row is full with so many passages or bytes of text."""
_MIN_PACKED = 16
"""Fewer passages that come at once are not packed."""
_COMMON = 5_000
"""A word that so many passages have is common: passages that have only common words are looked for among the newest."""
_RECENT_PASSAGES = 2_000
_REACHES = (20_000, 200_000)
"""How many of the newest passages, of all tenants, are read for common words, before the index is asked for any."""
_MAX_FOUND = 20_000
_CANDIDATES = 200
"""Passages that are ranked at least."""
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
_TAIL_SIZE = """
select count(*), coalesce(sum(octet_length(body)), 0)::bigint from tidegate_passages
where source = %s and places is null
"""
_MAX_TAIL = 2_048
"""So many rows of an earlier version are packed at once; the rest follows with the next passages."""
_TAKE_TAIL = f"""
with taken as (
    delete from tidegate_passages where id in (
        select id from tidegate_passages where source = %s and places is null order by id limit {_MAX_TAIL})
    returning id, place, body)
select place, body from taken order by id
"""
_ADD_PACKED = """
insert into tidegate_passages (source, place, body, words, places, bodies)
values (%(source)s, %(place)s, '', %(words)s::text::tsvector, %(places)s, %(bodies)b::bytea[])
"""
_PASSAGES = f"""
from tidegate_passages p join tidegate_sources s on s.id = p.source
where s.{_MINE} and (%(kind)s = '' or s.kind = %(kind)s) and (%(name)b = ''::bytea or s.name = %(name)b)
"""
_HEADS = f"select name, head from tidegate_sources where {_MINE} and kind = 'session'"
_COUNT = "select tidegate_count_passages(%s::text[]::tsquery[], %s)"
_ESTIMATE = "select greatest(reltuples * 16, 1)::bigint from pg_class where oid = 'tidegate_passages'::regclass"
_CALL = "%(match)s::tsquery, %(queries)s::text[]::tsquery[], %(weights)s::float8[], %(kind)s"
# The join makes row-level security check what the functions return once more.
_PASSAGE_QUERY = f"""
select s.kind, s.name, found.place, found.body, found.score
from {{function}} found join tidegate_sources s on s.id = found.source where s.{_MINE}
order by found.score desc, found.id desc
"""
_FIND = _PASSAGE_QUERY.format(function=f"tidegate_find_passages({_CALL}, {_MAX_FOUND}, %(most)s)")
_FIND_RECENT = _PASSAGE_QUERY.format(
    function=f"tidegate_find_recent_passages({_CALL}, %(reach)s, {_RECENT_PASSAGES}, %(most)s)"
)
_TERMS = "%(queries)s::text[]::tsquery[], %(weights)s::float8[]"
_FIND_IN_SOURCE = f"""
select s.kind, s.name, found.place, found.body, found.score
from tidegate_sources s join tidegate_passages p on p.source = s.id
cross join lateral (
    select p.place, p.body, (select sum(ts_rank(p.words, query, 1) * weight) from unnest({_TERMS}) as q (query, weight))
    where p.places is null and p.words @@ %(match)s::tsquery
    union all
    select * from tidegate_match_passages(p.words, p.places, p.bodies, %(match)s::tsquery, {_TERMS})
    where p.places is not null
) found (place, body, score)
where s.{_MINE} and (%(kind)s::text = '' or s.kind = %(kind)s) and s.name = %(name)b
order by found.score desc, p.id desc, found.place desc limit %(most)s
"""


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
            return {name.decode(): IndexedNote(digest, stamp) for name, digest, stamp in rows.fetchall()}

    def set_file_stamp(self, name: str, stamp: str) -> None:
        with self._connect(_UNKNOWN_CHANGE) as link:
            link.execute(
                f"update tidegate_sources set seen = %s where {_MINE} and kind = 'note' and name = %b",
                (stamp, name.encode()),
            )

    def indexed_heads(self) -> dict[str, int]:
        with self._connect("Search again.") as link:
            rows = link.execute(_HEADS, binary=True).fetchall()
        return {name.decode(): head for name, head in rows}

    def indexed_head(self, name: str) -> int:
        with self._connect("Search again.") as link:
            row = link.execute(_SOURCE, {"kind": "session", "name": name.encode()}).fetchone()
        return row[1] if row else 0

    def replace_note(self, name: str, note: IndexedNote, pieces: Iterable[TextPiece]) -> None:
        with self._connect(_UNKNOWN_CHANGE) as link, link.transaction():
            source, _ = _lock_source(link, "note", name, note)
            link.execute("delete from tidegate_passages where source = %s", (source,))
            link.execute("update tidegate_sources set hash = %b, seen = %s where id = %s", (*note, source))
            _add_passages(link, source, pieces)

    def extend_session(self, name: str, pieces: Iterable[TextPiece]) -> int:
        with self._connect(_UNKNOWN_CHANGE) as link, link.transaction():
            source, head = _lock_source(link, "session", name, IndexedNote(b"", ""))
            new = [piece for piece in pieces if piece.place > head]
            pieces_with_text = [piece for piece in new if piece.text]
            _add_passages(link, source, pieces_with_text)
            last = max((piece.place for piece in new), default=head)
            link.execute("update tidegate_sources set head = %s where id = %s", (last, source))
        return len(pieces_with_text)

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
        """The work of a search is bounded: where all words are common, the newest passages are ranked."""
        words, terms = _write_words_of(units, prefix=prefix), list_query_terms(units, prefix=prefix, every=True)
        queries = list(words.values())
        with self._connect("Search again.") as link:
            counts = [int(count) for (count,) in link.execute(_COUNT, (queries, _COMMON))]
            row = link.execute(_ESTIMATE).fetchone()
            total = max(*counts, row[0] if row else 1)
            weights = [compute_rarity(count, total) for count in counts]
            if every:
                match, is_common = " & ".join(map(_write_term, terms)), min(counts) >= _COMMON
            else:
                some = _choose_rare(queries, counts)
                match, is_common = " | ".join(some), min(counts) >= _COMMON
            values: dict[str, Any] = {"kind": kind, "name": name.encode(), "match": match, "queries": queries}
            values |= {"weights": weights, "most": max(most, _CANDIDATES)}
            rows = _find_rows(link, values, is_common=is_common)
            if not every and len(rows) < most and len(queries) > 1 and not name:
                others = {**values, "match": " | ".join(queries)}
                rows += [row for row in _find_rows(link, others, is_common=True) if row not in rows]
        passages = [RankedPassage(_make_passage(*row[:4]), row[4]) for row in rows]
        if every:
            passages = [each for each in passages if _has_phrases(each.passage.text, terms)]
        return iter(rank_passages(passages, dict(zip(words, weights, strict=True)), prefix=prefix)[:most])

    def scan_passages(self, needles: Sequence[str], chars: int, kind: str = "", name: str = "") -> Iterator[Passage]:
        before = (1 << 63) - 1
        while chars > 0:
            values = {"kind": kind, "name": name.encode(), "before": before, "most": _SCANNED_ROWS}
            with self._connect("Search again.") as link:
                rows = link.execute(
                    "select s.kind, s.name, coalesce(p.places, array[p.place]), coalesce(p.bodies, array[p.body]), p.id"
                    f" {_PASSAGES} and p.id < %(before)s order by p.id desc limit %(most)s",
                    values,
                    binary=True,
                ).fetchall()
            for its_kind, its_name, places, bodies, _ in rows:
                for place, body in zip(reversed(places), reversed(bodies), strict=True):
                    passage = _make_passage(its_kind, its_name, place, body)
                    if contains_all(passage.text, needles):
                        yield passage
                    chars -= len(passage.text)
            if len(rows) < _SCANNED_ROWS:
                return
            before = rows[-1][4]


def _lock_source(link: "Link", kind: SourceKind, name: str, note: IndexedNote) -> tuple[int, int]:
    values = {"kind": kind, "name": name.encode(), "hash": note.digest, "seen": note.file_stamp}
    link.execute(_ADD_SOURCE, values)
    row = link.execute(f"{_SOURCE} for update", values).fetchone()
    assert row is not None
    return row[0], row[1]


def _add_passages(link: "Link", source: int, pieces: Iterable[TextPiece]) -> None:
    """Add passages, packed with those that were not yet packed if they are enough together."""
    parts = [part for piece in pieces for part in split_text(piece)]
    if not parts:
        return
    count, size = link.execute(_TAIL_SIZE, (source,)).fetchone() or (0, 0)
    size += sum(len(part.text) for part in parts)
    if len(parts) >= _MIN_PACKED or count + len(parts) >= _PACKED_PASSAGES or size >= _PACKED_BYTES:
        tail = link.execute(_TAKE_TAIL, (source,), binary=True).fetchall() if count else []
        for pack in _split_packs([*(TextPiece(place, body.decode()) for place, body in tail), *parts]):
            _add_packed(link, source, pack)
        return
    values = {
        "source": source,
        "places": [part.place for part in parts],
        "bodies": [part.text.encode() for part in parts],
        "words": [_write_words(part.text) for part in parts],
    }
    link.execute(_ADD_PASSAGES, values)


def _split_packs(parts: Iterable[TextPiece]) -> Iterator[list[TextPiece]]:
    pack: list[TextPiece] = []
    size = 0
    for part in parts:
        if pack and (len(pack) == _PACKED_PASSAGES or size + len(part.text) > _PACKED_BYTES):
            yield pack
            pack, size = [], 0
        pack.append(part)
        size += len(part.text)
    yield pack


def _add_packed(link: "Link", source: int, pack: Sequence[TextPiece]) -> None:
    numbers: dict[str, list[str]] = {}
    for nth, part in enumerate(pack, 1):
        words = extract_words(part.text)
        for word in {*words.parts, *words.wholes}:
            numbers.setdefault(word, []).append(str(nth))
    values = {
        "source": source,
        "place": pack[0].place,
        "words": " ".join(f"'{word}':{','.join(some)}" for word, some in numbers.items()),
        "places": [part.place for part in pack],
        "bodies": [part.text.encode() for part in pack],
    }
    link.execute(_ADD_PACKED, values)


def _write_words(text: str) -> str:
    """The words of a passage as a tsvector. They are letters and digits only, so nothing needs to be escaped."""
    words = extract_words(text)
    wholes = list(dict.fromkeys(words.wholes))
    start = len(words.parts) + _GAP
    places = [*enumerate(words.parts, 1), *((start + _GAP * nth, whole) for nth, whole in enumerate(wholes))]
    return " ".join(f"'{word}':{place}" if place <= _MAX_POSITION else f"'{word}'" for place, word in places)


def _write_term(alternatives: Sequence[Sequence[tuple[Sequence[str], bool]]]) -> str:
    """Alternatives of phrases that must all be there, as a tsquery."""
    return (
        "("
        + " | ".join("(" + " & ".join(_write_phrase(*phrase) for phrase in some) + ")" for some in alternatives)
        + ")"
    )


def _write_words_of(units: Sequence[QueryUnit], *, prefix: bool) -> dict[str, str]:
    """The single words of a query, each with its tsquery."""
    words = dict.fromkeys(word for unit in units for phrase in unit.phrases for word in phrase)
    unit_of = {word: QueryUnit(word, ((word,),), "") for word in words}
    return {
        word: _write_term(list_query_terms([unit], prefix=prefix, every=False)[0]) for word, unit in unit_of.items()
    }


def _write_phrase(words: Sequence[str], is_prefix: bool) -> str:
    quotes = [f"'{word}'" for word in words]
    return "(" + " <-> ".join([*quotes[:-1], quotes[-1] + (":*" if is_prefix else "")]) + ")"


def _choose_rare(words: Sequence[str], counts: Sequence[int]) -> list[str]:
    """The rarest words of a query, as many as may be read, and at least one. The others only count for the rank."""
    choice: list[str] = []
    left = _COMMON
    for count, word in sorted(zip(counts, words, strict=True)):
        if choice and count > left:
            break
        choice.append(word)
        left -= count
    return choice


def _has_phrases(text: str, terms: Sequence[Sequence[Sequence[tuple[Sequence[str], bool]]]]) -> bool:
    """Whether every term of a query is there, with the words of its phrases one after the other."""
    words = extract_words(text)
    line = f" {' '.join(words.parts)}  {'  '.join(words.wholes)} "

    def has_phrase(some: Sequence[str], is_prefix: bool) -> bool:
        return f" {' '.join(some)}{'' if is_prefix else ' '}" in line

    return all(any(all(has_phrase(*phrase) for phrase in some) for some in alternatives) for alternatives in terms)


def _find_rows(link: "Link", values: dict[str, Any], *, is_common: bool) -> list[tuple[Any, ...]]:
    if values["name"]:
        return link.execute(_FIND_IN_SOURCE, values).fetchall()
    if is_common:
        for reach in _REACHES:
            rows = link.execute(_FIND_RECENT, {**values, "reach": reach}).fetchall()
            if len(rows) >= values["most"]:
                return rows
    return link.execute(_FIND, values).fetchall()


def _make_passage(kind: str, name: bytes, place: int, body: bytes) -> Passage:
    return Passage(cast(SourceKind, kind), name.decode(), place, body.decode())
