"""Model providers over HTTP: OpenAI (chat, Responses) and compatible servers, Anthropic, Gemini.

The bytes of a request are sent as they are (except for control tokens). The result is a complete answer or a
ProviderError: a stream that was cut is never used as an answer. Before the first delta the same request is sent again
after temporary failures; once something was displayed it is not, because that cannot be taken back.

Answers are limited (`wire/limits.py`) and handled in small steps (`Pace`), so that a server that sends without end
neither exhausts the memory nor blocks the event loop. Large frames are parsed on another thread.
"""

import asyncio
import random
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, suppress
from typing import TypeVar

import httpx
import msgspec

from tidegate.core.errors import BadInput
from tidegate.core.text.secrets import SecretMask
from tidegate.models.errors.classification import (
    ProviderError,
    classify_frame,
    classify_response,
    excess_fault,
    transport_error,
)
from tidegate.models.http.control_tokens import ControlTokenEscaper
from tidegate.models.http.endpoints import (
    add_stream_option,
    build_headers,
    build_url,
    choose_tls,
    is_loopback_url,
)
from tidegate.models.pace import Pace
from tidegate.wire.answers import create_assembler, frames_from_response
from tidegate.wire.limits import MAX_JSON_VALUES, LimitExceeded, ProviderLimits, has_too_many_values
from tidegate.wire.registry import get_dialect
from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.streaming.reply import Delta, IncompleteReply, Reply, ReplyAssembler
from tidegate.wire.streaming.sse import SseFrame, SseReader, decode_frame

_T = TypeVar("_T")
_LAST_FRAME_TYPES = ("message_stop", "response.completed", "response.incomplete")  # a type need not be a string
_DRAIN_SECONDS = 0.5
"""Seconds to wait for the end of a stream after a complete answer, so that its connection can be reused."""
_SLICE_BYTES = 16_384
_LARGE_FRAME_CHARS = 1_048_576
"""Characters above which a frame is parsed on another thread."""
_FRAME_OVERHEAD_BYTES = 1_024
"""Bytes of a frame that do not count as content: the names and ids around a delta."""


class RetrySettings(msgspec.Struct, frozen=True, kw_only=True):
    """The number of retries and the delays: doubled each time, or as the provider says.

    A provider that asks for more than `max_delay` seconds is not waited for. `jitter` spreads clients that failed
    together.
    """

    max_retries: int = 3
    first_delay: float = 0.5
    max_delay: float = 60.0
    jitter: Callable[[], float] = random.random
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def delay_after(self, fault: ProviderError, attempts: int) -> float | None:
        if not fault.is_retryable or attempts >= self.max_retries:
            return None
        if fault.retry_after is not None:
            return fault.retry_after * (1 + self.jitter() / 10) if fault.retry_after <= self.max_delay else None
        return float(min(self.max_delay, self.first_delay * 2.0**attempts) * (0.5 + self.jitter() / 2))


