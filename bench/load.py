"""Many sessions over workers, PostgreSQL and pgbouncer, with faults: what a core holds, and that nothing is lost.

    python bench/load.py --sessions 1000 --seconds 600            requests/s, p50, p99, CPU for each, memory, errors
    python bench/load.py --sessions 100,300,1000 --seconds 60     the model from the sizes, checked against the largest
    python bench/load.py --sessions 200 --seconds 60 --faults     a worker, the pooler and the server are killed, and
                                                                  connections are cut on the way to the server

A request is a user's message, `prepare`, and the answer with its usage, all stored when it ends; each session makes one
every `--pause` seconds, at a random moment. A call that fails is repeated by its session, as a client of the gateway
does, and counted. Each worker writes down what was acknowledged; at the end all logs are read, and every such message
must be there once. CPU is that of the workers, of PostgreSQL and of pgbouncer.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from statistics import quantiles
from typing import Any, NamedTuple

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.store.conftest import Server, run_sql, running_server
from tests.store.proxy import Proxy
from tests.team.conftest import Pooler, start_pooler
from tidegate import DataFolder, Session
from tidegate.core.errors import NotKept, TidegateError
from tidegate.core.messages import text_of

TEXT = "The build failed in module parser with error 17; the log is in build/out.txt. " * 4
MAX_SHARE = 0.7
"""Of a core: above it, waiting times grow."""


# --- a worker ---------------------------------------------------------------------------------------------------------


async def keep_trying(call: Any, errors: Counter[str]) -> None:
    while True:
        try:
            await call()
            return
        except (NotKept, TidegateError, OSError) as failure:
            errors[type(failure).__name__] += 1
            await asyncio.sleep(0.2)


async def run_session(
    session: Session, number: int, end: float, pause: float, out: Any, figures: dict[str, Any]
) -> None:
    chance = random.Random(f"{number} {time.time()}")
    await asyncio.sleep(chance.random() * pause)
    while time.monotonic() < end:
        started, mark = time.monotonic(), f"{chance.getrandbits(64):x}"
        for role in ("user", "assistant"):
            text = f"{role} {mark} {TEXT}"
            await keep_trying(lambda: session.add_async({"role": role, "content": text}), figures["errors"])  # noqa: B023
            out.write(f"{number} {role} {mark}\n")
            if role == "user":
                await keep_trying(session.prepare_async, figures["errors"])
        figures["times"].append(time.monotonic() - started)
        await asyncio.sleep(max(0.0, pause * (0.5 + chance.random()) - (time.monotonic() - started)))


async def work(url: str, folder: str, numbers: range, seconds: float, pause: float, out: Any) -> dict[str, Any]:
    figures: dict[str, Any] = {"times": [], "errors": Counter()}
    with DataFolder(folder, store=url, secrets=[]) as data:
        before = psutil.Process().memory_info().rss
        opened: list[Session] = []
        for number in numbers:

            async def open_one(number: int = number) -> None:
                opened.append(await data.open_async(f"s{number}", "gpt-4o", window=16_000, live_trace=False))

            await keep_trying(open_one, figures["errors"])
        end, cpu = time.monotonic() + seconds, time.process_time()
        await asyncio.gather(
            *(run_session(each, number, end, pause, out, figures) for each, number in zip(opened, numbers, strict=True))
        )
        figures["cpu"] = time.process_time() - cpu
        figures["memory"] = psutil.Process().memory_info().rss - before
        for each in opened:
            await asyncio.to_thread(each.close)
    return figures


def run_worker(arguments: list[str]) -> None:
    url, folder, first, count, seconds, pause = arguments
    numbers = range(int(first), int(first) + int(count))
    with Path(folder, "acknowledged").open("a", buffering=1) as out:
        figures = asyncio.run(work(url, folder, numbers, float(seconds), float(pause), out))
    print(json.dumps(figures))


# --- the whole --------------------------------------------------------------------------------------------------------


class Worker:
    def __init__(self, url: str, folder: Path, numbers: range, seconds: float, pause: float) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        arguments = [url, folder, numbers.start, len(numbers), seconds, pause]
        command = [sys.executable, __file__, "--worker", *map(str, arguments)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def find_server_cpu(pids: list[int]) -> float:
    """The CPU time of processes and of their children, also of those that have ended."""
    total = 0.0
    for pid in pids:
        for each in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]:
            times = each.cpu_times()
            total += times.user + times.system + (times.children_user + times.children_system if each.pid == pid else 0)
    return total


class Run(NamedTuple):
    sessions: int
    rate: float
    p50: float
    p99: float
    worker_cpu: float
    server_cpu: float
    memory: float

    @property
    def cpu(self) -> float:
        return self.worker_cpu + self.server_cpu


def make_faults(workers: list[Worker], url: str, options: argparse.Namespace, proxy: Proxy, server: Server) -> None:
    """One fault after the other, with time between them to go on."""
    step = options.seconds / 5
    time.sleep(step)
    victim = workers[0]
    victim.process.send_signal(signal.SIGKILL)
    victim.process.wait()
    count = options.size // options.workers
    workers[0] = Worker(url, victim.folder, range(count), options.seconds - step, options.pause)
    print("    a worker was killed", flush=True)
    time.sleep(step)
    run_sql(server.control, "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()")
    print("    all connections of the server were ended", flush=True)
    time.sleep(step)
    proxy.drop_at(*range(10, 4_000, 40), deliver=False)
    print("    every fortieth piece of traffic is dropped, with its connection", flush=True)
    time.sleep(step)
    proxy.drop_at(deliver=False)


def check_logs(url: str, folders: list[Path]) -> tuple[int, int, int]:
    """How many acknowledged messages there are, how many are lost, and how many are there twice."""
    wanted: dict[str, set[str]] = {}
    for folder in folders:
        for line in (folder / "acknowledged").read_text().splitlines():
            number, role, mark = line.split()
            wanted.setdefault(f"s{number}", set()).add(f"{role} {mark}")
    lost = doubled = 0
    with tempfile.TemporaryDirectory() as place, DataFolder(place, store=url, secrets=[]) as data:
        for name, marks in wanted.items():
            found: Counter[str] = Counter()
            for event in data.open_log(name).read():
                message = getattr(event.payload, "message", None)
                if message is not None:
                    found[" ".join(text_of(message).split(" ", 2)[:2])] += 1
            lost += sum(found[mark] == 0 for mark in marks)
            doubled += sum(count > 1 for count in found.values())
    return sum(map(len, wanted.values())), lost, doubled


def measure(options: argparse.Namespace, server: Server, pooler: Pooler, proxy: Proxy, place: Path) -> Run:
    name = f"load{options.size}"
    run_sql(server.control, f"create database {name}")  # type: ignore[arg-type]
    url = pooler.database(name)
    with DataFolder(place / f"first{options.size}", store=server.database(name), secrets=[]):
        pass  # makes the tables
    share = options.size // options.workers
    servers = [each.pid for each in psutil.process_iter() if each.name() in ("postgres", "pgbouncer") and is_ours(each)]
    before = find_server_cpu(servers)
    workers = [
        Worker(
            url,
            place / f"w{options.size}-{each}",
            range(each * share, (each + 1) * share),
            options.seconds,
            options.pause,
        )
        for each in range(options.workers)
    ]
    if options.faults:
        make_faults(workers, url, options, proxy, server)
    found = [json.loads(each.process.communicate()[0]) for each in workers]
    server_cpu = find_server_cpu(servers) - before
    times = [each for one in found for each in one["times"]]
    cuts = quantiles(times, n=100)
    errors = sum((Counter(one["errors"]) for one in found), Counter())
    run = Run(
        options.size,
        len(times) / options.seconds,
        cuts[49] * 1000,
        cuts[98] * 1000,
        sum(one["cpu"] for one in found) / len(times) * 1000,
        server_cpu / len(times) * 1000,
        sum(one["memory"] for one in found) / options.size,
    )
    total, lost, doubled = check_logs(server.database(name), [each.folder for each in workers])
    print(
        f"{run.sessions:,} sessions: {run.rate:.1f} requests/s; p50 {run.p50:.0f} ms, p99 {run.p99:.0f} ms; CPU:"
        f" {run.worker_cpu:.1f} ms of workers, {run.server_cpu:.1f} ms of PostgreSQL and pgbouncer;"
        f" {run.memory / 1000:.0f} kB of memory for each session; {total:,} messages acknowledged, {lost} lost,"
        f" {doubled} doubled; calls repeated: {dict(errors) or 0}; load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    return run


def is_ours(process: psutil.Process) -> bool:
    """The first process of the server or pooler that this run started."""
    parent = process.parent()
    return (parent is None or parent.name() not in ("postgres", "pgbouncer")) and any(
        "tidegate-load-" in each or "tidegate-pgb-" in each for each in process.cmdline()
    )


def report_model(runs: list[Run], pause: float) -> None:
    """CPU for each request from all sizes but the largest says what the largest one needs, and what cores hold."""
    *small, large = sorted(runs)
    cpu = sum(each.cpu for each in small) / len(small)
    print(f"model: {cpu:.1f} ms of CPU for each request; measured with {large.sessions:,} sessions: {large.cpu:.1f} ms")
    for cores in (1, 2, 10, 100):
        rate = cores * MAX_SHARE / (cpu / 1000)
        print(f"    {cores} cores: {rate:,.0f} requests/s, {rate * pause:,.0f} sessions with one every {pause:g} s")


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        run_worker(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", default="1000", help="sizes, with commas between them")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--pause", type=float, default=10, metavar="SECONDS", help="between two requests of a session")
    parser.add_argument("--faults", action="store_true")
    options = parser.parse_args()
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-load-")))
        server = stack.enter_context(running_server(data))
        proxy = Proxy(server.control)
        pooler = stack.enter_context(start_pooler(server, proxy if options.faults else None))
        runs = []
        for size in map(int, options.sessions.split(",")):
            options.size = size
            runs.append(measure(options, server, pooler, proxy, place))
        if len(runs) > 2:
            report_model(runs, options.pause)


if __name__ == "__main__":
    main()
