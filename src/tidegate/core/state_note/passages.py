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
from tidegate.core.state_note.originals import LoggedFileChange, Originals, SourceText, fold_space, is_after
from tidegate.core.tokens.counting import TokenCounter

MAX_PASSAGES: Final = 40
MAX_PASSAGE_LINES: Final = 400
_MAX_LINE_CHARS: Final = 2_000
_MIN_FIND_CHARS: Final = 4
_MIN_CUT_LINES: Final = 4
_MANY_PLACES: Final = 20
_HEADING_TOKENS: Final = 40
_LINE_NUMBER: Final = re.compile(r"^\s*\d+\s*[→\t|:-]?\s?")
_MAX_CHANGES: Final = 6


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
    wanted: Sequence[WantedPassage],
    originals: Originals,
    tokens: int,
    counter: TokenCounter,
    previous: Sequence[NotePassage] = (),
) -> QuotedPassages:
    """Quote the passages in their order, in at most so many tokens, with what to tell the model about them.

    A passage of the `previous` note that is named again by its `find` alone has the lines that it had.
    """
    passages: list[NotePassage] = []
    feedback: list[str] = []
    left = tokens
    if len(wanted) > MAX_PASSAGES:
        feedback.append(f"only the first {MAX_PASSAGES} of {len(wanted)} passages were read")
    for each in wanted[:MAX_PASSAGES]:
        name = _shorten(each.find)
        if len(each.find.strip()) < _MIN_FIND_CHARS:
            feedback.append(f'"{name}" is too short to find a place')
            continue
        hits = _find(_restore_span(each, previous), originals)
        if not hits:
            feedback.append(f'"{name}" was not found in the conversation')
            continue
        if len(hits) > _MANY_PLACES:
            feedback.append(f'"{name}" is at {len(hits):,} places; quoted was the one in {hits[0].source.id}')
        passage = _quote_newest(_restore_span(each, previous), hits, originals)
        if any(_covers(other, passage) for other in passages):
            continue
        passages = [other for other in passages if not _covers(passage, other)]
        cost = counter.count_text(passage.text) + _HEADING_TOKENS
        if cost > left:
            cut = _cut(passage, left - _HEADING_TOKENS, counter)
            if cut is None:
                feedback.append(f'"{name}" was left out: there was no room for it')
                continue
            feedback.append(f'"{name}" was cut from {_count_lines(passage)} to {_count_lines(cut)} lines')
            passage, cost = cut, counter.count_text(cut.text) + _HEADING_TOKENS
        passages.append(passage)
        left -= cost
    return QuotedPassages(tuple(passages), tuple(feedback))


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


def _restore_span(wanted: WantedPassage, previous: Sequence[NotePassage]) -> WantedPassage:
    """A passage that is named again without its lines, with those that it had."""
    if wanted.before or wanted.after:
        return wanted
    name = _shorten(wanted.find)
    old = next((each for each in previous if each.find == name), None)
    if old is None:
        return wanted
    lines = old.text.split("\n")
    at = next((n for n, line in enumerate(lines) if wanted.find.strip() in line), 0)
    return msgspec.structs.replace(
        wanted, before=at, after=len(lines) - 1 - at, id=wanted.id or old.id, why=wanted.why or old.why
    )


def _quote_newest(wanted: WantedPassage, hits: Sequence[_Hit], originals: Originals) -> NotePassage:
    """The first place. If later edits changed its text, a newer text of that file after them, if the log has one."""
    passage = _quote(wanted, hits[0], originals)
    if not passage.changed_in:
        return passage
    for hit in hits:
        source = hit.source
        if source.file and is_after(source.id, passage.id) and _is_same_file(source.file, passage.file):
            newer = _quote(wanted, hit, originals)
            if not newer.changed_in and _count_lines(newer) * 2 >= _count_lines(passage):
                return newer
    return passage


