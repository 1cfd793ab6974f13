"""What secrets look like: prefixes that vendors give their keys, headers, URLs, PEM blocks and `password=` lines.

Each shape has a literal that every match contains. Most texts contain none of them, and looking for a literal is much
faster than running a pattern. No pattern backtracks over what it has read, so the work grows with the text only. Shapes
match at the beginning of a word: hashes, ids and pictures in base64 are left alone.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from itertools import pairwise

from tidegate.core.text.lazy_pattern import LazyPattern

MASKED = "[masked]"

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

SHORTEST_TOKEN = 15
"""No token of the list above has fewer characters, prefix included."""

_GAP = r"(?:\s|\\++[nrt])*+"
_PEM = r"PRIVATE\ KEY(?:\ BLOCK)?-----"
_KEY = rf"""
    (?:{_GAP}(?:Proc-Type|DEK-Info|Version|Comment|Hash):[^\n\\]{{0,200}}+)*+
    (?:{_GAP}[A-Za-z0-9+/=]{{16,}}+)++
    (?:{_GAP}[A-Za-z0-9+/=]{{0,15}}+{_GAP}-----END\ [A-Z0-9 ]{{0,24}}?{_PEM})?
"""
_SCHEME = r"(?:Basic|basic|Bearer|bearer|Token|token|ApiKey|Negotiate)\ {1,3}"
_HEADER = rf"""\\*+["']?[ \t]{{0,3}}[:=][ \t]{{0,3}}\\*+["']?(?:{_SCHEME}|(?=[^\s"'\d]{{0,60}}?\d))"""


class Shape:
    """A kind of secret: `literal` is in every match, group 1 of the pattern stays readable, the rest is the secret.

    A pattern is compiled when a text holds its literal: most never are, and compiling all takes a tenth of a second.
    """

    def __init__(self, literal: str, head: str, body: str) -> None:
        self.literal = literal
        self._head, self._body = head, body

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(f"({self._head}){self._body}", re.VERBOSE | re.ASCII)

    @cached_property
    def _begins(self) -> re.Pattern[str]:
        return re.compile(self._head, re.VERBOSE | re.ASCII)

    def begins(self, text: str, at: int) -> bool:
        """Whether a secret of this kind may begin here: not inside a word."""
        return self._begins.match(text, at) is not None


def _token(row: str) -> Shape:
    prefix, body = row.split()
    word = "[A-Za-z0-9_-]" if prefix.startswith("sk-") else "[A-Za-z0-9_]"
    p = re.escape(prefix)
    # Not inside a word; but an escaped line end, a color code and a quoted sign before it are not part of a word.
    begins = rf"(?:(?<!{word}{p})|(?<=\\[nrt]{p})|(?<=[0-9\[]m{p})|(?<=%[0-9A-Fa-f]{{2}}{p}))"
    return Shape(prefix, p + begins, body)


@cache
def token_shapes() -> tuple[Shape, ...]:
    """Keys with a prefix. A token is one word without spaces, so a program that wraps lines may cut it in two."""
    return tuple(map(_token, TOKENS.strip().splitlines()))


def token_shapes_in(text: str) -> list[Shape]:
    """Those whose prefix is in a text. Nearly all prefixes have one of three characters, which many texts lack."""
    missing = "".join([char for char in "_-." if char not in text])
    return [shape for shape in _token_shapes_without(missing) if shape.literal in text]


def token_prefixes_in(text: str) -> list[str]:
    return [shape.literal for shape in token_shapes_in(text)]


@cache
def _token_shapes_without(missing: str) -> tuple[Shape, ...]:
    """Those whose prefix has none of these characters."""
    return tuple(shape for shape in token_shapes() if not set(missing) & set(shape.literal))


@cache
def other_shapes() -> tuple[Shape, ...]:
    return (
        Shape("-----BEGIN ", rf"-----BEGIN\ [A-Z0-9 ]{{0,24}}?{_PEM}", _KEY),
        Shape(":AA", r":AA(?<=[0-9]{8}:AA)", r"[\w-]{32,}+"),
        Shape("://", r"""://[^\s/:@"'<>\\]{0,64}+:(?![$<{%*\[]|pass\w*@)""", r"""[^\s/"'<>\\]{1,256}(?=@)"""),
        *(Shape(f"{sign}sig=", rf"\{sign}sig=", r"[\w%+/=-]{30,}+") for sign in "?&"),
        *(Shape(f"{b}earer ", rf"{b}earer\ {{1,3}}(?=[^\s\d]{{0,100}}?\d)", r"[\w.~+/=-]{16,}+") for b in ("B", "b")),
        *(
            Shape(name, name + _HEADER, r"[\w.~+/=:-]{8,}+")
            for name in ("Authorization", "authorization", "AUTHORIZATION")
        ),
        *(
            Shape(f"{c}ookie:", rf"{c}ookie:\ {{0,2}}[\w.-]{{1,60}}+=(?!\[)", r"""[^\s"';]{8,}+(?:;\ ?[^\s"';]++)*+""")
            for c in ("C", "c")
        ),
    )


