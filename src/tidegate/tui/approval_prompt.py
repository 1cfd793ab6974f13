"""The question whether a tool may run, above the input.

The app answers it with the numbers of its choices and esc, whatever has the focus. A user who is typing keeps the focus
and the draft.
"""

import json
from collections import deque
from typing import ClassVar, Final, NamedTuple

from rich.cells import chop_cells
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget

from tidegate.agent.tools.approval import ApprovalQuestion
from tidegate.agent.tools.files.file_change import FileChange, compare_lines
from tidegate.core.text.terminal_text import CONTROL_CHARACTERS
from tidegate.terminal.output import TextSanitizer
from tidegate.tui.agent_thread import ApprovalRequested
from tidegate.tui.composer.composer import Composer
from tidegate.tui.conversation.diff_lines import describe_change, sanitize_change
from tidegate.tui.conversation.transcript_blocks import format_call_arguments
from tidegate.tui.session_grants import SessionGrants, explain_no_always

MAX_QUESTION_LINES: Final = 8
_HEAD_LINES: Final = 5
"""Lines of a question, and how many of them show its beginning if it is longer."""


class Choice(NamedTuple):
    key: str
    verdict: str
    text: str


def list_choices(question: ApprovalQuestion) -> list[Choice]:
    """The possible answers, numbered from 1. Not every command can be allowed for the session."""
    always = f"Always in this session: every {question.tool[:60]}"
    if question.tool == "shell":
        always = "Always in this session: exactly this command"
    texts = {"once": "Allow once", "always": always, "deny": "Deny (esc)"}
    if explain_no_always(question):
        del texts["always"]
    return [Choice(str(number), verdict, text) for number, (verdict, text) in enumerate(texts.items(), 1)]


class QuestionLine(NamedTuple):
    """A line of a question. `is_remark`: written by tidegate, not part of the command. `mark`: the sign of a line of a
    diff."""

    text: str
    is_remark: bool = False
    mark: str = ""


def format_question(
    question: ApprovalQuestion, sanitizer: TextSanitizer, width: int, change: FileChange | None = None
) -> list[QuestionLine]:
    """Return what would be run in a few lines. The end is always shown and every gap is marked, so that nobody approves
    half a command. An edit of a file is shown as a diff."""
    text = format_call_arguments(_encode_arguments(question))
    if change is None:
        lines = [QuestionLine(row) for line in sanitizer(text).splitlines() for row in chop_cells(line, width) or [""]]
    else:
        lines = _format_change(sanitize_change(change, sanitizer), width)
    if len(lines) > MAX_QUESTION_LINES:
        left = sum(len(line.text) for line in lines[_HEAD_LINES : _HEAD_LINES - MAX_QUESTION_LINES + 1])
        gap = QuestionLine(f"… {left:,} characters more: ctrl+o shows them in the card", is_remark=True)
        lines = [*lines[:_HEAD_LINES], gap, *lines[_HEAD_LINES - MAX_QUESTION_LINES + 1 :]]
    if control_count := len(CONTROL_CHARACTERS.findall(text)):
        lines.append(QuestionLine(f"with {control_count:,} control characters that are not shown", is_remark=True))
    return lines


def _format_change(change: FileChange, width: int) -> list[QuestionLine]:
    diff = compare_lines(change, context=0)
    lines = [QuestionLine(row) for row in chop_cells(describe_change(change, diff), width)]
    for mark, text in diff.lines:
        rows = chop_cells(text, width - 2) or [""]
        lines += [
            QuestionLine(f"{mark if not place else ' '} {row}", mark == "…", mark) for place, row in enumerate(rows)
        ]
    return lines


