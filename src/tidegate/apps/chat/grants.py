"""What was allowed for the rest of a session, on a screen or without one."""

import shlex
from typing import Final

from tidegate.agent.tools.approval import Approval, Question, decide

_JOINTS: Final = frozenset("`$<>(){}\\\n\r\0;&|")


class Grants:
    """What was allowed for the rest of this session. It is decided by the same rules as the configuration's own."""

    def __init__(self) -> None:
        self._approval = Approval()

    def covers(self, question: Question) -> bool:
        return decide(self._approval, question.tool, question.arguments).verdict == "allow"

    def add(self, question: Question) -> None:
        tools, commands = dict(self._approval.tools), self._approval.allow_commands
        beginning = beginning_of(question)
        if question.tool != "shell":
            tools[question.tool] = "allow"
        elif beginning:
            commands = (*commands, beginning)
        self._approval = Approval(tools, commands)


def beginning_of(question: Question) -> str:
    """Of a command: its program, and the word behind it where that says what is done. Empty where nothing is sure."""
    command = question.arguments.get("command")
    if question.tool != "shell" or not isinstance(command, str) or _JOINTS & set(command):
        return ""
    try:
        words = shlex.split(command)
    except ValueError:
        return ""
    if not words or any(sign in word for word in words[:2] for sign in "*?[ "):
        return ""
    named = len(words) > 1 and words[1].isalnum()
    return " ".join(words[: 2 if named else 1])
