"""Which pictures of a request its provider would refuse: a word is sent for them, for the oldest first.

What is allowed depends on the whole request. A picture that was fine for hours becomes one too many, or too wide, when
another joins it, and a request with such a picture would be refused again and again. Only what can be known without
decoding a picture is looked at: its kind, its weight, its size, and how many there are.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from tidegate.core.messages import Image, Message, Part, Result, Text
from tidegate.core.tokens.image_size import read_image_size

IMAGE_PLACEHOLDER: Final = "(image)"
_OMIT_STEP: Final = 5
"""Pictures leave some at a time: each time the request reads otherwise from there on, and a cache is lost."""


class ImageLimits(msgspec.Struct, frozen=True):
    """`few` is how many may stand together while any of them is wider or higher than `wide` pixels."""

    media_types: tuple[str, ...]
    max_images: int
    max_images_if_any_large: int
    max_edge: int
    large_edge: int
    max_image_chars: int  # of one, and of all together: characters of base64
    max_total_chars: int


class _CountedImage(NamedTuple):
    """The `place`-th picture of the message with this id (Python's). `edge` is 0 where it is not known."""

    message: int
    place: int
    edge: int
    weight: int
    fit: bool


class ImageSelection:
    """The pictures of a view as they came, and which of them are not sent."""

    def __init__(self, bounds: ImageLimits | None) -> None:
        self._bounds = bounds
        self._seen: list[_CountedImage] = []
        self._judged = 0
        self.omitted: Mapping[int, frozenset[int]] = {}

    def add(self, message: Message) -> None:
        if self._bounds is None:
            return
        for place, image in enumerate(_images(message.parts)):
            edge = max(read_image_size(image.data)) if not image.url else 0
            weight = len(image.data) if not image.url else 0
            fit = bool(image.url) or (
                image.media in self._bounds.media_types
                and edge <= self._bounds.max_edge
                and weight <= self._bounds.max_image_chars
            )
            self._seen.append(_CountedImage(id(message), place, edge, weight, fit))

    def update_omitted(self) -> bool:
        """Look again if there are new ones. True if others than before are left out."""
        if self._bounds is None or self._judged == len(self._seen):
            return False
        self._judged = len(self._seen)
        places: dict[int, set[int]] = {}
        for seen in _find_excess_images(self._seen, self._bounds):
            places.setdefault(seen.message, set()).add(seen.place)
        before, self.omitted = self.omitted, {message: frozenset(each) for message, each in places.items()}
        return before != self.omitted

    def replace_omitted(self, message: Message) -> Message:
        """The message as it is sent: with a word for each of its pictures that is left out."""
        places = self.omitted.get(id(message))
        if not places:
            return message
        count = iter(range(len(self._seen)))

        def word(part: Part) -> Part:
            if isinstance(part, Result):
                return Result(part.call_id, tuple(shown(each) for each in part.parts), part.error)
            return shown(part) if isinstance(part, Text | Image) else part

        def shown(part: Text | Image) -> Text | Image:
            return Text(IMAGE_PLACEHOLDER) if isinstance(part, Image) and next(count) in places else part

        return msgspec.structs.replace(message, parts=tuple(map(word, message.parts)))


def _images(parts: Sequence[Part]) -> Iterator[Image]:
    for part in parts:
        if isinstance(part, Image):
            yield part
        elif isinstance(part, Result):
            yield from _images(part.parts)


def _find_excess_images(pictures: Sequence[_CountedImage], bounds: ImageLimits) -> list[_CountedImage]:
    out = [seen for seen in pictures if not seen.fit]
    kept = [seen for seen in pictures if seen.fit]
    first = _round_excess(len(kept), bounds.max_images)
    weight = sum(seen.weight for seen in kept[first:])
    while weight > bounds.max_total_chars:
        weight -= kept[first].weight
        first += 1
    out += kept[:first]
    kept = kept[first:]
    wide = [seen for seen in kept if seen.edge > bounds.large_edge]
    return out + wide[: _round_excess(len(kept), bounds.max_images_if_any_large)]


def _round_excess(count: int, most: int) -> int:
    """How many to leave out, a whole number of strides."""
    return -(-max(count - most, 0) // _OMIT_STEP) * _OMIT_STEP
