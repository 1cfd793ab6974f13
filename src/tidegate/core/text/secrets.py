"""Secrets in text: found by value and by shape, also where they are encoded, wrapped or cut.

A `SecretMask` is applied to everything that is written beside the log (traces, notes, offloaded files, the search
index), to everything that leaves the data folder (exports, pages, questions to another provider) and to what is shown.
The log and the session's own requests are not masked: a message is kept as it was sent, and no byte of a signed block
may change.
"""

import binascii
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from tidegate.core.edits import Replace
from tidegate.core.messages import Part, Result, Text
from tidegate.core.outcome import Effect, Outcome, Spill, make_spill
from tidegate.core.text.joined_text import KEY_CHARS, JoinedText, join_layouts, join_text, strip_pending_break
from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.core.text.secret_patterns import (
    MASKED,
    SHORTEST_TOKEN,
    Shape,
    find_assigned,
    looks_random,
    mask_assigned,
    mask_key_ends,
    other_shapes,
    token_prefixes_in,
    token_shapes,
    token_shapes_in,
)

__all__ = ["MASKED", "SecretMask", "SecretString", "keys_of", "mask_outcome"]

_MIN_SECRET_CHARS = 8
"""A configured value shorter than this is not looked for: it would be found in ordinary words."""
_MAX_ROUNDS = 4
FRAGMENT = 12
"""The rest of a known secret after a cut is masked if it has this many characters."""
SAMPLE, SAMPLES = 8, 64
"""It is found by samples of this length; the second number is the most samples per line of a secret."""
LONGEST_SPLIT, MOST_PIECES, MOST_TRIES = 2_048, 32, 16
"""Characters of a key that is split, pieces of it, and places of one word at which it may begin, at most."""
LAYOUT_CHARS, MOST_LAYOUTS = 4_096, 100
"""Characters from the beginning of a line with a key in which the rest is looked for in tables, and such lines."""
LONGEST_KNOWN = 8_192
"""Characters of a secret that are remembered, at most."""
REMEMBERED = 256
"""Secrets of which fragments are looked for; the oldest are given up first."""

_UNQUOTED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~")
_IN_URL = "/?&=:@+,;~!*()#$[]"
_WRAP = LazyPattern(r"\\?\r?\n[ \t]*|(?:\\++r)?\\++n[ \t]*")
_WORD = LazyPattern(rf"{KEY_CHARS}++", re.ASCII)
_LAST_WORD = LazyPattern(rf"(?<!{KEY_CHARS}){KEY_CHARS}*+\Z", re.ASCII)
_WRAPPED = r"(?:\s|\\(?=[\r\n])|\\+[nr])*+"
_CELL_END = LazyPattern(rf"{KEY_CHARS}{{0,2048}}+[ \t]{{0,2}}(?:[|│┃║\r\n]|\\+[rn])", re.ASCII)
_LINES = LazyPattern(r"\s|\\+[nrt]")
_BASE64 = LazyPattern(r"[A-Za-z0-9+/_-]{24,}+(?:\\?\r?\n[ \t]*+[A-Za-z0-9+/_-]{2,}+|\\++n[A-Za-z0-9+/_-]{2,}+)*+={0,2}")
_BASE64_WORD = LazyPattern(r"[A-Za-z0-9+/_-]{24,}+={0,2}")
_ENCODED = 24
_QUOTES = frozenset("\"'`\\")
_TO_BASE64 = str.maketrans("-_", "+/")
_TEXT_BYTES = frozenset((9, 10, 13, *range(32, 127)))
_PERCENT = LazyPattern(r"(?:%[0-9A-Fa-f]{2})++")
_URL_RUN = LazyPattern(r"[^\s\"'<>\\]++")


