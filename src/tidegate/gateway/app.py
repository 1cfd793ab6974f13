"""The gateway as an ASGI application.

    client -> gateway -> upstream

A request is logged before it is forwarded, and the answer before its last event is passed on: that is what the gateway
acknowledges. If a client hangs up, the upstream is cancelled, and what had arrived is kept.
"""

import asyncio
import hmac
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from hashlib import sha256
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import httpx

from tidegate.core.errors import BadInput, BadRequest, GiveUp, TidegateError, TooSmall
from tidegate.datafolder.data_folder import DataFolder
from tidegate.gateway.answer_copy import AnswerCopy
from tidegate.gateway.client_answer import ClientAnswer, GatewayRefusal, OpenResponse, OwnPage
from tidegate.gateway.conversations import Conversation, Conversations
from tidegate.gateway.http_body import (
    BodyTooLarge,
    ClientGone,
    RawHeaders,
    Receive,
    Send,
    answer_headers,
    decompress,
    forward_headers,
    read_body,
)
from tidegate.gateway.managed_request import ClientRequest, read_client_request, write_request
from tidegate.gateway.metrics import Metrics
from tidegate.gateway.routing import Route, find_client_id, find_id_in_body, find_route
from tidegate.gateway.settings import GatewaySettings, Upstream, complete_upstreams, is_loopback
from tidegate.models.errors.classification import classify_response
from tidegate.models.http.endpoints import choose_tls, is_loopback_url
from tidegate.models.token_counters import create_counter
from tidegate.session.following import FollowedRequest, Shown
from tidegate.store.errors import SessionNotFound
from tidegate.wire.splicing.units import HostUnit
from tidegate.wire.splicing.writer import ShownUnit, write_messages
from tidegate.wire.usage import read_usage

_KEY_HEADERS: Final = ("x-api-key", "authorization", "x-goog-api-key", "api-key")
_MAX_ERROR_BYTES: Final = 1_000_000
LogLine = Callable[[str], None]


class _Request(NamedTuple):
    """A request as it came in, with its body read."""

    route: Route
    method: str
    query: bytes
    headers: dict[str, str]
    raw_headers: RawHeaders
    body: bytes
    scope: str


class _Exchange:
    """A managed request on its way: the conversation, the view that was sent, and whether the answer is logged."""

    def __init__(self, conversation: Conversation, client: ClientRequest, followed: FollowedRequest[HostUnit]) -> None:
        self.conversation = conversation
        self.client = client
        self.followed = followed
        self.is_recorded = False
        self.has_usage = False


