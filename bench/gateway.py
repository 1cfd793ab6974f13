"""What the gateway adds to a streamed Anthropic request: beside a direct request, and beside other gateways.

    python bench/gateway.py                               # direct and tidegate
    python bench/gateway.py --peer litellm=http://127.0.0.1:4000 --peer headroom=http://127.0.0.1:8787
    python bench/gateway.py --soak                        # memory over 10,000 requests of 1,000 sessions that grow
    python bench/gateway.py --soak --sessions 10000       # the same with one request of each session
    python bench/gateway.py --crowd                       # 50 and 200 sessions at once, and the worst /healthz

The upstream, the gateway and the load run on the same machine. Rounds are interleaved: in each round every target gets
the same requests, so that a busy machine slows all of them. Other gateways are started by hand with the upstream that
`--upstream-port` names. Only ratios of one run mean something.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

SMALL, LARGE = 1_000, 193_000
SOAK_REQUESTS = 10_000
SOAK_MARKS = (1_000, 2_500, 5_000, 7_500, 10_000)
KEY = "sk-bench-7f3a91c5d2e84b60a1f9c3d7e5b20846"
"""The key of the load. Some gateways want a key of their own: start them with this one."""
ANSWER = "".join(
    f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
    for event in (
        {
            "type": "message_start",
            "message": {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": "claude-opus-4-6",
                "content": [],
                "stop_reason": None,
                "stop_sequence": None,
                "usage": {"input_tokens": 100, "output_tokens": 1},
            },
        },
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": f"word {number} "}}
            for number in range(20)
        ),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 40},
        },
        {"type": "message_stop"},
    )
).encode()


async def serve_upstream(port: int) -> asyncio.Server:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(ANSWER)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                top = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(top.split(b"content-length:")[1].split(b"\r\n")[0]) if b"content-length:" in top else 0
                await reader.readexactly(length)
                writer.write(head + ANSWER)
                await writer.drain()
        writer.close()

    return await asyncio.start_server(serve, "127.0.0.1", port)


class GrowingConversation:
    """A conversation of about `size` bytes that grows with every answer, as that of a client does."""

    def __init__(self, size: int, name: str) -> None:
        self.name = name
        answer, words = "some words of an answer " * 20, "more words of a person " * 60
        pairs = max(0, (size - 300) // (len(answer) + len(words) + 80))
        self._messages: list[dict[str, Any]] = [{"role": "user", "content": f"conversation {name}"}]
        for _ in range(pairs):
            self._messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": words}]

    def make_body(self) -> bytes:
        body = {"model": "claude-opus-4-6", "max_tokens": 1000, "stream": True, "messages": self._messages}
        return json.dumps(body).encode()

    def take_answer(self) -> None:
        said = "".join(f"word {number} " for number in range(20))
        self._messages += [{"role": "assistant", "content": said}, {"role": "user", "content": "go on"}]


async def ask(http: httpx.AsyncClient, url: str, conversation: GrowingConversation) -> tuple[float, float]:
    """Seconds to the first byte and to the end of the answer."""
    headers = {"x-api-key": KEY, "content-type": "application/json", "anthropic-version": "2023-06-01"}
    body = conversation.make_body()
    started = time.perf_counter()
    first = 0.0
    async with http.stream(
        "POST", f"{url}/v1/messages", content=body, headers={**headers, "x-tidegate-session": conversation.name}
    ) as response:
        async for _ in response.aiter_raw():
            first = first or time.perf_counter() - started
    assert response.status_code == 200, response.status_code
    took = time.perf_counter() - started
    conversation.take_answer()
    return first, took


async def measure(
    targets: dict[str, str], size: int, rounds: int, gateway_pid: int
) -> tuple[dict[str, list[tuple[float, float]]], float]:
    """Interleaved single requests, each of which extends the conversation before; and the gateway's CPU seconds."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in targets}
    conversations = {name: GrowingConversation(size, f"{size}-{name}") for name in targets}
    before = 0.0
    async with httpx.AsyncClient(timeout=60) as http:
        for number in range(-3, rounds):
            if number == 0:  # the first requests load the vocabulary and open the session
                before = read_cpu_seconds(gateway_pid)
            for name, url in targets.items():
                took = await ask(http, url, conversations[name])
                if number >= 0:
                    found[name].append(took)
    return found, read_cpu_seconds(gateway_pid) - before


async def measure_load(url: str, size: int, seconds: float) -> float:
    """Requests per second of eight clients with a conversation each."""
    done = 0
    started = time.perf_counter()
    end = started + seconds

    async def work(number: int) -> None:
        nonlocal done
        conversation = GrowingConversation(size, f"load-{size}-{number}-{started}")
        async with httpx.AsyncClient(timeout=60, verify=False) as http:  # nothing here is https
            while time.perf_counter() < end:
                await ask(http, url, conversation)
                done += 1

    await asyncio.gather(*map(work, range(8)))
    return done / (time.perf_counter() - started)


