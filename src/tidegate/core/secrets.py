"""Secrets in text, by value and by shape.

What goes to a file that others may read (the trace, offloaded results, exports, errors) passes through here. The log
and the requests do not: a message that was sent is kept as it was sent, and a signed block must not change by a byte.

A shape is a prefix that a vendor gives its keys, or a name that says what stands behind it (`password=`). Shapes count
where a word begins, never inside a longer one: hashes, ids and pictures in base64 stay what they are. Every pattern
begins with a letter, for which a search is fast, and gives back nothing it has taken: work grows with the text only.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import NamedTuple

import msgspec

from tidegate.core.edits import Replace
from tidegate.core.messages import Part, Result, Text
from tidegate.core.outcome import Effect, Outcome, Spill, spill

MASKED = "[masked]"
SHORTEST = 8
"""A configured value shorter than this is not looked for: it would be found in ordinary words."""
ROUNDS = 4
_UNQUOTED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~")

# A prefix that stays readable, and what follows it.
TOKENS = r"""
sk-ant-         [\w-]{20,}+
sk-proj-        [\w-]{20,}+
sk-             (?=[\w-]{0,60}?[A-Za-z0-9]{12})(?=[\w-]{0,60}?[0-9])[\w-]{20,}+
sk_live_        \w{16,}+
sk_test_        \w{16,}+
rk_live_        \w{16,}+
rk_test_        \w{16,}+
whsec_          [\w+/=]{24,}+
AKIA            [A-Z2-7]{16}(?!\w)
ASIA            [A-Z2-7]{16}(?!\w)
ghp_            [A-Za-z0-9]{36,}+
gho_            [A-Za-z0-9]{36,}+
ghu_            [A-Za-z0-9]{36,}+
ghs_            [A-Za-z0-9]{36,}+
ghr_            [A-Za-z0-9]{36,}+
github_pat_     \w{22,}+
glpat-          [\w-]{20,}+
gldt-           [\w-]{20,}+
glrt-           [\w-]{20,}+
gsk_            [A-Za-z0-9]{40,}+
xoxa-           [\w-]{10,}+
xoxb-           [\w-]{10,}+
xoxe-           [\w-]{10,}+
xoxp-           [\w-]{10,}+
xoxr-           [\w-]{10,}+
xoxs-           [\w-]{10,}+
xoxe.xoxp-      [\w-]{10,}+
xapp-           [\w-]{20,}+
xai-            \w{60,}+
hooks.slack.com/services/  [\w/]{20,}+
AIza            [\w-]{35}(?![\w-])
ya29.           [\w-]{20,}+
GOCSPX-         [\w-]{20,}+
hf_             [A-Za-z0-9]{30,}+
npm_            [A-Za-z0-9]{36,}+
pypi-           [\w-]{50,}+
pplx-           [A-Za-z0-9]{40,}+
nvapi-          [\w-]{40,}+
r8_             [A-Za-z0-9]{37,}+
tvly-           [\w-]{24,}+
dop_v1_         [0-9a-f]{64}(?!\w)
dapi            [0-9a-f]{32}(?!\w)
dckr_pat_       [\w-]{20,}+
shpat_          [0-9a-fA-F]{32}(?!\w)
shpss_          [0-9a-fA-F]{32}(?!\w)
lin_api_        [A-Za-z0-9]{32,}+
hvs.            [\w-]{24,}+
SG.             [\w-]{16,40}+\.[\w-]{30,}+
AGE-SECRET-KEY-1  [A-Z0-9]{50,}+
eyJ             [\w-]{8,}+\.eyJ[\w-]{8,}+\.[\w-]{8,}+
"""

_GAP = r"(?:\s|\\[nr])*+"
_PEM = r"PRIVATE\ KEY(?:\ BLOCK)?-----"
_KEY = rf"""
    (?:{_GAP}(?:Proc-Type|DEK-Info|Version|Comment|Hash):[^\n\\]{{0,200}}+)*+
    (?:{_GAP}[A-Za-z0-9+/=]{{16,}}+)++
    (?:{_GAP}[A-Za-z0-9+/=]{{0,15}}+{_GAP}-----END\ [A-Z0-9 ]{{0,24}}?{_PEM})?
