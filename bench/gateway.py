"""What the gateway adds to a streamed Anthropic request: beside a direct request, and beside other gateways.

    python bench/gateway.py                               # direct, a bare pass-through, and tidegate
    python bench/gateway.py --peer litellm=http://127.0.0.1:4000 --peer headroom=http://127.0.0.1:8787
    python bench/gateway.py --soak                        # memory over 10,000 requests of 1,000 sessions that grow
    python bench/gateway.py --soak --sessions 10000       # the same with one request of each session
    python bench/gateway.py --crowd                       # 50 and 200 sessions at once, and the worst /healthz

The bare pass-through is Starlette with httpx, which keeps nothing (`runners/bare_gateway.py`): about the least that a
gateway in Python costs. Requests that are not edited use the default policy without its rule on prices (`hold`), which
would sweep long histories in any window. In the edited loop the body grows by 8 kB with each request, and the window
holds only a part of it: the view is swept from time to time, and every request is edited.

A request waits for two commits of the log. With TMPDIR=/dev/shm they cost nothing, and what is left is computing.

The upstream, the gateway and the load run on the same machine. Rounds are interleaved: in each round every target gets
the same requests, so that a busy machine slows all of them. Other gateways are started by hand with the upstream that
`--upstream-port` names. Only ratios of one run mean something.
"""

import argparse
import asyncio
import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Any

import httpx

SMALL, LARGE, LARGEST = 1_000, 193_000, 2_000_000
EDITED_SIZES = 500_000, 2_000_000
EDITED_WINDOW = 100_000
WHOLE_WINDOW = 4_000_000
BARE_GATEWAY = Path(__file__).parent / "runners" / "bare_gateway.py"
SOAK_REQUESTS = 10_000
SOAK_MARKS = (1_000, 2_500, 5_000, 7_500, 10_000)
KEY = "sk-bench-7f3a91c5d2e84b60a1f9c3d7e5b20846"
"""The key of the load. Some gateways want a key of their own: start them with this one."""
CALL_NAME = re.compile(rb'"call_(\d+)"')


def encode_answer(block: dict[str, Any], deltas: list[dict[str, Any]], stop: str) -> bytes:
    """A streamed answer with one block."""
    usage = {"input_tokens": 100, "output_tokens": 1}
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-6",
        "content": [],
    }
    message |= {"stop_reason": None, "stop_sequence": None, "usage": usage}
    stop_fields = {"stop_reason": stop, "stop_sequence": None}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop_fields, "usage": {"output_tokens": 40}},
        {"type": "message_stop"},
    ]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


WORDS = [f"word {number} " for number in range(20)]
TEXT_ANSWER = encode_answer(
    {"type": "text", "text": ""}, [{"type": "text_delta", "text": word} for word in WORDS], "end_turn"
)


def answer_request(body: bytes) -> bytes:
    """Words; in a loop of calls the next call, which says to read the next file."""
    last = body.rfind(b'"call_')
    if last < 0:
        return TEXT_ANSWER
    call = CALL_NAME.match(body, last)
    assert call is not None
    number = int(call[1]) + 1
    block = {"type": "tool_use", "id": f"call_{number}", "name": "read", "input": {}}
    pieces = ['{"path": ', *(f'"{part}' if part == "src" else part for part in ("src", "/", str(number), '.py"')), "}"]
    return encode_answer(block, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces], "tool_use")


async def serve_upstream(port: int) -> asyncio.Server:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                top = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(top.split(b"content-length:")[1].split(b"\r\n")[0]) if b"content-length:" in top else 0
                answer = answer_request(await reader.readexactly(length))
                writer.write(head % len(answer) + answer)
                await writer.drain()
        writer.close()

    return await asyncio.start_server(serve, "127.0.0.1", port)


