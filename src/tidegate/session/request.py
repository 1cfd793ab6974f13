"""A request, ready to be sent."""

from collections.abc import Mapping
from typing import Any

from tidegate.wire.rendering import Rendering


class Request:
    """What the model would be asked. It shows the session as it was when prepared: read it before you prepare the next.

    `body` is the whole request for the provider's SDK, `messages` its messages, `to_bytes()` the JSON as it would be
    sent; `tokens` is the measured size; `shared` tells how many leading messages are those of the request before.
    """

    def __init__(self, rendering: Rendering, tokens: int) -> None:
        self._rendering = rendering
        self.wire = rendering.dialect.name
        self.tokens = tokens
        self.messages: list[dict[str, Any]] = rendering.messages
        self.shared = rendering.shared

    @property
    def body(self) -> Mapping[str, Any]:
        return self._rendering.body()

    def to_bytes(self) -> bytes:
        return self._rendering.to_bytes()
