"""Facts in a text: paths, names, numbers and other values that a summary must not lose.

Every expression here is a run of one class of characters or a choice of words: none can backtrack badly, and a text
is only read at its head and tail, so the time is bounded for any output.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final, Literal

import msgspec

from tidegate.core.text.bounded_memo import BoundedMemo
from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.core.text.word_choice import join_by_first_letter

FactKind = Literal["url", "email", "uuid", "path", "file", "hash", "id", "version", "name", "number", "quoted"]

# Longest of what we take for one name. Longer runs are data, not names.
_LONGEST: Final = 160
_WORD: Final = 6  # letters of the shortest name that is recognized by its capitals alone
_CJK: Final = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uff00-\uff60\u3000-\u303f"
LINE_END: Final = "\0"
"""The mark of `split_runs` for the end of a line."""
# A run of what names are made of, or the end of a line. CJK has no spaces, so it ends a name; an arrow ends the number
# of a line.
_SIGN: Final = rf"[^\s\"'`<>()\[\]{{}},;|*!^→\x00-\x1f{_CJK}]"
_RUN: Final = LazyPattern(rf"{LINE_END}|{_SIGN}++(?:(?<=\d),(?=\d\d\d){_SIGN}++)*+")
# The same for bytes without CJK, by a table: several times as fast.
_THOUSANDS: Final = re.compile(rb",(?=\d\d\d)(?<=\d,)")
_COMMA: Final = b"\1"
_ARROW: Final = "→".encode()
_ENDS: Final = bytes(sorted({*range(32), *b" \"'`<>()[]{},;|*!^"} - {*b"\n"}))
_SPLIT: Final = bytes.maketrans(_ENDS, bytes(ord(",") if end in _COMMA else ord(" ") for end in _ENDS))
_CJK_BYTES: Final = bytes([*range(0xE3, 0xEE), 0xEF])
_QUOTED: Final = (
    ('"', LazyPattern(r"\"([^\"\n\\]{3,60})\"")),
    ("`", LazyPattern(r"`([^`\n]{3,80})`")),
    ("«", LazyPattern(r"«([^»\n]{2,60})»")),
    ("“", LazyPattern(r"“([^”\n]{2,60})”")),
    ("「", LazyPattern(r"「([^」\n]{2,40})」")),
)
_BEFORE: Final = ",:;!?=-…。、&"
_BEHIND: Final = ".,:;!?=-…。、&\\#"
_UUID: Final = LazyPattern(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")
_HEX: Final = LazyPattern(r"[0-9a-f]{7,64}|[0-9A-F]{7,64}")
_EMAIL: Final = LazyPattern(r"[\w.+-]{1,64}@[\w-]{1,64}(\.[\w-]{1,32}){1,4}")
_FILE: Final = LazyPattern(r"[\w@.+-]*\w\.([A-Za-z][A-Za-z0-9]{0,5}|7z|mp[34])(:\d+){0,2}")
_DOTTED: Final = LazyPattern(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+(\(\))?")
_VERSION: Final = LazyPattern(r"v?\d+(\.\d+){1,3}([-+]?(rc|alpha|beta|dev|post|a|b)\.?\d*)?")
_NUMBER: Final = LazyPattern(r"[-+]?[$€£]?\d[\d_,]*(\.\d+)?(%|[A-Za-z]{1,3}|[$€£])?")
_ID: Final = LazyPattern(r"[#@]?[\w:.-]*\w")
_SAYS: Final = LazyPattern(r"[^\W_]")
_DIGIT: Final = LazyPattern(r"\d")
_LETTER: Final = LazyPattern(r"[^\W\d_]")
_WINDOWS: Final = LazyPattern(r"[A-Za-z]:\\|\\\\\w")
_SEPARATORS: Final = LazyPattern(r"[/\\]")
_EXTENSIONS: Final = frozenset(
    "bash bat c cc cfg cfn class conf cpp cs css csv cxx dart db diff docx env ex exs fish gif go gz h hcl hpp htm html"
    " ico ini ipynb jar java jpeg jpg js json jsonl jsx kt kts less lock log lua m map md mdx mjs cjs mod mp3 mp4 ods"
    " odt parquet patch pdf php pl plist png ppt pptx proto ps1 py pyi pyx r rb rs rst sass scala scss sh so sql"
    " sqlite sqlite3 sum svelte svg swift tar tex tf tgz toml ts tsv tsx txt vue wasm wav webp xls xlsx xml yaml yml"
    " zig zip zsh".split()
)
_PLAIN: Final = frozenset("e.g i.e and/or n/a N/A w/o I/O TCP/IP CI/CD utf-8 UTF-8 etc ... .. //".split())


class Fact(msgspec.Struct, frozen=True, gc=False):
    """`context` is up to two words before a number or id: 8443 says nothing, "port 8443" does."""

    kind: FactKind
    value: str
    context: str = ""


def head_and_tail(text: str, limit: int) -> str:
    """The beginning and end of a long text, to search for facts. It is not meant to be shown."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    return f"{text[:head]}\n{text[len(text) - (limit - head) :]}"


