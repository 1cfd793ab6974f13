"""Replay a recording with state notes that a capable reader writes, and print the view that they lead to.

    python bench/state_notes.py RECORDING OUTDIR [--window 32000] [--stop N] [--policy default]
    python bench/state_notes.py RECORDING OUTDIR --next "Go on." [--next-window 32000] [--without-notes]

Before each recorded answer the session prepares its request, as an agent would. When a state note is due, the request
that a model would get is written to OUTDIR/note-K.prompt.md, and the answer is read from OUTDIR/note-K.answer.md. If
that file is not there yet, the program says so and ends with status 3: write it, with nothing but the prompt, and run
the program again. It replays the notes that are there and goes on to the next one. An empty answer stands for a model
that failed.

At the end OUTDIR/view.txt has the request before message N (without --stop: before the last answer), and
OUTDIR/notes.json what became of every answer: lines that held, were marked or dropped, and passages.

With --next, another client goes on there (docs/shared-sessions.md), and these are the user's first words in it.
OUTDIR/next.txt has its first request, without a system prompt and tools of its own, and OUTDIR/data the session, so
that `tidegate recall --data OUTDIR/data NAME WORDS` reads what the model of that client could recall. --without-notes
asks for no state notes.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from tidegate import DataFolder, MemoryLog, Session
from tidegate.core.events import Event
from tidegate.core.messages import Tool, text_of, user_message
from tidegate.core.notes import ClientNote
from tidegate.lab.replay.recording_file import RecordedLine, get_recording_name, read_chat_recording
from tidegate.lab.replay.session_replay import MAIN_DIALECT, SECONDS_PER_CALL
from tidegate.session.continuation import Continuation, ContinuedRun
from tidegate.session.following import FixedPart, FollowingSession, make_host_item
from tidegate.session.shared_timeline import OWN_AGENT
from tidegate.session.state_notes import NoteQuestion

WAITING = 3
FIRST_CLIENT = ClientNote(OWN_AGENT, "the first client")
NEXT_CLIENT = ClientNote("next", "the next client")
_SYSTEM_ROLES = ("system", "developer")


class NoteMissing(Exception):
    """The answer to a prompt has not been written yet."""


class NotedReplay:
    """A replay that asks for notes through files."""

    def __init__(self, folder: Path, system: str, window: int, policy: str, count: str, asks: bool) -> None:
        self.folder = folder
        self._asks = asks
        self._time = 0.0
        log = MemoryLog()
        log.append(Event(1, self._time, FIRST_CLIENT.pack()))
        about = {"policy": policy, "window": window, "wire": MAIN_DIALECT, "count": count, "log": log}
        self.session = Session(system=system, clock=lambda: self._time, **about)
        self.notes = self.session.state_notes
        self.reports: list[dict[str, Any]] = []
        self.sweeps: list[dict[str, Any]] = []

    def prepare(self, at: int) -> list[dict[str, Any]]:
        self._time += SECONDS_PER_CALL
        messages = self.session.prepare().messages
        for decision in self.session.last_decisions:
            if decision.acted and "sweep" in decision.stage:
                sizes = {"before": decision.tokens_before, "after": decision.tokens_after}
                self.sweeps.append({"at": at, "stage": decision.stage, **sizes, "why": decision.reason})
        return messages

    def ask_if_due(self, at: int, *, turn_ended: bool = False) -> None:
        if not (self._asks and self.notes.is_due(turn_ended=turn_ended)):
            return
        question = self.notes.make_question()
        if question is None:
            return
        number = len(self.reports) + 1
        prompt = self.folder / f"note-{number}.prompt.md"
        prompt.write_text(write_prompt(question))
        answer = self.folder / f"note-{number}.answer.md"
        if not answer.exists():
            raise NoteMissing(f"Message {at}: read {prompt}, write {answer}, and run this again.")
        report = self.notes.take(question.task, answer.read_text())
        note = report.note
        self.reports.append(
            {"number": number, "at": at, "horizon": question.task.horizon, "why_not": report.why}
            | (
                {}
                if note is None
                else {
                    "held": note.held,
                    "marked": note.marked,
                    "dropped": list(note.dropped),
                    "passages": [f"{p.id} {p.source} {p.first_line}-{p.last_line}" for p in note.passages],
                    "feedback": list(note.feedback),
                }
            )
        )


def write_prompt(question: NoteQuestion) -> str:
    """The request as a reader sees it: every message with its role, calls included."""
    body = question.request.body()
    texts = [show_message(message) for message in body["messages"]]  # type: ignore[attr-defined]
    limit = f"(Answer in at most {question.max_tokens:,} tokens. Your answer is the text of the file, nothing else.)"
    return "\n".join([*texts, "", limit, ""])


def show_message(message: dict[str, Any]) -> str:
    lines = [f"--- [in view] {message['role']}"]
    content = message.get("content")
    if isinstance(content, list):
        lines += [part.get("text", "[image]") for part in content]
    elif content:
        lines.append(content)
    for call in message.get("tool_calls") or ():
        lines.append(f"CALL {call['id']} {call['function']['name']} {call['function']['arguments']}")
    return "\n".join(lines)


def text_of_line(line: RecordedLine) -> str:
    content = line.message.get("content")
    if isinstance(content, list):
        return "\n\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def replay(lines: Sequence[RecordedLine], stop: int, run: NotedReplay) -> list[dict[str, Any]]:
    """The messages of the last request before the message `stop`, without the system prompt."""
    messages: list[dict[str, Any]] = []
    fixed = len(list(takewhile(lambda line: line.message.get("role") in _SYSTEM_ROLES, lines)))
    for at, line in enumerate(lines[fixed:], fixed):
        if line.message.get("role") == "assistant":
            messages = run.prepare(at)
            if at >= stop:
                break
            run.ask_if_due(at)
        run.session.add(line.message, typed=line.typed)
        if line.message.get("role") == "assistant" and not line.message.get("tool_calls"):
            run.ask_if_due(at, turn_ended=True)
    return messages


def write_next_request(run: NotedReplay, name: str, words: str, window: int) -> int:
    """Write the first request of a client that goes on with the replayed session, and store the session. Its tokens."""
    log = MemoryLog()
    for event in run.session.log.read():
        log.append(event)
    session = Session(policy="default", window=window, wire=MAIN_DIALECT, count="chars/4", log=log)
    following = FollowingSession[str](session)
    with DataFolder(run.folder / "data") as data:
        following.continuation = Continuation(ContinuedRun(NEXT_CLIENT, name, log.head, data.mask))
        request = following.prepare([make_host_item("", user_message(words))], fixed_part=FixedPart(tools=(Tool("x"),)))
        data.open_log(name).append(*log.read())
    texts = [f"--- [in view] {unit.message.role}\n{text_of(unit.message)}" for unit in request.shown]
    (run.folder / "next.txt").write_text("\n".join(texts))
    return session.tokens


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recording", type=Path)
    parser.add_argument("folder", type=Path, metavar="OUTDIR")
    parser.add_argument("--window", type=int, default=32_000)
    parser.add_argument("--stop", type=int, default=sys.maxsize, help="cut before this message, counted from 0")
    parser.add_argument("--policy", default="default")
    parser.add_argument("--count", default="chars/4", help="how tokens are counted")
    parser.add_argument("--without-notes", action="store_true", help="ask for no state notes")
    parser.add_argument("--next", metavar="WORDS", help="another client goes on, and the user says this first")
    parser.add_argument("--next-window", type=int, default=32_000, help="the window of that client's model")
    options = parser.parse_args()
    shutil.rmtree(options.folder / "data", ignore_errors=True)
    options.folder.mkdir(parents=True, exist_ok=True)
    lines = list(read_chat_recording(options.recording))
    head = list(takewhile(lambda line: line.message.get("role") in _SYSTEM_ROLES, lines))
    system = "\n\n".join(filter(None, map(text_of_line, head)))
    run = NotedReplay(options.folder, system, options.window, options.policy, options.count, not options.without_notes)
    try:
        messages = replay(lines, options.stop, run)
    except NoteMissing as missing:
        print(missing)
        return WAITING
    finally:
        report = {"notes": run.reports, "sweeps": run.sweeps}
        (options.folder / "notes.json").write_text(json.dumps(report, indent=1, ensure_ascii=False))
    (options.folder / "view.txt").write_text("\n".join(map(show_message, messages)))
    size = run.session.view.tokens
    print(f"{len(run.reports)} notes, {len(run.sweeps)} sweeps, view of {size:,} tokens: {options.folder / 'view.txt'}")
    if options.next is not None:
        name = get_recording_name(options.recording)
        size = write_next_request(run, name, options.next, options.next_window)
        print(f"the next client's first request, {size:,} tokens: {options.folder / 'next.txt'}")
        print(f"what it could recall: tidegate recall --data {options.folder / 'data'} {name} WORDS")
    return 0


if __name__ == "__main__":
    sys.exit(main())
