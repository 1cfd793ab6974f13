"""Passages: places that the model names and that the program quotes word for word from the log.

A place is the newest text with the wanted part of a line. The content of a file comes before other texts that merely
mention the line, such as the output of a search. Where a later edit changed the text and the log shows the file after
it, the newer text is quoted instead. What could not be found, or had to be cut, is told to the model at the next
update.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from tidegate.core.notes import NotePassage
from tidegate.core.state_note.originals import (
    LoggedFileChange,
    Originals,
    SourceText,
    fold_space,
    is_after,
    is_same_file,
)
from tidegate.core.state_note.text_block import find_block, is_definition, is_definition_block, strip_line_numbers
from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.core.thinking_walk import seq_of_id
from tidegate.core.tokens.counting import TokenCounter

MAX_PASSAGES: Final = 40
MAX_PASSAGE_LINES: Final = 400
_MAX_LINE_CHARS: Final = 2_000
_MIN_FIND_CHARS: Final = 4
_MIN_CUT_LINES: Final = 4
_MANY_PLACES: Final = 20
_HEADING_TOKENS: Final = 40
_LINE_NUMBER: Final = LazyPattern(r"^\s*\d+\s*[→\t|:-]?\s?")
_MAX_CHANGES: Final = 6
_MAX_BLOCK_LINES: Final = 160
_MAX_DEFINITION_LINES: Final = 80  # of a definition that the program adds
_MAX_GROWTH: Final = 60  # lines: how far a passage grows to the end of a function
_MAX_GAP: Final = 3  # lines between passages that become one
_MIN_SAME_LINES: Final = 3  # by which a passage is found again in newer text
_PROSE: Final = LazyPattern(r"\.(?:md|mdx|markdown|rst|txt|adoc|json|lock)$", re.I)
_RECEIVER: Final = LazyPattern(r"\bfunc\s*\([^)]*\)")


class WantedPassage(msgspec.Struct, frozen=True):
    """A passage as the model names it: a part of a line, the lines before and after it, and why."""

    find: str
    why: str = ""
    before: int = 0
    after: int = 0
    id: str = ""


class QuotedPassages(NamedTuple):
    passages: tuple[NotePassage, ...]
    feedback: tuple[str, ...]


class _Hit(NamedTuple):
    source: SourceText
    line: int


def quote_passages(
    requests: Sequence[WantedPassage],
    originals: Originals,
    tokens: int,
    counter: TokenCounter,
    previous: Sequence[NotePassage] = (),
    *,
    names: Sequence[str] = (),
    share: int = 0,
) -> QuotedPassages:
    """Quote the passages in their order, in at most so many tokens, with what to tell the model about them.

    A passage that is named by its `find` alone has the lines that it had in the `previous` note, else the function,
    type or section around the line. In what is left of `share`, the others grow to the end of theirs, and the
    definitions of these `names` follow.
    """
    room = _Room(tokens, counter, originals)
    if len(requests) > MAX_PASSAGES:
        room.feedback.append(f"only the first {MAX_PASSAGES} of {len(requests)} passages were read")
    for each in requests[:MAX_PASSAGES]:
        name = _shorten(each.find)
        if len(each.find.strip()) < _MIN_FIND_CHARS:
            room.feedback.append(f'"{name}" is too short to find a place')
            continue
        old = next((passage for passage in previous if passage.find == name), None)
        hits = _find(_restore_span(each, old), originals)
        if not hits:
            room.feedback.append(f'"{name}" was not found in the conversation')
            continue
        if len(hits) > _MANY_PLACES:
            room.feedback.append(f'"{name}" is at {len(hits):,} places; quoted was the one in {hits[0].source.id}')
        quote = _quote_newest(_restore_span(each, old), hits, originals, is_block=old is None or bool(old.edited_in))
        if isinstance(quote, str):
            room.feedback.append(f'"{name}" was left out: {quote}')
        else:
            room.add(quote, name)
    room.complete(min(share, tokens))
    for name in names:
        room.add_definition(name, min(share, tokens))
    return QuotedPassages(tuple(quote.passage for quote in room.quotes), tuple(room.feedback))


class _Quote(NamedTuple):
    """A passage with the text that it is from."""

    passage: NotePassage
    source: SourceText


class _Room:
    """The passages that were quoted so far, and what is left of their room."""

    def __init__(self, tokens: int, counter: TokenCounter, originals: Originals) -> None:
        self._tokens, self._counter, self._originals = tokens, counter, originals
        self._costs: dict[tuple[str, int, int, str], int] = {}
        self.quotes: list[_Quote] = []
        self.feedback: list[str] = []

    def _measure(self, passage: NotePassage) -> int:
        key = (passage.id, passage.first_line, passage.last_line, passage.text[:80])
        if key not in self._costs:
            self._costs[key] = self._counter.count_text(passage.text) + _HEADING_TOKENS
        return self._costs[key]

    @property
    def _used(self) -> int:
        return sum(self._measure(quote.passage) for quote in self.quotes)

    def add(self, quote: _Quote, name: str) -> None:
        """Quote a passage, as one with those of the same text that it overlaps."""
        if any(_covers(other.passage, quote.passage) for other in self.quotes):
            return
        neighbors = [other for other in self.quotes if _touches_lines(other, quote)]
        others = [
            other for other in self.quotes if other not in neighbors and not _covers(quote.passage, other.passage)
        ]
        place = min((self.quotes.index(other) for other in neighbors), default=len(others))
        joint = _join([*neighbors, quote], self._originals) if neighbors else quote
        left = self._tokens - sum(self._measure(other.passage) for other in others)
        if self._measure(joint.passage) > left and neighbors:
            self.feedback.append(f'"{name}" was left out: there was no room for it')
            return
        if self._measure(joint.passage) > left:
            shorter = _cut(joint.passage, left - _HEADING_TOKENS, self._counter)
            if shorter is None:
                self.feedback.append(f'"{name}" was left out: there was no room for it')
                return
            lines = f"{_count_lines(joint.passage)} to {_count_lines(shorter)} lines"
            self.feedback.append(f'"{name}" was cut from {lines}')
            joint = joint._replace(passage=shorter)
        self.quotes = [*others[:place], joint, *others[place:]]

    def complete(self, tokens: int) -> None:
        """Let passages that end within a function or type grow to its end, as far as there is room."""
        for number, quote in enumerate(self.quotes):
            passage, lines = quote.passage, quote.source.text.split("\n")
            if not quote.source.file or _count_lines(passage) < _MIN_CUT_LINES:
                continue
            first, last = passage.first_line - 1, passage.last_line - 1
            ends = [find_block(lines, at, quote.source.file, _MAX_BLOCK_LINES) for at in (first, last)]
            parts = [end for end in ends if end.size < _MAX_BLOCK_LINES and is_definition_block(lines, end)]
            first = min([first, *(part.first for part in parts if first - part.first <= _MAX_GROWTH)])
            last = max([last, *(part.last for part in parts if part.last - last <= _MAX_GROWTH)])
            if (first, last) == (passage.first_line - 1, passage.last_line - 1):
                continue
            longer = _cite(quote.source, first, last, passage.why, passage.find, self._originals)
            if self._used - self._measure(passage) + self._measure(longer) <= tokens:
                self.quotes[number] = quote._replace(passage=longer)
        for quote in list(self.quotes):
            neighbors = [other for other in self.quotes if other is quote or _touches_lines(other, quote)]
            if quote in self.quotes and len(neighbors) > 1:
                place = self.quotes.index(neighbors[0])
                self.quotes[place] = _join(neighbors, self._originals)
                self.quotes = [other for other in self.quotes if other not in neighbors[1:]]

    def add_definition(self, name: str, tokens: int) -> None:
        """Quote the newest definition of a name, if it is not there yet and there is room for it."""
        quote = _find_definition(name, self._originals)
        if quote is None or quote.passage.changed_in:
            return
        if any(_shows_lines(other.passage, quote.passage) for other in self.quotes):
            return
        if self._used + self._measure(quote.passage) <= tokens:
            self.quotes.append(quote)


def _touches_lines(one: _Quote, other: _Quote) -> bool:
    """Whether two passages of one text overlap or nearly do."""
    if one.source is not other.source:
        return False
    first, last = one.passage.first_line - _MAX_GAP, one.passage.last_line + _MAX_GAP
    return first <= other.passage.last_line and other.passage.first_line <= last


def _join(quotes: Sequence[_Quote], originals: Originals) -> _Quote:
    """One passage for several of the same text."""
    first = min(quote.passage.first_line for quote in quotes) - 1
    last = max(quote.passage.last_line for quote in quotes) - 1
    parts = [part for quote in quotes for part in quote.passage.why.split("; ") if part]
    why = "; ".join(dict.fromkeys(parts))  # a passage may itself be of several
    source = quotes[0].source
    return _Quote(_cite(source, first, last, why, quotes[0].passage.find, originals), source)


def _shows_lines(one: NotePassage, other: NotePassage) -> bool:
    """Whether a passage has nearly all lines of another one of the same file."""
    if not is_same_file(one.file, other.file):
        return False
    lines = list_plain_lines(other.text)
    return len(lines & list_plain_lines(one.text)) * 10 >= 9 * len(lines)


def _find_definition(name: str, originals: Originals) -> _Quote | None:
    """The newest text of a file that defines a name, with its whole definition."""
    word = re.compile(rf"(?<![\w.$]){re.escape(name)}(?![\w$])")
    for origin in reversed(originals.sources):
        if not origin.file or origin.is_brief or _PROSE.search(origin.file):
            continue
        source = (originals.update_source(origin) if origin.shows_file else None) or origin
        if name not in source.text:
            continue
        lines = source.text.split("\n")
        plain = strip_line_numbers(lines)
        at = next((n for n, line in enumerate(plain) if name in line and _defines(line, word)), -1)
        if at >= 0:
            block = find_block(lines, at, source.file, _MAX_BLOCK_LINES)
            if block.size > _MAX_DEFINITION_LINES:
                return None
            why = "named in State; added by tidegate"
            return _Quote(_cite(source, block.first, block.last, why, plain[at].strip(), originals), source)
    return None


def _defines(line: str, word: re.Pattern[str]) -> bool:
    """Whether a line begins the definition of this name, not of another one that takes or returns it."""
    match = word.search(line)
    if match is None or not is_definition(line):
        return False
    before = _RECEIVER.sub("", line[: match.start()])
    return not re.search(r"[(=:]", before)


def _shorten(text: str) -> str:
    folded = " ".join(text.split())
    return folded if len(folded) <= 80 else f"{folded[:80]}…"


def _count_lines(passage: NotePassage) -> int:
    return passage.last_line - passage.first_line + 1


def _covers(one: NotePassage, other: NotePassage) -> bool:
    return (
        one.id == other.id
        and one.lines == other.lines
        and one.first_line <= other.first_line
        and one.last_line >= other.last_line
        and other.text in one.text
    )


def _restore_span(request: WantedPassage, old: NotePassage | None) -> WantedPassage:
    """A passage that is named again without its lines, with those that it had."""
    if request.before or request.after or old is None or old.edited_in:
        return request
    lines = old.text.split("\n")
    at = next((n for n, line in enumerate(lines) if request.find.strip() in line), 0)
    return msgspec.structs.replace(
        request, before=at, after=len(lines) - 1 - at, id=request.id or old.id, why=request.why or old.why
    )


def _quote_newest(
    request: WantedPassage, hits: Sequence[_Hit], originals: Originals, *, is_block: bool
) -> _Quote | str:
    """The first place. If later edits changed its text, a newer text of that file, or why there is none to quote."""
    quote = _quote(request, hits[0], originals, is_block=is_block)
    passage = quote.passage
    is_part = bool(passage.file) and not (hits[0].source.shows_file or hits[0].source.is_brief)
    if not passage.changed_in and not is_part:
        return quote
    current = _quote_current(request, quote, originals, is_block=is_block)
    if current is not None:
        return current
    if not passage.changed_in:
        return quote
    for hit in hits:
        source = hit.source
        if source.file and is_after(source.id, passage.id) and is_same_file(source.file, passage.file):
            newer = _quote(request, hit, originals, is_block=is_block)
            if not newer.passage.changed_in and _count_lines(newer.passage) * 2 >= _count_lines(passage):
                return newer
    return _find_again(quote, originals)


def _quote_current(request: WantedPassage, quote: _Quote, originals: Originals, *, is_block: bool) -> _Quote | None:
    """The place in the file as it is after the edits of the log; None if that is not known, or does not have it."""
    needle = request.find.strip("\r\n")
    for source in reversed(originals.sources):
        if not source.shows_file or not is_same_file(source.file, quote.passage.file):
            continue
        current = originals.update_source(source)
        at = current.text.find(needle) if current is not None else -1
        if current is None or at < 0:
            continue
        hit = _Hit(current, current.text.count("\n", 0, at))
        newer = _quote(request, hit, originals, is_block=is_block)
        return newer if newer.passage.edited_in else None
    return None


def _find_again(quote: _Quote, originals: Originals) -> _Quote | str:
    """The lines of a passage that was changed, in the newest text of its file, by those that are still there."""
    passage = quote.passage
    lines = list_plain_lines(passage.text)
    last_change = max(passage.changed_in, key=seq_of_id)
    for source in reversed(originals.sources):
        if not source.shows_file or not is_same_file(source.file, passage.file):
            continue
        current = originals.update_source(source)
        if current is None and is_after(last_change, source.id):
            continue
        current = current or source
        texts = current.text.split("\n")
        places = [n for n, text in enumerate(texts) if _plain_line(text) in lines]
        span = places[-1] - places[0] + 1 if places else 0
        if len(places) >= _MIN_SAME_LINES and span <= 2 * _count_lines(passage) + _MAX_GAP:
            newer = _cite(current, places[0], places[-1], passage.why, passage.find, originals)
            return _Quote(newer, current)
        if source.is_whole and is_after(source.id, passage.id):
            return f"{source.id} has newer text of the whole file {passage.file}, without it"
    return quote


def _find(request: WantedPassage, originals: Originals) -> list[_Hit]:
    """The places with the text, that to be quoted first."""
    needle = request.find.strip("\r\n")
    hits = _find_lines(needle, originals)
    if not hits:
        hits = _find_lines(_LINE_NUMBER.sub("", needle).strip(), originals)
    if not hits:
        hits = _find_folded(needle, originals)
    if not hits:
        hits = _find_updated(needle, originals)
    hits.sort(key=lambda hit: hit.source.is_brief)
    cited_hits = [hit for hit in hits if hit.source.id == request.id]
    return [*cited_hits, *(hit for hit in _rank(request, hits) if hit not in cited_hits)]


def _find_lines(needle: str, originals: Originals) -> list[_Hit]:
    """The texts with a line that has this part, newest first, each with its first such line.

    A line that is nothing but the part comes first: it is likelier to be the definition than a use.
    """
    first, _, rest = needle.partition("\n")
    if len(first.strip()) < _MIN_FIND_CHARS and not rest:
        return []
    hits = []
    for source in reversed(originals.sources):
        at = source.text.find(needle)
        if at >= 0:
            hits.append(_Hit(source, source.text.count("\n", 0, at)))
    return hits


def _find_updated(needle: str, originals: Originals) -> list[_Hit]:
    """The newest text of a file that has this part only since it was edited."""
    for source in reversed(originals.sources):
        current = originals.update_source(source) if source.shows_file else None
        at = current.text.find(needle) if current is not None else -1
        if current is not None and at >= 0:
            return [_Hit(current, current.text.count("\n", 0, at))]
    return []


def _find_folded(needle: str, originals: Originals) -> list[_Hit]:
    """The same for a part of a line whose white space was copied inexactly."""
    folded = fold_space(needle.partition("\n")[0]).strip()
    if len(folded) < 2 * _MIN_FIND_CHARS:
        return []
    hits = []
    for source in reversed(originals.sources):
        if folded in fold_space(source.text):
            lines = source.text.split("\n")
            at = next((n for n, line in enumerate(lines) if folded in fold_space(line)), -1)
            if at >= 0:
                hits.append(_Hit(source, at))
    return hits


def _rank(request: WantedPassage, hits: list[_Hit]) -> list[_Hit]:
    """Newest first. If lines around are wanted, a text that has at least half of them comes before one that has not,
    and the content of a file before other texts."""
    span = min(request.before + request.after, MAX_PASSAGE_LINES)
    if 0 < span < _MIN_CUT_LINES:
        return hits

    def lacks(hit: _Hit) -> bool:
        lines = hit.source.text.count("\n") + 1
        got = min(hit.line, request.before) + min(lines - hit.line - 1, request.after)
        return got * 2 < span

    return sorted(hits, key=lambda hit: (lacks(hit), not hit.source.shows_file))


def _quote(request: WantedPassage, hit: _Hit, originals: Originals, *, is_block: bool) -> _Quote:
    source = hit.source
    lines = source.text.split("\n")
    if is_block and not request.before and not request.after:
        first, last = find_block(lines, hit.line, source.file, _MAX_BLOCK_LINES)
    else:
        first = max(0, hit.line - max(0, request.before))
        last = hit.line + max(0, request.after)
    last = max(last, hit.line + request.find.strip("\r\n").count("\n"))
    last = min(last, len(lines) - 1, first + MAX_PASSAGE_LINES - 1)
    return _Quote(_cite(source, first, last, request.why, request.find, originals), source)


def _cite(source: SourceText, first: int, last: int, why: str, find: str, originals: Originals) -> NotePassage:
    """The lines `first` to `last` of a text, counted from 0."""
    lines = source.text.split("\n")
    text = "\n".join(_clip_line(line) for line in lines[first : last + 1])
    changes = () if source.edits else find_later_changes(source.id, source.file, text, originals.changes)
    edits = [edit.id for edit in source.edits if _has_part(text, edit.new)]
    return NotePassage(
        why=" ".join(why.split())[:200],
        find=_shorten(find),
        id=source.id,
        source=source.source,
        file=source.file,
        first_line=first + 1,
        last_line=last + 1,
        lines=len(lines),
        text=text,
        changed_in=changes,
        edited_in=tuple(dict.fromkeys(edits)),
    )


def _has_part(text: str, new: str) -> bool:
    """Whether a text may have something of what an edit wrote, or lack what it removed."""
    parts = [line.strip() for line in new.split("\n") if line.strip()]
    return not parts or any(part in text for part in parts)


def _clip_line(line: str) -> str:
    return line if len(line) <= _MAX_LINE_CHARS else f"{line[:_MAX_LINE_CHARS]} […]"


def find_later_changes(ident: str, file: str, text: str, changes: Sequence[LoggedFileChange]) -> tuple[str, ...]:
    """The messages after `ident` that changed this text of the file."""
    if not file:
        return ()
    plain = list_plain_lines(text)
    ids = [
        change.id
        for change in changes
        if is_after(change.id, ident) and is_same_file(change.file, file) and _touches(change, plain)
    ]
    return tuple(dict.fromkeys(ids))[-_MAX_CHANGES:]


def refresh_changes(passage: NotePassage, changes: Sequence[LoggedFileChange]) -> NotePassage:
    """The passage with the messages among these changes that changed its text, too."""
    later = find_later_changes(passage.id, passage.file, passage.text, changes)
    ids = tuple(dict.fromkeys((*passage.changed_in, *later)))
    return passage if ids == passage.changed_in else msgspec.structs.replace(passage, changed_in=ids)


def list_outdated(passages: Sequence[NotePassage], text: str, changes: Sequence[LoggedFileChange]) -> list[str]:
    """The ids of those passages in `text` that these changes of one message made out of date.

    A passage that has the change, or says that it came, is not among them.
    """
    outdated = [
        passage.id
        for passage in passages
        if changes and passage.text in text and changes[0].id not in (*passage.changed_in, *passage.edited_in)
        if find_later_changes(passage.id, passage.file, passage.text, changes)
    ]
    return list(dict.fromkeys(outdated))


def is_newer_text(source: SourceText, passage: NotePassage) -> bool:
    """Whether this is newer text of the passage's file that shows its place: the whole file, or most of its lines."""
    if not passage.file or not is_after(source.id, passage.id) or not is_same_file(source.file, passage.file):
        return False
    if source.is_whole:
        return True
    lines = list_plain_lines(passage.text)
    return source.shows_file and len(lines & list_plain_lines(source.text)) * 10 >= 7 * len(lines)


