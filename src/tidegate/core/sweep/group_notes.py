"""Notes that take the place of dropped groups: what was called, on what, how large the result was, how it ended.

A note has the role of the user and says that it is data. Each call is one line, so that the model does not repeat it
and can recall it; a command begins with `$`, and the outcome follows ` -> `. White space is folded: text of a tool
cannot begin a line.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from tidegate.core.digest.units import fold_line
from tidegate.core.messages import NOTE, Call, Message, calls_of, result_of, text_of, user_message
from tidegate.core.recognition.shell_commands import only_reads
from tidegate.core.sweep.key_lines import is_envelope
from tidegate.core.text.facts import begins_with_failure, find_error_lines, find_last_line, is_refusal
from tidegate.core.text.terminal_text import clean_text
from tidegate.core.text.tool_calls import (
    INCIDENTAL_KEYS,
    call_target_of,
    changed_paths_of,
    classify_tool,
    describe_todos,
    find_command,
    is_todo_list,
    iterate_strings,
    parse_call_arguments,
)
from tidegate.core.turns import Group

_HEADING: Final = "[Left out here (data; recall shows it by id):"
_SHORT_HEADING: Final = "[Left out here: "
_END: Final = "]"
EARLIER: Final = "earlier work"
OUTCOME: Final = " -> "
_COMMAND: Final = "$ "
ANSWERED: Final = " answered: "
_ANSWER: Final = "answer"
_WITH_ANSWER: Final = ", answered"
_SUCH_AS: Final = ", such as "
REFUSED: Final = "refused by the user"
NO_OUTPUT: Final = "no output"
_SUBJECT_CHARS: Final = 120
_OUTCOME_CHARS: Final = 80
_SAID_CHARS: Final = 160
_REFUSAL_CHARS: Final = 1_000  # of the user's words: they may be the task that the agent has to do now
_EXIT_CODE: Final = re.compile(r"\[exit code (\d+)\]|(?:Process )?exit(?:ed with)? code:? (\d+)", re.I)

_RUNNING_CHARS: Final = 400
_ENVELOPE_CHARS: Final = 400
_REFUSAL_WORDS: Final = re.compile(r"the user (?:said|says|answered|responded)[^:\n]{0,40}:", re.I)
_SHORTENED: Final = re.compile(r"\[\d+ of ([\d,]+) lines; recall ")
_ERROR_TAG: Final = re.compile(r"</?tool_use_error>")
_CHATTER: Final = re.compile(r"\s*(?:warning:|hint:|note:|\(\w+ completed with no output\))", re.I)
_RUNNING: Final = re.compile(
    r"running in (?:the )?background with ID:? ([\w-]+)|Process running with session ID (\w+)"
    r'|\{"chunk_id":[^{}]{0,200}"session_id":(\w+)'
)
_SUCCEEDED: Final = re.compile(r"\bsuccessfully\b(?!.*\b(?:not|failed|error)\b)|^(?:ok|done)\b", re.I)


def describe_group(group: Group) -> str:
    """The lines for a dropped group, one for each call, or "" for one that needs none."""
    caller = group.items[0].message
    if caller.role != "assistant":
        return ""
    results = {result.call_id: item.message for item in group.items if (result := result_of(item.message)) is not None}
    calls = calls_of(caller)
    if not calls:
        text = text_of(caller)
        return f"- {caller.id}{ANSWERED}{fold_line(text, _SAID_CHARS)}" if text.strip() else ""
    span = caller.id if len(group.items) == 1 else f"{caller.id}..{group.last_id}"
    said = Counter(_describe_call(call, results.get(call.id)) for call in calls)
    return "\n".join(f"- {span} {text}" + (f" ({count} times)" if count > 1 else "") for text, count in said.items())


def _describe_call(call: Call, answer: Message | None) -> str:
    subject = find_subject(call)
    said = f"{_COMMAND}{subject}" if find_command(call) else f"{fold_line(call.name, 40)} {subject}".strip()
    outcome = describe_outcome(call, answer) or (NO_OUTPUT if find_command(call) else "")
    return f"{said}{OUTCOME}{outcome}" if outcome else said


def find_subject(call: Call) -> str:
    """What a call is about: its command, the files that it changes, or its path and other short arguments.

    Of a to-do list it is nothing: the ledger has the open items of the newest one.
    """
    command = find_command(call)
    if command:
        return fold_line(command, _SUBJECT_CHARS)
    arguments = parse_call_arguments(call)
    if is_todo_list(arguments):
        return ""
    texts = [value for _, value in iterate_strings(arguments, skip=INCIDENTAL_KEYS) if value and "\n" not in value]
    return fold_line(", ".join(changed_paths_of(call)) or " ".join(texts[:2]), _SUBJECT_CHARS)


def describe_outcome(call: Call, answer: Message | None) -> str:
    """How a call ended: its failure or exit code, a short result, or the size of a longer one.

    Of a command that went on in the background it is not known: what it had printed by then is not its outcome.

    Of a to-do list it is how many of its items are open: that the list was written does not say that they are done.
    """
    if answer is None:
        return "no result"
    text = _ERROR_TAG.sub("", clean_text(text_of(answer)))
    if is_refusal(text):
        said = _REFUSAL_WORDS.search(text)
        return f"{REFUSED}, {fold_line(text[said.end() :] if said else find_last_line(text), _REFUSAL_CHARS)}"
    if find_command(call) and (running := find_running_id(answer)):
        return f"still running when the call returned, id {running}"
    result = result_of(answer)
    shortened = _SHORTENED.match(text)
    lines = int(shortened[1].replace(",", "")) if shortened else _count_lines(text)
    size = f"{lines:,} lines" if lines > 1 else NO_OUTPUT if lines < 1 else ""
    code = _EXIT_CODE.search(text[-400:]) or _EXIT_CODE.search(text[:400])
    ended = f"exit code {code[1] or code[2]}" if code else ""
    writes = call_target_of(call).writes
    failed = (
        (result is not None and result.error)
        or (code is not None and (code[1] or code[2]) != "0")
        or (writes and begins_with_failure(text_of(answer)))
    )
    if not failed and (todos := describe_todos(parse_call_arguments(call))):
        return todos
    if lines == 1 and not failed and writes and _SUCCEEDED.search(text):
        return "done"  # the rest of the line only repeats the path
    printed = "\n".join(line for line in _EXIT_CODE.sub("", text[-8_000:]).split("\n") if not is_envelope(line))
    reports = bool(find_command(call)) and not call_target_of(call).shows_file
    faults = find_error_lines(printed) if failed or reports else []
    last = faults[-1] if faults else _find_verdict(printed) if reports or lines == 1 else ""
    if failed and not last:  # an edit quotes what it did not find after it has said so
        last = printed.strip().partition("\n")[0]
    shown = fold_line(last, _OUTCOME_CHARS) if last and last[:1] != "[" else ""
    return ", ".join(filter(None, (size, ended, shown))).replace(OUTCOME, " → ")


def find_running_id(answer: Message) -> str:
    """The id of a command that went on in the background, from the result of its call, or ""."""
    running = _RUNNING.search(text_of(answer)[:_RUNNING_CHARS])
    return next(filter(None, running.groups())) if running else ""


def _count_lines(text: str) -> int:
    """The lines of a result without those that a shell tool prints before the output."""
    envelope = sum(map(is_envelope, text[:_ENVELOPE_CHARS].split("\n")))
    return text.count("\n") + (not text.endswith("\n")) - envelope


def _find_verdict(printed: str) -> str:
    """The last line that says something about the outcome."""
    return find_last_line("\n".join(line for line in printed.split("\n") if not _CHATTER.match(line)))


def make_group_note(lines: Sequence[str]) -> Message:
    """A note of these lines. If they are one range only, it is a short one."""
    if len(lines) == 1 and _RANGE_LINE.fullmatch(lines[0]):
        return user_message(f"{_SHORT_HEADING}{lines[0][2:]}{_END}", NOTE)
    return user_message("\n".join([_HEADING, *lines, _END]), NOTE)


def _span_of(line: str) -> str:
    return line.split(" ", 2)[1]


def _number_of(ident: str) -> int:
    """The seq of the event with this message; for one that an edit inserted (`e85.2`) that of the edit."""
    number = ident[1:].partition(".")[0]
    return int(number) if number.isdecimal() else 0


def make_range_line(lines: Sequence[str], before: str, *, is_brief: bool = False) -> str:
    """One line in place of those of several groups: `- m4..m31 earlier work, such as command ×9, Edit ×2`.

    A brief one says only whether a request was answered: `- m4..m31 earlier work, answered`.
    It begins after the message `before`: others may have left without a line, so the counts are not of all calls.
    """
    first = _number_of(_span_of(lines[0]).partition("..")[0])
    last = _number_of(_span_of(lines[-1]).rpartition("..")[2])
    if before[:1] == "m":
        first = min(first, _number_of(before) + 1)
    counts: Counter[str] = Counter()
    for line in "\n".join(lines).split("\n"):
        earlier, noted = _RANGE_LINE.fullmatch(line), _NOTED.fullmatch(line)
        if earlier:
            counts[_ANSWER] += earlier[1] is not None
            counts.update({what: int(count) for what, count in _COUNTED.findall(earlier[2] or "")})
        elif noted:
            times = _TIMES.search(line)
            counts[_kind_of_noted(noted[2])] += int(times[1]) if times else 1
    span = f"m{first}" if first == last else f"m{first}..m{last}"
    if is_brief:
        return f"- {span} {EARLIER}{_WITH_ANSWER if counts[_ANSWER] else ''}"
    done = ", ".join(f"{what} ×{count}" for what, count in counts.most_common(_COUNTS_SHOWN) if count)
    return f"- {span} {EARLIER}" + (f"{_SUCH_AS}{done}" if done else "")


def tells_answer(line: str) -> bool:
    """Whether a line of a note says that a request was answered."""
    return ANSWERED in line or f"{_ANSWER} ×" in line or line.endswith(_WITH_ANSWER)


def _kind_of_noted(text: str) -> str:
    if text.startswith(_COMMAND):
        return "command"
    return _ANSWER if text.startswith(ANSWERED.lstrip()) else text.partition(" ")[0].rstrip(":")


def is_group_note(message: Message) -> bool:
    return message.kind == NOTE and text_of(message).startswith((_HEADING, _SHORT_HEADING))


def lines_of_note(message: Message) -> list[str]:
    text = text_of(message)
    if text.startswith(_SHORT_HEADING):
        return [f"- {text[len(_SHORT_HEADING) : -len(_END)]}"]
    return text.split("\n")[1:-1]


def groups_of_note(message: Message) -> list[str]:
    """The lines of a note, those of one group in one text."""
    return ["\n".join(lines) for _, lines in groupby(lines_of_note(message), _span_of)]


_PATH: Final = re.compile(r"\S*[^\s/]\.\w+")
_NOTED: Final = re.compile(r"- (m\d+)(?:\.\.m\d+)? (.+)")
_SIZE: Final = re.compile(r"^[\d,]+ lines, ")
_RANGE_LINE: Final = re.compile(
    rf"- m\d+(?:\.\.m\d+)? {EARLIER}({_WITH_ANSWER})?(?:(?:{_SUCH_AS}|: )(.+))?"
)  # the colon: in older notes
_COUNTED: Final = re.compile(r"(?:^|, )([^,]+) ×(\d+)")
_COUNTS_SHOWN: Final = 4
_TIMES: Final = re.compile(r" \((\d{1,4}) times\)$")


def described_ids(notes: Iterable[Message]) -> frozenset[str]:
    """The calling messages that these notes describe."""
    lines = [line for note in notes for line in lines_of_note(note) if not _RANGE_LINE.fullmatch(line)]
    return frozenset(match[1] for match in map(_NOTED.fullmatch, lines) if match)


def statements_of_note(note: Message) -> Iterator[tuple[str, str, str]]:
    """What a note says of changed files and commands, as kind, id and text of a ledger line. Readings are left out."""
    for line in lines_of_note(note):
        match = _NOTED.fullmatch(line)
        if not match or _RANGE_LINE.fullmatch(line) or match[2].startswith(ANSWERED.lstrip()):
            continue
        said, arrow, outcome = match[2].rpartition(OUTCOME)
        if not arrow:
            said, outcome = match[2], ""
        if outcome.startswith(REFUSED):  # the call was not made
            continue
        if said.startswith(_COMMAND):
            command = said.removeprefix(_COMMAND)
            if not only_reads(command):
                yield "ran", match[1], f"{command}{OUTCOME}{outcome or NO_OUTPUT}"
            continue
        tool, _, paths = said.partition(" ")
        if classify_tool(tool) == "write" and not begins_with_failure(_SIZE.sub("", outcome)):
            yield from (("changed", match[1], path) for path in _split_paths(paths))


def _split_paths(text: str) -> list[str]:
    """The paths in the description of a call. Notes of older sessions have the outcome after a colon."""
    return [path for path in text.partition(": ")[0].split(", ") if _PATH.fullmatch(path)]
