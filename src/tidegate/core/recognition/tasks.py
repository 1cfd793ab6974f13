"""Tasks of an agent's own list that it keeps with one call for each (`TaskCreate` and `TaskUpdate` of Claude Code)."""

import re
from typing import Final, NamedTuple

from tidegate.core.messages import Call
from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.core.text.tool_calls import parse_call_arguments

_TASK_TOOL: Final = LazyPattern(r"task_?(?:create|update)", re.I)
_TASK_NUMBER: Final = LazyPattern(r"#(\d+)")
_CLOSED: Final = ("completed", "done", "deleted", "cancelled")


class TaskChange(NamedTuple):
    """A task that a call made or changed. `subject` is "" if the call does not say it."""

    number: str
    subject: str
    status: str

    @property
    def is_closed(self) -> bool:
        return self.status in _CLOSED


def keeps_task(call: Call) -> bool:
    """Whether a call makes or changes a task."""
    return _TASK_TOOL.fullmatch(call.name) is not None


def find_task_change(call: Call, output: str) -> TaskChange | None:
    """What such a call does to the list; None if it does not say which task it is about. `output` is its result."""
    arguments = parse_call_arguments(call)
    if not isinstance(arguments, dict):
        return None
    match = _TASK_NUMBER.search(output)
    number = str(arguments.get("taskId") or (match[1] if match else ""))
    subject, status = arguments.get("subject"), arguments.get("status")
    if not number:
        return None
    return TaskChange(number, subject if isinstance(subject, str) else "", status if isinstance(status, str) else "")
