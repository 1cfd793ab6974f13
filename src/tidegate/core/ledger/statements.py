"""Statements of the ledger about messages that leave: open work, decisions, changed files, commands and values."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from tidegate.core.digest.units import fold_line
from tidegate.core.ledger.lines import LedgerLine, parse_ledger
from tidegate.core.messages import INTERRUPTED, Call, Message, calls_of, is_user_request, result_of, text_of
from tidegate.core.sweep.group_notes import (
    NO_OUTPUT,
    OUTCOME,
    REFUSED,
    describe_outcome,
    find_command,
    find_subject,
)
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
    r"\b(decided|chose|will use|going with|agreed (to|on|that))\b"
    r"|决定|決定|결정|решил"
)  # matched with sentences in lower case
_FOUND: Final = re.compile(r"\b(conclusion|concluded|root cause (is|was)|turns out)\b|原因|원인|причина")
"""A diagnosis. In the middle of work it is often refuted a few calls later, so it counts only in an answer."""
_GUESS: Final = re.compile(r"\b(probably|might|maybe|perhaps|could be|let me|let's|i'll|i think|seems|likely|if)\b|\?")
_UNFINISHED: Final = re.compile(r"(?::|\bvs\.?|\be\.g\.|\bi\.e\.|,)\W*$")  # what it says follows, or was cut off
_UNKNOWN_RESULT: Final = "has no known result"
_NOTHING_OPEN: Final = "no item of the to-do list is open"
_DECISIONS: Final = 6  # of one transaction
_COMMANDS: Final = 12
_VALUES: Final = 24
_VALUES_EACH: Final = 4  # of one message
_VALUE_KINDS: Final = frozenset(("path", "url", "email", "uuid", "hash", "id", "number"))
_LABEL: Final = re.compile(
    r"""[A-Za-z][\w.-]*["'`]?\s*[:=]\s*["'`(\[{]*$|#$|\b(?:ports?|pid|issues?|pr|pull request|ticket|version|id"""
    r"""|session|branch|commit|tag|build|run|job|account|user|host|address|is|to|at|on|as)\s+["'`#(]*$""",
    re.I,
)
"""The end of the text before a value that has a label: `"port": `, `listening on `, `issue #`."""
_CHATTER: Final = re.compile(
    r"\s*(?:ok\s+\S+\s+(?:\(cached\)|[\d.]+s)|\?\s+\S+\s+\[no test files\]|total \d+\s*$"
    r"|@@ |--- |\+\+\+ |index [0-9a-f]+\.\.|diff --git |\S+\s+\|\s+\d+ [-+]*\s*$|\d+ files? changed"
    r"|\[[\w:.-]+\] (?:\$|Finished)|[-dl][rwx-]{9}|\S+:\d+:|[+-](?:\S|\t|  )|import |from \S+ import |#include|#!"
    r"|\d{4}-\d\d-\d\d[ T]|=== RUN|<|//|\{\"chunk_id\":|Command running in background|Process running with|agentId:)"
)
"""Lines that tools print around what was asked, and code: test results of unchanged packages, lines of a diff, of a
list of files, of a log, of errors, and of a command that still ran (the outcome of the command has these)."""
_MEASURE: Final = re.compile(
    r"(?:duration|elapsed|_?time|_ms|_?seconds|_?tokens?|_?uses|_?count|_?lines?|_?bytes|_?size|_?files|percentage|total\w*)"
    r"[\"'`]?\s*[:=]\s*$",
    re.I,
)
"""The label of a number that says how much, not which: nobody asks for it again."""
_TESTS: Final = re.compile(
    r"\b(?:(?:go|npm|pnpm|yarn|bun|deno|cargo|make|mix|swift|dotnet)\s+(?:run\s+)?test|pytest|jest|vitest|tox|rspec)\b"
)
"""A command that runs tests: values in its output are those of the tests."""
_STORED: Final = re.compile(r"\b(?:saved|written|wrote|created|stored|moved|output|log)\b", re.I)
"""A path is a value only in such a line: other paths can be found again."""
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
                todos = open_todos_of(parse_call_arguments(call))[:_DECISIONS] or [_NOTHING_OPEN]
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
        ran[command] = LedgerLine("ran", answer.id, f"{find_subject(call)}{OUTCOME}{outcome or NO_OUTPUT}")


def _has_failed(answer: Message) -> bool:
    result = result_of(answer)
    return (result is not None and result.error) or begins_with_failure(text_of(answer))


def _decisions(message: Message) -> list[LedgerLine]:
    is_answer = not calls_of(message)
    found = [
        sentence
        for sentence in split_sentences(text_of(message), 4_000)
        if 20 <= len(sentence) <= 300
        and (_DECIDED.search(sentence.lower()) or (is_answer and _FOUND.search(sentence.lower())))
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
    """Values with their labels: addresses, ids and numbers that the user gave or tools printed.

    What tools read is left out: it can be read again.
    """
    calls = {call.id: call for message in gone for call in calls_of(message)}
    found: dict[str, LedgerLine] = {}
    given = [message for message in reversed(gone) if is_user_request(message)]
    for message in (*given, *reversed(gone)):
        result = result_of(message)
        call = calls.get(result.call_id) if result is not None else None
        if (call is not None and _is_reading(call)) or (result is None and message not in given):
            continue
        text = head_and_tail(_WORK_REPORT.sub("", text_of(message)), _READ_CHARS)
        for value, around in islice(_values_in(text, is_typed=result is None), _VALUES_EACH):
            found.setdefault(value, LedgerLine("value", message.id, around))
        if len(found) >= _VALUES:
            break
    lines = list(dict.fromkeys(reversed(found.values())))
    texts = [line.text for line in lines]
    return [line for line in lines if not any(line.text in text and line.text != text for text in texts)]


def _is_reading(call: Call) -> bool:
    """Whether a call only read or wrote files, which can be read again, or ran tests, whose values nobody needs."""
    target = call_target_of(call)
    command = find_command(call)
    if command:
        return target.shows_file or bool(READS_ONLY.match(command) or _TESTS.search(command))
    return target.writes or bool(target.files)


def _values_in(text: str, *, is_typed: bool) -> Iterator[tuple[str, str]]:
    """The values in a text, each with the words around it. What the user typed needs no label."""
    for line in clean_text(text).split("\n"):
        if is_marker(line) or is_envelope(line) or _CHATTER.match(line):
            continue
        place = 0
        for run in split_runs(line):
            at = line.find(run, place)
            place = max(place, at)
            name, equals, given = run.partition("=")
            fact = classify_run(given if equals and name.isidentifier() else run)
            if fact is None or fact.kind not in _VALUE_KINDS or len(fact.value) < 2:
                continue
            if fact.kind == "path" and not is_typed and not _STORED.search(line):
                continue
            label = line[max(0, at - 60) : at] + (f"{name}=" if equals else "")
            if fact.kind == "number" and not is_typed and _MEASURE.search(label):
                continue
            if is_typed or equals or fact.kind == "url" or _LABEL.search(label):
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
    if limit <= at < len(line):  # a long word: half of an id would read as another one
        limit = line.find(" ", end)
        limit = min(limit if limit >= 0 else len(line), start + 2 * _VALUE_CHARS)
    return line[start:limit]