class Gateway:
    """An ASGI application. `log_line` gets one line per request, without content and without keys."""

    def __init__(self, settings: GatewaySettings, data: DataFolder, log_line: LogLine = lambda line: None) -> None:
        self._settings = settings
        self._data = data
        self._log_line = log_line
        self._upstreams = complete_upstreams(settings.upstreams)
        self._clients: dict[str, httpx.AsyncClient] = {}
        self._counted_models: set[str] = set()
        self.metrics = Metrics()
        self._conversations = Conversations(data, settings, self.metrics)

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)
        elif scope["type"] == "http":
            await self._handle(scope, receive, send)

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def close(self) -> None:
        for client in self._clients.values():
            await client.aclose()
        self._clients.clear()
        for failure in self._conversations.close():
            self._log_line(f"closing a session failed: {type(failure).__name__}")

    # --- one request ----------------------------------------------------------------------------------------------

    async def _handle(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        started, answer = time.monotonic(), ClientAnswer(send)
        self.metrics.running_requests += 1
        label = "none"
        try:
            request = await self._read_request(scope, receive)
            label = request.route.dialect or "proxy"
            await self._run_until_disconnect(self._dispatch(request, answer), receive)
        except GatewayRefusal as own:
            await answer.send_json(own.status, {"type": "error", "error": {"type": own.kind, "message": own.text}})
        except OwnPage as page:
            kind = b"text/plain; version=0.0.4; charset=utf-8"
            await answer.send_whole(200, [(b"content-type", kind)], page.text.encode())
        except ClientGone:
            answer.status = answer.status or 499
        finally:
            self.metrics.running_requests -= 1
            self.metrics.count("requests", dialect=label, status=str(answer.status))
            took = (time.monotonic() - started) * 1000
            path = scope["path"][:200].encode("ascii", "backslashreplace").decode()
            self._log_line(f"{scope['method']} {path} {answer.status} {answer.sent}B {took:.0f}ms")

    async def _run_until_disconnect(self, work: Any, receive: Receive) -> None:
        """Run the request; cancel it when the client hangs up."""
        task = asyncio.ensure_future(work)

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            task.cancel("the client is gone")

        watcher = asyncio.ensure_future(watch())
        try:
            await task
        except asyncio.CancelledError:
            if not watcher.done():
                task.cancel()
                raise
            raise ClientGone from None
        finally:
            watcher.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await watcher

    async def _read_request(self, scope: dict[str, Any], receive: Receive) -> _Request:
        raw_headers: RawHeaders = scope["headers"]
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in raw_headers}
        self._check_host(headers)
        path = scope.get("raw_path", b"").decode("latin-1").partition("?")[0] or scope["path"]
        if sum(len(name) + len(value) for name, value in raw_headers) > self._settings.max_header_bytes:
            raise GatewayRefusal(431, "invalid_request_error", "The headers are too large.")
        if path == "/healthz":
            raise OwnPage("ok\n")
        route = find_route(scope["method"], path, headers, self._upstreams)
        token = self._check_token(headers, route.upstream)
        if path == "/metrics":
            raise OwnPage(self.metrics.render())
        if headers.get("upgrade", "").lower() == "websocket":
            raise GatewayRefusal(426, "invalid_request_error", "WebSocket is not supported; use HTTP with SSE.")
        try:
            body = await read_body(receive, self._settings.max_body, self._settings.body_timeout)
        except BodyTooLarge:
            text = f"The request has more than {self._settings.max_body:,} bytes."
            raise GatewayRefusal(413, "request_too_large", text) from None
        except TimeoutError:
            raise GatewayRefusal(408, "invalid_request_error", "The request did not arrive in time.") from None
        scope_name = f"t{sha256(token.encode()).hexdigest()[:8]}-" if token else ""
        return _Request(route, scope["method"], scope["query_string"], headers, raw_headers, body, scope_name)

    def _check_host(self, headers: dict[str, str]) -> None:
        """Without a token only this machine may ask, and no web page that points its own name at this machine."""
        name = urlsplit(f"//{headers.get('host', '')}").hostname or ""
        if not self._settings.tokens and name and not is_loopback(name) and name != self._settings.host:
            raise GatewayRefusal(
                403, "permission_error", "Address the gateway as localhost or 127.0.0.1, or set a token."
            )

    def _check_token(self, headers: dict[str, str], upstream: Upstream) -> str:
        """The token of the client. The client's key header may carry it only if the gateway has the upstream's key."""
        if not self._settings.tokens:
            return ""
        given = [headers.get("x-tidegate-token", "")]
        if upstream.key:
            given += [headers.get(name, "").removeprefix("Bearer ") for name in _KEY_HEADERS]
        for shown in given:
            for token in self._settings.tokens:
                if hmac.compare_digest(shown.encode(), token.encode()):
                    return token
        raise GatewayRefusal(401, "authentication_error", "The gateway wants its token in the header x-tidegate-token.")

    async def _dispatch(self, request: _Request, answer: ClientAnswer) -> None:
        route = request.route
        client = self._read_client_request(request) if route.handling != "proxy" else None
        if client is None:
            await self._proxy(request, answer, request.body)
        elif route.handling == "count":
            await self._proxy(request, answer, self._write_preview(request, client))
        else:
            await self._manage(request, client, answer)

    def _read_client_request(self, request: _Request) -> ClientRequest | None:
        encoding = request.headers.get("content-encoding", "")
        try:
            text = decompress(request.body, encoding, self._settings.max_body) if encoding else request.body
        except BodyTooLarge:
            words = f"The request has more than {self._settings.max_body:,} bytes."
            raise GatewayRefusal(413, "request_too_large", words) from None
        except BadInput as bad:
            raise GatewayRefusal(400, "invalid_request_error", str(bad)) from None
        client = read_client_request(request.route.dialect, text, request.route.model)
        return None if client is None or client.host.reason or not client.items else client

    # --- managed requests -----------------------------------------------------------------------------------------

    def _find_conversation(
        self, request: _Request, client: ClientRequest, *, create: bool = True
    ) -> Conversation | None:
        named = find_client_id(request.headers, request.route.session)
        if not named.name and (own := find_id_in_body(client.body)):
            named = named._replace(client="claude", name=f"claude-{own}")
        return self._conversations.find(
            named,
            request.scope,
            client.host.model,
            client.dialect,
            client.items,
            has_tools=bool(client.host.tools),
            create=create,
        )

    def _write_preview(self, request: _Request, client: ClientRequest) -> bytes:
        """A request to count tokens, for the view that would be sent. Nothing is logged."""
        try:
            conversation = self._find_conversation(request, client, create=False)
            shown = conversation.following.preview(client.items) if conversation else None
            if shown is not None and any(each.state != "kept" for each in shown):
                return write_messages(client.dialect, client.text, _to_units(shown), client.host.fixed_items)
        except TidegateError as failure:
            self._log_line(f"counting for the view failed: {type(failure).__name__}")
        return client.text

    async def _manage(self, request: _Request, client: ClientRequest, answer: ClientAnswer) -> None:
        exchange = await self._prepare(request, client)
        if exchange is None:
            await self._proxy(request, answer, request.body)
            return
        exchange.conversation.users += 1
        try:
            await self._exchange(request, exchange, answer)
        finally:
            exchange.conversation.users -= 1

    async def _prepare(self, request: _Request, client: ClientRequest) -> _Exchange | None:
        """Log the request and compute its view. None: forward it unmanaged."""
        model = client.host.model
        if model not in self._counted_models:  # loading a vocabulary takes a while: other requests go on meanwhile
            await asyncio.to_thread(_load_counter, model)
            self._counted_models.add(model)
        try:
            conversation = self._find_conversation(request, client)
            if conversation is None:
                return None
            conversation.users += 1
            try:
                followed = await conversation.following.prepare_async(client.items, fixed_part=client.fixed_part)
            except SessionNotFound:
                self._conversations.drop(conversation)
                raise
            finally:
                conversation.users -= 1
        except TooSmall as small:
            self._log_line(f"forwarded unmanaged: {small.args[0]}")
            return None
        except (TidegateError, OSError) as failure:
            self._log_line(f"the request was not logged ({type(failure).__name__}); see `tidegate doctor`")
            if self._settings.on_store_failure == "refuse":
                text = "The gateway cannot log this request, and is set to refuse what it cannot log."
                raise GatewayRefusal(503, "api_error", text) from failure
            self.metrics.count("unlogged_requests")
            return None
        if followed.branched:
            self.metrics.count("branches")
        return _Exchange(conversation, client, followed)

    async def _exchange(self, request: _Request, exchange: _Exchange, answer: ClientAnswer) -> None:
        """Send the view; if the upstream finds it too long, shrink it and send it again."""
        while True:
            body = self._write_body(request, exchange)
            async with await self._send(request, body) as response:
                failure: bytes | None = None
                if response.status_code >= 400:
                    failure = await _read_bounded(response)
                    if self._shrink(exchange, response.status_code, failure, dict(response.headers)):
                        continue
                    await answer.send_whole(response.status_code, answer_headers(response.headers.raw), failure)
                    return
                if await self._pass_on(exchange, response, answer):
                    return

    def _write_body(self, request: _Request, exchange: _Exchange) -> bytes:
        session, client = exchange.conversation.following.session, exchange.client
        try:
            text = write_request(client, exchange.followed, session.window)
        except BadRequest as defect:
            self.metrics.count("defects", dialect=client.dialect)
            self._log_line(f"a defect: {defect.args[0]}")
            return request.body
        if text == client.text:
            return request.body
        self.metrics.count("edited_requests", dialect=client.dialect)
        return text

    def _shrink(self, exchange: _Exchange, status: int, body: bytes, headers: dict[str, str]) -> bool:
        """Whether the request was refused for its length, and is shorter now."""
        error = classify_response(status, body, headers)
        return error.kind == "overflow" and self._shrink_for(exchange, error.window, error.prompt_tokens)

    def _shrink_for(self, exchange: _Exchange, window: int | None, tokens: int | None) -> bool:
        following = exchange.conversation.following
        try:
            following.session.recovery.learn_limits(window, tokens)
            if window:
                self._conversations.learn_window(exchange.client.host.model, window)
            exchange.followed = following.shrink(exchange.client.items)
        except (GiveUp, TooSmall, OSError) as failure:
            self._log_line(f"the upstream refused the request for its length: {type(failure).__name__}")
            return False
        self.metrics.count("overflows", dialect=exchange.client.dialect)
        return True

    async def _pass_on(self, exchange: _Exchange, response: httpx.Response, answer: ClientAnswer) -> bool:
        """Pass on an answer while a copy is assembled. False if it has to be asked for again, shorter."""
        is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
        copy = AnswerCopy(exchange.client.dialect, is_stream=is_stream)
        held: list[bytes] = []
        try:
            async for piece in self._pieces(response):
                copy.feed(piece)
                if not answer.status:
                    held.append(piece)
                    if copy.error is not None and copy.error.kind == "overflow":
                        error = copy.error
                        if self._shrink_for(exchange, error.window, error.prompt_tokens):
                            return False
                    if not is_stream or not (copy.has_begun or copy.error):
                        continue
                    await answer.start(response.status_code, answer_headers(response.headers.raw))
                    piece = b"".join(held)
                await self._record_if_whole(exchange, copy)
                await answer.send_piece(piece)
            copy.end()
            await self._record_if_whole(exchange, copy)
        except (httpx.HTTPError, TimeoutError, BodyTooLarge) as failure:
            self._log_line(f"the upstream's answer broke off: {type(failure).__name__}")
            if not answer.status:
                raise GatewayRefusal(502, "api_error", "The upstream's answer broke off.") from None
            answer.is_broken = True
        finally:
            await asyncio.shield(self._record_rest(exchange, copy))
        if not answer.status:
            await answer.send_whole(response.status_code, answer_headers(response.headers.raw), b"".join(held))
        else:
            await answer.finish()
        return True

    async def _record_if_whole(self, exchange: _Exchange, copy: AnswerCopy) -> None:
        """Log the answer as soon as it is whole, before its last event is passed on."""
        if exchange.is_recorded or not copy.is_whole:
            return
        try:
            reply, usage = copy.read()
        except TidegateError:
            return
        exchange.is_recorded = True
        exchange.has_usage = bool(usage)
        try:
            await exchange.conversation.following.record_reply_async(exchange.followed, reply, usage)
        except (TidegateError, OSError) as failure:
            self._log_line(f"the answer was not logged ({type(failure).__name__}); see `tidegate doctor`")
            self.metrics.count("unlogged_requests")
        self._count_usage(usage)

    async def _record_rest(self, exchange: _Exchange, copy: AnswerCopy) -> None:
        """Log what is left at the end of a stream: an answer that was cut off, or a usage that came last."""
        partial = None if exchange.is_recorded else copy.read_partial()
        usage = copy.read_usage() if exchange.is_recorded and not exchange.has_usage else {}
        if partial is None and not usage:
            return
        exchange.is_recorded = exchange.has_usage = True
        with suppress(TidegateError, OSError):
            await exchange.conversation.following.record_reply_async(
                exchange.followed, partial, usage, partial=partial is not None
            )
        self._count_usage(usage)

    def _count_usage(self, usage: dict[str, Any]) -> None:
        read = read_usage(usage)
        self.metrics.count("input_tokens", read.input_tokens)
        self.metrics.count("output_tokens", read.output_tokens)

    # --- the upstream ---------------------------------------------------------------------------------------------

    async def _proxy(self, request: _Request, answer: ClientAnswer, body: bytes) -> None:
        """Forward a request unmanaged and pass on the answer as it arrives."""
        async with await self._send(request, body) as response:
            await answer.start(response.status_code, answer_headers(response.headers.raw))
            try:
                async for piece in self._pieces(response):
                    await answer.send_piece(piece)
            except (httpx.HTTPError, TimeoutError, BodyTooLarge) as failure:
                self._log_line(f"the upstream's answer broke off: {type(failure).__name__}")
                answer.is_broken = True
            await answer.finish()

    async def _send(self, request: _Request, body: bytes) -> OpenResponse:
        upstream = request.route.upstream
        without = ["content-encoding"] if body is not request.body else []
        headers = forward_headers(request.raw_headers, without=[*without, *(_KEY_HEADERS if upstream.key else ())])
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

    async def _pieces(self, response: httpx.Response) -> AsyncIterator[bytes]:
        size = 0
        async for piece in response.aiter_raw():
            size += len(piece)
            if size > self._settings.max_answer:
                raise BodyTooLarge
            yield piece


def _load_counter(model: str) -> None:
    create_counter(model).count_text("load it")


def _to_units(shown: list[Shown[HostUnit]]) -> list[ShownUnit]:
    return [
        ShownUnit(each.item.host if each.item else None, None if each.state == "kept" else each.message, each.signed)
        for each in shown
    ]


async def _read_bounded(response: httpx.Response) -> bytes:
    body = bytearray()
    with suppress(httpx.HTTPError):
        async for piece in response.aiter_raw():
            body += piece
            if len(body) > _MAX_ERROR_BYTES:
                break
    return bytes(body[:_MAX_ERROR_BYTES])
