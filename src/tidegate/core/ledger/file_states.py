"""The files that calls changed, each with its last state, and the commits that were made.

They are followed through all messages of the view, beginning with what the ledger says of messages that left earlier:
a file that was edited before the last sweep and committed since has the commit as its state. Changes count however
they were made: by a tool, a patch or a shell command. A call that failed or was refused changes nothing.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from tidegate.core.digest.units import fold_line
from tidegate.core.ledger.lines import LedgerLine, is_of_subagent
from tidegate.core.messages import Call, Message, calls_of, result_of, text_of
from tidegate.core.recognition.shell_commands import EDITED, effect_of
from tidegate.core.text.facts import begins_with_failure, is_refusal
from tidegate.core.text.terminal_text import clean_text
from tidegate.core.text.tool_calls import file_changes_of, find_command

_COMMITTED: Final = "committed"
_STATE: Final = re.compile(r"(.*?) \(([^()]{1,200})\)")
_MADE: Final = re.compile(r"^\[([^\]\n]{1,120}?) (?:\(root-commit\) )?([0-9a-f]{7,40})\] (.{1,300})$", re.M)
"""What git prints for a commit: the branch, the hash and the subject."""
_MADE_QUIETLY: Final = re.compile(r"^ ?\d+ files? changed", re.M)
_REBASED: Final = re.compile(r"^Successfully rebased", re.M)
_RESET: Final = re.compile(r"HEAD(?:~1?|\^|@\{1\})$")
_NO_CHANGE: Final = re.compile(r"No such file|cannot stat|can't read|did not match any file|not found|Traceback \(")
"""What a failed command prints if it did not change the file that it names."""
_FAILED: Final = re.compile(r"exit(?:ed with)? code:? [1-9]", re.I)
_EVERYTHING: Final = frozenset((".", "-A", "--all", "-u", "--update", ":/", "*"))
_COMMITS_EVERYTHING: Final = re.compile(r"-[a-zA-Z]*a[a-zA-Z]*$|--all$")
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
                made, _, text = line.text.partition(" ")
                self._commits.append(_Commit(line.ident, made, text))

    def lines(self) -> list[LedgerLine]:
        changed = [
            LedgerLine("changed", state.ident, path if state.state == EDITED else f"{path} ({state.state})")
            for path, state in self._files.items()
        ]
        return [*changed, *(commit.line() for commit in self._commits)]

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

    def _take_git(self, command: str, printed: str, ident: str) -> None:
        made = _MADE.findall(printed)
        for arguments in effect_of(command).git:
            name, *rest = arguments or ("",)
            if name == "add":
                self._stage(rest)
            elif name == "commit":
                if made:
                    self._commit(rest, ident, made.pop(0))
                elif _MADE_QUIETLY.search(printed):
                    self._commit(rest, ident, ("", "", ""))
            elif name == "reset" and rest and _RESET.match(rest[-1]) and self._commits:
                self._undo_commit(self._commits.pop(), is_hard="--hard" in rest, ident=ident)
            elif (name == "rebase" or "--rebase" in rest) and _REBASED.search(printed):
                self._forget_hashes()

    def _stage(self, arguments: Sequence[str]) -> None:
        if not _EVERYTHING.isdisjoint(arguments):
            self._staged.update(path for path, state in self._files.items() if not _is_committed(state))
        for argument in arguments:
            if not argument.startswith("-"):
                folder = argument.rstrip("/*").removeprefix("./")
                known = self._known(folder)
                self._staged.update([known] if known in self._files else self._inside(folder))

    def _inside(self, folder: str) -> list[str]:
        return [path for path in self._files if f"/{folder}/" in f"/{path}"] if folder else []

    def _commit(self, arguments: Sequence[str], ident: str, made: tuple[str, str, str]) -> None:
        branch, hash_, subject = made
        if any(map(_COMMITS_EVERYTHING.match, arguments)):
            self._staged.update(path for path, state in self._files.items() if not _is_committed(state))
        amends = "--amend" in arguments
        old = self._commits.pop() if amends and self._commits and self._commits[-1].hash else None
        state = f"{_COMMITTED} in {hash_}" if hash_ else _COMMITTED
        for path, file in list(self._files.items()):
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
        known = self._known(path)
        name = known.rpartition("/")[2]
        if known not in self._files:
            self._by_name.setdefault(name, []).append(known)
        self._files.pop(known, None)
        self._files[known] = _FileState(ident, state)

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
