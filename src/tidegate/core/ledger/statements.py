"""Statements of the ledger about messages that leave: open work, decisions, changed files, commands and values."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from tidegate.core.digest.units import fold_line
from tidegate.core.ledger.lines import LedgerLine, parse_ledger
from tidegate.core.messages import INTERRUPTED, Call, Message, calls_of, is_user_request, result_of, text_of
from tidegate.core.sweep.group_notes import REFUSED, describe_outcome, find_command
from tidegate.core.sweep.key_lines import is_envelope, is_marker
from tidegate.core.text.facts import (
    begins_with_failure,
    classify_run,
    head_and_tail,
    split_runs,
    split_sentences,
)
from tidegate.core.text.terminal_text import clean_text
from tidegate.core.text.tool_calls import (
    READS_ONLY,
    call_target_of,
    changed_paths_of,
    is_todo_list,
    open_todos_of,
    parse_call_arguments,
)

_DECIDED: Final = re.compile(
    r"\b(decided|chose|conclu|root cause|turns out|the (fix|bug|problem|issue|reason|cause) (is|was)|will use)"
    r"|决定|原因|決定|原因は|결정|원인|решил|причина"
)  # matched with sentences in lower case
_GUESS: Final = re.compile(r"\b(probably|might|maybe|perhaps|could be|let me|let's|i'll|i think|seems|likely|if)\b|\?")
_UNFINISHED: Final = re.compile(r"(?::|\bvs\.?|\be\.g\.|\bi\.e\.|,)\W*$")  # what it says follows, or was cut off
_UNKNOWN_RESULT: Final = "has no known result"
_DECISIONS: Final = 6  # of one transaction
_COMMANDS: Final = 12
_VALUES: Final = 24
_VALUE_KINDS: Final = frozenset(("path", "file", "url", "email", "uuid", "hash", "id", "number"))
_CHATTER: Final = re.compile(
    r"\s*(?:ok\s+\S+\s+(?:\(cached\)|[\d.]+s)|\?\s+\S+\s+\[no test files\]|total \d+\s*$|Shell cwd was reset"
    r"|@@ |--- |\+\+\+ |index [0-9a-f]+\.\.|diff --git |\S+\s+\|\s+\d+ [-+]*\s*$|\d+ files? changed"
    r"|\[[\w:.-]+\] (?:\$|Finished))"
)
"""Lines that tools print around what was asked: test results of unchanged packages, headers and counts of a diff."""
_VALUE_CHARS: Final = 100  # characters of a line around a value
_READ_CHARS: Final = 6_000  # characters of a result in which values are searched for
SUBAGENT_TOOL: Final = "task"
"""The tool that gives work to a subagent. Its result ends with a report of that work."""
_WORK_REPORT: Final = re.compile(r"^\[work in ([\w.:@/-]{1,120})\]\n((?:- .+(?:\n|$))+)", re.MULTILINE)
_REPORTED: Final = 6  # lines of each kind in a work report


def statements_of(gone: Sequence[Message], described: frozenset[str]) -> list[LedgerLine]:
    """The statements about these messages, oldest first.

    Calls of the messages in `described` are in a note of the view, with their files, commands and outcomes.
    """
    results = {result.call_id: message for message in gone if (result := result_of(message)) is not None}
    opened, decided, changed, ran = (
        list[LedgerLine](),
        list[LedgerLine](),
        dict[str, LedgerLine](),
        dict[str, LedgerLine](),
    )
    reported: list[LedgerLine] = []
    planned = False
    for message in reversed(gone):
        for call in calls_of(message):
            answer = results.get(call.id)
            if answer is not None and answer.kind == INTERRUPTED:
                text = f"{fold_line(call.name, 40)} {fold_line(call.arguments, 120)} {_UNKNOWN_RESULT}"
                opened.append(LedgerLine("open", answer.id, text))
            if not planned and is_todo_list(parse_call_arguments(call)):  # only the newest to-do list is valid
                planned = True
                todos = open_todos_of(parse_call_arguments(call))[:_DECISIONS]
                opened += [LedgerLine("open", message.id, fold_line(todo, 120)) for todo in todos]
            if answer is not None and call.name == SUBAGENT_TOOL and len(reported) < _REPORTED:
                reported += parse_work_report(answer)
            if message.id not in described:
                for path in changed_paths_of(call) if answer is None or not _has_failed(answer) else ():
                    changed.setdefault(path, LedgerLine("changed", message.id, path))
                if answer is not None and len(ran) < _COMMANDS:
                    _add_command(call, answer, ran)
        if message.role == "assistant" and len(decided) < _DECISIONS:
            decided += _decisions(message)[: _DECISIONS - len(decided)]
    values = _find_values(gone)
    return [*opened, *reversed(decided), *reversed(changed.values()), *reversed(ran.values()), *reported, *values]


def write_work_report(session_name: str, messages: Sequence[Message]) -> str:
    """What a subagent decided, ran and changed, for the end of its result. The ids are those of its own session."""
    found = statements_of(messages, frozenset())
    lines = [
        line for what in ("decided", "ran", "changed") for line in [f for f in found if f.what == what][-_REPORTED:]
    ]
    return "\n".join([f"[work in {session_name}]", *map(str, lines)]) if lines else ""


def parse_work_report(result: Message) -> list[LedgerLine]:
    """The lines of a work report in the result of a subagent, each with its session and the message there."""
    found = _WORK_REPORT.search(text_of(result))
    if found is None:
        return []
    lines = [line for line in parse_ledger(found[2]) if line.what in ("decided", "ran", "changed")]
    return [LedgerLine(line.what, result.id, f"{found[1]} {line.ident}: {line.text}") for line in lines]


def _add_command(call: Call, answer: Message, ran: dict[str, LedgerLine]) -> None:
    """Add a command that does more than read, once, with its last outcome."""
    command = find_command(call)
    outcome = describe_outcome(call, answer)
    if outcome.startswith(REFUSED):
        return
    if command and command not in ran and ("exit code" in outcome or not READS_ONLY.match(command)):
        ran[command] = LedgerLine("ran", answer.id, f"{fold_line(command, 100)} -> {outcome or 'no output'}")


def _has_failed(answer: Message) -> bool:
    result = result_of(answer)
    return (result is not None and result.error) or begins_with_failure(text_of(answer))


def _decisions(message: Message) -> list[LedgerLine]:
    found = [
        sentence
        for sentence in split_sentences(text_of(message), 4_000)
        if 20 <= len(sentence) <= 300
        and _DECIDED.search(sentence.lower())
        and not _GUESS.search(sentence.lower())
        and not _UNFINISHED.search(sentence)
    ]
    return [LedgerLine("decided", message.id, fold_line(sentence, 200)) for sentence in found[-2:]]


def mark_superseded(old: Sequence[LedgerLine], new: Sequence[LedgerLine]) -> list[LedgerLine]:
    """The new lines; a decision that names the same things as an earlier one says that it supersedes it."""
    earlier = [line for line in old if line.what == "decided"]
    done: list[LedgerLine] = []
    for line in new:
        if line.what == "decided":
            names = _names(line.text)
            same = next(
                (o for o in reversed(earlier) if o.ident != line.ident and len(names & _names(o.text)) >= 2), None
            )
            if same is not None:
                line = LedgerLine("decided", line.ident, f"{line.text} (supersedes {same.ident})")
            earlier.append(line)
        done.append(line)
    return done


def drop_old_todos(lines: Sequence[LedgerLine], known: Sequence[Message]) -> list[LedgerLine]:
    """The lines without items of a to-do list that a later one replaced, among them or in one of these messages."""
    lists = [
        int(message.id[1:])
        for message in known
        if message.id[1:].isdigit() and any(is_todo_list(parse_call_arguments(call)) for call in calls_of(message))
    ]
    todos = [line for line in lines if line.what == "open" and not line.text.endswith(_UNKNOWN_RESULT)]
    newest = max([*lists, *(line.place for line in todos)], default=0)
    old = {line for line in todos if line.place < newest}
    return [line for line in lines if line not in old]


def _names(text: str) -> set[str]:
    facts = (classify_run(run) for run in split_runs(text))
    return {fact.value for fact in facts if fact is not None}


def _find_values(gone: Sequence[Message]) -> list[LedgerLine]:
    """Values with the words around them: paths, ids, numbers and addresses that the user gave or tools printed.

    What tools read from files is left out: it can be read again.
    """
    targets = {call.id: call_target_of(call) for message in gone for call in calls_of(message)}
    found: dict[str, LedgerLine] = {}
    given = [message for message in reversed(gone) if is_user_request(message)]
    for message in (*given, *reversed(gone)):
        result = result_of(message)
        target = targets.get(result.call_id) if result is not None else None
        from_file = target is not None and (
            target.writes or target.shows_file or (target.files and not target.runs_command)
        )
        if from_file or (result is None and message not in given):
            continue
        for value, around in _values_in(head_and_tail(_WORK_REPORT.sub("", text_of(message)), _READ_CHARS)):
            found.setdefault(value, LedgerLine("value", message.id, around))
            if len(found) >= _VALUES:
                break
    lines = list(dict.fromkeys(reversed(found.values())))
    texts = [line.text for line in lines]
    return [line for line in lines if not any(line.text in text and line.text != text for text in texts)]


def _values_in(text: str) -> Iterator[tuple[str, str]]:
    for line in clean_text(text).split("\n"):
        if is_marker(line) or is_envelope(line) or _CHATTER.match(line):
            continue
        place = 0
        for run in split_runs(line):
            fact = classify_run(run)
            at = line.find(run, place)
            place = max(place, at)
            if fact is None or fact.kind not in _VALUE_KINDS or (fact.kind == "number" and len(fact.value) < 4):
                continue
            yield fact.value, " ".join(_cut_around(line, at).split())


def _cut_around(line: str, at: int) -> str:
    """The line, or of a long one the part around this place, from one word limit to another."""
    if len(line) <= _VALUE_CHARS:
        return line
    start = max(0, at - _VALUE_CHARS // 2)
    if start:
        start = max(0, line.rfind(" ", 0, start) + 1, start - 20)
        start = line.find(" ", start, at) + 1 or start if line[start - 1] != " " else start
    end = start + _VALUE_CHARS
    limit = line.rfind(" ", start, end) if end < len(line) else -1
    return line[start : limit if limit > at else end]
