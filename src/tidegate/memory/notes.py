"""Notes: plain files that a person can read and edit. The files are the only copy; nothing is cached.

    2026-11-15.md     the day's entries, each under a heading: time, source, title
    MEMORY.md         the index, one line per note with its content; it goes into the system prompt
    anything.md       other notes, also in folders

The heading of an entry is `## 14:03:22 · session · title`. All other lines are free, including other headings; a line
inside an entry that looks like an entry's heading is escaped with a backslash.
"""

import re
import time
from collections.abc import Callable, Sequence
from datetime import datetime, tzinfo
from pathlib import Path

import msgspec

from tidegate.core.errors import BadInput
from tidegate.core.messages import Message, is_user_request, text_of
from tidegate.core.outcome import Effect, Flush
from tidegate.core.text.clip import clip_chars
from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.core.text.plural import format_count
from tidegate.core.tokens.counting import TokenCounter
from tidegate.core.tokens.estimate import TokenEstimator
from tidegate.disk.folder import Folder, TextFolder
from tidegate.wire.parsing import repair_unicode

INDEX_NOTE = "MEMORY.md"
_MAX_ENTRY_BYTES = 64_000
MAX_NOTE_BYTES = 2_000_000
_DAILY_NAME = re.compile(r"\d{4}-\d{2}-\d{2}\.md").fullmatch
_HEADING = LazyPattern(r"^## (\d{2}:\d{2}(?::\d{2})?)(?:$| · ([^·\n]*)(?: · (.*))?$)", re.MULTILINE)
_LIKE_HEADING = LazyPattern(r"^(\\*)(?=## \d{2}:\d{2}(?::\d{2})?(?:$| · ))", re.MULTILINE)
_ESCAPED_HEADING = LazyPattern(r"^\\(?=\\*## \d{2}:\d{2}(?::\d{2})?(?:$| · ))", re.MULTILINE)
_CONTROL = LazyPattern(r"[\x00-\x08\x0b-\x1f\x7f]")
_WORD_BORDER = LazyPattern(r"[\s()\[\]<>\"'`,;*]+")


class NoteEntry(msgspec.Struct, frozen=True):
    """One entry of a day. `line` is the line number of its heading."""

    time: str
    source: str
    title: str
    text: str
    line: int


