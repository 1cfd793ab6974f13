"""What is told of single messages when they leave: open work, what was decided, what was run and how it ended."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from tidegate.core.facts import last_line, sentences
from tidegate.core.harvest import fold
from tidegate.core.ledger_lines import Line
from tidegate.core.messages import INTERRUPTED, Call, Message, calls_of, result_of, text_of
from tidegate.core.targets import SHELL, arguments_of

_DECIDED: Final = re.compile(
    r"\b(decid|chose|conclu|root cause|turns out|instead of|the (fix|bug|problem|issue|reason) (is|was)|will use)"
    r"|决定|原因|決定|原因は|결정|원인|решил|причина"
)  # of sentences in small letters
_EACH: Final = 6  # of a kind, in one transaction
_DONE: Final = ("completed", "done", "cancelled")


def told_of(gone: Sequence[Message]) -> list[Line]:
    """The newest first, but what is open before all else."""
    results = {result.call_id: message for message in gone if (result := result_of(message)) is not None}
    opened, decided, ran = list[Line](), list[Line](), dict[str, Line]()
    planned = False
    for message in reversed(gone):
        for call in calls_of(message):
            answer = results.get(call.id)
            if answer is not None and answer.kind == INTERRUPTED:
                text = f"{fold(call.name, 40)} {fold(call.arguments, 120)} has no known result"
                opened.append(Line("open", answer.id, text))
            arguments = arguments_of(call)
            todos = list(_todos(arguments))
            if todos and not planned:  # the newest list of things to do holds, earlier ones do not
                planned = True
                opened += [Line("open", message.id, fold(todo, 120)) for todo in todos[:_EACH]]
            if answer is not None and len(ran) < _EACH:
                _run(call, arguments, answer, ran)
        if message.role == "assistant" and len(decided) < _EACH:
            decided += _decisions(message)[: _EACH - len(decided)]
    return [*opened, *decided, *ran.values()]


def _run(call: Call, arguments: Any, answer: Message, ran: dict[str, Line]) -> None:
    """A command is told once, with its last outcome."""
    command = next((v for k in SHELL if isinstance(v := _get(arguments, k), str)), "")
    if command and command not in ran:
        ended = last_line(text_of(answer))
        outcome = f" -> {fold(ended, 80)}" if ended and not ended.startswith("[") else ""
        ran[command] = Line("ran", answer.id, f"{fold(command, 100)}{outcome}")


def _get(arguments: Any, key: str) -> Any:
    return arguments.get(key) if isinstance(arguments, dict) else None


def _decisions(message: Message) -> list[Line]:
    found = [s for s in sentences(text_of(message), 4_000) if 20 <= len(s) <= 300 and _DECIDED.search(s.lower())]
    return [Line("decided", message.id, fold(sentence, 200)) for sentence in found[-2:]]


def _todos(arguments: Any) -> Iterator[str]:
    """Open items of a to-do list, as several agents keep one with a tool."""
    items = _get(arguments, "todos") or _get(arguments, "plan")
    for item in items[:40] if isinstance(items, list) else ():
        if isinstance(item, dict) and item.get("status") not in _DONE:
            text = item.get("content") or item.get("step") or item.get("title")
            if isinstance(text, str) and text:
                yield text
