"""Masks streamed text so that it can be printed as it arrives.

A piece may end in the middle of a key or of a control sequence. So a word is held back until its end is known, and it
is masked together with the line before it and with any private key that has begun. A key may go on in the next line: a
word that may be the beginning of one is held back until the next word is known. Printed text is never taken back.
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


def find_printable_end(text: str, sanitizer: TextSanitizer, start: int = 0) -> int:
    """Return the end of the part of a growing text that its continuation cannot change; at least `start`."""
    key = _find_open_key(text)
    ends = [match.end() for match in _WORD_ENDS.finditer(text, start, len(text) if key < 0 else key)]
    return next((end for end in reversed(ends) if not sanitizer.may_continue(text[:end])), start)


def _find_open_key(text: str) -> int:
    """Return where a private key begins that has no end yet, or -1."""
    key_starts = [match.start() for match in _KEY_START.finditer(text)]
    return key_starts[-1] if key_starts and _KEY_END.search(text, key_starts[-1]) is None else -1


class StreamMasker:
    """Takes pieces of a text and returns what of it may be printed."""

    def __init__(self, sanitizer: TextSanitizer) -> None:
        self._sanitizer = sanitizer
        self._text = ""
        self._scanned = 0
        self._printed = ""

    def feed(self, text: str) -> str:
        """Add a piece and return the text that may be printed now."""
        self._text += text
        end = find_printable_end(self._text, self._sanitizer, self._scanned)
        if end > self._scanned:
            self._scanned = end
            out = self._release(self._text[:end])
            self._discard(self._text.rfind("\n", 0, end) + 1)
            return out
        if len(self._text) > MAX_HELD_CHARS * (1 if _find_open_key(self._text) < 0 else 4):
            ends = [match.end() for match in _WORD_ENDS.finditer(self._text, self._scanned)]
            self._scanned = ends[-1] if ends else len(self._text)
            out = self._release(self._text[: self._scanned])
            self._discard(max(0, self._scanned - _CONTEXT_CHARS))
            return out
        return ""

    def flush(self) -> str:
        """Return the rest."""
        out = self._release(self._text)
        self._discard(len(self._text))
        return out

    def _release(self, text: str) -> str:
        """Return the part of the masked text that was not printed yet. If a mask reaches back into printed text, hold
        the rest."""
        safe_text = self._sanitizer(text)
        if not safe_text.startswith(self._printed):
            return ""
        out, self._printed = safe_text[len(self._printed) :], safe_text
        return out

    def _discard(self, count: int) -> None:
        """Forget the context: a new line begins."""
        self._text = self._text[count:]
        self._scanned = max(0, self._scanned - count)
        self._printed = self._sanitizer(self._text[: self._scanned])
