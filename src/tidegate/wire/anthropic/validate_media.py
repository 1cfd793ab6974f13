"""Checks of images and documents: number, bytes, and pixels, read from the first bytes of an image without decoding
it.
"""

import base64
import binascii
from collections.abc import Iterator
from typing import NamedTuple, Self

from tidegate.wire.validation.faults import RequestFault
from tidegate.wire.validation.validator import ForkableState

_MAX_IMAGE_CHARS = 5_242_880  # counted on the base64 text
_MAX_MEDIA = 100

_HEADER_CHARS = 262_144  # a JPEG may hold a preview and color profiles before its size


class PixelSize(NamedTuple):
    width: int
    height: int


UNKNOWN_PIXEL_SIZE = PixelSize(0, 0)


def read_pixel_size(data: str) -> PixelSize:
    """Read the size of a base64 PNG, GIF, JPEG or WebP; UNKNOWN_PIXEL_SIZE for anything else or if it is cut short."""
    start = data[:_HEADER_CHARS]
    try:
        raw = base64.b64decode(start[: len(start) // 4 * 4])
    except (binascii.Error, ValueError):
        return UNKNOWN_PIXEL_SIZE
    if raw.startswith(b"\x89PNG\r\n\x1a\n") and len(raw) >= 24:
        return PixelSize(int.from_bytes(raw[16:20], "big"), int.from_bytes(raw[20:24], "big"))
    if raw.startswith((b"GIF87a", b"GIF89a")) and len(raw) >= 10:
        return PixelSize(int.from_bytes(raw[6:8], "little"), int.from_bytes(raw[8:10], "little"))
    if raw.startswith(b"\xff\xd8"):
        return _jpeg(raw)
    if raw.startswith(b"RIFF") and raw[8:12] == b"WEBP" and len(raw) >= 30:
        return _webp(raw)
    return UNKNOWN_PIXEL_SIZE


def _jpeg(raw: bytes) -> PixelSize:
    at = 2
    while at + 9 <= len(raw) and raw[at] == 0xFF:
        marker = raw[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):  # a frame header of any coding
            return PixelSize(int.from_bytes(raw[at + 7 : at + 9], "big"), int.from_bytes(raw[at + 5 : at + 7], "big"))
        at += 2 + int.from_bytes(raw[at + 2 : at + 4], "big")
    return UNKNOWN_PIXEL_SIZE


def _webp(raw: bytes) -> PixelSize:
    kind = raw[12:16]
    if kind == b"VP8X":
        return PixelSize(int.from_bytes(raw[24:27], "little") + 1, int.from_bytes(raw[27:30], "little") + 1)
    if kind == b"VP8L":
        bits = int.from_bytes(raw[21:25], "little")
        return PixelSize((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
    if kind == b"VP8 ":
        return PixelSize(int.from_bytes(raw[26:28], "little") & 0x3FFF, int.from_bytes(raw[28:30], "little") & 0x3FFF)
    return UNKNOWN_PIXEL_SIZE


_IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")


class MediaTally(ForkableState):
    """AN15: the images and documents of one request together.

    The lower pixel limit depends on the number of images in the whole request, so the twenty-first image can make an
    earlier one illegal. That is checked at the end.
    """

    __slots__ = ("first_large_image", "images", "pages")

    def __init__(self, images: int = 0, pages: int = 0, wide: str = "") -> None:
        self.images = images
        self.pages = pages
        self.first_large_image = wide  # the first image over 2000 pixels

    def fork(self) -> Self:
        return type(self)(self.images, self.pages, self.first_large_image)

    def add(self, block: dict[str, object], where: str) -> Iterator[RequestFault]:
        source = block.get("source")
        if block.get("type") == "document":
            self.pages += 1  # at least one; the true number is inside the file
        else:
            self.images += 1
        if not isinstance(source, dict) or not isinstance(source.get("type"), str):
            yield RequestFault("AN15", f"{where}.source: Field required", where)
        elif source["type"] == "base64":
            yield from self._base64(source, block.get("type") == "document", f"{where}.{block['type']}.source.base64")

    def _base64(self, source: dict[str, object], document: bool, where: str) -> Iterator[RequestFault]:
        data = source.get("data")
        if not isinstance(data, str) or not data:
            yield RequestFault("AN15", f"{where}.data: Field required", where)
            return
        if document:
            return
        if source.get("media_type") not in _IMAGE_TYPES:
            types = ", ".join(f"'{one}'" for one in _IMAGE_TYPES)
            yield RequestFault("AN15", f"{where}.media_type: Input should be {types}", where)
        if len(data) > _MAX_IMAGE_CHARS:
            text = f"image exceeds 5 MB maximum: {len(data)} bytes > {_MAX_IMAGE_CHARS} bytes"
            yield RequestFault("AN15", f"{where}: {text}", where)
        widest = max(read_pixel_size(data))
        if widest > 8000:
            text = "At least one of the image dimensions exceed max allowed size: 8000 pixels"
            yield RequestFault("AN15", f"{where}.data: {text}", where)
        elif widest > 2000 and not self.first_large_image:
            self.first_large_image = where

    def end_faults(self) -> Iterator[RequestFault]:
        if self.first_large_image and self.images > 20:
            text = "At least one of the image dimensions exceed max allowed size for many-image requests: 2000 pixels"
            yield RequestFault("AN15", f"{self.first_large_image}.data: {text}", self.first_large_image)
        if self.images + self.pages > _MAX_MEDIA:
            text = f"Too much media: {self.pages} document pages + {self.images} images > {_MAX_MEDIA}"
            yield RequestFault("AN15", f"messages: {text}", "messages")
