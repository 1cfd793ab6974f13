"""Each part of the default policy switched off in turn, on recordings, and what that costs.

    python bench/ablation.py RECORDING... [--window 32000] [--count chars/4] [--only WORD]

A variant is settings of the policy, or one function or figure of it put out of action in a process of its own. The
figures are those of the lab (`tidegate/lab/measures.py`), as means over the recordings: far references and edit anchors
kept, strict readings of both, the user's words, the bill against the unmanaged history.
"""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from tidegate import presets
from tidegate.lab.bill import Bill
from tidegate.lab.figures import Figures
from tidegate.lab.gauge import Gauge, Task, unmanaged
from tidegate.lab.replay import Setup, replay
from tidegate.lab.signals import signals_of
from tidegate.lab.sources import recordings, ruler_of
from tidegate.lab.traces import Line

COLUMNS = ("far", "anchors", "far_strict", "anchors_strict", "user", "recoverable", "cost")


class Variant(NamedTuple):
    """`instead`: module, dotted name in it, and what stands there instead."""

    name: str
    settings: Mapping[str, Any] = MappingProxyType({})
    instead: tuple[tuple[str, str, Any], ...] = ()


def nothing(*_: object, **__: object) -> None:
    return None


def alike(*_: object) -> float:
    return 1.0


CORE = "tidegate.core."
VARIANTS = (
    Variant("the default"),
    Variant("no ledger", {"ledger": 0.0}),
    Variant("no lines of old work: groups leave whole", instead=((CORE + "stages.sweep", "chosen", lambda *_: {}),)),
    Variant("all lines worth the same", instead=((CORE + "keylines", "_worth", alike),)),
    Variant("all files worth the same", instead=((CORE + "worth", "_AGEING", 0.0),)),
    Variant("superseded content is worth as much", instead=((CORE + "worth", "_Look._remember", nothing),)),
    Variant("names in the order they came", instead=((CORE + "ledger_check", "names_in", None),)),
    Variant("nothing told of runs, decisions, open work", instead=((CORE + "ledger", "_TOLD", 0.0),)),
    Variant("the user's words cut to 125 characters", {"words": 125}),
    Variant("no old replies", {"replies": 0.0}),
    Variant("nothing whole but what is new", {"tail": 0.0}),
    Variant("a third of the room whole", {"tail": 0.33}),
    Variant("no hints", instead=((CORE + "stages.hint", "files_in", lambda _: frozenset()),)),
    Variant("swept to half of the room, unpriced", {"fidelity": 9.0}, ((CORE + "price", "_FULLEST", 0.5),)),
    *(Variant(f"fidelity {knob}", {"fidelity": knob}) for knob in (0.5, 1.0, 2.0, 3.0)),
)


def in_order(messages: Sequence[Any]) -> list[Any]:
    names = importlib.import_module(CORE + "names")
    found = names.names_in(messages)
    at = {fact.value: n for n, fact in enumerate(f for m in messages for f in names.facts_in(names.text_of(m)))}
    return sorted(found, key=lambda name: at.get(name.text, 1 << 30))


def put(where: str, name: str, what: Any) -> None:
    place: Any = importlib.import_module(where)
    *path, last = name.split(".")
    for step in path:
        place = getattr(place, step)
    getattr(place, last)  # a part that was renamed must not go unnoticed
    setattr(place, last, in_order if what is None else what)


def measured(number: int, paths: Sequence[str], window: int, count: str, answer: Callable[[Any], None]) -> None:
    variant = VARIANTS[number]
    for where, name, what in variant.instead:
        put(where, name, what)
    policy = presets.load("default", dict(variant.settings))
    rows = []
    for path in paths:
        for recording in recordings(Path(path)):
            task = Task(signals_of(recording.messages, ruler_of(count)), recording.messages, ruler_of(count), window)
            gauge = Gauge(task, Bill((), []))
            lines = [Line(at, message) for at, message in enumerate(recording.messages, 1)]
            replay(recording.name, lines, Setup(policy, window, count), sink=gauge.add)
            figures: Figures = gauge.figures()
            figures.unmanaged = unmanaged(task, Bill((), []))
            rows.append(figures.values())
    answer({key: mean([row[key] for row in rows]) for key in (*COLUMNS, "over", "invalid")})


def mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def shown(value: float | None, key: str) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if key == "cost" else f"{value:.1%}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("paths", nargs="+", metavar="RECORDING")
    parser.add_argument("--window", type=int, default=32_000)
    parser.add_argument("--count", default="chars/4")
    parser.add_argument("--only", default="", help="variants whose name holds this")
    given = parser.parse_args()
    print("| variant | far references | edit anchors | far, strict | anchors, strict | user words | recalled | cost |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for number, variant in enumerate(VARIANTS):
        if given.only not in variant.name:
            continue
        take, send = multiprocessing.Pipe(duplex=False)
        work = (number, given.paths, given.window, given.count, send.send)
        process = multiprocessing.get_context("fork").Process(target=measured, args=work)
        process.start()
        found = take.recv() if take.poll(3_600) else None
        process.join()
        if found is None:
            print(f"{variant.name}: no answer", file=sys.stderr)
            return 1
        cells = " | ".join(shown(found[key], key) for key in COLUMNS)
        wrong = "" if not found["over"] and not found["invalid"] else f" (over {found['over']}, {found['invalid']})"
        print(f"| {variant.name}{wrong} | {cells} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
