"""HTTP/1.1 to an upstream: connections that are kept open, and answers that are passed on as they arrive.

A connection carries one request at a time:

    idle -> send -> head (status and headers arrive) -> body -> idle, or closed

It is closed if the answer is left before its end, if the upstream asks for it, or if it breaks a rule of HTTP. Failures
are raised as exceptions of httpx, which the gateway uses where a proxy is between.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator
from typing import Final, Protocol, cast
from urllib.parse import quote, urlsplit

import httptools
import httpx

from tidegate.gateway.http_body import RawHeaders

_MAX_HEAD_BYTES: Final = 262_144
_MAX_BUFFERED_BYTES: Final = 1_048_576
"""Of an answer that the client does not take: reading goes on when it was taken."""
_MAX_IDLE: Final = 64
_IDLE_SECONDS: Final = 5.0
_SAFE_TARGET: Final = "".join(map(chr, range(0x21, 0x7F)))


class UpstreamResponse(Protocol):
    """An answer whose head has arrived. It must be closed."""

    @property
    def status_code(self) -> int: ...

    @property
    def raw_headers(self) -> RawHeaders: ...

    def read_pieces(self) -> AsyncIterator[bytes]:
        """The body as it arrives, without the transfer encoding."""
        ...

    async def close(self) -> None: ...


class UpstreamConnection(asyncio.Protocol):
    """One connection. It is also the answer to its current request."""

    def __init__(self, pool: "ConnectionPool") -> None:
        self._pool = pool
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._idle_since = 0.0
        self._is_busy = False
        self._forget_answer()

    def _forget_answer(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._head_bytes = 0
        self._has_head = self._is_complete = self._is_informational = False
        self._may_stay_open = self._ends_with_connection = self._is_paused = False
        self._failure: Exception | None = None
        self._pieces: list[bytes] = []
        self._buffered = 0
        self.status_code = 0
        self.raw_headers: RawHeaders = []

    # --- the request ----------------------------------------------------------------------------------------------

    @property
    def is_usable(self) -> bool:
        """Whether another request can be sent."""
        open_ = self._transport is not None and not self._transport.is_closing()
        return open_ and self._loop.time() - self._idle_since < _IDLE_SECONDS

    async def send(self, head: bytes, body: bytes, timeout: float) -> None:
        """Send a request and wait for the head of the answer."""
        assert self._transport is not None
        self._forget_answer()
        self._is_busy = True
        self._transport.write(head)
        if body:
            self._transport.write(body)
        try:
            while not self._has_head:
                await self._wait(timeout)
        except BaseException:
            self.abort()
            raise

    async def _wait(self, timeout: float) -> None:
        """Wait until something arrives. Raise what went wrong."""
        self._raise_failure()
        self._waiter = self._loop.create_future()
        timer = self._loop.call_later(timeout, self._fail, httpx.ReadTimeout("nothing arrived in time"))
        try:
            await self._waiter
        finally:
            timer.cancel()
            self._waiter = None
        if not self._pieces:
            self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, failure: Exception) -> None:
        if self._is_busy and not self._is_complete and self._failure is None:
            self._failure = failure
        self._wake()

    # --- the answer -----------------------------------------------------------------------------------------------

    async def read_pieces(self) -> AsyncIterator[bytes]:
        while True:
            while not (self._pieces or self._is_complete):
                await self._wait(self._pool.answer_timeout)
            if not self._pieces:
                return
            piece = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
            self._pieces.clear()
            self._buffered = 0
            if self._is_paused and self._transport is not None:
                self._is_paused = False
                self._transport.resume_reading()
            yield piece

    async def close(self) -> None:
        """The answer is not needed any more. A connection whose answer is complete can carry the next request."""
        self._is_busy = False
        if self._is_complete and self._may_stay_open and self._failure is None:
            self._idle_since = self._loop.time()
            self._pool.put_back(self)
        else:
            self.abort()

    def abort(self) -> None:
        self._is_busy = False
        if self._transport is not None:
            self._transport.close()

    # --- events of the connection and of the parser -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._idle_since = self._loop.time()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._has_head and self._ends_with_connection and exc is None:
            self._is_complete = True
            self._wake()
        else:
            self._fail(httpx.RemoteProtocolError("the upstream closed the connection before its answer was complete"))

    def data_received(self, data: bytes) -> None:
        if not self._is_busy or self._is_complete:  # nobody asked for this
            self.abort()
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as fault:
            self._fail(httpx.RemoteProtocolError(f"the answer is no HTTP: {type(fault).__name__}"))
            self.abort_transport()
            return
        self._head_bytes += 0 if self._has_head else len(data)
        if self._head_bytes > _MAX_HEAD_BYTES:
            self._fail(httpx.RemoteProtocolError("the headers of the answer are too large"))
            self.abort_transport()
        elif self._buffered > _MAX_BUFFERED_BYTES and self._transport is not None and not self._is_complete:
            self._is_paused = True
            self._transport.pause_reading()

    def abort_transport(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def on_message_begin(self) -> None:
        if self._is_complete:  # another answer after the one that was asked for
            self._may_stay_open = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._has_head:  # else a trailer
            self.raw_headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self._is_complete:
            return
        status = self._parser.get_status_code()
        self._is_informational = 100 <= status < 200
        if self._is_informational:
            self.raw_headers = []
            return
        names = {name.lower() for name, _ in self.raw_headers}
        self._ends_with_connection = not names & {b"content-length", b"transfer-encoding"}
        self._may_stay_open = self._parser.should_keep_alive() and not self._ends_with_connection
        self.status_code = status
        self._has_head = True
        self._wake()

    def on_body(self, body: bytes) -> None:
        if self._is_complete:
            return
        self._pieces.append(body)
        self._buffered += len(body)
        self._wake()

    def on_message_complete(self) -> None:
        if self._is_informational:
            self._is_informational = False
            return
        self._is_complete = True
        self._wake()


class ConnectionPool:
    """The connections to one upstream, whose address is `url`."""

    def __init__(self, url: str, *, connect_timeout: float, answer_timeout: float) -> None:
        parts = urlsplit(url)
        is_secure = parts.scheme == "https"
        self._host, self._port = parts.hostname or "", parts.port or (443 if is_secure else 80)
        self._host_header = parts.netloc.encode("ascii")
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._is_secure = is_secure
        self._tls: ssl.SSLContext | None = None
        self._connect_timeout = connect_timeout
        self.answer_timeout = answer_timeout
        self._idle: deque[UpstreamConnection] = deque()

    async def post(self, url: str, headers: RawHeaders, body: bytes) -> UpstreamResponse:
        """Send a POST request to an address of this upstream. The caller's headers must not include the host."""
        target = quote(url.removeprefix(self._origin) or "/", safe=_SAFE_TARGET)
        lines = [b"POST " + target.encode() + b" HTTP/1.1", b"host: " + self._host_header]
        lines += [name + b": " + value for name, value in headers]
        lines.append(b"content-length: %d\r\n\r\n" % len(body))
        connection = self._take_idle() or await self._connect()
        await connection.send(b"\r\n".join(lines), body, self.answer_timeout)
        return connection

    def put_back(self, connection: UpstreamConnection) -> None:
        self._idle.append(connection)
        while len(self._idle) > _MAX_IDLE or (self._idle and not self._idle[0].is_usable):
            self._idle.popleft().abort()

    def close(self) -> None:
        while self._idle:
            self._idle.pop().abort()

    def _take_idle(self) -> UpstreamConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable:
                return connection
            connection.abort()
        return None

    async def _connect(self) -> UpstreamConnection:
        loop = asyncio.get_running_loop()
        if self._is_secure and self._tls is None:
            self._tls = httpx.create_ssl_context()
            self._tls.set_alpn_protocols(["http/1.1"])
        try:
            async with asyncio.timeout(self._connect_timeout):
                _, connection = await loop.create_connection(
                    lambda: UpstreamConnection(self), self._host, self._port, ssl=self._tls
                )
        except TimeoutError:
            raise httpx.ConnectTimeout("the upstream cannot be reached") from None
        except OSError as failure:
            raise httpx.ConnectError(type(failure).__name__) from failure
        return connection
