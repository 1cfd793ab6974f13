"""Text that comes a piece at a time and may be printed at once: safe, without secrets, and never taken back.

A piece may end in the middle of a key or of a control sequence. So nothing of a word is shown before its end is known,
and a word is masked with the whole line before it in sight, and with all of a private key that was begun.
"""

import re
from typing import Final

from tidegate.terminal.output import TextSanitizer

MAX_HELD_CHARS: Final = 4000
"""Characters that are held together. What has no end before is shown as it then is."""
_CONTEXT_CHARS: Final = 200
"""Characters before a word that may say what it is."""
_WORD_ENDS: Final = re.compile("[\\s\u2e80-\uffef\U00020000-\U0003ffff]")
"""Scripts without spaces have a word's end at every sign; no secret is written in them."""
_KEY_START: Final = re.compile(r"-----BEGIN(?= [A-Z0-9 ]*(?:\Z|PRIVATE KEY))")
_KEY_END: Final = re.compile(r"-----END [A-Z0-9 ]*-----\s")


class StreamMasker:
    """`whole`: nothing is shown before the end, for secrets that have spaces in them."""

    def __init__(self, shown: TextSanitizer, *, whole: bool = False) -> None:
        self._sanitizer = shown
        self._hold_all = whole
        self._text = ""
        self._scanned = 0
        self._printed = ""

    def feed(self, text: str) -> str:
        """What may be printed now that this has come."""
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
        """The rest."""
        out = self._release(self._text)
        self._discard(len(self._text))
        return out

    def _release(self, text: str) -> str:
        """Of what is shown now, what was not printed. Where a mask reaches back into what was, the rest is held."""
        shown = self._sanitizer(text)
        if not shown.startswith(self._printed):
            return ""
        out, self._printed = shown[len(self._printed) :], shown
        return out

    def _find_open_key(self) -> int:
        """Where a private key begins that has no end yet, else -1."""
        begun = [match.start() for match in _KEY_START.finditer(self._text)]
        return begun[-1] if begun and _KEY_END.search(self._text, begun[-1]) is None else -1

    def _discard(self, count: int) -> None:
        """The line is over: what comes begins another."""
        self._text = self._text[count:]
        self._scanned = max(0, self._scanned - count)
        self._printed = self._sanitizer(self._text[: self._scanned])