class SecretString(str):
    """Text whose `repr` is masked, so that no dump of a struct prints it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'[masked]'" if self else "''"


class SecretMask:
    """`mask(text)`: the configured values and everything that looks like a key become `[masked]`, or `sk-…[masked]`.

    Values and keys are also found as JSON, URLs and base64 write them, and where a line break splits them. A mask
    remembers the secrets it has seen, so that it also hides what is left of one after a text was cut. Masking twice
    changes nothing more.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._configured: tuple[str, ...] = ()
        self._forms: tuple[str, ...] = ()
        self._own: dict[str, tuple[_Sample, ...]] = {}
        self._known: dict[str, tuple[_Sample, ...]] = {}
        self._clean = (0, hash(""))  # length and hash of what was given last
        self.add(values)

    def add(self, values: Iterable[str]) -> None:
        """Hide these values, too, from now on."""
        new = [value for value in values if len(value) >= _MIN_SECRET_CHARS and value not in self._configured]
        if new:
            self._configured = (*self._configured, *dict.fromkeys(new))
            forms = {form for value in self._configured for form in _forms(value)}
            self._forms = tuple(sorted(forms, key=lambda form: (-len(form), form)))
            self._own = {line: samples for form in self._forms for line, samples in _samples_of_lines(form)}
            self._clean = (0, hash(""))

    def fresh(self) -> "SecretMask":
        """A mask of the same values that remembers nothing: its results depend on what it is given only."""
        return SecretMask(self._configured)

    def __call__(self, text: str) -> str:
        if (len(text), hash(text)) == self._clean:  # a large file comes by twice: with its notice, and to be written
            return text
        result = self._masked(text)
        self._clean = (len(result), hash(result))
        return result

    def _masked(self, text: str) -> str:
        for _ in range(_MAX_ROUNDS):  # what is masked may uncover a name with a value; it never takes more than a few
            long = _long_words(text)
            result = self._mask_fragments(self._mask_encoded(self._mask_plain(text, long), long), long)
            if result == text:
                break
            text = result
        return text

    def _mask_plain(self, text: str, long: str) -> str:
        """Mask secrets in plain text. `long` are the words that may contain a token."""
        for form in self._forms:
            if form in text:
                text = text.replace(form, _value_mark(form))
        text = self._mask_split(self._mask_wrapped_values(text))
        for shape in token_shapes_in(long):
            text = shape.pattern.sub(self._shape_mark, text)
        for shape in other_shapes():
            if shape.literal in text:
                text = shape.pattern.sub(self._shape_mark, text)
        return mask_assigned(mask_key_ends(text, self._learn), self._learn)

    def _shape_mark(self, match: re.Match[str]) -> str:
        self._learn(match[0][len(match[1]) :])
        return _mark(match[1])

    # --- split over lines -----------------------------------------------------------------------------------------

    def _mask_wrapped_values(self, text: str) -> str:
        """Mask configured values with line breaks in them, or with the spaces that a summary makes of these."""
        one_line = "".join(text.replace("\\n", "").split()).replace("\\", "") if self._forms else ""
        for form in self._forms:
            if "".join(form.split()).replace("\\", "") in one_line:  # a quick test; the search below is exact
                text = re.sub(_WRAPPED.join(map(re.escape, "".join(form.split()))), MASKED, text)
        return text

    def may_continue(self, text: str) -> bool:
        """Whether words after this text may complete a secret that begins in it, or belong to one that it masks."""
        tail = text[-LONGEST_SPLIT:]
        core = strip_pending_break(tail)
        joined_text = join_text(core)
        plain = "".join(joined_text.text.split())
        if any(_ends_with_beginning(plain, "".join(form.split())) for form in self._forms):
            return True
        word = _LAST_WORD.search(joined_text.text)
        start = word.start() if word is not None else len(joined_text.text)
        if joined_text.text[start - 1 : start] in _QUOTES or not _QUOTES.isdisjoint(tail[len(core) :]):
            return start < len(joined_text.text)
        return any(_may_begin_token(joined_text, start, shape) for shape in token_shapes())

    def _mask_split(self, text: str) -> str:
        """Mask what goes on after a line end, or in another string of a concatenation."""
        joined_text = join_text(text)
        places = [*self._find_split(joined_text)] if joined_text.breaks else []
        for start in self._find_beginnings(text):
            for layout in join_layouts(text[start : start + LAYOUT_CHARS]):
                places += [(start + at, start + end, mark) for at, end, mark in self._find_in_layout(layout)]
        if not places:
            return text
        pieces, last_end = [], 0
        for start, end, mark in sorted(places):
            if start >= last_end:
                self._learn(text[start:end])
                self._learn(joined_text.text[joined_text.find_place(start) : joined_text.find_place(end)])
                pieces += [text[last_end:start], mark]
                last_end = end
        return "".join([*pieces, text[last_end:]]) if pieces else text

    def _find_beginnings(self, text: str) -> list[int]:
        """Where lines begin that have a key which may go on in the next one: most texts have none."""
        starts = token_prefixes_in(text)
        for form in self._forms:
            if form[:SAMPLE] in text:
                starts.append(form[:SAMPLE])
        beginnings: list[int] = []
        for match in re.finditer("|".join(map(re.escape, starts)), text) if starts else ():
            if beginnings and match.start() < beginnings[-1] + LAYOUT_CHARS // 2:
                continue
            if _CELL_END.match(text, match.end()):
                escaped = text.rfind("\\n", 0, match.start())
                beginnings.append(max(text.rfind("\n", 0, match.start()) + 1, escaped + 2 if escaped >= 0 else 0))
                if len(beginnings) == MOST_LAYOUTS:
                    break
        return beginnings

    def _find_in_layout(self, layout: JoinedText) -> Iterator[tuple[int, int, str]]:
        """As `_find_split`, but each piece of a key has a place of its own: what is between them stays."""
        spans = [
            (*match.span(), _value_mark(form))
            for form in self._forms
            if form in layout.text
            for match in re.finditer(re.escape(form), layout.text)
        ]
        for shape in token_shapes():
            spans += [(*span, _mark(shape.literal)) for span in _find_split_tokens(layout, shape)]
        for start, end, mark in spans:
            breaks = layout.find_breaks(start, end, MOST_PIECES)
            if breaks:
                starts = [layout.find_start(start), *(each.end for each in breaks)]
                ends = [*(each.start for each in breaks), layout.find_end(end)]
                marks = [mark, *(MASKED for _ in breaks)]
                yield from zip(starts, ends, marks, strict=True)

    def _find_split(self, joined_text: JoinedText) -> Iterator[tuple[int, int, str]]:
        """Where secrets with breaks in them begin and end in the original, and their marks."""
        for form in self._forms:
            for match in re.finditer(re.escape(form), joined_text.text) if form in joined_text.text else ():
                yield from _locate(joined_text, *match.span(), _value_mark(form))
        for shape in token_shapes_in(joined_text.text):
            for start, end in _find_split_tokens(joined_text, shape):
                yield from _locate(joined_text, start, end, _mark(shape.literal))
        certain = joined_text.keep_certain()
        if certain.breaks:
            for shape in other_shapes():
                for match in shape.pattern.finditer(certain.text) if shape.literal in certain.text else ():
                    yield from _locate(certain, match.end(1), match.end(), MASKED)
            for start, end in find_assigned(certain.text):
                yield from _locate(certain, start, end, MASKED)

    # --- encoded --------------------------------------------------------------------------------------------------

    def _mask_encoded(self, text: str, long: str) -> str:
        if "%" in long and _PERCENT.search(long):
            text = _URL_RUN.sub(self._url_mark, text)
        longest = " ".join([word for word in long.split() if len(word) >= _ENCODED])
        if longest and any(map(_decoded, _BASE64_WORD.findall(longest))):
            text = _BASE64.sub(self._base64_mark, text)
        return text

    def _url_mark(self, match: re.Match[str]) -> str:
        run = match[0]
        if "%" not in run or not _PERCENT.search(run):
            return run
        decoded = _unquoted(run)
        clean_text = self._mask_plain(decoded, decoded)
        return run if clean_text == decoded else _quoted(clean_text)

    def _base64_mark(self, match: re.Match[str]) -> str:
        for run in _base64_runs(match[0]):
            decoded = _decoded(run)
            if decoded and self._mask_plain(decoded, decoded) != decoded:
                self._learn(run)
                return MASKED + match[0][len(run) :]
        return match[0]

    # --- cut ------------------------------------------------------------------------------------------------------

    def _learn(self, secret: str) -> None:
        self._known.update(_samples_of_lines(secret))
        for oldest in list(self._known)[: max(0, len(self._known) - REMEMBERED)]:
            self._known.pop(oldest, None)

    def _mask_fragments(self, text: str, long: str) -> str:
        for secret, samples in (*self._own.items(), *tuple(self._known.items())):
            for sample in samples:
                if sample.text in long and sample.text in text:
                    text = _mask_fragment(text, secret, sample)
        return text


