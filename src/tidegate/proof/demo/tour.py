"""`tidegate demo`: a bug fix of 300 steps in a small window, and the proof that nothing was lost.

The agent's steps are a script (`bug_fix.py`), so no model and no key are needed. Everything that tidegate does with
them is computed while it is shown.
"""

import signal
import sys
import time
from collections import Counter as Tally
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from tidegate.core.messages import STATE_NOTE, Message, Result, calls_of, text_of
from tidegate.core.notes import StateNote
from tidegate.core.plan import Decision
from tidegate.core.text.plural import format_count
from tidegate.core.text.terminal_text import clean_line
from tidegate.lab.replay.recorded_notes import ReplayedQuestion, ReplayNotes
from tidegate.lab.scoring.contender_request import NoteUsage
from tidegate.lab.scoring.input_bill import InputBill
from tidegate.lab.scoring.request_size import RequestSizer, UnitCounter
from tidegate.models.catalog import find_model
from tidegate.proof.demo.bug_fix import (
    CHOICE_STEP,
    FACT_STEP,
    INVENTED,
    ORDER,
    RECALL_QUERY,
    RECALL_STEP,
    RULE,
    RULE_NEEDED_STEP,
    RULE_STEP,
    STEPS,
    SYSTEM_PROMPT,
    BugFix,
    name_scene,
)
from tidegate.proof.session_proof import Proof, SessionWitness
from tidegate.session.session import Session
from tidegate.session.state_notes import NOTE_STAGE
from tidegate.terminal.exit_codes import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK
from tidegate.terminal.output import make_console

TOUR_WINDOW: Final = 32_000
PRICE_MODEL: Final = "claude-sonnet-5"
_WIRE: Final = "openai_chat"
_BAR_WIDTH: Final = 40
_STEP_SECONDS: Final = 0.015
_READING_SECONDS: Final = 2.0
_BARS_EVERY: Final = 25
"""Steps between two bars where they cannot be drawn over each other."""
_NAMED_PARTS: Final = 4
_MARK_CHARS: Final = 6
"""Of the line of a proof: whether it holds."""
_Json = Mapping[str, object]


def run_tour(*, policy: str, window: int = 0, seed: int, fast: bool, recording: str = "") -> int:
    """Play the tour and print the proof. The result is the exit status. `recording`: a file for its messages."""
    tour = _Tour(policy, window or TOUR_WINDOW, seed, fast=fast)
    with _catch_interrupts() as stopped:
        tour.introduce()
        for step in range(1, STEPS + 1):
            if stopped():
                break
            tour.play_step(step)
        proofs = tour.conclude()
    if recording:
        _write_recording(Path(recording), tour.messages)
    if stopped():
        return EXIT_INTERRUPTED
    return EXIT_OK if all(proof.holds for proof in proofs) else EXIT_FAILED


def _write_recording(path: Path, messages: Sequence[_Json]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(msgspec.json.encode(message) + b"\n" for message in messages))