class GrowingConversation:
    """A conversation of about `size` bytes that grows with every answer, as that of a client does."""

    options: Mapping[str, Any] = {}

    def __init__(self, size: int, name: str) -> None:
        self.name = name
        answer, words = "some words of an answer " * 20, "more words of a person " * 60
        pairs = max(0, (size - 300) // (len(answer) + len(words) + 80))
        self._messages: list[dict[str, Any]] = [{"role": "user", "content": f"conversation {name}"}]
        for _ in range(pairs):
            self._messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": words}]

    def make_body(self) -> bytes:
        body = {"model": "claude-opus-4-6", "max_tokens": 1000, "stream": True, **self.options}
        return json.dumps({**body, "messages": self._messages}).encode()

    def take_answer(self) -> None:
        self._messages += [{"role": "assistant", "content": "".join(WORDS)}, {"role": "user", "content": "go on"}]


class ToolLoop(GrowingConversation):
    """An agent's loop of about `size` bytes: each answer is a call, and each result has 8 kB."""

    options: Mapping[str, Any] = {
        "tools": [{"name": "read", "description": "Read a file.", "input_schema": {"type": "object"}}]
    }

    def __init__(self, size: int, name: str) -> None:
        super().__init__(0, name)
        self._steps = 0
        while self._steps * 8_300 < size:
            self.take_answer()

    def take_answer(self) -> None:
        self._steps += 1
        call = {
            "type": "tool_use",
            "id": f"call_{self._steps}",
            "name": "read",
            "input": {"path": f"src/{self._steps}.py"},
        }
        lines = "".join(f"line {number} of file {self._steps}: some words of its text\n" for number in range(170))
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": lines}
        self._messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


class Connection:
    """A connection of a client, which sends one request after the other.

    httpx is too slow for this: with N connections its pool looks at each of them N times for every request. With 200
    that takes more CPU time than the gateway does.
    """

    def __init__(self, url: str) -> None:
        self._host, port = url.removeprefix("http://").split(":")
        self._port = int(port)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, conversation: GrowingConversation) -> tuple[float, float]:
        """Seconds to the first byte and to the end of the answer."""
        if self._streams is None or self._streams[0].at_eof():  # servers close idle connections
            self._streams = await asyncio.open_connection(self._host, self._port)
        reader, writer = self._streams
        body = conversation.make_body()
        head = (
            f"POST /v1/messages HTTP/1.1\r\nhost: {self._host}:{self._port}\r\nx-api-key: {KEY}\r\n"
            "content-type: application/json\r\nanthropic-version: 2023-06-01\r\n"
            f"x-tidegate-session: {conversation.name}\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        started = time.perf_counter()
        writer.write(head.encode() + body)
        answer_head = (await reader.readuntil(b"\r\n\r\n")).lower()
        first = time.perf_counter() - started
        assert answer_head.split(b"\r\n", 1)[0].split()[1] == b"200", answer_head
        if b"\r\ncontent-length:" in answer_head:
            await reader.readexactly(int(answer_head.split(b"\r\ncontent-length:")[1].split(b"\r\n")[0]))
        else:
            while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
                await reader.readexactly(size + 2)
            await reader.readexactly(2)
        took = time.perf_counter() - started
        if b"\r\nconnection: close" in answer_head:
            self.close()
        conversation.take_answer()
        return first, took

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def measure(
    targets: dict[str, str], make: Callable[[str], GrowingConversation], rounds: int, pids: dict[str, int]
) -> tuple[dict[str, list[tuple[float, float]]], dict[str, float]]:
    """Interleaved single requests, each of which extends the conversation before; and CPU seconds of the gateways."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in targets}
    conversations = {name: make(name) for name in targets}
    connections = {name: Connection(url) for name, url in targets.items()}
    before: dict[str, float] = {}
    for number in range(-3, rounds):
        if number == 0:  # the first requests load the vocabulary and open the session
            before = {name: read_cpu_seconds(pid) for name, pid in pids.items()}
        for name, connection in connections.items():
            took = await connection.ask(conversations[name])
            if number >= 0:
                times[name].append(took)
    for connection in connections.values():
        connection.close()
    return times, {name: read_cpu_seconds(pid) - before[name] for name, pid in pids.items()}


async def measure_load(url: str, size: int, seconds: float) -> float:
    """Requests per second of eight clients with a conversation each."""
    count = 0
    started = time.perf_counter()
    end = started + seconds

    async def work(number: int) -> None:
        nonlocal count
        conversation, connection = GrowingConversation(size, f"load-{size}-{number}-{started}"), Connection(url)
        while time.perf_counter() < end:
            await connection.ask(conversation)
            count += 1
        connection.close()

    await asyncio.gather(*map(work, range(8)))
    return count / (time.perf_counter() - started)


async def start_gateway(folder: str, port: int, upstream: int, window: int = 0) -> asyncio.subprocess.Process:
    """Start tidegate. In the whole window nothing is edited, also not to save the price of reading it."""
    command = [sys.executable, "-m", "tidegate", "serve", "--quiet", "--data", folder, "--port", str(port)]
    command += ["--upstream", f"anthropic=http://127.0.0.1:{upstream}"]
    command += ["--window", str(window)] if window else []
    if window == WHOLE_WINDOW:
        policy = Path(folder, "whole.yaml")
        text = resources.files("tidegate.presets").joinpath("default.yaml").read_text("utf-8")
        policy.write_text(re.sub(r"(?m)^  hold: .*$", f"  hold: {1_000 * WHOLE_WINDOW}", text), "utf-8")
        command += ["--policy", str(policy)]
    return await start_server(command, folder, port)


async def start_server(command: list[str], folder: str, port: int) -> asyncio.subprocess.Process:
    """Start a program that answers `/healthz` on this port."""
    process = await asyncio.create_subprocess_exec(*command, cwd=folder)
    async with httpx.AsyncClient() as http:
        for _ in range(600):
            with suppress(httpx.HTTPError):
                await http.get(f"http://127.0.0.1:{port}/healthz")
                return process
            await asyncio.sleep(0.1)
    raise SystemExit("the gateway did not start")


def read_cpu_seconds(pid: int) -> float:
    """Seconds of CPU of a process: unlike the time that passes, they do not depend on what else runs."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def report(
    title: str,
    times_by_target: dict[str, list[tuple[float, float]]],
    cpu: dict[str, float],
    loads: dict[str, list[float]],
) -> None:
    direct = statistics.median(whole for _, whole in times_by_target["direct"])
    first_direct = statistics.median(first for first, _ in times_by_target["direct"])
    print(f"\n{title:<24}  p50 ms  p90 ms  p99 ms  added p50  of bare  first byte added  CPU ms  requests/s at 8")
    bare = statistics.median(whole for _, whole in times_by_target["bare"]) - direct
    for name, times in times_by_target.items():
        whole = sorted(each for _, each in times)
        middle = statistics.median(whole)
        late = [whole[max(0, int(len(whole) * share) - 1)] * 1e3 for share in (0.9, 0.99)]
        first = statistics.median(each for each, _ in times) - first_direct
        cpu_cell = f"{cpu[name] / len(times) * 1e3:6.1f}" if name in cpu else "     -"
        rate = f"{statistics.median(loads[name]):15.0f}" if name in loads else "              -"
        print(
            f"  {name:<22}  {middle * 1e3:6.1f}  {late[0]:6.1f}  {late[1]:6.1f}  {(middle - direct) * 1e3:9.1f}"
            f"  {(middle - direct) / bare:6.1f}x  {first * 1e3:16.1f}  {cpu_cell}  {rate}",
            flush=True,
        )


