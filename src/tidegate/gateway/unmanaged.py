"""Requests that are forwarded without a view: the client's own bytes, as far as these may be sent.

No view fits, the store does not answer, or the request belongs to no session. If the own request exceeds the window, it
is sent without its oldest messages; thinking that is bound to a view is left out (`bound_thinking.py`).
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from tidegate.core.errors import TidegateError, TooSmall
from tidegate.core.notes import SentUnmanaged
from tidegate.gateway.bound_thinking import BoundThinking
from tidegate.gateway.conversations import Conversation
from tidegate.gateway.http_messages import GatewayRefusal
from tidegate.gateway.metrics import Metrics
from tidegate.gateway.settings import GatewaySettings
from tidegate.gateway.store_gate import StoreGate
from tidegate.gateway.upstream_clients import IncomingRequest
from tidegate.gateway.windows import UpstreamWindows
from tidegate.session.guarded_request import write_guarded
from tidegate.session.managed_request import ClientRequest


class UnmanagedRequests:
    def __init__(
        self,
        settings: GatewaySettings,
        gate: StoreGate,
        windows: UpstreamWindows,
        thinking: BoundThinking,
        metrics: Metrics,
        log_line: Callable[[str], None],
        note_once: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._gate = gate
        self._windows = windows
        self._thinking = thinking
        self._metrics = metrics
        self._log_line = log_line
        self._note_once = note_once

    def write_side_request(
        self, request: IncomingRequest, own: ClientRequest, conversation: Conversation | None
    ) -> bytes:
        """A request without tools that no session logs. Its thinking may still be that of the client's conversation."""
        self._metrics.count("side_requests", dialect=own.dialect)
        return request.body if conversation is None else self._clean(request, own, conversation, own.text)

    async def write_after(
        self,
        failure: TidegateError | OSError,
        request: IncomingRequest,
        own: ClientRequest,
        conversation: Conversation | None,
    ) -> bytes:
        """What is forwarded after a failure to find the session of a request, to log it or to make it fit.

        GatewayRefusal if the settings say that a request which cannot be logged is refused.
        """
        if isinstance(failure, TooSmall):
            await self._note(conversation, own, failure)
            return self._clean(request, own, conversation, own.text)
        self._log_line(f"the request was not logged ({type(failure).__name__}); see `tidegate doctor`")
        if self._settings.on_store_failure == "refuse":
            words = "The gateway cannot log this request, and is set to refuse what it cannot log."
            raise GatewayRefusal(503, "api_error", words) from failure
        self._metrics.count("unlogged_requests")
        window = self._windows.find_without_store(request, own.host.model)
        text = await self.shorten(own, window, conversation) or own.text
        return self._clean(request, own, conversation, text)

    async def shorten(
        self, client: ClientRequest, window: int | None, conversation: Conversation | None
    ) -> bytes | None:
        """The client's own request, shortened by the guard alone; None if it fits, or if the guard cannot help."""
        if window is None or len(client.text) <= window or client.host.previous_id:
            return None
        try:
            following = conversation.following if conversation is not None else None
            text = await asyncio.to_thread(write_guarded, client, window, following)
        except (TidegateError, AssertionError) as failure:
            self._log_line(f"the client's own request is sent, which exceeds the window: {type(failure).__name__}")
            return None
        if text == client.text:
            return None
        self._metrics.count("guarded_own_requests", dialect=client.dialect)
        self._log_line("the client's own request exceeds the window: it is sent without its oldest messages")
        return text

    async def _note(self, conversation: Conversation | None, client: ClientRequest, small: TooSmall) -> None:
        """Log that this request is sent unmanaged, unless the one before was for the same reason."""
        why = str(small.args[0])
        self._log_line(f"forwarded unmanaged: {why}")
        if not self._metrics.read("unmanaged_requests"):
            self._note_once(f"{why} Such requests go to the provider as they are. {small.remedy}")
        self._metrics.count("unmanaged_requests", dialect=client.dialect)
        following = conversation.following if conversation is not None else None
        if following is None or following.unmanaged_reason == why:
            return
        following.unmanaged_reason, session = why, following.session
        with suppress(TidegateError, OSError):
            await self._gate.wait(session.call_async, session.history.append_note, SentUnmanaged(why))

    def _clean(
        self, request: IncomingRequest, own: ClientRequest, conversation: Conversation | None, text: bytes
    ) -> bytes:
        """The client's own request, or what the guard made of it, as it may be sent unmanaged."""
        text = self._thinking.clean(own, conversation, text)
        return request.body if text == own.text else text
