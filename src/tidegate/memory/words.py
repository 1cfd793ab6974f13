"""How texts and queries are split into words. Both use the same rules, so indexed text can be found.

- An identifier is split into parts: `maxContextTokens`, `max_context_tokens` and `max.context.tokens` are "max context
  tokens". Without dots and slashes it is also kept as one word.
- Scripts without spaces are split into overlapping pairs. Most Chinese words have two characters, so triples would miss
  them.
- Case, width and accents are ignored.
- The most common English words count only inside identifiers. They distinguish no text, take a tenth of an index, and a
  question in whole sentences would have to match them all. A query of nothing else is searched in the texts.

The result contains only letters, digits and combining marks, so nothing in it has a meaning in a query language.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from tidegate.core.text.lazy_pattern import LazyPattern

_UNSPACED = (
    "\u0e01-\u0e3a\u0e40-\u0eff\u1000-\u109f\u1780-\u17d3"  # Thai, Lao, Burmese, Khmer
    "\u3005-\u3007\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"  # kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
    "\u1100-\u11ff\uac00-\ud7af"  # Hangul: written with spaces, but with endings attached to words
)
_WORD_RUN = LazyPattern(rf"[{_UNSPACED}]+|(?:(?![{_UNSPACED}])\w)+")
_UNSPACED_START = LazyPattern(rf"[{_UNSPACED}]")
# parseHTTPResponse2 is parse HTTP Response2. Digits stay with their letters, or a hash would be twenty words.
_PART = LazyPattern(r"[A-Z][A-Z0-9]*(?![a-z])|[A-Z]?[a-z0-9]+|[^\W_a-zA-Z0-9]+")
_ACCENTS = LazyPattern("[\u0300-\u036f]+")
_NOT_ASCII = LazyPattern(r"[^\x00-\x7f]+")
COMMON_WORDS = frozenset(
    "a an and are as at be but by can for from had has have i if in is it its of on or so that the their then there"
    " these they this to was we were what when where which will with you your".split()
)
_MAX_WORD_CHARS = 64
"""Characters of a word. A longer one (base64) is found by its beginning."""
_MAX_IDENTIFIER_CHARS = 160
"""A longer chain of words is data, not an identifier."""


class IndexWords(NamedTuple):
    """`parts` in text order; `wholes` are identifiers of several parts, each as one word."""

    parts: list[str]
    wholes: list[str]


class QueryUnit(NamedTuple):
    """A piece of a query between blanks: the piece, the phrases to search for, and the piece as one word if that
    differs.
    """

    raw: str
    phrases: tuple[tuple[str, ...], ...]
    whole: str


def extract_words(text: str) -> IndexWords:
    parts: list[str] = []
    wholes: list[str] = []
    for chain in _WORD_RUN.findall(normalize_text(text)):
        if _UNSPACED_START.match(chain):
            # The last character is a word too, so that every character begins a word and a single one can be found.
            parts.extend(chain[at : at + 2] for at in range(len(chain)))
            continue
        some = split_identifier(chain) if len(chain) <= _MAX_IDENTIFIER_CHARS else (chain[:_MAX_WORD_CHARS].lower(),)
        if len(some) == 1 and some[0] in COMMON_WORDS:
            continue
        parts.extend(some)
        if len(some) > 1:
            wholes.append("".join(some)[:_MAX_WORD_CHARS])
    return IndexWords(parts, wholes)


@lru_cache(maxsize=8192)
def split_identifier(chain: str) -> tuple[str, ...]:
    """Return the words of an identifier, in lower case."""
    # Cached, because texts repeat their words.
    return tuple(part[:_MAX_WORD_CHARS].lower() for part in _PART.findall(chain))


def find_word_runs(text: str) -> list[str]:
    """Return the runs of letters and digits of a normalized text. Runs of scripts without spaces are runs of their
    own.
    """
    return _WORD_RUN.findall(text)


def split_unspaced(run: str) -> tuple[str, ...]:
    """Return the overlapping pairs of a run in a script without spaces; none if it is another script."""
    return tuple(run[at : at + 2] for at in range(len(run))) if _UNSPACED_START.match(run) else ()


def parse_query(query: str, most: int) -> list[QueryUnit]:
    """Split a query by the same rules as texts. Operators in it have no meaning."""
    return list(dict.fromkeys(_parse_unit(piece) for piece in normalize_text(query).split()))[:most]


def _parse_unit(piece: str) -> QueryUnit:
    phrases: list[tuple[str, ...]] = []
    spaced: list[str] = []
    wholes: list[str] = []
    for chain in _WORD_RUN.findall(piece):
        if _UNSPACED_START.match(chain):
            phrases += [tuple(spaced)] if spaced else []
            spaced = []
            phrases.append(tuple(chain[at : at + 2] for at in range(max(1, len(chain) - 1))))
        else:
            words = extract_words(chain)
            spaced += words.parts
            wholes += words.wholes
    phrases += [tuple(spaced)] if spaced else []
    alone = len(phrases) == 1 and len(wholes) == 1 and "".join(phrases[0])[:_MAX_WORD_CHARS] == wholes[0]
    return QueryUnit(piece, tuple(phrases), wholes[0] if alone else "")


class QueryPhrase(NamedTuple):
    """Words that follow each other. `is_prefix`: the last one may be the beginning of a word."""

    words: tuple[str, ...]
    is_prefix: bool


def list_query_terms(
    units: Sequence[QueryUnit], *, prefix: bool = False, every: bool = True
) -> list[list[list[QueryPhrase]]]:
    """The terms of a query, each a list of alternatives, each a list of phrases that must all be there.

    With `every` a term is a unit of the query, otherwise a single word of it.
    """
    terms: list[list[list[QueryPhrase]]] = []
    for unit in units:
        if every:
            whole = [[QueryPhrase((unit.whole,), prefix)]] if unit.whole else []
            terms.append([[_make_phrase(phrase, prefix) for phrase in unit.phrases], *whole])
        else:
            terms += [[[_make_phrase((word,), prefix)]] for phrase in unit.phrases for word in phrase]
    return terms


def build_match_expression(units: Sequence[QueryUnit], *, prefix: bool = False, every: bool = True) -> str:
    """Build an FTS5 expression of quoted words, which consist of letters and digits only."""
    terms: list[str] = []
    for alternatives in list_query_terms(units, prefix=prefix, every=every):
        (first, *others) = (" AND ".join(map(_write_fts5_phrase, some)) for some in alternatives)
        if every:
            terms.append("((" + first + ") OR " + others[0] + ")" if others else f"({first})")
        else:
            terms.append(first)
    return (" AND " if every else " OR ").join(dict.fromkeys(terms))


def _write_fts5_phrase(phrase: QueryPhrase) -> str:
    return f'"{" ".join(phrase.words)}"' + (" *" if phrase.is_prefix else "")


def _make_phrase(words: tuple[str, ...], prefix: bool) -> QueryPhrase:
    alone = len(words) == 1 and len(words[0]) == 1 and not words[0].isascii()
    short = len(words[-1]) < 3 and words[-1].isascii()
    return QueryPhrase(words, alone or (prefix and not short))


def normalize_text(text: str) -> str:
    """Remove width and accents, but keep ASCII case, which shows word boundaries inside an identifier."""
    if text.isascii():
        return text
    text = _ACCENTS.sub("", unicodedata.normalize("NFKD", text))
    return _NOT_ASCII.sub(lambda run: run[0].casefold(), unicodedata.normalize("NFC", text))


# Snippets: the part of a text that is shown for a query.


def find_match_offset(text: str, units: list[QueryUnit]) -> int:
    """Return the offset of the most specific match: a whole piece of the query before its single words."""
    text = text if text.isascii() else text.translate(_normalization_table(text))
    phrases = [phrase for unit in units for phrase in unit.phrases]
    # ASCII only: there, a word contains no separator, so the pattern has only one way to match.
    together = [r"[\W_]*".join(phrase) for phrase in phrases if all(map(str.isascii, phrase))]
    words = [re.escape(word) for phrase in phrases for word in phrase]
    for pattern in ("|".join(re.escape(unit.raw) for unit in units), "|".join(together), "|".join(words)):
        if pattern and (match := re.search(pattern, text, re.IGNORECASE)):
            return match.start()
    return 0


def cut_snippet(text: str, at: int, chars: int) -> str:
    """Return at most `chars` characters around an offset, on one line."""
    chars = max(chars, 16)
    start = max(0, at - chars // 3)
    if start:
        blank = text.find(" ", start, at)
        start = blank + 1 if blank >= 0 else start
    line = " ".join(text[start : start + 4 * chars].split())
    line = ("…" if start else "") + line
    return line if len(line) <= chars and start + 4 * chars >= len(text) else line[: chars - 1] + "…"


def _normalization_table(text: str) -> dict[int, str]:
    """Map each character to its normalized form, where that keeps the positions of the others."""
    return {ord(char): new for char in set(text) if not char.isascii() and len(new := normalize_text(char)) == 1}
