"""Statements of the ledger about messages that leave: open work, changed files, commits and commands."""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from tidegate.core.digest.units import fold_line
from tidegate.core.ledger.lines import LedgerLine, is_of_subagent, parse_ledger, subject_of
from tidegate.core.messages import INTERRUPTED, Call, Message, calls_of, is_user_request, result_of, text_of
from tidegate.core.recognition.client_outputs import RUNNING_IN_SCRIPT, RUNNING_KEYS
from tidegate.core.recognition.shell_commands import EDITED, effect_of, only_reads
from tidegate.core.recognition.tasks import TaskChange, find_task_change, keeps_task
from tidegate.core.sweep.group_notes import (
    NO_OUTPUT,
    OUTCOME,
    REFUSED,
    describe_outcome,
    find_running_id,
    find_subject,
)
from tidegate.core.text.facts import begins_with_failure, is_refusal
from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.core.text.terminal_text import clean_text
from tidegate.core.text.tool_calls import (
    file_changes_of,
    find_command,
    is_todo_list,
    open_todos_of,
    parse_call_arguments,
)
from tidegate.core.thinking_walk import seq_of_id

_UNKNOWN_RESULT: Final = "has no known result"
_NOTHING_OPEN: Final = "no item of the to-do list is open"
_LIST_IS_OVER: Final = "the user asked for something else after the earlier to-do list was answered"
_TODOS: Final = 12  # of the newest list
_COMMANDS: Final = 12  # of one transaction
SUBAGENT_TOOL: Final = "task"
"""The tool that gives work to a subagent. Its result ends with a report of that work."""
_WORK_REPORT: Final = LazyPattern(r"^\[work in ([\w.:@/-]{1,120})\]\n((?:- .+(?:\n|$))+)", re.MULTILINE)
_REPORTED: Final = 6  # lines of each kind in a work report
_REPORTED_KINDS: Final = ("ran", "changed", "committed")
_SCRIPT_CHARS: Final = 2_000


def statements_of(
    lost_messages: Sequence[Message],
    described: frozenset[str] = frozenset(),
    *,
    lines: Sequence[LedgerLine] = (),
    every: Sequence[Message] = (),
) -> list[LedgerLine]:
    """The statements about `lost_messages`, oldest first.

    `described`: messages whose calls are in a note of the view, with their commands and outcomes. `lines`: those that
    the ledger has. `every`: all messages of the view, in order; what came later says what is still true.
    """
    every = every or lost_messages
    results = {result.call_id: message for message in lost_messages if (result := result_of(message)) is not None}
    open_lines, ran, reported = list[LedgerLine](), dict[str, LedgerLine](), list[LedgerLine]()
    endings = _find_endings(every)
    todos = [*_find_open_todos(every, lost_messages, lines), *_find_tasks(every, lost_messages, lines)]
    for message in reversed(lost_messages):
        for call in calls_of(message):
            answer = results.get(call.id)
            if answer is None:
                continue
            if answer.kind == INTERRUPTED:
                text = f"{fold_line(call.name, 40)} {fold_line(call.arguments, 120)} {_UNKNOWN_RESULT}"
                open_lines.append(LedgerLine("open", answer.id, text))
            if call.name == SUBAGENT_TOOL and len(reported) < _REPORTED:
                reported += parse_work_report(answer)
            if message.id not in described and len(ran) < _COMMANDS:
                _add_command(call, endings.get(call.id, answer), ran)
    stays = {message.id for message in every} - {message.id for message in lost_messages}
    listed = {subject_of(line) for line in lines}
    changes = [line for line in follow_changes(every, lines) if line.ident not in stays or subject_of(line) in listed]
    return [*todos, *reversed(open_lines), *changes, *reversed(ran.values()), *reported]