def _touches(change: LoggedFileChange, plain: set[str]) -> bool:
    if not change.old:
        return True
    old = change.old.strip()
    if "\n" not in old and len(old) >= _MIN_FIND_CHARS:
        return any(old in line for line in plain)
    lines = [_plain_line(line) for line in old.split("\n") if line.strip()]
    telling = [line for line in lines if len(line) >= _MIN_FIND_CHARS] or lines  # a bracket is in every text
    return sum(line in plain for line in telling) * 2 >= len(telling)  # one call may stand in many functions


def list_plain_lines(text: str) -> set[str]:
    """The lines of a text without white space around them and the numbers that a tool put before them."""
    return {_plain_line(line) for line in text.split("\n")} - {""}


def _plain_line(line: str) -> str:
    """A line without the number that a tool put before it."""
    return _LINE_NUMBER.sub("", line).strip() if line[:12].strip()[:1].isdigit() else line.strip()


def _cut(passage: NotePassage, tokens: int, counter: TokenCounter) -> NotePassage | None:
    """The beginning of a passage that fits, if it is worth quoting."""
    lines = passage.text.split("\n")
    low, high = 0, len(lines)
    while low < high:
        middle = (low + high + 1) // 2
        if counter.count_text("\n".join(lines[:middle])) <= tokens:
            low = middle
        else:
            high = middle - 1
    if low < _MIN_CUT_LINES:
        return None
    return msgspec.structs.replace(passage, text="\n".join(lines[:low]), last_line=passage.first_line + low - 1)
