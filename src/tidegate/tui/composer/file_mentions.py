"""Files mentioned as `@path` in a message. They are read when the message is sent.

The text stays as it was written, in parts marked as typed or pasted; each file follows as a separate part, which
counts as not typed. An image is sent as an image.
"""

import base64
import os
import re
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from tidegate.agent.tools.files.search_program import walk_files
from tidegate.core.messages import MENTIONED_FILE, Image, MarkedText, Message, Part
from tidegate.core.text.clip import clip_chars
from tidegate.tui.composer.draft import MessageDraft

_MENTION: Final = re.compile(r'(?:^|(?<=\s))@(?:"([^"\n]+)"|([^\s"@]+))')
_MAX_FILE_CHARS: Final = 64 * 1024
"""Characters of a file that are sent; the agent can read the rest with its tools."""
_MAX_IMAGE_BYTES: Final = 4 * 1024 * 1024
_MAX_LISTED_FILES: Final = 20_000
_MEDIA_TYPES: Final = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
}


class ComposedMessage(NamedTuple):
    """A message ready to be sent, and the problems of files that could not be attached."""

    message: Message
    problems: list[str]


def compose_message(draft: MessageDraft, workspace: Path) -> ComposedMessage:
    parts: list[Part] = [MarkedText(text, typed=typed) for text, typed in draft.split_typed_and_pasted()]
    problems: list[str] = []
    for name in dict.fromkeys(match[1] or match[2] for match in _MENTION.finditer(draft.text)):
        found = _find_mentioned_file(workspace, name)
        if found is None:
            continue  # an address, a decorator, a name: words, not a file
        try:
            parts.append(_read_file_part(found, name))
        except (OSError, ValueError) as bad:
            problems.append(f"{name} did not go along: {bad.strerror if isinstance(bad, OSError) else bad}.")
    return ComposedMessage(Message("user", tuple(parts)), problems)


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


def _read_file_part(path: Path, name: str) -> Part:
    media = _MEDIA_TYPES.get(path.suffix.lower())
    if media is not None:
        data = path.read_bytes()
        if len(data) > _MAX_IMAGE_BYTES:
            raise ValueError(f"it has more than {_MAX_IMAGE_BYTES // 1024 // 1024} MB")
        width, height = _read_png_size(data)
        return Image(media, base64.b64encode(data).decode(), width=width, height=height)
    with path.open("rb") as file:
        raw = file.read(4 * _MAX_FILE_CHARS + 1)
    if b"\0" in raw[:8192]:
        raise ValueError("it is no text")
    text = clip_chars(raw.decode("utf-8", "replace"), _MAX_FILE_CHARS).text
    return MarkedText(f"{MENTIONED_FILE}{name}]\n{text}", typed=False)


def _read_png_size(data: bytes) -> tuple[int, int]:
    if data[:8] != b"\x89PNG\r\n\x1a\n" or len(data) < 24:
        return 0, 0
    return int.from_bytes(data[16:20]), int.from_bytes(data[20:24])


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


def match_files(files: list[str], typed: str, most: int = 50) -> list[str]:
    """Return the files that match the typed text: names that begin with it, then names with its letters in order."""
    asked = typed.casefold()
    begin = [path for path in files if path.casefold().rpartition("/")[2].startswith(asked)]
    inside = [path for path in files if asked in path.casefold()]
    loose = (
        [path for path in files if _has_letters_in_order(asked, path.casefold())]
        if len(begin) + len(inside) < most
        else []
    )
    return list(dict.fromkeys((*sorted(begin, key=len), *sorted(inside, key=len), *sorted(loose, key=len))))[:most]


def _has_letters_in_order(letters: str, text: str) -> bool:
    rest = iter(text)
    return all(letter in rest for letter in letters)
