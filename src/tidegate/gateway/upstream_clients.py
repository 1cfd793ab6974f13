"""Sending requests to the upstreams: one HTTP client each, with limits on time and size."""

from collections.abc import AsyncIterator, Callable
from typing import Final, NamedTuple

import httpx

from tidegate.gateway.client_answer import GatewayRefusal, OpenResponse
from tidegate.gateway.http_body import BodyTooLarge, RawHeaders, forward_headers
from tidegate.gateway.routing import Route
from tidegate.gateway.settings import GatewaySettings, Upstream
from tidegate.models.http.endpoints import choose_tls, is_loopback_url

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
    def __init__(self, settings: GatewaySettings, log_line: Callable[[str], None]) -> None:
        self._settings = settings
        self._log_line = log_line
        self._clients: dict[str, httpx.AsyncClient] = {}

    async def close(self) -> None:
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
        url = httpx.URL(request.route.path + query.decode("latin-1"))
        client = self._client_for(upstream)
        sent = client.build_request(request.method, url, headers=headers, content=body or None)
        try:
            response = await client.send(sent, stream=True)
        except (httpx.HTTPError, OSError) as failure:
            self._log_line(f"no answer from upstream {upstream.name}: {type(failure).__name__}")
            text = f"The upstream {upstream.name} did not answer ({type(failure).__name__})."
            raise GatewayRefusal(502, "api_error", text) from None
        if 300 <= response.status_code < 400:
            await response.aclose()
            raise GatewayRefusal(
                502, "api_error", f"The upstream {upstream.name} answered with a redirect; none is followed."
            )
        return OpenResponse(response)

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

    async def read_pieces(self, response: httpx.Response) -> AsyncIterator[bytes]:
        """The answer as it arrives. BodyTooLarge if it never ends."""
        size = 0
        async for piece in response.aiter_raw():
            size += len(piece)
            if size > self._settings.max_answer:
                raise BodyTooLarge
            yield piece
