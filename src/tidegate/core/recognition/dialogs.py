"""What the user said in a dialog of the client: answers to questions of the agent, and words with a refused call.

It arrives as the result of a call, so any tool could have written it: it is shown as data, without the authority of
what the user typed.
"""

from collections.abc import Sequence
from typing import Final

from tidegate.core.digest.units import fold_line
from tidegate.core.messages import Call, Message, calls_of, result_of, text_of
from tidegate.core.recognition.client_outputs import (
    DIALOG_FRAME,
    DIALOG_PAIR,
    NEXT_DIALOG_PAIR,
    QUESTION_TOOL,
    REFUSAL_NOTICE,
    REFUSAL_WORDS,
)
from tidegate.core.text.facts import is_refusal
from tidegate.core.text.terminal_text import clean_text

_MAX_CHARS: Final = 1_000  # of all that was said in one dialog: it may be the task that the agent has to do now
_QUESTION_CHARS: Final = 160
_SCANNED_CHARS: Final = 20_000
_REFUSAL_HEAD_CHARS: Final = 80


def is_question_to_user(call: Call) -> bool:
    """Whether the call has the client ask the user. Tools of MCP servers have a prefix, so they do not count."""
    return QUESTION_TOOL.fullmatch(call.name) is not None


def list_dialog_answers(call: Call, answer: Message | None) -> list[tuple[str, str]]:
    """What the user said in the dialog of this call, each with the question; a refusal has none."""
    if answer is None:
        return []
    text = clean_text(text_of(answer))[:_SCANNED_CHARS]
    if is_refusal(text):
        match = REFUSAL_WORDS.search(text)
        return [("", REFUSAL_NOTICE.sub("", text[match.end() :]).strip())] if match else []
    result = result_of(answer)
    if not is_question_to_user(call) or (result is not None and result.error):
        return []
    words = DIALOG_FRAME.sub("", text).strip()
    return _split_pairs(words) or [("", words)]


def _is_refused(message: Message) -> bool:
    result = result_of(message)
    return result is not None and result.error and is_refusal(text_of(message)[:_REFUSAL_HEAD_CHARS])


def _split_pairs(words: str) -> list[tuple[str, str]]:
    """The questions with their answers, if the text is a list of `"question"="answer"`."""
    first, *rest = words.split(DIALOG_PAIR)
    if not rest or not first.startswith('"'):
        return []
    pairs: list[tuple[str, str]] = []
    question = first[1:]
    for part in rest[:-1]:
        answer, _, next_question = part.rpartition(NEXT_DIALOG_PAIR)
        pairs.append((question, answer))
        question = next_question
    return [*pairs, (question, rest[-1].removesuffix('"'))]


def describe_dialog(call: Call, answer: Message | None) -> str:
    """The answers on one line, each after its question; "" if there are none."""
    answers = list_dialog_answers(call, answer)
    texts = [f"{fold_line(question, _QUESTION_CHARS)} → {words}" if question else words for question, words in answers]
    return fold_line("; ".join(texts), _MAX_CHARS)


def find_words_in_dialogs(messages: Sequence[Message]) -> dict[str, str]:
    """What the user said in dialogs, whole, by the id of the message with the result.

    Words with a refusal count only if the client says that the call failed, and the result begins with the refusal: a
    file or a page may hold such a text, too.
    """
    calls = {call.id: call for message in messages for call in calls_of(message)}
    words_by_id: dict[str, str] = {}
    for message in messages:
        result = result_of(message)
        call = calls.get(result.call_id) if result is not None else None
        words = [words for _, words in list_dialog_answers(call, message)] if call is not None else []
        is_dialog = call is not None and (is_question_to_user(call) or _is_refused(message))
        if is_dialog and any(words):
            words_by_id[message.id] = "\n".join(words)
    return words_by_id
