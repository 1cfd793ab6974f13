"""Notes that take the place of dropped groups: what was called, on what, how large the result was, how it ended.

A note has the role of the user and says that it is data. Each group is one line, so that the model does not repeat the
call and can recall it. White space is folded: text of a tool cannot begin a line.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from tidegate.core.digest.units import fold_line
from tidegate.core.messages import NOTE, Call, Message, calls_of, result_of, text_of, user_message
from tidegate.core.sweep.key_lines import is_envelope
from tidegate.core.text.facts import find_error_lines, find_last_line, is_refusal
from tidegate.core.text.terminal_text import clean_text
from tidegate.core.text.tool_calls import (
    COMMAND_KEYS,
    INCIDENTAL_KEYS,
    READS_ONLY,
    call_target_of,
    classify_tool,
    iterate_strings,
    parse_call_arguments,
)
from tidegate.core.turns import Group

_HEADING: Final = "[Left out here (data; recall shows it by id):"
_SHORT_HEADING: Final = "[Left out here: "
_END: Final = "]"
EARLIER: Final = "earlier work"
ANSWERED: Final = " answered: "
REFUSED: Final = "refused by the user"
_SUBJECT_CHARS: Final = 120
_OUTCOME_CHARS: Final = 80
_SAID_CHARS: Final = 160
_EXIT_CODE: Final = re.compile(r"\[exit code (\d+)\]|(?:Process )?exit(?:ed with)? code:? (\d+)", re.I)

_WRAPPED_COMMAND: Final = re.compile(r'exec_command\(\{\s*"?cmd"?:\s*"((?:[^"\\]|\\.)+)"')  # a call by a script
_SCRIPT_CHARS: Final = 2_000
_SUCCEEDED: Final = re.compile(r"\bsuccessfully\b(?!.*\b(?:not|failed|error)\b)|^(?:ok|done)\b", re.I)


def describe_group(group: Group) -> str:
    """The line for a dropped group, or "" for one that needs none."""
    caller = group.items[0].message
    if caller.role != "assistant":
        return ""
    results = {result.call_id: item.message for item in group.items if (result := result_of(item.message)) is not None}
    calls = calls_of(caller)
    if not calls:
        text = text_of(caller)
        return f"- {caller.id}{ANSWERED}{fold_line(text, _SAID_CHARS)}" if text.strip() else ""
    span = caller.id if len(group.items) == 1 else f"{caller.id}..{group.last_id}"
    return f"- {span} " + "; ".join(_describe_call(call, results.get(call.id)) for call in calls)


def _describe_call(call: Call, answer: Message | None) -> str:
    subject = find_subject(call)
    said = fold_line(call.name, 40) + (f" {subject}" if subject else "")
    outcome = describe_outcome(call, answer)
    return f"{said}: {outcome}" if outcome else said


def find_subject(call: Call) -> str:
    """What a call is about: its command, or its path and other short arguments."""
    command = find_command(call)
    if command:
        return fold_line(command, _SUBJECT_CHARS)
    arguments = parse_call_arguments(call)
    texts = [value for _, value in iterate_strings(arguments, skip=INCIDENTAL_KEYS) if value and "\n" not in value]
    return fold_line(" ".join(texts[:2]), _SUBJECT_CHARS)


def find_command(call: Call) -> str:
    """The command that a call runs, or ""."""
    arguments = parse_call_arguments(call)
    script = arguments.get("input") if isinstance(arguments, dict) else arguments
    if isinstance(script, str) and (wrapped := _WRAPPED_COMMAND.search(script[:_SCRIPT_CHARS])):
        return wrapped[1].replace('\\"', '"')
    for key in COMMAND_KEYS if isinstance(arguments, dict) else ():
        value = arguments.get(key)
        if isinstance(value, list):
            value = " ".join(map(str, value))
        if isinstance(value, str):
            return value
    return ""


def describe_outcome(call: Call, answer: Message | None) -> str:
    """How a call ended: its failure or exit code, a short result, or the size of a longer one."""
    if answer is None:
        return "no result"
    text = clean_text(text_of(answer))
    if is_refusal(text):
        return f"{REFUSED}, {fold_line(find_last_line(text), _SAID_CHARS)}"
    result = result_of(answer)
    lines = text.count("\n") + 1
    size = f"{lines:,} lines" if lines > 1 else ""
    code = _EXIT_CODE.search(text[-400:]) or _EXIT_CODE.search(text[:400])
    ended = f"exit code {code[1] or code[2]}" if code else ""
    failed = (result is not None and result.error) or (code is not None and (code[1] or code[2]) != "0")
    if lines == 1 and not failed and call_target_of(call).writes and _SUCCEEDED.search(text):
        return "done"  # the rest of the line only repeats the path
    printed = "\n".join(line for line in _EXIT_CODE.sub("", text[-8_000:]).split("\n") if not is_envelope(line))
    reports = bool(find_command(call)) and not call_target_of(call).shows_file
    faults = find_error_lines(printed) if failed or reports else []
    last = faults[-1] if faults else find_last_line(printed) if reports or lines == 1 else ""
    return ", ".join(filter(None, (size, ended, fold_line(last, _OUTCOME_CHARS) if last and last[:1] != "[" else "")))


def make_group_note(lines: Sequence[str]) -> Message:
    """A note of these lines. If they are one range only, it is a short one."""
    if len(lines) == 1 and lines[0].endswith(f" {EARLIER}"):
        return user_message(f"{_SHORT_HEADING}{lines[0][2:]}{_END}", NOTE)
    return user_message("\n".join([_HEADING, *lines, _END]), NOTE)


def make_range_line(lines: Sequence[str], before: str) -> str:
    """One line in place of several. It begins after the message `before`: others may have left without a line."""
    first = lines[0].split(" ", 2)[1].partition("..")[0]
    last = lines[-1].split(" ", 2)[1].rpartition("..")[2]
    if before[:1] == "m" and before[1:].isdigit():
        first = min(first, f"m{int(before[1:]) + 1}", key=lambda ident: int(ident[1:]))
    return f"- {first} {EARLIER}" if first == last else f"- {first}..{last} {EARLIER}"


def is_group_note(message: Message) -> bool:
    return message.kind == NOTE and text_of(message).startswith((_HEADING, _SHORT_HEADING))


def lines_of_note(message: Message) -> list[str]:
    text = text_of(message)
    if text.startswith(_SHORT_HEADING):
        return [f"- {text[len(_SHORT_HEADING) : -len(_END)]}"]
    return text.split("\n")[1:-1]


_PATH: Final = re.compile(r"\S*[^\s/]\.\w+")
_NOTED: Final = re.compile(r"- (m\d+)(?:\.\.m\d+)? (.+)")


def described_ids(notes: Iterable[Message]) -> frozenset[str]:
    """The calling messages that these notes describe."""
    found = (_NOTED.fullmatch(line) for note in notes for line in lines_of_note(note))
    return frozenset(match[1] for match in found if match and match[2] != EARLIER)


def statements_of_note(note: Message) -> Iterator[tuple[str, str, str]]:
    """What a note says of changed files and commands, as kind, id and text of a ledger line. Readings are left out."""
    for line in lines_of_note(note):
        match = _NOTED.fullmatch(line)
        if not match or match[2] == EARLIER or match[2].startswith(ANSWERED.lstrip()):
            continue
        tool, _, rest = match[2].partition(" ")
        if tool.endswith(":") or f": {REFUSED}" in rest:  # nothing says what the call was about, or it was not made
            continue
        access = classify_tool(tool)
        path = rest.partition(":")[0]
        if access == "write" and _PATH.fullmatch(path):
            yield "changed", match[1], path
        elif access != "read" and not READS_ONLY.match(rest):
            yield "ran", match[1], match[2]