class Notes:
    """The notes of a folder. Sizes are in bytes; a text that does not fit is refused and nothing is written.

    `mask` hides secrets in written text.
    """

    def __init__(
        self,
        folder: TextFolder | Path | str,
        *,
        max_entry: int = _MAX_ENTRY_BYTES,
        max_file: int = MAX_NOTE_BYTES,
        zone: tzinfo | None = None,
        mask: Callable[[str], str] = str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.folder: TextFolder = (
            Folder(folder, max_file=max_file, ending=".md") if isinstance(folder, Path | str) else folder
        )
        self.max_entry = max_entry
        self._zone = zone
        self._mask = mask
        self._clock = clock

    # --- reading --------------------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        return self.folder.names()

    def daily_names(self) -> list[str]:
        return [name for name in self.names() if _DAILY_NAME(name)]

    def read(self, name: str) -> str:
        """Read a note from disk."""
        text = self.folder.read(name)
        if text is None:
            raise BadInput(f"There is no note {name!r}.", f"{INDEX_NOTE} and names() say which there are.")
        return text

    def read_entries(self, day: str) -> list[NoteEntry]:
        """Return the entries of a daily note; none if the note does not exist."""
        return parse_note_entries(self.folder.read(day) or "")

    # --- writing --------------------------------------------------------------------------------------------------

    def add_entry(self, text: str, *, source: str = "", title: str = "", at: float | None = None) -> str:
        """Add an entry to the note of its day and return the note's name.

        A text that a daily note already contains is not written again.
        """
        text, source, title = clean_note_text(self._mask(text)), self._mask(source), self._mask(title)
        if not text:
            raise BadInput("The entry is empty.", "Give it a text.")
        size = len(text.encode())
        if size > self.max_entry:
            raise BadInput(
                f"The entry has {size:,} bytes, more than {self.max_entry:,}; nothing was written.",
                "Shorten it, or write it as a note of its own.",
            )
        moment = datetime.fromtimestamp(self._clock() if at is None else at, self._zone)
        day = f"{moment:%Y-%m-%d}.md"
        heading = f"## {moment:%H:%M:%S} · {_heading_field(source, 80) or '-'} · {_one_line(title, 120) or 'Note'}"
        guarded = _LIKE_HEADING.sub(r"\1\\", text)
        day_box = [""]

        def change(old: str | None) -> str | None:
            day_box[0] = self._find_day_with(text, guarded)
            if day_box[0]:
                return None
            before = f"# {moment:%Y-%m-%d}" if old is None else old.rstrip()
            return f"{before}\n\n{heading}\n\n{guarded}\n".lstrip()

        return day if self.folder.update(day, change) else day_box[0]

    def _find_day_with(self, text: str, guarded: str) -> str:
        """Return the daily note that contains this text as an entry, searching the newest first."""
        for day in reversed(self.daily_names()):
            try:
                day_text = self.folder.read(day) or ""
            except BadInput:
                continue
            if guarded in day_text and any(entry.text == text for entry in parse_note_entries(day_text)):
                return day
        return ""

    def write(self, name: str, text: str, *, about: str = "") -> bool:
        """Write a whole note. `about` becomes its line in the index. Return whether the file changed."""
        if self._mask(name) != name:
            raise BadInput("The name of this note holds a secret; nothing was written.", "Give it another name.")
        text, about = clean_note_text(self._mask(text)) + "\n", self._mask(about)
        is_new = self.folder.update(name, lambda old: None if old == text else text)
        if about and name != INDEX_NOTE:
            self.folder.update(INDEX_NOTE, lambda old: _set_index_line(old, name, _one_line(about, 200)))
        return is_new

    def remove(self, name: str) -> bool:
        """Remove a note and its line in the index."""
        is_removed = self.folder.remove(name)
        if is_removed and name != INDEX_NOTE:
            self.folder.update(INDEX_NOTE, lambda old: _remove_index_line(old, name))
        return is_removed

    # --- the prompt -----------------------------------------------------------------------------------------------

    def render_index(self, max_tokens: int = 2000, *, max_chars: int = 0, counter: TokenCounter | None = None) -> str:
        """Return the text of the memory for a prompt: the index, and notes that the index does not list.

        It consists of as many whole lines as fit, from the top; if lines are left out, the last one says how many.
        """
        counter = counter or TokenEstimator()
        lines = self._index_lines()

        def fits(text: str) -> bool:
            return counter.count_text(text) <= max_tokens and not 0 < max_chars < len(text)

        if fits(whole := "\n".join(lines)):
            return whole
        low, high = 0, len(lines) - 1
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fits(_truncate_index(lines, middle)) else (low, middle - 1)
        return text if fits(text := _truncate_index(lines, low)) else ""

    def _index_lines(self) -> list[str]:
        try:
            index = self.folder.read(INDEX_NOTE) or ""
        except BadInput as bad:
            index = f"[{INDEX_NOTE}: {bad}]"
        lines = index.rstrip().split("\n") if index.strip() else []
        listed = {word.strip(".:") for word in _WORD_BORDER.split(index)}
        names = self.names()
        others = (name for name in names if name != INDEX_NOTE and not _DAILY_NAME(name))
        lines += [f"- [{name}]({name})" for name in others if name not in listed and f"({name})" not in index]
        days = [name.removesuffix(".md") for name in names if _DAILY_NAME(name)]
        if days:
            lines.append(f"Daily notes (YYYY-MM-DD.md): {len(days)}, from {days[0]} to {days[-1]}")
        return lines


def parse_note_entries(text: str) -> list[NoteEntry]:
    """Parse the entries of a day's text. Text before the first heading belongs to no entry."""
    headings = list(_HEADING.finditer(text))
    ends = [*(heading.start() for heading in headings), len(text)][1:]
    return [_entry(text, heading, end) for heading, end in zip(headings, ends, strict=True)]


def _entry(text: str, heading: re.Match[str], end: int) -> NoteEntry:
    source, title = (heading[2] or "").strip(), (heading[3] or "").strip()
    if heading[3] is None:  # the short form that a person may write: time and title
        source, title = "", source
    body = _ESCAPED_HEADING.sub("", text[heading.end() : end].strip("\n").rstrip())
    return NoteEntry(heading[1], "" if source == "-" else source, title, body, text.count("\n", 0, heading.start()) + 1)


def clean_note_text(text: str) -> str:
    """Normalize a text for a file: valid Unicode, Unix line ends, no control characters, no surrounding blanks."""
    text = repair_unicode(text).replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub("\ufffd", text).rstrip().lstrip("\n")


def _one_line(text: str, most: int) -> str:
    return clip_chars(" ".join(clean_note_text(text).split()), most, mode="head", notice="…").text


def _heading_field(text: str, most: int) -> str:
    return _one_line(text.replace("·", "-"), most)


def _truncate_index(lines: list[str], keep: int) -> str:
    return "\n".join([*lines[:keep], f"[{len(lines) - keep} more lines: read {INDEX_NOTE}]"])


def _is_line_of(line: str, name: str) -> bool:
    return line.startswith(f"- [{name}]({name})")


def _set_index_line(index: str | None, name: str, about: str) -> str | None:
    """Return the index with one line for this note: in its old position, or at the end."""
    new = f"- [{name}]({name}): {about}"
    lines = (index or "# Memory\n").rstrip("\n").split("\n")
    if any(_is_line_of(line, name) for line in lines):
        lines = [new if _is_line_of(line, name) else line for line in lines]
    else:
        lines += [new]
    text = "\n".join(lines) + "\n"
    return None if text == index else text


def _remove_index_line(index: str | None, name: str) -> str | None:
    if index is None:
        return None
    text = "\n".join(line for line in index.split("\n") if not _is_line_of(line, name))
    return None if text == index else text


# Text that leaves the view goes into the note of the day, if a session is opened with these effects:
#
#     Session(..., log=SessionStorage(effects=NoteEffects(notes, "my-session", others=files)))
#
# It raises if the note cannot be written; the plan then leaves the view unchanged, so nothing is lost.


class NoteEffects:
    """Saves the Flush effects of a policy; other effects go to `others`."""

    def __init__(self, notes: Notes, session: str = "", *, others: Callable[[Effect], None] | None = None) -> None:
        self.notes = notes
        self.session_name = session
        self._other_effects = others

    def __call__(self, effect: Effect) -> None:
        if not isinstance(effect, Flush):
            if self._other_effects is None:
                raise TypeError(f"No handler for the effect {type(effect).__name__}: pass `others` to NoteEffects.")
            self._other_effects(effect)
        elif effect.text.strip():
            self.notes.add_entry(effect.text, source=self.session_name, title=make_note_title(effect.request.messages))


def make_note_title(messages: Sequence[Message]) -> str:
    """Return the first line of the first user request as a title."""
    request_text = next(
        (text for message in messages if is_user_request(message) and (text := text_of(message).strip())), ""
    )
    return request_text.split("\n", 1)[0] or format_count(len(messages), "message")
