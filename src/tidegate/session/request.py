"""Requests: the next one, ready to be sent, and past ones, rendered again from the log."""

from collections.abc import Sequence
from itertools import islice
from typing import Any

import msgspec

from tidegate.core.budget import MAX_MEASURED_WINDOW, make_budget, measure_request
from tidegate.core.errors import BadInput
from tidegate.core.events import UsageReported
from tidegate.core.log_fold import fold_log
from tidegate.core.notes import ModelNote
from tidegate.core.plan import Decision
from tidegate.core.tokens.estimate import TokenEstimator
from tidegate.store.log import LogReader
from tidegate.wire.registry import resolve_dialect
from tidegate.wire.request import RequestRenderer


class Request:
    """A request, as the session was when it was prepared.

    `model` and `dialect_name` say whom it is for, `tokens` is its size and `window` the limit (None: unknown).
    `decisions` says what each rule of the policy did to make it fit. `shared_messages` is the number of leading
    messages that are the same as in the request before, which the provider may have cached. `allows_thinking` is False
    if the running tool loop no longer begins with its signed thinking: the provider refuses such a request with
    thinking turned on, so `body` leaves it out.
    """

    def __init__(
        self, rendering: RequestRenderer, tokens: int, *, window: int | None = None, decisions: Sequence[Decision] = ()
    ) -> None:
        self._rendered = rendering.freeze()
        self.model = rendering.options.model
        self.dialect_name = rendering.dialect.name
        self.tokens = tokens
        self.window = window
        self.decisions = tuple(decisions)
        self.shared_messages = rendering.shared
        self.allows_thinking = not rendering.wants_thinking or rendering.allows_thinking

    def __repr__(self) -> str:
        window = f" of {self.window:,}" if self.window else ""
        edits = [decision.stage for decision in self.decisions if decision.acted]
        return (
            f"<Request {self.model or 'no model'} ({self.dialect_name}): {self.tokens:,}{window} tokens,"
            f" {len(self._rendered.messages):,} messages, edits: {', '.join(edits) or 'none'}>"
        )

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages, in the provider's format."""
        return self._rendered.messages

    @property
    def body(self) -> dict[str, Any]:
        """The whole request as keyword arguments of the provider's SDK, or as the JSON body of its HTTP API."""
        return self._rendered.body()

    def to_bytes(self) -> bytes:
        """The body as JSON, as it would be sent."""
        return self._rendered.to_bytes()


# Past requests are rendered again from the log alone: the view is a fold of the log, so its first events restore it.

_MAX_EVENTS_TO_REPORT = 50
"""The most events between a request and its usage report: notes, and the answer if it was added first."""


class SentRequest(msgspec.Struct, frozen=True):
    """A request that was sent, with the usage its provider reported. `render_past_request(log, log_head)` renders it
    again.
    """

    log_head: int
    time: float
    model: str
    input_tokens: int
    output_tokens: int
    cache_read: int


def render_past_request(log: LogReader, seq: int, *, model: str = "", wire: str = "") -> Request:
    """Render the request as it was, or would have been, sent when the log ended with event `seq`.

    Model and dialect are taken from the arguments, else from the log. Content that was forgotten since is missing. The
    positions of prompt-cache marks depend on the previous request, which is known only for a request that was answered;
    any other has only the mark at its end.
    """
    if not 0 <= seq <= log.head:
        raise BadInput(f"There is no event {seq}: the log ends with {log.head}.", f"Give a number up to {log.head}.")
    view = fold_log(lambda: islice(log.read(), seq))
    note = parse_model_note(view.model_note)
    model, wire = model or note.model, wire or ("" if model else note.wire)
    rendering = RequestRenderer(
        resolve_dialect(wire, model),
        model=model,
        max_tokens=note.max_tokens,
        temperature=note.temperature,
        top_p=note.top_p,
        cache=note.cache,
        extra=note.extra,
    )
    rendering.update(view)
    rendering.shared = _find_shared_messages(log, seq)
    budget = make_budget(view, window=MAX_MEASURED_WINDOW, reserve=0, counter=TokenEstimator(), model=model)
    return Request(rendering, measure_request(view, budget))


def _find_shared_messages(log: LogReader, seq: int) -> int:
    """Return how many leading messages the answered request with this head shared with the one before it, else 0.

    Its usage report was recorded before any other message was added.
    """
    for event in islice(log.read(seq + 1), _MAX_EVENTS_TO_REPORT):
        if isinstance(event.payload, UsageReported) and event.payload.log_head == seq:
            return event.payload.shared_messages
    return 0


def parse_model_note(note: str) -> ModelNote:
    """Parse `View.model_note`; the names are empty if it is missing or not written by tidegate."""
    return ModelNote.parse(note) or ModelNote()


def list_sent_requests(log: LogReader) -> list[SentRequest]:
    """Return the requests with a usage report, oldest first. Others can be rendered by their seq."""
    return [
        SentRequest(
            payload.log_head, event.time, payload.model, payload.input_tokens, payload.output_tokens, payload.cache_read
        )
        for event in log.read()
        if isinstance(payload := event.payload, UsageReported)
    ]
