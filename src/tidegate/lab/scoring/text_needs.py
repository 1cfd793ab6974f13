"""Extract the text that the agent of a recorded session worked with later: once per recording, for all policies.

A name alone (see `signals.py`) does not help an agent that has to edit a file. These needs are pieces of text, each
taken from what the agent did next:

- a *re-read*: it reads a file again, or repeats a call; the lines that both results have;
- a *block*: the old text of an edit that occurred earlier in one piece;
- a *line*: a line that it writes again;
- a *reference in context*: a name with the characters beside it;
- a *rule*: a sentence of the user that orders or forbids something.

Line numbers, indentation and blank lines do not count where lines are compared.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, Literal

import msgspec

from tidegate.lab.scoring.identifiers import chat_text_of, iterate_chat_calls, searchable_text_of
from tidegate.lab.scoring.occurrences import is_whole_match

PAGE_BREAK: Final = "\x01"
"""Separates the messages of a joined text."""
MAX_TYPED_CHARS: Final = 2_000
"""A longer user message was not typed by a person; a rule after so many characters of any message is a deep one."""
_MIN_REREAD_CHARS, _MIN_REREAD_LINES, _MIN_REREAD_SHARE = 15, 3, 0.5
_MIN_BLOCK_CHARS, _MIN_BLOCK_LINES = 80, 3
_MIN_LINE_CHARS: Final = 25
_CONTEXT_CHARS, _MIN_CONTEXT_CHARS, _MAX_CONTEXTS = 12, 6, 12
_MIN_RULE_CHARS, _MAX_RULE_CHARS = 15, 400

_LINE_NUMBER: Final = re.compile(r"^\s*L?\d+\s*[→\t|]")
_RULE_WORD: Final = re.compile(
    r"\b(?:never|must|don'?t|do not|always|only|should ?n[o']t|should not|make sure|avoid)\b", re.I
)
_SENTENCE: Final = re.compile(r"[^\n.!?]+(?:[.!?](?!\s|$)[^\n.!?]*)*[.!?]?")
_SPACE: Final = re.compile(r"\s+")
_SHELL_READ: Final = re.compile(
    r"\b(?:cat|head|tail|sed -n|nl|less|bat|Get-Content)\b[^|;&\n]*?((?:[\w.@~+-]*/)*[\w.@+-]+\.[A-Za-z]{1,6})\b"
)
_PATCH_BREAK: Final = re.compile(r"(?m)^(?:@@.*|\*\*\* .*)$")
_READ_TOOLS: Final = frozenset(("read", "view", "read_file", "open_file"))
_PATH_KEYS: Final = ("file_path", "path", "filePath", "filename")
_OLD_TEXT_KEYS: Final = ("old_string", "old_str", "oldText", "oldString")
_PATCH_KEYS: Final = ("input", "patchText", "patch")

_Json = Mapping[str, Any]
NeedKind = Literal["reread", "block", "line", "reference"]


class TextNeed(msgspec.Struct, frozen=True, array_like=True):
    """Text that assistant message `message_index` needed, last seen `tokens_back` tokens before it.

    `texts` are the lines of a re-read, the block, the line, or the name and its contexts. `name` is a reference as the
    agent wrote it.
    """

    message_index: int
    kind: NeedKind
    texts: list[str]
    tokens_back: float
    name: str = ""


class RuleSentence(msgspec.Struct, frozen=True, array_like=True):
    """A sentence with a rule in user message `message_index`. `is_deep`: far down in a long message."""

    message_index: int
    sentence: str
    is_deep: bool


class Need(msgspec.Struct, frozen=True, array_like=True):
    """A name or a line that assistant message `message_index` needed: `name` as it was written, `text` as it occurred
    earlier, last in message `last_seen_index`, `tokens_back` tokens before.
    """

    message_index: int
    name: str
    text: str
    kind: str
    tokens_back: float
    last_seen_index: int


def clean_lines(text: str) -> list[str]:
    """Return the lines that are not blank, without line numbers and indentation."""
    lines = (_LINE_NUMBER.sub("", line).strip() for line in text.splitlines())
    return [line for line in lines if line]


def join_lines(lines: Sequence[str]) -> str:
    """Join clean lines so that a run of whole lines can be searched in the result."""
    return "\n" + "\n".join(lines) + "\n"


def flatten_spaces(text: str) -> str:
    return _SPACE.sub(" ", text)


def find_rules(messages: Sequence[_Json]) -> Iterator[RuleSentence]:
    """Yield the rules in messages that a person typed, and those far down in any user message."""
    for at, message in enumerate(messages):
        if message["role"] != "user":
            continue
        text = chat_text_of(message)
        is_typed = len(text) <= MAX_TYPED_CHARS and not text.lstrip().startswith("<")
        for match in _SENTENCE.finditer(text):
            sentence = match.group().strip()
            if not is_typed and match.start() <= MAX_TYPED_CHARS:
                continue
            if _MIN_RULE_CHARS <= len(sentence) <= _MAX_RULE_CHARS and _RULE_WORD.search(sentence):
                yield RuleSentence(at, flatten_spaces(sentence), not is_typed)


def find_text_needs(
    messages: Sequence[_Json], tokens_before: Sequence[float], references: Sequence[Need]
) -> list[TextNeed]:
    """Return all needs in the order of the messages. `tokens_before` are the tokens before each message."""
    pages = [searchable_text_of(message) for message in messages]
    needs = [
        *_find_rereads(messages, tokens_before),
        *_find_blocks(messages, pages, tokens_before),
        *_find_repeated_lines(messages, pages, tokens_before),
        *_find_contexts(messages, pages, references),
    ]
    return sorted(needs, key=lambda need: need.message_index)


# --- calls ------------------------------------------------------------------------------------------------------------


def read_call_arguments(call: _Json) -> Any:
    """Return the arguments as JSON values, or the plain string if they are not JSON."""
    try:
        return json.loads(call["arguments"])
    except (ValueError, TypeError, RecursionError):
        return call["arguments"]


def _call_key(call: _Json) -> tuple[str, ...]:
    """Return what makes two calls the same: the file for tools and commands that read one, else name and arguments."""
    name, arguments = call["name"], read_call_arguments(call)
    if not isinstance(arguments, dict):
        return "same", name, arguments if isinstance(arguments, str) else json.dumps(arguments, sort_keys=True)
    if name.lower() in _READ_TOOLS:
        path = next((arguments[key] for key in _PATH_KEYS if isinstance(arguments.get(key), str)), None)
        if path is not None:
            return "file", path
    command = arguments.get("command") or arguments.get("cmd")
    if isinstance(command, list):
        command = " ".join(map(str, command))
    if isinstance(command, str):
        read = _SHELL_READ.search(command)
        return ("file", read.group(1)) if read else ("same", name, command)
    return "same", name, json.dumps(arguments, sort_keys=True)


def _old_texts(call: _Json) -> Iterator[str]:
    """Yield the texts that an edit replaces: old strings, and the kept and removed lines of each hunk of a patch."""
    arguments = read_call_arguments(call)
    if not isinstance(arguments, dict):
        return
    for edit in [arguments, *(each for each in arguments.get("edits") or () if isinstance(each, dict))]:
        yield from (edit[key] for key in _OLD_TEXT_KEYS if isinstance(edit.get(key), str))
    patch = next((arguments[key] for key in _PATCH_KEYS if arguments.get(key)), None)
    if isinstance(patch, str) and "Begin Patch" in patch:
        for hunk in _PATCH_BREAK.split(patch):
            yield "\n".join(line[1:] for line in hunk.splitlines() if line[:1] in (" ", "-"))


# --- the needs of each kind -------------------------------------------------------------------------------------------


def _find_rereads(messages: Sequence[_Json], tokens_before: Sequence[float]) -> Iterator[TextNeed]:
    last: dict[tuple[str, ...], tuple[int, frozenset[str]]] = {}
    for at, message in enumerate(messages):
        results = []
        for place, call in enumerate(iterate_chat_calls(message) if message["role"] == "assistant" else (), at + 1):
            if place < len(messages) and messages[place]["role"] == "tool":
                results.append((_call_key(call), place, clean_lines(chat_text_of(messages[place]))))
        for key, _, lines in results:
            index, old = last.get(key, (-1, frozenset[str]()))
            new = [line for line in dict.fromkeys(lines) if len(line) >= _MIN_REREAD_CHARS]
            both = [line for line in new if line in old]
            if len(both) >= _MIN_REREAD_LINES and len(both) >= _MIN_REREAD_SHARE * len(new):
                yield TextNeed(at, "reread", both, tokens_before[at] - tokens_before[index + 1])
        for key, place, lines in results:
            last[key] = place, frozenset(lines)


def _find_blocks(messages: Sequence[_Json], pages: Sequence[str], tokens_before: Sequence[float]) -> Iterator[TextNeed]:
    stream = _JoinedPages([join_lines(clean_lines(page)) for page in pages])
    for at, message in enumerate(messages):
        for call in iterate_chat_calls(message) if message["role"] == "assistant" else ():
            for lines in map(clean_lines, _old_texts(call)):
                if len(lines) < _MIN_BLOCK_LINES or sum(map(len, lines)) < _MIN_BLOCK_CHARS:
                    continue
                block = join_lines(lines)
                place = stream.find_last(block, at)
                if place >= 0:
                    index = stream.page_at(place)
                    yield TextNeed(at, "block", [block], tokens_before[at] - tokens_before[index + 1])


def _find_repeated_lines(
    messages: Sequence[_Json], pages: Sequence[str], tokens_before: Sequence[float]
) -> Iterator[TextNeed]:
    last: dict[str, int] = {}
    for at, message in enumerate(messages):
        lines = [line for line in dict.fromkeys(clean_lines(pages[at])) if len(line) >= _MIN_LINE_CHARS]
        if message["role"] == "assistant":
            for line in lines:
                if line in last:
                    yield TextNeed(at, "line", [line], tokens_before[at] - tokens_before[last[line] + 1])
        last.update(dict.fromkeys(lines, at))


def _find_contexts(messages: Sequence[_Json], pages: Sequence[str], references: Sequence[Need]) -> Iterator[TextNeed]:
    joined_pages = _JoinedPages(
        [page if message["role"] in ("user", "tool") else "" for message, page in zip(messages, pages, strict=True)]
    )
    for reference in references:
        contexts = joined_pages.find_contexts(reference.text, reference.message_index)
        if contexts:
            texts = [reference.text, *contexts]
            yield TextNeed(reference.message_index, "reference", texts, reference.tokens_back, reference.name)


class _JoinedPages:
    """The texts of all messages in one string, with offsets mapped back to messages."""

    def __init__(self, pages: Sequence[str]) -> None:
        self._text = PAGE_BREAK.join(pages)
        self._starts = [0, *accumulate(len(page) + 1 for page in pages)]

    def page_at(self, place: int) -> int:
        return bisect_right(self._starts, place) - 1

    def find_last(self, text: str, before: int) -> int:
        return self._text.rfind(text, 0, self._starts[before])

    def find_contexts(self, name: str, before: int) -> list[str]:
        """Return the name with the characters to its left, and to its right, at its latest occurrences."""
        contexts: dict[str, None] = {}
        text = self._text
        place = self.find_last(name, before)
        while place >= 0 and len(contexts) < _MAX_CONTEXTS:
            end = place + len(name)
            if is_whole_match(text, place, name):
                left, right = text[max(0, place - _CONTEXT_CHARS) : place], text[end : end + _CONTEXT_CHARS]
                if len(left.strip()) >= _MIN_CONTEXT_CHARS:
                    contexts[left + name] = None
                if len(right.strip()) >= _MIN_CONTEXT_CHARS:
                    contexts[name + right] = None
            place = text.rfind(name, 0, end - 1)
        return list(contexts)