"""
_SCHEME = r"(?:Basic|basic|Bearer|bearer|Token|token|ApiKey|Negotiate)\ {1,3}"
_HEADER = rf"""\\*+["']?[ \t]{{0,3}}[:=][ \t]{{0,3}}\\*+["']?(?:{_SCHEME}|(?=[^\s"'\d]{{0,60}}?\d))"""


class _Shape(NamedTuple):
    """`head` stays readable, `body` is masked. A head begins with a plain letter: that makes the search fast."""

    head: str
    body: str


_OTHERS = [
    _Shape(rf"-----BEGIN\ [A-Z0-9 ]{{0,24}}?{_PEM}", _KEY),
    _Shape(r":AA(?<=[0-9]{8}:AA)", r"[\w-]{32,}+"),
    _Shape(r"""://[^\s/:@"'<>\\]{0,64}+:(?![$<{%*\[]|pass\w*@)""", r"""[^\s/"'<>\\]{1,256}(?=@)"""),
    *(_Shape(rf"{sign}sig=", r"[\w%+/=-]{30,}+") for sign in (r"\?", "&")),
    *(_Shape(rf"{b}earer\ {{1,3}}(?=[^\s\d]{{0,100}}?\d)", r"[\w.~+/=-]{16,}+") for b in "Bb"),
    *(_Shape(name + _HEADER, r"[\w.~+/=:-]{8,}+") for name in ("Authorization", "authorization", "AUTHORIZATION")),
    *(_Shape(rf"{c}ookie:\ {{0,2}}[\w.-]{{1,60}}+=(?!\[)", r"""[^\s"';]{8,}+(?:;\ ?[^\s"';]++)*+""") for c in "Cc"),
]


def _token(row: str) -> _Shape:
    prefix, body = row.split()
    word = "[A-Za-z0-9_-]" if prefix.startswith("sk-") else "[A-Za-z0-9_]"
    p = re.escape(prefix)
    # Not inside a word; but an escaped line end, a colour code and a quoted sign before it are no part of a word.
    begins = rf"(?:(?<!{word}{p})|(?<=\\[nrt]{p})|(?<=[0-9\[]m{p})|(?<=%[0-9A-Fa-f]{{2}}{p}))"
    return _Shape(p + begins, body)


# Names whose value is a secret, as people write them: API_KEY, apiKey, ApiKey, api-key.
_NAMES = (
    "password passwd passphrase pwd _pass secret token api.key access.key private.key secret.key account.key"
    " signing.key encryption.key master.key shared.key auth.key"
).split()
_PASS = re.compile(r"pass|pwd|secret", re.IGNORECASE).match
_NOT_SECRET_BEFORE = re.compile(
    r"(?:next|page|continuation|cancellation|eos|bos|pad|unk|sep|stop|max|csrf)[_-]?$", re.I
)
_OPTION = re.compile(r"--[\w-]{0,40}$").search
_PLAIN = re.compile(
    r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|v?[0-9]+(?:\.[0-9]+)+|(.)\1*|[./~].*|https?:.*|.*/.*\.\w{1,5}"
).fullmatch


def _assignment() -> str:
    names = []
    for name in _NAMES:
        first, dot, last = name.partition(".")
        join = "[_-]?" if dot else ""
        camel = first.capitalize() + join + last.capitalize()
        names += [first + join + last, camel, (first + "#" + last).upper().replace("#", join)]
        names += [first + join + last.capitalize()] if dot else []
    either = "|".join(dict.fromkeys(names))
    return rf"""
             (?P<name>{either})\\*+["']?
             (?P<op>[ \t]{{0,3}}(?::=|=>|[:=])[ \t]{{0,3}}|>|\ )(?:[Ss]tr(?:ing)?\ ?=\ ?)?
             (?:(?P<quote>\\*+["`])(?P<double>[^"`\s\\]{{8,}}+)
               |(?P<tick>\\*+')(?P<single>[^'\s\\]{{8,}}+)
               |(?P<bare>[\w+/=~!@#%^*.:-]{{8,}}+)(?![(\[{{…]))"""


class _Patterns(NamedTuple):
    """`heads` is `shapes` with a group around each head; groups would make the search slow."""

    shapes: re.Pattern[str]
    heads: re.Pattern[str]
    assigned: re.Pattern[str]


