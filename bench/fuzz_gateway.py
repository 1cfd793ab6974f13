"""Requests at random through the gateway to a strict upstream, in four dialects.

    python bench/fuzz_gateway.py                          # 2,000 requests
    python bench/fuzz_gateway.py --count 1000000 --jobs 2 --save faults
    python bench/fuzz_gateway.py --seed 7 --batch 31      # one batch again

Clients talk to the gateway as agents do, in a small window; some of their requests and some of the upstream's answers
are changed at random. The upstream judges every request with the validator of its dialect, which shares no code with
the renderers. These are counted, and the exit status is 1 if there are any:

- invalid: the upstream got an invalid request although the client's own was valid
- defects: an edited request was invalid; the gateway noticed it and sent the client's own
- exceptions: the gateway or its event loop raised one, it did not answer within two minutes, or it answered a valid
  request with another status
- lost: a text that a client sent or received completely is not in the log
- leaks: a text of one client was in a request or an answer of another. Several talk in turn, some without ids, and
  some with the same first message
"""

import argparse
import asyncio
import json
import multiprocessing
import sys
import tempfile
import time
import traceback
import zlib
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgspec
from fuzz_requests import (
    DIALECTS,
    MARK,
    MODELS,
    PATHS,
    ClientState,
    Json,
    draw_answer,
    encode_answer,
    mutate,
    write_json,
)

from tidegate.datafolder.data_folder import DataFolder
from tidegate.gateway.app import Gateway
from tidegate.gateway.metrics import ForwardedRequest
from tidegate.gateway.settings import GatewaySettings, Upstream
from tidegate.presets import preset_names
from tidegate.wire.answers import create_assembler
from tidegate.wire.request_check import find_request_faults
from tidegate.wire.streaming.reply import IncompleteReply
from tidegate.wire.streaming.sse import SseReader, decode_frame

BATCH = 250
"""Requests with one gateway and one data folder."""
DEADLINE = 120.0
MAX_CLIENTS = 4
"""Clients that talk in turn."""
KINDS = ("invalid", "defects", "exceptions", "lost", "leaks")


class Finding(NamedTuple):
    """Something wrong: of which kind, in which request of which batch, and what."""

    kind: str
    batch: int
    request: int
    text: str
    details: Json


class StrictUpstream:
    """Answers valid requests with `answer`, and refuses others, as a provider would."""

    def __init__(self) -> None:
        self.arrived: list[bytes] = []
        self.faults: list[str] = []
        self.client: ClientState | None = None
        self.is_odd = False
        self.refusals: list[tuple[int, Json]] = []
        self.answered = 0
        self._server: asyncio.Server | None = None

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**27)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def expect(self, client: ClientState, *, is_odd: bool, refusals: list[tuple[int, Json]]) -> None:
        self.client, self.is_odd, self.refusals = client, is_odd, refusals
        self.arrived, self.faults = [], []

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                top = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(top.split(b"content-length:")[1].split(b"\r\n")[0]) if b"content-length:" in top else 0
                raw = await reader.readexactly(length)
                if b"content-encoding: gzip" in top:
                    raw = zlib.decompress(raw, 31)
                first = top.split(b"\r\n")[0]
                if first.startswith(b"post /v1"):
                    status, kind, body = self._answer(raw, b"alt=sse" in first)
                else:  # a question about windows
                    status, kind, body = 404, "text/plain", b"no"
                head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
                writer.write(head.encode() + body)
                await writer.drain()
        writer.close()

    def _answer(self, raw: bytes, is_sse: bool) -> tuple[int, str, bytes]:
        client = self.client
        assert client is not None
        self.arrived.append(raw)
        faults = list_faults(client.dialect, raw)
        if faults:
            self.faults.append(faults[0])
            return 400, "application/json", json.dumps({"error": {"message": faults[0]}}).encode()
        if self.refusals:
            status, refusal = self.refusals.pop()
            return status, "application/json", json.dumps(refusal).encode()
        body = msgspec.json.decode(raw)
        self.answered += 1
        answer = draw_answer(client, find_tool_names(body), self.answered, len(raw))
        is_stream = is_sse or (client.dialect != "gemini" and body.get("stream") is True)
        data = encode_answer(client, answer, is_stream=is_stream, is_odd=self.is_odd)
        return 200, "text/event-stream" if is_stream else "application/json", data

    def close(self) -> None:
        if self._server is not None:
            self._server.close()


