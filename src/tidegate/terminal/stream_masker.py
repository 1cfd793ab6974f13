"""Masks streamed text so that it can be printed as it arrives.

A piece may end in the middle of a key or of a control sequence. So a word is held back until its end is known, and it
is masked together with the line before it and with any private key that has begun. Printed text is never taken back.
"""

import re
from typing import Final

from tidegate.terminal.output import TextSanitizer

MAX_HELD_CHARS: Final = 4000
"""Characters that are held back at most. A longer word is shown although its end is not known."""
_CONTEXT_CHARS: Final = 200
"""Characters before a word that may decide whether it is a secret."""
_WORD_ENDS: Final = re.compile("[\\s\u2e80-\uffef\U00020000-\U0003ffff]")
"""In scripts without spaces every character ends a word; no secret is written in them."""
_KEY_START: Final = re.compile(r"-----BEGIN(?= [A-Z0-9 ]*(?:\Z|PRIVATE KEY))")
_KEY_END: Final = re.compile(r"-----END [A-Z0-9 ]*-----\s")


class StreamMasker:
    """With `hold_all`, nothing is released before the end: for secrets that contain spaces."""

    def __init__(self, sanitizer: TextSanitizer, *, hold_all: bool = False) -> None:
        self._sanitizer = sanitizer
        self._hold_all = hold_all
        self._text = ""
        self._scanned = 0
        self._printed = ""

    def feed(self, text: str) -> str:
        """Add a piece and return the text that may be printed now."""
        self._text += text
        if self._hold_all:
            return ""
        key = self._find_open_key()
        ends = [
            match.end() for match in _WORD_ENDS.finditer(self._text, self._scanned, len(self._text) if key < 0 else key)
        ]
        if len(self._text) > MAX_HELD_CHARS * (1 if key < 0 else 4):
            self._scanned = ends[-1] if ends else len(self._text)
            out = self._release(self._text[: self._scanned])
            self._discard(max(0, self._scanned - _CONTEXT_CHARS))
            return out
        if not ends:
            return ""
        self._scanned = ends[-1]
        out = self._release(self._text[: self._scanned])
        self._discard(self._text.rfind("\n", 0, self._scanned) + 1)
        return out

    def flush(self) -> str:
        """Return the rest."""
        out = self._release(self._text)
        self._discard(len(self._text))
        return out

    def _release(self, text: str) -> str:
        """Return the part of the masked text that was not printed yet. If a mask reaches back into printed text, hold
        the rest."""
        shown = self._sanitizer(text)
        if not shown.startswith(self._printed):
            return ""
        out, self._printed = shown[len(self._printed) :], shown
        return out

    def _find_open_key(self) -> int:
        """Return where a private key begins that has no end yet, or -1."""
        begun = [match.start() for match in _KEY_START.finditer(self._text)]
        return begun[-1] if begun and _KEY_END.search(self._text, begun[-1]) is None else -1

    def _discard(self, count: int) -> None:
        """Forget the context: a new line begins."""
        self._text = self._text[count:]
        self._scanned = max(0, self._scanned - count)
        self._printed = self._sanitizer(self._text[: self._scanned])
