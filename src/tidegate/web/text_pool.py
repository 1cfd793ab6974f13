"""The texts of a page, each stored once: requests repeat the texts of earlier requests.

Secrets are masked before anything is cut, because half a key is not recognized. Long texts are cut at a length that is
computed at the end, so that the page stays within its limit however long the session is, and every request can still be
viewed.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

import msgspec

from tidegate.core.messages import encode_into_bytes
from tidegate.datafolder.masking import EventMasker

MAX_POOL_TEXT_CHARS: Final = 100_000
"""Characters of one text at most."""
_MIN_CUT_CHARS: Final = 200
_MIN_CLIP_CHARS: Final = 40
_MIN_BLOB_CHARS: Final = 1_000
_OMITTED_REST: Final = "\n[… the rest is left out: it is made of too many pieces …]"
_match_base64 = re.compile(r"(?:data:[\w/+.-]{0,80};base64,)?[A-Za-z0-9+/_=-]+").fullmatch

_encode = partial(encode_into_bytes, msgspec.json.Encoder())


class TextPool:
    """Stores JSON values; `add` returns the index of a value, the same for equal values. `bound_texts` returns them cut
    to a limit."""

    def __init__(self, mask: Callable[[str], str]) -> None:
        self.masker = EventMasker(mask)
        self.omitted_blobs = self.cut_texts = 0
        self._index_by_value: dict[bytes, int] = {}
        self._values: list[bytes] = []

    def add(self, encoded: bytes) -> int:
        index = self._index_by_value.get(encoded)
        if index is None:
            index = self._index_by_value[encoded] = len(self._values)
            self._values.append(self._encode_value(encoded))
        return index

    def add_all(self, encoded: Iterable[bytes]) -> list[int]:
        return [self.add(each) for each in encoded]

    def _encode_value(self, encoded: bytes) -> bytes:
        value = msgspec.json.decode(encoded)
        bare = self._without_blobs(value)
        text = (encoded if bare == value else _encode(bare)).decode()
        clean_text = self.masker.mask_json(text)
        value = bare if clean_text == text else msgspec.json.decode(clean_text)
        bounded = _encode_bounded(value, MAX_POOL_TEXT_CHARS)
        self.cut_texts += len(text) > MAX_POOL_TEXT_CHARS and bounded != _encode(value)
        return bounded

    def _without_blobs(self, value: object) -> object:
        """Replace pictures and signed blocks by their length: base64 is long and not readable."""
        if isinstance(value, str):
            if len(value) < _MIN_BLOB_CHARS or not _match_base64(value):
                return value
            self.omitted_blobs += 1
            return f"[{len(value):,} characters of base64 are left out here]"
        if isinstance(value, list):
            return [self._without_blobs(inner) for inner in value]
        if isinstance(value, dict):
            return {key: self._without_blobs(inner) for key, inner in value.items()}
        return value

    def bound_texts(self, limit: int) -> "BoundedTexts":
        sizes = sorted(map(len, self._values))
        longest = _find_cut_length(sizes, limit)
        if longest >= MAX_POOL_TEXT_CHARS:
            return BoundedTexts(self._values, MAX_POOL_TEXT_CHARS)
        values = [
            value if len(value) <= longest else _encode_bounded(msgspec.json.decode(value), longest)
            for value in self._values
        ]
        return BoundedTexts(values, longest)


class BoundedTexts(msgspec.Struct, frozen=True):
    """The values, cut. `max_chars` is how many characters of a text were kept."""

    values: list[bytes]
    max_chars: int

    def chunks(self, size: int) -> Iterator[list[bytes]]:
        """Yield neighboring texts together: to show a request, the page unpacks a few chunks, not all."""
        chunk: list[bytes] = []
        size_so_far = 0
        for value in self.values:
            chunk.append(value)
            size_so_far += len(value)
            if size_so_far >= size:
                yield chunk
                chunk, size_so_far = [], 0
        if chunk:
            yield chunk


def _find_cut_length(sizes: list[int], limit: int) -> int:
    """Return the largest length at which values of these sizes, sorted, stay within the limit."""
    left = limit
    for index, size in enumerate(sizes):
        share = left // (len(sizes) - index)
        if size > share:
            return max(_MIN_CUT_CHARS, share)
        left -= size
    return MAX_POOL_TEXT_CHARS


def _encode_bounded(value: object, longest: int) -> bytes:
    """Encode the value with its texts cut so that it takes at most twice as many bytes, for any content."""
    cut = longest
    while len(encoded := _encode(_clip_strings(value, cut))) > 2 * longest and cut > _MIN_CLIP_CHARS:
        cut //= 2
    if len(encoded) <= 2 * longest:
        return encoded
    role = value.get("role") if isinstance(value, dict) else None
    text = encoded[: longest // 2].decode(errors="ignore")
    return _encode(
        {"role": role if isinstance(role, str) else "", "content": _clip_strings(text + _OMITTED_REST, longest)}
    )


def _clip_strings(value: object, longest: int) -> object:
    if isinstance(value, str):
        if len(value) <= longest:
            return value
        head = longest * 2 // 3
        cut = len(value) - longest
        return f"{value[:head]}\n[… {cut:,} characters are left out here …]\n{value[head + cut :]}"
    if isinstance(value, list):
        return [_clip_strings(inner, longest) for inner in value]
    if isinstance(value, dict):
        return {key: _clip_strings(inner, longest) for key, inner in value.items()}
    return value
