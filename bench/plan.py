"""Measure what planning costs under the default policy, against one that only clears old results and summarizes.

    python bench/plan.py RECORDING... [--windows 32000,128000] [--longer 1.5] [--repeat 3] [--first REVISION]

CPU time of `Session.fit` over whole recordings: measuring, deciding, sweeping, checking against the ledger; rendering
is not in it. Each call's figure is the least of several runs, each in a process of its own, so that none finds the
caches of another. At each window the recordings are taken that are longer than 1.5 of it, as the lab takes them. The
default is timed without its ledger, too, and the other policy with one as large. With --first instead of that other one
the default of an earlier revision of this repository, under its own code.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tidegate.lab.comparison.runner import DEFAULT_MIN_WINDOWS
from tidegate.lab.comparison.session_sources import create_unit_counter, read_clean_recordings

BENCH = Path(__file__).resolve().parent
OTHER = str(BENCH / "clear_and_summarize.yaml")
ONE = str(BENCH / "plan_one.py")


class Row(NamedTuple):
    """`source` is where the code is taken from; "" for the code that is installed."""

    name: str
    policy: str
    settings: dict[str, Any]
    source: str = ""


OURS = (Row("default", "default", {}), Row("default without a ledger", "default", {"ledger": 0.0}))
OTHERS = (Row("clear and summarize", OTHER, {}), Row("the same with a ledger", OTHER, {"ledger": 0.12}))


@contextmanager
def rows(first: str) -> Iterator[tuple[Row, ...]]:
    if not first:
        yield (*OURS, *OTHERS)
        return
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        git = ["git", "-C", str(BENCH.parent), "worktree"]
        subprocess.run([*git, "add", "--detach", folder, first], check=True, capture_output=True)
        try:
            yield (*OURS, Row(f"default at {first}", "default", {}, str(Path(folder) / "src")))
        finally:
            subprocess.run([*git, "remove", "--force", folder], check=True)


def time_calls(row: Row, messages: Sequence[dict[str, Any]], window: int, repeat: int) -> list[float]:
    """Seconds of each call."""
    task = {"policy": row.policy, "settings": row.settings, "window": window, "messages": messages}
    around = os.environ | ({"PYTHONPATH": row.source} if row.source else {})
    runs: list[list[float]] = []
    for _ in range(repeat):
        process = subprocess.run(
            [sys.executable, ONE], input=json.dumps(task), env=around, capture_output=True, text=True, check=True
        )
        runs.append(json.loads(process.stdout))
    return [min(each) for each in zip(*runs, strict=True)]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("paths", nargs="+", metavar="RECORDING")
    parser.add_argument("--windows", default="32000,128000")
    parser.add_argument(
        "--longer", type=float, default=DEFAULT_MIN_WINDOWS, metavar="WINDOWS", help="leave out shorter recordings"
    )
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--first", default="", metavar="REVISION", help="beside the default of this revision")
    options = parser.parse_args()
    windows, ruler = [int(window) for window in options.windows.split(",")], create_unit_counter("chars/4")
    with rows(options.first) as every:
        seconds: dict[tuple[int, str], list[float]] = {(window, row.name): [] for window in windows for row in every}
        for recording in (each for path in options.paths for each in read_clean_recordings(Path(path))):
            tokens = sum(map(ruler.count_message, recording.messages)) / ruler.units_per_token
            for window in windows:
                for row in every if tokens > options.longer * window else ():
                    seconds[window, row.name] += time_calls(row, recording.messages, window, options.repeat)
            print(recording.name, file=sys.stderr, flush=True)
    print("| window | calls | policy | median call, ms | nine in ten | longest | all | default / this one |")
    print("|---|---|---|---|---|---|---|---|")
    for window in windows:
        ours = sum(seconds[window, "default"])
        for row in every:
            print(format_row(window, row.name, seconds[window, row.name], ours))
    return 0


def format_row(window: int, name: str, calls: list[float], ours: float) -> str:
    ms = [1e3 * each for each in sorted(calls)]
    tenth = ms[len(ms) * 9 // 10]
    cells = f"{window:,} | {len(ms):,} | {name} | {statistics.median(ms):.3f} | {tenth:.3f} | {ms[-1]:.1f}"
    return f"| {cells} | {sum(ms):,.0f} | {ours / sum(calls):.2f} |"


if __name__ == "__main__":
    raise SystemExit(main())
