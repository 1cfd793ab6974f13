"""Clipping of texts to a limit of characters, bytes, lines or tokens.

A clipped text never exceeds its limit: the notice is part of the result and is counted, and it is left out if it would
take more than half of the limit. A cut never splits a surrogate pair, which no provider accepts. It avoids the inside
of what a reader sees as one character (accents, joined or colored emoji, flags); only a few characters around the cut
are examined for that.
"""

import unicodedata
from typing import Literal

import msgspec

from tidegate.core.text.json_shrink import JsonCut, cut_json_array, shrink_json
from tidegate.core.tokens.counting import TokenCounter

__all__ = [
    "CLIP_NOTICE",
    "ClipMode",
    "ClippedText",
    "JsonCut",
    "clip_bytes",
    "clip_chars",
    "clip_lines",
    "clip_tokens",
    "cut_json_array",
    "shrink_json",
]

ClipMode = Literal["head", "head_tail"]

CLIP_NOTICE = "\n[... {chars} characters, {lines} lines left out ...]\n"

_GAP_MARK = " [...]"
_STEPS = 32  # the longest run of joined code points that a cut steps over
_FLAGS = 1_000  # flags are pairs counted from the first of a run
_ZWJ = "\u200d"
# No vocabulary has a token of more characters: a longer text is over the limit without being counted.
_TOKEN_CHARS = 256
_TRIES = 12


class ClippedText(msgspec.Struct, frozen=True):
    text: str
    cut: bool = False
    chars_left_out: int = 0
    lines_left_out: int = 0


def _joined(text: str, at: int) -> bool:
    """Whether a cut before `at` would split one visible character."""
    here, before = text[at], text[at - 1]
    if here < "\u0300":
        return here == "\n" and before == "\r"
    if _ZWJ in (here, before) or unicodedata.category(here) in ("Mn", "Me", "Mc"):
        return True
    if "\udc00" <= here <= "\udfff":
        return "\ud800" <= before <= "\udbff"
    if "\u1160" <= here <= "\u11ff" or "\U0001f3fb" <= here <= "\U0001f3ff" or "\U000e0020" <= here <= "\U000e007f":
        return True  # jamo, skin colours, tags
    return _flag(here) and _flags_before(text, at) % 2 == 1


