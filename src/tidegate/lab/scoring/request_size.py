"""Measure a rendered request, independently of the engine's own sums.

With `chars/4` it is what other tools count: the characters of content, call names and call arguments. Otherwise it is
the counter's tokens of these texts, of images by their pixels, and the overhead the engine assumes for framing.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tidegate.core.tokens.counting import (
    MESSAGE_OVERHEAD,
    REQUEST_OVERHEAD,
    CharsPerToken,
    TokenCounter,
    count_image,
)
from tidegate.wire.parsing import image_from_url

_Json = Mapping[str, object]


class RequestSize(NamedTuple):
    """The tokens of a request; `shared_tokens` are in leading messages that the previous request also had."""

    tokens: float
    shared_tokens: float
    is_oversized: bool


class UnitCounter:
    """Counts messages in units: characters (`units_per_token` of them a token) or tokens. `request_units` is
    overhead.
    """

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self.by_characters = isinstance(counter, CharsPerToken)
        self.units_per_token = counter.n if isinstance(counter, CharsPerToken) else 1
        self.request_units = 0 if self.by_characters else REQUEST_OVERHEAD

    def count_message(self, message: _Json) -> int:
        """Count the units of one message in OpenAI chat form."""
        texts = list(_iterate_texts(message))
        if self.by_characters:
            return sum(map(len, texts))
        count = self._counter.count_text
        return (
            MESSAGE_OVERHEAD
            + sum(map(count, texts))
            + sum(count_image(image_from_url(url)) for url in _iterate_image_urls(message))
        )

    def count_text(self, text: str) -> float:
        """Count the tokens of a text."""
        return len(text) / self.units_per_token if self.by_characters else self._counter.count_text(text)


class RequestSizer:
    """Measures consecutive requests; only messages that the previous request did not have are counted."""

    def __init__(self, counter: TokenCounter, window: int) -> None:
        self._unit_counter = UnitCounter(counter)
        self._window = window
        self._messages: list[_Json] = []
        self._units: list[int] = []

    def measure(self, messages: Sequence[_Json]) -> RequestSize:
        same = 0
        for old, new in zip(self._messages, messages, strict=False):
            if old is not new and old != new:
                break
            same += 1
        units = self._units[:same]
        units_by_message: dict[int, int] = {}
        if same < len(self._messages):  # edited: what only moved is the same object still
            units_by_message = {id(old): unit for old, unit in zip(self._messages, self._units, strict=True)}
        units += [
            units_by_message[id(new)] if id(new) in units_by_message else self._unit_counter.count_message(new)
            for new in messages[same:]
        ]
        self._messages, self._units = list(messages), units
        total = sum(units) + self._unit_counter.request_units
        per = self._unit_counter.units_per_token
        return RequestSize(total / per, sum(units[:same]) / per, total > per * self._window)


def _iterate_texts(message: _Json) -> Iterable[str]:
    content = message.get("content")
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        yield from (part["text"] for part in content if isinstance(part.get("text"), str))
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call["function"]
        arguments = function["arguments"]
        yield function["name"]
        yield arguments if isinstance(arguments, str) else json.dumps(arguments)


def _iterate_image_urls(message: _Json) -> Iterable[str]:
    content = message.get("content")
    for part in content if isinstance(content, list) else ():
        if part.get("type") == "image_url":
            yield part["image_url"]["url"]
