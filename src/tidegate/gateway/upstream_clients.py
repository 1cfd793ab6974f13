"""Sending requests to the upstreams: one HTTP client each, with limits on time and size.

The client is aiohttp, because httpx takes longer for a request.
"""

import asyncio
import os
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, closing, suppress
from typing import Final, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx
from aiohttp.abc import AbstractStreamWriter
from yarl import URL

from tidegate.core.errors import BadInput
from tidegate.gateway.aws_signature import AwsSigner
from tidegate.gateway.client_answer import GatewayRefusal
from tidegate.gateway.client_stream import EVENT_END
from tidegate.gateway.http_body import BodyDecoder, BodyTooLarge, RawHeaders, forward_headers
from tidegate.gateway.routing import ClientId, Route
from tidegate.gateway.settings import GatewaySettings, Upstream
from tidegate.models.http.endpoints import is_loopback_url

_MAX_ERROR_BYTES: Final = 1_000_000
CLIENT_KEY_HEADERS: Final = ("x-api-key", "authorization", "x-goog-api-key", "api-key")
_MAX_HEADER_BYTES: Final = 65_536
_KEEP_ALIVE_SECONDS: Final = 5.0
_LARGE_BODY_BYTES: Final = 500_000
"""A larger body is written in parts, so that other requests are not kept waiting."""
_WRITTEN_BYTES: Final = 262_144
_PIECE_BYTES: Final = 32_768
"""Of an answer: reading the events of a larger one would keep other requests waiting."""
_OWN_HEADERS: Final = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
"""aiohttp adds these if the client did not send them, unless it is told not to."""
_EXTRA_CERTIFICATES_VARIABLE: Final = "NODE_EXTRA_CA_CERTS"


class IncomingRequest(NamedTuple):
    """A request as it came in, with its body read."""

    route: Route
    method: str
    query: bytes
    headers: dict[str, str]
    raw_headers: RawHeaders
    body: bytes
    scope: str
    client: ClientId


class _UpstreamClient(NamedTuple):
    """The HTTP client of an upstream, and the proxy that the environment named when the client was made.

    `dropped_headers` have the key of a client, where the gateway has its own.
    """

    http: aiohttp.ClientSession
    proxy: str | None
    dropped_headers: tuple[str, ...]


class _LargeBody(aiohttp.Payload):
    """A body that is written in parts. That of aiohttp for `BytesIO` copies all of it first, and each part again."""

    _autoclose = True

    def __init__(self, body: bytes) -> None:
        super().__init__(body)
        self._body, self._size = body, len(body)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return self._body.decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        view = memoryview(self._body)
        for start in range(0, len(view), _WRITTEN_BYTES):
            await writer.write(view[start : start + _WRITTEN_BYTES])
            await asyncio.sleep(0)


