"""Signed thinking on its way through the gateway: what is left out, what is asked for, and what upstreams refused.

The engine decides which thinking goes with a view (`core/thinking_walk.py`). Here is the rest: a request of the client
that is sent unmanaged must not carry thinking that was made under our view; and where a provider can be told to drop a
block in a wrong place instead of refusing the request, it is told so. That is a net: no block should be dropped.

If an unmanaged request was changed all the same, thinking of its answer is bound to what neither the client nor the log
has. The next request of that conversation that is managed leaves out all thinking so far.
"""

from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from tidegate.core.notes import ThinkingDropped
from tidegate.core.text.terminal_text import clean_line
from tidegate.gateway.conversations import Conversation
from tidegate.gateway.exchange import Exchange
from tidegate.gateway.metrics import Metrics
from tidegate.gateway.session_search import chain_keys
from tidegate.gateway.upstream_clients import IncomingRequest
from tidegate.session.guarded_request import leave_out_bound_thinking
from tidegate.session.managed_request import ClientRequest, read_client_request, write_without_thinking
from tidegate.session.request_report import note_left_out
from tidegate.session.signed_thinking import BETA_HEADER, RefusedThinking, allow_dropping
from tidegate.wire.registry import get_dialect

_MAX_CHANGED_CHAINS: Final = 1_000


class BoundThinking:
    def __init__(self, metrics: Metrics, log_line: Callable[[str], None]) -> None:
        self._metrics = metrics
        self._log_line = log_line
        self.refused = RefusedThinking()
        self.changed_chains: dict[str, None] = {}

    def take_refusal(self, exchange: Exchange) -> bool:
        """Whether a request that was refused for its thinking can be sent again without it.

        If it carries nothing of ours, the client gets the error: it may know how to recover from it.
        """
        most = 2 if get_dialect(exchange.client.dialect).thinking.is_demanded(exchange.client.body) else 1
        if exchange.sent_text == exchange.own.text or exchange.thinking_refusals >= most:
            return False
        exchange.thinking_refusals += 1
        upstream, model = exchange.window_key.upstream, exchange.window_key.model
        self.refused.note(exchange.conversation.following, upstream, model)
        self._metrics.count("refused_thinking")
        self._log_line(
            f"the upstream {upstream} refused the thinking of {clean_line(model)[:100]} after an edit;"
            " it is left out from now on, here and after every later edit"
        )
        return True

    def clean(self, client: ClientRequest, conversation: Conversation | None, text: bytes) -> bytes:
        """The client's request, or what the guard made of it, without thinking that is bound to our view.

        `conversation` is None if it is not known.
        """
        if conversation is not None:
            cleaned = leave_out_bound_thinking(client, conversation.following, text)
        elif get_dialect(client.dialect).binds_prefix(client.host.model):
            request = client if text == client.text else read_client_request(client.dialect, text, client.host.model)
            cleaned = write_without_thinking(request) if request is not None else text
        else:
            cleaned = text
        if cleaned != text:
            self._count_left_out()
        self._note_changed(client, cleaned)
        return cleaned

    def clean_fallback(self, exchange: Exchange, text: bytes) -> bytes:
        """The client's own request, in place of a view that cannot be sent. Its answer is logged like others."""
        exchange.followed = exchange.followed.answer_elsewhere()
        cleaned = leave_out_bound_thinking(exchange.own, exchange.conversation.following, text)
        if cleaned != text:
            self._count_left_out()
        return cleaned

    def _note_changed(self, client: ClientRequest, text: bytes) -> None:
        if text == client.text or not get_dialect(client.dialect).binds_prefix(client.host.model):
            return
        self.changed_chains[_chain(client)[-1]] = None
        while len(self.changed_chains) > _MAX_CHANGED_CHAINS:
            del self.changed_chains[next(iter(self.changed_chains))]

    def continues_changed(self, client: ClientRequest) -> bool:
        """Whether a request has an answer to a changed unmanaged one. It is said once."""
        chains = [chain for chain in _chain(client)[:-1] if chain in self.changed_chains]
        for chain in chains:
            del self.changed_chains[chain]
        return bool(chains)

    def add_net(
        self, request: IncomingRequest, client: ClientRequest, conversation: Conversation, text: bytes
    ) -> tuple[IncomingRequest, bytes]:
        """The request that tells the provider to drop misplaced thinking, from the first edited one on."""
        host = urlsplit(request.route.upstream.url).hostname or ""
        old_betas = request.headers.get(BETA_HEADER, "")
        asking, betas = allow_dropping(client, conversation.following, host, text, old_betas)
        if betas == old_betas:
            return request, asking
        headers = [pair for pair in request.raw_headers if pair[0].lower() != BETA_HEADER.encode()]
        return request._replace(raw_headers=[*headers, (BETA_HEADER.encode(), betas.encode())]), asking

    def report(self, exchange: Exchange) -> None:
        """Say what this request leaves out and why, as far as it is new."""
        note = note_left_out(exchange.conversation.following, exchange.followed)
        if note is not None:
            self._count_left_out()
            self._log_line(note.text)
            exchange.notes.append(note.pack())

    def report_dropped(self, exchange: Exchange, places: int) -> None:
        """Say that the provider dropped thinking of a request."""
        self._metrics.count("dropped_thinking", places)
        why = f"the upstream dropped {places} blocks of thinking (input_transformations)"
        self._log_line(why)
        exchange.notes.append(ThinkingDropped(why).pack())

    def _count_left_out(self) -> None:
        self._metrics.count("requests_with_thinking_left_out")


def _chain(client: ClientRequest) -> list[str]:
    """Hashes of every beginning of a client's list of messages."""
    return chain_keys(client.dialect, [item.key for item in client.items])
