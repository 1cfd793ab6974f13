"""A strict server for one dialect: it refuses what the provider would refuse, in the provider's words.

    async with Fake("anthropic", ["Good morning."], window=16_000) as server:
        provider = HttpProvider("anthropic", "m", base_url=server.url, key=KEY)

Every request is judged by the wire's validator and weighed. Then the next step of the script is played: what a model
says, or a failure: any HTTP answer, a stream that is cut after so many bytes, one that never ends.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self
from urllib.parse import unquote

import msgspec

from tests.fake.issued_thinking import IssuedThinking, drops_misplaced_thinking
from tests.fake.on_demand import OnDemandCompaction, encode_stream
from tests.fake.words import Refusal, refusal, too_long
from tidegate.core.usage import Usage
from tidegate.models.token_counters import create_counter
from tidegate.wire.answers import encode_response_body, encode_response_frames, encode_sse
from tidegate.wire.registry import DIALECTS
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

Json = dict[str, Any]
KEY = "hush-0123456789abcdef"  # of no known form: only who was told it can hide it
NAMES = {"anthropic": "x-api-key", "gemini": "x-goog-api-key"}


class CutAt(NamedTuple):
    """A stream of which only so many bytes come. Not `clean`: the connection breaks; else it is closed as if all had
    been said."""

    spoken: ScriptedAnswer
    bytes: int
    clean: bool = False


class Hang(NamedTuple):
    """So many bytes come, and then nothing, until the client hangs up."""

    spoken: ScriptedAnswer
    bytes: int


class Bytes(NamedTuple):
    """A 200 with this body."""

    body: bytes
    kind: str = "text/event-stream"


Played = ScriptedAnswer | Refusal | CutAt | Hang | Bytes
Step = str | Played


class Seen(NamedTuple):
    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Json:
        return msgspec.json.decode(self.raw, type=dict[str, Any])

    @property
    def model(self) -> str:
        """Of Gemini it stands in the path."""
        if "/models/" in self.path:
            return unquote(self.path.partition("/models/")[2].partition("?")[0].rpartition(":")[0])
        return str(self.body.get("model", ""))


def strings(value: object) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


class Scale:
    """Tokens by a count of its own: every string of the content, and three for each message.

    A message that is sent again, byte for byte, is weighed once.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, int] = {}

    def weight(self, wire: str, raw: bytes) -> int:
        body = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        listed = msgspec.json.decode(body[DIALECTS[wire].messages_key], type=list[msgspec.Raw])  # else it was refused
        parts = [body[key] for key in ("system", "instructions", "systemInstruction", "tools") if key in body]
        return sum(map(self._of, (*listed, *parts))) + 3 * len(listed)

    def _of(self, raw: msgspec.Raw) -> int:
        value = bytes(raw)
        if value not in self._known:
            count = create_counter("gpt-4o").count_text
            self._known[value] = sum(count(text) for text in strings(msgspec.json.decode(value)))
        return self._known[value]


