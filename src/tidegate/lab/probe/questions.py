"""Generate questions about the past of a recorded session, without a model, and score answers to them.

Every answer occurred in a message that is more than half a window before the place where the question is asked, and is
in no later message. So a request answers a question only if its policy kept the text, or a model fetches it back.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from typing import Any, Final, Literal

import msgspec

from tidegate.lab.scoring.identifiers import chat_text_of, flatten_arguments, iterate_chat_calls
from tidegate.lab.scoring.text_needs import clean_lines, find_rules

QuestionKind = Literal["port", "value", "failed test", "forbidden", "parameters"]
_Json = Mapping[str, Any]

_VALUE_LINE: Final = re.compile(
    r"^[\"'`]?([A-Za-z][\w .-]{2,40}?)[\"'`]?\s*(?:[:=]|\bis\b)\s*[\"'`]?([\w.-]*\d[\w.-]*)[\"'`]?[,;.]?$"
)
_PORT: Final = re.compile(r"\bport\b\D{0,12}(\d{2,5})\b", re.I)
_FAILED_TEST: Final = re.compile(r"^(?:FAILED|FAIL:?|--- FAIL:|[✗✕×])\s+(\S+)")
_FORBIDDING: Final = re.compile(r"\b(?:never|must not|do not|don'?t|avoid)\b\s+\w+", re.I)
_FUNCTION: Final = re.compile(r"^(?:export\s+)?(?:async\s+)?(?:def|function)\s+(\w+)\s*\(([^()]+)\)")
_WORD: Final = re.compile(r"\w+")
_MIN_WORD_CHARS: Final = 4
_MAX_EXPECTED_WORDS, _MAX_PARAMETERS = 6, 6
_MIN_VALUE_CHARS: Final = 3
_BLANK: Final = "___"


class ProbeQuestion(msgspec.Struct, frozen=True):
    """A question and the texts that a right answer contains, taken from message `message_index`."""

    kind: QuestionKind
    text: str
    expected: tuple[str, ...]
    message_index: int


def generate_questions(
    messages: Sequence[_Json], tokens_before: Sequence[float], *, at: int, window: int, most: int
) -> list[ProbeQuestion]:
    """Return at most `most` questions to ask before message `at`, of all kinds in turn, the oldest first."""
    far = [index for index in range(at) if tokens_before[at] - tokens_before[index + 1] > window / 2]
    first_near = far[-1] + 1 if far else 0
    near = _normalize("\n".join(_all_text(message) for message in messages[first_near:at]))
    by_kind: dict[QuestionKind, list[ProbeQuestion]] = {}
    for question in _unambiguous(chain(_ask_lines(messages, far), _ask_rules(messages, far))):
        if not any(f" {_normalize(text).strip()} " in near for text in question.expected):
            by_kind.setdefault(question.kind, []).append(question)
    turns = chain.from_iterable(zip_longest(*by_kind.values()))
    return [question for question in turns if question is not None][:most]


def is_right_answer(answer: str, expected: Sequence[str]) -> bool:
    """Return whether the answer contains every expected text; case, punctuation and spacing do not count."""
    normal_answer = _normalize(answer)
    return all(_normalize(text) in normal_answer for text in expected)


def _normalize(text: str) -> str:
    return f" {' '.join(_WORD.findall(text.lower()))} "


def _all_text(message: _Json) -> str:
    return "\n".join(
        [chat_text_of(message), *(flatten_arguments(call["arguments"]) for call in iterate_chat_calls(message))]
    )


def _unambiguous(questions: Iterator[ProbeQuestion]) -> Iterator[ProbeQuestion]:
    """Yield each question once; none that has two answers."""
    by_text: dict[str, list[ProbeQuestion]] = {}
    for question in questions:
        by_text.setdefault(question.text, []).append(question)
    for same in by_text.values():
        if len({question.expected for question in same}) == 1:
            yield same[-1]


def _ask_lines(messages: Sequence[_Json], far: Sequence[int]) -> Iterator[ProbeQuestion]:
    for index in far:
        message = messages[index]
        if message["role"] not in ("user", "tool"):
            continue
        lines = clean_lines(chat_text_of(message))
        if message["role"] == "tool":
            yield from _ask_failed_test(messages, index, lines)
        for line in lines:
            yield from _ask_value(line, index)
            yield from _ask_parameters(line, index)


def _ask_value(line: str, index: int) -> Iterator[ProbeQuestion]:
    port = _PORT.search(line)
    if port is not None and len(line) <= 200:
        blanked = line[: port.start(1)] + _BLANK + line[port.end(1) :]
        yield ProbeQuestion("port", f"Which port number was in the line `{blanked}`?", (port[1],), index)
        return
    value = _VALUE_LINE.match(line)
    if value is not None and len(value[2]) >= _MIN_VALUE_CHARS:
        yield ProbeQuestion("value", f"What was the value of `{value[1].strip()}`?", (value[2].rstrip("."),), index)


def _ask_parameters(line: str, index: int) -> Iterator[ProbeQuestion]:
    function = _FUNCTION.match(line)
    if function is None:
        return
    names = [re.split(r"[:=]", part)[0].strip(" *.?") for part in function[2].split(",")]
    names = [name for name in names if name.isidentifier() and name not in ("self", "cls")]
    if 0 < len(names) <= _MAX_PARAMETERS:
        text = f"Which parameters does the function `{function[1]}` take?"
        yield ProbeQuestion("parameters", text, tuple(names), index)


def _ask_failed_test(messages: Sequence[_Json], index: int, lines: Sequence[str]) -> Iterator[ProbeQuestion]:
    failed = {match[1].rstrip(":") for line in lines if (match := _FAILED_TEST.match(line))}
    command = _command_of(messages, index)
    if len(failed) == 1 and command:
        name = re.split(r"::|/", failed.pop())[-1]
        yield ProbeQuestion("failed test", f"Which test failed when this was run: `{command}`?", (name,), index)


def _command_of(messages: Sequence[_Json], index: int) -> str:
    """Return the shell command whose result this message is; empty if it is none."""
    ident = messages[index].get("tool_call_id")
    for message in reversed(messages[max(0, index - 16) : index]):
        for call in message.get("tool_calls") or ():
            if call.get("id") == ident:
                text = flatten_arguments(call["function"]["arguments"])
                lines = [line for line in text.splitlines() if " " in line]
                return lines[0][:160] if lines else ""
    return ""


def _ask_rules(messages: Sequence[_Json], far: Sequence[int]) -> Iterator[ProbeQuestion]:
    for rule in find_rules(messages[: far[-1] + 1] if far else ()):
        match = _FORBIDDING.search(rule.sentence)
        if match is None:
            continue
        rest = [word for word in _WORD.findall(rule.sentence[match.end() :]) if len(word) >= _MIN_WORD_CHARS]
        if rest:
            text = f'The user forbade something with the words "{rule.sentence[: match.end()]} ...". What exactly?'
            yield ProbeQuestion("forbidden", text, tuple(rest[:_MAX_EXPECTED_WORDS]), rule.message_index)
