"""Secrets in text: found by value and by shape, also where they are encoded, wrapped or cut.

A `Mask` is applied to everything that is written beside the log (traces, notes, offloaded files, the search index), to
everything that leaves the data folder (exports, pages, questions to another provider) and to what is shown. The log and
the session's own requests are not masked: a message is kept as it was sent, and no byte of a signed block may change.
"""

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from tidegate.core.edits import Replace
from tidegate.core.messages import Part, Result, Text
from tidegate.core.outcome import Effect, Outcome, Spill, make_spill
from tidegate.core.text.secret_patterns import (
    MASKED,
    SHORTEST_TOKEN,
    Shape,
    looks_random,
    mask_assigned,
    mask_key_ends,
    other_shapes,
    token_shapes,
)

__all__ = ["MASKED", "SecretMask", "keys_of", "mask_outcome"]

_MIN_SECRET_CHARS = 8
"""A configured value shorter than this is not looked for: it would be found in ordinary words."""
_MAX_ROUNDS = 4
FRAGMENT = 12
"""What a cut has left of a known secret is masked if it has so many characters."""
SAMPLE, SAMPLES = 8, 64
"""It is found by samples of so many characters, at most so many for each line of a secret."""
LONGEST_WRAPPED = 512
"""Characters of a key that is split over lines, at most."""
LONGEST_KNOWN = 8_192
"""Characters of a secret that are remembered, at most."""
REMEMBERED = 256
"""Secrets of which fragments are looked for; the oldest are given up first."""

_UNQUOTED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~")
_IN_URL = "/?&=:@+,;~!*()#$[]"
_WRAP = re.compile(r"\\?\r?\n[ \t]*|(?:\\++r)?\\++n[ \t]*")
_WORD = re.compile(r"[\w.+/=-]++", re.ASCII)
_WRAPPED = r"(?:\s|\\(?=[\r\n])|\\+[nr])*+"
_LINES = re.compile(r"\s|\\+[nrt]")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{24,}+(?:\\?\r?\n[ \t]*+[A-Za-z0-9+/_-]{2,}+|\\++n[A-Za-z0-9+/_-]{2,}+)*+={0,2}")
_BASE64_WORD = re.compile(r"[A-Za-z0-9+/_-]{24,}+={0,2}")
_ENCODED = 24
_TO_BASE64 = str.maketrans("-_", "+/")
_TEXT_BYTES = frozenset((9, 10, 13, *range(32, 127)))
_PERCENT = re.compile(r"(?:%[0-9A-Fa-f]{2})++")
_URL_RUN = re.compile(r"[^\s\"'<>\\]++")


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
        done = self._masked(text)
        self._clean = (len(done), hash(done))
        return done

    def _masked(self, text: str) -> str:
        for _ in range(_MAX_ROUNDS):  # what is masked may uncover a name with a value; it never takes more than a few
            long = _long_words(text)
            done = self._mask_fragments(self._mask_encoded(self._mask_plain(text, long), long), long)
            if done == text:
                break
            text = done
        return text

    def _mask_plain(self, text: str, long: str) -> str:
        """Mask what can be read as it stands. `long` are the words in which a token may be."""
        for form in self._forms:
            if form in text:
                text = text.replace(form, _value_mark(form))
        text = self._mask_wrapped_values(text)
        for shape in token_shapes():
            if shape.literal in long:
                text = shape.pattern.sub(self._shape_mark, self._mask_wrapped(text, shape))
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
        joined = "".join(text.replace("\\n", "").split()).replace("\\", "") if self._forms else ""
        for form in self._forms:
            if "".join(form.split()).replace("\\", "") in joined:  # a quick test; the search below is exact
                text = re.sub(_WRAPPED.join(map(re.escape, "".join(form.split()))), MASKED, text)
        return text

    def _mask_wrapped(self, text: str, shape: Shape) -> str:
        """Mask tokens that go on in the next line."""
        pieces, done = [], 0
        at = text.find(shape.literal)
        while at >= 0:
            word = _wrapped_word(text, at) if shape.begins(text, at) else None
            found = shape.pattern.fullmatch(word.text) if word is not None else None
            if word is not None and found is not None:
                self._learn(text[at : word.end])
                pieces += [text[done:at], _mark(found[1])]
                done = word.end
            at = text.find(shape.literal, max(at + 1, done))
        return "".join([*pieces, text[done:]]) if pieces else text

    # --- encoded --------------------------------------------------------------------------------------------------

    def _mask_encoded(self, text: str, long: str) -> str:
        if "%" in long and _PERCENT.search(long):
            text = _URL_RUN.sub(self._url_mark, text)
        if any(map(_decoded, _BASE64_WORD.findall(long))):
            text = _BASE64.sub(self._base64_mark, text)
        return text

    def _url_mark(self, match: re.Match[str]) -> str:
        run = match[0]
        if "%" not in run or not _PERCENT.search(run):
            return run
        decoded = _unquoted(run)
        done = self._mask_plain(decoded, decoded)
        return run if done == decoded else _quoted(done)

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
    """Mask each place where this sample stands, with all around it that is also around it in the secret."""
    pieces, done = [], 0
    place = text.find(sample.text)
    while place >= 0:
        start, end = place, place + SAMPLE
        while start > done and start > place - sample.at and text[start - 1] == secret[sample.at - (place - start) - 1]:
            start -= 1
        last = min(len(text), place - sample.at + len(secret))
        while end < last and text[end] == secret[sample.at + end - place]:
            end += 1
        if end - start >= FRAGMENT:
            pieces += [text[done:start], MASKED]
            done = end
        place = text.find(sample.text, end)
    return "".join([*pieces, text[done:]]) if pieces else text