def find_tool_names(body: Json) -> list[str]:
    names = []
    for tool in body.get("tools") or []:
        declared = tool.get("functionDeclarations") or [tool.get("function", tool)]
        names += [each["name"] for each in declared if isinstance(each, dict) and isinstance(each.get("name"), str)]
    return names


def list_faults(dialect: str, raw: bytes, model: str = "") -> list[str]:
    """What the validator finds wrong in a request."""
    try:
        return [
            f"{fault.rule} at {fault.where}: {fault.text}"
            for fault in find_request_faults(dialect, raw, model or MODELS.get(dialect, "gpt-4o"))
        ]
    except (msgspec.MsgspecError, UnicodeError, RecursionError, TypeError) as fault:
        return [f"no request: {fault}"]


class Batch:
    """A gateway with its own data folder, and the conversations that go through it."""

    def __init__(self, seed: int, number: int, count: int) -> None:
        self.random = Random(f"{seed}/{number}")
        self.number, self.count = number, count
        self.upstream = StrictUpstream()
        self.findings: list[Finding] = []
        self.totals: Counter[str] = Counter()
        self._marks = 0
        self._managed: list[str] = []
        self._expected: dict[str, dict[str, int]] = {}
        self._clients: list[ClientState] = []
        self._lines: list[str] = []
        self._request = 0

    def make_mark(self) -> str:
        self._marks += 1
        return f"k{self._marks:08x}"

    def note(self, kind: str, text: str, **details: Any) -> None:
        self.findings.append(Finding(kind, self.number, self._request, text, details))

    async def run(self, folder: str) -> None:
        url = await self.upstream.start()
        random = self.random
        asyncio.get_running_loop().set_exception_handler(
            lambda loop, context: self.note("exceptions", f"{context.get('message')}: {context.get('exception')!r}")
        )
        settings = GatewaySettings(
            upstreams=tuple(Upstream(family, family, url) for family in ("anthropic", "openai", "gemini")),
            window=random.choice((2000, 3000, 6000, 12_000, None)),
            policy=random.choice(("default", "default", *preset_names())),
            recall=random.random() < 0.7,
            open_sessions=random.choice((1, 4, 64)),
        )
        with DataFolder(folder) as data:
            gateway = Gateway(settings, data, self._lines.append, watch=self._watch)
            while self._request < self.count:
                await self._talk(gateway)
            await gateway.close()
            self._check_log(data)
        self.upstream.close()
        self.totals["edited requests"] = gateway.metrics.read("edited_requests")
        self.totals["recalls"] = gateway.metrics.read("recalls")
        self.totals["overflows"] = gateway.metrics.read("overflows")
        self.totals["branches"] = gateway.metrics.read("branches")

    def _watch(self, request: ForwardedRequest) -> None:
        self._managed.append(request.session)

    async def _talk(self, gateway: Gateway) -> None:
        """A few requests of one client. Then it is another one's turn, or a new one's."""
        random, clients = self.random, self._clients
        if len(clients) < MAX_CLIENTS or random.random() < 0.25:
            clients.append(ClientState(random.choice(DIALECTS), random, self.make_mark, f"s{self._request}"))
            clients[-1].greet()
            del clients[:-MAX_CLIENTS]
        client = random.choice(clients)
        for _ in range(random.choice((1, 2, 3, 8))):
            self._request += 1
            self.totals["requests"] += 1
            answer = await self._ask(gateway, client)
            if answer is not None:
                client.keep(answer)
            if random.random() < 0.1 and not client.calls:
                client.change()
            if answer is not None or not client.messages or not client.ends_with_user:
                client.say()

    async def _ask(self, gateway: Gateway, client: ClientState) -> Json | None:
        """Send the client's request, some changed at random. The answer, if it is whole and the request unchanged."""
        random, body = self.random, client.make_body()
        is_stream, is_odd, is_changed = random.random() < 0.5, random.random() < 0.05, random.random() < 0.3
        if is_stream and client.dialect != "gemini":
            body["stream"] = True
        request = write_json(mutate(body, random) if is_changed else body, random)
        is_valid = not list_faults(client.dialect, request)
        self.totals["valid requests"] += is_valid
        self.upstream.expect(client, is_odd=is_odd, refusals=self._draw_refusals())
        is_refused = bool(self.upstream.refusals)
        defects, self._managed = gateway.metrics.read("defects"), []
        try:
            async with asyncio.timeout(DEADLINE):
                status, answer_bytes = await send_request(gateway, client, request, random, is_stream=is_stream)
        except ConnectionResetError:
            status, answer_bytes = 0, b""
        except Exception as failure:  # noqa: BLE001 - each is a finding
            self.note("exceptions", repr(failure), sent=request, trace=traceback.format_exc())
            return None
        marks = set(MARK.findall(b"".join((*self.upstream.arrived, answer_bytes)).decode("utf-8", "replace")))
        if leaked := marks - client.marks:
            self.note("leaks", f"{min(leaked)} to {client.name}", sent=request, arrived=self.upstream.arrived)
        if is_valid and self.upstream.faults:
            self.note("invalid", self.upstream.faults[0], sent=request, arrived=self.upstream.arrived)
        if is_valid and gateway.metrics.read("defects") > defects:
            defect = next(line for line in reversed(self._lines) if line.startswith("a defect"))
            self.note("defects", defect, sent=request, arrived=self.upstream.arrived)
        if is_valid and not (is_odd or is_refused) and status != 200:
            self.note(
                "exceptions", f"status {status}: {answer_bytes[:300]!r}", sent=request, arrived=self.upstream.arrived
            )
        answer = read_answer(client.dialect, answer_bytes, is_stream) if status == 200 and not is_odd else None
        if status == 200 and answer is None and not (is_odd or is_changed):
            self.note("exceptions", "the answer is not whole", sent=request, received=answer_bytes)
        if status == 200 and self._managed and is_valid and not is_odd:
            self._expect_in_log(client, request, answer_bytes if answer else b"")
        return None if is_changed else answer

    def _draw_refusals(self) -> list[tuple[int, Json]]:
        if self.random.random() > 0.04:
            return []
        overflow = {
            "error": {
                "message": "This model's maximum context length is 2500 tokens.",
                "code": "context_length_exceeded",
            }
        }
        unnumbered = {"error": {"message": "Your input exceeds the context window of this model."}}
        odd = {"error": {"message": f"Nope. {self.random.randrange(99)} are beyond me."}}
        other = {"error": {"message": "Slow down."}}
        kinds = ((400, overflow), (400, unnumbered), (422, odd), (429, other), (500, other))
        return [self.random.choice(kinds) for _ in range(self.random.randrange(1, 4))]

    def _expect_in_log(self, client: ClientState, request: bytes, answer: bytes) -> None:
        listed = msgspec.json.decode(request)[client.list_name]
        marks = MARK.findall(json.dumps(listed)) + MARK.findall(answer.decode("utf-8", "replace"))
        self._expected.setdefault(self._managed[-1], {}).update(dict.fromkeys(marks, self._request))

    def _check_log(self, data: DataFolder) -> None:
        for name, marks in self._expected.items():
            logged = set(MARK.findall("".join(repr(event.payload) for event in data.open_log(name).read())))
            for mark in marks.keys() - logged:
                self._request = marks[mark]
                self.note("lost", f"{mark} of session {name}")


