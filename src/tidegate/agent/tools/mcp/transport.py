"""The pipes and HTTP responses of an MCP server, within the limits of `wire/limits.py`.

The SDK reads lines of any length, copies the line again for every piece it reads, and parses it on the event loop;
over HTTP it reads a JSON body of any length. So this module runs the process and reads its pipes itself, and checks
HTTP responses before the SDK sees them.
"""

import asyncio
import signal
import subprocess
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from types import TracebackType
from typing import IO, Any, Final, Self

import anyio
import httpx2
import mcp_types as types
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from tidegate.agent.tools.process_group import (
    GROUP_GRACE_SECONDS,
    end_process_group,
    signal_process_group,
    start_process_group,
)
from tidegate.core.text.clip import clip_chars
from tidegate.models.pace import Pace
from tidegate.wire.limits import MAX_JSON_VALUES, LimitExceeded, ServerLimits, has_too_many_values
from tidegate.wire.streaming.sse import SseReader
from tidegate.wire.validation.json_checks import find_schema_fault

__all__ = ["McpProcess", "McpServer", "McpTrafficLimiter", "open_http_transport"]

_STOP_SECONDS: Final = 2.0
"""Seconds that a server has to exit after its input is closed."""
_CHUNK_BYTES: Final = 65_536
_EVENT_CHUNK_BYTES: Final = 16_384
_MAX_ERROR_BYTES: Final = 2_000
"""Bytes of error output that are kept for error messages."""
_ANY_OBJECT_SCHEMA: Final[dict[str, Any]] = {"type": "object", "properties": {}}
_CLOSED_STREAM_ERRORS = (anyio.BrokenResourceError, anyio.ClosedResourceError)

_IncomingMessage = SessionMessage | Exception