def _find_open_todos(
    every: Sequence[Message], lost_messages: Sequence[Message], lines: Sequence[LedgerLine]
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
    for message in reversed(lost_messages):
        for call in calls_of(message):
            if message_place(message) == newest and _is_list(call):
                items = open_todos_of(parse_call_arguments(call))[:_TODOS] or ([_NOTHING_OPEN] if listed else [])
                return [LedgerLine("open", message.id, fold_line(item, 120)) for item in items]
    return []


_TASK: Final = LazyPattern(r"#(\d+) ")
_TASK_CLOSED: Final = "is closed"


def _task_changes_of(messages: Sequence[Message]) -> Iterator[tuple[Message, TaskChange]]:
    results = {result.call_id: message for message in messages if (result := result_of(message)) is not None}
    for message in messages:
        for call in calls_of(message):
            answer = results.get(call.id) if keeps_task(call) else None
            if answer is not None and (change := find_task_change(call, text_of(answer))):
                yield message, change


def _find_tasks(
    every: Sequence[Message], lost_messages: Sequence[Message], lines: Sequence[LedgerLine]
) -> list[LedgerLine]:
    """The open tasks of a list with one call for each task that leave, and those in the ledger that are closed now."""
    leaving = {message.id for message in lost_messages}
    subjects = {match[1]: line.text[match.end() :] for line in lines if (match := _TASK.match(line.text))}
    subjects_by_task = dict(subjects)
    states: dict[str, tuple[str, TaskChange]] = {}
    for message, change in _task_changes_of(every):
        subjects[change.number] = change.subject or subjects.get(change.number, "")
        if message.id in leaving or change.is_closed:
            states.pop(change.number, None)
            states[change.number] = (message.id, change)
    ledger_lines: list[LedgerLine] = []
    for number, (ident, change) in states.items():
        if change.is_closed:
            ledger_lines += (
                [LedgerLine("open", ident, f"#{number} {_TASK_CLOSED}")] if number in subjects_by_task else []
            )
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
    statements = statements_of(messages)
    lines = [line for what in _REPORTED_KINDS for line in [f for f in statements if f.what == what][-_REPORTED:]]
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


def drop_old_todos(lines: Sequence[LedgerLine], messages: Sequence[Message]) -> list[LedgerLine]:
    """The lines without items of a to-do list that a later one replaced, among them or in one of these messages."""
    lists = [message_place(message) for message in messages if any(map(_is_list, calls_of(message)))]
    todos = [line for line in lines if _is_todo(line)]
    newest = max([*lists, *(line.place for line in todos)], default=0)
    old = {line for line in todos if line.place < newest}
    tasks = [(match[1], line) for line in lines if line.what == "open" and (match := _TASK.match(line.text))]
    last = dict(tasks)
    closed = {change.number for _, change in _task_changes_of(messages) if change.is_closed}
    for number, line in tasks:
        if line is not last[number] or number in closed or line.text.endswith(_TASK_CLOSED):
            old.add(line)
    return [line for line in lines if line not in old]


def message_place(message: Message) -> int:
    """The seq of the event with this message; 0 if it has none of its own."""
    return int(message.id[1:]) if message.id[:1] == "m" and message.id[1:].isdigit() else 0


# --- the files that calls changed, and commits ------------------------------------------------------------------------
# Each file has its last state. They are followed through all messages of the view, beginning with what the ledger says
# of messages that left earlier: a file that was edited before the last sweep and committed since has the commit as its
# state. Changes count however they were made: by a tool, a patch or a shell command. A call that failed or was refused
# changes nothing.


_COMMITTED: Final = "committed"
_STATE: Final = LazyPattern(r"(.*?) \(([^()]{1,200})\)")
_MADE: Final = LazyPattern(r"^\[([^\]\n]{1,120}?) (?:\(root-commit\) )?([0-9a-f]{7,40})\] (.{1,300})$", re.M)
"""What git prints for a commit: the branch, the hash and the subject."""
_MADE_QUIETLY: Final = LazyPattern(r"^ ?\d+ files? changed", re.M)
_REBASED: Final = LazyPattern(r"^Successfully rebased", re.M)
_RESET: Final = LazyPattern(r"HEAD(?:~1?|\^|@\{1\})$")
_NO_CHANGE: Final = LazyPattern(r"No such file|cannot stat|can't read|did not match any file|not found|Traceback \(")
"""What a failed command prints if it did not change the file that it names."""
_FAILED: Final = LazyPattern(r"exit(?:ed with)? code:? [1-9]", re.I)
_EVERYTHING: Final = frozenset((".", "-A", "--all", "-u", "--update", ":/", "*"))
_COMMITS_EVERYTHING: Final = LazyPattern(r"-[a-zA-Z]*a[a-zA-Z]*$|--all$")
_SUBJECT_CHARS: Final = 140


class _FileState(NamedTuple):
    """`ident`: the message with the last change."""

    ident: str
    state: str


class _Commit(NamedTuple):
    ident: str
    hash: str
    text: str
    replaces: str = ""

    def line(self) -> LedgerLine:
        end = f" (replaces {self.replaces})" if self.replaces else ""
        return LedgerLine(_COMMITTED, self.ident, f"{self.hash} {self.text}".strip() + end)


def follow_changes(messages: Sequence[Message], lines: Sequence[LedgerLine]) -> list[LedgerLine]:
    """The lines for changed files and commits after these messages, beginning with those of a ledger."""
    states = _FileStates(lines)
    results = {result.call_id: message for message in messages if (result := result_of(message)) is not None}
    for message in messages:
        for call in calls_of(message):
            answer = results.get(call.id)
            if answer is not None:
                states.take(call, message.id, answer)
    return states.lines()


class _FileStates:
    def __init__(self, lines: Sequence[LedgerLine]) -> None:
        self._files: dict[str, _FileState] = {}
        self._by_name: dict[str, list[str]] = {}
        self._staged: set[str] = set()
        self._commits: list[_Commit] = []
        for line in lines:
            if is_of_subagent(line):
                continue
            if line.what == "changed":
                match = _STATE.fullmatch(line.text)
                self._set(match[1] if match else line.text, line.ident, match[2] if match else EDITED)
            elif line.what == _COMMITTED:
                commit, _, text = line.text.partition(" ")
                self._commits.append(_Commit(line.ident, commit, text))

    def lines(self) -> list[LedgerLine]:
        change_lines = [
            LedgerLine("changed", state.ident, path if state.state == EDITED else f"{path} ({state.state})")
            for path, state in self._files.items()
        ]
        return [*change_lines, *(commit.line() for commit in self._commits)]

    def take(self, call: Call, ident: str, answer: Message) -> None:
        result = result_of(answer)
        text = text_of(answer)
        command = find_command(call)
        failed = (result is not None and result.error) or begins_with_failure(text)
        if (
            failed
            if not command
            else is_refusal(text) or (_NO_CHANGE.search(text) and (failed or _FAILED.search(text)))
        ):
            return
        for change in file_changes_of(call, text):
            self._set(change.path, ident, change.state)
            self._staged.discard(self._known(change.path))
        if command:
            self._take_git(command, clean_text(text), answer.id)

    def _take_git(self, command: str, output: str, ident: str) -> None:
        commits = _MADE.findall(output)
        for arguments in effect_of(command).git:
            name, *rest = arguments or ("",)
            if name == "add":
                self._stage(rest)
            elif name == "commit":
                if commits:
                    self._commit(rest, ident, commits.pop(0))
                elif _MADE_QUIETLY.search(output):
                    self._commit(rest, ident, ("", "", ""))
            elif name == "reset" and rest and _RESET.match(rest[-1]) and self._commits:
                self._undo_commit(self._commits.pop(), is_hard="--hard" in rest, ident=ident)
            elif (name == "rebase" or "--rebase" in rest) and _REBASED.search(output):
                self._forget_hashes()

    def _stage(self, arguments: Sequence[str]) -> None:
        if not _EVERYTHING.isdisjoint(arguments):
            self._staged.update(path for path, state in self._files.items() if not _is_committed(state))
        for argument in arguments:
            if not argument.startswith("-"):
                folder = argument.rstrip("/*").removeprefix("./")
                states = self._known(folder)
                self._staged.update([states] if states in self._files else self._inside(folder))

    def _inside(self, folder: str) -> list[str]:
        return [path for path in self._files if f"/{folder}/" in f"/{path}"] if folder else []

    def _commit(self, arguments: Sequence[str], ident: str, commit: tuple[str, str, str]) -> None:
        branch, hash_, subject = commit
        if any(map(_COMMITS_EVERYTHING.match, arguments)):
            self._staged.update(path for path, state in self._files.items() if not _is_committed(state))
        amends = "--amend" in arguments
        old = self._commits.pop() if amends and self._commits and self._commits[-1].hash else None
        state = f"{_COMMITTED} in {hash_}" if hash_ else _COMMITTED
        for path, file in list(self._files.items()):
            if seq_of_id(file.ident) > seq_of_id(ident):  # changed since: a sweep may take the commit after the change
                continue
            if path in self._staged or (old is not None and file.state == f"{_COMMITTED} in {old.hash}"):
                self._files[path] = _FileState(file.ident, state)
        self._staged.clear()
        if hash_:
            on = f" (on {branch})" if branch and " " not in branch else ""
            text = f"{fold_line(subject, _SUBJECT_CHARS)}{on}"
            self._commits.append(_Commit(ident, hash_, text, old.hash if old is not None else ""))

    def _undo_commit(self, commit: _Commit, *, is_hard: bool, ident: str) -> None:
        self._commits.append(_Commit(ident, commit.hash, "was taken back by git reset"))
        for path, file in list(self._files.items()):
            if file.state == f"{_COMMITTED} in {commit.hash}":
                state = "reverted by git reset --hard" if is_hard else EDITED
                self._files[path] = _FileState(file.ident, state)

    def _forget_hashes(self) -> None:
        """After a rebase the commits have other hashes."""
        self._commits = [
            each._replace(text=f"{each.text}, rebased since: it has another hash")
            if "rebased since" not in each.text
            else each
            for each in self._commits
        ]
        for path, file in list(self._files.items()):
            if _is_committed(file):
                self._files[path] = _FileState(file.ident, _COMMITTED)

    def _set(self, path: str, ident: str, state: str) -> None:
        paths = self._known(path)
        name = paths.rpartition("/")[2]
        if paths not in self._files:
            self._by_name.setdefault(name, []).append(paths)
        elif seq_of_id(self._files[paths].ident) > seq_of_id(ident):  # a sweep may take the older change later
            return
        self._files.pop(paths, None)
        self._files[paths] = _FileState(ident, state)

    def _known(self, path: str) -> str:
        """The same file as it was named before: by a full path or by a relative one."""
        path = path.removeprefix("./")
        for other in self._by_name.get(path.rpartition("/")[2], ()):
            if other == path or other.endswith(f"/{path}") or path.endswith(f"/{other}"):
                return other
        return path


def _is_committed(file: _FileState) -> bool:
    return file.state.startswith(_COMMITTED)


def has_made_commit(answer: Message) -> bool:
    """Whether git printed a commit in the result of a call."""
    return _MADE.search(clean_text(text_of(answer))) is not None


def is_only_commit(command: str) -> bool:
    """Whether a command does nothing but stage and commit."""
    effect = effect_of(command)
    return not effect.changes and effect.writers <= {"git add", "git commit"}
