"""Questions to the model of a conversation: a whole request instead of a text."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from tidegate.wire.request import RenderedRequest


class ModelQuestion(NamedTuple):
    """A question to the model of a conversation: a whole request in the form of its provider.

    `body` are the keyword arguments of the provider's SDK, `to_bytes()` is the body of its HTTP API. Its answer has at
    most `max_tokens`; calls in it are not run.
    """

    request: RenderedRequest
    model: str
    dialect_name: str
    max_tokens: int

    @property
    def body(self) -> dict[str, Any]:
        return self.request.body()

    def to_bytes(self) -> bytes:
        return self.request.to_bytes()


class ModelAnswer(NamedTuple):
    """The text of an answer, and the usage that the provider reported, in its own form."""

    text: str
    usage: Any = None


AskModel = Callable[[ModelQuestion], str | ModelAnswer | Awaitable[str | ModelAnswer | None] | None]
"""Puts a question to a model and returns the answer. It may be sync or async."""