async def soak(options: argparse.Namespace) -> None:
    """Print the memory and the open files of a gateway while many sessions pass through it, eight at a time."""
    upstream = await serve_upstream(options.upstream_port)
    sessions = [GrowingConversation(3_000, f"soak-{number}") for number in range(options.sessions)]
    with tempfile.TemporaryDirectory() as folder:
        gateway = await start_gateway(folder, options.port, upstream.sockets[0].getsockname()[1])
        url, count = f"http://127.0.0.1:{options.port}", 0

        async def work(first: int) -> None:
            nonlocal count
            connection = Connection(url)
            for _ in range(SOAK_REQUESTS // options.sessions):
                for conversation in sessions[first::8]:
                    await connection.ask(conversation)
                    count += 1
                    if count in SOAK_MARKS:
                        print(f"{count:>7,} requests  {describe_process(gateway.pid)}", flush=True)
            connection.close()

        try:
            await asyncio.gather(*map(work, range(8)))
        finally:
            gateway.terminate()
            await gateway.wait()
    upstream.close()


class Health:
    """Asks `/healthz` every 20 ms while a load runs. `alone` is how late this program itself woke up, at worst."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.times: list[float] = []
        self.alone = 0.0

    async def watch(self) -> None:
        async with httpx.AsyncClient(timeout=60, verify=False) as http:
            while True:
                started = time.perf_counter()
                await asyncio.sleep(0.02)
                self.alone = max(self.alone, time.perf_counter() - started - 0.02)
                started = time.perf_counter()
                await http.get(f"{self._url}/healthz")
                self.times.append(time.perf_counter() - started)


async def crowd(options: argparse.Namespace) -> None:
    """Print requests per second with many sessions at once, and the worst `/healthz`, seen from another process."""
    upstream = await serve_upstream(options.upstream_port)
    url = f"http://127.0.0.1:{options.port}"
    with tempfile.TemporaryDirectory() as folder:
        gateway = await start_gateway(folder, options.port, upstream.sockets[0].getsockname()[1])
        try:
            for size in (SMALL, 30_000):
                for sessions in (50, 200):
                    await measure_crowd(url, size, sessions, options.seconds, gateway.pid)
        finally:
            gateway.terminate()
            await gateway.wait()
    upstream.close()


async def measure_crowd(url: str, size: int, sessions: int, seconds: float, gateway_pid: int) -> None:
    """All sessions ask, each with the next request as soon as the last was answered. Their first ones open them."""
    times: list[float] = []
    conversations = [GrowingConversation(size, f"crowd-{size}-{sessions}-{number}") for number in range(sessions)]
    watcher = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "--watch-health", url, stdout=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.PIPE
    )
    assert watcher.stdout is not None
    await watcher.stdout.readline()  # it has begun

    async def work(conversation: GrowingConversation, connection: Connection) -> None:
        while time.perf_counter() < started + seconds:
            _, took = await connection.ask(conversation)
            times.append(took)
        connection.close()

    connections = [Connection(url) for _ in conversations]
    before = read_cpu_seconds(gateway_pid)
    await asyncio.gather(*(connection.ask(each) for connection, each in zip(connections, conversations, strict=True)))
    cpu_after_opening, started = read_cpu_seconds(gateway_pid), time.perf_counter()
    own = time.process_time()
    await asyncio.gather(*map(work, conversations, connections))
    took, cpu_seconds = time.perf_counter() - started, read_cpu_seconds(gateway_pid) - cpu_after_opening
    own, count = time.process_time() - own, len(times)
    times.sort()
    middle, late = times[count // 2], times[int(count * 0.99)]
    output, _ = await watcher.communicate(b"end\n")
    print(
        f"{size:>7,} bytes, {sessions:>3} sessions: {count / took:6.0f} requests/s, p50 {middle * 1e3:.0f} ms, p99"
        f" {late * 1e3:.0f} ms ({late / middle:.1f}x), {cpu_seconds / count * 1e3:5.2f} ms of CPU each (this program:"
        f" {own / count * 1e3:.2f}), {(cpu_after_opening - before) / sessions * 1e3:.1f} ms to open one,"
        f" {output.decode().strip()}",
        flush=True,
    )


async def watch_health(url: str) -> None:
    """Ask for health until a line arrives on the standard input; then print the times."""
    health = Health(url)
    task = asyncio.ensure_future(health.watch())
    print("begun", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    task.cancel()
    times = sorted(health.times)
    print(
        f"/healthz worst {times[-1] * 1e3:.0f} ms, p99 {times[int(len(times) * 0.99)] * 1e3:.0f} ms of {len(times)};"
        f" the machine alone delayed a process by {health.alone * 1e3:.0f} ms"
    )


def measure_sync(folder: str) -> float:
    """Seconds that it takes to write 4 kB to the disk of this folder: what tidegate waits for twice in each request."""
    times: list[float] = []
    with Path(folder, "synced").open("wb", buffering=0) as file:
        for _ in range(50):
            file.write(bytes(4096))
            started = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - started)
    return statistics.median(times)


def describe_process(pid: int) -> str:
    status = Path(f"/proc/{pid}/status").read_text()
    memory = int(status.split("VmRSS:")[1].split()[0]) / 1024
    return f"{memory:6.1f} MB  {len(list(Path(f'/proc/{pid}/fd').iterdir()))} open files"


async def run(options: argparse.Namespace) -> None:
    upstream = await serve_upstream(options.upstream_port)
    port, bare_port = upstream.sockets[0].getsockname()[1], options.upstream_port + 1
    peers = dict(text.split("=", 1) for text in options.peer)
    targets = {"direct": f"http://127.0.0.1:{port}", "bare": f"http://127.0.0.1:{bare_port}"}
    targets |= {"tidegate": f"http://127.0.0.1:{options.port}", **peers}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(BARE_GATEWAY), str(bare_port), f"http://127.0.0.1:{port}"]
        bare = await start_server(command, folder, bare_port)
        try:
            gateway = await start_gateway(folder, options.port, port, WHOLE_WINDOW)
            pids = {"bare": bare.pid, "tidegate": gateway.pid}
            try:
                for size in (SMALL, LARGE, LARGEST):
                    times, cpu = await measure(
                        targets,
                        lambda name, size=size: GrowingConversation(size, f"{size}-{name}"),
                        options.rounds,
                        pids,
                    )
                    loads: dict[str, list[float]] = {name: [] for name in targets} if size < LARGEST else {}
                    for _ in range(3 if options.seconds else 0):
                        for name, rates in loads.items():
                            rates.append(await measure_load(targets[name], size, options.seconds))
                    report(f"{size:,} bytes", times, cpu, loads if options.seconds else {})
            finally:
                await end_process(gateway)
            gateway = await start_gateway(folder, options.port, port, EDITED_WINDOW)
            pids["tidegate"] = gateway.pid
            try:
                for size in EDITED_SIZES:
                    times, cpu = await measure(
                        targets, lambda name, size=size: ToolLoop(size, f"edited-{size}-{name}"), options.rounds, pids
                    )
                    report(f"edited, {size:,} bytes", times, cpu, {})
            finally:
                await end_process(gateway)
            print(f"\nan fsync of 4 kB took {measure_sync(folder) * 1e3:.2f} ms (p50)")
        finally:
            await end_process(bare)
    upstream.close()


async def end_process(process: asyncio.subprocess.Process) -> None:
    process.terminate()
    await process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100, help="single requests to each target")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each load, three times; 0: no load")
    parser.add_argument("--port", type=int, default=18484, help="of the gateway")
    parser.add_argument("--upstream-port", type=int, default=18485, help="of the upstream")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=URL", help="another gateway that runs")
    parser.add_argument("--soak", action="store_true", help="memory over many requests and sessions, no times")
    parser.add_argument("--crowd", action="store_true", help="many sessions at once, and how long /healthz takes")
    parser.add_argument("--watch-health", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--sessions", type=int, default=1_000, help="of --soak, a divisor of 10,000")
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    options = parser.parse_args()
    if options.watch_health:
        asyncio.run(watch_health(options.watch_health))
    else:
        asyncio.run(soak(options) if options.soak else crowd(options) if options.crowd else run(options))


if __name__ == "__main__":
    main()