def looks_random(text: str) -> bool:
    """Whether this is rather a piece of a key than a word: it has letters, and changes between kinds of characters."""
    kinds = ["0" if char.isdigit() else "A" if char.isupper() else "a" if char.isalpha() else "-" for char in text]
    changes = sum(before != after for before, after in pairwise(kinds))
    return len(text) >= 4 and ("A" in kinds or "a" in kinds) and changes >= max(2, 0.3 * len(text))


# --- the end of a private key whose beginning is missing ------------------------------------------------------------

_PEM_END = LazyPattern(rf"-----END\ [A-Z0-9 ]{{0,24}}?{_PEM}", re.VERBOSE)
_PEM_BACKWARDS = LazyPattern(r"[A-Za-z0-9+/=\s\\]*+", re.ASCII)
_PEM_LINE = LazyPattern(r"[A-Za-z0-9+/=]{32,}+", re.ASCII)
_PEM_LONGEST = 16_384


def mask_key_ends(text: str, learn: Callable[[str], None]) -> str:
    """Mask the lines before an `-----END ... PRIVATE KEY-----` that has no beginning, as `tail` prints them."""
    if "-----END " not in text:
        return text
    pieces, at, last = [], 0, 0
    for match in _PEM_END.finditer(text):
        before = text[max(last, match.start() - _PEM_LONGEST) : match.start()]
        last = match.end()
        key_start = _PEM_BACKWARDS.match(before[::-1])
        lines = before[len(before) - len(key_start[0]) :] if key_start else ""
        first = _PEM_LINE.search(lines)
        if first is not None:
            learn(lines[first.start() :])
            pieces += [text[at : match.start() - len(lines) + first.start()], MASKED, "\n"]
            at = match.start()
    return "".join([*pieces, text[at:]]) if pieces else text


# --- names with a value ---------------------------------------------------------------------------------------------