class HttpProvider:
    """`base_url` as the provider's own SDK takes it; empty: the provider itself. `headers` are added to every request.

    `marks` escapes control tokens, for a server that would take them for its own. A provider serves any number of
    streams at a time. It may be used in one event loop after another.
    """

    def __init__(
        self,
        dialect: str,
        model: str,
        *,
        base_url: str = "",
        key: str = "",
        headers: Mapping[str, str] | None = None,
        limits: ProviderLimits | None = None,
        retries: RetrySettings | None = None,
        marks: ControlTokenEscaper | None = None,
    ) -> None:
        definition = get_dialect(dialect)
        self.wire = definition.name
        self._marks = marks
        self.model = model
        self._endpoint = definition.endpoint
        self.url = _check_url(build_url(self._endpoint, model, base_url))
        self.limits = limits or ProviderLimits()
        self.retries = retries or RetrySettings()
        all_headers = build_headers(self._endpoint, key, headers or {})
        if not all(name.isascii() and value.isascii() and value.isprintable() for name, value in all_headers.items()):
            raise BadInput("The key or a header holds characters that cannot be sent.", "Check how it was copied.")
        times = httpx.Timeout(self.limits.idle_seconds, connect=self.limits.connect_seconds)

        def add_key_headers(request: httpx.Request) -> httpx.Request:
            request.headers.update(all_headers)
            return request

        # In a closure and added to each request, so that no dump of this object or its client shows the key.
        self._create_client: Callable[[], httpx.AsyncClient] = lambda: httpx.AsyncClient(
            auth=add_key_headers,
            timeout=times,
            limits=httpx.Limits(max_keepalive_connections=self.limits.keepalive_connections),
            verify=choose_tls(self.url),
            trust_env=not is_loopback_url(self.url),
        )
        self._mask = SecretMask([key, *(headers or {}).values()])
        self._client: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def __repr__(self) -> str:
        return f"HttpProvider({self.wire!r}, {self.model!r}, url={self.url!r})"

    async def stream(self, request: bytes) -> AsyncGenerator[Delta | Reply, None]:
        body = add_stream_option(self._endpoint, request if self._marks is None else self._marks.escape(request))
        attempts = 0
        while True:
            has_shown = False
            try:
                async with aclosing(self._send_once(body)) as answer:
                    async for each in answer:
                        has_shown = True
                        yield each
                return
            except ProviderError as fault:
                pause = self.retries.delay_after(fault, attempts)
                if has_shown or pause is None:
                    raise
            await self.retries.sleep(pause)
            attempts += 1

    async def _send_once(self, body: bytes) -> AsyncGenerator[Delta | Reply, None]:
        client = self.client()
        deadline = asyncio.get_running_loop().time() + self.limits.total_seconds
        request = client.build_request("POST", self.url, content=body)
        response: httpx.Response = await self._wait_until(deadline, client.send(request, stream=True))
        try:
            if not response.is_success:
                raise await self._read_refusal(response, deadline, body)
            async with aclosing(self._read_answer(response, deadline, body)) as answer:
                async for each in answer:
                    yield each
        finally:
            await response.aclose()

    def client(self) -> httpx.AsyncClient:
        """Return the client of this event loop. The connections of a closed loop are closed with it."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            self._client, self._loop = self._create_client(), loop
        return self._client

    async def _wait_until(self, deadline: float, waited: Awaitable[_T]) -> _T:
        try:
            async with asyncio.timeout_at(deadline):
                return await waited
        except TimeoutError:
            raise self._transport_error(f"It took longer than {self.limits.total_seconds:g} seconds.") from None
        except httpx.HTTPError as error:
            raise self._transport_error(f"{type(error).__name__}: {error}") from None

    def _transport_error(self, why: str) -> ProviderError:
        return transport_error(why, self._mask)

    def _limit_error(self, what: str) -> ProviderError:
        return excess_fault(what, self._mask)

    async def _read_refusal(self, response: httpx.Response, deadline: float, request: bytes) -> ProviderError:
        body = bytearray()
        with suppress(ProviderError):  # a part of the error body says more than a failed connection
            async with aclosing(self._pieces(response, deadline)) as pieces:
                async for piece in pieces:
                    body += piece
                    if len(body) >= self.limits.max_error_bytes:
                        break
        text = bytes(body[: self.limits.max_error_bytes])
        return await asyncio.to_thread(
            classify_response, response.status_code, text, response.headers, self._mask, request
        )

    async def _read_answer(
        self, response: httpx.Response, deadline: float, request: bytes
    ) -> AsyncGenerator[Delta | Reply, None]:
        answer, pace, content = create_assembler(self.wire), Pace(), 0
        try:
            async with aclosing(self._frames(response, deadline)) as frames:
                async for size, frame in frames:
                    deltas = self._feed_frame(answer, frame, request)
                    content += max(size - _FRAME_OVERHEAD_BYTES, sum(len(delta.text) for delta in deltas))
                    if content > self.limits.content:
                        raise self._limit_error(f"The answer holds more than {self.limits.content:,} bytes of content.")
                    for delta in deltas:
                        yield delta
                        await pace.step()
                    await pace.step()
        except ProviderError as fault:
            if fault.kind != "transport" or not answer.done:
                raise
        try:
            reply = answer.finish()
        except IncompleteReply as cut:
            raise self._transport_error(str(cut.args[0])) from None
        yield reply

    def _feed_frame(self, answer: ReplyAssembler, frame: JsonObject, request: bytes) -> list[Delta]:
        try:
            deltas = answer.feed(frame)
        except LimitExceeded as exceeded:
            raise self._limit_error(str(exceeded.args[0])) from None
        fault = classify_frame(frame, self._mask, request)
        if fault is None and answer.error is not None:
            fault = classify_response(None, {"error": answer.error}, mask=self._mask, request=request)
        if fault is not None:
            raise fault
        return deltas

    async def _frames(self, response: httpx.Response, deadline: float) -> AsyncGenerator[tuple[int, JsonObject], None]:
        """Yield the frames of the stream with their sizes, up to the last.

        Servers that do not stream answer with one JSON value, some with the content type of a stream; proxies answer
        with a web page. The first character shows which.
        """
        async with aclosing(self._pieces(response, deadline)) as pieces:
            piece = b""
            while not piece and (more := await anext(pieces, b"")):
                piece = more.lstrip()
            if piece[:1] in (b"{", b"[", b"<"):
                body = bytearray(piece)
                async for more in pieces:
                    body += more
                    if len(body) > self.limits.max_line_bytes:
                        raise self._limit_error(
                            f"The answer is longer than {self.limits.max_line_bytes:,} bytes and not streamed."
                        )
                for whole in await asyncio.to_thread(self._split_unstreamed_body, bytes(body)):
                    yield 0, whole
                return
            reader, pace = SseReader(self.limits.max_line_bytes), Pace()
            while piece:
                for at in range(0, len(piece), _SLICE_BYTES):
                    for frame in self._split(reader, piece[at : at + _SLICE_BYTES]):
                        if not frame.data.strip():
                            continue
                        value = await self._decode_frame(frame)
                        if value is not None:
                            yield len(frame.data), value
                        if value is None or value.get("type") in _LAST_FRAME_TYPES:
                            await self._drain(pieces)
                            return
                    await pace.step()
                piece = await anext(pieces, b"")

    def _split(self, reader: SseReader, piece: bytes) -> list[SseFrame]:
        try:
            return reader.feed(piece)
        except LimitExceeded as exceeded:
            raise self._limit_error(str(exceeded.args[0])) from None

    async def _decode_frame(self, frame: SseFrame) -> JsonObject | None:
        """Decode a frame; None marks the end of the stream."""
        try:
            return (
                decode_frame(frame)
                if len(frame.data) <= _LARGE_FRAME_CHARS
                else await asyncio.to_thread(decode_frame, frame)
            )
        except LimitExceeded as exceeded:
            raise self._limit_error(str(exceeded.args[0])) from None
        except BadInput as bad:
            raise self._transport_error(str(bad.args[0])) from None

    def _split_unstreamed_body(self, body: bytes) -> list[JsonObject]:
        if has_too_many_values(body):
            raise self._limit_error(f"The answer holds more than {MAX_JSON_VALUES:,} values.")
        try:
            value = msgspec.json.decode(body)
        except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
            what = "a web page" if body.lstrip().startswith(b"<") else "no JSON, or only the beginning of it"
            raise self._transport_error(f"The server answered with {what}.") from None
        if isinstance(value, dict):
            return frames_from_response(self.wire, value)
        return [frame for frame in value if isinstance(frame, dict)]

    async def _pieces(self, response: httpx.Response, deadline: float) -> AsyncGenerator[bytes, None]:
        size, pace, encoding = 0, Pace(), response.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("identity", "gzip", "deflate"):
            raise self._transport_error(f"The answer is compressed with {encoding[:40]!r}, which was not requested.")
        unpacked = _create_decompressor() if encoding != "identity" else lambda data: iter([data] if data else [])
        async with aclosing(response.aiter_raw()) as pieces:  # type: ignore[type-var] # it is a generator
            while (raw := await self._wait_until(deadline, anext(pieces, None))) is not None:
                try:
                    for piece in unpacked(raw):
                        size += len(piece)
                        if size > self.limits.max_answer_bytes:
                            raise self._limit_error(
                                f"The answer is longer than {self.limits.max_answer_bytes:,} bytes."
                            )
                        await pace.step()
                        yield piece
                except zlib.error as error:
                    raise self._transport_error(f"The answer cannot be decompressed: {error}.") from None

    async def _drain(self, pieces: AsyncIterator[bytes]) -> None:
        with suppress(TimeoutError, ProviderError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                async for _ in pieces:
                    pass

    async def close(self) -> None:
        if self._client is not None and self._loop is asyncio.get_running_loop():
            await self._client.aclose()
        self._client = None


def _create_decompressor() -> Callable[[bytes], Iterator[bytes]]:
    """Return a function that decompresses in small pieces: a few compressed bytes may hold a gigabyte."""
    stream = zlib.decompressobj(wbits=47)  # gzip or zlib, as its header says

    def unpack(data: bytes) -> Iterator[bytes]:
        full = True
        while full or data:
            piece = stream.decompress(data, _SLICE_BYTES)
            data, full = stream.unconsumed_tail, len(piece) == _SLICE_BYTES
            if piece:
                yield piece

    return unpack


def _check_url(url: str) -> str:
    try:
        httpx.URL(url)
    except httpx.InvalidURL as bad:
        raise BadInput(f"The base URL is not an address: {bad}.", "Give one like http://localhost:8080/v1.") from None
    return url
