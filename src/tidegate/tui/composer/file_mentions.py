"""Files mentioned as `@path` in a message. They are read when the message is sent.

The text stays as it was written, in parts marked as typed or pasted; each file follows as a separate part, which
counts as not typed. An image is sent as an image. A mentioned file is in the workspace; only an image may be anywhere,
and only if its mention was typed.
"""

import heapq
import os
import re
import shlex
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote

from tidegate.agent.attachments import MAX_ATTACHMENT_CHARS, make_image
from tidegate.agent.tools.files.search_program import walk_files
from tidegate.core.errors import BadInput
from tidegate.core.messages import MENTIONED_FILE, Image, MarkedText, Message, Part
from tidegate.core.text.clip import clip_chars
from tidegate.core.tokens.counting import count_image
from tidegate.core.tokens.estimate import TokenEstimator
from tidegate.tui.composer.draft import MessageDraft

_MENTION: Final = re.compile(r'(?:^|(?<=\s))@(?:"([^"\n]+)"|([^\s"@]+))')
_MAX_FILE_CHARS: Final = 64 * 1024
"""Characters of a file that are sent; the agent can read the rest with its tools."""
_MAX_LISTED_FILES: Final = 20_000
_ESTIMATOR: Final = TokenEstimator()
_IMAGE_ENDINGS: Final = (".png", ".jpg", ".jpeg", ".gif", ".webp")


class ComposedMessage(NamedTuple):
    """A message ready to be sent, and the problems of files that could not be attached."""

    message: Message
    problems: list[str]


def compose_message(draft: MessageDraft, workspace: Path) -> ComposedMessage:
    parts: list[Part] = [MarkedText(text, typed=is_typed) for text, is_typed in draft.split_typed_and_pasted()]
    problems: list[str] = []
    for name, path in _find_mentions(draft, workspace):
        try:
            parts.append(_read_file_part(path, name))
        except (OSError, ValueError) as bad:
            problems.append(f"{name} was not attached: {bad.strerror if isinstance(bad, OSError) else bad}.")
    return ComposedMessage(Message("user", tuple(parts)), problems)


def measure_mentions(draft: MessageDraft, workspace: Path) -> int:
    """Estimate the tokens of the files that a draft mentions."""
    return sum(measure_file(path) or 0 for _, path in _find_mentions(draft, workspace))


def measure_file(path: Path) -> int | None:
    """Estimate the tokens that a file adds to a message. None if it cannot be attached."""
    try:
        part = _read_file_part(path, path.name)
    except (OSError, ValueError):
        return None
    return count_image(part) if isinstance(part, Image) else _ESTIMATOR.count_text(part.text)


def _find_mentions(draft: MessageDraft, workspace: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files that a draft mentions, each once. A mention of no file is words: an address, a decorator."""
    names: set[str] = set()
    for match in _MENTION.finditer(draft.text):
        name = match[1] or match[2]
        is_typed = not any(start < match.end() and end > match.start() for start, end in draft.pasted)
        path = _find_mentioned_file(workspace, name) or (_find_outside_image(name) if is_typed else None)
        if path is not None and name not in names:
            names.add(name)
            yield name, path


def _find_mentioned_file(workspace: Path, name: str) -> Path | None:
    """Return the real path of a regular file in the workspace. A link that leads out of it is not followed."""
    try:
        root = workspace.resolve()
        for each in (name, name.rstrip(".,;:!?")):
            path = (root / each).resolve()
            if path.is_file() and path.is_relative_to(root):
                return path
        return None
    except (OSError, ValueError):
        return None


def _find_outside_image(name: str) -> Path | None:
    """Return the path of an image by its absolute path or its path in the home folder."""
    try:
        for each in (name, name.rstrip(".,;:!?")):
            path = Path(each).expanduser()
            if path.is_absolute() and path.suffix.lower() in _IMAGE_ENDINGS and path.is_file():
                return path
    except (OSError, ValueError, RuntimeError):  # RuntimeError: there is no such user
        return None
    return None


def find_pasted_image(text: str) -> str:
    """Return a mention of the image whose path this text is, or "" if it is anything else.

    Terminals quote a path that is dropped on them, escape its blanks, or write it as an address.
    """
    text = text.strip()
    if "\n" in text or not text.strip("'\"").lower().endswith(_IMAGE_ENDINGS):
        return ""
    try:
        words = [unquote(text[7:])] if text.startswith("file://") else [text, *shlex.split(text)[:1]]
    except ValueError:
        words = [text]
    path = next((word for word in words if '"' not in word and _find_outside_image(word) is not None), None)
    return "" if path is None else f'@"{path}" ' if " " in path else f"@{path} "


def _read_file_part(path: Path, name: str) -> Image | MarkedText:
    if path.suffix.lower() in _IMAGE_ENDINGS:
        with path.open("rb") as file:
            data = file.read(MAX_ATTACHMENT_CHARS)
        try:
            return make_image(data, "it")
        except BadInput as bad:
            raise ValueError(bad.args[0].rstrip(".")) from None
    with path.open("rb") as file:
        raw = file.read(4 * _MAX_FILE_CHARS + 1)
    if b"\0" in raw[:8192]:
        raise ValueError("it is not a text file")
    text = clip_chars(raw.decode("utf-8", "replace"), _MAX_FILE_CHARS).text
    return MarkedText(f"{MENTIONED_FILE}{name}]\n{text}", typed=False)


def list_workspace_files(workspace: Path) -> list[str]:
    """Return the files that no .gitignore excludes, up to a limit. It may take a while: do not call it in the screen's
    thread."""
    try:
        folder = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        return [path for _, _, path in islice(walk_files(folder, "", []), _MAX_LISTED_FILES)]
    finally:
        os.close(folder)


def match_files(files: list[str], letters: str, most: int = 50) -> list[str]:
    """Return the files that contain the typed letters in order, best first.

    Best are names that begin with the letters, then paths that contain them in one piece, then names and then paths in
    which most of them begin a word; of equals the shortest.
    """
    plain_text = letters.casefold()
    scored = ((_score_match(plain_text, path.casefold()), len(path), path) for path in files)
    fitting = ((score, length, path) for score, length, path in scored if score is not None)
    return [path for *_, path in heapq.nsmallest(most, fitting)]


def _score_match(letters: str, path: str) -> tuple[int, int] | None:
    """Return how well the letters fit a path, smaller is better, or None if they do not."""
    name = path.rpartition("/")[2]
    if name.startswith(letters):
        return 0, 0
    if letters in path:
        return 1, 0
    for rank, text in ((2, name), (3, path)):
        gaps = _count_gaps(letters, text)
        if gaps is not None:
            return rank, gaps
    return (4, 0) if _has_letters_in_order(letters, path) else None


def _has_letters_in_order(letters: str, text: str) -> bool:
    rest = iter(text)
    return all(letter in rest for letter in letters)


def _count_gaps(letters: str, text: str) -> int | None:
    """Return how many letters neither follow the one before nor begin a word; None if they are not there in order."""
    gaps, place = 0, -1
    for letter in letters:
        if not text.startswith(letter, place + 1):
            start = re.compile(rf"(?<![^\W_]){re.escape(letter)}").search(text, place + 1)
            gaps += start is None
            place = text.find(letter, place + 1) if start is None else start.start()
            if place < 0:
                return None
        else:
            place += 1
    return gaps