def find_facts(text: str, limit: int = 8_000) -> list[Fact]:
    """The distinct facts of a text, in order of appearance; quotations come last."""
    text = head_and_tail(text, limit)
    runs = split_runs(text)
    facts: dict[str, Fact] = {}
    for fact in filter(None, map(classify_run, dict.fromkeys(runs))):
        if fact.value not in facts:
            facts[fact.value] = add_context(fact, runs)
    for value in find_quotes(text):
        facts.setdefault(value, Fact("quoted", value))
    return list(facts.values())


def has_cjk(text: str) -> bool:
    """Whether a text may have CJK characters, which end a name."""
    if text.isascii():
        return False
    raw = text.encode("utf-8", "surrogatepass")
    return len(raw.translate(None, _CJK_BYTES)) < len(raw)


def split_runs(text: str) -> list[str]:
    """The runs (texts without white space) of a text, in order, with a mark for the end of each line."""
    raw = text.encode("utf-8", "surrogatepass")
    if not text.isascii():
        raw = raw.replace(_ARROW, b" ")
    if _COMMA in raw or has_cjk(text):
        return _RUN.findall(text.replace("\0", " ").replace("\n", LINE_END))
    if b"," in raw:
        raw = _THOUSANDS.sub(_COMMA, raw)
    return raw.translate(_SPLIT).replace(b"\n", b" \0 ").decode().split()


def find_quotes(text: str) -> Iterable[str]:
    """The distinct quotations of a text that may be names."""
    values = [value for sign, pattern in _QUOTED if sign in text for value in pattern.findall(text)]
    return filter(_nameable, dict.fromkeys(map(str.strip, values)))


def _nameable(value: str) -> bool:
    return len(value) >= 3 and value.count(" ") <= 5 and _SAYS.search(value) is not None and value not in _PLAIN


def strip_punctuation(run: str) -> str:
    """A run without the punctuation around it. A leading dot stays: .env"""
    return run.lstrip(_BEFORE).rstrip(_BEHIND)


def _classify_or_word(run: str) -> Fact | None:
    return _word(run) if run.isalpha() else _classify(run)


def _word(word: str) -> Fact | None:
    """The fact in a run of letters: a name in camel case, or None. Most runs are plain words."""
    if word.islower() or not _WORD <= len(word) <= _LONGEST:
        return None
    return Fact("name", word) if word.isascii() and _humps(word) else None


LONGEST_RUN: Final = 2 * _LONGEST
"""Characters: longer runs are data, and nothing remembers them."""
classify_run: Final[Callable[[str], Fact | None]] = BoundedMemo(
    _classify_or_word, longest=LONGEST_RUN, most=1 << 16
).__getitem__
"""The fact in a run of a text, or None. Its context may have to be found by `add_context`."""


def add_context(fact: Fact, runs: Sequence[str]) -> Fact:
    """The fact with the words before its first occurrence in these runs as its context."""
    if fact.context[:1] != "\n":
        return fact
    at = runs.index(fact.context[1:])
    return Fact(fact.kind, fact.value, _context(runs[max(0, at - 2) : at]))


def _classify(run: str, label: str | None = None) -> Fact | None:
    """The fact in a run. If the words before it belong to it, its context is a line feed and the run itself."""
    word = strip_punctuation(run)
    if word.isalpha():
        return _word(word)
    if "/" in word[:-1]:
        word = word.rstrip("/")
    if not 2 <= len(word) <= _LONGEST or word in _PLAIN:
        return None
    if "://" in word:
        at = word.find("http")
        value = word[max(at, 0) :]
        return Fact("url", value) if len(value) > 10 else None
    if "=" in word:  # key=value, --flag=value, a query
        key, _, value = word.partition("=")
        return _classify(value, key.lstrip("-")) if value else None
    kind = _kind(word)
    if kind is None:
        if ":" in word:  # a label before a value: port:8443, file:a.py
            key, _, value = word.partition(":")
            return _classify(value, key) if value and value[0] != ":" else None
        return None
    if kind not in ("number", "id", "hash", "uuid", "version"):
        return Fact(kind, word)
    return Fact(kind, word, f"\n{run}" if label is None else _context([label]))


def _context(before: Sequence[str]) -> str:
    if LINE_END in before:
        before = before[before.index(LINE_END) + 1 :] if before[-1] != LINE_END else []
    return " ".join(filter(None, map(_label, before)))


