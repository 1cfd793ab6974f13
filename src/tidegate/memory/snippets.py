"""What of a text is shown for a query."""

import re

from tidegate.memory.words import Unit, plain


def place_of(text: str, units: list[Unit]) -> int:
    """Where to show a text: at the rarest kind of match there is, a whole piece of the query before its words."""
    text = text if text.isascii() else text.translate(_plainer(text))
    phrases = [phrase for unit in units for phrase in unit.phrases]
    # ASCII only: there a word holds none of what may stand between two, so the pattern has one way to match.
    together = [r"[\W_]*".join(phrase) for phrase in phrases if all(map(str.isascii, phrase))]
    words = [re.escape(word) for phrase in phrases for word in phrase]
    for pattern in ("|".join(re.escape(unit.raw) for unit in units), "|".join(together), "|".join(words)):
        if pattern and (match := re.search(pattern, text, re.IGNORECASE)):
            return match.start()
    return 0


def snippet(text: str, at: int, chars: int) -> str:
    """The text around a place on one line, at most so many characters."""
    chars = max(chars, 16)
    start = max(0, at - chars // 3)
    if start:
        blank = text.find(" ", start, at)
        start = blank + 1 if blank >= 0 else start
    line = " ".join(text[start : start + 4 * chars].split())
    line = ("…" if start else "") + line
    return line if len(line) <= chars and start + 4 * chars >= len(text) else line[: chars - 1] + "…"


def _plainer(text: str) -> dict[int, str]:
    """What does not count of each character of a text, where leaving it out does not move the others."""
    return {ord(char): new for char in set(text) if not char.isascii() and len(new := plain(char)) == 1}
