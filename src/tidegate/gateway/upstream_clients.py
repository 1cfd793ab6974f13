"""Sending requests to the upstreams: one HTTP client each, with limits on time and size."""

from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import cache
from typing import Final, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from tidegate.gateway.client_answer import GatewayRefusal, OpenResponse
from tidegate.gateway.http_body import BodyTooLarge, RawHeaders, forward_headers
from tidegate.gateway.routing import Route
from tidegate.gateway.settings import GatewaySettings, Upstream
from tidegate.gateway.upstream_connection import ConnectionPool, UpstreamResponse
from tidegate.models.http.endpoints import choose_tls, is_loopback_url

_MAX_ERROR_BYTES: Final = 1_000_000
CLIENT_KEY_HEADERS: Final = ("x-api-key", "authorization", "x-goog-api-key", "api-key")


class IncomingRequest(NamedTuple):
    """A request as it came in, with its body read."""

    route: Route
    method: str
    query: bytes
    headers: dict[str, str]
    raw_headers: RawHeaders
    body: bytes
    scope: str


class UpstreamClients:
    """Sends requests. Most go over our own connections, which take a fraction of the time of a general HTTP client;
    httpx is used through a proxy, and for the few requests that are not POST.
    """

    def __init__(self, settings: GatewaySettings, log_line: Callable[[str], None]) -> None:
        self._settings = settings
        self._log_line = log_line
        self._clients: dict[str, httpx.AsyncClient] = {}
        self._pools: dict[str, ConnectionPool] = {}

    async def close(self) -> None:
        for pool in self._pools.values():
            pool.close()
        for client in self._clients.values():
            await client.aclose()
        self._clients.clear()

    async def send(self, request: IncomingRequest, body: bytes) -> OpenResponse:
        """Send a request with this body. GatewayRefusal if the upstream does not answer."""
        upstream = request.route.upstream
        without = ["content-encoding"] if body is not request.body else []
        headers = forward_headers(
            request.raw_headers, without=[*without, *(CLIENT_KEY_HEADERS if upstream.key else ())]
        )
        if upstream.key:
            name, value = upstream.key_header
            headers.append((name.encode(), value.encode()))
        query = b"?" + request.query if request.query else b""
        url = request.route.path + query.decode("latin-1")
        try:
            response = await self._send(upstream, request.method, url, headers, body)
        except (httpx.HTTPError, OSError) as failure:
            self._log_line(f"no answer from upstream {upstream.name}: {type(failure).__name__}")
            text = f"The upstream {upstream.name} did not answer ({type(failure).__name__})."
            raise GatewayRefusal(502, "api_error", text) from None
        if 300 <= response.status_code < 400:
            await response.close()
            raise GatewayRefusal(
                502, "api_error", f"The upstream {upstream.name} answered with a redirect; none is followed."
            )
        return OpenResponse(response)

    async def _send(
        self, upstream: Upstream, method: str, url: str, headers: RawHeaders, body: bytes
    ) -> UpstreamResponse:
        if method == "POST" and not _find_proxy(upstream.url):
            return await self._pool_for(upstream).post(url, headers, body)
        client = self._client_for(upstream)
        sent = client.build_request(method, httpx.URL(url), headers=headers, content=body or None)
        return _HttpxResponse(await client.send(sent, stream=True))

    def _pool_for(self, upstream: Upstream) -> ConnectionPool:
        pool = self._pools.get(upstream.name)
        if pool is None:
            pool = self._pools[upstream.name] = ConnectionPool(
                upstream.url,
                connect_timeout=self._settings.connect_timeout,
                answer_timeout=self._settings.answer_timeout,
            )
        return pool

    def _client_for(self, upstream: Upstream) -> httpx.AsyncClient:
        client = self._clients.get(upstream.name)
        if client is None:
            settings = self._settings
            client = self._clients[upstream.name] = httpx.AsyncClient(
                follow_redirects=False,
                verify=choose_tls(upstream.url),
                trust_env=not is_loopback_url(upstream.url),
                timeout=httpx.Timeout(settings.answer_timeout, connect=settings.connect_timeout),
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
            )
        return client

    async def read_pieces(self, response: UpstreamResponse) -> AsyncIterator[bytes]:
        """The answer as it arrives. BodyTooLarge if it never ends."""
        size = 0
        async for piece in response.read_pieces():
            size += len(piece)
            if size > self._settings.max_answer:
                raise BodyTooLarge
            yield piece

    async def read_failure(self, response: UpstreamResponse) -> bytes:
        """The body of an error, as far as it arrives, and not more than a megabyte."""
        body = bytearray()
        with suppress(httpx.HTTPError):
            async for piece in response.read_pieces():
                body += piece
                if len(body) > _MAX_ERROR_BYTES:
                    break
        return bytes(body[:_MAX_ERROR_BYTES])


class _HttpxResponse:
    """An answer that httpx reads."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self.status_code = response.status_code
        self.raw_headers: RawHeaders = list(response.headers.raw)

    def read_pieces(self) -> AsyncIterator[bytes]:
        return self._response.aiter_raw()

    async def close(self) -> None:
        await self._response.aclose()


@cache
def _find_proxy(url: str) -> bool:
    """Whether the environment names a proxy for this address. One on this machine is asked without."""
    parts = urlsplit(url)
    names = getproxies()
    is_named = bool(names.get(parts.scheme) or names.get("all"))
    return is_named and not is_loopback_url(url) and not proxy_bypass(parts.netloc)
