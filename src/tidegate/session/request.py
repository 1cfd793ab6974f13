"""A request, ready to be sent."""

from typing import Any

from tidegate.wire.rendering import Rendering


class Request:
    """What the model would be asked, as the session stood when it was prepared.

    `body` is the whole request for the provider's SDK, `messages` its messages, `to_bytes()` the JSON as it would be
    sent; `tokens` is the measured size; `shared` tells how many leading messages are those of the request before.
    """

    def __init__(self, rendering: Rendering, tokens: int) -> None:
        self._rendered = rendering.rendered()
        self.wire = rendering.dialect.name
        self.tokens = tokens
        self.shared = rendering.shared

    @property
    def messages(self) -> list[dict[str, Any]]:
        return self._rendered.messages

    @property
    def body(self) -> dict[str, Any]:
        return self._rendered.body()

    def to_bytes(self) -> bytes:
        return self._rendered.to_bytes()
