"""Running the gateway: uvicorn with limits on slow and large headers, and a shutdown that finishes streams."""

import asyncio
import errno
import gc
import logging
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tidegate.core.errors import BadInput
from tidegate.core.text.terminal_text import clean_line
from tidegate.gateway.app import Gateway
from tidegate.gateway.http_messages import AnswerBrokeOff
from tidegate.gateway.settings import GatewaySettings

_KEEP_ALIVE: Final = 75
_BACKLOG: Final = 512
_MAX_HEADER_BYTES: Final = 131_072
_SWITCH_SECONDS: Final = 0.0005
"""How long a thread that plans keeps the interpreter's lock while the event loop waits for it.

The event loop needs the lock again after each read and write. With Python's 0.005 seconds, one percent of exchanges on
a socket took 150 ms and more beside three threads that compute; with this it is 50 ms.
"""
_BODY_BYTES: Final = 4_000_000
"""Of a request that the application has not read yet. Above it the client is not read either."""


class JoinedWrites(asyncio.Transport):
    """The transport of a connection, as far as uvicorn uses it. The head of an answer is sent with what follows.

    uvicorn writes the head alone: the client would wake up for it, and the first piece would wait meanwhile.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._head = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if data[:5] == b"HTTP/" and not self._head:
            self._head = bytes(data)
            self._loop.call_soon(self._send_head)  # if nothing follows now
            return
        head, self._head = self._head, b""
        self._transport.write(head + data if head else data)

    def _send_head(self) -> None:
        head, self._head = self._head, b""
        if head:
            self._transport.write(head)

    def close(self) -> None:
        self._send_head()
        self._transport.close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()


class BoundedHttpProtocol(HttpToolsProtocol):
    """A connection whose headers must arrive in time and be of bounded size, else it is closed."""

    header_timeout = 15.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(JoinedWrites(transport, self.loop))
        self._header_bytes = self._piece_bytes = 0
        self._pieces: list[bytes] = []
        self._deadline: asyncio.TimerHandle | None = self._start_deadline()

    def _start_deadline(self) -> asyncio.TimerHandle:
        return self.loop.call_later(self.header_timeout, self._close_if_waiting)

    def _is_running(self) -> bool:
        return bool(self.cycle) and not self.cycle.response_complete

    def _close_if_waiting(self) -> None:
        self._deadline = None
        if not self._is_running():
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_running():
            self._header_bytes = 0
            self._stop_deadline()
            return
        self._header_bytes += len(data)
        if self._header_bytes > _MAX_HEADER_BYTES:
            self.transport.close()
        elif self._deadline is None:
            self._deadline = self._start_deadline()

    def on_body(self, body: bytes) -> None:
        """Collect the body and hand it over at its end, or in large parts: uvicorn copies it and wakes the request for
        each piece."""
        self._pieces.append(body)
        self._piece_bytes += len(body)
        if self._piece_bytes > _BODY_BYTES:
            self.flow.pause_reading()
            self._hand_over()
            self.cycle.message_event.set()

    def on_message_complete(self) -> None:
        self._hand_over()
        super().on_message_complete()

    def _hand_over(self) -> None:
        if not self.cycle.response_complete:
            self.cycle.body = b"".join([self.cycle.body, *self._pieces])  # type: ignore[assignment]
        self._pieces.clear()
        self._piece_bytes = 0

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_deadline()
        super().connection_lost(exc)


class GatewayServer(uvicorn.Server):
    """A server that ends normally after a signal, so that sessions and the store are closed.

    Without `takes_signals`, the caller handles them and ends the server with `should_exit`.
    """

    takes_signals = True

    def __init__(self, config: uvicorn.Config, gateway: Gateway) -> None:
        super().__init__(config)
        self._gateway = gateway

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        if not self.takes_signals or threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {each: signal.signal(each, self.handle_exit) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(make_loop_handler(self._gateway.log_line))
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._gateway.page is not None:
            self._gateway.page.end_streams()
        await super().shutdown(sockets)


def make_server(gateway: Gateway, settings: GatewaySettings, **more: Any) -> GatewayServer:
    hide_known_failures()

    class Connection(BoundedHttpProtocol):
        header_timeout = settings.header_timeout

    config = uvicorn.Config(
        gateway,
        **{
            "host": settings.host,
            "port": settings.port,
            "http": Connection,
            "ws": "none",
            "lifespan": "on",
            "log_config": None,
            "access_log": False,
            "server_header": False,
            "date_header": False,
            "proxy_headers": False,
            "timeout_keep_alive": _KEEP_ALIVE,
            "timeout_graceful_shutdown": int(settings.shutdown_timeout),
            "backlog": _BACKLOG,
            **more,
        },
    )
    return GatewayServer(config, gateway)


@asynccontextmanager
async def serve_in_background(gateway: Gateway, settings: GatewaySettings) -> AsyncIterator[str]:
    """Serve in the running event loop, until the block ends. The value is the address, also for port 0."""
    server = make_server(gateway, settings, loop="none")
    server.takes_signals = False
    task = asyncio.ensure_future(server.serve())
    try:
        while not server.started:
            if task.done():
                await task
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://{settings.host}:{port}"
    finally:
        server.should_exit = True
        await task


def run_gateway(gateway: Gateway, settings: GatewaySettings, listener: socket.socket | None = None) -> None:
    """Serve until a signal; running answers are finished first. BadInput if the address is taken.

    With `listener`, which several workers may share, connections are accepted there.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.collect()
    gc.freeze()  # what was loaded so far is not garbage, and need not be looked through with every full collection
    try:
        make_server(gateway, settings).run([listener] if listener else None)
    except SystemExit as failure:  # uvicorn ends the process if it cannot listen
        raise _make_listen_error(settings) from failure