@cache
def _patterns() -> _Patterns:
    every = [*map(_token, TOKENS.strip().splitlines()), *_OTHERS]
    shapes = "|".join(shape.head + shape.body for shape in every)
    heads = "|".join(f"({shape.head}){shape.body}" for shape in every)
    return _Patterns(*(re.compile(each, re.VERBOSE | re.ASCII) for each in (shapes, heads, _assignment())))


class Mask:
    """`mask(text)`: the configured values and whatever looks like a key become `[masked]`, or `sk-…[masked]`.

    Values are also found as JSON and URLs write them. Masking twice changes nothing more.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        forms = {form for value in values if len(value) >= SHORTEST for form in _forms(value)}
        either = "|".join(re.escape(form) for form in sorted(forms, key=lambda form: (-len(form), form)))
        self._values = re.compile(either) if forms else None
        self._clean = (0, hash(""))  # length and hash of what was given last

    def __call__(self, text: str) -> str:
        if (len(text), hash(text)) == self._clean:  # a large file comes by twice: with its notice, and to be written
            return text
        done = self._masked(text)
        self._clean = (len(done), hash(done))
        return done

    def _masked(self, text: str) -> str:
        found = _patterns()
        for _ in range(ROUNDS):  # what is masked may uncover a name with a value; it never takes more than a few
            done = text if self._values is None else self._values.sub(_value_masked, text)
            done = found.assigned.sub(_assigned, found.shapes.sub(_shape_masked, done))
            if done == text:
                break
            text = done
        return text


def _forms(value: str) -> Iterable[str]:
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    quoted = [char if char in _UNQUOTED else _percent(char) for char in value]
    yield "".join(quoted)
    yield "".join(quoted).replace("%20", "+")
    yield "".join(part if part in _UNQUOTED else part.lower() for part in quoted)


def _percent(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))


def _value_masked(match: re.Match[str]) -> str:
    """A value that is itself of a known shape keeps its prefix."""
    shaped = _patterns().shapes.sub(_shape_masked, match[0])
    return shaped if shaped != match[0] and shaped.endswith(MASKED) and shaped.count(MASKED) == 1 else MASKED


def _shape_masked(match: re.Match[str]) -> str:
    again = _patterns().heads.match(match.string, match.start())
    kept = again[again.lastindex or 0] if again else ""
    return f"{kept}{'…' if kept[-1:] in '_-.' or kept[-1:].isalnum() else ''}{MASKED}"


def _assigned(match: re.Match[str]) -> str:
    value = match["double"] or match["single"] or match["bare"]
    return match[0][: len(match[0]) - len(value)] + MASKED if _is_secret(match, value) else match[0]


def _is_secret(match: re.Match[str], value: str) -> bool:
    """Does a value behind such a name look like one that someone keeps secret, and not like code or a placeholder?"""
    if MASKED in value or value[0] in "$<{%*[(" or "${" in value or "{{" in value or _PLAIN(value):
        return False
    before = match.string[max(0, match.start() - 44) : match.start()]
    if _NOT_SECRET_BEFORE.search(before) or (match["op"] == " " and not _OPTION(before)):
        return False
    quoted, named = match["bare"] is None, _PASS(match["name"].lstrip("_")) is not None
    if quoted and named:
        return True
    digits = sum(char.isdigit() for char in value)
    if not digits or digits == len(value) or not any(char.isalpha() for char in value):
        return False
    mixed = len(value) >= 20 and value != value.lower() and value != value.upper()
    return quoted or mixed or digits >= 3 or (named and match["op"] in ("=", ":", ": ", ">", " "))


def masked(outcome: Outcome, mask: Callable[[str], str]) -> Outcome:
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
    return spill(effect.path, text, append=effect.append)


def _renamed(part: Part, sums: Mapping[str, str]) -> Part:
    """Only in the notice, which is the last text: the same digits elsewhere may be what a tool wrote."""
    if isinstance(part, Result) and part.parts and isinstance(last := part.parts[-1], Text):
        text = last.text
        for old, new in sums.items():
            text = text.replace(old, new)
        return msgspec.structs.replace(part, parts=(*part.parts[:-1], Text(text)))
    return part