@lru_cache(maxsize=1 << 12)
def _label(run: str) -> str:
    """A run as a label for the value after it; empty if it is not a word."""
    word = run.strip(".,:;=-?!")
    return word if 1 < len(word) <= 24 and word.replace("_", "").isalpha() else ""


def _kind(word: str) -> FactKind | None:
    if "@" in word and _EMAIL.fullmatch(word):
        return "email"
    if "/" in word or "\\" in word:
        return "path" if _is_path(word) else None
    if word.isdigit():
        return "number" if len(word) >= 3 else None
    return _with_digits(word) if _DIGIT.search(word) else _without_digits(word)


def _is_path(word: str) -> bool:
    if "\\" in word:
        if _WINDOWS.match(word):
            return True
        if "/" not in word:  # escapes of source text, as in \n\t
            return False
    if word[0] in "/~.":
        return len(word) >= 4 and _LETTER.search(word) is not None
    parts = [part for part in _SEPARATORS.split(word) if part]
    return len(parts) >= 2 and not all(map(str.isdigit, parts)) and len(word) >= 5


def _without_digits(word: str) -> FactKind | None:
    if "." in word:
        file = _FILE.fullmatch(word)
        if file and file[1].lower() in _EXTENSIONS:
            return "file"
        if _DOTTED.fullmatch(word) and len(word) >= 6:
            return "name"
    if "_" in word.strip("_") and len(word) >= 5 and word.replace("_", "").isalpha():
        return "name"
    return None


def _humps(word: str) -> bool:
    """camelCase or PascalCase, and not a word at the start of a sentence or all capitals."""
    return not word.isupper() and not word[1:].islower()


def _with_digits(word: str) -> FactKind | None:
    if _UUID.fullmatch(word):
        return "uuid"
    file = _FILE.fullmatch(word)
    if file and file[1].lower() in _EXTENSIONS:
        return "file"
    if _NUMBER.fullmatch(word):
        return "number" if len(word) >= 3 else None
    if _VERSION.fullmatch(word):
        return "version"
    if _HEX.fullmatch(word) and not word.isalpha():
        return "hash"
    if len(word) >= 4 and any(map(str.isalpha, word)) and _ID.fullmatch(word):
        return "id"
    return None


