"""The gateway as an ASGI application.

    client -> gateway -> upstream

A request is logged before it is forwarded, and the answer before its last event is passed on: that is what the gateway
acknowledges. If a client hangs up, the upstream is cancelled, and what had arrived is kept.

This file follows the course of a managed request from top to bottom: read it (`_read_request`), find its session
(`_find_session`), log what is new and make it fit (`_log_and_fit`), write and send it (`_exchange`), pass the answer on
(`_pass_on`) and record it (`_record_if_whole`).
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple, NoReturn
from urllib.parse import quote

from tidegate.core.errors import BadInput, BadRequest, TidegateError
from tidegate.core.notes import CacheMissReason, SentUnmanaged
from tidegate.core.text.terminal_text import clean_line
from tidegate.datafolder.data_folder import DataFolder
from tidegate.gateway.access import (
    check_host,
    check_sender,
    check_token,
    hide_token,
    preflight_headers,
    split_token,
)
from tidegate.gateway.bound_thinking import BoundThinking
from tidegate.gateway.callers import SINGLE_CALLER, Caller, identify_caller, read_secret
from tidegate.gateway.conversations import Conversation, Conversations, MakeWatcher, SessionContinuation
from tidegate.gateway.exchange import Exchange, UpstreamFailure
from tidegate.gateway.hidden_recall import RECALL_NAME, HiddenRecall, offer_recall, restore_hidden_exchanges
from tidegate.gateway.http_client import HttpAnswer, UpstreamError
from tidegate.gateway.http_messages import (
    BodyTooLarge,
    ClientAnswer,
    ClientGone,
    GatewayRefusal,
    OwnAnswer,
    Receive,
    Send,
    answer_headers,
    decompress,
    read_body,
    read_headers,
)
from tidegate.gateway.metrics import ForwardedRequest, Metrics
from tidegate.gateway.page import Page, SessionActivity, is_page_path, read_page_request
from tidegate.gateway.refusals import Refusals
from tidegate.gateway.response_ids import ResponseIds
from tidegate.gateway.routing import find_client_id, find_id_in_body, find_route
from tidegate.gateway.session_search import SearchedRequest, SessionSearch
from tidegate.gateway.settings import GatewaySettings, list_upstreams, scope_of_token
from tidegate.gateway.state_notes import AnsweredRequest, GatewayNotes
from tidegate.gateway.store_gate import StoreGate
from tidegate.gateway.unmanaged import UnmanagedRequests
from tidegate.gateway.upstream_clients import IncomingRequest, UpstreamClients, split_first_event
from tidegate.gateway.windows import UpstreamWindows
from tidegate.models.token_counters import create_counter
from tidegate.session.answer_copy import AnswerCopy
from tidegate.session.following import FollowedRequest, FollowingSession
from tidegate.session.managed_request import ClientRequest, ClientRequestReader, write_request, write_view
from tidegate.session.request_report import has_guard_acted, list_repairs
from tidegate.session.session import Session
from tidegate.store.errors import SessionNotFound
from tidegate.wire.answers import read_usage
from tidegate.wire.splicing.units import HostUnit

LogLine = Callable[[str], None]
_PLAIN_TEXT: Final = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")
_MAX_NOTICES: Final = 20
WatchRequest = Callable[[ForwardedRequest], None]


class _SessionMatch(NamedTuple):
    """The session of a request; the request, with what is before a stored answer that it names."""

    conversation: Conversation
    own: ClientRequest
    searched: SearchedRequest


class Gateway:
    """An ASGI application. `log_line` gets one line per request, without content and without keys.

    `watch` gets every managed request; what `make_watcher` returns for a session gets its events. `clock` returns the
    seconds since 1970, by which learned windows expire. `notices` are lines for the user that are said once.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        data: DataFolder,
        log_line: LogLine = lambda line: None,
        watch: WatchRequest | None = None,
        make_watcher: MakeWatcher | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._watch = watch
        self._data = data
        self.log_line = log_line
        self._upstreams = list_upstreams(settings)
        self._upstream_clients = UpstreamClients(settings, log_line)
        self._reader = ClientRequestReader(settings.open_sessions)
        self._counted_models: set[str] = set()
        self.metrics = Metrics()
        self.activity = SessionActivity()
        self.page: Page | None = None
        self._gate = StoreGate(data.store, settings.store_timeout, settings.store_check_timeout, self.metrics, log_line)
        self._conversations = Conversations(data, settings, self._gate, self.metrics, self.activity, make_watcher)
        self._thinking = BoundThinking(self.metrics, log_line)
        self._notes = GatewayNotes(
            settings, self._upstream_clients, self._conversations, self._gate, self.metrics, log_line
        )
        self._continuing = (
            SessionContinuation(settings.continued, data.mask, self._note_once) if settings.continued else None
        )
        self._search = SessionSearch(data, self._conversations, self._gate)
        self._responses = ResponseIds(
            data.state_folder, self._conversations, self._gate, self.activity, self._note_once
        )
        self._windows = UpstreamWindows(settings, data.state_folder, self._gate, log_line, self._note_once, clock)
        self.notices: list[str] = []
        self._unmanaged = UnmanagedRequests(
            settings, self._gate, self._windows, self._thinking, self.metrics, log_line, self._note_once
        )
        self._refusals = Refusals(self._windows, self._thinking, self._gate, self.metrics, log_line)
        self._caller_secret = b""
        self._is_offer_made = False

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

    @property
    def is_writing_notes(self) -> bool:
        """Whether a state note is being written."""
        return self._notes.is_writing

    async def close(self) -> None:
        await self._notes.close()
        await self._upstream_clients.close()
        for failure in await self._conversations.close():
            self.log_line(f"closing a session failed: {type(failure).__name__}")

    # --- one request ----------------------------------------------------------------------------------------------

    async def _handle(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        started, path, answer = time.monotonic(), _read_path(scope), ClientAnswer(send)
        self.metrics.running_requests += 1
        label = "none"
        try:
            if self.page is not None and is_page_path(scope["path"]):
                label = "page"
                await self._serve_page(self.page, scope, receive, answer)
            else:
                request = await self._read_request(scope, path, receive, answer)
                label = request.route.dialect or "proxy"
                await self._run_until_disconnect(self._dispatch(request, answer), receive)
        except GatewayRefusal as own:
            await answer.send_json(own.status, {"type": "error", "error": {"type": own.kind, "message": own.text}})
        except OwnAnswer as own:
            await answer.send_whole(own.status, own.headers, own.body)
        except ClientGone:
            answer.status = answer.status or 499
        finally:
            self.metrics.running_requests -= 1
            self.metrics.count("requests", dialect=label, status=str(answer.status))
            took = (time.monotonic() - started) * 1000
            shown_path = hide_token(self._settings, path)[:200]
            self.log_line(f"{scope['method']} {shown_path} {answer.status} {answer.sent}B {took:.0f}ms")

    async def _run_until_disconnect(self, work: Any, receive: Receive) -> None:
        """Run the request; cancel it when the client hangs up."""
        task = asyncio.current_task()
        assert task is not None
        is_gone = False

        async def watch() -> None:
            nonlocal is_gone
            while (await receive())["type"] != "http.disconnect":
                pass
            is_gone = True
            task.cancel("the client is gone")

        watcher = asyncio.ensure_future(watch())
        try:
            await work
        except asyncio.CancelledError:
            if not is_gone or task.uncancel():
                raise
            raise ClientGone from None
        finally:
            watcher.cancel()

    async def _serve_page(self, page: Page, scope: dict[str, Any], receive: Receive, answer: ClientAnswer) -> None:
        headers = self._read_headers(scope)
        check_host(self._settings, headers)
        request = await read_page_request(scope, headers, receive)
        await self._run_until_disconnect(page.answer(request, answer), receive)

    def _read_headers(self, scope: dict[str, Any]) -> dict[str, str]:
        if sum(len(name) + len(value) for name, value in scope["headers"]) > self._settings.max_header_bytes:
            raise GatewayRefusal(431, "invalid_request_error", "The headers are too large.")
        return read_headers(scope["headers"])

    async def _read_request(
        self, scope: dict[str, Any], sent_path: str, receive: Receive, answer: ClientAnswer
    ) -> IncomingRequest:
        headers = self._read_headers(scope)
        answer.own_headers = check_sender(self._settings, headers)
        if scope["method"] == "OPTIONS":
            raise OwnAnswer(204, preflight_headers(headers) if answer.own_headers else [])
        token_in_path, path = split_token(sent_path)
        if path == "/healthz":
            raise OwnAnswer(200, [_PLAIN_TEXT], b"ok\n")
        if path == "/readyz":
            await self._answer_readiness()
        route = find_route(scope["method"], path, headers, self._upstreams)
        client = find_client_id(headers, route.session)
        token = ""
        if self._settings.tokens or self._settings.client_token:
            # Elsewhere the key header has the key of the client, which is passed on.
            in_key_header = route.upstream.is_paid_here or path == "/metrics"
            token = check_token(self._settings, headers, token_in_path, in_key_header=in_key_header)
        if path == "/metrics":
            raise OwnAnswer(200, [_PLAIN_TEXT], self.metrics.render().encode())
        if headers.get("upgrade", "").lower() == "websocket":
            raise GatewayRefusal(426, "invalid_request_error", "WebSocket is not supported; use HTTP with SSE.")
        try:
            body = await read_body(receive, self._settings.max_body, self._settings.body_timeout)
        except BodyTooLarge:
            text = f"The request has more than {self._settings.max_body:,} bytes."
            raise GatewayRefusal(413, "request_too_large", text) from None
        except TimeoutError:
            raise GatewayRefusal(408, "invalid_request_error", "The request did not arrive in time.") from None
        own_scope = scope_of_token(token) if token else ""
        method, query, raw_headers = scope["method"], scope["query_string"], scope["headers"]
        return IncomingRequest(route, method, query, headers, raw_headers, body, own_scope, client)

    async def _answer_readiness(self) -> NoReturn:
        """Whether requests can be logged. `/healthz` only says that the process runs."""
        try:
            await self._gate.check()
        except TidegateError as failure:
            raise OwnAnswer(503, [_PLAIN_TEXT], f"not ready: {failure.args[0]}\n".encode()) from None
        raise OwnAnswer(200, [_PLAIN_TEXT], b"ready\n")

    async def _dispatch(self, request: IncomingRequest, answer: ClientAnswer) -> None:
        route = request.route
        client = self._read_client_request(request) if route.handling != "proxy" else None
        if client is None:
            await self._proxy(request, answer, request.body)
        elif route.handling == "count":
            await self._proxy(request, answer, await self._write_preview(request, client))
        else:
            await self._manage(request, client, answer)

    def _read_client_request(self, request: IncomingRequest) -> ClientRequest | None:
        encoding = request.headers.get("content-encoding", "")
        try:
            text = decompress(request.body, encoding, self._settings.max_body) if encoding else request.body
        except BodyTooLarge:
            words = f"The request has more than {self._settings.max_body:,} bytes."
            raise GatewayRefusal(413, "request_too_large", words) from None
        except BadInput as bad:
            raise GatewayRefusal(400, "invalid_request_error", str(bad)) from None
        name = request.client.name
        client = self._reader.read(request.route.dialect, text, request.route.model, name and request.scope + name)
        if client is not None and client.host.previous_id:
            return client  # managed if the log knows the answer that it continues
        if client is not None and client.host.reason:
            self.activity.note_passed_on(request.scope, client.host.reason)
            self._note_once(f"a request is passed on unmanaged and not logged: {client.host.reason}")
            return None
        return None if client is None or not client.items else client

    def _note_once(self, notice: str) -> None:
        if notice not in self.notices and len(self.notices) < _MAX_NOTICES:
            self.notices.append(notice)
            self.log_line(notice)

    # --- a managed request: find the session, follow, fit ---------------------------------------------------------

    async def _manage(self, request: IncomingRequest, client: ClientRequest, answer: ClientAnswer) -> None:
        """The course of a managed request: it is logged and made to fit, then sent, and its answer is passed on.

        Bytes are what is forwarded unmanaged instead.
        """
        match = await self._find_session(request, client)
        if isinstance(match, bytes):
            await self._proxy(request, answer, match)
            return
        with match.conversation.in_use():
            exchange = await self._log_and_fit(request, client, match)
            if not isinstance(exchange, bytes):
                await self._exchange(request, exchange, answer)
        if isinstance(exchange, bytes):
            await self._proxy(request, answer, exchange)
        else:
            self._conversations.start_reading_ahead(match.conversation)

    async def _find_session(self, request: IncomingRequest, client: ClientRequest) -> _SessionMatch | bytes:
        model = client.host.model
        if model not in self._counted_models:  # loading a vocabulary takes a while: other requests go on meanwhile
            await asyncio.to_thread(_load_counter, model)
            self._counted_models.add(model)
        try:
            searched = await self._search_for(request, client)
            if client.host.previous_id:
                conversation, own = await self._responses.find(request, client, searched)
            else:
                conversation, own = await self._search.find(searched), client
        except (TidegateError, OSError) as failure:
            return await self._unmanaged.write_after(failure, request, client, None)
        if conversation is None:
            return self._unmanaged.write_side_request(request, own, self._search.find_named(searched))
        return _SessionMatch(conversation, own, searched)

    async def _log_and_fit(
        self, request: IncomingRequest, original: ClientRequest, match: _SessionMatch
    ) -> Exchange | bytes:
        """Log the request and compute its view."""
        conversation, own, searched = match
        following, model = conversation.following, own.host.model
        try:
            self._thinking.refused.apply(following, request.route.upstream.name, model)
            window_key = await self._windows.choose(request, own.dialect, model, conversation, searched.window)
            client = await self._add_recall(conversation, own, searched)
            if self._continuing is not None:
                self._continuing.attach(conversation, request.client.own_id)
            followed = await self._follow(conversation, client)
            if self._thinking.changed_chains and self._thinking.continues_changed(own):
                followed = await self._discard_thinking(following, client)
        except (TidegateError, OSError) as failure:
            return await self._unmanaged.write_after(failure, request, own, conversation)
        recall = HiddenRecall(client.dialect) if client.offers_recall else None
        exchange = Exchange(conversation, client, followed, own, recall, window_key, original.text)
        following.unmanaged_reason = ""
        self._report(exchange)
        return exchange

    async def _search_for(self, request: IncomingRequest, client: ClientRequest) -> SearchedRequest:
        """What the search for the session needs to know of a request."""
        client_id = request.client
        if not client_id.name and (own := find_id_in_body(client.body)):
            client_id = client_id._replace(client="claude", name=f"claude-{own}")
        model = client.host.model
        return SearchedRequest(
            client_id,
            request.scope,
            SINGLE_CALLER if client_id.name else await self._identify_caller(request),
            model,
            client.dialect,
            client.items,
            bool(client.host.tools),
            self._settings.window_for(model),
        )

    async def _identify_caller(self, request: IncomingRequest) -> Caller:
        if self._settings.client_token:
            return SINGLE_CALLER
        if not self._caller_secret:
            self._caller_secret = await self._gate.run(read_secret, self._data.state_folder)
        return identify_caller(request.headers, request.query, self._caller_secret)

    async def _add_recall(
        self, conversation: Conversation, client: ClientRequest, searched: SearchedRequest
    ) -> ClientRequest:
        """The request with the hidden exchanges so far, and with the tool if it is switched on."""
        if not self._search.is_surely_callers(searched, conversation):
            return client
        following = conversation.following
        if client.chain is None and following.tree.has_hidden_calls:
            call = following.session.call_async
            client = await self._gate.wait(call, restore_hidden_exchanges, conversation, client)
        return self._offer_recall(client, following.session)

    def _offer_recall(self, client: ClientRequest, session: Session | None = None) -> ClientRequest:
        if self._settings.recall_tool:
            return client._replace(recall_name=self._settings.recall_tool if client.host.tools else "")
        if not (self._settings.recall and client.host.tools):
            return client
        if any(tool.name == RECALL_NAME for tool in client.host.tools):
            self._note_once(
                f"the client has a tool named {RECALL_NAME!r}, which is left to it: the model cannot read back what"
                " left the view. If it is tidegate's own, name it with --recall-tool"
            )
        return offer_recall(client, session.view.tools if session is not None else ())

    async def _follow(self, conversation: Conversation, client: ClientRequest) -> FollowedRequest[HostUnit]:
        """Log what is new in a request and compute the view."""
        prepare = conversation.following.prepare_async
        try:
            return await self._gate.wait(prepare, client.items, fixed_part=client.fixed_part)
        except SessionNotFound:
            self._conversations.drop(conversation)
            raise

    async def _discard_thinking(
        self, following: FollowingSession[HostUnit], client: ClientRequest
    ) -> FollowedRequest[HostUnit]:
        """Leave out all thinking so far, because an earlier request was sent unmanaged and changed."""
        return await self._gate.wait(following.session.call_async, following.discard_thinking, client.items)

    def _report(self, exchange: Exchange) -> None:
        """Say what a request lacks that the client sent, beyond what the policy's own rules left out."""
        followed, conversation = exchange.followed, exchange.conversation
        if followed.branched:
            self.metrics.count("branches")
        if followed.changed is not None or conversation.following.left_out_thinking:
            self._thinking.report(exchange)
        if not any(each.acted for each in followed.decisions):
            return
        if not self._is_offer_made:
            offer = self._notes.describe_offer(conversation, followed.tokens + followed.saved_tokens)
            if offer:
                self._is_offer_made = True
                self._note_once(offer)
        for repair in list_repairs(conversation.following.session):
            self.log_line(f"{clean_line(conversation.name)}: {repair}")
        if has_guard_acted(conversation.following.session):
            self.metrics.count("guarded_requests")
            self.log_line(f"the guard shortened the view of {clean_line(conversation.name)}")

    async def _write_preview(self, request: IncomingRequest, client: ClientRequest) -> bytes:
        """A request to count tokens, for the view that would be sent. Nothing is logged."""
        try:
            searched = await self._search_for(request, client)
            conversation = await self._search.find(searched, create=False)
            if conversation is None:
                return self._offer_recall(client).text
            with conversation.in_use():
                client = await self._add_recall(conversation, client, searched)
                view = conversation.following.preview(client.items)
            if view is not None and any(each.state != "kept" for each in view):
                return write_view(client, view)
        except TidegateError as failure:
            self.log_line(f"counting for the view failed: {type(failure).__name__}")
        return client.text

    # --- write and send -------------------------------------------------------------------------------------------

    async def _exchange(self, request: IncomingRequest, exchange: Exchange, answer: ClientAnswer) -> None:
        """Send the view; if the upstream finds it too long, shrink it and send it again. Hidden calls are answered."""
        while True:
            outgoing, body = await self._write_body(request, exchange)
            with await self._upstream_clients.send(outgoing, body) as response:
                if response.status >= 400:
                    body = await self._upstream_clients.read_failure(response)
                    failure = UpstreamFailure(response.status, response.headers, body)
                    if (final_failure := await self._refusals.find_next(exchange, failure)) is None:
                        continue
                    await self._pass_on_failure(answer, final_failure)
                    return
                if exchange.smaller_try is not None:
                    await self._refusals.note_accepted(exchange, exchange.smaller_try)
                if self._watch is not None and not exchange.is_watched:
                    exchange.is_watched = True  # a request with hidden calls is watched once
                    self._watch(_describe_sent(exchange))
                if await self._pass_on(exchange, response, answer):
                    return
            if exchange.recall is not None and exchange.recall.merged.goes_on:
                await self._continue(exchange, exchange.recall)

    async def _write_body(self, request: IncomingRequest, exchange: Exchange) -> tuple[IncomingRequest, bytes]:
        client, followed = exchange.client, exchange.followed
        is_view = True
        try:
            text = write_request(client, followed)
        except BadRequest as defect:
            is_view = False
            text = await self._write_fallback(exchange, defect)
        if exchange.dialect.stored_answers is not None:
            self._responses.note_sent(exchange, text, is_view=is_view)
        if exchange.thinking_refusals > 1:
            text = exchange.dialect.thinking.leave_out(text)
        if text not in (client.text, exchange.own.text):
            self.metrics.count("edited_requests", dialect=client.dialect)
        if followed.was_edited:
            request, text = self._thinking.add_net(request, client, exchange.conversation, text)
        exchange.sent_text, exchange.sent_request = text, request
        return request, request.body if text == exchange.received_text else text

    async def _write_fallback(self, exchange: Exchange, defect: BadRequest) -> bytes:
        """The client's own request, in place of a view that would break a rule of the provider."""
        client, followed = exchange.client, exchange.followed
        self.metrics.count("defects", dialect=client.dialect)
        self.log_line(f"a defect: {defect.args[0]}")
        exchange.notes.append(SentUnmanaged(f"a defect: {defect.args[0]}").pack())
        whole = followed.tokens + followed.saved_tokens
        window = followed.window if whole > (followed.window or whole) else None
        text = await self._unmanaged.shorten(client, window, exchange.conversation) or exchange.own.text
        return self._thinking.clean_fallback(exchange, text)

    async def _pass_on_failure(self, answer: ClientAnswer, failure: UpstreamFailure) -> None:
        if answer.status:  # the client already has the beginning of an answer with hidden calls
            self.log_line(f"the upstream refused to continue an answer: {failure.status}")
            answer.is_broken = True
            await answer.finish()
        await answer.send_whole(failure.status, answer_headers(failure.headers), failure.body)

    async def _continue(self, exchange: Exchange, recall: HiddenRecall) -> None:
        """Answer the hidden calls: the next answer of the upstream is the rest of this one."""
        conversation = exchange.conversation
        try:
            call, last_id = conversation.following.session.call_async, exchange.followed.last_id
            client = await self._gate.wait(call, recall.continue_request, conversation, exchange.client, last_id)
            if client is None:
                raise BadInput("A continued request cannot be read.", "Report this defect.")
            followed = await self._follow(conversation, client)
        except (TidegateError, OSError) as failure:
            self.log_line(f"an answer with hidden calls was not continued: {type(failure).__name__}")
            raise GatewayRefusal(502, "api_error", "The gateway could not continue an answer.") from failure
        self.metrics.count("recalls", dialect=client.dialect)
        exchange.start_round(client, followed)

    # --- pass the answer on, and record it -------------------------------------------------------------------------

    async def _pass_on(self, exchange: Exchange, response: HttpAnswer, answer: ClientAnswer) -> bool:
        """Pass on an answer while a copy is assembled. False if it has to be asked for again, shorter."""
        copy = AnswerCopy(exchange.dialect, is_stream=response.is_stream, request=exchange.sent_text)
        if exchange.stream is not None:
            exchange.stream.start(is_stream=response.is_stream)
        is_first, last = True, b""
        try:
            async for piece in self._upstream_clients.read_pieces(response):
                for part in split_first_event(piece) if is_first else (piece,):
                    if part and not await self._pass_on_part(exchange, copy, response, answer, part):
                        return False
                is_first = False
            copy.end()
            last = exchange.stream.end() if exchange.stream is not None else b""
            await self._record_if_whole(exchange, copy)
        except (UpstreamError, BodyTooLarge) as failure:
            self.log_line(f"the upstream's answer broke off: {failure}")
            if not answer.status:
                raise GatewayRefusal(502, "api_error", "The upstream's answer broke off.") from None
            answer.is_broken = True
        finally:
            if not (exchange.is_recorded and exchange.has_usage):
                await asyncio.shield(self._record_rest(exchange, copy))
        return await self._finish(exchange, response, answer, answer.take_held() + last)

    async def _pass_on_part(
        self,
        exchange: Exchange,
        copy: AnswerCopy,
        response: HttpAnswer,
        answer: ClientAnswer,
        part: bytes,
    ) -> bool:
        """Pass on what arrived of an answer, its last event after the log has the answer. False: ask again, shorter."""
        stream, before_end = exchange.stream, copy.feed(part)
        if not answer.status:
            error = copy.error
            if error is not None and error.kind == "overflow" and await self._refusals.shrink(exchange, error):
                answer.take_held()  # the client gets the next answer
                return False
            if not copy.is_stream or not (copy.has_begun or copy.error):
                await answer.send_piece(stream.feed(part) if stream is not None else part, waits=True)
                return True
            await answer.start(response.status, answer_headers(response.headers))
        words, ending = part[:before_end], part[before_end:]
        await answer.send_piece(stream.feed(words) if stream is not None else words)
        if stream is not None:
            ending = stream.feed(ending)  # says whether hidden calls follow, which the log needs
        await self._record_if_whole(exchange, copy)
        await answer.send_piece(ending, waits=response.is_at_end)
        return True

    async def _finish(self, exchange: Exchange, response: HttpAnswer, answer: ClientAnswer, last: bytes) -> bool:
        """Send the end of an answer. False if hidden calls have to be answered first."""
        if exchange.recall is not None and exchange.recall.merged.goes_on and not answer.is_broken:
            if exchange.recall.has_calls:
                await answer.send_piece(last if answer.status else b"")
                return False
            self.log_line("an answer broke off: its hidden calls cannot be read")
            if not answer.status:
                raise GatewayRefusal(502, "api_error", "The upstream's answer has calls that cannot be read.")
            answer.is_broken = True
        if not answer.status:
            await answer.send_whole(response.status, answer_headers(response.headers), last)
        else:
            await answer.finish(last)
        return True

    async def _record_if_whole(self, exchange: Exchange, copy: AnswerCopy) -> None:
        """Log the answer as soon as it is whole, before its last event is passed on."""
        if exchange.is_recorded or not copy.is_whole:
            return
        try:
            copied = copy.read()
        except TidegateError:
            return
        usage = copied.usage
        reply, notes = exchange.recall.take_answer(copied) if exchange.recall else (copied.message, [])
        exchange.is_recorded = True
        exchange.has_usage = bool(usage)
        if copy.dropped_thinking:
            self._thinking.report_dropped(exchange, copy.dropped_thinking)
        if copy.cache_miss_reason:
            exchange.notes.append(CacheMissReason(copy.cache_miss_reason).pack())
        has_id = exchange.dialect.stored_answers is not None
        response_notes = self._responses.make_notes(exchange, copy, copied) if has_id else []
        notes, exchange.notes = [*notes, *exchange.notes, *response_notes], []
        try:
            record, cleared = exchange.conversation.following.record_reply_async, copy.cleared_tokens
            await self._gate.wait(record, exchange.followed, reply, usage, notes=notes, cleared=cleared)
            if has_id:
                await self._responses.remember(exchange)
        except (TidegateError, OSError) as failure:
            self.log_line(f"the answer was not logged ({type(failure).__name__}); see `tidegate doctor`")
            if self._settings.on_store_failure == "refuse":  # without its last event, the client asks again
                words = "The gateway cannot log this answer, and is set to refuse what it cannot log."
                raise GatewayRefusal(503, "api_error", words) from failure
            self.metrics.count("unlogged_requests")
        tokens = self._count_usage(usage)
        await self._windows.take_accepted(exchange.window_key, tokens, exchange.followed.tokens)
        if self._settings.state_notes:
            self._start_state_note(exchange, turn_ended=not copied.asks_for_calls)

    def _start_state_note(self, exchange: Exchange, *, turn_ended: bool) -> None:
        """After an answer: have a state note written in the background if one is due."""
        request, followed = exchange.sent_request, exchange.followed
        if request is None or (exchange.recall is not None and exchange.recall.merged.goes_on):
            return
        size, last_id = followed.tokens, followed.last_id
        last = AnsweredRequest(request, exchange.sent_text, exchange.client, size, last_id, followed.birth)
        self._notes.start_if_due(exchange.conversation, last, turn_ended=turn_ended)

    async def _record_rest(self, exchange: Exchange, copy: AnswerCopy) -> None:
        """Log what is left at the end of a stream: an answer that was cut off, or a usage that came last."""
        partial = None if exchange.is_recorded else copy.read_partial()
        usage = copy.read_usage() if exchange.is_recorded and not exchange.has_usage else {}
        if partial is None and not usage:
            return
        exchange.is_recorded = exchange.has_usage = True
        if partial is not None and copy.dropped_thinking:
            self._thinking.report_dropped(exchange, copy.dropped_thinking)
        with suppress(TidegateError, OSError):
            record = exchange.conversation.following.record_reply_async
            await self._gate.wait(record, exchange.followed, partial, usage, partial=partial is not None)
        self._count_usage(usage)

    def _count_usage(self, usage: dict[str, Any]) -> int:
        """Count what an upstream reported. Return the input tokens."""
        read = read_usage(usage)
        self.metrics.count("input_tokens", read.input_tokens)
        self.metrics.count("output_tokens", read.output_tokens)
        return read.input_tokens

    # --- the upstream ---------------------------------------------------------------------------------------------

    async def _proxy(self, request: IncomingRequest, answer: ClientAnswer, body: bytes) -> None:
        """Forward a request unmanaged and pass on the answer as it arrives."""
        with await self._upstream_clients.send(request, body) as response:
            await answer.start(response.status, answer_headers(response.headers))
            try:
                async for piece in self._upstream_clients.read_pieces(response):
                    await answer.send_piece(piece)
            except (UpstreamError, BodyTooLarge) as failure:
                self.log_line(f"the upstream's answer broke off: {failure}")
                answer.is_broken = True
            await answer.finish()


def _describe_sent(exchange: Exchange) -> ForwardedRequest:
    conversation, followed = exchange.conversation, exchange.followed
    sizes = followed.tokens, followed.saved_tokens, followed.window
    return ForwardedRequest(conversation.name, conversation.parent, *sizes)


def _read_path(scope: dict[str, Any]) -> str:
    """The path as the client sent it, percent-encoded: it has no characters that could end a line."""
    return scope.get("raw_path", b"").decode("latin-1").partition("?")[0] or quote(scope["path"])


def _load_counter(model: str) -> None:
    create_counter(model).count_text("load it")
