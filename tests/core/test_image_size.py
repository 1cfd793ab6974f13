"""The size of a picture is read from its head, whatever is in the text."""

import base64
import io
import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as Picture

from tests.scale import scaled
from tidegate.core.tokens.image_size import UNKNOWN_SIZE, ImageSize, read_image_size


def encoded(form: str, width: int, height: int, options: dict[str, object] | None = None) -> str:
    out = io.BytesIO()
    Picture.new("RGB", (width, height), (10, 200, 30)).save(out, form, **(options or {}))
    return base64.b64encode(out.getvalue()).decode()


@pytest.mark.parametrize(
    ("form", "options"),
    [
        ("PNG", {}),
        ("GIF", {}),
        ("JPEG", {}),
        ("JPEG", {"progressive": True}),
        ("WEBP", {}),
        ("WEBP", {"lossless": True}),
        ("WEBP", {"exif": b"Exif\0\0" + b"x" * 50}),
    ],
)
def test_size_of_real_pictures(form: str, options: dict[str, object]) -> None:
    for size in ((1, 1), (640, 480), (333, 1999), (16383, 2)):
        assert read_image_size(encoded(form, *size, options)) == ImageSize(*size)


def test_jpeg_with_a_long_preamble() -> None:
    """Cameras put tens of kilobytes in front of the frame header; three of them straddle every decoding border."""
    plain = base64.b64decode(encoded("JPEG", 321, 123))
    for length in (60_000, 60_001, 60_002):
        comment = b"\xff\xfe" + struct.pack(">H", length) + b"c" * (length - 2)
        data = base64.b64encode(plain[:2] + comment * 3 + plain[2:]).decode()
        assert read_image_size(data) == ImageSize(321, 123)


def test_tables_of_a_jpeg_are_no_frames() -> None:
    """The markers between those of frames: Huffman tables, an extension and arithmetic coding."""
    plain = base64.b64decode(encoded("JPEG", 321, 123))
    tables = b"".join(b"\xff" + marker + struct.pack(">H", 9) + b"\0" * 7 for marker in (b"\xc4", b"\xc8", b"\xcc"))
    data = base64.b64encode(plain[:2] + tables + plain[2:]).decode()
    assert read_image_size(data) == ImageSize(321, 123)


def test_wrapped_lines_data_uri_and_urlsafe_alphabet() -> None:
    data = encoded("PNG", 700, 50)
    wrapped = "\n".join(data[at : at + 76] for at in range(0, len(data), 76))
    assert read_image_size(wrapped) == ImageSize(700, 50)
    assert read_image_size(f"data:image/png;base64,{data}") == ImageSize(700, 50)
    assert read_image_size(data.replace("+", "-").replace("/", "_")) == ImageSize(700, 50)


def test_only_the_head_is_read() -> None:
    head = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + struct.pack(">II", 5, 6)
    whole = base64.b64encode(head + b"\x08\x02\0\0\0" + struct.pack(">I", zlib.crc32(b""))).decode()
    assert read_image_size(whole + "!not base64 at all!" * 1000) == ImageSize(5, 6)


@pytest.mark.parametrize(
    "data", ["", "AAAA", "data:image/png;base64,", "data:", "=", "ÿ", "/9j/", "iVBORw0KGgo=", "R0lGODlh"]
)
def test_unknown(data: str) -> None:
    assert read_image_size(data) == UNKNOWN_SIZE


@settings(max_examples=scaled(50))
@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda raw: base64.b64encode(raw).decode()))
def test_never_raises(data: str) -> None:
    assert read_image_size(data) >= UNKNOWN_SIZE


@settings(max_examples=scaled(50))
@given(st.sampled_from(["PNG", "GIF", "JPEG", "WEBP"]), st.integers(0, 300), st.integers(0, 255), st.integers(1, 400))
def test_broken_pictures_never_raise(form: str, at: int, value: int, length: int) -> None:
    raw = bytearray(base64.b64decode(encoded(form, 20, 10)))
    raw[at % len(raw)] = value
    size = read_image_size(base64.b64encode(bytes(raw[:length])).decode())
    assert size.width >= 0
    assert size.height >= 0