_SENTENCE: Final = LazyPattern(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
# In small letters, as the sentences are then: ignoring the case makes the search several times slower.
_RULE_AT_START: Final = LazyPattern(r"(?:use|keep|prefer|stop)\b")
_RULE_WORDS: Final = (
    r"must|mustn't|never|always|don'?t|do not|should(?:n'?t| not)|only|make sure|ensure|remember|important|avoid",
    r"require[sd]?|forbidden|not allowed|no longer|instead of|from now on|needs? to",
    r"muss|müssen|niemals|immer|nicht|darf|dürfen|sollte|bitte|nur",
    r"toujours|jamais|doit|dois|devez|ne pas|il faut|uniquement",
    r"siempre|nunca|debe[ns]?|debes|no uses|solo|obligatori[oa]",
    r"sempre|deve[mi]?|não|apenas|mai|devono|soltanto",
    r"altijd|nooit|moet|zawsze|nigdy|musi|nie wolno|her zaman|asla|mutlaka|luôn|phải",
    r"всегда|никогда|долж[а-я]+|нельзя|обязательно|не надо|только|запрещ[а-я]+",
)
_RULE_AT_WORD: Final = LazyPattern(lambda: rf"\b(?=\w)(?:{join_by_first_letter(_RULE_WORDS)})\b")
_RULE_WITHOUT_WORDS: Final = LazyPattern(
    r"必须|必須|不要|禁止|务必|務必|一定|总是|始终|不得|不能|切勿|只能|必ず|しないで|絶対|ください|常に|だけ"
    r"|반드시|절대|항상|하지\s?마|금지|해야|يجب|دائم|أبدا|ممنوع|لا "
)
_ERROR: Final = LazyPattern(
    r"\b(\w*Error|\w*Exception|error|errors|failed|failure|fatal|panic|denied|refused|cannot|could not|can't|not found"
    r"|no such|undefined|unresolved|traceback|abort(ed)?|timed? ?out|segfault|killed|invalid|conflict"
    r"|exit (code|status)|FAIL|FAILED|(?-i:E\d{3,4}))\b|错误|失败|エラー|失敗|오류|실패|ошибк|خطأ",
    re.IGNORECASE,
)
# One of these is in every match, in small letters, unless it is a code: a cheap test before the exact one.
_ERROR_STEMS: Final = (
    "error", "exception", "fail", "fatal", "panic", "denied", "refused", "cannot", "could not", "can't", "not found",
    "no such", "undefined", "unresolved", "traceback", "abort", "time", "segfault", "killed", "invalid", "conflict",
    "exit ", "错误", "失败", "エラー", "失敗", "오류", "실패", "ошибк", "خطأ",
)  # fmt: skip
_ODD_LETTERS: Final = re.compile("[\u0130\u0131\u017f\u212a]")  # an expression takes them for i, s or k
_ERROR_CODE: Final = re.compile(r"E\d{3}")
# Not a report of a failure: frames of a stack, and source text that speaks of errors.
_SOURCE: Final = LazyPattern(
    r"(File \"|at |\^+|~+|\d+ \||#\d+ )"
    r"|(\d+\s?[:|→\t]\s*|[+-]\s*)?"
    r"(raise|throw|except|catch|return|def|class|import|from|if|elif|else|for|while|const|let|var|func|type|try|case"
    r"|//|#|\*|@|/\*|\"\"\")[\s({\"*]"
)
_CALM: Final = LazyPattern(r"\b(no|0|without) (errors?|failures?|failed)\b", re.IGNORECASE)


def split_sentences(text: str, limit: int = 8_000) -> list[str]:
    return [piece for piece in (part.strip() for part in _SENTENCE.split(head_and_tail(text, limit))) if piece]


def find_rule_sentences(text: str, limit: int = 8_000) -> list[str]:
    """Sentences that state a rule, in any of the supported languages."""
    return [sentence for sentence in split_sentences(text, limit) if len(sentence) <= 600 and _states_rule(sentence)]


def _states_rule(sentence: str) -> bool:
    low = sentence.lower()
    if _RULE_AT_START.match(low) or _RULE_AT_WORD.search(low):
        return True
    return not sentence.isascii() and _RULE_WITHOUT_WORDS.search(sentence) is not None


_REFUSAL: Final = LazyPattern(
    r"\b(?:tool (?:use|call)|permission to (?:use|run|edit|call))\b[^.\n]{0,60}"
    r"\b(?:was|were|is|been) (?:rejected|denied|declined|refused)\b"
    r"|(?:\bthe user|^\W*user) (?:rejected|denied|declined|refused|does(?: not|n't) want|did not allow|chose not)\b"
    r"|\b(?:rejected|denied|declined|refused) by (?:the )?user\b",
    re.I,
)
_REFUSAL_CHARS: Final = 400
_REFUSAL_STEMS: Final = ("reject", "denied", "declin", "refus", "want", "allow", "chose")  # as `_ERROR_STEMS`


def is_refusal(text: str) -> bool:
    """Whether the result of a call says that the user did not allow it. It was not made; the rest are their words."""
    head = text[:_REFUSAL_CHARS]
    return _has_stem(head, _REFUSAL_STEMS) and _REFUSAL.search(head) is not None


def _has_stem(text: str, stems: Iterable[str]) -> bool:
    """Whether a text may have a word with one of these stems."""
    low = text.lower()
    for stem in stems:
        if stem in low:
            return True
    return not text.isascii() and _ODD_LETTERS.search(text) is not None


_FAILURE: Final = LazyPattern(
    r"\s*(?:<tool_use_error>|error\b|failed\b|failure\b|file does not exist|no such file|string to replace not found)",
    re.I,
)


def begins_with_failure(text: str) -> bool:
    """Whether the result of a call that changes a file says that it did not."""
    return _FAILURE.match(text) is not None or is_refusal(text)


def find_error_lines(text: str, limit: int = 8_000) -> list[str]:
    """Lines that report a failure, without stack frames."""
    text = head_and_tail(text, limit)
    lines = (line.strip() for line in _find_lines_with_stem(text))
    return [
        line
        for line in lines
        if 4 <= len(line) <= 1_000 and _ERROR.search(line) and not _SOURCE.match(line) and not _CALM.search(line)
    ]


def _find_lines_with_stem(text: str) -> list[str]:
    """The lines that may report a failure. Of the stems, only those that the text has are looked for in each line."""
    low = text.lower()
    stems = [stem for stem in _ERROR_STEMS if stem in low]
    if _ERROR_CODE.search(text) or (not text.isascii() and _ODD_LETTERS.search(text)):
        return text.split("\n")
    if not stems:
        return []
    lines = zip(text.split("\n"), low.split("\n"), strict=True)
    return [line for line, low_line in lines if any(stem in low_line for stem in stems)]


def find_last_line(text: str) -> str:
    """The last line with words in it. Most programs end with their outcome."""
    for line in reversed(text[-2_000:].split("\n")):
        if any(map(str.isalnum, line)):
            return line.strip()
    return ""