# Names whose value is a secret, as people write them: API_KEY, apiKey, ApiKey, api-key.
_NAMES = (
    "password passwd passphrase pwd _pass secret token api.key access.key private.key secret.key account.key"
    " signing.key encryption.key master.key shared.key auth.key"
).split()
_ROOTS = ("pass", "pwd", "secret", "token", "key")
_ROOT_OFFSET = 11  # characters from the beginning of a name to its root, at most: `encryption-key`
_PASS = LazyPattern(r"pass|pwd|secret", re.IGNORECASE)
_NOT_SECRET_BEFORE = LazyPattern(
    r"(?:next|page|continuation|cancellation|eos|bos|pad|unk|sep|stop|max|csrf)[_-]?$", re.I
)
_OPTION = LazyPattern(r"--[\w-]{0,40}$")
_NEXT_LINE = r"(?:\\?\r?\n|\\++n)[ \t]*+"
_PLAIN = LazyPattern(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|v?[0-9]+(?:\.[0-9]+)+|(.)\1*|[./~].*|https?:.*|.*/.*\.\w{1,5}")


@cache
def _assignment() -> re.Pattern[str]:
    names = []
    for name in _NAMES:
        first, dot, last = name.partition(".")
        join = "[_-]?" if dot else ""
        camel = first.capitalize() + join + last.capitalize()
        names += [first + join + last, camel, (first + "#" + last).upper().replace("#", join)]
        names += [first + join + last.capitalize()] if dot else []
    either = "|".join(dict.fromkeys(names))
    return re.compile(
        rf"""
             (?P<name>{either})\\*+["']?
             (?P<op>[ \t]{{0,3}}(?::=|=>|[:=])[ \t]{{0,3}}|>|\ )(?:[Ss]tr(?:ing)?\ ?=\ ?)?
             (?:(?P<quote>\\*+["`])(?P<double>[^"`\s\\]{{8,}}+(?:(?:{_NEXT_LINE}[^"`\s\\]++){{1,4}}+(?=\\*+["`]))?)
               |(?P<tick>\\*+')(?P<single>[^'\s\\]{{8,}}+(?:(?:{_NEXT_LINE}[^'\s\\]++){{1,4}}+(?=\\*+'))?)
               |(?P<bare>[\w+/=~!@#%^*.:-]{{8,}}+)(?![(\[{{…]))""",
        re.VERBOSE | re.ASCII,
    )


def mask_assigned(text: str, learn: Callable[[str], None]) -> str:
    """Mask the values of names such as `password` and `api_key`, where they do not look like code or a placeholder."""
    pieces, at = [], 0
    for start, end in find_assigned(text):
        learn(text[start:end])
        pieces += [text[at:start], MASKED]
        at = end
    return "".join([*pieces, text[at:]]) if pieces else text


def find_assigned(text: str) -> Iterator[tuple[int, int]]:
    """Where such values begin and end, in order."""
    lower = text.lower()
    if len(lower) != len(text):  # letters that grow when lowered: the places would not be the same
        places: Iterator[int] = (match.start() for match in _assignment().finditer(text))
    else:
        places = iter(_name_places(lower))
    at = 0
    for place in places:
        match = _assignment().match(text, place) if place >= at else None
        if match is None:
            continue
        value = match["double"] or match["single"] or match["bare"]
        at = match.end()
        if _is_secret(match, value):
            yield at - len(value), at


def _name_places(lower: str) -> list[int]:
    """Where a name may begin, in order: at a root, or a little before it."""
    places: set[int] = set()
    for root in _ROOTS:
        at = lower.find(root)
        while at >= 0:
            places.update((at - 1, at) if root != "key" else _key_names(lower, at))
            at = lower.find(root, at + 1)
    places.discard(-1)
    return sorted(places)


_KEY_NAMES = tuple(name.partition(".")[0] + join for name in _NAMES if name.endswith(".key") for join in ("", "_", "-"))


def _key_names(lower: str, at: int) -> Iterator[int]:
    before = lower[max(0, at - _ROOT_OFFSET) : at]
    if before.endswith(_KEY_NAMES):
        yield from (at - len(name) for name in _KEY_NAMES if before.endswith(name))


def _is_secret(match: re.Match[str], value: str) -> bool:
    """Return whether a value after such a name looks like a secret, and not like code or a placeholder."""
    if MASKED in value or value[0] in "$<{%*[(" or "${" in value or "{{" in value or _PLAIN.fullmatch(value):
        return False
    before = match.string[max(0, match.start() - 44) : match.start()]
    if _NOT_SECRET_BEFORE.search(before) or (match["op"] == " " and not _OPTION.search(before)):
        return False
    is_quoted, has_password_name = match["bare"] is None, _PASS.match(match["name"].lstrip("_")) is not None
    if is_quoted and has_password_name:
        return True
    digits = sum(char.isdigit() for char in value)
    if not digits or digits == len(value) or not any(char.isalpha() for char in value):
        return False
    mixed = len(value) >= 20 and value != value.lower() and value != value.upper()
    return is_quoted or mixed or digits >= 3 or (has_password_name and match["op"] in ("=", ":", ": ", ">", " "))
