"""The whole crash suite: `make crash`, or

python -m tests.crash                        every cut of every scene
python -m tests.crash --scenes append batch  of these scenes
python -m tests.crash --most 10              at most ten cuts of each kind and scene
python -m tests.crash append write 12 after  this one cut, with the whole traceback
"""

import argparse
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from queue import Empty, Queue
from typing import NamedTuple

from tests.crash.cuts import REFUSALS, Cut, Verdict
from tests.crash.harness import Zygote, every_cut, thinned, workplace
from tests.crash.scenes import SCENES

SHOWN = 40


class Failure(NamedTuple):
    scene: str
    cut: Cut
    text: str


class Tally:
    """What was done so far, and what went wrong."""

    def __init__(self) -> None:
        self.kills: Counter[tuple[str, str]] = Counter()
        self.missed = 0
        self.failures: list[Failure] = []
        self.stopped = False
        self.begun = time.monotonic()
        self._lock = threading.Lock()
        self._of = self._done = 0

    def begin(self, scene: str, of: int) -> None:
        self._of, self._done = of, 0
        if sys.stdout.isatty() and self.kills:
            print()

    def add(self, scene: str, cut: Cut, verdict: Verdict) -> None:
        with self._lock:
            if verdict.cut:
                self.kills[scene, "refused" if cut.how in REFUSALS else cut.kind] += 1
            else:
                self.missed += 1
            if verdict.faults:
                self.failures.append(Failure(scene, cut, "\n".join(verdict.faults)))
            self._done += 1
            self._show(scene)

    def _show(self, scene: str) -> None:
        text = f"crash: {scene} {self._done}/{self._of}, {self.kills.total()} cuts, {len(self.failures)} failures"
        if sys.stdout.isatty():
            print(f"\r\x1b[K{text}", end="", flush=True)
        elif self._done == self._of:
            print(text, flush=True)

    def summary(self) -> None:
        kinds = sorted({kind for _, kind in self.kills})
        print(f"\n{'':12}" + "".join(f"{kind:>10}" for kind in kinds))
        for scene in SCENES:
            row = [self.kills[scene, kind] for kind in kinds]
            if any(row):
                print(f"{scene:12}" + "".join(f"{number:>10,}" for number in row))
        killed = sum(number for (_, kind), number in self.kills.items() if kind not in ("refused", "power"))
        others, seconds = self.kills.total() - killed, time.monotonic() - self.begun
        print(
            f"\n{killed:,} kills, {others:,} refusals and power cuts in {seconds:.0f} s; {len(self.failures)} failures"
        )
        print(f"({self.missed} came too late: the child was done before)")
        for failure in self.failures[:SHOWN]:
            print(f"\npython -m tests.crash {failure.scene} {failure.cut}\n  {failure.text.strip().splitlines()[-1]}")
        if len(self.failures) > SHOWN:
            print(f"\n... and {len(self.failures) - SHOWN} more")


def run_cuts(zygote: Zygote, tally: Tally, scene: str, cuts: "Queue[Cut]") -> None:
    """One worker's share: whoever is free takes the next."""
    while not tally.stopped:
        try:
            cut = cuts.get_nowait()
        except Empty:
            return
        tally.add(scene, cut, zygote.cut(scene, cut))


def run_all(zygotes: list[Zygote], scenes: list[str], most: int, seed: int) -> Tally:
    tally = Tally()
    with ThreadPoolExecutor(len(zygotes)) as pool:
        try:
            for scene in scenes:
                cuts = list(every_cut(zygotes[0].counts(scene), seed=seed))
                cuts = thinned(cuts, most, random.Random(seed)) if most else cuts
                tally.begin(scene, len(cuts))
                queue: Queue[Cut] = Queue()
                for cut in cuts:
                    queue.put(cut)
                workers = [pool.submit(run_cuts, zygote, tally, scene, queue) for zygote in zygotes]
                for worker in workers:
                    worker.result()
        except KeyboardInterrupt:
            tally.stopped = True
            print("\ncrash: stopped")
    tally.summary()
    return tally


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description="Kill it, and see what is left.")
    parser.add_argument("one", nargs="*", metavar="SCENE KIND N HOW", help="one cut instead of all")
    parser.add_argument("--scenes", nargs="+", choices=tuple(SCENES), default=list(SCENES))
    parser.add_argument("--most", type=int, default=0, help="at most so many cuts of each kind and scene")
    parser.add_argument("--workers", type=int, default=min(4, os.cpu_count() or 1), help="so many at a time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=None, help="where to work; the data of the last cut stays there")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # it cleans up behind itself either way
    if options.folder is not None:
        options.folder.mkdir(exist_ok=True, parents=True)
        return run(options.folder, options)
    with workplace() as folder:
        return run(folder, options)


def run(place: Path, options: argparse.Namespace) -> int:
    with ExitStack() as running:
        zygotes: list[Zygote] = []
        for number in range(1 if options.one else max(1, options.workers)):
            (place / str(number)).mkdir(exist_ok=True)
            zygotes.append(running.enter_context(Zygote(place / str(number))))
        if zygotes[0].shim is None:
            print(
                "crash: no Linux or no C compiler, so nothing is cut at the n-th write, sync or name, or by power cuts"
            )
        if not options.one:
            tally = run_all(zygotes, options.scenes, options.most, options.seed)
            return 130 if tally.stopped else bool(tally.failures)
        scene, kind, count, how = options.one
        verdict = zygotes[0].cut(scene, Cut(kind, int(count), how))
        print(verdict.faults[0] if verdict.faults else verdict)
        return bool(verdict.faults)


if __name__ == "__main__":
    sys.exit(main())