class _Sample(NamedTuple):
    """A few characters of a secret, and where they are in it."""

    at: int
    text: str


def _samples_of_lines(secret: str) -> "Iterator[tuple[str, tuple[_Sample, ...]]]":
    """Each line of a secret: a cut may leave any of them."""
    for line in _LINES.split(secret):
        if len(line) >= FRAGMENT and MASKED not in line:
            yield line[:LONGEST_KNOWN], tuple(_samples(line[:LONGEST_KNOWN]))


def _samples(secret: str) -> Iterator[_Sample]:
    """Samples that look like nothing else, as close together as they may be many."""
    step = max(SAMPLE, len(secret) // SAMPLES)
    for at in (*range(0, len(secret) - SAMPLE, step), len(secret) - SAMPLE):
        sample = secret[at : at + SAMPLE]
        if looks_random(sample):
            yield _Sample(at, sample)


def _mask_fragment(text: str, secret: str, sample: _Sample) -> str:
    """Mask each place where this sample occurs, with all surrounding text that is also in the secret."""
    pieces, last_end = [], 0
    place = text.find(sample.text)
    while place >= 0:
        start, end = place, place + SAMPLE
        while (
            start > last_end
            and start > place - sample.at
            and text[start - 1] == secret[sample.at - (place - start) - 1]
        ):
            start -= 1
        last = min(len(text), place - sample.at + len(secret))
        while end < last and text[end] == secret[sample.at + end - place]:
            end += 1
        if end - start >= FRAGMENT:
            pieces += [text[last_end:start], MASKED]
            last_end = end
        place = text.find(sample.text, end)
    return "".join([*pieces, text[last_end:]]) if pieces else text


def _long_words(text: str) -> str:
    """The words that are long enough for a token, and the last of each line: a token may go on in the next line, and
    a cut may have left only the beginning of one.
    """
    words = [word for word in text.split() if len(word) >= SHORTEST_TOKEN]
    words += [line[line.rfind(" ") + 1 :] for line in text.split("\n")]
    return " ".join(words)


def _mark(prefix: str) -> str:
    """What is shown for a secret whose beginning may stay readable."""
    return f"{prefix}{'…' if prefix[-1:] in '_-.' or prefix[-1:].isalnum() else ''}{MASKED}"


# --- values -----------------------------------------------------------------------------------------------------------


_KEYS = ("_API_KEY", "_TOKEN", "_SECRET", "_PASSWORD", "_ACCESS_KEY")


def keys_of(environment: Mapping[str, str]) -> list[str]:
    """The values of variables that hold keys, by their names."""
    return [
        value for name, value in environment.items() if name.upper().endswith(_KEYS) and len(value) >= _MIN_SECRET_CHARS
    ]


def _forms(value: str) -> Iterator[str]:
    """A value as it is, as JSON writes it (also inside a string of JSON, and as Go and HTML do), and as URLs do."""
    import json  # noqa: PLC0415 - only where values are configured

    yield value
    for ascii_only in (True, False):
        once = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        yield from (once, once.replace("/", "\\/"), json.dumps(once, ensure_ascii=ascii_only)[1:-1])
        yield once.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    plain = value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    yield from (plain, plain.replace('"', "&quot;").replace("'", "&#x27;"), plain.replace('"', "&#34;"))
    escapes = [char if char in _UNQUOTED else _percent(char) for char in value]
    yield "".join(escapes)
    yield "".join(escapes).replace("%20", "+")
    yield "".join(part if part in _UNQUOTED else part.lower() for part in escapes)


def _quoted(text: str) -> str:
    return "".join([char if char in _UNQUOTED or char in _IN_URL else _percent(char) for char in text])


def _unquoted(text: str) -> str:
    return _PERCENT.sub(lambda match: bytes.fromhex(match[0].replace("%", "")).decode("utf-8", "replace"), text)


def _percent(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))


