"""What state notes cost: replay recordings with and without them, in the lab's model of costs.

    python bench/state_note_cost.py RECORDING... [--window 32000] [--notes FOLDER] [--model claude-sonnet-5]

Without --notes the notes are scripted: a first one of 90% of its limit, then updates of the share that the instruction
asks for, each with passages that fill their room. With --notes, FOLDER/NAME/note-K.answer.md are the answers of a
reader for the recording NAME, in order (bench/state_notes.py writes them); scripted ones follow when they are used up.

With --record FOLDER the answers are stored there as `tidegate lab --notes FOLDER` reads them.

Each request costs what is new in it, and a tenth of that for what the provider's cache has; the answers of the model
are the same with and without notes and are left out. The bound is 1.25 at a window of 32,000 and 1.05 at 200,000.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tidegate import presets
from tidegate.core.state_note.note import HEADINGS
from tidegate.lab.replay.recorded_notes import AnswerNote, NoteFolder, RecordedNote, ReplayedQuestion
from tidegate.lab.replay.recording_file import read_chat_recording
from tidegate.lab.replay.session_replay import ReplaySetup, replay_session
from tidegate.lab.scoring.contender_request import ContenderRequest
from tidegate.lab.scoring.input_bill import InputBill
from tidegate.models.catalog import find_model

_CHARS_PER_TOKEN = 4
_FIRST_SHARE = 0.9
_PASSAGES = 20  # of a scripted note, of 33 lines each
_BOUNDS = {32_000: 1.25, 200_000: 1.05}


class Cost(NamedTuple):
    dollars: float
    for_notes: float
    notes: int
    unusable: int


class Meter:
    """Adds up what the requests of one replay cost."""

    def __init__(self, model: str) -> None:
        model_info = find_model(model)
        if model_info is None:
            raise SystemExit(f"There are no prices of {model}.")
        self._bill = InputBill(model_info.prices)
        self._before: list[str] = []
        self.for_notes, self.notes = 0.0, 0

    def add(self, request: ContenderRequest) -> None:
        texts = [json.dumps(message, sort_keys=True) for message in request.messages]
        pairs = zip(texts, self._before, strict=False)
        shared = 0
        for one, other in pairs:
            if one != other:
                break
            shared += len(one)
        size = sum(map(len, texts))
        self._before = texts
        self._bill.add_request(request.message_index, size / _CHARS_PER_TOKEN, shared / _CHARS_PER_TOKEN)
        if request.note is not None:
            before = self._bill.dollars
            self._bill.add_note(*request.note)
            self.for_notes += self._bill.dollars - before
            self.notes += 1

    def finish(self, unusable: int) -> Cost:
        return Cost(self._bill.dollars, self.for_notes, self.notes, unusable)


def answer_in_order(folder: Path | None, record: Path | None = None) -> AnswerNote:
    """The recorded answers of a folder, then scripted ones. All are stored in `record`, if it is given."""
    number = 0

    def answer(question: ReplayedQuestion) -> str:
        nonlocal number
        number += 1
        path = folder / f"note-{number}.answer.md" if folder else None
        text = path.read_text() if path is not None and path.exists() else write_scripted(question)
        if record is not None:
            NoteFolder(record).write(RecordedNote(question.key, "scripted", text))
        return text

    return answer


def write_scripted(question: ReplayedQuestion) -> str:
    """A note of lines from the conversation, as long as the instruction allows."""
    task = question.task
    update = task.previous is not None
    left = int((task.answer_tokens if update else task.limits.note * _FIRST_SHARE) * _CHARS_PER_TOKEN)
    texts = [str(message.get("content") or "") for message in question.messages]
    lines = [line.strip()[:160] for text in texts for line in text.split("\n") if len(line.strip()) > 40]
    lines_of_note, length = list[str](), 0
    for line in reversed(lines):
        length += len(line) + 10
        if length > left * 0.8:
            break
        lines_of_note.append(f"- {line} [{task.horizon}]")
    half = len(lines_of_note) // 2
    places = lines[:: max(1, len(lines) // _PASSAGES)]
    passages = [{"why": "to be changed next", "find": line[:60], "before": 2, "after": 30} for line in places]
    mark = " (changes)" if update else ""
    drops = [f"- drop: {line[2:40]}" for line in (task.previous.sections["State"].split("\n") if task.previous else [])]
    state = "\n".join([*drops[: len(drops) // 2], *lines_of_note[:half]])
    return "\n".join(
        [
            f"## {HEADINGS[1]}{mark}",
            state,
            f"## {HEADINGS[4]}{mark}",
            *lines_of_note[half:],
            "## Passages",
            json.dumps(passages),
        ]
    )


def measure(path: Path, window: int, model: str, answer: Callable[[ReplayedQuestion], str | None] | None) -> Cost:
    meter = Meter(model)
    lines: list[Any] = list(read_chat_recording(path))
    setup = ReplaySetup(presets.load("default"), window, "chars/4")
    report = replay_session(path.name, lines, setup, on_request=meter.add, answer_note=answer)
    return meter.finish(report.unusable_notes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", nargs="+", type=Path, metavar="RECORDING")
    parser.add_argument("--window", type=int, default=32_000)
    parser.add_argument("--notes", type=Path)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--model", default="claude-sonnet-5")
    options = parser.parse_args()
    plain_sum = noted_sum = 0.0
    for path in options.recordings:
        name = path.name.partition(".")[0]
        plain = measure(path, options.window, options.model, None)
        answer = answer_in_order(options.notes / name if options.notes else None, options.record)
        with_notes = measure(path, options.window, options.model, answer)
        plain_sum, noted_sum = plain_sum + plain.dollars, noted_sum + with_notes.dollars
        ratio = with_notes.dollars / plain.dollars
        notes = f"{with_notes.notes} notes ({with_notes.unusable} of no use)"
        print(f"{name}: {ratio:.3f} times the cost, {notes}, {with_notes.for_notes:.3f} of {with_notes.dollars:.3f} $")
    limit = _BOUNDS.get(options.window)
    print(f"all: {noted_sum / plain_sum:.3f}{f' (at most {limit})' if limit else ''}")


if __name__ == "__main__":
    main()
