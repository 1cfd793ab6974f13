"""Measure what storing a session costs, compared with raw SQLite and other libraries at the same time.

    python bench/store.py [--only append,crowd,sharing,size,reopen] [--sizes 1000,10000] [--sessions FOLDER] [--json]

A disk shared with others can be fifty times slower from one minute to the next, so only ratios count: the runners live
side by side and take turns, and the figure is the median of the rounds' ratios. What each one does is in
bench/README.md. Each line has its target and whether it is met.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle, permutations
from pathlib import Path
from typing import Any, NamedTuple

from tidegate.lab.peer_registry import get_environment_interpreter, get_scripts_folder

BENCH = Path(__file__).resolve().parent
RUNNERS = BENCH / "runners"
PARTS = ("append", "crowd", "sharing", "size", "reopen")
PYTHON = BENCH.parent / ".venv" / "bin" / "python"
SIZE = 1_500
"""Characters of an appended message."""
WARM = 4_000
TURNS = 5
CROWD = 50
SLOW_DISK = 5.0
"""Milliseconds for an fsync: a common disk without a battery. The disk at hand may be much quicker."""

Figures = dict[str, Any]


class Line(NamedTuple):
    """One figure with its bar; `value` is None if it could not be measured, and `note` says why."""

    what: str
    value: float | None
    bar: str
    holds: bool | None
    note: str = ""


class StoreRunner(NamedTuple):
    """A script of bench/runners and the interpreter that runs it."""

    name: str
    script: Path
    python: Path


OURS = StoreRunner("tidegate", RUNNERS / "tidegate_store.py", PYTHON)
RAW = StoreRunner("raw SQLite", RUNNERS / "sqlite_store.py", PYTHON)
AGENTS = StoreRunner("OpenAI Agents", RUNNERS / "openai_agents_store.py", get_environment_interpreter("openai_agents"))
LANGGRAPH = StoreRunner("LangGraph", RUNNERS / "langgraph_store.py", get_environment_interpreter("langchain"))
REOPENING = StoreRunner("tidegate", RUNNERS / "tidegate_store_reopen.py", PYTHON)
DISK = StoreRunner("tidegate", RUNNERS / "tidegate_store_size.py", PYTHON)


class Absent(Exception):
    """A runner cannot run; the message says what to do."""


class Runner:
    """A process that runs one command at a time."""

    def __init__(self, peer: StoreRunner, preload: str, sync_ms: float) -> None:
        if not peer.python.exists():
            raise Absent(f"{peer.name} has no environment; build it with: make peers")
        modules = os.pathsep.join((str(RUNNERS), str(get_scripts_folder())))
        around = os.environ | {"PYTHONPATH": modules, "PYTHONHASHSEED": "0", "SYNC_MS": str(sync_ms)}
        if preload:
            around["LD_PRELOAD"] = preload
        self.name = peer.name
        self.process = subprocess.Popen(
            [str(peer.python), str(peer.script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=around,
        )

    def ask(self, do: str, **arguments: object) -> Figures:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        figures: Figures = json.loads(line) if line else {"failed": "it ended"}
        if "failed" in figures:
            raise Absent(f"{self.name}, {do}: {figures['failed']}")
        return figures

    def close(self) -> None:
        self.process.communicate()


class Bench:
    """What all parts need: a folder, the counter of fsyncs, the options."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self.folder = folder
        self.given = options
        self.preload = _build_library(folder)

    def place(self) -> str:
        return tempfile.mkdtemp(dir=self.folder)

    @contextmanager
    def running(self, *peers: StoreRunner, sync_ms: float = 0) -> Iterator[list[Runner]]:
        runners: list[Runner] = []
        try:
            for peer in peers:
                runners.append(Runner(peer, self.preload, sync_ms))
            yield runners
        finally:
            for runner in runners:
                runner.close()


