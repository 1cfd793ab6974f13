"""Measure what preparing one model call costs, in tidegate and in other libraries.

    python bench/prepare.py [--peer NAME] [--sizes 100,1000] [--modes call,bytes] [--json]

Every runner is a process in its own environment; they run one at a time. This script starts them and prints their
figures side by side. bench/README.md describes what each one measures.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

BENCH = Path(__file__).resolve().parent
RUNNERS = BENCH / "runners"
sys.path.insert(0, str(RUNNERS))

from bench_conversation import CHARS_PER_TOKEN, MEAN_CHARS, PRELUDE_MESSAGES, VISIBLE_MESSAGES, WINDOW  # noqa: E402

from tidegate.lab.peer_registry import get_environment_interpreter, get_scripts_folder  # noqa: E402

SIZES = (100, 1_000, 10_000, 100_000)
SESSION = 10_000
MEMORY = 100_000
OURS = "tidegate"
TITLES = {
    "call": "Prepare one call: measure, decide, hold the view (CPU ms, median)",
    "bytes": "The same, with the request rendered to bytes (CPU ms, median)",
    "session": f"A whole session of {SESSION:,} messages, call after call (CPU s)",
    "memory": f"Memory beyond the text itself at {MEMORY:,} messages (MB)",
}
FIGURES = {"call": "median_ms", "bytes": "median_ms", "session": "cpu_s", "memory": "beyond_bytes"}

Line = dict[str, Any]


class CostRow(NamedTuple):
    """A row: one way of a library to prepare a model call. `bench/runners/NAME_runner.py` runs it.

    `history` is "kept", or "deleted" where the library no longer holds what left its view.
    """

    name: str
    environment: str
    modes: tuple[str, ...]
    history: str
    description: str


COST_MODES = ("call", "bytes", "session", "memory")
COST_ROWS = (
    CostRow("inspect_compaction", "inspect_ai", COST_MODES, "kept", "inspect_ai: compaction() with CompactionTrim"),
    CostRow("langchain_trim", "langchain", COST_MODES, "kept", "LangChain: trim_messages, approximate counter"),
    CostRow("langchain_check", "langchain", ("call",), "kept", "LangChain: SummarizationMiddleware, check only"),
    CostRow("langchain_summary", "langchain", ("call", "bytes"), "kept", "LangChain: the same, with a fixed summary"),
    CostRow(
        "langchain_rolling", "langchain", COST_MODES[:3], "deleted", "LangChain: the same, deleting what it summarized"
    ),
    CostRow("deepagents_view", "deepagents", COST_MODES, "kept", "deepagents: state channel and bounded view"),
    CostRow("agents_session", "openai_agents", COST_MODES, "kept", "OpenAI Agents: newest items of a session, trimmer"),
    CostRow(
        "agents_whole", "openai_agents", ("call", "bytes"), "kept", "OpenAI Agents: whole session, trimmer (defaults)"
    ),
    CostRow(
        "pydantic_window", "pydantic_ai", COST_MODES, "kept", "pydantic-ai: SlidingWindowCompaction, whole history"
    ),
    CostRow(
        "pydantic_rolling",
        "pydantic_ai",
        COST_MODES[:3],
        "deleted",
        "pydantic-ai: the same, rewriting the run's messages",
    ),
)
ALL = (CostRow(OURS, OURS, COST_MODES, "kept", "tidegate: Session.add and Session.prepare"), *COST_ROWS)


def find_script(row: CostRow) -> Path:
    return RUNNERS / f"{row.name}_runner.py"


def find_interpreter(row: CostRow) -> Path:
    """The project's own interpreter for tidegate, that of its environment for a peer."""
    return Path(sys.executable) if row.name == OURS else get_environment_interpreter(row.environment)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def absent(row: CostRow) -> str | None:
    """Why a row cannot be measured here, with what to do about it."""
    if find_interpreter(row).exists():
        return None
    return f"{row.name}: no environment; build it with: make peers ARGS={row.environment}"


