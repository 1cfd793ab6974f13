"""An HTTP/1.1 client for the upstreams: connections that are kept, and answers that are read while they arrive.

llhttp (httptools) reads the answers, as it reads the requests of the clients. httpx and aiohttp do much more for each
request, and take several times as long.
"""

import asyncio
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final
from urllib.parse import SplitResult, unquote, urlsplit

import httptools

from tidegate.gateway.http_messages import RawHeaders

_KEEP_ALIVE_SECONDS: Final = 4.0
"""Servers such as uvicorn and Node close a connection after 5 seconds."""
_MAX_HEADER_BYTES: Final = 65_536
_MAX_HELD_BYTES: Final = 262_144
"""Of an answer that nobody has read yet. Above it the upstream is not read either."""
_LARGE_BODY_BYTES: Final = 500_000
"""A larger body is written in parts, so that other requests are not kept waiting."""
_WRITTEN_BYTES: Final = 262_144
_EYEBALLS_SECONDS: Final = 0.25
_TIMEOUT_TICKS: Final = 20
"""In so many parts the time for connecting is counted; of a part that takes longer, only its length counts."""
_CLOSE_SECONDS: Final = 1.0
_METHODS_WITHOUT_BODY: Final = frozenset(("GET", "HEAD", "OPTIONS", "TRACE"))
_REPEATABLE_METHODS: Final = _METHODS_WITHOUT_BODY | {"PUT", "DELETE"}
_READ_HEADERS: Final = (b"content-type", b"content-encoding")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class UpstreamError(Exception):
    """An upstream did not answer, or its answer broke off or is not HTTP. The text says which."""


class _ConnectionClosed(UpstreamError):
    pass


class HttpAnswer:
    """An answer while it arrives. `headers` have lower-case names. `coding` is how the body is compressed, if it is."""

    def __init__(self, connection: "_Connection") -> None:
        self._connection = connection
        self.status = 0
        self.headers: RawHeaders = []
        self.coding = ""
        self.is_stream = self.is_whole = False
        self._failure: UpstreamError | None = None
        self._pieces: list[bytes] = []
        self._held = 0
        self._waiter: asyncio.Future[None] | None = None

    def take_head(self, status: int, headers: RawHeaders) -> None:
        """Several headers with one name are joined."""
        self.status, self.headers = status, headers
        kinds, codings = ([value for name, value in headers if name == each] for each in _READ_HEADERS)
        self.coding = b", ".join(codings).decode("latin-1")
        self.is_stream = b", ".join(kinds).startswith(b"text/event-stream")

    @property
    def is_at_end(self) -> bool:
        """Whether all of it has arrived and was read."""
        return self.is_whole and not self._pieces

    async def read(self) -> bytes:
        """What has arrived since the last call; b"" at the end. UpstreamError if it breaks off."""
        while not self._pieces:
            if self._failure is not None:
                raise self._failure
            if self.is_whole:
                return b""
            await self._wait()
        piece = b"".join(self._pieces)
        self._pieces.clear()
        self._held = 0
        if not self.is_whole:
            self._connection.resume_reading()
        return piece

    def close(self) -> None:
        """Give up what has not arrived yet, with the connection."""
        if not self.is_whole:
            self._connection.abort()

    async def wait_for_head(self) -> None:
        while not self.status:
            if self._failure is not None:
                raise self._failure
            await self._wait()

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def add(self, piece: bytes) -> bool:
        """Take a piece that has arrived. Return whether as much is held as may be."""
        self._pieces.append(piece)
        self._held += len(piece)
        self.wake()
        return self._held > _MAX_HELD_BYTES

    def fail(self, failure: UpstreamError) -> None:
        if not self.is_whole:
            self._failure = failure
            self.wake()


