"""A request, ready to be sent."""

from itertools import islice
from typing import Any

import msgspec

from tidegate.core.budget import make_budget, measure_request
from tidegate.core.errors import BadInput
from tidegate.core.events import UsageReported
from tidegate.core.log_fold import fold_log
from tidegate.core.tokens.estimate import TokenEstimator
from tidegate.store.log import LogReader
from tidegate.wire.registry import resolve_dialect
from tidegate.wire.rendering.request import RequestRenderer


class Request:
    """What the model would be asked, as the session stood when it was prepared.

    `body` is the whole request for the provider's SDK, `messages` its messages, `to_bytes()` the JSON as it would be
    sent; `tokens` is the measured size; `shared` tells how many leading messages are those of the request before.
    """

    def __init__(self, rendering: RequestRenderer, tokens: int) -> None:
        self._rendered = rendering.freeze()
        self.dialect_name = rendering.dialect.name
        self.tokens = tokens
        self.shared_messages = rendering.shared

    @property
    def messages(self) -> list[dict[str, Any]]:
        return self._rendered.messages

    @property
    def body(self) -> dict[str, Any]:
        return self._rendered.body()

    def to_bytes(self) -> bytes:
        return self._rendered.to_bytes()


# Past requests, rendered again from the log alone: the view is a fold of the log, so its first events give it back.

_MAX_EVENTS_TO_REPORT = 50
"""Events between a request and the record of it, at most: notes, and the answer if it was said first."""


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


class ModelNote(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which model was asked, in which dialect, and for what beside the content."""

    model: str = ""
    wire: str = ""
    max_tokens: int = 0
    temperature: float | None = None
    top_p: float | None = None
    window: int = 0
    cache: bool = False


def render_past_request(log: LogReader, seq: int, *, model: str = "", wire: str = "") -> Request:
    """The request as it was, or would have been, sent when the log ended with event `seq`.

    Model and dialect are those the log names, where it names them; what is given here comes first. What was forgotten
    since is not in it. Where the marks for a prompt cache stood depends on the request before, which only one that was
    answered tells of: another has the mark at its end, and not the one further up.
    """
    if not 0 <= seq <= log.head:
        raise BadInput(f"There is no event {seq}: the log ends with {log.head}.", f"Give a number up to {log.head}.")
    view = fold_log(lambda: islice(log.read(), seq))
    asked = parse_model_note(view.model_note)
    model, wire = model or asked.model, wire or ("" if model else asked.wire)
    rendering = RequestRenderer(
        resolve_dialect(wire, model),
        model=model,
        max_tokens=asked.max_tokens,
        temperature=asked.temperature,
        top_p=asked.top_p,
        cache=asked.cache,
    )
    rendering.update(view)
    rendering.shared = _find_shared_messages(log, seq)
    budget = make_budget(view, window=None, reserve=0, counter=TokenEstimator(), model=model)
    return Request(rendering, measure_request(view, budget))


def _find_shared_messages(log: LogReader, seq: int) -> int:
    """Of the request with this head: it was recorded before anything else was said."""
    for event in islice(log.read(seq + 1), _MAX_EVENTS_TO_REPORT):
        if isinstance(event.payload, UsageReported) and event.payload.log_head == seq:
            return event.payload.shared_messages
    return 0


def parse_model_note(note: str) -> ModelNote:
    """What `View.model_note` says; empty names where it says nothing, or where someone wrote a note of their own."""
    try:
        return msgspec.json.decode(note, type=ModelNote)
    except (msgspec.DecodeError, UnicodeError):
        return ModelNote()


def list_sent_requests(log: LogReader) -> list[SentRequest]:
    """The requests whose cost was recorded, oldest first. Others can be rendered, too, by their place."""
    return [
        SentRequest(used.log_head, event.time, used.model, used.input_tokens, used.output_tokens, used.cache_read)
        for event in log.read()
        if isinstance(used := event.payload, UsageReported)
    ]
