"""A managed request on its way to an upstream."""

from typing import NamedTuple

from tidegate.core.events import NoteAdded
from tidegate.gateway.client_stream import ClientStream
from tidegate.gateway.conversations import Conversation
from tidegate.gateway.hidden_recall import HiddenRecall
from tidegate.gateway.http_messages import RawHeaders
from tidegate.gateway.upstream_clients import IncomingRequest
from tidegate.models.window_evidence import WindowKey
from tidegate.session.following import FollowedRequest
from tidegate.session.managed_request import ClientRequest
from tidegate.session.smaller_try import SmallerTry
from tidegate.wire.registry import DIALECTS
from tidegate.wire.splicing.units import HostUnit


class UpstreamFailure(NamedTuple):
    """A refusal as it arrived, to be passed on unchanged."""

    status: int
    headers: RawHeaders
    body: bytes


class Exchange:
    """A managed request: the conversation, the view that was sent, and whether the answer is logged.

    `own` is the client's own request, before hidden exchanges and the tool `recall` were put in; `sent_text` is
    what was sent instead, with the headers of `sent_request`. `smaller_try`: a much smaller view is tried, after the
    `first_refusal`. `stream` changes the answer for the client, if it may have hidden calls. `notes` are logged with
    the answer: what became of the request on its way. `is_watched`: who watches the gateway knows of it.
    `received_text` is what the client sent, `response_id` the id of the answer that the client gets, and `sent_view`
    the hash of the view that was sent, if the provider stores it (`response_ids.py`).
    """

    def __init__(
        self,
        conversation: Conversation,
        client: ClientRequest,
        followed: FollowedRequest[HostUnit],
        own: ClientRequest,
        recall: HiddenRecall | None,
        window_key: WindowKey,
        received_text: bytes,
    ) -> None:
        self.conversation = conversation
        self.own = own
        self.sent_text = own.text
        self.sent_request: IncomingRequest | None = None
        self.recall = recall
        self.window_key = window_key
        self.smaller_try: SmallerTry | None = None
        self.first_refusal: UpstreamFailure | None = None
        self.thinking_refusals = 0
        self.notes: list[NoteAdded] = []
        self.is_watched = False
        self.received_text = received_text
        self.response_id = self.sent_view = ""
        self.dialect = DIALECTS[client.dialect]
        self.stream = ClientStream(recall.merged) if recall is not None else None
        self.start_round(client, followed)

    def start_round(self, client: ClientRequest, followed: FollowedRequest[HostUnit]) -> None:
        self.client = client
        self.followed = followed
        self.is_recorded = False
        self.has_usage = False
