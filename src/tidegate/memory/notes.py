"""Notes: plain files a person can read and edit. The files are the truth; nothing of them is kept in memory.

    2026-11-15.md     the day's entries, each under a heading: time, where it came from, title
    MEMORY.md         the index: what there is to know and which note says it; this is what goes into a prompt
    anything.md       notes of their own, also in folders

An entry's heading is `## 14:03:22 · session · title`. Every other line is free, also other headings; a line of an
entry that looks like the heading of another gets a backslash, which is not part of it.
"""

import re
import time
from collections.abc import Callable
from datetime import datetime, tzinfo
from pathlib import Path

import msgspec

from tidegate.core.clip import clip_chars
from tidegate.core.errors import BadInput
from tidegate.core.estimate import Estimate
from tidegate.core.tokens import Counter
from tidegate.disk.folder import Folder
from tidegate.wire.reading import clean

INDEX = "MEMORY.md"
MAX_ENTRY = 64_000
MAX_FILE = 2_000_000
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}\.md").fullmatch
_HEADING = re.compile(r"^## (\d{2}:\d{2}(?::\d{2})?)(?:$| · ([^·\n]*)(?: · (.*))?$)", re.MULTILINE)
_LIKE_HEADING = re.compile(r"^(\\*)(?=## \d{2}:\d{2}(?::\d{2})?(?:$| · ))", re.MULTILINE)
_GUARDED = re.compile(r"^\\(?=\\*## \d{2}:\d{2}(?::\d{2})?(?:$| · ))", re.MULTILINE)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_BORDER = re.compile(r"[\s()\[\]<>\"'`,;*]+")


class Entry(msgspec.Struct, frozen=True):
    """One entry of a day. `line` is where its heading stands."""

    time: str
    source: str
    title: str
    text: str
    line: int


class Notes:
    """The notes of a folder. Sizes are in bytes; what does not fit is refused and nothing is written.

    `mask` hides secrets in what is written.
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        max_entry: int = MAX_ENTRY,
        max_file: int = MAX_FILE,
        zone: tzinfo | None = None,
        mask: Callable[[str], str] = str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.files = Folder(folder, max_file=max_file, ending=".md")
        self.max_entry = max_entry
        self._zone = zone
        self._mask = mask
        self._clock = clock

    # --- reading --------------------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        return self.files.names()

    def days(self) -> list[str]:
        return [name for name in self.names() if _DAY(name)]

    def read(self, name: str) -> str:
        """A note as it is on disk now."""
        text = self.files.read(name)
        if text is None:
            raise BadInput(f"There is no note {name!r}.", f"{INDEX} and names() say which there are.")
        return text

    def entries(self, day: str) -> list[Entry]:
        """The entries of a daily note; none if there is no such note."""
        return entries_of(self.files.read(day) or "")

    # --- writing --------------------------------------------------------------------------------------------------

    def add(self, text: str, *, source: str = "", title: str = "", at: float | None = None) -> str:
        """Put an entry into the note of its day and give the name of the note that holds it.

        A text that some day's note already has is not written again.
        """
        text, source, title = tidy(self._mask(text)), self._mask(source), self._mask(title)
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
        heading = f"## {moment:%H:%M:%S} · {_field(source, 80) or '-'} · {_line(title, 120) or 'Note'}"
        guarded = _LIKE_HEADING.sub(r"\1\\", text)
        found = [""]

        def change(old: str | None) -> str | None:
            found[0] = self._day_with(text, guarded)
            if found[0]:
                return None
            before = f"# {moment:%Y-%m-%d}" if old is None else old.rstrip()
            return f"{before}\n\n{heading}\n\n{guarded}\n".lstrip()

        return day if self.files.update(day, change) else found[0]

    def _day_with(self, text: str, guarded: str) -> str:
        """The daily note that holds this text as an entry, the newest first. Days are few and small: they are read."""
        for day in reversed(self.days()):
            try:
                held = self.files.read(day) or ""
            except BadInput:
                continue
            if guarded in held and any(entry.text == text for entry in entries_of(held)):
                return day
        return ""

    def write(self, name: str, text: str, *, about: str = "") -> bool:
        """Write a note whole. With `about`, its line in the index says that. True if the file changed."""
        if self._mask(name) != name:
            raise BadInput("The name of this note holds a secret; nothing was written.", "Give it another name.")
        text, about = tidy(self._mask(text)) + "\n", self._mask(about)
        written = self.files.update(name, lambda old: None if old == text else text)
        if about and name != INDEX:
            self.files.update(INDEX, lambda old: _with_line(old, name, _line(about, 200)))
        return written

    def remove(self, name: str) -> bool:
        """Remove a note and its line in the index."""
        removed = self.files.remove(name)
        if removed and name != INDEX:
            self.files.update(INDEX, lambda old: _without_line(old, name))
        return removed

    # --- the prompt -----------------------------------------------------------------------------------------------

    def index_text(self, max_tokens: int = 2000, *, max_chars: int = 0, counter: Counter | None = None) -> str:
        """What a prompt says of the memory: the index, and what is in the folder without standing in it.

        Whole lines, from the top, as many as fit; the last then says how many do not.
        """
        counter = counter or Estimate()
        lines = self._index_lines()

        def fits(text: str) -> bool:
            return counter.text(text) <= max_tokens and not 0 < max_chars < len(text)

        if fits(whole := "\n".join(lines)):
            return whole
        low, high = 0, len(lines) - 1
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fits(_shortened(lines, middle)) else (low, middle - 1)
        return text if fits(text := _shortened(lines, low)) else ""

    def _index_lines(self) -> list[str]:
        try:
            index = self.files.read(INDEX) or ""
        except BadInput as bad:
            index = f"[{INDEX}: {bad}]"
        lines = index.rstrip().split("\n") if index.strip() else []
        listed = {word.strip(".:") for word in _BORDER.split(index)}
        names = self.names()
        others = (name for name in names if name != INDEX and not _DAY(name))
        lines += [f"- [{name}]({name})" for name in others if name not in listed and f"({name})" not in index]
        days = [name.removesuffix(".md") for name in names if _DAY(name)]
        if days:
            lines.append(f"Daily notes (YYYY-MM-DD.md): {len(days)}, from {days[0]} to {days[-1]}")
        return lines


def entries_of(text: str) -> list[Entry]:
    """The entries of a day's text, whoever wrote it. What stands before the first heading belongs to none."""
    headings = list(_HEADING.finditer(text))
    ends = [*(heading.start() for heading in headings), len(text)][1:]
    return [_entry(text, heading, end) for heading, end in zip(headings, ends, strict=True)]


