"""The check of a note: what a line states must stand in the log.

- Each cited id exists.
- Numbers and commands stand in the cited messages, or anywhere in the log if the line cites none.
- Names and paths stand anywhere in the log.
- Words that are attributed to the user stand in what the user typed. What they said in a dialog of the client, such as
  an answer to a question, came as the result of a call: the line says so.
- A decision that was overruled does not come back.

A line with an invented id loses it and is marked; a line with other faults is marked and says what was not found. A
line that says that the user said something they did not type, in the sections for the user's words and rules, is
dropped. Marks are for the reader, who can recall what is in doubt; the writer learns of them at the next update.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from tidegate.core.state_note.note import HEADINGS
from tidegate.core.state_note.originals import Originals, collect_runs, fold_space
from tidegate.core.text.facts import classify_run, split_runs, strip_punctuation
from tidegate.core.text.lazy_pattern import LazyPattern

_CITED: Final = LazyPattern(
    r"\[((?:[me]\d{1,15}(?:\.\d+)?)(?:\s*(?:,|;|\.\.+|-|–|and|to)\s*[me]?\d{1,15}(?:\.\d+)?)*)\]"
)
_ID: Final = LazyPattern(r"\b[me]\d{1,15}(?:\.\d+)?\b")
_RANGE: Final = LazyPattern(r"(m\d{1,15})\s*(?:\.\.+|-|–|to)\s*m?(\d{1,15})")
_ID_IN_TEXT: Final = LazyPattern(r"\bm\d{1,15}(?:\s?(?:\.\.+|-|–)\s?m\d{1,15})?\b")
_CODE: Final = LazyPattern(r"`([^`\n]{1,400})`")
_QUOTED: Final = LazyPattern(r"\"([^\"\n]{3,600})\"|“([^”\n]{3,600})”")
_BY_USER: Final = LazyPattern(
    r"^[-*+\s\d.)]*[(\[*_\"]*(?:the\s)?user\b(?!\s*(?:id|name|agent|table|model|data|input|service)\b)", re.I
)
_SAID_BY_USER: Final = LazyPattern(
    r"\b(?:the )?user(?:'s)? (?:said|says|asked|wants?|wanted|ordered|decided|chose|requires?|required|told|forbade"
    r"|overruled|confirmed|approved|rule|words)\b",
    re.I,
)
_NOT_SAID: Final = LazyPattern(r"\buser (?:said nothing|did not|didn't|has not|hasn't|was not)\b", re.I)
_NUMBER: Final = LazyPattern(r"(?<![\w.])\d[\d,]*(?:\.\d+)*(?:%|\b|(?=[A-Za-z]{1,3}\b))")
_THOUSANDS: Final = LazyPattern(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?%?|[^,]+")
_ELLIPSIS: Final = LazyPattern(r"…|(?<![/\w])\.\.\.|(?<=\w)\.\.\.(?!/)|(?<=\w/)\.\.\.$")
_PLACEHOLDER: Final = LazyPattern(r"(?<=[\s./=:_-])<[A-Za-z][\w -]{0,40}>")
_MEMBER: Final = LazyPattern(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_EXTENSION: Final = LazyPattern(r"\.[a-z0-9]{1,4}$")
_COUNT: Final = LazyPattern(r"(?<![\w.])(\d[\d,]*) (?:more |other |further )?(?:lines?|rows|characters|chars)\b")
"""What a notice of tidegate says about a result: it is in no message, but can be counted."""
_CALL: Final = LazyPattern(r"[\w$.:#]+\(([\w$.,:*&?=\[\]{} -]*)\)")
_PLACE: Final = LazyPattern(r"([\w./@-]+\.\w{1,8}):(\d+(?:[-–,:]\d+)*)")
_NUMBER_OF: Final = LazyPattern(r"(?:\b(?:PR|MR|issue|pull request|ticket)\s#?|#)(\d+)\b", re.I)
_MIN_QUOTE_WORDS: Final = 2
_MIN_SHARED: Final = 4  # words of a decision that a shorter line must have to state the same
_MOST_IDS_SPAN: Final = 400
_OVERRULED: Final = LazyPattern(
    r"\b(?:overruled|overridden|rejected|reverted|revoked|withdrawn|superseded|dropped)\b", re.I
)
_WORD: Final = LazyPattern(r"\w{4,}")
_COMMAND_WORDS: Final = LazyPattern(r"\s")
_GAPS: Final = LazyPattern(r"…|\.\.\.|\[[^\]]*\]|<[^<>\n]{1,60}>")
MARK: Final = "not found in the log"
_NOT_TYPED: Final = "the user did not type this"
_IN_DIALOG: Final = "in a dialog of the client"


def find_marked_lines(texts: Iterable[str]) -> list[str]:
    """The lines of checked sections that the check marked."""
    return [line for text in texts for line in text.split("\n") if MARK in line or line.endswith(f"{_NOT_TYPED})")]


class CheckedSections(NamedTuple):
    """The sections after the check, the dropped lines, and how many lines held and were marked."""

    sections: dict[str, str]
    dropped: tuple[str, ...]
    held: int
    marked: int


def check_sections(sections: dict[str, str], originals: Originals, previous: dict[str, str]) -> CheckedSections:
    """Check the changed sections of a note."""
    checked: dict[str, str] = {}
    dropped_lines: list[str] = []
    held_count = marked_count = 0
    for heading, text in sections.items():
        lines: list[str] = []
        fenced = False
        for line in text.split("\n"):
            if line.lstrip().startswith("```"):
                fenced = not fenced
                lines.append(line)
                continue
            verdict = check_line(line, heading, originals, fenced=fenced)
            if verdict.text is None:
                dropped_lines.append(line.strip())
                continue
            held_count += verdict.states and not verdict.faults
            marked_count += bool(verdict.faults)
            lines.append(verdict.text)
        checked[heading] = "\n".join(lines)
    decisions = HEADINGS[2]
    if decisions in checked:
        decision_check = keep_overruled(previous.get(decisions, ""), checked[decisions])
        checked[decisions], returned = decision_check
        dropped_lines += returned
    return CheckedSections(checked, tuple(dropped_lines), held_count, marked_count)


class LineVerdict(NamedTuple):
    """A line after its check: None if it is dropped. `states`: there was something to check."""

    text: str | None
    faults: tuple[str, ...] = ()
    states: bool = True


def check_line(line: str, heading: str, originals: Originals, *, fenced: bool = False) -> LineVerdict:
    if not line.strip():
        return LineVerdict(line, (), False)
    cited, unknown = _read_ids(line, originals)
    plain = _ID_IN_TEXT.sub(lambda match: " " if _exists(match[0], originals) else match[0], _CITED.sub(" ", line))
    faults: list[str] = [*unknown]
    near = "\n".join(originals.read_around(ident) for ident in cited)
    near_words = collect_runs(near) if cited else originals.words
    faults += _find_missing_code(plain, near if cited else "", near_words, originals)
    faults += _find_missing_facts(plain, near_words, originals)
    faults += _find_missing_numbers(plain, near_words, originals, cited)
    author = _doubt_author(line, plain, cited, originals)
    wrong_author = author == _NOT_TYPED
    if wrong_author:
        faults.append(_NOT_TYPED)
    faults = list(dict.fromkeys(faults))
    if not faults:
        text = f"{line.rstrip()} ({author})" if author and f"({author})" not in line else line
        return LineVerdict(text, (), bool(cited) or bool(_NUMBER.search(plain)) or "`" in plain)
    if wrong_author and len(faults) > 1 and heading in (HEADINGS[0], HEADINGS[5]):
        return LineVerdict(None, tuple(faults))
    quotations = " ".join(fault for fault in faults if fault[:1] == "`")
    missing = [fault for fault in faults if fault != _NOT_TYPED and (fault[:1] == "`" or fault not in quotations)]
    notes = [f"{MARK}: {', '.join(missing)}"] if missing else []
    notes += [author] if author else []
    return LineVerdict(f"{line.rstrip()} ({'; '.join(notes)})", tuple(faults))


def _read_ids(line: str, originals: Originals) -> tuple[list[str], list[str]]:
    """The cited ids that exist, with those inside cited ranges, and the ids that do not exist."""
    existing: list[str] = []
    unknown: list[str] = []
    for group in _CITED.findall(line):
        for first, last in _RANGE.findall(group):
            span = range(int(first[1:]), min(int(last), int(first[1:]) + _MOST_IDS_SPAN) + 1)
            existing += [f"m{seq}" for seq in span if f"m{seq}" in originals]
    for ident in dict.fromkeys(_ID.findall(" ".join(_CITED.findall(line)))):
        if ident in originals:
            existing.append(ident)
        elif ident[:1] == "m":
            unknown.append(ident)
    return list(dict.fromkeys(existing)), unknown


def _exists(ident: str, originals: Originals) -> bool:
    """Whether the message exists, or both ends of a range do."""
    return all(each in originals for each in re.findall(r"m\d+", ident))


def list_cited_ids(line: str) -> list[str]:
    """The ids that a line cites, with those inside its ranges."""
    ids: list[str] = []
    for group in _CITED.findall(line):
        for first, last in _RANGE.findall(group):
            span = range(int(first[1:]), min(int(last), int(first[1:]) + _MOST_IDS_SPAN) + 1)
            ids += [f"m{seq}" for seq in span]
        ids += _ID.findall(group)
    return list(dict.fromkeys(ids))


def _find_missing_code(plain: str, near: str, near_words: frozenset[str], originals: Originals) -> list[str]:
    """Commands and code in backticks that the log does not have: commands in the cited messages or anywhere."""
    missing = []
    for code in _CODE.findall(plain):
        text = fold_space(code).strip().removeprefix("$ ").strip()
        if len(text) < 3:
            continue
        near_text = fold_space(near)
        pieces = _ELLIPSIS.split(_PLACEHOLDER.sub("…", text))
        parts = [part.strip() for part in pieces if len(part.strip()) >= 3]
        if all(part in near_text or part in originals.folded_text for part in parts):
            continue
        if _is_composed(text.removesuffix("()"), near_words, originals) or _is_signature(text, originals):
            continue
        if _is_known_place(text, near_text or originals.folded_text, near_words, originals):
            continue
        if not _COMMAND_WORDS.search(text) or not _consists_of_known(text, originals):
            missing.append(f"`{text[:80]}`")
    return missing


def _consists_of_known(text: str, originals: Originals) -> bool:
    """Whether a phrase in backticks is prose of known words, not a command: such as `Foo` and `Bar` joined by "and"."""
    if re.search(r"(?:^|\s)-{1,2}\w|[|&;<>=]|/", text):
        return False
    return all(strip_punctuation(run) in originals.words for run in split_runs(text))


def _is_signature(text: str, originals: Originals) -> bool:
    """Whether it is a call or a signature of a known name, all of whose parameters are known names, too."""
    match = _CALL.fullmatch(text)
    names = re.findall(r"[A-Za-z_$][\w$]*", text) if match else []
    return (
        bool(names)
        and not re.search(r"\d{2}|--", match[1] if match else "")
        and all(name in originals.words for name in names)
    )


def _is_known_place(text: str, near_text: str, near_words: frozenset[str], originals: Originals) -> bool:
    """Whether it is a known file with line numbers that the cited messages have: `sts/sts.go:176-183`."""
    match = _PLACE.fullmatch(text)
    if match is None:
        return False
    file, numbers = match[1], re.findall(r"\d+", match[2])
    is_known = file in near_text or file in originals.folded_text or _is_composed(file, near_words, originals)
    return is_known and all(re.search(rf"(?<!\d){number}(?!\d)", near_text) for number in numbers)


def _is_composed(text: str, near_words: frozenset[str], originals: Originals) -> bool:
    """Whether a name is put together: a member of the cited messages with its type, or a file with its folder."""
    if _EXTENSION.search(text):
        parts = [part for part in text.split("/") if part not in ("", ".", "..")]
        return len(parts) > 1 and all(part in near_words for part in parts)
    parts = text.split(".") if _MEMBER.fullmatch(text) else []
    return bool(parts) and parts[-1] in near_words and all(part in originals.words for part in parts)


def _find_missing_facts(plain: str, near_words: frozenset[str], originals: Originals) -> list[str]:
    missing = []
    for run in split_runs(_CODE.sub(lambda found: f" {found[1]} ", plain)):
        fact = classify_run(run)
        if fact is None or fact.kind in ("number", "quoted"):
            continue
        value = fact.value.rstrip("/")
        if value in near_words or value in originals.words or value in originals.whole_text:
            continue
        bare = re.sub(r":\d+(?:[-–,:]\d+)*$", "", value)
        if bare != value and bare in originals.whole_text:
            continue
        if value.replace("\\", "/").rpartition("/")[2] and _has_parts(value, originals):
            continue
        if _is_composed(value, near_words, originals) or _is_written_otherwise(value, originals):
            continue
        missing.append(value[:80])
    return missing


def _is_written_otherwise(value: str, originals: Originals) -> bool:
    """Whether the log has a name of letters only with other capitals, such as `techtimes.com` for TechTimes."""
    word = value.casefold()
    return value.isalpha() and re.search(rf"(?<![^\W\d_]){word}(?![^\W\d_])", originals.plain_text) is not None


def _has_parts(value: str, originals: Originals) -> bool:
    """Whether a value that is a list of names, such as `a/b` or `Foo.bar()`, has only known ones; not for paths."""
    if value.count("/") > 1 or "." in value.rpartition("/")[2]:
        return False
    parts = [part for part in re.split(r"[^\w-]+", value) if part]
    return len(parts) > 1 and all(part in originals.words for part in parts)


def _find_missing_numbers(plain: str, near: frozenset[str], originals: Originals, cited: Sequence[str]) -> list[str]:
    """Numbers of two digits and more that the cited messages do not have."""
    missing = []
    counts = _COUNT.findall(plain)
    names = {number for number in _NUMBER_OF.findall(plain) if number in originals.words}
    for number in _split_numbers(plain):
        bare = number.rstrip("%").replace(",", "")
        if len(bare.replace(".", "")) < 2 or number in names:
            continue
        spellings = {number, number.rstrip("%"), bare, f"{int(bare):,}" if bare.isdecimal() else bare}
        if number in counts and _is_count(int(bare), originals, cited):
            continue
        if spellings & near or _is_part_of_fact(number, plain, near, originals):
            continue
        missing.append(number)
    return missing


def _is_count(number: int, originals: Originals, cited: Sequence[str]) -> bool:
    """Whether one of the messages has so many lines or characters."""
    return any(
        number in (originals.count_lines(ident), originals.count_lines(ident) + 1, len(originals.read(ident)))
        for ident in cited or originals.ids
    )


def _split_numbers(plain: str) -> list[str]:
    """The numbers of a line. Those of a list such as `1,80` are several."""
    numbers = _NUMBER.findall(plain)
    return [part for each in numbers for part in ([each] if _THOUSANDS.fullmatch(each) else each.split(","))]


def _is_part_of_fact(number: str, plain: str, near: frozenset[str], originals: Originals) -> bool:
    """Whether the number stands in a larger run that the log has, such as a date, a version or a file name."""
    runs = [strip_punctuation(run) for run in split_runs(plain) if number in run and strip_punctuation(run) != number]
    if any(run in near or run in originals.words for run in runs):
        return True
    return any(number in re.findall(r"\d[\d,]*(?:\.\d+)*", word) for word in near if number in word)


def _doubt_author(line: str, plain: str, cited: Sequence[str], originals: Originals) -> str:
    """What to say of a line that says that the user said something: "" if they typed it, else how they said it."""
    leads = _BY_USER.match(line) is not None
    if not (leads or _SAID_BY_USER.search(plain)) or _NOT_SAID.search(plain):
        return ""
    quotes = [one or two for one, two in _QUOTED.findall(plain)]
    long = [quote for quote in quotes if len(quote.split()) >= _MIN_QUOTE_WORDS]
    if long:
        if any(_has_words(originals.typed_text, quote) for quote in long):
            return ""
        return _IN_DIALOG if any(_has_words(originals.dialog_text, quote) for quote in long) else _NOT_TYPED
    if cited:
        if any(originals.is_of_user(ident) for ident in cited):
            return ""
        return _NOT_TYPED if originals.dialogs.keys().isdisjoint(cited) else _IN_DIALOG
    if not leads:
        return ""
    words = set(_WORD.findall(plain.casefold())) - {"user"}
    user_words = sum(word in originals.typed_text for word in words)
    return _NOT_TYPED if words and user_words * 2 < len(words) else ""


def _has_words(text: str, quote: str) -> bool:
    """Whether a text has this quote; parts around an ellipsis or a placeholder such as <name> count one by one."""
    parts = [fold_space(part).strip(" .,;:!?/").casefold() for part in _GAPS.split(quote)]
    return all(part in text for part in parts if part)


def keep_overruled(old: str, new: str) -> tuple[str, list[str]]:
    """The decisions with those that were overruled before, and the lines that stated such a decision again."""
    overruled = [line for line in old.split("\n") if _OVERRULED.search(line)]
    lines = new.split("\n")
    returned: list[str] = []
    for line_to_drop in overruled:
        words = set(_WORD.findall(line_to_drop.casefold()))
        core = {word for word in words if not _OVERRULED.search(word)} - {"user", "because", "decision", "decided"}
        for line in list(lines):
            line_words = set(_WORD.findall(line.casefold()))
            again = bool(core) and len(core & line_words) * 10 >= 7 * len(core) and not _OVERRULED.search(line)
            if again and len(line_words - core) <= max(2, len(core) // 3):
                lines.remove(line)
                returned.append(line.strip())
    old_lines = [line for line in overruled if line in old and not any(states_same(line, other) for other in lines)]
    return "\n".join([*filter(str.strip, lines), *old_lines]), returned


def states_same(one: str, other: str) -> bool:
    """Whether two lines say nearly the same, by their words."""
    words, other_words = set(_WORD.findall(one.casefold())), set(_WORD.findall(other.casefold()))
    shared = len(words & other_words)
    return bool(words) and (shared * 2 >= len(words) or (shared >= _MIN_SHARED and shared * 2 >= len(other_words)))
