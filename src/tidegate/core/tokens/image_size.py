"""The size of an image in pixels, read from the first bytes of its base64 text.

The size decides the cost. A megabyte of base64 is never decoded for it: each format says its size near the front,
and for JPEG we walk from segment to segment, decoding only the few bytes of each head.
"""

import binascii
from typing import NamedTuple

# Far more than any real file has in front of its frame header.
_SEGMENTS = 512
_WRAPPED = 400_000
# Frame headers of JPEG; C4, C8 and CC are tables, not frames.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


class ImageSize(NamedTuple):
    width: int
    height: int


UNKNOWN_SIZE = ImageSize(0, 0)


def read_image_size(base64_data: str) -> ImageSize:
    """Return width and height of a PNG, JPEG, GIF or WebP, or `UNKNOWN_SIZE`. Accepts a data: URI and wrapped lines."""
    try:
        return _read(_body(base64_data))
    except (ValueError, IndexError):  # binascii.Error is a ValueError
        return UNKNOWN_SIZE


def _body(data: str) -> str:
    if data.startswith("data:"):
        comma = data.find(",", 0, 256)
        data = data[comma + 1 :] if comma > 0 else ""
    if any(space in data[:128] for space in "\n\r\t "):
        data = "".join(data[:_WRAPPED].split())
    return data


def _bytes(data: str, start: int, count: int) -> bytes:
    """Bytes [start, start + count) of the decoded data, shorter at the end."""
    first = start // 3 * 4
    last = -(-(start + count) // 3) * 4
    text = data[first:last].replace("-", "+").replace("_", "/")
    raw = binascii.a2b_base64(text + "=" * (-len(text) % 4))
    skip = start - start // 3 * 3
    return raw[skip : skip + count]


def _read(data: str) -> ImageSize:
    head = _bytes(data, 0, 32)
    if head.startswith(b"\x89PNG\r\n\x1a\n") and head[12:16] == b"IHDR":
        return ImageSize(int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big"))
    if head[:6] in (b"GIF87a", b"GIF89a") and len(head) >= 10:
        return ImageSize(int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little"))
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP" and len(head) >= 30:
        return _webp(head)
    if head[:2] == b"\xff\xd8":
        return _jpeg(data)
    return UNKNOWN_SIZE


def _webp(head: bytes) -> ImageSize:
    chunk = head[12:16]
    if chunk == b"VP8X":
        return ImageSize(int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1)
    if chunk == b"VP8L" and head[20] == 0x2F:
        bits = int.from_bytes(head[21:25], "little")
        return ImageSize((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
    if chunk == b"VP8 " and head[23:26] == b"\x9d\x01\x2a":
        return ImageSize(int.from_bytes(head[26:28], "little") & 0x3FFF, int.from_bytes(head[28:30], "little") & 0x3FFF)
    return UNKNOWN_SIZE


def _jpeg(data: str) -> ImageSize:
    place = 2
    for _ in range(_SEGMENTS):
        head = _bytes(data, place, 9)
        if len(head) < 9 or head[0] != 0xFF:
            return UNKNOWN_SIZE
        marker = head[1]
        if marker == 0xFF:  # fill byte
            place += 1
        elif marker == 0x01 or 0xD0 <= marker <= 0xD8:  # markers without a body
            place += 2
        elif marker in _FRAMES:
            return ImageSize(int.from_bytes(head[7:9], "big"), int.from_bytes(head[5:7], "big"))
        elif marker in (0xD9, 0xDA):  # the picture itself begins: there was no frame header
            return UNKNOWN_SIZE
        else:
            place += 2 + int.from_bytes(head[2:4], "big")
    return UNKNOWN_SIZE
