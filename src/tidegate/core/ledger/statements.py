"""Statements of the ledger about messages that leave: open work, decisions, and commands with their outcome."""

import re
from collections.abc import Sequence
from typing import Any, Final

from tidegate.core.digest.units import fold_line
from tidegate.core.ledger.lines import LedgerLine, parse_ledger, render_ledger
from tidegate.core.ledger.names import rank_names
from tidegate.core.messages import INTERRUPTED, Call, Message, calls_of, result_of, text_of
from tidegate.core.text.facts import find_last_line, split_sentences
from tidegate.core.text.tool_calls import COMMAND_KEYS, open_todos_of, parse_call_arguments

_DECIDED: Final = re.compile(
    r"\b(decid|chose|conclu|root cause|turns out|instead of|the (fix|bug|problem|issue|reason) (is|was)|will use)"
    r"|决定|原因|決定|原因は|결정|원인|решил|причина"
)  # matched with sentences in lower case
_EACH: Final = 6  # statements of a kind, in one transaction
SUBAGENT_TOOL: Final = "task"
"""The tool that gives work to a subagent. Its result ends with a report of that work."""
_WORK_REPORT: Final = re.compile(r"^\[work in ([\w.:@/-]{1,120})\]\n((?:- .+(?:\n|$))+)", re.MULTILINE)


def statements_of(gone: Sequence[Message]) -> list[LedgerLine]:
    """The statements about these messages: open work first, then decisions and commands, the newest first."""
    results = {result.call_id: message for message in gone if (result := result_of(message)) is not None}
    opened, decided, ran = list[LedgerLine](), list[LedgerLine](), dict[str, LedgerLine]()
    reported: list[LedgerLine] = []
    planned = False
    for message in reversed(gone):
        for call in calls_of(message):
            answer = results.get(call.id)
            if answer is not None and answer.kind == INTERRUPTED:
                text = f"{fold_line(call.name, 40)} {fold_line(call.arguments, 120)} has no known result"
                opened.append(LedgerLine("open", answer.id, text))
            arguments = parse_call_arguments(call)
            todos = open_todos_of(arguments)
            if todos and not planned:  # only the newest to-do list is valid
                planned = True
                opened += [LedgerLine("open", message.id, fold_line(todo, 120)) for todo in todos[:_EACH]]
            if answer is not None and call.name == SUBAGENT_TOOL and len(reported) < _EACH:
                reported += parse_work_report(answer)
            elif answer is not None and len(ran) < _EACH:
                _run(call, arguments, answer, ran)
        if message.role == "assistant" and len(decided) < _EACH:
            decided += _decisions(message)[: _EACH - len(decided)]
    return [*opened, *decided, *ran.values(), *reported]


def write_work_report(session_name: str, messages: Sequence[Message]) -> str:
    """What a subagent decided, ran and changed, for the end of its result. The ids are those of its own session."""
    lines = [line for line in statements_of(messages) if line.what in ("decided", "ran")]
    changed = [line for line in rank_names(messages) if line.what == "changed"][:_EACH]
    return f"[work in {session_name}]\n{render_ledger([*lines, *changed])}" if lines or changed else ""


def parse_work_report(result: Message) -> list[LedgerLine]:
    """The lines of a work report in the result of a subagent, each with its session and the message there."""
    found = _WORK_REPORT.search(text_of(result))
    if found is None:
        return []
    lines = parse_ledger(found[2])
    told = [
        LedgerLine(line.what, result.id, f"{found[1]} {line.ident}: {line.text}")
        for line in lines
        if line.what in ("decided", "ran")
    ]
    changed = ", ".join(f"{line.text} {line.ident}".strip() for line in lines if line.what == "changed")
    return [*told, *([LedgerLine("ran", result.id, f"{found[1]} changed: {changed}")] if changed else [])]


def _run(call: Call, arguments: Any, answer: Message, ran: dict[str, LedgerLine]) -> None:
    """Add a command, once, with its last outcome."""
    command = next((v for k in COMMAND_KEYS if isinstance(v := _get(arguments, k), str)), "")
    if command and command not in ran:
        ended = find_last_line(text_of(answer))
        outcome = f" -> {fold_line(ended, 80)}" if ended and not ended.startswith("[") else ""
        ran[command] = LedgerLine("ran", answer.id, f"{fold_line(command, 100)}{outcome}")


def _get(arguments: Any, key: str) -> Any:
    return arguments.get(key) if isinstance(arguments, dict) else None


def _decisions(message: Message) -> list[LedgerLine]:
    found = [s for s in split_sentences(text_of(message), 4_000) if 20 <= len(s) <= 300 and _DECIDED.search(s.lower())]
    return [LedgerLine("decided", message.id, fold_line(sentence, 200)) for sentence in found[-2:]]