async def start_gateway(folder: str, port: int, upstream: int) -> asyncio.subprocess.Process:
    command = [sys.executable, "-m", "tidegate", "serve", "--quiet", "--data", folder, "--port", str(port)]
    command += ["--upstream", f"anthropic=http://127.0.0.1:{upstream}"]
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


def report(size: int, found: dict[str, list[tuple[float, float]]], loads: dict[str, list[float]]) -> None:
    direct = statistics.median(whole for _, whole in found["direct"])
    first_direct = statistics.median(first for first, _ in found["direct"])
    print(f"\n{size:,} bytes     p50 ms   p99 ms   added p50   first byte added   requests/s at 8")
    for name, times in found.items():
        whole = sorted(each for _, each in times)
        middle, late = statistics.median(whole), whole[int(len(whole) * 0.99) - 1]
        first = statistics.median(each for each, _ in times) - first_direct
        rate = statistics.median(loads[name])
        print(
            f"  {name:<12} {middle * 1e3:7.1f}  {late * 1e3:7.1f}  {(middle - direct) * 1e3:10.1f}"
            f"  {first * 1e3:17.1f}  {rate:16.0f}"
        )


async def soak(options: argparse.Namespace) -> None:
    """Print the memory and the open files of a gateway while many sessions pass through it, eight at a time."""
    upstream = await serve_upstream(options.upstream_port)
    sessions = [GrowingConversation(3_000, f"soak-{number}") for number in range(options.sessions)]
    with tempfile.TemporaryDirectory() as folder:
        gateway = await start_gateway(folder, options.port, upstream.sockets[0].getsockname()[1])
        url, done = f"http://127.0.0.1:{options.port}", 0

        async def work(first: int) -> None:
            nonlocal done
            async with httpx.AsyncClient(timeout=60, verify=False) as http:
                for _ in range(SOAK_REQUESTS // options.sessions):
                    for conversation in sessions[first::8]:
                        await ask(http, url, conversation)
                        done += 1
                        if done in SOAK_MARKS:
                            print(f"{done:>7,} requests  {describe_process(gateway.pid)}", flush=True)

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
    done = 0
    conversations = [GrowingConversation(size, f"crowd-{size}-{sessions}-{number}") for number in range(sessions)]
    watcher = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "--watch-health", url, stdout=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.PIPE
    )
    assert watcher.stdout is not None
    await watcher.stdout.readline()  # it has begun

    async def work(conversation: GrowingConversation, http: httpx.AsyncClient) -> None:
        nonlocal done
        while time.perf_counter() < started + seconds:
            await ask(http, url, conversation)
            done += 1

    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(timeout=120, verify=False, limits=limits) as http:
        before = read_cpu_seconds(gateway_pid)
        await asyncio.gather(*(ask(http, url, each) for each in conversations))
        opened, started = read_cpu_seconds(gateway_pid), time.perf_counter()
        await asyncio.gather(*(work(each, http) for each in conversations))
    took, spent = time.perf_counter() - started, read_cpu_seconds(gateway_pid) - opened
    printed, _ = await watcher.communicate(b"end\n")
    print(
        f"{size:>7,} bytes, {sessions:>3} sessions: {done / took:6.0f} requests/s, {spent / done * 1e3:5.2f} ms of CPU"
        f" each ({done / spent:.0f}/s on a core of its own), {(opened - before) / sessions * 1e3:.1f} ms to open one,"
        f" {printed.decode().strip()}",
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


def describe_process(pid: int) -> str:
    status = Path(f"/proc/{pid}/status").read_text()
    memory = int(status.split("VmRSS:")[1].split()[0]) / 1024
    return f"{memory:6.1f} MB  {len(list(Path(f'/proc/{pid}/fd').iterdir()))} open files"


async def run(options: argparse.Namespace) -> None:
    upstream = await serve_upstream(options.upstream_port)
    port = upstream.sockets[0].getsockname()[1]
    peers = dict(text.split("=", 1) for text in options.peer)
    with tempfile.TemporaryDirectory() as folder:
        gateway = await start_gateway(folder, options.port, port)
        targets = {"direct": f"http://127.0.0.1:{port}", "tidegate": f"http://127.0.0.1:{options.port}", **peers}
        try:
            for size in (SMALL, LARGE):
                found, spent = await measure(targets, size, options.rounds, gateway.pid)
                loads: dict[str, list[float]] = {name: [] for name in targets}
                for _ in range(3):
                    for name, url in targets.items():
                        loads[name].append(await measure_load(url, size, options.seconds))
                report(size, found, loads)
                print(f"  the gateway used {spent / options.rounds * 1e3:.1f} ms of CPU for a request")
        finally:
            gateway.terminate()
            await gateway.wait()
    upstream.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100, help="single requests to each target")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each load, three times")
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