def _make_listen_error(settings: GatewaySettings) -> BadInput:
    return BadInput(
        f"The gateway cannot listen on {settings.host}:{settings.port}.",
        "Another program may use the port; choose another one with --port.",
    )


def open_listener(settings: GatewaySettings) -> socket.socket:
    """The socket that several workers accept connections on; the kernel gives each connection to one of them.

    Its connections inherit TCP_NODELAY, which asyncio only sets if it made the socket. Without it the end of an answer
    waits until the client has acknowledged the piece before, which it delays by 40 ms.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listener = socket.create_server((settings.host, settings.port), family=family, backlog=_BACKLOG)
    except OSError as failure:
        raise _make_listen_error(settings) from failure
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def print_log_line(line: str) -> None:
    sys.stderr.write(clean_line(line) + "\n")


_EXHAUSTED: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
_PAUSE_SECONDS: Final = 60.0
_CAUSED_BY_CLIENTS: Final = (
    "Invalid HTTP request received.",
    "Unsupported upgrade request.",
    "No supported WebSocket library detected.",
)
"""Warnings of uvicorn that any program, and any web page in a browser here, could have printed without end."""

LoopHandler = Callable[[asyncio.AbstractEventLoop, dict[str, Any]], None]


def hide_known_failures() -> None:
    """Let uvicorn close the connection of an answer that broke off without a traceback, and refuse odd requests without
    a warning: a WebSocket has its line in the log of the gateway."""
    logging.getLogger("uvicorn.error").addFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    if record.levelno == logging.WARNING and record.getMessage().startswith(_CAUSED_BY_CLIENTS):
        return False
    return not (record.exc_info and isinstance(record.exc_info[1], AnswerBrokeOff))


def make_loop_handler(log_line: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> LoopHandler:
    """A handler for exceptions of the event loop. If connections cannot be accepted, it says so once a minute.

    asyncio tries to accept a connection hundreds of times in a second then, and would print a traceback each time. It
    tries again a second later, which fails if the server was closed meanwhile.
    """
    last_said = -_PAUSE_SECONDS

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        nonlocal last_said
        failure = context.get("exception")
        if isinstance(failure, ValueError) and "_start_serving" in context.get("message", ""):
            return
        if not isinstance(failure, OSError) or failure.errno not in _EXHAUSTED:
            loop.default_exception_handler(context)
        elif clock() - last_said >= _PAUSE_SECONDS:
            last_said = clock()
            log_line(
                f"tidegate: new connections have to wait ({failure.strerror}). Raise the limit of open files"
                " (`ulimit -n`), or let fewer clients connect at a time."
            )

    return handle
