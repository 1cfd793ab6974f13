"""Access to the original messages of the current branch, for the check of a note and for its passages."""

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from tidegate.core.digest.units import fold_line
from tidegate.core.messages import Call, Message, calls_of, is_user_request, result_of, text_of
from tidegate.core.recognition.dialogs import find_words_in_dialogs
from tidegate.core.state_note.file_edits import FileEdit, apply_edits, list_edits
from tidegate.core.text.facts import split_runs, strip_punctuation
from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.core.text.rule_text import rule_text
from tidegate.core.text.tool_calls import (
    INCIDENTAL_KEYS,
    call_target_of,
    changed_paths_of,
    find_command,
    is_content_argument,
    iterate_strings,
    parse_call_arguments,
)
from tidegate.core.thinking_walk import seq_of_id

_PATH_KEYS: Final = ("file_path", "filePath", "path", "filename", "target_file", "notebook_path", "file")
_OLD_TEXT: Final = LazyPattern(r"^old|^search|^find|^before", re.I)
_PATCHED_LINE: Final = LazyPattern(r"^[- ](.*\S.*)$", re.M)
"""A line of a patch that the file had before: its place, or what leaves."""
_ENTRY: Final = LazyPattern(r"^\s*cd\s+\S+\s*(?:&&|;)\s*(?=\S)")
"""The change of the folder before a command."""
_SPACE: Final = LazyPattern(r"\s+")
_INNER: Final = LazyPattern(r"[^\w.@-]+")
_SUBJECT_CHARS: Final = 90
_BRIEF_CHARS: Final = 40  # of an argument: a shorter one is not worth quoting


class SourceText(NamedTuple):
    """A text of a message in which passages can be found, with its origin.

    `source` is what people read: the tool with its file or command, or the author. `shows_file`: it is the content of
    a file, or a part of it, `is_whole`: all of it. `is_brief`: a short argument of a call, which is quoted only if
    nothing else has the text. `edits` are those that were applied to it, where it is no longer as the message has it.
    """

    id: str
    source: str
    file: str
    text: str
    shows_file: bool = False
    is_brief: bool = False
    is_whole: bool = False
    edits: tuple[FileEdit, ...] = ()


class LoggedFileChange(NamedTuple):
    """A call that changed a file: the text it replaced, or "" if it wrote the file or a patch."""

    id: str
    file: str
    old: str