class Fake:
    """`steps` are played one a request; a function gives the step to a request's body. `truncates`: instead of
    refusing what does not fit, take half a window of it and say nothing. `binding`: signed thinking of Anthropic's is
    taken back only as it was ("block"), or only behind what it was made from ("prefix"); `dropped` has the places of
    blocks that it dropped because it was asked to. `loaded` are the windows of the models that it says it has loaded.
    Without `alternate`, one side may speak twice in a row. `any_key`: it takes every key, as if each had an account.
    `counts_output`: the output that is asked for is a part of the window. `hung_up` counts clients that left early.
    `stores`: answers of Responses are stored for their key unless the request says `store: false`, and a request may
    continue one; `contexts` are then the items that the model got with each request that was answered. `clears_to`:
    Anthropic's context editing clears a request that asks for it down to so many tokens.
    """

    def __init__(
        self,
        wire: str,
        steps: Iterable[Step] | Callable[[Json], Step] = (),
        *,
        window: int | None = None,
        truncates: bool = False,
        binding: Literal["", "block", "prefix"] = "",
        usage: Callable[[Usage], Usage] = lambda usage: usage,
        loaded: Mapping[str, int] | None = None,
        alternate: bool = True,
        any_key: bool = False,
        counts_output: bool = False,
        stores: bool = False,
        clears_to: int = 0,
    ) -> None:
        self.wire = wire
        self._counts_output = counts_output
        self._any_key = any_key
        self._alternate = alternate
        self.window = window
        self.seen: list[Seen] = []
        self.refused: list[str] = []
        self.hung_up = 0
        self._answer = steps if callable(steps) else None
        self._steps = iter(()) if callable(steps) else iter(steps)
        self._truncates = truncates
        self._issued = IssuedThinking(binds_prefix=binding == "prefix") if binding and wire == "anthropic" else None
        self.dropped: list[str] = []
        self.on_demand = OnDemandCompaction(self._issued)
        self._stored: dict[tuple[str, str], list[Json]] | None = {} if stores else None
        self.contexts: list[list[Json]] = []
        self._clears_to, self._cleared = clears_to, 0
        self._scale = Scale()
        self._usage = usage
        self._loaded = loaded or {}
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def host(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    @property
    def url(self) -> str:
        """The base URL as the provider's SDK takes it."""
        return self.host + {"anthropic": "", "gemini": "/v1beta", "deepseek": ""}.get(self.wire, "/v1")

    # --- HTTP -----------------------------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await self._one(reader, writer):
                    pass
        finally:
            self._open.discard(task)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        top = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in top[1:] if line)}
        raw = await reader.readexactly(int(headers.get("content-length", "0")))
        seen = Seen(top[0].split()[1], headers, raw)
        if _is_question(top[0]) and not self._loaded:
            return await _send(writer, 404, "text/plain", b"not found")
        self.seen.append(seen)
        step = self._judged(seen)
        if isinstance(step, Refusal):
            self.refused.append(step.body.decode("utf-8", "replace"))
            return await _send(writer, step.status, step.kind, step.body, step.headers)
        if isinstance(step, Bytes):
            return await _send(writer, 200, step.kind, step.body)
        return await self._play(step, seen, reader, writer)

    async def _play(
        self,
        step: ScriptedAnswer | CutAt | Hang,
        seen: Seen,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        spoken = step if isinstance(step, ScriptedAnswer) else step.spoken
        compacts = self._compacts(seen, spoken)
        streams = "alt=sse" in seen.path if self.wire == "gemini" else seen.body.get("stream") is True
        if not streams:
            answer = encode_response_body(self.wire, spoken)
            answer = compact_answer(self.wire, answer) if compacts else answer
            if self._cleared:
                edit = {"type": "clear_tool_uses_20250919", "cleared_input_tokens": self._cleared}
                answer = {**answer, "context_management": {"applied_edits": [edit]}}
            body = msgspec.json.encode(answer)
            return await _send(writer, 200, "application/json", body)
        data = encode_sse(self.wire, encode_response_frames(self.wire, spoken))
        data = data if isinstance(step, ScriptedAnswer) else data[: step.bytes]
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        for at in range(0, len(data), 512):
            piece = data[at : at + 512]
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
        if isinstance(step, Hang):
            with suppress(ConnectionError):
                await reader.read()  # returns when the client is gone
            self.hung_up += 1
            return False
        if isinstance(step, CutAt) and not step.clean:
            return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    def _compacts(self, seen: Seen, spoken: ScriptedAnswer) -> bool:
        """Whether the provider compacts what it read before it answers."""
        managed = seen.body.get("context_management")
        if self.wire == "anthropic":
            edits = managed.get("edits", []) if isinstance(managed, dict) else []
            limits = [each["trigger"]["value"] for each in edits if each["type"] == "compact_20260112"]
        else:
            limits = [each["compact_threshold"] for each in managed or [] if each["type"] == "compaction"]
        return bool(limits) and spoken.usage is not None and spoken.usage.input_tokens > min(limits)

    # --- the provider ---------------------------------------------------------------------------------------------

    def _judged(self, seen: Seen) -> Played:
        """The step to play, or why not: the first thing the provider would find wrong."""
        wire = self.wire
        own = seen.headers.get(NAMES.get(wire, "authorization"), "")
        # Anthropic takes the key under either name: its documentation gives one, its SDK sends the other.
        given = (own or (seen.headers.get("authorization", "") if wire == "anthropic" else "")).removeprefix("Bearer ")
        if given != KEY and not self._any_key:
            return refusal(wire, 401, "invalid x-api-key" if wire == "anthropic" else f"Incorrect API key: {given}")
        if self._loaded and seen.path.endswith("/models"):
            listed = [{"id": model, "max_model_len": tokens} for model, tokens in self._loaded.items()]
            return Bytes(msgspec.json.encode({"object": "list", "data": listed}), "application/json")
        if not self._knows(seen.path):
            return refusal(wire, 404, f"Unknown request URL: POST {seen.path}")
        try:
            body = seen.body
        except msgspec.MsgspecError:
            return refusal(wire, 400, "We could not parse the JSON body of your request.")
        if self._stored is not None:
            known = self._find_stored(given, body)
            if isinstance(known, Refusal):
                return known
            body = {key: value for key, value in body.items() if key != "previous_response_id"} | {"input": known}
            seen = seen._replace(raw=msgspec.json.encode(body))
        refused = self._judge_messages(seen, body)
        if refused is not None:
            return refused
        tokens = self._scale.weight(wire, _leave_out_compacted(wire, seen.raw))
        self._cleared = max(0, tokens - self._clears_to) if self._clears_to and "clear_tool_uses" in str(body) else 0
        tokens -= self._cleared
        output = _read_output_limit(wire, body) if self._counts_output else 0
        if self.window is not None and tokens + output > self.window:
            if not self._truncates:
                return too_long(wire, tokens, self.window, output)
            tokens = self.window // 2
        step = self._answer(body) if self._answer else next(self._steps, None)
        if step is None:
            return refusal(wire, 500, "The script is over.")
        played = self._reported(self._speak(step, body, tokens), seen.model, tokens)
        if self._issued is not None and not isinstance(played, Refusal | Bytes):
            spoken = played if isinstance(played, ScriptedAnswer) else played.spoken
            content = encode_response_body(wire, spoken)["content"]
            assert isinstance(content, list)
            self._issued.issue(body, content)
        if self._stored is not None and not isinstance(played, Refusal | Bytes):
            played = self._store(given, body, played)
        return played

    def _judge_messages(self, seen: Seen, body: Json) -> Refusal | None:
        wire = self.wire
        faults = _faults(wire, seen.model, body, self._alternate)
        faults = faults or _judge_compaction(wire, seen) or self._judge_thinking(seen)
        if faults:
            return refusal(wire, 400, faults[0])
        return self.on_demand.judge(body, seen.headers.get("anthropic-beta", "")) if wire == "anthropic" else None

    def _speak(self, step: Step, body: Json, tokens: int) -> Played:
        """The step; a text is an answer, or a compaction if the request asks for one."""
        if not isinstance(step, str):
            return step
        if "compaction" not in body:
            return ScriptedAnswer(text=step)
        answer = self.on_demand.answer(body, step, Usage(tokens, create_counter("gpt-4o").count_text(step), 0, 0))
        is_stream = body.get("stream") is True
        return Bytes(encode_stream(answer)) if is_stream else Bytes(msgspec.json.encode(answer), "application/json")

    def _find_stored(self, key: str, body: Json) -> list[Json] | Refusal:
        """The items of a request with those that it continues: the instructions and tools of then are not among them.

        https://developers.openai.com/api/docs/guides/conversation-state
        """
        assert self._stored is not None
        previous, given = body.get("previous_response_id"), body.get("input")
        items = [{"type": "message", "role": "user", "content": given}] if isinstance(given, str) else given or []
        if previous is None:
            return items
        if (key, previous) not in self._stored:
            text = f"Previous response with id '{previous}' not found."
            return refusal(self.wire, 400, text, "previous_response_not_found", param="previous_response_id")
        return [*self._stored[key, previous], *items]

    def _store(self, key: str, body: Json, played: ScriptedAnswer | CutAt | Hang) -> ScriptedAnswer | CutAt | Hang:
        assert self._stored is not None
        self.contexts.append(body["input"])
        spoken = played if isinstance(played, ScriptedAnswer) else played.spoken
        spoken = msgspec.structs.replace(spoken, number=len(self.contexts))
        if body.get("store") is not False:
            answer = encode_response_body(self.wire, spoken)
            output = answer["output"]
            assert isinstance(output, list)
            self._stored[key, str(answer["id"])] = [*body["input"], *output]
        return spoken if isinstance(played, ScriptedAnswer) else played._replace(spoken=spoken)

    def _judge_thinking(self, seen: Seen) -> list[str]:
        """What is wrong with the signed thinking of a request. Blocks that it allows to drop are dropped instead."""
        body = seen.body
        has_control = "thinking-binding-controls-2026-08-01" in seen.headers.get("anthropic-beta", "")
        thinking = body.get("thinking")
        if isinstance(thinking, dict) and "block_binding" in thinking and not has_control:
            return ["thinking.block_binding: Extra inputs are not permitted"]
        if self._issued is None:
            return []
        if drops_misplaced_thinking(body):
            self.dropped += self._issued.find_dropped(body)
            return []
        return [fault.text for fault in self._issued.find_faults(body)]

    def _reported(self, step: Played, model: str, tokens: int) -> Played:
        if isinstance(step, Refusal | Bytes):
            return step
        spoken = step if isinstance(step, ScriptedAnswer) else step.spoken
        made = create_counter("gpt-4o").count_text(spoken.text + "".join(call.arguments for call in spoken.calls))
        usage = spoken.usage or self._usage(Usage(tokens, made, 0, 0))
        spoken = msgspec.structs.replace(spoken, usage=usage, model=model)
        return spoken if isinstance(step, ScriptedAnswer) else step._replace(spoken=spoken)

    def _knows(self, path: str) -> bool:
        if self.wire == "gemini":
            method = path.partition("?")[0].rpartition(":")[2]
            return path.startswith("/v1beta/models/") and method in ("generateContent", "streamGenerateContent")
        ends = {"anthropic": "/v1/messages", "deepseek": "/chat/completions"}
        return path == ends.get(self.wire, f"/v1{DIALECTS[self.wire].endpoint.path}")


def compact_answer(wire: str, answer: Json) -> Json:
    """An answer that begins with a compaction of the request.

    https://platform.claude.com/docs/en/build-with-claude/compaction-threshold
    https://developers.openai.com/api/docs/guides/compaction
    """
    if wire == "anthropic":
        usage = answer["usage"]
        spent = [{"type": "compaction", **usage}, {"type": "message", **usage, "input_tokens": 60}]
        block = {"type": "compaction", "content": "A summary of what was said."}
        usage = {**usage, "input_tokens": 60, "iterations": spent}
        return {**answer, "content": [block, *answer["content"]], "usage": usage}
    item = {"type": "compaction", "id": f"cmp_{answer['id']}", "encrypted_content": "gAAAA-compacted"}
    return {**answer, "output": [item, *answer["output"]]}


def _holds_compaction(item: Json) -> bool:
    content = item.get("content")
    blocks = content if isinstance(content, list) else []
    return item.get("type") == "compaction" or any(block.get("type") == "compaction" for block in blocks)


def _leave_out_compacted(wire: str, raw: bytes) -> bytes:
    """The request as the model reads it: from the newest compaction on."""
    key = DIALECTS[wire].messages_key
    body = msgspec.json.decode(raw, type=dict[str, Any])
    items = body[key]
    first = max((place for place, item in enumerate(items) if _holds_compaction(item)), default=0)
    return msgspec.json.encode({**body, key: items[first:]}) if first else raw


def _judge_compaction(wire: str, seen: Seen) -> list[str]:
    """A field and its beta travel together."""
    managed = seen.body.get("context_management") if wire == "anthropic" else None
    edits = managed.get("edits", []) if isinstance(managed, dict) else []
    has_beta = "compact-2026-01-12" in seen.headers.get("anthropic-beta", "")
    compacts = any(each["type"] == "compact_20260112" for each in edits)
    return ["context_management: Extra inputs are not permitted"] if compacts and not has_beta else []


def _read_output_limit(wire: str, body: Json) -> int:
    head = body.get("generationConfig", {}) if wire == "gemini" else body
    names = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")
    return max(head.get(name) or 0 for name in names)


def _faults(wire: str, model: str, body: Json, alternate: bool) -> list[str]:
    dialect = DIALECTS[wire]
    profile = dialect.profile_for_model(model)
    profile = profile if alternate else msgspec.structs.replace(profile, alternate=False)
    head = {key: value for key, value in body.items() if key not in (dialect.messages_key, "stream", "stream_options")}
    check = dialect.create_validator(head, profile)
    listed = body.get(dialect.messages_key)
    if not isinstance(listed, list):
        return [f"{dialect.messages_key}: Input should be a valid list"]
    for message in listed:
        check.feed(message)
    return [fault.text for fault in check.finish()]


def _is_question(line: str) -> bool:
    """Whether a client asks for the window of a model, as local servers answer it."""
    method, path, _ = line.split()
    return (method == "GET" and path.partition("?")[0].endswith(("/models", "/props", "/info", "/api/ps"))) or (
        path.endswith("/api/show")
    )


async def _send(
    writer: asyncio.StreamWriter, status: int, kind: str, body: bytes, headers: tuple[tuple[str, str], ...] = ()
) -> bool:
    lines = [f"HTTP/1.1 {status} Status", f"content-type: {kind}", f"content-length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers]
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
    await writer.drain()
    return True