def _value_mark(value: str) -> str:
    """A value that is itself of a known shape keeps its prefix."""
    for shape in (*token_shapes(), *other_shapes()):
        match = shape.pattern.fullmatch(value) if shape.literal in value else None
        if match is not None:
            return _mark(match[1])
    return MASKED


# --- split words ----------------------------------------------------------------------------------------------------


def _locate(joined_text: JoinedText, start: int, end: int, mark: str) -> Iterator[tuple[int, int, str]]:
    """The place in the original of what has a break in it."""
    if joined_text.find_breaks(start, end):
        yield joined_text.find_start(start), joined_text.find_end(end), mark


def _may_begin_token(joined_text: JoinedText, start: int, shape: Shape) -> bool:
    """Whether the last word, which begins here, has such a token that may go on, or ends in the beginning of one."""
    text, end = joined_text.text, len(joined_text.text)
    at = text.find(shape.literal, start)
    while at >= 0:
        if _follow_token(joined_text, at, end, shape).is_open:
            return True
        at = text.find(shape.literal, at + 1)
    return any(
        text.endswith(shape.literal[:length], start) and not text[max(start, end - length - 1) : end - length].isalnum()
        for length in range(1, min(len(shape.literal), end - start + 1))
    )


def _ends_with_beginning(text: str, secret: str) -> bool:
    tail = text[-(len(secret) - 1) :]
    at = tail.find(secret[0])
    while at >= 0:
        if secret.startswith(tail[at:]):
            return True
        at = tail.find(secret[0], at + 1)
    return False