async def send_request(
    gateway: Gateway, client: ClientState, request: bytes, random: Random, *, is_stream: bool
) -> tuple[int, bytes]:
    """The status and the body of the answer."""
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json"), (b"x-api-key", b"key")]
    if client.has_id:
        headers.append((b"x-tidegate-session", client.name.encode()))
    if random.random() < 0.1:
        packer = zlib.compressobj(1, wbits=31)
        request = packer.compress(request) + packer.flush()
        headers.append((b"content-encoding", b"gzip"))
    path, query = PATHS.get(client.dialect, ""), b""
    if client.dialect == "gemini":
        method = "streamGenerateContent" if is_stream else "generateContent"
        path, query = f"/v1beta/models/{MODELS['gemini']}:{method}", b"alt=sse" if is_stream else b""
    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": query}
    status, pieces = 0, list[bytes]()
    is_read = False

    async def receive() -> dict[str, Any]:
        nonlocal is_read
        if is_read:
            await asyncio.Event().wait()  # the client stays
        is_read = True
        return {"type": "http.request", "body": request, "more_body": False}

    async def send(message: Any) -> None:
        nonlocal status
        status = message.get("status", status)
        pieces.append(message.get("body", b""))

    await gateway({**scope, "headers": headers}, receive, send)
    return status, b"".join(pieces)