@contextmanager
def _catch_interrupts() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether Ctrl-C was pressed. It is asked between steps, so that the session so far
    can still be proved complete."""
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, before)


class _Tour:
    """The session of the tour: plays the steps, and tells what became of them."""

    def __init__(self, policy: str, window: int, seed: int, *, fast: bool) -> None:
        self._session = Session(policy=policy, window=window, wire=_WIRE, system=SYSTEM_PROMPT, count="exact")
        self._story = BugFix(seed)
        self._notes = ReplayNotes(self._session, self._answer_note)
        self._witness = SessionWitness()
        self._costs = _CostComparison(self._session, window)
        self._show = _TourDisplay(window, fast=fast)
        self._acts: Tally[str] = Tally()
        self._has_swept = False
        self._shown_note: StateNote | None = None
        self._rule_requests = 0
        self._tail_lost_rule = 0
        self.messages: list[_Json] = [{"role": "system", "content": SYSTEM_PROMPT}]

    def introduce(self) -> None:
        policy = self._session.policy
        self._show.say(
            f"[bold]One bug fix: {STEPS} steps of a coding agent in a window of {self._show.window:,} tokens[/]"
        )
        self._show.say(
            "The agent's steps are a script, also its state notes (as `tidegate chat` has them, and `wrap` with"
            " --state-notes); no model answers. What tidegate does with them is computed now."
        )
        about = clean_line(policy.about).partition(". ")[0].removesuffix(".")
        self._show.say(f"Policy {escape(clean_line(policy.name))}: {escape(about)}.\n")

    def play_step(self, step: int) -> None:
        user = self._story.write_user_message(step)
        if user:
            self._add(step, {"role": "user", "content": user})
            self._show.scene(step, f"the user: {user}")
        session = self._session
        before = [item.message for item in session.view.items]
        request = session.prepare()
        self._witness.add_request(session.log.head, request.to_bytes())
        self._costs.add_request(step, request.messages)
        acted = [each for each in session.last_decisions if each.acted and each.tokens_before != each.tokens_after]
        for decision in acted:
            self._tell_decision(step, decision, before)
        self._watch_rule(step, request.messages)
        self._show.bar(step, request.tokens, session.budget.capacity)
        messages = list(self._story.write_step(step, self._recall))
        for message in messages:
            self._add(step, message)
            if step == FACT_STEP and message["role"] == "tool":
                self._show.scene(
                    step, f"a log names order {ORDER}: one line in {self._story.ids['fact']}, never named again"
                )
        ends_turn = not messages[0].get("tool_calls")
        note = self._notes.write_if_due(request.messages, turn_ended=ends_turn)
        self._costs.add_note(note)
        self._tell_note(step)
        self._tell_payoff(step, messages)

    def _add(self, step: int, message: _Json) -> None:
        (ident,) = self._session.add(message)
        self.messages.append(message)
        self._witness.add_message(ident, message)
        self._costs.add_message(message)
        name = name_scene(step, message)
        if name:
            self._story.ids[name] = ident

    def _recall(self, query: str) -> str:
        return self._session.history.search(query).text

    def _answer_note(self, question: ReplayedQuestion) -> str:
        return self._story.write_note()

    def _tell_decision(self, step: int, decision: Decision, before: Sequence[Message]) -> None:
        self._acts[decision.stage] += 1
        if decision.stage == "cap_result":
            return
        if self._has_swept:
            self._show.decision(step, decision)
            return
        self._has_swept = True
        budget = self._session.budget
        self._show.bar(step, decision.tokens_before + budget.fixed, budget.capacity, is_kept=True)
        self._show.decision(step, decision)
        self._show.detail(f"why: {decision.reason.partition('; ')[0]}")
        after = {item.message.id for item in self._session.view.items}
        left = [message for message in before if message.id not in after]
        self._show.detail(f"what filled the window: {_describe_parts(before)}")
        self._show.detail(f"what left it: {_describe_parts(left)}. The log has all of it.")
        note = "the state note, " if decision.stage == NOTE_STAGE else ""
        stayed = f"what stayed: the user's words, {note}a map of what left, and the newest messages"
        self._show.detail(stayed, pause=True)

    def _tell_note(self, step: int) -> None:
        note = self._session.state_notes.newest
        if note is None or note is self._shown_note:
            return
        is_first, self._shown_note = self._shown_note is None, note
        self._story.ids["note"] = "written"
        lines = sum(1 for text in note.sections.values() for line in text.splitlines() if line.startswith("- "))
        inventions = [
            line for text in note.sections.values() for line in text.splitlines() if "not found in the log" in line
        ]
        if not is_first:
            return
        self._show.scene(
            step,
            f"a state note: {format_count(lines, 'statement')} of the model, each checked against the log,"
            f" {format_count(len(note.passages), 'passage')} quoted from it",
        )
        for line in inventions:
            self._show.detail(f"the check marked an invention: {line.removeprefix('- ')}")
        if not any(INVENTED.split("`")[1] in line for line in inventions):
            self._show.detail("the invented statement of the script is not in the note")

    def _watch_rule(self, step: int, messages: Sequence[_Json]) -> None:
        if step < RULE_STEP:
            return
        self._rule_requests += any(RULE in str(message.get("content")) for message in messages)
        if not self._tail_lost_rule and not self._costs.is_in_tail(RULE, self._session.budget.room):
            self._tail_lost_rule = step

    def _tell_payoff(self, step: int, messages: Sequence[_Json]) -> None:
        if step == CHOICE_STEP - 1:
            self._show.scene(step, f"the agent: {messages[0]['content']}")
        elif step == RULE_NEEDED_STEP:
            count = f"{self._rule_requests} of {step - RULE_STEP + 1} requests since"
            contrast = f"; the newest messages alone would have lost it at step {self._tail_lost_rule}"
            self._show.scene(step, f"the agent: {messages[0]['content']}")
            self._show.detail(
                f"the rule of step {RULE_STEP} was in {count}{contrast if self._tail_lost_rule else ''}", pause=True
            )
        elif step == RECALL_STEP:
            fact = self._story.ids["fact"]
            in_view = any(
                ORDER in text_of(item.message) for item in self._session.view.items if item.message.id == fact
            )
            answer = f'recall "{RECALL_QUERY}" found order={self._story.test_order or "nothing"}'
            where = "it had left the request" if not in_view else "it was still in the request"
            self._show.scene(step, f"{answer} in {fact}, a log of step {FACT_STEP}; {where}")

    def conclude(self) -> list[Proof]:
        proofs = [self._costs.prove_fit(), *self._witness.make_proofs(self._session)]
        acts = ", ".join(f"{stage} {count}" for stage, count in self._acts.most_common()) or "nothing"
        self._show.say(f"\n[bold]what shortened the view[/]: {acts}")
        self._show.say(f"[bold]what it cost[/]: {self._costs.describe()}")
        self._show.proofs(proofs)
        return proofs


def _describe_parts(messages: Sequence[Message]) -> str:
    """Say what the messages are, by the tools that returned them: the largest parts first, by their characters."""
    names = {call.id: call.name for message in messages for call in calls_of(message)}
    sizes: Tally[str] = Tally()
    counts: Tally[str] = Tally()
    for message in messages:
        results = [part for part in message.parts if isinstance(part, Result)]
        if message.kind == STATE_NOTE:
            name = "state note"
        elif results:
            name = f"results of {names.get(results[0].call_id, 'tools')}"
        else:
            name = {"user": "words of the user", "assistant": "words and calls of the agent"}.get(message.role, "notes")
        sizes[name] += len(text_of(message)) + sum(len(call.arguments) for call in calls_of(message))
        counts[name] += 1
    total = sum(sizes.values()) or 1
    largest = [f"{name} {size / total:.0%}" for name, size in sizes.most_common(_NAMED_PARTS)]
    return f"{format_count(len(messages), 'message')}: {', '.join(largest)}"


class _CostComparison:
    """What the requests cost beside sending the whole history every time, at the prices of one model."""

    def __init__(self, session: Session, window: int) -> None:
        model = find_model(PRICE_MODEL)
        rates = model.prices if model is not None else ()
        self._window = window
        self._units = UnitCounter(session.counter)
        self._ours, self._everything = InputBill(rates), InputBill(rates)
        self._sizer = RequestSizer(session.counter, window)
        self._whole = self._sent = 0.0
        self._tail: deque[tuple[str, float]] = deque()
        self._tail_tokens = 0.0
        self._too_long_from = self._over = self._requests = 0
        self._largest = 0.0
        self._has_notes = False

    def add_message(self, message: _Json) -> None:
        size = self._units.count_message(message) / self._units.units_per_token
        self._whole += size
        self._tail.append((str(message.get("content")), size))
        self._tail_tokens += size

    def add_request(self, step: int, messages: Sequence[_Json]) -> None:
        size = self._sizer.measure(messages)
        self._ours.add_request(step, size.tokens, size.shared_tokens)
        self._everything.add_request(step, self._whole, self._sent)
        self._sent = self._whole
        self._requests += 1
        self._largest = max(self._largest, size.tokens)
        self._over += size.is_oversized
        if self._whole > self._window and not self._too_long_from:
            self._too_long_from = step

    def add_note(self, usage: NoteUsage | None) -> None:
        if usage is not None:
            self._has_notes = True
            self._ours.add_note(usage.cached_tokens, usage.new_tokens, usage.output_tokens)

    def is_in_tail(self, text: str, room: int) -> bool:
        """Whether the newest messages that fit the room have this text."""
        while self._tail_tokens > room:
            self._tail_tokens -= self._tail.popleft()[1]
        return any(text in content for content, _ in self._tail)

    def describe(self) -> str:
        failed = f" In this window it would have failed at step {self._too_long_from}." if self._too_long_from else ""
        notes = ", state notes included" if self._has_notes else ""
        share = self._ours.dollars / self._everything.dollars if self._everything.dollars else 0.0
        return (
            f"${self._ours.dollars:.2f} at the prices of {PRICE_MODEL}{notes}; sending the whole history"
            f" ({self._whole:,.0f} tokens at the end) would have cost ${self._everything.dollars:.2f} in a window that"
            f" holds it: {share:.2f} of that.{failed}"
        )

    def prove_fit(self) -> Proof:
        claim = (
            f"{self._requests} requests: {self._over} over the window (largest {self._largest:,.0f} of"
            f" {self._window:,}), each valid by the provider's rules"
        )
        return Proof(not self._over, claim, self._requests)


class _TourDisplay:
    """Prints the tour: a bar that moves on a terminal, and a line for each event with time to read it."""

    def __init__(self, window: int, *, fast: bool) -> None:
        self.window = window
        self._console: Console = make_console(highlight=False, soft_wrap=not sys.stdout.isatty())
        self._is_moving = sys.stdout.isatty()
        self._has_pauses = self._is_moving and not fast
        self._marks = "█·░" if self._console.encoding.startswith("utf") else "#.-"
        self._has_open_bar = False

    def say(self, text: str) -> None:
        self._end_bar()
        self._console.print(text)

    def scene(self, step: int, text: str) -> None:
        self._add_line(f"step {step:3}", text)
        self._wait(_READING_SECONDS)

    def detail(self, text: str, *, pause: bool = False) -> None:
        self._add_line("", text)
        self._wait(_READING_SECONDS if pause else _READING_SECONDS / 2)

    def decision(self, step: int, decision: Decision) -> None:
        self._add_line(
            f"step {step:3}", f"{decision.stage}: {decision.tokens_before:,} -> {decision.tokens_after:,} tokens"
        )

    def _add_line(self, label: str, text: str) -> None:
        """On a terminal a long text is wrapped beside its label, elsewhere it is one line."""
        self._end_bar()
        if not self._is_moving:
            self._console.print(f"{label:8}  {escape(clean_line(text))}")
            return
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(style="bold cyan", width=8)
        grid.add_column()
        grid.add_row(label, Text(clean_line(text)))
        self._console.print(grid)

    def bar(self, step: int, tokens: float, capacity: int, *, is_kept: bool = False) -> None:
        """Draw the window: the filled part, the free part, and the part reserved for the answer."""
        if not (self._is_moving or is_kept or step % _BARS_EVERY == 1):
            return
        fill = min(_BAR_WIDTH, round(tokens / self.window * _BAR_WIDTH))
        free = max(0, round(capacity / self.window * _BAR_WIDTH) - fill)
        color = "red" if tokens > 0.9 * capacity else "yellow" if tokens > 0.7 * capacity else "green"
        full, open_, reserved = (
            mark * count for mark, count in zip(self._marks, (fill, free, _BAR_WIDTH - fill - free), strict=True)
        )
        line = f"step {step:3}  [{color}]{full}[/][dim]{open_}{reserved}[/] {tokens:7,.0f} {tokens / self.window:4.0%}"
        is_open = self._is_moving and not is_kept
        self._console.print(line, end="" if is_open else "\n")
        if is_open:
            self._console.file.write("\r")  # rich would take it out
            self._console.file.flush()
        self._has_open_bar = is_open
        self._wait(_STEP_SECONDS)

    def proofs(self, proofs: Sequence[Proof]) -> None:
        holds = all(proof.holds for proof in proofs)
        self.say("\n[bold]nothing was lost[/]" if holds else "\n[bold red]NOT PROVED[/]")
        for proof in proofs:
            if self._is_moving:
                self._add_line(proof.describe()[:_MARK_CHARS], proof.describe()[_MARK_CHARS:].strip())
            else:
                self.say(escape(proof.describe()))

    def _end_bar(self) -> None:
        if self._has_open_bar:
            self._console.print()
            self._has_open_bar = False

    def _wait(self, seconds: float) -> None:
        if self._has_pauses:
            time.sleep(seconds)
