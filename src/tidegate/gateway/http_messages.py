"""HTTP messages of clients and upstreams: read within limits, passed on without what belongs to one connection.

`ClientAnswer` is the answer to a client: passed on from the upstream, or the gateway's own.
"""

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from typing import Any, Final

import msgspec

from tidegate.core.errors import BadInput

AsgiMessage = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[AsgiMessage]]
Send = Callable[[AsgiMessage], Awaitable[None]]
RawHeaders = list[tuple[bytes, bytes]]

_HOP_BY_HOP: Final = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding"
    b" upgrade expect".split()
)
_NOT_FORWARDED: Final = _HOP_BY_HOP.union(b"host content-length accept-encoding forwarded x-forwarded-for".split())
_NOT_ANSWERED: Final = _HOP_BY_HOP.union(b"content-length date server alt-svc".split())
_ZLIB_CODINGS: Final = frozenset("gzip x-gzip deflate".split())
_KNOWN_CODINGS: Final = _ZLIB_CODINGS | {"identity", "zstd", ""}
_ZSTD_STEP_BYTES: Final = 1024
"""Read of a zstd body at a time. They have at most 32 MB of content: a bomb is stopped soon after the limit."""
_DECODED_PIECE_BYTES: Final = 65_536
_ZLIB_STEP_BYTES: Final = 4096
_GZIP_MARK: Final = b"\x1f\x8b"
_ZSTD_MARK: Final = b"\x28\xb5\x2f\xfd"
_MAX_PARTS: Final = 20_000
"""Of a compressed body. Servers that flush after each event write several."""


class BodyTooLarge(Exception):
    pass


class ClientGone(Exception):
    """The client closed the connection before its request was whole."""


async def read_body(receive: Receive, limit: int, timeout: float) -> bytes:
    """The body of a request. BodyTooLarge above `limit` bytes, TimeoutError if it takes longer than `timeout`."""
    pieces: list[bytes] = []
    size = 0
    async with asyncio.timeout(timeout):
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            piece: bytes = message.get("body", b"")
            size += len(piece)
            if size > limit:
                raise BodyTooLarge
            pieces.append(piece)
            if not message.get("more_body"):
                return b"".join(pieces)


def decompress(body: bytes, encoding: str, limit: int) -> bytes:
    """The content of a compressed body. BodyTooLarge if it has more than `limit` bytes."""
    for name in reversed([part.strip().lower() for part in encoding.split(",") if part.strip()]):
        if name not in _KNOWN_CODINGS:
            raise BadInput(f"The body is compressed with {name[:20]}.", "Use gzip, deflate or zstd.")
        decoder = BodyDecoder(name)
        pieces: list[bytes] = []
        size = 0
        for piece in decoder.feed(body):
            pieces.append(piece)
            size += len(piece)
            if size > limit:
                raise BodyTooLarge
        decoder.end()
        body = b"".join(pieces)
    return body