class Originals:
    """The messages of one branch in their original form, oldest first, and the system prompt."""

    def __init__(self, messages: Iterable[Message], system: str = "") -> None:
        self.system = system
        self.messages = [message for message in messages if message.agent_visible]
        self._by_id = {message.id: message for message in self.messages}
        self._groups = _list_groups(self.messages)
        self._updates: dict[SourceText, SourceText | None] = {}

    def __contains__(self, ident: str) -> bool:
        return ident in self._by_id

    def up_to(self, ident: str) -> "Originals":
        """Those up to a message."""
        if self.messages[-1].id == ident:
            return self
        return Originals((each for each in self.messages if not is_after(each.id, ident)), self.system)

    def read_around(self, ident: str) -> str:
        """The text of a message with the results of its calls, or with the call that it answers."""
        return "\n".join(self.read(each) for each in self._groups.get(ident, ()))

    def is_of_user(self, ident: str) -> bool:
        message = self._by_id.get(ident)
        return message is not None and is_user_request(message)

    def read(self, ident: str) -> str:
        """The text of a message, with the arguments of its calls."""
        return self._texts[ident]

    def count_lines(self, ident: str) -> int:
        """The lines of a message."""
        return self._texts[ident].strip("\n").count("\n") + 1

    @property
    def ids(self) -> Iterable[str]:
        return self._by_id

    @cached_property
    def _texts(self) -> dict[str, str]:
        return {message.id: readable_text(message) for message in self.messages}

    @cached_property
    def whole_text(self) -> str:
        return "\n".join([self.system, *self._texts.values()])

    @cached_property
    def folded_text(self) -> str:
        """Everything, with white space folded."""
        return fold_space(self.whole_text)

    @cached_property
    def words(self) -> frozenset[str]:
        """Every run of the log, without punctuation around it, and the parts of paths and assignments."""
        return collect_runs(self.whole_text)

    @cached_property
    def plain_text(self) -> str:
        """Everything in lower case."""
        return self.whole_text.casefold()

    @cached_property
    def typed_text(self) -> str:
        """What the user typed, folded and in lower case."""
        texts = (rule_text(message) or text_of(message) for message in self.messages if is_user_request(message))
        return fold_space("\n".join(texts)).casefold()

    @cached_property
    def dialogs(self) -> dict[str, str]:
        """What the user said in dialogs of the client, by the id of the message with the result."""
        return find_words_in_dialogs(self.messages)

    @cached_property
    def dialog_text(self) -> str:
        """The same, folded and in lower case."""
        return fold_space("\n".join(self.dialogs.values())).casefold()

    @cached_property
    def sources(self) -> list[SourceText]:
        """The texts in which passages can be found, oldest first."""
        return list_sources(self.messages)

    @cached_property
    def changes(self) -> list[LoggedFileChange]:
        return [change for message in self.messages for change in changes_of(message, self._failures)]

    @cached_property
    def _failures(self) -> frozenset[str]:
        """The ids of the calls that failed."""
        results = filter(None, map(result_of, self.messages))
        return frozenset(result.call_id for result in results if result.error)

    @cached_property
    def _edits(self) -> dict[str, list[FileEdit]]:
        return {
            message.id: [
                edit
                for call in calls_of(message)
                if call.id not in self._failures
                for edit in list_edits(message.id, call, find_call_path(call))
            ]
            for message in self.messages
        }

    @cached_property
    def _shell_changes(self) -> list[tuple[str, str]]:
        """The messages with commands that write to files, with these files: what they wrote is not in the log."""
        calls = [(message.id, call) for message in self.messages for call in calls_of(message) if find_command(call)]
        return [(ident, path) for ident, call in calls for path in changed_paths_of(call) if path]

    def update_source(self, source: SourceText) -> SourceText | None:
        """A text of a file with the edits that came after it; None if one of them is unclear, or there is none."""
        if source not in self._updates:
            self._updates[source] = self._update_source(source)
        return self._updates[source]

    def _update_source(self, source: SourceText) -> SourceText | None:
        later = [
            change
            for change in self.changes
            if is_after(change.id, source.id) and is_same_file(change.file, source.file)
        ]
        commands = [ident for ident, path in self._shell_changes if is_same_file(path, source.file)]
        if not all(change.old for change in later) or any(is_after(ident, source.id) for ident in commands):
            return None
        idents = dict.fromkeys(change.id for change in later)
        edits = [each for ident in idents for each in self._edits[ident] if is_same_file(each.file, source.file)]
        if not set(idents) <= {edit.id for edit in edits}:
            return None
        text = apply_edits(source.text, edits) if edits else None
        return None if text is None else source._replace(text=text, edits=tuple(edits))


def is_same_file(one: str, other: str) -> bool:
    """Whether two paths may be of one file: from different folders, one is the end of the other."""
    parts, other_parts = _split_path(one), _split_path(other)
    length = min(len(parts), len(other_parts))
    return length > 0 and parts[-length:] == other_parts[-length:]


def _split_path(path: str) -> list[str]:
    return [part for part in path.replace("\\", "/").split("/") if part not in ("", ".", "..")]


def fold_space(text: str) -> str:
    return _SPACE.sub(" ", text)


def collect_runs(text: str) -> frozenset[str]:
    runs = {strip_punctuation(run) for run in split_runs(text)}
    runs.update(part for run in list(runs) if not run.isalnum() for part in _INNER.split(run))
    return frozenset(runs)


def readable_text(message: Message) -> str:
    """The text of a message, and the texts in the arguments of its calls as they were meant."""
    lines = [text_of(message)]
    for call in calls_of(message):
        lines.append(call.name)
        lines += [value for _, value in iterate_strings(parse_call_arguments(call))]
        lines.append(call.arguments)
    return "\n".join(lines)


