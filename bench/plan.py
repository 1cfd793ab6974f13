"""What planning costs under the default policy, against one that only clears old results and summarises.

    python bench/plan.py RECORDING... [--windows 32000,128000] [--repeat 3]

CPU time of `Session.fit` over a whole recording: measuring, deciding, sweeping, checking against the ledger; rendering
is not in it. Each figure is the least of several runs, each in a process of its own, so that none finds the caches of
another. The other policy is timed as it is, and with a ledger as large as the default's.
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Callable, Sequence
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

from tidegate import Session, presets
from tidegate.lab.sources import recordings

OTHER = Path(__file__).resolve().parent / "clear_and_summarise.yaml"
POLICIES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("default", {}),
    (str(OTHER), {}),
    (str(OTHER), {"ledger": 0.12}),
)
SECONDS_PER_CALL = 30.0


class Spent(NamedTuple):
    """CPU seconds of all calls and of the longest one."""

    all: float
    longest: float
    calls: int


def planned(number: int, messages: Sequence[dict[str, Any]], window: int, answer: Callable[[Spent], None]) -> None:
    name, settings = POLICIES[number]
    now = 0.0
    session = Session(policy=presets.load(name, settings), window=window, count="chars/4", clock=lambda: now)
    spent: list[float] = []
    for message in messages:
        if message["role"] == "assistant":
            now += SECONDS_PER_CALL
            begun = process_time()
            session.fit()
            spent.append(process_time() - begun)
        session.add(message)
    answer(Spent(sum(spent), max(spent, default=0.0), len(spent)))


def least(number: int, messages: Sequence[dict[str, Any]], window: int, repeat: int) -> Spent:
    runs: list[Spent] = []
    for _ in range(repeat):
        take, send = multiprocessing.Pipe(duplex=False)
        work = (number, messages, window, send.send)
        process = multiprocessing.get_context("fork").Process(target=planned, args=work)
        process.start()
        runs.append(take.recv())
        process.join()
    return Spent(min(run.all for run in runs), min(run.longest for run in runs), runs[0].calls)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("paths", nargs="+", metavar="RECORDING")
    parser.add_argument("--windows", default="32000,128000")
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    windows = [int(window) for window in given.windows.split(",")]
    print("| recording | window | calls | default | longest call | other | times | other with a ledger | times |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    sums = {window: [0.0] * len(POLICIES) for window in windows}
    for path in given.paths:
        for recording in recordings(Path(path)):
            for window in windows:
                every = [least(number, recording.messages, window, given.repeat) for number in range(len(POLICIES))]
                sums[window] = [total + each.all for total, each in zip(sums[window], every, strict=True)]
                print(row(recording.name, window, every), flush=True)
    for window, totals in sums.items():
        print(row("all", window, [Spent(total, 0.0, 0) for total in totals]))
    return 0


def row(name: str, window: int, every: Sequence[Spent]) -> str:
    ours, *others = every
    cells = [name, f"{window:,}", f"{ours.calls or ''}", f"{ours.all * 1e3:,.0f} ms", f"{ours.longest * 1e3:,.0f} ms"]
    for other in others:
        cells += [f"{other.all * 1e3:,.0f} ms", f"{ours.all / other.all:.1f}"]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    raise SystemExit(main())