def _find_split_tokens(joined_text: JoinedText, shape: Shape) -> Iterator[tuple[int, int]]:
    """Where such tokens with breaks in them begin and end in the joined text."""
    at = joined_text.text.find(shape.literal)
    tries = word_end = 0
    while at >= 0:
        if at >= word_end and (word := _WORD.match(joined_text.text, at)):
            tries, word_end = 0, word.end()
        tries += 1
        end = _follow_token(joined_text, at, word_end, shape).end
        if end:
            yield at, end
        at = joined_text.text.find(shape.literal, max(at + 1, end) if tries < MOST_TRIES else word_end)


class _SplitToken(NamedTuple):
    """Where a token ends that has a break in it; 0 if it has none. `is_open`: it may go on after its word."""

    end: int = 0
    is_open: bool = False


def _follow_token(joined_text: JoinedText, at: int, word_end: int, shape: Shape) -> _SplitToken:
    """The token that begins here. A line that looks like words does not belong to it, unless the token would be too
    short without it. Where it is certain that parts are one text, short ones of the same length belong to it, too.
    """
    breaks = joined_text.find_breaks(at, min(word_end, at + LONGEST_SPLIT), MOST_PIECES)
    start, body = joined_text.find_start(at), at + len(shape.literal)
    left = joined_text.original[max(0, start - 8) : start]
    if not shape.begins(left + joined_text.text[at:body], len(left)):
        return _SplitToken()
    end, body_text = 0, joined_text.text[body : body + 2 * SHORTEST_TOKEN]
    is_plausible = looks_random(body_text) or any(map(str.isdigit, body_text))
    width = breaks[0].at - at if breaks else 0
    for number, each in enumerate(breaks, 1):
        piece_end = breaks[number].at if number < len(breaks) else min(word_end, each.at + LONGEST_SPLIT)
        piece = joined_text.text[each.at : piece_end]
        before, width = width, len(piece) + _count_after_wrap(joined_text.original[each.start : each.end])
        is_alike = each.is_certain and width == before
        belongs = each.is_string or is_alike or (looks_random(piece) and "=" not in piece.rstrip("="))
        if not belongs and (not is_plausible or shape.pattern.fullmatch(joined_text.text[at : each.at])):
            return _SplitToken(end)
        match = shape.pattern.match(
            joined_text.text[at:piece_end]
        )  # without the word before, which a break may separate
        end = at + match.end() if match is not None and at + match.end() > each.at else end
        is_part = each.is_string or is_alike or (each.is_certain and not end)
        if not is_part and each.at > body and len(piece) < SHORTEST_TOKEN:
            return _SplitToken(end)  # lines are not wrapped as short as that: it was the last
    return _SplitToken(end, is_open=True)


