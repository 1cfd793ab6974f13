"""May this tool run? The question stands above the input; whoever is typing goes on typing."""

import json
from collections import deque
from typing import ClassVar, Final, NamedTuple

from rich.cells import chop_cells
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget

from tidegate.agent.tools.approval import ApprovalQuestion
from tidegate.core.text.terminal_text import CONTROL_CHARACTERS
from tidegate.terminal.output import TextSanitizer
from tidegate.tui.agent_thread import ApprovalRequested
from tidegate.tui.composer.composer import Composer
from tidegate.tui.conversation.transcript_blocks import format_call_arguments
from tidegate.tui.session_grants import SessionGrants, make_allow_rule

MAX_QUESTION_LINES: Final = 8
_HEAD_LINES: Final = 5
"""Lines of a question, and how many of them are of its beginning where it is longer."""


def _describe_always_choice(question: ApprovalQuestion) -> str:
    if question.tool != "shell":
        return f"Always in this session: every {question.tool[:60]}"
    if not make_allow_rule(question):
        return "Allow once: no rule matches a command with shell operators, variables or globs"
    return "Always in this session: exactly this command"


class QuestionLine(NamedTuple):
    """A line of a question; `told`: it is ours, not of what is asked for."""

    text: str
    is_remark: bool = False


def format_question(question: ApprovalQuestion, shown: TextSanitizer, width: int) -> list[QuestionLine]:
    """What would be run, in few lines. Its end is among them, and whatever is not shown is told of: nobody shall agree
    to half a command."""
    text = format_call_arguments(_encode_arguments(question))
    rows = [row for line in shown(text).splitlines() for row in chop_cells(line, width) or [""]]
    lines = [QuestionLine(row) for row in rows]
    if len(rows) > MAX_QUESTION_LINES:
        left = sum(map(len, rows[_HEAD_LINES : _HEAD_LINES - MAX_QUESTION_LINES + 1]))
        told = QuestionLine(f"… {left:,} characters more: ctrl+o shows them in the card", is_remark=True)
        lines = [*lines[:_HEAD_LINES], told, *lines[_HEAD_LINES - MAX_QUESTION_LINES + 1 :]]
    if hidden := len(CONTROL_CHARACTERS.findall(text)):
        lines.append(QuestionLine(f"with {hidden:,} control characters that are not shown", is_remark=True))
    return lines


class ApprovalPrompt(Widget, can_focus=True):
    """1, 2, 3 or the arrows and enter; any other letter goes on in the input, so that none agrees by accident."""

    DEFAULT_CSS = """
    ApprovalPrompt { height: auto; max-height: 16; display: none; padding: 0 1; }
    ApprovalPrompt { background: $surface; border-left: thick $warning; }
    ApprovalPrompt.open { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "answer('once')", show=False),
        Binding("2", "answer('always')", show=False),
        Binding("3,escape", "answer('deny')", show=False),
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("enter", "take", show=False),
    ]
    CHOICES: ClassVar[tuple[str, ...]] = ("once", "always", "deny")

    class Answered(Message):
        def __init__(self, verdict: str) -> None:
            super().__init__()
            self.verdict = verdict

    class Typed(Message):
        """A letter that was not meant for this."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, shown: TextSanitizer, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.sanitizer = shown
        self.question: ApprovalQuestion | None = None
        self._selected_index = 0

    def show_question(self, question: ApprovalQuestion | None) -> None:
        self.question, self._selected_index = question, 0
        self.set_class(question is not None, "open")
        self.refresh(layout=True)

    def action_answer(self, verdict: str) -> None:
        if self.question is not None:
            self.post_message(self.Answered(verdict))

    def action_move(self, step: int) -> None:
        self._selected_index = (self._selected_index + step) % len(self.CHOICES)
        self.refresh()

    def action_take(self) -> None:
        self.action_answer(self.CHOICES[self._selected_index])

    def on_key(self, event: events.Key) -> None:
        if event.is_printable and event.character and event.key not in "123":
            event.stop()
            self.post_message(self.Typed(event.character))

    def render(self) -> Text:
        question = self.question
        if question is None:
            return Text()
        variables = self.app.theme_variables
        text = Text(overflow="fold", end="")
        text.append(
            f"May {self.sanitizer.sanitize_line(question.tool)[:60]} run?", style=f"bold {variables['warning']}"
        )
        text.append(f"  {self.sanitizer.sanitize_line(question.reason)[:100]}\n", style="dim")
        for line in format_question(question, self.sanitizer, max(20, self.size.width - 2)):
            text.append(f"  {line.text}\n", style="dim" if line.is_remark else "")
        for place, words in enumerate(
            ("Allow once", self.sanitizer.sanitize_line(_describe_always_choice(question)), "Deny (esc)")
        ):
            chosen = place == self._selected_index
            text.append(f"{'›' if chosen else ' '} {place + 1} {words}", style="bold" if chosen else "dim")
            text.append("\n" if place < 2 else "")
        return text


class ApprovalQueue:
    """The questions in the order they came, one at a time on the screen."""

    def __init__(self, prompt: ApprovalPrompt, composer: Composer) -> None:
        self._prompt = prompt
        self._composer = composer
        self._requests: deque[ApprovalRequested] = deque()
        self._grants = SessionGrants()

    def reset_grants(self) -> None:
        """Another session: what was allowed there is not allowed here."""
        self.deny_all()
        self._grants = SessionGrants()

    def add_request(self, asking: ApprovalRequested) -> None:
        if self._grants.allows(asking.question):
            asking.answer(True)
            return
        self._requests.append(asking)
        if len(self._requests) == 1:
            self._show()

    def answer_first(self, verdict: str) -> None:
        if not self._requests:
            return
        asking = self._requests.popleft()
        if verdict == "always":
            self._grants.grant(asking.question)
        asking.answer(verdict != "deny")
        while self._requests and self._grants.allows(self._requests[0].question):
            self._requests.popleft().answer(True)
        self._show()

    def deny_all(self) -> None:
        """The turn is over: nobody waits for an answer."""
        while self._requests:
            self._requests.popleft().answer(False)
        self._show()

    def _show(self) -> None:
        """Whoever has begun to type keeps the keys."""
        self._prompt.show_question(self._requests[0].question if self._requests else None)
        if self._requests and not self._composer.text:
            self._prompt.focus()
        elif not self._requests and self._prompt.has_focus:
            self._composer.focus()


def _encode_arguments(question: ApprovalQuestion) -> str:
    try:
        return json.dumps(question.arguments, ensure_ascii=False)
    except (TypeError, ValueError):
        return str(question.arguments)