def _build_library(folder: Path) -> str:
    """The library that counts fsyncs; nothing without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    library = folder / "syncs.so"
    command = [str(compiler), "-shared", "-fPIC", "-O2", "-o", str(library), str(RUNNERS / "sync_counter.c"), "-ldl"]
    if compiler is None or subprocess.run(command, check=False).returncode:
        return ""
    return str(library)


def at_most(what: str, value: float, bar: float, note: str = "") -> Line:
    return Line(what, value, f"<= {bar:g}", value <= bar, note)


def at_least(what: str, value: float, bar: float, note: str = "") -> Line:
    return Line(what, value, f">= {bar:g}", value >= bar, note)


def rounds(runners: list[Runner], many: int, do: str, **arguments: object) -> list[list[Figures]]:
    """For each round the figures of every runner. Who comes behind whom changes: whoever ran before left its own data
    in the caches. The first round only warms up."""
    results = []
    for _, order in zip(range(many + 1), cycle(permutations(runners)), strict=False):
        figures = {id(runner): runner.ask(do, **arguments) for runner in order}
        results.append([figures[id(runner)] for runner in runners])
    return results[1:]


def ratio(results: list[list[Figures]], above: int, below: int, what: str) -> float:
    return statistics.median(figures[above][what] / figures[below][what] for figures in results)


def middle(results: list[list[Figures]], which: int, what: str) -> float:
    return statistics.median(figures[which][what] for figures in results)


# --- the parts ----------------------------------------------------------------------------------------------------


def append(bench: Bench) -> Iterator[Line]:
    count = 128  # two packs of the store: what packing costs is in every round alike
    with bench.running(OURS, RAW, AGENTS) as runners:
        for runner in runners:
            runner.ask("open", folder=bench.place())
            # Until the write-ahead log of each has been round once: a file that grows is slower to sync.
            runner.ask("append", first=0, count=WARM, size=SIZE)
        results = rounds(runners, bench.given.rounds, "append", first=0, count=count, size=SIZE)
    if "syncs" in results[0][0]:
        ours, raw, agents = (middle(results, which, "syncs") / count for which in range(3))
        note = f"ours {ours:.3f}, raw {raw:.3f}, OpenAI Agents {agents:.3f} for each append (preloaded counter)"
        yield at_most("append: fsyncs, ours / raw SQLite", ours / raw, 1, note)
    else:
        yield Line("append: fsyncs, ours / raw SQLite", None, "<= 1", None, "no C compiler to build the counter")
    walls = ", ".join(f"{1e3 * middle(results, which, 'wall') / count:.2f}" for which in range(3))
    # The least of all rounds: CPU time grows when others share the caches, and never shrinks.
    least = [min(figures[which]["cpu"] for figures in results) / count for which in range(3)]
    cpus = ", ".join(f"{1e6 * cpu:.0f}" for cpu in least)
    yield at_most(
        "append: wall, ours / raw SQLite", ratio(results, 0, 1, "wall"), 2.0, f"ms: ours, raw, Agents {walls}"
    )
    if bench.preload:
        yield _slow_append(bench)
    yield at_least("append: CPU, OpenAI Agents / ours", least[2] / least[0], 2.5, f"us: ours, raw, Agents {cpus}")


def _slow_append(bench: Bench) -> Line:
    """Where an fsync takes no time, the wall clock shows CPU alone: so also as it is on a common disk."""
    count = 64
    with bench.running(OURS, RAW, sync_ms=SLOW_DISK) as runners:
        for runner in runners:
            runner.ask("open", folder=bench.place())
        results = rounds(runners, 3, "append", first=0, count=count, size=SIZE)
    walls = ", ".join(f"{1e3 * middle(results, which, 'wall') / count:.2f}" for which in range(2))
    what = f"append, fsync of {SLOW_DISK:g} ms: wall, ours / raw SQLite"
    return at_most(what, ratio(results, 0, 1, "wall"), 2.0, f"ms: ours, raw {walls}")


def crowd(bench: Bench) -> Iterator[Line]:
    yield from _crowd(bench, "", 0)
    if bench.preload:
        yield from _crowd(bench, f", fsync of {SLOW_DISK:g} ms", SLOW_DISK)


def _crowd(bench: Bench, where: str, sync_ms: float) -> Iterator[Line]:
    each = 40
    with bench.running(OURS, AGENTS, sync_ms=sync_ms) as runners:
        for runner in runners:
            runner.ask("open", folder=bench.place())
        many = max(1, bench.given.rounds // (12 if sync_ms else 3))  # each takes a second or more
        results = rounds(runners, many, "crowd", sessions=CROWD, first=0, count=each, size=SIZE)
        threads = rounds(runners[:1], many, "threads", sessions=CROWD, first=0, count=each, size=SIZE)
    appends = CROWD * each
    rates = [appends / middle(results, which, "wall") for which in range(2)]
    note = f"{rates[0]:,.0f} and {rates[1]:,.0f} appends/s"
    if "syncs" in results[0][0]:
        note += ", {:.2f} and {:.2f} fsyncs each".format(*(middle(results, who, "syncs") / appends for who in (0, 1)))
    what = f"{CROWD} sessions at once{where}: throughput, ours / Agents"
    yield at_least(what, ratio(results, 1, 0, "wall"), 6, note)
    rate = appends / middle(threads, 0, "wall")
    note = f"{rate:,.0f} appends/s"
    yield Line(f"  the same with {CROWD} threads instead of tasks, ours", rate / rates[1], "", None, note)


def sharing(bench: Bench) -> Iterator[Line]:
    """What group commit buys: the appends of many sessions with one commit each, and with shared commits."""
    for where, sync_ms in (("", 0.0), (f", fsync of {SLOW_DISK:g} ms", SLOW_DISK)) if bench.preload else (("", 0.0),):
        each = 10
        with bench.running(OURS, sync_ms=sync_ms) as runners:
            runners[0].ask("open", folder=bench.place())
            arguments = {"sessions": CROWD, "first": 0, "count": each, "size": SIZE}
            many = max(1, bench.given.rounds // 6)
            alone = rounds(runners, many, "crowd", **arguments, in_turn=True)
            shared = [rounds(runners, many, do, **arguments) for do in ("crowd", "threads")]
        appends = CROWD * each
        base = appends / middle(alone, 0, "wall")
        for name, results in (
            ("no two share a commit", alone),
            ("tasks share", shared[0]),
            ("threads share", shared[1]),
        ):
            rate = appends / middle(results, 0, "wall")
            note = f"{rate:,.0f} appends/s, {1e6 * middle(results, 0, 'cpu') / appends:,.0f} us of CPU each"
            if "syncs" in results[0][0]:
                note += f", {middle(results, 0, 'syncs') / appends:.2f} fsyncs each"
            yield Line(f"{CROWD} sessions{where}: {name}", rate / base, "", None, note)


def size(bench: Bench) -> Iterator[Line]:
    sources = [("generated", "")] + ([("recorded", str(bench.given.sessions))] if bench.given.sessions else [])
    with bench.running(DISK) as [runner]:
        for name, source in sources:
            for count in (1_000, 10_000):
                figures = runner.ask("keep", folder=bench.place(), source=source, count=count)
                what = f"{figures['messages']:,} {name} messages"
                raw = figures["raw"]
                note = f"{raw / 1e6:.1f} MB of JSON, {figures['sessions']} sessions"
                yield at_most(f"{what}: log and blobs / JSON", figures["log"] / raw, 0.5, note)
                yield at_most(f"{what}: search index / JSON", figures["index"] / raw, 0.6)
    if bench.given.steps:
        with bench.running(LANGGRAPH) as [runner]:
            figures = runner.ask("steps", folder=bench.place(), count=bench.given.steps, size=bench.given.step_chars)
        what = f"{bench.given.steps:,} steps: LangGraph's SQLite checkpointer / JSON"
        yield Line(what, figures["bytes"] / figures["raw"], "", None, f"{bench.given.step_chars} characters a step")


def reopen(bench: Bench) -> Iterator[Line]:
    sizes = sorted(bench.given.sizes)
    ours, theirs = bench.place(), bench.place()
    with bench.running(REOPENING, AGENTS) as (us, them):
        for count in sizes:
            us.ask("fill", folder=ours, size=count)
        them.ask("fill", folder=theirs, size=10_000)
    by_size: dict[int, list[Figures]] = {count: [] for count in sizes}
    full: list[Figures] = []
    calls: Figures = {}
    for _ in range(bench.given.reopens):
        with bench.running(REOPENING, AGENTS) as (us, them):
            for turn in range(TURNS):
                for count in sizes:
                    figures = us.ask("reopen", folder=ours, size=count)
                    figures["request"] = us.ask("request")["wall"]
                    us.ask("leave")
                    by_size[count] += [figures] if turn else []  # the first turn has what a process does once
                full.append(them.ask("reopen", folder=theirs, size=10_000))
            calls = us.ask("counted", folder=ours, size=sizes[-1])
    yield from _report_reopening(sizes, by_size, full, calls)


def _report_reopening(
    sizes: list[int], by_size: dict[int, list[Figures]], full: list[Figures], calls: Figures
) -> Iterator[Line]:
    best = {count: min(figures["wall"] for figures in by_size[count]) for count in sizes}
    whole = {count: min(figures["wall"] + figures["request"] for figures in by_size[count]) for count in sizes}
    if 10_000 in best:
        read = min(figures["wall"] for figures in full)
        ours = f"full read {1e3 * read:.0f} ms, ours"
        what = "reopen 10,000: OpenAI Agents' full read / ours"
        yield at_least(what, read / best[10_000], 40, f"{ours} {1e3 * best[10_000]:.1f} ms")
        note = f"{ours} {1e3 * whole[10_000]:.1f} ms; they render nothing"
        yield at_least("  the same, ours with the next request rendered and judged", read / whole[10_000], 40, note)
    if len(sizes) > 1:
        note = ", ".join(f"{count:,}: {1e3 * best[count]:.1f}" for count in sizes) + " ms"
        what = f"reopen: {sizes[-1]:,} messages / {sizes[0]:,}"
        yield at_most(what, best[sizes[-1]] / best[sizes[0]], 1.5, note)
    remark = f"{calls['calls_by_one_message']} for one new message"
    yield at_most("reopen: texts counted", calls["calls"], 0, remark)


# --- the report ---------------------------------------------------------------------------------------------------


def format_line(line: Line) -> str:
    verdict = {True: "holds", False: "MISSED", None: ""}[line.holds]
    value = "-" if line.value is None else f"{line.value:,.2f}"
    return f"{line.what:<66} {value:>9}  {line.bar:<7} {verdict:<7} {line.note}"


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS), help="some of the parts, with commas between")
    parser.add_argument("--rounds", type=int, default=36, help="rounds of appends that count")
    parser.add_argument(
        "--reopens", type=int, default=3, help="processes that open each session 5 times; the best counts"
    )
    parser.add_argument("--sizes", default="1000,10000,100000", help="messages of the sessions that are opened again")
    parser.add_argument("--sessions", type=Path, help="a folder of recordings, for their size on disk")
    parser.add_argument("--steps", type=int, default=1_000, help="steps of the LangGraph run; 0 leaves it out")
    parser.add_argument("--step-chars", type=int, default=400, help="characters said at each of them")
    parser.add_argument("--folder", type=Path, help="where to write: a disk is measured, so it matters which")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.only = options.only.split(",")
    if unknown := set(options.only) - set(PARTS):
        parser.error(f"no part named {', '.join(sorted(unknown))}; there are: {', '.join(PARTS)}")
    options.sizes = [int(number) for number in options.sizes.split(",")]
    return options


def main() -> int:
    options = parse_options()
    parts: dict[str, Callable[[Bench], Iterator[Line]]] = {
        "append": append,
        "crowd": crowd,
        "sharing": sharing,
        "size": size,
        "reopen": reopen,
    }
    lines: list[Line] = []
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="tidegate-bench-") as folder:
        bench = Bench(Path(folder), options)
        for name in options.only:
            try:
                for line in parts[name](bench):
                    lines.append(line)
                    print(format_line(line), file=sys.stderr if options.json else sys.stdout, flush=True)
            except Absent as absent:
                lines.append(Line(name, None, "", None, str(absent)))
                print(format_line(lines[-1]), file=sys.stderr if options.json else sys.stdout, flush=True)
            except KeyboardInterrupt:
                break
    if options.json:
        print(json.dumps([line._asdict() for line in lines], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