class ApprovalPrompt(Widget, can_focus=True):
    """Answered with the keys of its choices, or the arrow keys and enter. Any other letter goes to the input, so that
    nobody approves by accident."""

    DEFAULT_CSS = """
    ApprovalPrompt { height: auto; max-height: 16; display: none; padding: 0 1; }
    ApprovalPrompt { background: $surface; border-left: thick $warning; }
    ApprovalPrompt.open { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("enter", "take", show=False),
    ]

    class Answered(Message):
        def __init__(self, verdict: str) -> None:
            super().__init__()
            self.verdict = verdict

    class OtherKeyTyped(Message):
        """A letter that is not an answer."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, sanitizer: TextSanitizer, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.sanitizer = sanitizer
        self.question: ApprovalQuestion | None = None
        self._change: FileChange | None = None
        self._selected_index = 0

    def show_question(self, question: ApprovalQuestion | None, change: FileChange | None = None) -> None:
        self.question, self._change, self._selected_index = question, change, 0
        self.set_class(question is not None, "open")
        self.refresh(layout=True)

    def find_verdict(self, key: str) -> str:
        """Return the answer of this key; "" if no question is shown or it has no such choice."""
        if self.question is None:
            return ""
        verdicts = {choice.key: choice.verdict for choice in list_choices(self.question)}
        return {**verdicts, "escape": "deny"}.get(key, "")

    def answer(self, key: str) -> None:
        self.post_message(self.Answered(self.find_verdict(key)))

    def action_move(self, step: int) -> None:
        if self.question is not None:
            self._selected_index = (self._selected_index + step) % len(list_choices(self.question))
            self.refresh()

    def action_take(self) -> None:
        if self.question is not None:
            self.post_message(self.Answered(list_choices(self.question)[self._selected_index].verdict))

    def on_key(self, event: events.Key) -> None:
        if event.is_printable and event.character and event.key not in "123":
            event.stop()
            self.post_message(self.OtherKeyTyped(event.character))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Measure with the width that the prompt will have. Before its first layout its own size is 0, and a question
        wrapped for that would take more lines than it shows."""
        return len(self._render_question(width).wrap(self.app.console, width)) if self.question is not None else 0

    def render(self) -> Text:
        return self._render_question(self.size.width)

    def _render_question(self, width: int) -> Text:
        question = self.question
        if question is None:
            return Text()
        variables = self.app.theme_variables
        text = Text(overflow="fold", end="")
        text.append(
            f"May {self.sanitizer.sanitize_line(question.tool)[:60]} run?", style=f"bold {variables['warning']}"
        )
        text.append(f"  {self.sanitizer.sanitize_line(question.reason)[:100]}\n", style="dim")
        colors = {"+": variables["success"], "-": variables["error"]}
        for line in format_question(question, self.sanitizer, max(20, width - 2), self._change):
            text.append(f"  {line.text}\n", style="dim" if line.is_remark else colors.get(line.mark, ""))
        choices = list_choices(question)
        for place, choice in enumerate(choices):
            is_chosen = place == self._selected_index
            words = f"{choice.key} {self.sanitizer.sanitize_line(choice.text)}"
            text.append(f"{'›' if is_chosen else ' '} {words}", style="bold" if is_chosen else "dim")
            text.append("\n" if choice is not choices[-1] else "")
        if why := explain_no_always(question):
            text.append(f"\n  {why}", style="dim")
        return text


class ApprovalQueue:
    """The open questions in order, one at a time on the screen."""

    def __init__(self, prompt: ApprovalPrompt, composer: Composer) -> None:
        self._prompt = prompt
        self._composer = composer
        self._requests: deque[ApprovalRequested] = deque()
        self._grants = SessionGrants()

    @property
    def is_open(self) -> bool:
        return bool(self._requests)

    def reset_grants(self) -> None:
        """Forget what was allowed: another session was opened."""
        self.deny_all()
        self._grants = SessionGrants()

    def add_request(self, request: ApprovalRequested) -> None:
        if self._grants.allows(request.question):
            request.answer(True)
            return
        self._requests.append(request)
        if len(self._requests) == 1:
            self._show()

    def answer_first(self, verdict: str) -> None:
        if not self._requests:
            return
        request = self._requests.popleft()
        if verdict == "always":
            self._grants.grant(request.question)
        request.answer(verdict != "deny")
        while self._requests and self._grants.allows(self._requests[0].question):
            self._requests.popleft().answer(True)
        self._show()

    def deny_all(self) -> None:
        """Deny all open questions: the turn is over."""
        while self._requests:
            self._requests.popleft().answer(False)
        self._show()

    def _show(self) -> None:
        """Show the question. If the user has begun to type, the input keeps the focus."""
        question = self._requests[0].question if self._requests else None
        self._prompt.show_question(question, self._requests[0].change if self._requests else None)
        self._composer.left_keys = (
            frozenset(choice.key for choice in list_choices(question)) if question else frozenset()
        )
        if self._requests and not self._composer.text:
            self._prompt.focus()
        elif not self._requests and self._prompt.has_focus:
            self._composer.focus()


def _encode_arguments(question: ApprovalQuestion) -> str:
    try:
        return json.dumps(question.arguments, ensure_ascii=False)
    except (TypeError, ValueError):
        return str(question.arguments)
