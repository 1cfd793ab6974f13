"""Bodies and headers of HTTP: read within limits, and passed on without what belongs to one connection."""

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Final

from tidegate.core.errors import BadInput

AsgiMessage = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[AsgiMessage]]
Send = Callable[[AsgiMessage], Awaitable[None]]
RawHeaders = list[tuple[bytes, bytes]]

_HOP_BY_HOP: Final = frozenset(
    "connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding"
    " upgrade expect".split()
)
_OWN_REQUEST_HEADERS: Final = frozenset("host content-length accept-encoding forwarded x-forwarded-for".split())
_OWN_ANSWER_HEADERS: Final = frozenset("content-length content-encoding date server alt-svc".split())


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
        if name == "identity":
            continue
        if name in ("gzip", "x-gzip", "deflate"):
            body = _inflate(body, 31 if "gzip" in name else 15, limit)
        elif name == "zstd":
            body = _inflate_zstd(body, limit)
        else:
            raise BadInput(f"The body is compressed with {name[:20]}.", "Use gzip, deflate or zstd.")
    return body


def _inflate(body: bytes, bits: int, limit: int) -> bytes:
    unpacker = zlib.decompressobj(bits)
    try:
        found = unpacker.decompress(body, limit + 1)
    except zlib.error as fault:
        raise BadInput("The compressed body is damaged.", "Send it again.") from fault
    if len(found) > limit:
        raise BodyTooLarge
    if not unpacker.eof:
        raise BadInput("The compressed body is cut off.", "Send it again.")
    return found


def _inflate_zstd(body: bytes, limit: int) -> bytes:
    import zstandard  # noqa: PLC0415 - only few clients compress with it

    unpacker = zstandard.ZstdDecompressor(max_window_size=2**27).decompressobj()
    found: list[bytes] = []
    size = 0
    try:
        for start in range(0, len(body), 4096):  # a bomb is stopped early
            found.append(unpacker.decompress(body[start : start + 4096]))
            size += len(found[-1])
            if size > limit:
                raise BodyTooLarge
    except zstandard.ZstdError as fault:
        raise BadInput("The compressed body is damaged.", "Send it again.") from fault
    if not unpacker.eof:
        raise BadInput("The compressed body is cut off.", "Send it again.")
    return b"".join(found)


def read_headers(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """The headers by their names in lower case. Of several with one name, the last."""
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}


def forward_headers(headers: Iterable[tuple[bytes, bytes]], *, without: Iterable[str] = ()) -> RawHeaders:
    """The headers of a request as they are passed on. Answers are asked for uncompressed, so that they can be read."""
    pairs = list(headers)
    dropped = _HOP_BY_HOP | _OWN_REQUEST_HEADERS | set(without) | _named_by_connection(pairs)
    found = [
        (name, value)
        for name, value in pairs
        if (text := name.decode("latin-1").lower()) not in dropped and not text.startswith("x-tidegate-")
    ]
    return [*found, (b"accept-encoding", b"identity")]


def answer_headers(headers: Iterable[tuple[bytes, bytes]]) -> RawHeaders:
    """The headers of an upstream's answer as they are passed on. Which web pages may read it, the gateway decides."""
    pairs = list(headers)
    dropped = _HOP_BY_HOP | _OWN_ANSWER_HEADERS | _named_by_connection(pairs)
    return [
        (name.lower(), value)
        for name, value in pairs
        if (text := name.decode("latin-1").lower()) not in dropped and not text.startswith("access-control-")
    ]


def _named_by_connection(pairs: Iterable[tuple[bytes, bytes]]) -> set[str]:
    return {
        part.strip().lower()
        for name, value in pairs
        if name.lower() == b"connection"
        for part in value.decode("latin-1").split(",")
    }
