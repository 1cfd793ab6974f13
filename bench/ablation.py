"""Each part of the default policy switched off in turn, on recordings, and what that costs.

    python bench/ablation.py RECORDING... [--window 32000] [--count chars/4] [--only EXPRESSION]

A variant is settings of the policy, or one function or figure of it put out of action in a process of its own. The
figures are those of the lab (`tidegate/lab/scoring/measures.py`), as means over the recordings: far references and
edit anchors kept, strict readings of both, the same for what was last seen within half a window, the user's words, what
of the missing a recall call in the request gives back, the bill against the unmanaged history.
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
from tidegate.lab.comparison.session_sources import create_unit_counter, read_clean_recordings
from tidegate.lab.replay.recording_file import RecordedLine
from tidegate.lab.replay.session_replay import ReplaySetup, replay_session
from tidegate.lab.scoring.contender_request import ContenderRequest
from tidegate.lab.scoring.input_bill import InputBill
from tidegate.lab.scoring.occurrences import contains_whole_name
from tidegate.lab.scoring.request_scorer import RequestScorer, ScoringTask, compute_unmanaged_cost
from tidegate.lab.scoring.session_figures import KeptShare, SessionFigures
from tidegate.lab.scoring.signals import ANCHOR_KIND, Need, extract_signals, searchable_text_of

COLUMNS = {
    "far": "far references",
    "anchors": "edit anchors",
    "far_strict": "far, strict",
    "anchors_strict": "anchors, strict",
    "near": "near references",
    "near_strict": "near anchors, strict",
    "user": "user words",
    "recoverable": "recalled",
    "cost": "cost",
}


class Variant(NamedTuple):
    """`instead`: module, dotted name in it, and what stands there instead."""

    name: str
    settings: Mapping[str, Any] = MappingProxyType({})
    instead: tuple[tuple[str, str, Any], ...] = ()


def nothing(*_: object, **__: object) -> None:
    return None


CORE = "tidegate.core."
ALIKE = dict.fromkeys(("comment", "import", "declares", "heading", "other"), (1.0, 1.0, 1.0, 1.0))
SAME = (("_WORTH", ALIKE), ("_OTHERS", ALIKE["other"]), ("_FAILED", ALIKE["other"]))
VARIANTS = (
    Variant("the default"),
    Variant("no ledger", {"ledger": 0.0}),
    Variant("no lines of old work: groups leave whole", instead=((CORE + "stages.sweep", "chosen", lambda *_: {}),)),
    Variant("all lines worth the same", instead=tuple((CORE + "keylines", *each) for each in SAME)),
    Variant("all files worth the same", instead=((CORE + "worth", "_AGEING", 0.0),)),
    Variant("superseded content is worth as much", instead=((CORE + "worth", "_Look._remember", nothing),)),
    Variant("failures worth what other lines are", instead=((CORE + "keylines", "_FAILED", (1.8, 0.5, 0.5, 0.5)),)),
    Variant("names in the order they came", instead=((CORE + "ledger_check", "names_in", None),)),
    Variant("names in all that leaves", instead=((CORE + "names", "_SWEEP", 1 << 30),)),
    Variant("names within 3,000 characters of a message", instead=((CORE + "names", "_READ", 3_000),)),
    Variant("names in calls only", instead=((CORE + "names", "_READ", 0),)),
    Variant("nothing told of runs, decisions, open work", instead=((CORE + "ledger", "_TOLD", 0.0),)),
    Variant("the user's words cut to 125 characters", {"words": 125}),
    Variant("nothing whole but what is new", {"tail": 0.0}),
    Variant("a tenth of the room whole", {"tail": 0.1}),
    Variant("a third of the room whole", {"tail": 0.33}),
    Variant("no hints", instead=((CORE + "stages.hint", "files_in", lambda _: frozenset()),)),
    Variant("swept to half of the room, unpriced", {"fidelity": 9.0}, ((CORE + "price", "_FULLEST", 0.5),)),
    *(Variant(f"fidelity {knob}", {"fidelity": knob}) for knob in (0.5, 1.0, 2.0, 3.0)),
)


def in_order(messages: Sequence[Any], stay: Mapping[str, str]) -> list[Any]:
    names, facts = importlib.import_module(CORE + "names"), importlib.import_module(CORE + "facts")
    found = names.names_in(messages, stay)
    at = {fact.value: n for n, fact in enumerate(f for m in messages for f in facts.facts_in(names.text_of(m)))}
    return sorted(found, key=lambda name: at.get(name.text, 1 << 30))


def put(where: str, name: str, what: Any) -> None:
    place: Any = importlib.import_module(where)
    *path, last = name.split(".")
    for step in path:
        place = getattr(place, step)
    getattr(place, last)  # a part that was renamed must not go unnoticed
    setattr(place, last, in_order if what is None else what)


class Taken(NamedTuple):
    """A recording and what it itself says it needed: found once, for all variants."""

    name: str
    task: ScoringTask


def taken(paths: Sequence[str], window: int, count: str) -> Iterator[Taken]:
    ruler = create_unit_counter(count)
    for path in paths:
        for recording in read_clean_recordings(Path(path)):
            messages = recording.messages
            yield Taken(recording.name, ScoringTask(extract_signals(messages, ruler), messages, ruler, window))


def measured(number: int, all_taken: Sequence[Taken], count: str, answer: Callable[[Any], None]) -> None:
    variant = VARIANTS[number]
    for where, name, what in variant.instead:
        put(where, name, what)
    policy = presets.load("default", dict(variant.settings))
    rows = []
    for name, task in all_taken:
        gauge, near = RequestScorer(task, InputBill((), [])), Near(task)

        def sink(asked: ContenderRequest, gauge: RequestScorer = gauge, near: Near = near) -> None:
            gauge.add_request(asked)
            near.add(asked)

        lines = [RecordedLine(at, message) for at, message in enumerate(task.messages, 1)]
        report = replay_session(name, lines, ReplaySetup(policy, task.window, count), on_request=sink)
        if report.exceptions:
            raise RuntimeError(f"{variant.name}: {name}: {dict(report.exceptions)}")
        figures: SessionFigures = gauge.finish()
        figures.unmanaged = compute_unmanaged_cost(task, InputBill((), []))
        rows.append(figures.compute_measures() | near.values())
    answer({key: mean([row[key] for row in rows]) for key in (*COLUMNS, "over", "invalid")})


class Near:
    """What was last seen within half a window, which a tail that stays whole is for: references, lines that are edited.

    Counted, as all of fidelity is, at requests whose whole history is longer than the window.
    """

    def __init__(self, task: ScoringTask) -> None:
        self._history, self._limit = task.signals.units_before, task.unit_counter.units_per_token * task.window
        self._found = {"near": KeptShare(), "near_strict": KeptShare()}
        self._needs: dict[int, list[tuple[str, Need]]] = {}
        for key, needs in (("near", task.signals.references), ("near_strict", task.signals.strict_anchors)):
            for need in needs:
                if need.tokens_back <= task.window / 2:
                    self._needs.setdefault(need.message_index, []).append((key, need))

    def add(self, asked: ContenderRequest) -> None:
        needs = self._needs.get(asked.message_index, ())
        if needs and self._history[asked.message_index] > self._limit:
            text = "\x01".join(searchable_text_of(message) for message in asked.messages)
            for key, need in needs:
                self._found[key].total += 1
                self._found[key].kept += (
                    need.text in text if need.kind == ANCHOR_KIND else contains_whole_name(text, need.text)
                )

    def values(self) -> dict[str, float | None]:
        return {key: share.value for key, share in self._found.items()}


def mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def cell(value: float | None, key: str) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if key == "cost" else f"{value:.1%}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("paths", nargs="+", metavar="RECORDING")
    parser.add_argument("--window", type=int, default=32_000)
    parser.add_argument("--count", default="chars/4")
    parser.add_argument("--only", default="", help="variants whose name fits this expression")
    given = parser.parse_args()
    print(f"| variant | {' | '.join(COLUMNS.values())} |")
    print("|---" * (len(COLUMNS) + 1) + "|", flush=True)
    everything = list(taken(given.paths, given.window, given.count))
    for number, variant in enumerate(VARIANTS):
        if not re.search(given.only, variant.name):
            continue
        found = None
        take, send = multiprocessing.Pipe(duplex=False)
        work = (number, everything, given.count, send.send)
        process = multiprocessing.get_context("fork").Process(target=measured, args=work)
        process.start()
        send.close()  # so that one that fails ends the waiting
        with suppress(EOFError):
            found = take.recv() if take.poll(3_600) else None
        process.join()
        if found is None:
            print(f"{variant.name}: no answer", file=sys.stderr)
            return 1
        cells = " | ".join(cell(found[key], key) for key in COLUMNS)
        wrong = "" if not found["over"] and not found["invalid"] else f" (over {found['over']}, {found['invalid']})"
        print(f"| {variant.name}{wrong} | {cells} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
