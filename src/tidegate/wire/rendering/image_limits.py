"""Images that the provider would refuse: they are replaced by a short text, the oldest first.

The limits depend on the whole request. An image that was fine before becomes one too many, or too wide, when another is
added, and every later request would be refused. Only properties that need no decoding are checked: type, size in
characters, size in pixels, and the number of images.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from tidegate.core.messages import Image, Message, Part, Result, Text
from tidegate.core.tokens.image_size import read_image_size

IMAGE_PLACEHOLDER: Final = "(image)"
_OMIT_STEP: Final = 5
"""Images are left out in groups of this size: each change invalidates the provider's cache from there on."""


class ImageLimits(msgspec.Struct, frozen=True):
    """`max_images_if_any_large` applies when any image is wider or higher than `large_edge` pixels."""

    media_types: tuple[str, ...]
    max_images: int
    max_images_if_any_large: int
    max_edge: int
    large_edge: int
    max_image_chars: int  # characters of base64: of one image, and of all together
    max_total_chars: int


class _CountedImage(NamedTuple):
    """The image at index `place` of the message with this Python id. `edge` is 0 if it is unknown."""

    message: int
    place: int
    edge: int
    weight: int
    fit: bool


class ImageSelection:
    """The images of a view in order, and those that are left out."""

    def __init__(self, bounds: ImageLimits) -> None:
        self._bounds = bounds
        self._seen: list[_CountedImage] = []
        self._judged = 0
        self.omitted: Mapping[int, frozenset[int]] = {}

    def add(self, message: Message) -> None:
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
        """Check again if there are new images. Return whether other images than before are left out."""
        if self._judged == len(self._seen):
            return False
        self._judged = len(self._seen)
        places: dict[int, set[int]] = {}
        for image in _find_excess_images(self._seen, self._bounds):
            places.setdefault(image.message, set()).add(image.place)
        before, self.omitted = self.omitted, {message: frozenset(each) for message, each in places.items()}
        return before != self.omitted

    def replace_omitted(self, message: Message) -> Message:
        """Return the message as it is sent: with a text for each image that is left out."""
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
    out = [picture for picture in pictures if not picture.fit]
    fitting = [picture for picture in pictures if picture.fit]
    first = _round_excess(len(fitting), bounds.max_images)
    weight = sum(picture.weight for picture in fitting[first:])
    while weight > bounds.max_total_chars:
        weight -= fitting[first].weight
        first += 1
    out += fitting[:first]
    fitting = fitting[first:]
    wide = [picture for picture in fitting if picture.edge > bounds.large_edge]
    return out + wide[: _round_excess(len(fitting), bounds.max_images_if_any_large)]


def _round_excess(count: int, most: int) -> int:
    """Return how many to leave out, a multiple of the group size."""
    return -(-max(count - most, 0) // _OMIT_STEP) * _OMIT_STEP