def _count_after_wrap(broken: str) -> int:
    """The characters of a break that look like a line's number: they may be the beginning of the next piece."""
    wrap = _WRAP.search(broken)
    return len(broken) - wrap.end() if wrap is not None else 0


# --- base64 ---------------------------------------------------------------------------------------------------------


def _base64_runs(text: str) -> Iterator[str]:
    """What of these lines may be one text in base64. Its lines have the same length, but the last may be shorter; and
    the line that seems to be the last may be a word that only follows."""
    wraps = [*_WRAP.finditer(text)]
    starts = [0, *(wrap.end() for wrap in wraps)]
    ends = [*(wrap.start() for wrap in wraps), len(text)]
    lines = 1
    while lines < len(ends) and ends[lines - 1] - starts[lines - 1] == ends[0] >= ends[lines] - starts[lines]:
        lines += 1
    yield text[: ends[lines - 1]]
    if lines > 1:
        yield text[: ends[lines - 2]]


def _decoded(run: str) -> str:
    """The text that this is in base64; empty if it is none."""
    first = _bytes(run[:_ENCODED])
    if not first or not _TEXT_BYTES.issuperset(first):
        return ""
    whole = _bytes(_WRAP.sub("", run))
    try:
        return whole.decode()
    except UnicodeDecodeError:
        return ""


def _bytes(run: str) -> bytes:
    plain = run.rstrip("=").translate(_TO_BASE64)
    try:
        return binascii.a2b_base64(plain[: len(plain) - (len(plain) % 4 == 1)] + "=" * (-len(plain) % 4 % 3))
    except ValueError:
        return b""


# --- what a stage writes to files -----------------------------------------------------------------------------------


def mask_outcome(outcome: Outcome, mask: Callable[[str], str]) -> Outcome:
    """The same with secrets masked in what goes to a file, and the new SHA-256 where a notice gives the old one.

    The view itself is not masked: it must match what was sent to the model.
    """
    effects = tuple(_masked(effect, mask) for effect in outcome.effects)
    pairs = zip(outcome.effects, effects, strict=True)
    sums = {old.sha256: new.sha256 for old, new in pairs if isinstance(old, Spill) and isinstance(new, Spill)}
    sums = {old: new for old, new in sums.items() if old != new}
    if not sums:
        return outcome
    edits = tuple(
        msgspec.structs.replace(edit, parts=tuple(_renamed(part, sums) for part in edit.parts))
        if isinstance(edit, Replace)
        else edit
        for edit in outcome.edits
    )
    return msgspec.structs.replace(outcome, edits=edits, effects=effects)


def _masked(effect: Effect, mask: Callable[[str], str]) -> Effect:
    if not isinstance(effect, Spill) or not effect.text or (text := mask(effect.text)) == effect.text:
        return effect
    return make_spill(effect.path, text, append=effect.append)


def _renamed(part: Part, sums: Mapping[str, str]) -> Part:
    """Only in the notice, which is the last text: the same digits elsewhere may be what a tool wrote."""
    if isinstance(part, Result) and part.parts and isinstance(last := part.parts[-1], Text):
        text = last.text
        for old, new in sums.items():
            text = text.replace(old, new)
        return msgspec.structs.replace(part, parts=(*part.parts[:-1], Text(text)))
    return part