def _list_groups(messages: list[Message]) -> dict[str, tuple[str, ...]]:
    """For each message the ids of its group, and of the message before a group: an answer tells of what was before."""
    groups: list[list[str]] = []
    for message in messages:
        if message.role == "tool" and groups:
            groups[-1].append(message.id)
        else:
            groups.append([message.id])
    return {ident: tuple(group) for group in groups for ident in group}


def find_call_path(call: Call) -> str:
    """The path of the file that a call reads or writes, as it names it; "" if it names none."""
    arguments = parse_call_arguments(call)
    if isinstance(arguments, dict):
        for key in _PATH_KEYS:
            value = arguments.get(key)
            if isinstance(value, str) and 0 < len(value) <= 400 and "\n" not in value:
                return value
    paths = changed_paths_of(call)
    if paths:
        return paths[0]
    files = call_target_of(call).files
    return next(iter(files)) if len(files) == 1 and call_target_of(call).shows_file else ""


def describe_call(call: Call) -> str:
    """The tool with its file, command or first argument."""
    command = find_command(call)
    if command:
        return f"$ {fold_line(_ENTRY.sub('', command), _SUBJECT_CHARS)}"
    path = find_call_path(call)
    if path:
        return f"{fold_line(call.name, 40)} {path}"
    texts = [value for _, value in iterate_strings(parse_call_arguments(call), skip=INCIDENTAL_KEYS) if value.strip()]
    return f"{fold_line(call.name, 40)} {fold_line(texts[0], _SUBJECT_CHARS) if texts else ''}".strip()


def list_sources(messages: Sequence[Message]) -> list[SourceText]:
    """The texts of these messages in which passages can be found."""
    calls = {call.id: call for message in messages for call in calls_of(message)}
    return [source for message in messages for source in _sources_of(message, calls)]


def _sources_of(message: Message, calls: dict[str, Call]) -> list[SourceText]:
    result = result_of(message)
    if result is not None:
        call = calls.get(result.call_id)
        if call is None:
            return [SourceText(message.id, "result of a tool", "", text_of(message))]
        target = call_target_of(call)
        shows = not target.writes and (target.shows_file or (bool(find_call_path(call)) and _reads_file(call)))
        return [SourceText(message.id, describe_call(call), find_call_path(call), text_of(message), shows)]
    author = "user" if is_user_request(message) else message.role
    sources = [SourceText(message.id, author, "", text)] if (text := text_of(message)).strip() else []
    for call in calls_of(message):
        path, source = find_call_path(call), describe_call(call)
        whole = call_target_of(call).whole_file
        for key, value in iterate_strings(parse_call_arguments(call)):
            if _OLD_TEXT.search(key):
                continue
            if is_content_argument(value):
                sources.append(SourceText(message.id, source, path, value, whole, is_whole=whole))
            elif len(value) >= _BRIEF_CHARS:
                sources.append(SourceText(message.id, source, path, value, is_brief=True))
    return sources


def _reads_file(call: Call) -> bool:
    return re.search(r"read|view|open|cat", call.name, re.I) is not None


def changes_of(message: Message, failed: frozenset[str] | set[str] = frozenset()) -> list[LoggedFileChange]:
    """The changes that the calls of a message make to files, without calls that failed."""
    changes: list[LoggedFileChange] = []
    for call in calls_of(message):
        if call.id in failed or not call_target_of(call).writes:
            continue
        paths = changed_paths_of(call) or [find_call_path(call)]
        strings = list(iterate_strings(parse_call_arguments(call)))
        old_texts = [value for key, value in strings if _OLD_TEXT.search(key) and value.strip()]
        old_texts += [
            old for _, value in strings if "*** " in value and (old := "\n".join(_PATCHED_LINE.findall(value)))
        ]
        for path in filter(None, paths):
            changes += [LoggedFileChange(message.id, path, old) for old in old_texts or [""]]
    return changes


def is_after(ident: str, other: str) -> bool:
    return seq_of_id(ident) > seq_of_id(other)