class McpServer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A server: a command to run, or a URL. `environment` is added to the SDK's default variables, such as PATH.

    `timeout` is in seconds, for the start and for each call.
    """

    name: str
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = {}
    url: str = ""
    headers: Mapping[str, str] = {}
    timeout: float = 60.0


class McpTrafficLimiter:
    """Checks the traffic of one connection against the limits. `exceeded_limit` says which one was exceeded.

    `omitted_tools` counts the listed tools that are not used because of a limit.
    """

    def __init__(self, limits: ServerLimits, clock: Callable[[], float]) -> None:
        self.limits = limits
        self.exceeded_limit = ""
        self.omitted_tools = 0
        self._clock = clock
        self._period_ends = 0.0
        self._messages = self._sent = 0

    def exceed(self, what: str) -> LimitExceeded:
        self.exceeded_limit = self.exceeded_limit or what
        return LimitExceeded(what)

    def count_traffic(self, size: int, messages: int = 0) -> None:
        """Count bytes and messages. Raise LimitExceeded if there are too many in this period."""
        limits, now = self.limits, self._clock()
        if now >= self._period_ends:
            self._period_ends, self._messages, self._sent = now + limits.period, 0, 0
        self._messages += messages
        self._sent += size
        if self._sent > limits.sent:
            raise self.exceed(f"it sent more than {limits.sent:,} bytes in {limits.period:g} s")
        if self._messages > limits.messages:
            raise self.exceed(f"it sent more than {limits.messages:,} messages in {limits.period:g} s")

    def check_length(self, length: int) -> None:
        if length > self.limits.message:
            raise self.exceed(f"it sent a message of more than {self.limits.message:,} bytes")

    def check_values(self, message: str | bytes) -> None:
        if has_too_many_values(message):
            raise self.exceed(f"it sent a message with more than {MAX_JSON_VALUES:,} values")

    async def parse(self, line: bytes) -> SessionMessage | None:
        """Return the message in a line of output, or None if the line is not a message."""
        self.count_traffic(0, messages=1)
        if not line.strip():
            return None
        await asyncio.to_thread(self.check_values, line) if len(line) > _CHUNK_BYTES else self.check_values(line)
        try:
            message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:  # some servers print a greeting
            return None
        return self.prune_tools(SessionMessage(message))

    def prune_tools(self, message: SessionMessage) -> SessionMessage:
        """Return the message; a list of tools is reduced to what is used of it, within the limits.

        The SDK refuses the whole list for one invalid schema, and validates results against `outputSchema` on the
        event loop, where one regular expression can block it indefinitely.
        """
        result = message.message.result if isinstance(message.message, types.JSONRPCResponse) else {}
        tools = result.get("tools")
        if isinstance(tools, list):
            tools_with_names = [tool for tool in tools if isinstance(tool, dict) and self._has_name(tool)]
            result["tools"] = [self._bounded_tool(tool) for tool in tools_with_names[: self.limits.tools]]
            self.omitted_tools += len(tools) - len(result["tools"])
        return message

    def _has_name(self, tool: dict[str, Any]) -> bool:
        name = tool.get("name")
        return isinstance(name, str) and 0 < len(name) <= self.limits.name

    def _bounded_tool(self, tool: dict[str, Any]) -> dict[str, Any]:
        input_schema = tool.get("inputSchema")
        schema = {"type": "object", **input_schema} if isinstance(input_schema, dict) else {"type": ""}
        texts = [text for text in (tool.get("description"), tool.get("title")) if isinstance(text, str) and text]
        description = clip_chars(texts[0], self.limits.description, mode="head").text if texts else ""
        if len(msgspec.json.encode(schema)) > self.limits.schema:
            schema, description = _ANY_OBJECT_SCHEMA, f"{description} (Its arguments are too long to be shown.)".strip()
        elif schema["type"] != "object" or find_schema_fault(
            schema, regex=True
        ):  # a provider would refuse every request
            schema, description = (
                _ANY_OBJECT_SCHEMA,
                f"{description} (Its arguments are not described as a schema.)".strip(),
            )
        return {"name": tool["name"], "description": description, "inputSchema": schema}


class McpProcess:
    """A server that runs as a child process. `error_output` is the end of its error output."""

    def __init__(self, server: McpServer, limiter: McpTrafficLimiter) -> None:
        self._server = server
        self._limiter = limiter
        self._process: subprocess.Popen[bytes] | None = None
        self._error_chunks: deque[bytes] = deque(maxlen=4)
        self._errors_closed = asyncio.Event()

    @property
    def error_output(self) -> bytes:
        return b"".join(self._error_chunks)[-_MAX_ERROR_BYTES:]

    @property
    def has_ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Any]:
        """Start the process and yield its message streams. On exit the process and its children are ended."""
        environment = {**get_default_environment(), **self._server.environment}
        process = self._process = start_process_group(
            self._server.command, None, environment, stdin=subprocess.PIPE, stderr=subprocess.PIPE
        )
        to_session, incoming = anyio.create_memory_object_stream[_IncomingMessage](0)
        outgoing, from_session = anyio.create_memory_object_stream[SessionMessage](0)
        try:
            async with AsyncExitStack() as pipes, to_session, incoming, outgoing, from_session:
                for pipe in (process.stdin, process.stdout, process.stderr):
                    assert pipe is not None
                    pipes.callback(pipe.close)
                output = await _connect_reader(pipes, process.stdout)
                errors = await _connect_reader(pipes, process.stderr)
                writer = await _connect_writer(pipes, process.stdin)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._read, output, to_session)
                    tasks.start_soon(self._read_errors, errors)
                    tasks.start_soon(self._write, from_session, writer, to_session)
                    try:
                        yield incoming, outgoing
                    finally:
                        incoming.close()  # the reader then discards further output, so that the server can exit
                        outgoing.close()
                        with anyio.CancelScope(shield=True):
                            await self._stop(process, writer)
                        tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await end_process_group(process)

    async def _read(self, output: asyncio.StreamReader, to_session: MemoryObjectSendStream[_IncomingMessage]) -> None:
        pace = Pace()
        async with to_session:
            try:
                async for line in self._lines(output):
                    message = await self._limiter.parse(line)
                    if message is not None:
                        await to_session.send(message)
                    await pace.step()
            except LimitExceeded:
                self._kill()
            except _CLOSED_STREAM_ERRORS:
                while await output.read(_CHUNK_BYTES):
                    pass
        while not self.has_ended:  # polling reaps the process
            await anyio.sleep(0.05)

    async def _lines(self, output: asyncio.StreamReader) -> AsyncGenerator[bytes, None]:
        line = bytearray()
        while piece := await output.read(_CHUNK_BYTES):
            self._limiter.count_traffic(len(piece))
            *whole, rest = piece.split(b"\n")
            for part in whole:
                line += part
                self._limiter.check_length(len(line))
                yield bytes(line)
                line.clear()
            line += rest
            self._limiter.check_length(len(line))

    async def _read_errors(self, errors: asyncio.StreamReader) -> None:
        """Keep the error output off the screen and remember its end."""
        try:
            while piece := await errors.read(_CHUNK_BYTES):
                self._error_chunks.append(piece[-_MAX_ERROR_BYTES:])
                self._limiter.count_traffic(len(piece))
        except LimitExceeded:
            self._kill()
        finally:
            self._errors_closed.set()

    async def _write(
        self,
        from_session: MemoryObjectReceiveStream[SessionMessage],
        writer: asyncio.StreamWriter,
        to_session: MemoryObjectSendStream[_IncomingMessage],
    ) -> None:
        try:
            async with from_session:
                async for message in from_session:
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    writer.write(text.encode() + b"\n")
                    with anyio.fail_after(self._limiter.limits.unread):
                        await writer.drain()
        except TimeoutError:
            self._limiter.exceed(f"it did not read its input for {self._limiter.limits.unread:g} s")
            self._kill()
        except OSError:  # the server closed its input: tell the session that the connection is closed
            await to_session.aclose()

    def _kill(self) -> None:
        if self._process is not None:
            signal_process_group(self._process, signal.SIGKILL)

    async def _stop(self, process: subprocess.Popen[bytes], writer: asyncio.StreamWriter) -> None:
        writer.close()
        with anyio.move_on_after(_STOP_SECONDS):
            while process.poll() is None:
                await anyio.sleep(0.01)
        await end_process_group(process)
        with anyio.move_on_after(GROUP_GRACE_SECONDS):
            await self._errors_closed.wait()


async def _connect_reader(pipes: AsyncExitStack, pipe: IO[bytes] | None) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=_CHUNK_BYTES)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    pipes.callback(transport.close)
    return reader


async def _connect_writer(pipes: AsyncExitStack, pipe: IO[bytes] | None) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), pipe
    )
    pipes.callback(lambda: None if transport.is_closing() else transport.abort())
    return asyncio.StreamWriter(transport, protocol, None, loop)


@asynccontextmanager
async def open_http_transport(server: McpServer, limiter: McpTrafficLimiter) -> AsyncIterator[Any]:
    """The SDK's HTTP transport with checked responses."""

    async def bound(response: httpx2.Response) -> None:
        limiter.count_traffic(0, messages=1)
        if response.headers.get("content-encoding", "identity") != "identity":
            raise limiter.exceed("it compressed its response, which was not requested")
        streamed = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _BoundedBody(response.stream, limiter, streamed=streamed)

    client = httpx2.AsyncClient(
        headers={"accept-encoding": "identity", **server.headers},
        timeout=httpx2.Timeout(30, read=300),
        event_hooks={"response": [bound]},
    )
    most = limiter.limits.message
    async with (
        client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=most) as (incoming, outgoing),
    ):
        yield _PrunedStream(incoming, limiter), outgoing