def _find(wanted: WantedPassage, originals: Originals) -> list[_Hit]:
    """The places with the text, that to be quoted first."""
    needle = wanted.find.strip("\r\n")
    hits = _find_lines(needle, originals)
    if not hits:
        hits = _find_lines(_LINE_NUMBER.sub("", needle).strip(), originals)
    if not hits:
        hits = _find_folded(needle, originals)
    hits.sort(key=lambda hit: hit.source.is_brief)
    named = [hit for hit in hits if hit.source.id == wanted.id]
    return [*named, *(hit for hit in _rank(wanted, hits) if hit not in named)]


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


def _rank(wanted: WantedPassage, hits: list[_Hit]) -> list[_Hit]:
    """Newest first. If lines around are wanted, a text that has at least half of them comes before one that has not,
    and the content of a file before other texts."""
    span = min(wanted.before + wanted.after, MAX_PASSAGE_LINES)
    if span < _MIN_CUT_LINES:
        return hits

    def lacks(hit: _Hit) -> bool:
        lines = hit.source.text.count("\n") + 1
        got = min(hit.line, wanted.before) + min(lines - hit.line - 1, wanted.after)
        return got * 2 < span

    return sorted(hits, key=lambda hit: (lacks(hit), not hit.source.shows_file))


def _quote(wanted: WantedPassage, hit: _Hit, originals: Originals) -> NotePassage:
    lines = hit.source.text.split("\n")
    first = max(0, hit.line - max(0, wanted.before))
    last = min(len(lines) - 1, hit.line + max(0, wanted.after) + wanted.find.strip("\r\n").count("\n"))
    last = min(last, first + MAX_PASSAGE_LINES - 1)
    text = "\n".join(_clip_line(line) for line in lines[first : last + 1])
    source = hit.source
    return NotePassage(
        why=" ".join(wanted.why.split())[:200],
        find=_shorten(wanted.find),
        id=source.id,
        source=source.source,
        file=source.file,
        first_line=first + 1,
        last_line=last + 1,
        lines=len(lines),
        text=text,
        changed_in=find_later_changes(source.id, source.file, text, originals.changes),
    )


def _clip_line(line: str) -> str:
    return line if len(line) <= _MAX_LINE_CHARS else f"{line[:_MAX_LINE_CHARS]} […]"


def find_later_changes(ident: str, file: str, text: str, changes: Sequence[LoggedFileChange]) -> tuple[str, ...]:
    """The messages after `ident` that changed this text of the file."""
    if not file:
        return ()
    plain = {_plain_line(line) for line in text.split("\n")} - {""}
    found = [
        change.id
        for change in changes
        if is_after(change.id, ident) and _is_same_file(change.file, file) and _touches(change, plain)
    ]
    return tuple(dict.fromkeys(found))[-_MAX_CHANGES:]


def refresh_changes(passage: NotePassage, changes: Sequence[LoggedFileChange]) -> NotePassage:
    """The passage with the messages among these changes that changed its text, too."""
    later = find_later_changes(passage.id, passage.file, passage.text, changes)
    changed = tuple(dict.fromkeys((*passage.changed_in, *later)))
    return passage if changed == passage.changed_in else msgspec.structs.replace(passage, changed_in=changed)


def _touches(change: LoggedFileChange, plain: set[str]) -> bool:
    if not change.old:
        return True
    return any(_plain_line(line) in plain for line in change.old.split("\n") if line.strip())


def _plain_line(line: str) -> str:
    """A line without the number that a tool put before it."""
    return _LINE_NUMBER.sub("", line).strip() if line[:12].strip()[:1].isdigit() else line.strip()


def _is_same_file(one: str, other: str) -> bool:
    """Whether two paths may be of one file: from different folders, one is the end of the other."""
    parts, other_parts = _split_path(one), _split_path(other)
    length = min(len(parts), len(other_parts))
    return length > 0 and parts[-length:] == other_parts[-length:]


def _split_path(path: str) -> list[str]:
    return [part for part in path.replace("\\", "/").split("/") if part not in ("", ".", "..")]


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