class BodyDecoder:
    """Decodes a body while it arrives, in pieces of bounded size. BadInput if it is damaged or cut off.

    Bytes of an unknown coding stay as they are: `answer_headers` then leaves its name in the headers, for the client.
    """

    def __init__(self, coding: str) -> None:
        coding = coding.strip().lower()
        self.is_known = coding in _KNOWN_CODINGS
        self._unpacker: Any = None
        self._faults: tuple[type[Exception], ...] = ()
        self._has_begun = False
        self._is_zstd = coding == "zstd"
        self._parts = 0
        self._rest = b""
        """What follows the end of a part, as far as it may be the beginning of the next one."""
        if self._is_zstd or coding in _ZLIB_CODINGS:
            self._start_part()

    def _start_part(self) -> None:
        self._parts += 1
        if self._parts > _MAX_PARTS:
            raise BadInput(f"The compressed body has more than {_MAX_PARTS:,} parts.", "Compress it as one.")
        if self._is_zstd:
            import zstandard  # noqa: PLC0415 - only few compress with it

            self._unpacker = zstandard.ZstdDecompressor(max_window_size=2**27).decompressobj()
            self._faults = (zstandard.ZstdError,)
        else:
            self._unpacker = zlib.decompressobj(wbits=47)  # gzip or zlib, as its header says
            self._faults = (zlib.error,)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The content. What follows the end of a compressed body is ignored, unless it is another one."""
        if self._unpacker is None:
            yield data
            return
        self._has_begun = True
        step = _ZSTD_STEP_BYTES if self._is_zstd else _ZLIB_STEP_BYTES
        try:
            for start in range(0, len(data), step):
                yield from self._feed_step(data[start : start + step])
        except self._faults as fault:
            raise BadInput("The compressed body is damaged.", "Send it again.") from fault

    def _feed_step(self, data: bytes) -> Iterator[bytes]:
        mark = _ZSTD_MARK if self._is_zstd else _GZIP_MARK
        while data:
            if self._unpacker.eof:
                data, self._rest = self._rest + data, b""
                if not data.startswith(mark):
                    self._rest = data if mark.startswith(data) else b""
                    return
                self._start_part()
            yield from [self._unpacker.decompress(data)] if self._is_zstd else self._unpack_zlib(data)
            data = self._unpacker.unused_data

    def _unpack_zlib(self, data: bytes) -> Iterator[bytes]:
        while not self._unpacker.eof:
            piece = self._unpacker.decompress(data, _DECODED_PIECE_BYTES)
            data = self._unpacker.unconsumed_tail
            if piece:
                yield piece
            if not data and len(piece) < _DECODED_PIECE_BYTES:
                return

    def end(self) -> None:
        """The body has ended. The answer to a HEAD request has none, but headers that describe one."""
        if self._has_begun and not self._unpacker.eof:
            raise BadInput("The compressed body is cut off.", "Send it again.")


def read_headers(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """The headers by their names in lower case. Several with one name are joined, so that none hides another."""
    values: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        values[name] = f"{values[name]}, {value}" if name in values else value
    return values


def forward_headers(headers: Iterable[tuple[bytes, bytes]], *, without: Iterable[str] = ()) -> RawHeaders:
    """The headers of a request as they are passed on. Answers are asked for uncompressed, so that they can be read."""
    pairs = [(name.lower(), value) for name, value in headers]
    private_names = _NOT_FORWARDED.union(map(str.encode, without), _named_by_connection(pairs))
    own_headers = [
        (name, value) for name, value in pairs if name not in private_names and not name.startswith(b"x-tidegate-")
    ]
    return [*own_headers, (b"accept-encoding", b"identity")]


def answer_headers(headers: Iterable[tuple[bytes, bytes]]) -> RawHeaders:
    """The headers of an upstream's answer as they are passed on.

    The answer is decoded, if its coding is known. Which web pages may read it, the gateway decides.
    """
    pairs = [(name.lower(), value) for name, value in headers]
    private_names = _NOT_ANSWERED.union(_named_by_connection(pairs))
    coding = b", ".join([value for name, value in pairs if name == b"content-encoding"])
    if coding.decode("latin-1").strip().lower() in _KNOWN_CODINGS:
        private_names |= {b"content-encoding"}
    return [
        (name, value) for name, value in pairs if name not in private_names and not name.startswith(b"access-control-")
    ]


def _named_by_connection(pairs: Iterable[tuple[bytes, bytes]]) -> Iterator[bytes]:
    for name, value in pairs:
        if name == b"connection":
            yield from (part.strip().lower() for part in value.split(b","))


# --- the answer to a client -----------------------------------------------------------------------------------------


class GatewayRefusal(Exception):
    """The request was answered by the gateway itself."""

    def __init__(self, status: int, kind: str, text: str) -> None:
        super().__init__(text)
        self.status, self.kind, self.text = status, kind, text


class OwnAnswer(Exception):
    """The gateway answers the request itself, and not with a refusal: whether it runs, its metrics, a preflight."""

    def __init__(self, status: int, headers: RawHeaders, body: bytes = b"") -> None:
        super().__init__(status)
        self.status, self.headers, self.body = status, headers, body


class AnswerBrokeOff(ConnectionResetError):
    """An answer that has begun cannot be ended properly. The server closes the connection, so that the client notices.

    `server_log` keeps it off the terminal: the line of the request says that the answer broke off.
    """


class ClientAnswer:
    """The answer to the client. `status` is 0 until something was sent. `own_headers` go with every answer."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0
        self.sent = 0
        self.is_broken = False
        self.own_headers: RawHeaders = []
        self._held: list[bytes] = []

    async def start(self, status: int, headers: RawHeaders) -> None:
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": [*headers, *self.own_headers]})

    async def send_piece(self, piece: bytes, *, waits: bool = False) -> None:
        """Send a piece. One that `waits` is sent with the next one, or with the end: each send wakes up the client."""
        if waits:
            self._held.append(piece)
            return
        piece = self.take_held() + piece
        if piece:
            self.sent += len(piece)
            await self._send({"type": "http.response.body", "body": piece, "more_body": True})

    def take_held(self) -> bytes:
        """The pieces that wait. They are not sent any more."""
        pieces = b"".join(self._held)
        self._held.clear()
        return pieces

    async def finish(self, last: bytes = b"") -> None:
        """End the answer with this piece. One that broke off is not ended properly: the client must notice."""
        if self.is_broken:
            await self.send_piece(last)
            raise AnswerBrokeOff("the upstream's answer broke off")
        self.sent += len(last)
        await self._send({"type": "http.response.body", "body": last})

    async def send_whole(self, status: int, headers: RawHeaders, body: bytes) -> None:
        await self.start(status, [*headers, (b"content-length", str(len(body)).encode())])
        self.sent += len(body)
        await self._send({"type": "http.response.body", "body": body})

    async def send_json(self, status: int, value: object) -> None:
        if self.status:
            raise AnswerBrokeOff("the answer broke off")
        await self.send_whole(status, [(b"content-type", b"application/json")], msgspec.json.encode(value))
