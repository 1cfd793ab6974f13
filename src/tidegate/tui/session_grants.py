"""The approvals that hold for the rest of a session, for the app and the plain chat."""

import shlex

from tidegate.agent.tools.approval import ApprovalQuestion, ApprovalRules, decide_approval
from tidegate.agent.tools.command_rules import split_command


class SessionGrants:
    """Approvals for the rest of this session. They are checked by the same rules as the configured ones."""

    def __init__(self) -> None:
        self._approval = ApprovalRules()

    def allows(self, question: ApprovalQuestion) -> bool:
        return decide_approval(self._approval, question.tool, question.arguments).verdict == "allow"

    def grant(self, question: ApprovalQuestion) -> None:
        tools, commands = dict(self._approval.verdicts), self._approval.allow_commands
        rule = make_allow_rule(question)
        if question.tool != "shell":
            tools[question.tool] = "allow"
        elif rule:
            commands = (*commands, rule)
        self._approval = ApprovalRules(tools, commands)


def explain_no_always(question: ApprovalQuestion) -> str:
    """Say why a call cannot be allowed for the session; empty if it can."""
    if question.tool != "shell" or make_allow_rule(question):
        return ""
    return "It cannot be allowed for the session: it has operators, variables or patterns of the shell."


def make_allow_rule(question: ApprovalQuestion) -> str:
    """Return the allow rule for exactly this command; empty for one that no allow rule can match."""
    command = question.arguments.get("command")
    arguments = split_command(command) if question.tool == "shell" and isinstance(command, str) else None
    return "" if arguments is None else shlex.join(arguments)