def _long_words(text: str) -> str:
    """The words that are long enough for a token, and the last of each line, where a token may be wrapped or cut."""
    words = [word for word in text.split() if len(word) >= SHORTEST_TOKEN]
    words += [line[line.rfind(" ") + 1 :] for line in text.split("\n")]
    return " ".join(words)


def _mark(kept: str) -> str:
    """What is shown for a secret whose beginning may stay readable."""
    return f"{kept}{'…' if kept[-1:] in '_-.' or kept[-1:].isalnum() else ''}{MASKED}"


# --- values -----------------------------------------------------------------------------------------------------------


_KEYS = ("_API_KEY", "_TOKEN", "_SECRET", "_PASSWORD", "_ACCESS_KEY")


def keys_of(environment: Mapping[str, str]) -> list[str]:
    """The values of variables that hold keys, by their names."""
    return [
        value for name, value in environment.items() if name.upper().endswith(_KEYS) and len(value) >= _MIN_SECRET_CHARS
    ]


def _forms(value: str) -> Iterator[str]:
    """A value as it is, as JSON writes it (also inside a string of JSON, and as Go and HTML do), and as URLs do."""
    yield value
    for ascii_only in (True, False):
        once = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        yield from (once, once.replace("/", "\\/"), json.dumps(once, ensure_ascii=ascii_only)[1:-1])
        yield once.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    plain = value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    yield from (plain, plain.replace('"', "&quot;").replace("'", "&#x27;"), plain.replace('"', "&#34;"))
    quoted = [char if char in _UNQUOTED else _percent(char) for char in value]
    yield "".join(quoted)
    yield "".join(quoted).replace("%20", "+")
    yield "".join(part if part in _UNQUOTED else part.lower() for part in quoted)


def _quoted(text: str) -> str:
    return "".join([char if char in _UNQUOTED or char in _IN_URL else _percent(char) for char in text])


def _unquoted(text: str) -> str:
    return _PERCENT.sub(lambda match: bytes.fromhex(match[0].replace("%", "")).decode("utf-8", "replace"), text)


def _percent(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))


def _value_mark(value: str) -> str:
    """A value that is itself of a known shape keeps its prefix."""
    for shape in (*token_shapes(), *other_shapes()):
        found = shape.pattern.fullmatch(value) if shape.literal in value else None
        if found is not None:
            return _mark(found[1])
    return MASKED


# --- words that are split over lines --------------------------------------------------------------------------------


class _Wrapped(NamedTuple):
    """A word without the line breaks in it, and where it ends in the text."""

    text: str
    end: int


def _wrapped_word(text: str, at: int) -> _Wrapped | None:
    """The word that begins here, if it goes on in the next line. A line that looks like words does not belong to it."""
    word = _WORD.match(text, at, at + LONGEST_WRAPPED)
    if word is None:
        return None
    pieces, end = [word[0]], word.end()
    while (wrap := _WRAP.match(text, end)) and end - at < LONGEST_WRAPPED:
        piece = _WORD.match(text, wrap.end(), wrap.end() + LONGEST_WRAPPED)
        if piece is None or not looks_random(piece[0]):
            break
        pieces.append(piece[0])
        end = piece.end()
        if len(piece[0]) < SHORTEST_TOKEN:  # nobody wraps lines as short as that: it was the last
            break
    return _Wrapped("".join(pieces), end) if len(pieces) > 1 else None


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
        return base64.b64decode(plain[: len(plain) - (len(plain) % 4 == 1)] + "=" * (-len(plain) % 4 % 3))
    except ValueError:
        return b""


# --- what a stage writes to files -----------------------------------------------------------------------------------


def mask_outcome(outcome: Outcome, mask: Callable[[str], str]) -> Outcome:
    """The same with secrets masked in what goes to a file, and the new SHA-256 wherever a notice gives the old one.

    The view itself is not masked: what was said to the model stays said.
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