class UpstreamClients:
    def __init__(self, settings: GatewaySettings, log_line: Callable[[str], None]) -> None:
        self._settings = settings
        self._log_line = log_line
        self._clients: dict[str, _UpstreamClient] = {}
        self._signers: dict[str, AwsSigner] = {}

    async def close(self) -> None:
        for client in self._clients.values():
            await client.http.close()
        self._clients.clear()

    async def send(self, request: IncomingRequest, body: bytes) -> "closing[aiohttp.ClientResponse]":
        """Send a request with this body. GatewayRefusal if the upstream does not answer.

        The answer is a context: it is closed at the end, also if the client is gone.
        """
        upstream = request.route.upstream
        client = self._client_for(upstream)
        without = ("content-encoding",) if body is not request.body else ()
        headers = forward_headers(request.raw_headers, without=(*without, *client.dropped_headers))
        if upstream.key:
            name, value = upstream.key_header
            headers.append((name.encode(), value.encode()))
        query = b"?" + request.query if request.query else b""
        url = URL(request.route.path + query.decode("latin-1"), encoded=True)
        texts = [(_decode_header(name), _decode_header(value)) for name, value in headers]
        if upstream.aws_region:
            texts = await self._sign(upstream, request.method, str(url), texts, body)
        try:
            response = await client.http.request(
                request.method,
                url,
                headers=texts,
                data=(_LargeBody(body) if len(body) > _LARGE_BODY_BYTES else body) or None,
                allow_redirects=False,
                skip_auto_headers=_OWN_HEADERS,
                proxy=client.proxy,
            )
        except (aiohttp.ClientError, OSError, ValueError) as failure:
            self._log_line(f"no answer from upstream {upstream.name}: {type(failure).__name__}")
            text = f"The upstream {upstream.name} did not answer ({type(failure).__name__})."
            raise GatewayRefusal(502, "api_error", text) from None
        if not (200 <= response.status < 300 or 400 <= response.status < 600):
            response.close()
            raise GatewayRefusal(
                502, "api_error", f"The upstream {upstream.name} answered with {_name_status(response.status)}."
            )
        return closing(response)

    async def _sign(
        self, upstream: Upstream, method: str, url: str, headers: list[tuple[str, str]], body: bytes
    ) -> list[tuple[str, str]]:
        if upstream.name not in self._signers:
            self._signers[upstream.name] = await asyncio.to_thread(AwsSigner, upstream.aws_region)
        return await asyncio.to_thread(self._signers[upstream.name].sign, method, url, headers, body)

    def _client_for(self, upstream: Upstream) -> _UpstreamClient:
        client = self._clients.get(upstream.name)
        if client is None:
            settings = self._settings
            http = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=0,
                    keepalive_timeout=_KEEP_ALIVE_SECONDS,
                    ssl=_make_tls_context(self._log_line) if upstream.url.startswith("https:") else True,
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                timeout=aiohttp.ClientTimeout(
                    total=None, sock_connect=settings.connect_timeout, sock_read=settings.answer_timeout
                ),
                max_line_size=_MAX_HEADER_BYTES,
                max_field_size=_MAX_HEADER_BYTES,
            )
            dropped = CLIENT_KEY_HEADERS if upstream.is_paid_here else ()
            client = self._clients[upstream.name] = _UpstreamClient(http, _find_proxy(upstream.url), dropped)
        return client

    async def read_pieces(self, response: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
        """The answer as it arrives, decoded if it is compressed. BodyTooLarge if it never ends.

        Other requests are served between the parts of a large piece.
        """
        coding = ", ".join(response.headers.getall("content-encoding", ()))
        decoder = BodyDecoder(coding) if coding not in ("", "identity") else None
        if decoder is not None and not decoder.is_known:
            self._log_line(f"an answer is compressed with {coding[:20]!r}; it is passed on unread")
        size = 0
        try:
            async for packed in response.content.iter_any():
                for decoded in decoder.feed(packed) if decoder is not None else (packed,):
                    size += len(decoded)
                    if size > self._settings.max_answer:
                        raise BodyTooLarge
                    for start in range(0, len(decoded), _PIECE_BYTES):
                        yield decoded[start : start + _PIECE_BYTES]
                        if len(decoded) > _PIECE_BYTES:
                            await asyncio.sleep(0)
            if decoder is not None:
                decoder.end()
        except BadInput as bad:
            raise aiohttp.ClientPayloadError(bad.args[0]) from bad

    async def read_failure(self, response: aiohttp.ClientResponse) -> bytes:
        """The body of an error, as far as it arrives, and not more than a megabyte."""
        body = bytearray()
        with suppress(aiohttp.ClientError, TimeoutError, BodyTooLarge):
            async with aclosing(self.read_pieces(response)) as pieces:
                async for piece in pieces:
                    body += piece
                    if len(body) > _MAX_ERROR_BYTES:
                        break
        return bytes(body[:_MAX_ERROR_BYTES])


def split_first_event(piece: bytes) -> tuple[bytes, bytes]:
    """The first event of a stream, which is passed on before the rest of its piece is parsed, and that rest."""
    end = EVENT_END.search(piece)
    return (piece[: end.end()], piece[end.end() :]) if end is not None else (piece, b"")


def _name_status(status: int) -> str:
    if status >= 600:
        return f"the status {status}, which HTTP does not have"
    return "a redirect; none is followed" if status >= 300 else "another protocol"


def _decode_header(value: bytes) -> str:
    """The text that is written with the same bytes. Those that are not UTF-8 change their encoding."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _make_tls_context(log_line: Callable[[str], None]) -> ssl.SSLContext:
    """The certificates that a client on Node.js would trust: the usual ones, and those of `NODE_EXTRA_CA_CERTS`."""
    context = httpx.create_ssl_context()
    if extra := os.environ.get(_EXTRA_CERTIFICATES_VARIABLE):
        try:
            context.load_verify_locations(extra)
        except OSError as failure:  # a client on Node.js ignores it, too
            log_line(f"the certificates in ${_EXTRA_CERTIFICATES_VARIABLE} are ignored: {failure}")
    return context


def _find_proxy(url: str) -> str | None:
    """The proxy that the environment names for this address. One on this machine is asked directly.

    aiohttp could read it, but then it would also take a password from ~/.netrc.
    """
    parts = urlsplit(url)
    named = getproxies()
    found = named.get(parts.scheme) or named.get("all")
    return found if found and not is_loopback_url(url) and not proxy_bypass(parts.netloc) else None
