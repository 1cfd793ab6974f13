"""The demonstration without a model: a generated session flows through a small window."""

import signal
import sys
import time
from collections import Counter as Tally
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import shorten

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tidegate.core.events import ViewEdited
from tidegate.core.plan import Decision
from tidegate.core.text.terminal_text import clean_line
from tidegate.proof.session_generator import generate_session
from tidegate.proof.session_proof import Proof, SessionWitness
from tidegate.session.request import Request
from tidegate.session.session import Session
from tidegate.terminal.exit_codes import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK
from tidegate.terminal.output import make_console

_DEFAULT_WINDOW = 16_000
_BAR_WIDTH = 48
_CALLS_PER_BAR = 4
_PAUSE_SECONDS = 0.01
_MAX_REASON_CHARS = 110


def run_generated_demo(*, policy: str, window: int, turns: int, seed: int, fast: bool, recording: str = "") -> int:
    """Play a generated session and print the proof. The result is the exit status; `window` 0 means the default.

    With the path of a `recording`, the messages are also written to that file, one per line.
    """
    messages, window = generate_session(turns, seed), window or _DEFAULT_WINDOW
    if recording:
        _write_recording(Path(recording), turns, seed)
    system = str(next(messages)["content"])
    session = Session(policy=policy, window=window, wire="openai_chat", system=system, count="exact")
    pause = 0.0 if fast or not sys.stdout.isatty() else _PAUSE_SECONDS
    show = _DemoDisplay(make_console(highlight=False, soft_wrap=True), window, pause)
    witness = SessionWitness()
    with _catch_interrupts() as stopped:
        show.title(session, turns)
        for message in messages:
            if stopped():
                break
            if message["role"] == "assistant":
                request = session.prepare()
                witness.add_request(session.log.head, request.to_bytes())
                show.call(session, request)
            elif message["role"] == "user":
                show.turn += 1
            (ident,) = session.add(message)
            witness.add_message(ident, message)
    proofs = [show.fitted(), *witness.make_proofs(session)]
    show.stages(session)
    show.proofs(proofs)
    if stopped():
        return EXIT_INTERRUPTED
    return EXIT_OK if all(proof.holds for proof in proofs) else EXIT_FAILED


def _write_recording(path: Path, turns: int, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(msgspec.json.encode(message) + b"\n" for message in generate_session(turns, seed)))


@contextmanager
def _catch_interrupts() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether Ctrl-C was pressed. It is asked between messages, so that the session so
    far can still be proved complete."""
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, before)


class _DemoDisplay:
    def __init__(self, console: Console, window: int, pause: float) -> None:
        self._console = console
        self._window = window
        self._pause = pause
        self._marks = "█·░" if console.encoding.startswith("utf") else "#.-"
        self.turn = 0
        self._calls = 0
        self._over = 0
        self._most = 0

    def title(self, session: Session, turns: int) -> None:
        print_ = self._console.print
        print_(f"[bold]{turns} turns of a coding agent through a window of {self._window:,} tokens[/]")
        print_(f"{self._marks[0]} held  {self._marks[1]} free  {self._marks[2]} kept for the answer")
        policy = session.policy
        print_(f"policy {escape(clean_line(policy.name))}: {escape(clean_line(policy.about))}\n")

    def call(self, session: Session, request: Request) -> None:
        """Print a bar every few calls, and before and after every edit."""
        self._calls += 1
        self._most = max(self._most, request.tokens)
        self._over += request.tokens > self._window
        acted = [
            decision
            for decision in session.last_decisions
            if decision.acted and decision.tokens_before != decision.tokens_after
        ]
        budget = session.budget
        if acted:
            self._bar(acted[0].tokens_before + budget.fixed, budget.capacity)
        for decision in acted:
            self._edit(decision)
        if acted or self._calls % _CALLS_PER_BAR == 1:
            self._bar(request.tokens, budget.capacity)

    def _bar(self, tokens: int, capacity: int) -> None:
        """Return a bar: the filled part, the free part, and the part reserved for the answer."""
        filled = min(_BAR_WIDTH, round(tokens / self._window * _BAR_WIDTH))
        free = max(0, round(capacity / self._window * _BAR_WIDTH) - filled)
        color = "red" if tokens > 0.9 * capacity else "yellow" if tokens > 0.7 * capacity else "green"
        marks = [
            mark * count for mark, count in zip(self._marks, (filled, free, _BAR_WIDTH - filled - free), strict=True)
        ]
        bar = f"[{color}]{marks[0]}[/][dim]{marks[1]}{marks[2]}[/]"
        share = tokens / self._window
        self._console.print(f"turn {self.turn:3}  call {self._calls:4}  {bar} {tokens:7,} {share:4.0%}")
        time.sleep(self._pause)

    def _edit(self, decision: Decision) -> None:
        why = shorten(decision.reason, _MAX_REASON_CHARS)
        change = f"{decision.tokens_before:,} -> {decision.tokens_after:,} tokens"
        self._console.print(f"    [bold cyan]{decision.stage}[/]: [bold]{change}[/]. {escape(why)}")
        time.sleep(self._pause * 3)

    def fitted(self) -> Proof:
        claim = f"{self._calls} requests: {self._over} over the window (largest {self._most:,} of {self._window:,}), "
        return Proof(not self._over, claim + "each accepted by the provider's validator")

    def stages(self, session: Session) -> None:
        edits: Tally[str] = Tally()
        freed: Tally[str] = Tally()
        touched: Tally[str] = Tally()
        for event in session.log.read():
            if isinstance(event.payload, ViewEdited):
                edits[event.payload.stage] += 1
                freed[event.payload.stage] += event.payload.tokens_before - event.payload.tokens_after
                touched[event.payload.stage] += len(event.payload.edits)
        table = Table(title="\nwhat each stage did", title_justify="left")
        for name in ("stage", "edits", "places", "tokens freed"):
            table.add_column(name, justify="left" if name == "stage" else "right")
        for stage, count in edits.most_common():
            table.add_row(stage, f"{count:,}", f"{touched[stage]:,}", f"{freed[stage]:,}")
        self._console.print(table)

    def proofs(self, proofs: list[Proof]) -> None:
        self._console.print(
            "\n[bold]nothing was lost[/]" if all(p.holds for p in proofs) else "\n[bold red]NOT PROVED[/]"
        )
        for proof in proofs:
            self._console.print(f"  {'[green]yes[/]' if proof.holds else '[red]NO [/]'}  {escape(proof.claim)}")
