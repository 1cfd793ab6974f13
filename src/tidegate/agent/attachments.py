"""Images that the user attaches. They are checked before they enter a session.

An image that a provider refuses would make every later request fail, so problems are reported while the image can still
be left out. The limits are those of the strictest provider.
"""

import base64
from collections.abc import Sequence
from typing import Final

from tidegate.core.errors import BadInput
from tidegate.core.messages import Image, Message, Text
from tidegate.core.tokens.image_size import read_image_size

MAX_ATTACHMENT_CHARS: Final = 5_242_880
_MAX_EDGE: Final = 8_000
_MAX_IMAGES: Final = 20
"""Images in one message: for more, some providers require smaller ones."""
_IMAGE_SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
)


def make_image(data: bytes, name: str = "The picture") -> Image:
    """Make an image from the bytes of a PNG, JPEG, GIF or WebP."""
    kind = next((kind for start, kind in _IMAGE_SIGNATURES if data.startswith(start)), "")
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        kind = "image/webp"
    text = base64.b64encode(data).decode()
    size = read_image_size(text)
    if not kind or not (size.width and size.height):
        raise BadInput(f"{name} is not a PNG, JPEG, GIF or WebP.", "Save it as one of these.")
    if len(text) > MAX_ATTACHMENT_CHARS:
        raise BadInput(f"{name} has more than {MAX_ATTACHMENT_CHARS * 3 // 4:,} bytes.", "Make it smaller.")
    if max(size) > _MAX_EDGE:
        raise BadInput(f"{name} is {size.width} x {size.height} pixels.", f"Keep each edge to {_MAX_EDGE:,}.")
    return Image(kind, text, width=size.width, height=size.height)


def attach_images(user_input: str | Message, images: Sequence[Image] = ()) -> Message:
    """Return a user message with the images in front of the text."""
    parts = (Text(user_input),) if isinstance(user_input, str) else user_input.parts
    parts = (*images, *parts)
    count = sum(isinstance(part, Image) for part in parts)
    if count > _MAX_IMAGES:
        raise BadInput(f"{count} pictures are too many for one message.", f"Attach at most {_MAX_IMAGES}.")
    return Message("user", parts)
