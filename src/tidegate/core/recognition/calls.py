"""What a call is for, besides reading and writing: giving work to another agent, a plan, a question, a task."""

import re
from typing import Final, NamedTuple

from tidegate.core.messages import Call
from tidegate.core.text.tool_calls import parse_call_arguments

_DELEGATES: Final = re.compile(r"^(?:task|agent)$|sub_?agent|delegate|(?:wait|send)_agent|^(?:spawn|dispatch)_", re.I)
_ASKS_USER: Final = re.compile(r"ask_?(?:the_?)?user|request_user_input|ask_followup|clarif", re.I)
_PLANS: Final = re.compile(r"exit_?plan|present_?plan|propose_?plan", re.I)
_LEAST_PLAN: Final = 200
"""Characters: a shorter text is no plan."""


def delegates(call: Call) -> bool:
    """Whether a call gives work to another agent, or waits for it: its result is a report."""
    return _DELEGATES.search(call.name) is not None


def asks_user(call: Call) -> bool:
    """Whether the result of a call is what the user answered."""
    return _ASKS_USER.search(call.name) is not None


def plan_in(call: Call) -> str:
    """The plan that a call presents to the user, or ""."""
    arguments = parse_call_arguments(call)
    if not _PLANS.search(call.name) or not isinstance(arguments, dict):
        return ""
    texts = [value for value in arguments.values() if isinstance(value, str)]
    return max((text for text in texts if len(text) >= _LEAST_PLAN), key=len, default="")


_MAKES_TASK: Final = re.compile(r"^task_?create$", re.I)
_CHANGES_TASK: Final = re.compile(r"^task_?update$", re.I)
_TASK_NUMBER: Final = re.compile(r"#(\d+)")
_CLOSED: Final = ("completed", "done", "deleted", "cancelled")


class TaskChange(NamedTuple):
    """A task of the agent's own list that a call made or changed. `subject` is "" if the call does not say it."""

    number: str
    subject: str
    status: str

    @property
    def is_closed(self) -> bool:
        return self.status in _CLOSED


def keeps_tasks(call: Call) -> bool:
    """Whether a call is about such a list."""
    return (_MAKES_TASK.search(call.name) or _CHANGES_TASK.search(call.name)) is not None


def task_change_of(call: Call, printed: str) -> TaskChange | None:
    """What a call does to a list of tasks that an agent keeps with one call for each task. `printed`: its result."""
    makes = _MAKES_TASK.search(call.name) is not None
    if not makes and not _CHANGES_TASK.search(call.name):
        return None
    arguments = parse_call_arguments(call)
    if not isinstance(arguments, dict):
        return None
    found = _TASK_NUMBER.search(printed)
    number = str(arguments.get("taskId") or (found[1] if found else ""))
    subject, status = arguments.get("subject"), arguments.get("status")
    if not number:
        return None
    return TaskChange(number, subject if isinstance(subject, str) else "", status if isinstance(status, str) else "")