def run_one(row: CostRow, mode: str, size: int, options: argparse.Namespace) -> Line:
    command = [
        str(find_interpreter(row)),
        str(find_script(row)),
        "--mode",
        mode,
        "--size",
        str(size),
        "--bound",
        str(options.bound),
    ]
    line: Line = {"peer": row.name, "mode": mode, "size": size}
    # The hash seed is held so that two runs differ by the machine alone.
    modules = os.pathsep.join((str(RUNNERS), str(get_scripts_folder())))
    around = os.environ | {"PYTHONPATH": modules, "PYTHONHASHSEED": "0"}
    try:
        process = subprocess.run(
            command, capture_output=True, text=True, timeout=options.timeout, env=around, cwd=BENCH.parent, check=False
        )
    except subprocess.TimeoutExpired:
        return line | {"skipped": f"not ended after {options.timeout:.0f} s, setting up included"}
    try:
        figures: Line = json.loads(process.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        last = (process.stderr.strip().splitlines() or ["no output"])[-1]
        return line | {"failed": f"exit status {process.returncode}: {last}"[:500]}
    return line | figures


def jobs(rows: list[CostRow], modes: list[str], sizes: list[int]) -> list[tuple[CostRow, str, int]]:
    """Row by row within a size: what is compared is measured close together, since a shared machine has its moods."""
    all_jobs = []
    for mode in modes:
        for size in {"session": [SESSION], "memory": [MEMORY]}.get(mode, sizes):
            all_jobs += [(row, mode, size) for row in rows if mode in row.modes]
    return all_jobs


def run_all(todo: list[tuple[CostRow, str, int]], options: argparse.Namespace, lines: list[Line]) -> None:
    """Fills `lines` as it goes, so that a run that is stopped still has what it measured."""
    given_up: set[tuple[str, str]] = set()
    for number, (row, mode, size) in enumerate(todo, 1):
        if (row.name, mode) in given_up:
            line: Line = {"peer": row.name, "mode": mode, "size": size, "skipped": "a smaller size was over the bound"}
        else:
            line = run_one(row, mode, size, options)
        if "skipped" in line:
            given_up.add((row.name, mode))
        lines.append(line)
        say(f"[{number}/{len(todo)}] {row.name} {mode} {size:,}: {cell(line)} {trouble(line) or ''}")


def trouble(line: Line) -> str | None:
    return line.get("failed") or line.get("skipped")


def value(line: Line | None) -> float | None:
    if line is None or trouble(line):
        return None
    figure = float(line[FIGURES[line["mode"]]])
    return figure / 1e6 if line["mode"] == "memory" else figure


def cell(line: Line | None, ours: Line | None = None) -> str:
    if line is None:
        return ""
    figure = value(line)
    if figure is None:
        return "failed" if "failed" in line else "skipped"
    number = f"{figure:,.3f}" if figure < 10 else f"{figure:,.1f}"
    if line.get("partial"):
        return f"> {number} ({line['messages']:,} messages)"
    base = value(ours)
    return f"{number} ({figure / base:,.1f}x)" if base and base > 0 and line is not ours else number


def find_view_size(lines: list[Line]) -> str:
    """Messages in the held view after the last call, at the largest size measured."""
    at = [line for line in lines if "visible" in line]
    return f"{at[-1]['visible']:,}" if at else ""


def table(mode: str, lines: list[Line]) -> list[str]:
    here = [line for line in lines if line["mode"] == mode]
    sizes = sorted({line["size"] for line in here})
    by = {(line["peer"], line["size"]): line for line in here}
    rows = [row for row in ALL if any((row.name, size) in by for size in sizes)]
    grid = [["", "history", *(f"{size:,}" for size in sizes), "visible"]]
    for row in rows:
        cells = [cell(by.get((row.name, size)), by.get((OURS, size))) for size in sizes]
        own = [by[row.name, size] for size in sizes if (row.name, size) in by]
        grid.append([row.name, row.history, *cells, find_view_size(own)])
    widths = [max(len(line[column]) for line in grid) for column in range(len(grid[0]))]
    lines_of_table = [TITLES[mode]]
    for line in grid:
        lines_of_table.append(
            "  "
            + "  ".join(
                [line[0].ljust(widths[0]), line[1].ljust(widths[1])]
                + [text.rjust(width) for text, width in zip(line[2:], widths[2:], strict=True)]
            )
        )
    return [text.rstrip() for text in lines_of_table]


def setting() -> str:
    return (
        f"Window {WINDOW:,} tokens; messages of {MEAN_CHARS:,} characters ({MEAN_CHARS // CHARS_PER_TOKEN} tokens) on "
        f"average, so a full view is about {VISIBLE_MESSAGES} messages.\n"
        f"CPU time of one process, Python {platform.python_version()}, {platform.machine()}. (n x): times the cost of "
        f"{OURS} in the same run. `deleted`: the peer no longer holds what left its view."
    )


def report(lines: list[Line], missing: list[str]) -> str:
    text_lines = [setting(), ""]
    for mode in COST_MODES:
        if any(line["mode"] == mode for line in lines):
            text_lines += [*table(mode, lines), ""]
    versions = sorted({f"{line['package']} {line['version']}" for line in lines if "version" in line})
    text_lines.append("Measured: " + ", ".join(versions))
    text_lines += [
        f"{line['peer']} {line['mode']} {line['size']:,}: {trouble(line)}" for line in lines if trouble(line)
    ]
    text_lines += [f"Not measured: {why}" for why in missing]
    return "\n".join(text_lines)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Measure what preparing a model call costs, in tidegate and in other libraries."
    )
    names = ", ".join(row.name for row in ALL)
    parser.add_argument(
        "--peer", action="append", default=[], help=f"measure only this runner (may be repeated): {names}"
    )
    parser.add_argument(
        "--sizes", default=",".join(map(str, SIZES)), help="lengths of the history in messages, separated by commas"
    )
    parser.add_argument(
        "--modes",
        default=",".join(COST_MODES),
        help="what to measure, separated by commas: call, bytes, session, memory",
    )
    parser.add_argument("--bound", type=float, default=120.0, help="CPU seconds after which a session is stopped")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds after which a process is stopped")
    parser.add_argument("--json", action="store_true", help="print every figure as JSON instead of tables")
    options = parser.parse_args()
    unknown = [name for name in options.peer if not any(name in (row.name, row.environment) for row in ALL)]
    if unknown:
        parser.error(f"no runner named {', '.join(unknown)}; there are: {names}")
    try:
        options.sizes = [int(size) for size in options.sizes.split(",")]
    except ValueError:
        parser.error("--sizes takes whole numbers, for instance 100,1000")
    if any(size < PRELUDE_MESSAGES or size % 2 for size in options.sizes):
        parser.error(f"--sizes takes even numbers from {PRELUDE_MESSAGES} on: the conversation goes on in pairs")
    options.modes = options.modes.split(",")
    if wrong := [mode for mode in options.modes if mode not in COST_MODES]:
        parser.error(f"no mode named {', '.join(wrong)}; there are: {', '.join(COST_MODES)}")
    return options


def main() -> int:
    arguments = options()
    all_rows = [
        row for row in ALL if not arguments.peer or row.name in arguments.peer or row.environment in arguments.peer
    ]
    missing = [why for row in all_rows if (why := absent(row))]
    rows = [row for row in all_rows if absent(row) is None]
    for why in missing:
        say(f"not measured: {why}")
    lines: list[Line] = []
    status = 0
    try:
        run_all(jobs(rows, arguments.modes, arguments.sizes), arguments, lines)
    except KeyboardInterrupt:
        say("stopped; what was measured until now:")
        status = 130
    if arguments.json:
        print(json.dumps({"setting": setting(), "missing": missing, "lines": lines}, indent=1))
    else:
        print(report(lines, missing))
    return status or int(any("failed" in line for line in lines))


if __name__ == "__main__":
    sys.exit(main())
