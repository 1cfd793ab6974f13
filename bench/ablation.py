"""Measure what each part of the default policy contributes: switch it off and replay recordings.

    python bench/ablation.py RECORDING... [--window 32000] [--count chars/4] [--only EXPRESSION]

A variant has other settings, or replaces a function or constant of the policy; each variant runs in its own process.
The table shows means over the recordings, as the lab measures them (`tidegate/lab/scoring/measures.py`): first the
texts that the agent went on to work with, then the user's words, the names that were kept, and the cost relative to the
unmanaged history. With few recordings, one session changes a mean by several points.
"""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from tidegate import presets
from tidegate.core.sweep.choice import Choice
from tidegate.core.sweep.key_lines import _WORTH
from tidegate.lab.comparison.session_sources import create_unit_counter, read_clean_recordings
from tidegate.lab.replay.recording_file import RecordedLine
from tidegate.lab.replay.session_replay import ReplaySetup, replay_session
from tidegate.lab.scoring.input_bill import InputBill
from tidegate.lab.scoring.request_scorer import RequestScorer, ScoringTask, compute_unmanaged_cost
from tidegate.lab.scoring.session_figures import SessionFigures
from tidegate.lab.scoring.signals import extract_signals

COLUMNS = {
    "near_block": "`near_block`",
    "far_block": "`far_block`",
    "reread_avoidable": "`reread_avoidable`",
    "far_lines": "`far_lines`",
    "refs_in_context": "`refs_in_context`",
    "deep_rules": "`deep_rules`",
    "user": "words of the user",
    "cost": "cost",
}


class Replacement(NamedTuple):
    """`name` in `module` (dotted for a method), and the value that takes its place."""

    module: str
    name: str
    value: Any


class Variant(NamedTuple):
    """The default policy with other settings, or with parts of it replaced."""

    name: str
    settings: Mapping[str, Any] = MappingProxyType({})
    replacements: tuple[Replacement, ...] = ()


def replace(module: str, name: str, value: Any) -> tuple[Replacement, ...]:
    return (Replacement(f"tidegate.core.{module}", name, value),)


EQUAL_VALUES = (1.0, 1.0, 1.0, 1.0)
EQUAL_LINES = (
    *replace("sweep.key_lines", "_WORTH", dict.fromkeys(_WORTH, EQUAL_VALUES)),
    *replace("sweep.key_lines", "_OTHERS", EQUAL_VALUES),
    *replace("sweep.key_lines", "_FAILED", EQUAL_VALUES),
)
VARIANTS = (
    Variant("the default"),
    Variant("no ledger", {"ledger": 0.0}),
    Variant(
        "no lines of old work: groups leave whole",
        {},
        replace("sweep.choice", "Appraisal.choose", lambda *_: Choice({}, 0.0, 0.0)),
    ),
    Variant("all lines worth the same", {}, EQUAL_LINES),
    Variant("all files worth the same", {}, replace("sweep.choice", "_Appraiser._heat", lambda *_: 1.0)),
    Variant(
        "superseded content is worth as much", {}, replace("sweep.choice", "_Appraiser._remember", lambda *_: None)
    ),
    Variant("names worth nothing of their own", {}, replace("sweep.choice", "_NAME_WORTH", 0.0)),
    Variant("no regions, single lines only", {}, replace("sweep.choice", "_REGION_WORTH", 0.0)),
    Variant(
        "what calls wrote is worth as much as what tools printed", {}, replace("sweep.choice", "_WRITTEN_WORTH", 1.0)
    ),
    Variant("no notes on dropped groups", {}, replace("stages.sweep", "_NOTE_SHARE", 0.0)),
    Variant("always sweeps everything old", {}, replace("stages.sweep", "_KEPT_OF_NEW", (9.0, 9.0))),
    Variant("nothing whole but what is new", {"tail": 0.0}),
    Variant("a fifth of the room whole", {"tail": 0.2}),
    Variant("a third of the room whole", {"tail": 0.33}),
    Variant("no hints", {}, replace("stages.notices", "find_file_names", lambda _: frozenset())),
    *(Variant(f"fidelity {knob}", {"fidelity": knob}) for knob in (0.3, 0.4, 0.5, 0.65)),
)


def apply_replacement(replacement: Replacement) -> None:
    owner: Any = importlib.import_module(replacement.module)
    *path, name = replacement.name.split(".")
    for step in path:
        owner = getattr(owner, step)
    getattr(owner, name)  # fails if the part was renamed
    setattr(owner, name, replacement.value)


class ScoredRecording(NamedTuple):
    """A recording and the references it needs, extracted once for all variants."""

    name: str
    task: ScoringTask


def read_recordings(paths: Sequence[str], window: int, count: str) -> Iterator[ScoredRecording]:
    counter = create_unit_counter(count)
    for path in paths:
        for recording in read_clean_recordings(Path(path)):
            messages = recording.messages
            task = ScoringTask(extract_signals(messages, counter), messages, counter, window)
            yield ScoredRecording(recording.name, task)


def measure_variant(
    number: int, recordings: Sequence[ScoredRecording], count: str, send: Callable[[Any], None]
) -> None:
    """Replay the recordings with one variant and send the means. Changes this process: run it in a child."""
    variant = VARIANTS[number]
    for replacement in variant.replacements:
        apply_replacement(replacement)
    policy = presets.load("default", dict(variant.settings))
    rows = []
    for name, task in recordings:
        scorer = RequestScorer(task, InputBill((), []))
        lines = [RecordedLine(at, message) for at, message in enumerate(task.messages, 1)]
        report = replay_session(name, lines, ReplaySetup(policy, task.window, count), on_request=scorer.add_request)
        if report.exceptions:
            raise RuntimeError(f"{variant.name}: {name}: {dict(report.exceptions)}")
        figures: SessionFigures = scorer.finish()
        figures.unmanaged = compute_unmanaged_cost(task, InputBill((), []))
        rows.append(figures.compute_measures())
    send({key: compute_mean([row[key] for row in rows]) for key in (*COLUMNS, "over", "invalid")})


def compute_mean(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else None


def format_cell(value: float | None, key: str) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if key == "cost" else f"{value:.1%}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("paths", nargs="+", metavar="RECORDING")
    parser.add_argument("--window", type=int, default=32_000)
    parser.add_argument("--count", default="chars/4")
    parser.add_argument("--only", default="", help="run only variants whose name matches this regular expression")
    arguments = parser.parse_args()
    print(f"| variant | {' | '.join(COLUMNS.values())} |")
    print("|---" * (len(COLUMNS) + 1) + "|", flush=True)
    recordings = list(read_recordings(arguments.paths, arguments.window, arguments.count))
    for number, variant in enumerate(VARIANTS):
        if not re.search(arguments.only, variant.name):
            continue
        figures = None
        receiver, sender = multiprocessing.Pipe(duplex=False)
        work = (number, recordings, arguments.count, sender.send)
        process = multiprocessing.get_context("fork").Process(target=measure_variant, args=work)
        process.start()
        sender.close()  # so that the receiver sees the end if the child fails
        with suppress(EOFError):
            figures = receiver.recv() if receiver.poll(3_600) else None
        process.join()
        if figures is None:
            print(f"{variant.name}: the variant failed or took longer than an hour", file=sys.stderr)
            return 1
        cells = " | ".join(format_cell(figures[key], key) for key in COLUMNS)
        faults = figures["over"], figures["invalid"]
        wrong = f" (over the window: {faults[0]}, invalid: {faults[1]})" if any(faults) else ""
        print(f"| {variant.name}{wrong} | {cells} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