def _flag(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _flags_before(text: str, at: int) -> int:
    count = 0
    while count < at and count < _FLAGS and _flag(text[at - count - 1]):
        count += 1
    return count


def _before(text: str, at: int) -> int:
    """The nearest good cut at or before `at`; if none is near, `at` itself, moved only out of a surrogate pair."""
    for place in range(at, max(at - _STEPS, 0), -1):
        if place >= len(text) or not _joined(text, place):
            return place
    return at - _splits_pair(text, at)


def _after(text: str, at: int) -> int:
    for place in range(max(at, 1), min(at + _STEPS, len(text))):
        if not _joined(text, place):
            return place
    return at + _splits_pair(text, at)


def _splits_pair(text: str, at: int) -> bool:
    return "\ud800" <= text[at - 1 : at] <= "\udbff" and "\udc00" <= text[at : at + 1] <= "\udfff"


def _assemble(text: str, head: int, tail: int, notice: str) -> ClippedText:
    """The first `head` and the last `tail` characters around the notice. Cuts move so that the result only shrinks."""
    first = _before(text, head) if head else 0
    last = _after(text, len(text) - tail) if tail else len(text)
    last = max(last, first)
    gap = last - first
    if not gap:
        return ClippedText(text)
    lines = text.count("\n", first, last)
    gap_notice = notice.replace("{chars}", f"{gap:,}").replace("{lines}", f"{lines:,}")
    return ClippedText(text[:first] + gap_notice + text[last:], cut=True, chars_left_out=gap, lines_left_out=lines)


def _longest(notice: str, text: str) -> str:
    """The notice with numbers at least as long as those it will get."""
    size = f"{len(text):,}"
    return notice.replace("{chars}", size).replace("{lines}", size)


def _halves(keep: int, mode: ClipMode) -> tuple[int, int]:
    return (keep, 0) if mode == "head" else (keep - keep // 2, keep // 2)


def clip_chars(text: str, limit: int, *, mode: ClipMode = "head_tail", notice: str = CLIP_NOTICE) -> ClippedText:
    """Clip to `limit` characters. `{chars}` and `{lines}` in the notice become the numbers of what was left out."""
    if len(text) <= limit:
        return ClippedText(text)
    notice_size = len(_longest(notice, text))
    if notice_size * 2 > limit:
        notice, notice_size, mode = "", 0, "head"
    return _assemble(text, *_halves(max(limit - notice_size, 0), mode), notice)


def clip_bytes(text: str, limit: int, *, mode: ClipMode = "head_tail", notice: str = CLIP_NOTICE) -> ClippedText:
    """Clip to `limit` bytes of UTF-8 without splitting a character. A lone surrogate counts as three bytes."""
    if len(text) * 4 <= limit:
        return ClippedText(text)
    raw = text.encode("utf-8", "surrogatepass")
    if len(raw) <= limit:
        return ClippedText(text)
    notice_size = len(_longest(notice, text).encode("utf-8", "surrogatepass"))
    if notice_size * 2 > limit:
        notice, notice_size, mode = "", 0, "head"
    head, tail = _halves(max(limit - notice_size, 0), mode)
    while head and raw[head] & 0xC0 == 0x80:
        head -= 1
    start = len(raw) - tail
    while start < len(raw) and raw[start] & 0xC0 == 0x80:
        start += 1
    first = len(raw[:head].decode("utf-8", "surrogatepass"))
    last = len(raw[start:].decode("utf-8", "surrogatepass"))
    return _assemble(text, first, last, notice)


def clip_lines(text: str, limit: int, *, mode: ClipMode = "head_tail", notice: str = CLIP_NOTICE) -> ClippedText:
    """Clip to `limit` lines. From a limit of four on, the notice is one of them; below it, the line before the gap
    ends with a mark.
    """
    total = text.count("\n") + (0 if text.endswith("\n") or not text else 1)
    if total <= limit:
        return ClippedText(text)
    is_marked = bool(notice) and limit >= 4
    head, tail = _halves(max(limit - is_marked, 0), mode)
    first = _line_end(text, head)
    last = _line_start(text, tail)
    gap_notice = (
        notice.replace("{chars}", f"{last - first:,}").replace("{lines}", f"{total - head - tail:,}").strip("\n")
    )
    middle = gap_notice.replace("\n", " ") + "\n" if is_marked else ""
    result = text[:first]
    if notice and not is_marked and head and tail:
        result = f"{result[:-1]}{_GAP_MARK}\n"
    return ClippedText(
        result + middle + text[last:],
        cut=True,
        chars_left_out=last - first,
        lines_left_out=total - head - tail,
    )


def _line_end(text: str, lines: int) -> int:
    at = 0
    for _ in range(lines):
        at = text.find("\n", at) + 1
    return at


def _line_start(text: str, lines: int) -> int:
    at = len(text) - 1 if text.endswith("\n") else len(text)
    for _ in range(lines):
        at = text.rfind("\n", 0, at)
    return at + 1 if lines else len(text)


def clip_tokens(
    text: str, limit: int, counter: TokenCounter, *, mode: ClipMode = "head_tail", notice: str = CLIP_NOTICE
) -> ClippedText:
    """Clip to `limit` tokens, as `counter` counts the result.

    The number of characters that fit is guessed from the density so far and then counted. A guess that fits is replaced
    only by a longer one that fits.
    """
    if limit <= 0:
        return _assemble(text, 0, 0, "")
    most = limit * _TOKEN_CHARS
    if len(text) <= most:
        total = counter.count_text(text)
        if total <= limit:
            return ClippedText(text)
        guess = len(text) * limit // total
    else:
        guess = limit * 3
    notice_size = counter.count_text(_longest(notice, text))
    if notice_size * 2 > limit:
        notice, notice_size, mode = "", 0, "head"
    return _search(text, guess * (limit - notice_size) // limit, limit, counter, mode, notice)


def _search(text: str, guess: int, limit: int, counter: TokenCounter, mode: ClipMode, notice: str) -> ClippedText:
    best = ClippedText("", cut=True, chars_left_out=len(text), lines_left_out=text.count("\n"))
    low, high = 0, min(len(text) - 1, limit * _TOKEN_CHARS)  # low fits, above high nothing was found to fit
    for attempt in range(_TRIES):
        keep = min(max(guess, low + 1), high)
        if keep <= low:
            break
        candidate = _assemble(text, *_halves(keep, mode), notice)
        count = counter.count_text(candidate.text)
        if count <= limit:
            best, low = candidate, keep
            if limit - count <= limit // 50:
                break
        else:
            high = keep - 1
        # Follow the density at first, then halve: some texts have no even density.
        guess = keep * limit * 99 // max(count * 100, 1) if attempt < _TRIES // 2 else (low + high + 1) // 2
        if low and max(guess, low) - low <= low // 100:
            break
    return best if low else _crumb(text, limit, counter) or best


def _crumb(text: str, limit: int, counter: TokenCounter) -> ClippedText | None:
    """The first few characters, for a text so dense that no larger piece fits."""
    for keep in (16, 8, 4, 2, 1):
        clip = _assemble(text, keep, 0, "")
        if keep < len(text) and clip.text and counter.count_text(clip.text) <= limit:
            return clip
    return None
