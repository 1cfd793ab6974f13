"""The part of a user message that may give rules: the text that the user typed.

A user message also carries text of others: mentioned files, pasted logs, diffs, blocks that a program put between
tags. None of that may become a rule, or a README could give orders for the rest of the session. A text that is marked
as not typed is left out whole, and so is one without a mark that a client added (`core/text/client_texts.py`). From
typed text, and from other text without a mark, these are left out:

- fenced blocks; a fence that is never closed runs to the end
- text between tags, from the first `<x>` to the last `</x>`: text inside cannot end its own block. Without a
  closing tag, or with one in a fenced block, it runs to the end, without an opening tag it begins at the start
- what follows the line with which a client begins attached files or its own instructions
- quoted lines (`>`), and quotations that begin a line
- diffs
- crashes: from the line with the error to the last line of its stack
- paragraphs of more than 600 characters; each item of a list is a paragraph

Text without a mark is not read at all if it has more than 2,000 characters, or 2,600 without headings, code and tables:
hardly anybody types that much, and of such messages nearly all are plans, instructions of programs and files. Blocks
inside a single text count for that, because a file could imitate them to appear shorter. Else only the first 40,000
characters are read, so that no block can begin unseen in the middle of a longer text.
"""

import re
from typing import Final

from tidegate.core.messages import Message, Text
from tidegate.core.text.client_texts import mark_added_texts
from tidegate.core.text.lazy_pattern import LazyPattern

PARAGRAPH_CHARS: Final = 600
"""The longest paragraph that counts as typed."""
UNMARKED_CHARS: Final = 2_000
"""The longest text without a mark that may have been typed."""
_PLAIN_CHARS: Final = 2_600
"""The same for text without Markdown."""
READ_CHARS: Final = 40_000

LIST_ITEM: Final = LazyPattern(r"^\s*(?:[-*•–]|\(?\d{1,2}[.)]|\(?[a-z]\))\s+")

_MARKDOWN: Final = LazyPattern(r"`|\*\*|^ {0,3}#|^ *\|", re.MULTILINE)
_FENCE: Final = LazyPattern(r"`{3,}|^\s*~{3,}")
_INLINE_CODE: Final = LazyPattern(r"`[^`\n]+`")
_TAG: Final = LazyPattern(r"<(?:/([A-Za-z][\w.:-]*)\s*|(?<!\w<)([A-Za-z][\w.:-]*)(?:\s[^<>]*)?(?<!/))>")
_NOT_BREAK: Final = LazyPattern(r"[^\n]")
_VOID_TAGS: Final = frozenset("area base br col embed hr img input link meta source track wbr".split())
_DIFF_HEADER: Final = LazyPattern(
    r"diff --\w|index [0-9a-f]{7,}\.\.|Index: \S|@@ -\d|--- \S|\+\+\+ \S|\*\*\* (?:Begin|Update|Add|Delete)\b"
)
_DIFF_LINE: Final = (" ", "\t", "+", "-", "@", "\\", "*** ")
_ADDED_LINE: Final = LazyPattern(
    r"--- Content from referenced files ---|# \*SEARCH/REPLACE block\* Rules:|# File editing rules:"
    r"|To suggest changes to a file you MUST "
)
_ERROR: Final = LazyPattern(
    r"(?:Traceback \(most recent|panic: |(?:Uncaught )?(?:[\w.$]+[.:])?\w*(?:Error|Exception)\b.{0,40}?: )"
)
_FRAME: Final = LazyPattern(r"\s+at \S.*[:(]\d+|\s+at \S+ \(.*\)$|\s+File \".+\", line \d+|\t\S.*\.go:\d+")
_MAX_ERROR_LINES: Final = 40
"""Between the error of a crash and its stack."""
_QUOTES: Final = {'"': '"', "“": "”", "„": "“", "«": "»", "「": "」", "『": "』"}


def rule_text(message: Message) -> str:
    """The text of a user message to search for rules: what may have been typed, in the user's own words."""
    # A log from before there were marks has none.
    texts = [part for part in mark_added_texts(message).parts if isinstance(part, Text) and part.typed is not False]
    unmarked = [part.text for part in texts if not part.typed]
    size = sum(map(len, unmarked))
    if size > _PLAIN_CHARS or (size > UNMARKED_CHARS and any(map(_MARKDOWN.search, unmarked))):
        texts = [part for part in texts if part.typed]
    return own_words("\n\n".join(part.text for part in texts))


def own_words(text: str) -> str:
    """The text with each line that is not in the user's own words made empty."""
    lines = _without_client_endings(text[:READ_CHARS].split("\n"))
    lines, fenced = _without_fences(lines)
    lines = _without_crashes(lines)
    lines = _without_tags("\n".join(lines), fenced).split("\n")
    lines = _without_quotations(_without_diffs(lines))
    return "\n".join(_without_long_paragraphs(lines))