def read_answer(dialect: str, answer: bytes, is_stream: bool) -> Json | None:
    """A whole answer as JSON; None if it is cut off, or in another form than the unchanged request asks for."""
    try:
        return decode_answer(dialect, answer, is_stream)
    except (IncompleteReply, msgspec.MsgspecError):
        return None


def decode_answer(dialect: str, answer: bytes, is_stream: bool) -> Json | None:
    """The answer as JSON; of a stream, what its events amount to."""
    if not is_stream:
        return msgspec.json.decode(answer, type=dict[str, Any])
    assembler = create_assembler(dialect)
    for frame in SseReader().feed(answer):
        value = decode_frame(frame)
        if value is not None:
            assembler.feed(value)
    messages = assembler.finish().messages
    if dialect == "anthropic":
        return {**messages[0], "stop_reason": "end_turn"} if messages else None
    if dialect == "openai_chat":
        return {"choices": [{"message": messages[0], "finish_reason": "stop"}]} if messages else None
    if dialect == "gemini":
        return {"candidates": [{"content": messages[0], "finishReason": "STOP"}]} if messages else None
    return {"status": "completed", "output": messages}


def run_batch(task: tuple[int, int, int]) -> tuple[list[Finding], Counter[str]]:
    batch = Batch(*task)
    with tempfile.TemporaryDirectory() as folder:
        try:
            asyncio.run(batch.run(folder))
        except Exception:  # noqa: BLE001 - of this program: it must not end a run of hours
            batch.note("exceptions", "the fuzzer itself", trace=traceback.format_exc())
    return batch.findings, batch.totals


def save_finding(folder: Path, finding: Finding) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{finding.kind}-{finding.batch}-{finding.request}.json"
    path.write_text(json.dumps(finding._asdict(), default=lambda value: value.decode("utf-8", "replace"), indent=1))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000, help="requests (2000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="processes (1)")
    parser.add_argument("--batch", type=int, help="only the batch with this number")
    parser.add_argument("--save", type=Path, help="a folder for the requests of each finding")
    options = parser.parse_args()
    numbers = range((options.count + BATCH - 1) // BATCH) if options.batch is None else [options.batch]
    tasks = [(options.seed, number, min(BATCH, options.count)) for number in numbers]
    started, printouts = time.monotonic(), Counter[str]()
    totals, kinds = Counter[str](), Counter[str]()
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for batches, (findings, batch_totals) in enumerate(pool.imap_unordered(run_batch, tasks), 1):
            totals += batch_totals
            kinds.update(finding.kind for finding in findings)
            for finding in findings:
                if options.save:
                    save_finding(options.save, finding)
                printouts[finding.kind] += 1
                if printouts[finding.kind] <= 20:
                    print(f"{finding.kind}: batch {finding.batch}, request {finding.request}: {finding.text[:300]}")
            if batches % 4 == 0:
                print(f"{totals['requests']:,} requests, {dict(kinds)}, {time.monotonic() - started:.0f} s", flush=True)
    print(", ".join(f"{count:,} {name}" for name, count in totals.items()))
    print(f"seed {options.seed}: " + ", ".join(f"{kinds[kind]} {kind}" for kind in KINDS))
    print(f"{time.monotonic() - started:.0f} s")
    return 1 if kinds.total() else 0


if __name__ == "__main__":
    sys.exit(main())