def _entry(text: str, heading: re.Match[str], end: int) -> Entry:
    source, title = (heading[2] or "").strip(), (heading[3] or "").strip()
    if heading[3] is None:  # a person's short form: the time and what it is
        source, title = "", source
    body = _GUARDED.sub("", text[heading.end() : end].strip("\n").rstrip())
    return Entry(heading[1], "" if source == "-" else source, title, body, text.count("\n", 0, heading.start()) + 1)


def tidy(text: str) -> str:
    """As it will stand in a file: valid Unicode, Unix lines, no control characters, no blanks around it."""
    text = clean(text).replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub("\ufffd", text).rstrip().lstrip("\n")


def _line(text: str, most: int) -> str:
    return clip_chars(" ".join(tidy(text).split()), most, mode="head", notice="…").text


def _field(text: str, most: int) -> str:
    return _line(text.replace("·", "-"), most)


def _shortened(lines: list[str], keep: int) -> str:
    return "\n".join([*lines[:keep], f"[{len(lines) - keep} more lines: read {INDEX}]"])


def _is_line_of(line: str, name: str) -> bool:
    return line.startswith(f"- [{name}]({name})")


def _with_line(index: str | None, name: str, about: str) -> str | None:
    """The index with one line for this note: in its old place, or at the end."""
    new = f"- [{name}]({name}): {about}"
    lines = (index or "# Memory\n").rstrip("\n").split("\n")
    if any(_is_line_of(line, name) for line in lines):
        lines = [new if _is_line_of(line, name) else line for line in lines]
    else:
        lines += [new]
    text = "\n".join(lines) + "\n"
    return None if text == index else text


def _without_line(index: str | None, name: str) -> str | None:
    if index is None:
        return None
    text = "\n".join(line for line in index.split("\n") if not _is_line_of(line, name))
    return None if text == index else text