class _Connection(asyncio.Protocol):
    """A connection to an upstream, for one request at a time. `client` gets it back when an answer is whole.

    The methods that begin with `on_` are called by the parser.
    """

    transport: asyncio.Transport

    def __init__(self, client: "HttpClient", loop: asyncio.AbstractEventLoop) -> None:
        self._client = client
        self._loop = loop
        self._parser = httptools.HttpResponseParser(self)
        self._answer: HttpAnswer | None = None
        self._headers: RawHeaders = []
        self._unread = 0  # bytes since the last ones of a body: of a head, or of what is around a body
        self._is_paused = self._is_writing = self._keeps_alive = False
        self._is_interim = self._ends_with_connection = self._is_tunnel = False
        self._has_body = True
        self._writable = asyncio.Event()
        self._writable.set()
        self._last_time = 0.0
        self._seconds = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_closed(self) -> bool:
        return self.transport.is_closing()

    async def ask(self, method: str, head: bytes, body: bytes, seconds: float) -> HttpAnswer:
        """Send a request; return its answer when its head is there. It is given up if nothing comes for `seconds`."""
        answer = self._answer = HttpAnswer(self)
        self._has_body, self._seconds, self._last_time = method != "HEAD", seconds, self._loop.time()
        self._keeps_alive, self._is_tunnel = False, method == "CONNECT"
        self._timer = self._loop.call_later(seconds, self._check_time)
        try:
            if len(body) <= _LARGE_BODY_BYTES:
                self.transport.write(head + body)
            else:
                await self._write_large(answer, head, body)
            await answer.wait_for_head()
        except BaseException:
            if self._answer is answer:  # else the answer is whole, and the connection may have another request
                self.abort()
            raise
        return answer

    async def _write_large(self, answer: HttpAnswer, head: bytes, body: bytes) -> None:
        self._is_writing = True
        self.transport.write(head)
        view = memoryview(body)
        for start in range(0, len(view), _WRITTEN_BYTES):
            await self._writable.wait()
            if answer.status or self.is_closed:  # it is answered before it was read: a refusal, as a rule
                return
            self._last_time = self._loop.time()
            self.transport.write(view[start : start + _WRITTEN_BYTES])
            await asyncio.sleep(0)
        self._is_writing = False

    async def start_tls(self, context: ssl.SSLContext, host: str) -> None:
        """Go on with TLS, after a proxy has answered CONNECT."""
        self._end_answer()
        self._parser = httptools.HttpResponseParser(self)
        try:
            transport = await self._loop.start_tls(self.transport, self, context, server_hostname=host)
        except BaseException:  # the loop does not say then that the connection is lost
            self._client.connections.discard(self)
            self.transport.abort()
            raise
        assert transport is not None
        self.transport, self._is_tunnel = transport, False

    def abort(self) -> None:
        self._end_answer()
        self.transport.abort()

    def resume_reading(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._last_time = self._loop.time()
            self.transport.resume_reading()

    def _end_answer(self) -> None:
        self._answer = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def fail(self, failure: UpstreamError) -> None:
        answer = self._answer
        self.abort()
        if answer is not None:
            answer.fail(failure)

    def _check_time(self) -> None:
        silent = 0.0 if self._is_paused else self._loop.time() - self._last_time
        if silent >= self._seconds:
            self.fail(UpstreamError(f"nothing came for {self._seconds:g} seconds"))
        else:
            self._timer = self._loop.call_later(self._seconds - silent, self._check_time)

    # --- the transport --------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        self._client.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._client.connections.discard(self)
        del self._parser  # it refers to this object, too
        self._writable.set()
        answer = self._answer
        if answer is not None and answer.status and self._ends_with_connection and exc is None:
            self._end_answer()
            answer.is_whole = True
            answer.wake()
        elif answer is not None:
            self.fail(_ConnectionClosed(type(exc).__name__ if exc else "it closed the connection"))

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        answer = self._answer
        if answer is None:  # more than the answer, or without a request
            self.abort()
            return
        self._last_time = self._loop.time()
        self._unread += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.fail(UpstreamError("it is not HTTP"))
            return
        if self._unread > _MAX_HEADER_BYTES and not answer.is_whole:
            self.fail(UpstreamError("its head is too large"))
        elif answer.is_whole:
            self.resume_reading()
            self._end_answer()
            if self._is_tunnel:  # its opener goes on with it, or gives it up
                return
            if self._is_writing or self.transport.get_write_buffer_size():  # a refusal: the rest is not wanted
                self.transport.abort()
            elif self._keeps_alive:
                self._client.keep(self)
            else:
                self.transport.close()

    # --- the parser -----------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._headers = []
        if self._answer is not None and self._answer.is_whole:  # more bytes than the length says
            self._keeps_alive = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        answer, status = self._answer, self._parser.get_status_code()
        self._is_interim = 100 <= status < 200 and status != 101
        if self._is_interim or answer is None or answer.is_whole:
            return
        names = dict(self._headers)
        self._ends_with_connection = not (
            b"content-length" in names or names.get(b"transfer-encoding", b"").lower().endswith(b"chunked")
        )
        self._unread = 0
        answer.take_head(status, self._headers)
        self._headers = []  # what follows the body is not passed on
        self._writable.set()
        if not self._has_body:
            answer.is_whole, self._keeps_alive = True, False
        answer.wake()

    def on_body(self, piece: bytes) -> None:
        answer = self._answer
        self._unread = 0
        if answer is not None and not answer.is_whole and answer.add(piece) and not self._is_paused:
            self._is_paused = True
            self.transport.pause_reading()

    def on_message_complete(self) -> None:
        answer = self._answer
        if not self._is_interim and answer is not None and not answer.is_whole:
            self._keeps_alive = self._parser.should_keep_alive()
            answer.is_whole = True
            answer.wake()


class HttpClient:
    """The connections to one upstream, by way of a `proxy` if one is given. `tls` is given if its address is https."""

    def __init__(
        self,
        url: str,
        *,
        tls: ssl.SSLContext | None,
        proxy: str | None,
        connect_timeout: float,
        answer_timeout: float,
    ) -> None:
        parts = urlsplit(url)
        if (parts.scheme == "https") != (tls is not None) or not url.startswith(f"{parts.scheme}://"):
            raise ValueError("the address and its use of TLS do not agree")
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._host, self._port = parts.hostname or "", parts.port or _DEFAULT_PORTS[parts.scheme]
        name = self._host if self._host.isascii() else self._host.encode("idna").decode()
        name = f"[{name}]" if ":" in name else name
        self._host_header = name if self._port == _DEFAULT_PORTS[parts.scheme] else f"{name}:{self._port}"
        self._tls = tls
        self._proxy = _split_proxy(proxy) if proxy else None
        is_tls_proxy = self._proxy is not None and self._proxy.scheme == "https"
        self._proxy_tls = (tls or ssl.create_default_context()) if is_tls_proxy else None
        self._connect_timeout = connect_timeout
        self._answer_timeout = answer_timeout
        self.connections: set[_Connection] = set()
        self._idle: list[tuple[float, _Connection]] = []  # the one that was used last at the end
        self._cleaning: asyncio.TimerHandle | None = None

    async def request(self, method: str, url: str, headers: RawHeaders, body: bytes) -> HttpAnswer:
        """Send a request. UpstreamError if no answer begins."""
        target = url.removeprefix(self._origin)
        if self._proxy is not None and self._tls is None:
            headers, target = [*headers, *self._list_proxy_headers()], url
        head = _encode_head(method, target, self._host_header, headers, len(body))
        while True:
            idle = self._take()
            connection = idle or await self._connect()
            try:
                return await connection.ask(method, head, body, self._answer_timeout)
            except _ConnectionClosed:  # a server may close a connection that it kept just when it is used again
                if idle is None or method not in _REPEATABLE_METHODS:
                    raise

    async def close(self) -> None:
        for connection in list(self.connections):
            connection.fail(UpstreamError("the gateway is closing"))
        if self._cleaning is not None:
            self._cleaning.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                while self.connections:
                    await asyncio.sleep(0)

    # --- connections ----------------------------------------------------------------------------------------------

    def _take(self) -> _Connection | None:
        oldest = asyncio.get_running_loop().time() - _KEEP_ALIVE_SECONDS
        while self._idle:
            since, connection = self._idle.pop()
            if since > oldest and not connection.is_closed:
                return connection
            connection.abort()
        return None

    def keep(self, connection: _Connection) -> None:
        loop = asyncio.get_running_loop()
        self._idle.append((loop.time(), connection))
        if self._cleaning is None:
            self._cleaning = loop.call_later(_KEEP_ALIVE_SECONDS, self._close_idle)

    def _close_idle(self) -> None:
        loop = asyncio.get_running_loop()
        oldest = loop.time() - _KEEP_ALIVE_SECONDS
        for since, connection in self._idle:
            if since <= oldest:
                connection.transport.close()
        self._idle = [(since, each) for since, each in self._idle if since > oldest and not each.is_closed]
        wait = self._idle[0][0] - oldest if self._idle else None
        self._cleaning = loop.call_later(wait, self._close_idle) if wait is not None else None

    async def _connect(self) -> _Connection:
        try:
            async with _fair_timeout(self._connect_timeout):
                return await self._open()
        except (OSError, ValueError) as failure:
            raise UpstreamError(f"connecting failed ({type(failure).__name__})") from failure

    async def _open(self) -> _Connection:
        loop, proxy = asyncio.get_running_loop(), self._proxy
        host, port, tls = self._host, self._port, self._tls
        if proxy is not None:
            if proxy.scheme not in _DEFAULT_PORTS:
                raise UpstreamError("this kind of proxy cannot be used; name one with http:// or https://")
            host, port = proxy.hostname or "", proxy.port or _DEFAULT_PORTS[proxy.scheme]
            tls = self._proxy_tls
        # uvloop, which uvicorn uses if it is installed, tries one address after the other
        is_asyncio = isinstance(loop, asyncio.BaseEventLoop)
        delay: dict[str, Any] = {"happy_eyeballs_delay": _EYEBALLS_SECONDS} if is_asyncio else {}
        connection = _Connection(self, loop)
        await loop.create_connection(lambda: connection, host, port, ssl=tls, **delay)
        if proxy is not None and self._tls is not None:
            target = f"{self._host_header.removesuffix(f':{self._port}')}:{self._port}"
            head = _encode_head("CONNECT", target, target, self._list_proxy_headers(), 0)
            answer = await connection.ask("CONNECT", head, b"", self._connect_timeout)
            if not 200 <= answer.status < 300:
                connection.abort()
                raise UpstreamError(f"the proxy answered with {answer.status}")
            await connection.start_tls(self._tls, self._host)
        return connection

    def _list_proxy_headers(self) -> RawHeaders:
        if self._proxy is None or not self._proxy.username:
            return []
        login = f"{unquote(self._proxy.username)}:{unquote(self._proxy.password or '')}"
        return [(b"proxy-authorization", b"Basic " + b64encode(login.encode()))]


@asynccontextmanager
async def _fair_timeout(seconds: float) -> AsyncIterator[None]:
    """A timeout that does not count the time in which the event loop was kept from running.

    An event loop that is busy for seconds learns late that a connection is made. With `asyncio.timeout` it would give
    the connection up then, although the upstream answered at once.
    """
    loop, timer = asyncio.get_running_loop(), None

    def tick(left: int) -> None:
        nonlocal timer
        if left:
            timer = loop.call_later(seconds / _TIMEOUT_TICKS, tick, left - 1)
        else:
            limit.reschedule(loop.time())

    async with asyncio.timeout(None) as limit:
        tick(_TIMEOUT_TICKS)
        try:
            yield
        finally:
            assert timer is not None
            timer.cancel()


def _split_proxy(proxy: str) -> SplitResult:
    """The parts of a proxy's address; none if it is not an address, which connecting then says."""
    try:
        parts = urlsplit(proxy)
        return parts if parts.hostname and parts.port != 0 else SplitResult("", "", "", "", "")
    except ValueError:
        return SplitResult("", "", "", "", "")


def _encode_head(method: str, target: str, host: str, headers: RawHeaders, size: int) -> bytes:
    """The head of a request with a body of this size. UpstreamError if something in it would begin another line."""
    lines = [f"{method} {target} HTTP/1.1".encode("latin-1", "replace"), b"host: " + host.encode()]
    lines += [name + b": " + value for name, value in headers]
    if size or method not in (*_METHODS_WITHOUT_BODY, "CONNECT"):
        lines.append(b"content-length: %d" % size)
    head = b"\r\n".join([*lines, b"", b""])
    if not head.count(b"\r") == head.count(b"\n") == len(lines) + 1:
        raise UpstreamError("a header has a line break")
    return head
