"""Check the promise of the engine on real sessions.

Every request fits, is valid for every provider and holds the newest user message, and nothing raises.

    python bench/sweep.py FOLDER [--sample N] [--presets a,b] [--windows 8000,16000] [--counts exact,chars/4]

Every recording in FOLDER is replayed under every preset, window and way to count. At each call the same view is
rendered in all four dialects and each is judged by its validator; every 40th call all of it is done afresh, too.
Sessions whose system prompt leaves no room in the window are refused with the numbers, and counted apart. The status is
1 if anything is over, invalid, lost or raised.
"""

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

from tidegate.core.errors import BadInput
from tidegate.lab.replay import recording_file
from tidegate.lab.replay.replay_report import ReplayReport, sum_reports
from tidegate.lab.replay.session_replay import ReplaySetup, replay_session
from tidegate.presets import load, preset_names

WINDOWS = (8_000, 16_000, 32_000, 64_000, 128_000)
COUNTS = ("exact", "chars/4")
WIRES = ("openai_chat", "openai_responses", "anthropic", "gemini")
AFRESH = 40
HEAD = (
    *"preset window count calls mean max prefix refused over".split(),
    *"chat resp anthr gemini whole clipped lost raised guard".split(),
)


class Case(NamedTuple):
    preset: str
    window: int
    how: str


class Task(NamedTuple):
    path: Path
    cases: tuple[Case, ...]


class Swept(NamedTuple):
    path: Path
    reports: tuple[ReplayReport, ...]
    unread: str = ""


def sweep(task: Task) -> Swept:
    """One recording under every case. It is read once: the same messages serve all."""
    name = recording_file.get_recording_name(task.path)
    try:
        lines = list(recording_file.read_chat_recording(task.path))
        reports = []
        for case in task.cases:
            setup = ReplaySetup(load(case.preset), case.window, case.how, WIRES, AFRESH)
            reports.append(replay_session(name, lines, setup))
    except BadInput as bad:
        return Swept(task.path, (), str(bad))
    return Swept(task.path, tuple(reports))


def row(case: Case, report: ReplayReport) -> list[str]:
    prefix = "-" if report.mean_shared_share is None else f"{100 * report.mean_shared_share:.1f}%"
    invalid = [report.invalid_by_dialect[wire] for wire in WIRES]
    newest = [report.newest_whole, report.newest_clipped, report.newest_lost]
    figures = [
        report.refused,
        report.oversized_requests,
        *invalid,
        *newest,
        report.exceptions.total(),
        report.edits["guard"],
    ]
    sizes = [f"{report.mean_tokens:,.0f}", f"{report.max_tokens:,.0f}", prefix]
    return [case.preset, f"{case.window:,}", case.how, str(report.calls), *sizes, *map(str, figures)]


def is_clean(report: ReplayReport) -> bool:
    return not (
        report.oversized_requests
        or report.invalid_by_dialect.total()
        or report.newest_lost
        or report.exceptions.total()
    )


def print_table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(line[column]) for line in rows) for column in range(len(HEAD))]
    for line in rows:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))


def print_faults(case: Case, reports: Sequence[ReplayReport]) -> None:
    """Which sessions broke the promise, and how: the place to begin looking."""
    for report in reports:
        if is_clean(report):
            continue
        what = (
            [f"{report.oversized_requests} over (largest {report.max_tokens:,.1f})"]
            if report.oversized_requests
            else []
        )
        what += [f"{rule}: {count}" for rule, count in report.broken_rules.items()]
        what += [f"{report.newest_lost} without the newest user message"] if report.newest_lost else []
        what += [f"{text}: {count}" for text, count in report.exceptions.items()]
        print(f"  {case.preset} {case.window} {case.how} {report.name}: {'; '.join(what)}")


def parse_options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="only N recordings, spread over the folder")
    parser.add_argument("--presets", default=",".join(preset_names()))
    parser.add_argument("--windows", default=",".join(map(str, WINDOWS)))
    parser.add_argument("--counts", default=",".join(COUNTS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    options = parse_options(argv)
    paths = recording_file.find_chat_recordings([options.folder])
    if options.sample:
        paths = paths[:: max(1, len(paths) // options.sample)][: options.sample]
    windows = [int(window) for window in options.windows.split(",")]
    cases = tuple(Case(*case) for case in product(options.presets.split(","), windows, options.counts.split(",")))
    paths.sort(key=lambda path: path.stat().st_size, reverse=True)
    results: list[Swept] = []
    start = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for swept in pool.imap_unordered(sweep, [Task(path, cases) for path in paths]):
            results.append(swept)
            print(f"{len(results)}/{len(paths)} {swept.path.name} {time.monotonic() - start:.0f} s", file=sys.stderr)
    read = [swept for swept in sorted(results) if not swept.unread]
    by_case = [(case, [swept.reports[place] for swept in read]) for place, case in enumerate(cases)]
    print_table([HEAD, *(row(case, sum_reports(reports)) for case, reports in by_case)])
    for case, reports in by_case:
        print_faults(case, reports)
    for window in windows:
        refusals = {
            report.name for case, reports in by_case if case.window == window for report in reports if report.refused
        }
        print(f"window {window:,}: {len(refusals)} of {len(read)} sessions refused in some case")
    for swept in results:
        if swept.unread:
            print(f"skipped: {swept.unread}")
    clean = all(is_clean(report) for _, reports in by_case for report in reports)
    print(f"{len(read)} recordings, {len(cases)} cases: {'clean' if clean else 'NOT CLEAN'}")
    return 0 if clean and len(read) == len(paths) else 1


if __name__ == "__main__":
    sys.exit(main())
