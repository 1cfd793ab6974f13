"""Signed thinking on its way through the gateway: what is left out, what is asked for, and what upstreams refused.

The engine decides which thinking goes with a view (`core/thinking_walk.py`). Here is the rest: a request of the client
that is sent unmanaged must not carry thinking that was made under our view; and where a provider can be told to drop a
block in a wrong place instead of refusing the request, it is told so. That is a net: no block should be dropped.
"""

from collections.abc import Callable
from urllib.parse import urlsplit

from tidegate.gateway.conversations import Conversation
from tidegate.gateway.metrics import Metrics
from tidegate.gateway.upstream_clients import IncomingRequest
from tidegate.models.errors.classification import ProviderError
from tidegate.session.following import FollowedRequest
from tidegate.session.managed_request import ClientRequest, write_without_thinking
from tidegate.wire.anthropic.models import accepts_block_binding
from tidegate.wire.registry import get_dialect
from tidegate.wire.splicing.head import ask_to_drop_thinking
from tidegate.wire.splicing.units import HostUnit

_CONTROL_BETA = "thinking-binding-controls-2026-08-01"


class BoundThinking:
    def __init__(self, metrics: Metrics, log_line: Callable[[str], None]) -> None:
        self._metrics = metrics
        self._log_line = log_line
        self._refusing: set[tuple[str, str]] = set()
        """Upstreams and models that refused thinking after an edit."""

    def apply_known(self, conversation: Conversation, upstream: str, model: str) -> None:
        conversation.following.refuses_edited_thinking = (upstream, model) in self._refusing

    def take_refusal(
        self, conversation: Conversation, upstream: str, model: str, error: ProviderError, *, is_ours: bool
    ) -> bool:
        """Whether a request was refused for its thinking and can be sent again without any.

        `is_ours`: it carries something of ours. Else the client gets the error: it may know how to recover from it.
        """
        if error.kind != "reasoning_state" or not is_ours:
            return False
        self._refusing.add((upstream, model))
        conversation.following.refuses_edited_thinking = True
        self._metrics.count("refused_thinking")
        self._log_line(
            f"the upstream {upstream} refused the thinking of {model} after an edit;"
            " it is left out from now on, here and after every later edit"
        )
        return True

    def write_own_request(self, client: ClientRequest, conversation: Conversation | None) -> bytes | None:
        """The client's request for sending it unmanaged; None: as it is. `conversation` is None if it is not known."""
        if conversation is None:
            is_bound = get_dialect(client.dialect).binds_prefix(client.host.model)
        else:
            is_bound = conversation.following.binds_prefix and conversation.following.sent_anything_of_ours
        text = write_without_thinking(client) if is_bound else client.text
        if text == client.text:
            return None
        self._count_left_out()
        return text

    def add_net(
        self, request: IncomingRequest, client: ClientRequest, conversation: Conversation, text: bytes
    ) -> tuple[IncomingRequest, bytes]:
        """The request that tells the provider to drop misplaced thinking, from the first edited one on."""
        host = urlsplit(request.route.upstream.url).hostname or ""
        is_edited = conversation.following.session.view.first_edit_seq
        if client.dialect != "anthropic" or not is_edited or not accepts_block_binding(client.host.model, host):
            return request, text
        asking = ask_to_drop_thinking(text)
        if asking == text:
            return request, text
        betas = request.headers.get("anthropic-beta", "")
        value = ",".join(filter(None, [betas, _CONTROL_BETA])) if _CONTROL_BETA not in betas else betas
        headers = [pair for pair in request.raw_headers if pair[0].lower() != b"anthropic-beta"]
        return request._replace(raw_headers=[*headers, (b"anthropic-beta", value.encode())]), asking

    def report(self, conversation: Conversation, followed: FollowedRequest[HostUnit]) -> None:
        """Say what this request leaves out and why, as far as it is new."""
        left_out = followed.count_unsigned()
        if left_out > conversation.left_out_thinking:
            self._count_left_out()
            self._log_line(f"thinking of {left_out} messages is left out: what it was made from has been edited")
        conversation.left_out_thinking = left_out

    def report_dropped(self, places: int) -> None:
        """Say that the provider dropped thinking of a request."""
        self._metrics.count("dropped_thinking", places)
        self._log_line(f"the upstream dropped {places} blocks of thinking (input_transformations)")

    def _count_left_out(self) -> None:
        self._metrics.count("requests_with_thinking_left_out")