def _without_client_endings(lines: list[str]) -> list[str]:
    return lines[: next((number for number, line in enumerate(lines) if _ADDED_LINE.match(line)), len(lines))]


def _without_fences(lines: list[str]) -> tuple[list[str], str]:
    """The lines with those in fenced blocks made empty, and these."""
    remaining: list[str] = []
    fenced: list[str] = []
    fence = ""
    for line in lines:
        if fence:
            if line.rstrip().endswith(fence):
                fence = ""
            remaining.append("")
            fenced.append(line)
        else:
            before, fence = _open_fence(line)
            remaining.append(before)
            fenced += [line] if before != line else []
    return remaining, "\n".join(fenced)


def _open_fence(line: str) -> tuple[str, str]:
    """The line without the fenced text in it, and the fence that is still open at its end."""
    remaining: list[str] = []
    text_end = 0
    while (opening := _FENCE.search(line, text_end)) is not None:
        remaining.append(line[text_end : opening.start()])
        fence = opening[0].strip()
        end = line.find(fence, opening.end())
        if end < 0:
            return " ".join(remaining), fence
        text_end = end + len(fence)
        while line.startswith(fence[0], text_end):
            text_end += 1
    return " ".join([*remaining, line[text_end:]]), ""


def _without_tags(text: str, fenced: str) -> str:
    """The text without its tagged blocks. `fenced` was cut out of it: a block that ends there ends nowhere."""
    hidden_ends = {tag[1].lower() for tag in _TAG.finditer(fenced) if tag[1]}
    blocks: dict[str, tuple[int, int]] = {}
    searched = _INLINE_CODE.sub(lambda code: " " * len(code[0]), text)
    for tag in _TAG.finditer(searched):
        name = (tag[1] or tag[2]).lower()
        if name in _VOID_TAGS:
            continue
        start, _ = blocks.get(name, (0 if tag[1] else tag.start(), 0))
        blocks[name] = (start, tag.end() if tag[1] and name not in hidden_ends else len(text))
    remaining: list[str] = []
    text_end = 0
    for start, end in sorted(blocks.values()):
        remaining += [text[text_end:start], _NOT_BREAK.sub(" ", text[max(start, text_end) : end])]
        text_end = max(text_end, end)
    return "".join([*remaining, text[text_end:]])


def _without_diffs(lines: list[str]) -> list[str]:
    """The lines with those of diffs made empty. A diff ends at a paragraph that does not look like one."""
    remaining: list[str] = []
    inside = False
    after_blank = True
    for line in lines:
        blank = not line.strip()
        if _DIFF_HEADER.match(line):
            inside = True
        elif inside and after_blank and not blank and not line.startswith(_DIFF_LINE):
            inside = False
        remaining.append("" if inside or line.startswith("+") else line)
        after_blank = blank
    return remaining


def _without_crashes(lines: list[str]) -> list[str]:
    """The lines with those of crashes made empty. What the message of an error advises is not a rule of the user."""
    remaining, end = lines[:], 0
    for frame, line in enumerate(lines):
        if frame < end or not _FRAME.match(line):
            continue
        before = range(max(end, frame - _MAX_ERROR_LINES), frame)
        start = next((number for number in before if _ERROR.match(lines[number])), frame)
        end = frame + 1
        while end < len(lines) and ((lines[end][:1] in " \t" and lines[end].strip()) or _ERROR.match(lines[end])):
            end += 1
        remaining[start:end] = [""] * (end - start)
    return remaining


def _without_quotations(lines: list[str]) -> list[str]:
    """The lines with quotations that begin a line made empty, up to the closing mark or the end of the paragraph."""
    remaining: list[str] = []
    closing = ""
    for line in lines:
        words = line.lstrip(" \t-*•")
        if not words:
            closing = ""
        if closing:
            closing = "" if closing in line else closing
            remaining.append("")
            continue
        if words[:1] in _QUOTES and _QUOTES[words[0]] not in words[1:]:
            closing = _QUOTES[words[0]]
        remaining.append("" if closing or words.startswith(">") else line)
    return remaining


def _without_long_paragraphs(lines: list[str]) -> list[str]:
    remaining: list[str] = []
    paragraph: list[str] = []
    for line in [*lines, ""]:
        if not line.strip() or LIST_ITEM.match(line):
            remaining += paragraph if sum(map(len, paragraph)) <= PARAGRAPH_CHARS else [""] * len(paragraph)
            paragraph = []
        paragraph.append(line)
    return remaining
