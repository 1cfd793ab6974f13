"""Edits that make a refused request acceptable."""

from collections.abc import Callable
from typing import Final, NamedTuple

from tidegate.core.edits import Replace
from tidegate.core.messages import Image, Message, Part, Result, Text
from tidegate.core.view import View

_OMITTED_IMAGE: Final = Text("[image left out: the provider did not take it]")


class ImageRemoval(NamedTuple):
    """The edits that replace every image of a view with a short text, and how many tokens they add (usually < 0)."""

    edits: tuple[Replace, ...]
    images: int
    token_change: int


def plan_image_removal(view: View, count: Callable[[Message], int]) -> ImageRemoval:
    """Replace the images of a view. The log keeps them, and undo restores them."""
    edits: list[Replace] = []
    images = change = 0
    for item in view.items:
        found = _count_images(item.message.parts)
        if found:
            parts = tuple(map(_replace_images, item.message.parts))
            tokens = count(Message(item.message.role, parts))
            edits.append(Replace(item.message.id, parts, tokens))
            images, change = images + found, change + tokens - item.tokens
    return ImageRemoval(tuple(edits), images, change)


def _count_images(parts: tuple[Part, ...]) -> int:
    return sum(_count_images(part.parts) if isinstance(part, Result) else isinstance(part, Image) for part in parts)


def _replace_images(part: Part) -> Part:
    if isinstance(part, Result):
        inner = tuple(_OMITTED_IMAGE if isinstance(each, Image) else each for each in part.parts)
        return Result(part.call_id, inner, part.error)
    return _OMITTED_IMAGE if isinstance(part, Image) else part
