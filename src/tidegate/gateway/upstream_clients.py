"""Sending requests to the upstreams: one HTTP client each, with limits on time and size."""

import asyncio
import os
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, closing, suppress
from typing import Final, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from tidegate.core.errors import BadInput
from tidegate.gateway.aws_signature import AwsSigner
from tidegate.gateway.client_stream import EVENT_END
from tidegate.gateway.http_client import HttpAnswer, HttpClient, UpstreamError
from tidegate.gateway.http_messages import BodyDecoder, BodyTooLarge, GatewayRefusal, RawHeaders, forward_headers
from tidegate.gateway.routing import ClientId, Route
from tidegate.gateway.settings import GatewaySettings, Upstream
from tidegate.models.http.endpoints import is_loopback_url

_MAX_ERROR_BYTES: Final = 1_000_000
CLIENT_KEY_HEADERS: Final = ("x-api-key", "authorization", "x-goog-api-key", "api-key")
_PIECE_BYTES: Final = 32_768
"""Of an answer: reading the events of a larger one would keep other requests waiting."""
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
    """The HTTP client of an upstream. `dropped_headers` have the key of a client, where the gateway has its own."""

    http: HttpClient
    dropped_headers: tuple[str, ...]


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

    async def send(self, request: IncomingRequest, body: bytes) -> "closing[HttpAnswer]":
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
        url = request.route.path + (f"?{request.query.decode('latin-1')}" if request.query else "")
        if upstream.aws_region:
            headers = await self._sign(upstream, request.method, url, headers, body)
        try:
            response = await client.http.request(request.method, url, headers, body)
        except UpstreamError as failure:
            self._log_line(f"no answer from upstream {upstream.name}: {failure}")
            text = f"The upstream {upstream.name} did not answer: {failure}."
            raise GatewayRefusal(502, "api_error", text) from None
        if not (200 <= response.status < 300 or 400 <= response.status < 600):
            response.close()
            raise GatewayRefusal(
                502, "api_error", f"The upstream {upstream.name} answered with {_name_status(response.status)}."
            )
        return closing(response)

    async def _sign(self, upstream: Upstream, method: str, url: str, headers: RawHeaders, body: bytes) -> RawHeaders:
        if upstream.name not in self._signers:
            self._signers[upstream.name] = await asyncio.to_thread(AwsSigner, upstream.aws_region)
        texts = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]
        signed = await asyncio.to_thread(self._signers[upstream.name].sign, method, url, texts, body)
        return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in signed]

    def _client_for(self, upstream: Upstream) -> _UpstreamClient:
        client = self._clients.get(upstream.name)
        if client is None:
            http = HttpClient(
                upstream.url,
                tls=_make_tls_context(self._log_line) if urlsplit(upstream.url).scheme == "https" else None,
                proxy=_find_proxy(upstream.url),
                connect_timeout=self._settings.connect_timeout,
                answer_timeout=self._settings.answer_timeout,
            )
            key_headers = CLIENT_KEY_HEADERS if upstream.is_paid_here else ()
            client = self._clients[upstream.name] = _UpstreamClient(http, key_headers)
        return client

    async def read_pieces(self, response: HttpAnswer) -> AsyncGenerator[bytes, None]:
        """The answer as it arrives, decoded if it is compressed. BodyTooLarge if it never ends.

        Other requests are served between the parts of a large piece.
        """
        decoder = BodyDecoder(response.coding) if response.coding not in ("", "identity") else None
        if decoder is not None and not decoder.is_known:
            self._log_line(f"an answer is compressed with {response.coding[:20]!r}; it is passed on unread")
        size = 0
        try:
            while arrived := await response.read():
                for decoded in decoder.feed(arrived) if decoder is not None else (arrived,):
                    size += len(decoded)
                    if size > self._settings.max_answer:
                        raise BodyTooLarge("it is too large")
                    for start in range(0, len(decoded), _PIECE_BYTES):
                        yield decoded[start : start + _PIECE_BYTES]
                        if len(decoded) > _PIECE_BYTES:
                            await asyncio.sleep(0)
            if decoder is not None:
                decoder.end()
        except BadInput as bad:
            raise UpstreamError(bad.args[0]) from bad

    async def read_failure(self, response: HttpAnswer) -> bytes:
        """The body of an error, as far as it arrives, and not more than a megabyte."""
        body = bytearray()
        with suppress(UpstreamError, BodyTooLarge):
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
    """The proxy that the environment names for this address. One on this machine is asked directly."""
    parts = urlsplit(url)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    return proxy if proxy and not is_loopback_url(url) and not proxy_bypass(parts.netloc) else None
