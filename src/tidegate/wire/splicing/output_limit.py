"""The limit of output tokens in a client's request."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.splicing.spans import replace_value


class OutputLimit(NamedTuple):
    """Where a dialect writes the limit. `lower_thinking` lowers with it what the request gives to thinking, where that
    is part of the output.
    """

    paths: tuple[tuple[str, ...], ...]
    lower_thinking: Callable[[bytes, JsonObject, int], bytes] | None = None

    def read(self, body: JsonObject) -> int:
        """The output tokens that a request asks for; 0 if it does not say."""
        return max((self._read(body, path) for path in self.paths), default=0)

    def lower(self, text: bytes, body: JsonObject, room: int) -> bytes:
        """The request with at most `room` tokens of output; unchanged if it asks for no more than that."""
        for path in self.paths:
            if self._read(body, path) > room > 0:
                text = replace_value(text, path, str(room).encode())
                if self.lower_thinking is not None:
                    text = self.lower_thinking(text, body, room)
        return text

    def raise_to(self, text: bytes, body: JsonObject, least: int) -> bytes:
        """The request with at least `least` tokens of output; unchanged if it sets no limit, or a higher one."""
        for path in self.paths:
            if 0 < self._read(body, path) < least:
                text = replace_value(text, path, str(least).encode())
        return text

    def _read(self, body: JsonObject, path: tuple[str, ...]) -> int:
        value: object = body
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value if isinstance(value, int) and not isinstance(value, bool) else 0
