"""Statements of the ledger about messages that leave: open work, changed files, commits and commands."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from tidegate.core.digest.units import fold_line
from tidegate.core.ledger.file_states import follow_changes, has_made_commit, is_only_commit
from tidegate.core.ledger.lines import LedgerLine, is_of_subagent, parse_ledger, subject_of
from tidegate.core.messages import INTERRUPTED, Call, Message, calls_of, is_user_request, result_of, text_of
from tidegate.core.recognition.client_outputs import RUNNING_IN_SCRIPT, RUNNING_KEYS
from tidegate.core.recognition.shell_commands import only_reads
from tidegate.core.recognition.tasks import TaskChange, find_task_change, keeps_task
from tidegate.core.sweep.group_notes import (
    NO_OUTPUT,
    OUTCOME,
    REFUSED,
    describe_outcome,
    find_running_id,
    find_subject,
)
from tidegate.core.text.tool_calls import find_command, is_todo_list, open_todos_of, parse_call_arguments

_UNKNOWN_RESULT: Final = "has no known result"
_NOTHING_OPEN: Final = "no item of the to-do list is open"
_LIST_IS_OVER: Final = "the user asked for something else after the earlier to-do list was answered"
_TODOS: Final = 12  # of the newest list
_COMMANDS: Final = 12  # of one transaction
SUBAGENT_TOOL: Final = "task"
"""The tool that gives work to a subagent. Its result ends with a report of that work."""
_WORK_REPORT: Final = re.compile(r"^\[work in ([\w.:@/-]{1,120})\]\n((?:- .+(?:\n|$))+)", re.MULTILINE)
_REPORTED: Final = 6  # lines of each kind in a work report
_REPORTED_KINDS: Final = ("ran", "changed", "committed")
_SCRIPT_CHARS: Final = 2_000


def statements_of(
    gone: Sequence[Message],
    described: frozenset[str] = frozenset(),
    *,
    lines: Sequence[LedgerLine] = (),
    every: Sequence[Message] = (),
) -> list[LedgerLine]:
    """The statements about the messages in `gone`, oldest first.

    `described`: messages whose calls are in a note of the view, with their commands and outcomes. `lines`: those that
    the ledger has. `every`: all messages of the view, in order; what came later says what is still true.
    """
    every = every or gone
    results = {result.call_id: message for message in gone if (result := result_of(message)) is not None}
    opened, ran, reported = list[LedgerLine](), dict[str, LedgerLine](), list[LedgerLine]()
    endings = _find_endings(every)
    todos = [*_find_open_todos(every, gone, lines), *_find_tasks(every, gone, lines)]
    for message in reversed(gone):
        for call in calls_of(message):
            answer = results.get(call.id)
            if answer is None:
                continue
            if answer.kind == INTERRUPTED:
                text = f"{fold_line(call.name, 40)} {fold_line(call.arguments, 120)} {_UNKNOWN_RESULT}"
                opened.append(LedgerLine("open", answer.id, text))
            if call.name == SUBAGENT_TOOL and len(reported) < _REPORTED:
                reported += parse_work_report(answer)
            if message.id not in described and len(ran) < _COMMANDS:
                _add_command(call, endings.get(call.id, answer), ran)
    stays = {message.id for message in every} - {message.id for message in gone}
    listed = {subject_of(line) for line in lines}
    changes = [line for line in follow_changes(every, lines) if line.ident not in stays or subject_of(line) in listed]
    return [*todos, *reversed(opened), *changes, *reversed(ran.values()), *reported]


def _find_open_todos(
    every: Sequence[Message], gone: Sequence[Message], lines: Sequence[LedgerLine]
) -> list[LedgerLine]:
    """The open items of the newest to-do list, if it leaves.

    It is over if the agent answered and the user asked for something after that.
    """
    listed = max((line.place for line in lines if _is_todo(line)), default=0)
    newest = max((message_place(m) for m in every if any(map(_is_list, calls_of(m)))), default=listed)
    is_answered, over = False, ""
    for message in every:
        if message_place(message) > newest:
            if is_answered and is_user_request(message) and not text_of(message).lstrip().startswith("<"):
                over = message.id
                break
            is_answered = is_answered or (message.role == "assistant" and not calls_of(message))
    if over:
        return [LedgerLine("open", over, _LIST_IS_OVER)] if listed else []
    for message in reversed(gone):
        for call in calls_of(message):
            if message_place(message) == newest and _is_list(call):
                items = open_todos_of(parse_call_arguments(call))[:_TODOS] or ([_NOTHING_OPEN] if listed else [])
                return [LedgerLine("open", message.id, fold_line(item, 120)) for item in items]
    return []


_TASK: Final = re.compile(r"#(\d+) ")
_TASK_CLOSED: Final = "is closed"


def _task_changes_of(messages: Sequence[Message]) -> Iterator[tuple[Message, TaskChange]]:
    results = {result.call_id: message for message in messages if (result := result_of(message)) is not None}
    for message in messages:
        for call in calls_of(message):
            answer = results.get(call.id) if keeps_task(call) else None
            if answer is not None and (change := find_task_change(call, text_of(answer))):
                yield message, change


def _find_tasks(every: Sequence[Message], gone: Sequence[Message], lines: Sequence[LedgerLine]) -> list[LedgerLine]:
    """The open tasks of a list with one call for each task that leave, and those in the ledger that are closed now."""
    leaving = {message.id for message in gone}
    subjects = {match[1]: line.text[match.end() :] for line in lines if (match := _TASK.match(line.text))}
    known = dict(subjects)
    states: dict[str, tuple[str, TaskChange]] = {}
    for message, change in _task_changes_of(every):
        subjects[change.number] = change.subject or subjects.get(change.number, "")
        if message.id in leaving or change.is_closed:
            states.pop(change.number, None)
            states[change.number] = (message.id, change)
    ledger_lines: list[LedgerLine] = []
    for number, (ident, change) in states.items():
        if change.is_closed:
            ledger_lines += [LedgerLine("open", ident, f"#{number} {_TASK_CLOSED}")] if number in known else []
        elif subject := subjects.get(number):
            started = ", in progress" if change.status == "in_progress" and not subject.endswith("in progress") else ""
            ledger_lines.append(LedgerLine("open", ident, f"#{number} {fold_line(subject, 120)}{started}"))
    return ledger_lines[-_TODOS:]


def _is_list(call: Call) -> bool:
    return is_todo_list(parse_call_arguments(call))


def _is_todo(line: LedgerLine) -> bool:
    is_list = not line.text.endswith(_UNKNOWN_RESULT) and not _TASK.match(line.text)
    return line.what == "open" and is_list and not is_of_subagent(line)


def _find_endings(every: Sequence[Message]) -> dict[str, Message]:
    """For each call whose command went on in the background the result of the last call that asked for its output."""
    results = {result.call_id: message for message in every if (result := result_of(message)) is not None}
    running: dict[str, str] = {}  # the id of what runs -> the call
    endings: dict[str, Message] = {}
    for message in every:
        for call in calls_of(message):
            answer = results.get(call.id)
            if answer is None:
                continue
            arguments = parse_call_arguments(call)
            running_ids = [str(arguments.get(key, "")) for key in RUNNING_KEYS] if isinstance(arguments, dict) else []
            running_ids += RUNNING_IN_SCRIPT.findall(call.arguments[:_SCRIPT_CHARS])
            origin = next((running[each] for each in running_ids if each in running), "")
            if origin:
                endings[origin] = answer
            elif find_command(call) and (ident := find_running_id(answer)):
                running[ident] = call.id
    return endings


def write_work_report(session_name: str, messages: Sequence[Message]) -> str:
    """What a subagent ran, changed and committed, for the end of its result. The ids are those of its own session."""
    found = statements_of(messages)
    lines = [line for what in _REPORTED_KINDS for line in [f for f in found if f.what == what][-_REPORTED:]]
    return "\n".join([f"[work in {session_name}]", *map(str, lines)]) if lines else ""


def parse_work_report(result: Message) -> list[LedgerLine]:
    """The lines of a work report in the result of a subagent, each with its session and the message there."""
    match = _WORK_REPORT.search(text_of(result))
    if match is None:
        return []
    lines = [line for line in parse_ledger(match[2]) if line.what in _REPORTED_KINDS]
    return [LedgerLine(line.what, result.id, f"{match[1]} {line.ident}: {line.text}") for line in lines]


def _add_command(call: Call, answer: Message, ran: dict[str, LedgerLine]) -> None:
    """Add a command that does more than read, once, with its last outcome. The ledger has commits of their own."""
    command = find_command(call)
    outcome = describe_outcome(call, answer)
    if outcome.startswith(REFUSED):
        return
    if not command or only_reads(command) or (is_only_commit(command) and has_made_commit(answer)):
        return
    if command not in ran:
        ran[command] = LedgerLine("ran", answer.id, f"{find_subject(call)}{OUTCOME}{outcome or NO_OUTPUT}")


def drop_old_todos(lines: Sequence[LedgerLine], known: Sequence[Message]) -> list[LedgerLine]:
    """The lines without items of a to-do list that a later one replaced, among them or in one of these messages."""
    lists = [message_place(message) for message in known if any(map(_is_list, calls_of(message)))]
    todos = [line for line in lines if _is_todo(line)]
    newest = max([*lists, *(line.place for line in todos)], default=0)
    old = {line for line in todos if line.place < newest}
    tasks = [(match[1], line) for line in lines if line.what == "open" and (match := _TASK.match(line.text))]
    last = dict(tasks)
    closed = {change.number for _, change in _task_changes_of(known) if change.is_closed}
    for number, line in tasks:
        if line is not last[number] or number in closed or line.text.endswith(_TASK_CLOSED):
            old.add(line)
    return [line for line in lines if line not in old]


def message_place(message: Message) -> int:
    """The seq of the event with this message; 0 if it has none of its own."""
    return int(message.id[1:]) if message.id[:1] == "m" and message.id[1:].isdigit() else 0
