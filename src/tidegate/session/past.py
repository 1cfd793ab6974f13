"""Past requests, rendered again from the log alone: the view is a fold of the log, so its first events give it back."""

from itertools import islice

import msgspec

from tidegate.core.budget import make_budget, measure
from tidegate.core.errors import BadInput
from tidegate.core.estimate import Estimate
from tidegate.core.events import Used
from tidegate.core.view import project
from tidegate.session.request import Request
from tidegate.store.log import Reading
from tidegate.wire.rendering import Rendering
from tidegate.wire.tools import dialect_for

LATE = 50
"""Events between a request and the record of it, at most: notes, and the answer if it was said first."""


class Sent(msgspec.Struct, frozen=True):
    """A request that was sent, as its provider reported it: `request_at(log, head)` renders it again."""

    head: int
    time: float
    model: str
    input_tokens: int
    output_tokens: int
    cache_read: int


class SentAs(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which model was asked, in which dialect, and for what beside the content."""

    model: str = ""
    wire: str = ""
    max_tokens: int = 0
    temperature: float | None = None
    top_p: float | None = None
    window: int = 0
    cache: bool = False


def request_at(log: Reading, seq: int, *, model: str = "", wire: str = "") -> Request:
    """The request as it was, or would have been, sent when the log ended with event `seq`.

    Model and dialect are those the log names, where it names them; what is given here comes first. What was forgotten
    since is not in it. Where the marks for a prompt cache stood depends on the request before, which only one that was
    answered tells of: another has the mark at its end, and not the one further up.
    """
    if not 0 <= seq <= log.head:
        raise BadInput(f"There is no event {seq}: the log ends with {log.head}.", f"Give a number up to {log.head}.")
    view = project(lambda: islice(log.read(), seq))
    asked = sent_as(view.model_note)
    model, wire = model or asked.model, wire or ("" if model else asked.wire)
    rendering = Rendering(
        dialect_for(wire, model),
        model=model,
        max_tokens=asked.max_tokens,
        temperature=asked.temperature,
        top_p=asked.top_p,
        cache=asked.cache,
    )
    rendering.update(view)
    rendering.shared = _shared(log, seq)
    budget = make_budget(view, window=None, reserve=0, counter=Estimate(), model=model)
    return Request(rendering, measure(view, budget))


def _shared(log: Reading, seq: int) -> int:
    """Of the request with this head: it was recorded before anything else was said."""
    for event in islice(log.read(seq + 1), LATE):
        if isinstance(event.what, Used) and event.what.head == seq:
            return event.what.shared
    return 0


def sent_as(note: str) -> SentAs:
    """What `View.model_note` says; empty names where it says nothing, or where someone wrote a note of their own."""
    try:
        return msgspec.json.decode(note, type=SentAs)
    except (msgspec.DecodeError, UnicodeError):
        return SentAs()


def requests_of(log: Reading) -> list[Sent]:
    """The requests whose cost was recorded, oldest first. Others can be rendered, too, by their place."""
    return [
        Sent(used.head, event.time, used.model, used.input_tokens, used.output_tokens, used.cache_read)
        for event in log.read()
        if isinstance(used := event.what, Used)
    ]