class _BoundedBody(httpx2.AsyncByteStream):
    """A response body that is checked before it is passed on: a stream event by event, any other body as a whole."""

    def __init__(self, body: httpx2.AsyncByteStream, limiter: McpTrafficLimiter, *, streamed: bool) -> None:
        self._body = body
        self._limiter = limiter
        self._streamed = streamed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        limiter, whole, reader = self._limiter, bytearray(), SseReader(self._limiter.limits.message)
        async for piece in self._body:
            limiter.count_traffic(len(piece))
            if not self._streamed:
                whole += piece
                limiter.check_length(len(whole))
                continue
            for at in range(0, len(piece), _EVENT_CHUNK_BYTES):
                part = piece[at : at + _EVENT_CHUNK_BYTES]
                try:
                    frames = reader.feed(part)
                except LimitExceeded:
                    raise limiter.exceed(f"it sent an event of more than {limiter.limits.message:,} bytes") from None
                for frame in frames:
                    limiter.count_traffic(0, messages=1)
                    limiter.check_values(frame.data)
                yield part
                await asyncio.sleep(0)
        if whole:
            await asyncio.to_thread(limiter.check_values, bytes(whole))
            yield bytes(whole)

    async def aclose(self) -> None:
        await self._body.aclose()


class _PrunedStream:
    """A message stream for the SDK in which lists of tools are reduced."""

    def __init__(self, incoming: Any, limiter: McpTrafficLimiter) -> None:
        self._incoming = incoming
        self._limiter = limiter

    async def receive(self) -> _IncomingMessage:
        message: _IncomingMessage = await self._incoming.receive()
        return message if isinstance(message, Exception) else self._limiter.prune_tools(message)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> _IncomingMessage:
        message: _IncomingMessage = await anext(self._incoming)
        return message if isinstance(message, Exception) else self._limiter.prune_tools(message)

    async def aclose(self) -> None:
        await self._incoming.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
