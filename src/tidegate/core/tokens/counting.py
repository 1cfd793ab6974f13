"""Token counts of messages, system prompts and tools. All sizes are computed here.

The caller passes a `TokenCounter` (exact vocabularies are in `tidegate.models.token_counters`). Everything that is sent
is counted, also opaque data, and adding a part never lowers the sum.
"""

import binascii
import math
import re
from collections.abc import Callable, Iterable
from typing import Protocol

from tidegate.core.errors import BadPolicy
from tidegate.core.messages import OPAQUE_MEDIA, Call, Image, Message, Part, Result, Text, Thinking, Tool
from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.core.tokens.estimate import TokenEstimator
from tidegate.core.tokens.image_size import UNKNOWN_SIZE, read_image_size

__all__ = [
    "LABEL_OVERHEAD",
    "MESSAGE_OVERHEAD",
    "RENAMED_TOOL_OVERHEAD",
    "REQUEST_OVERHEAD",
    "TOOL_OVERHEAD",
    "UNKNOWN_IMAGE_TOKENS",
    "CharsPerToken",
    "TokenCounter",
    "TokenEstimator",
    "calibrate_ratio",
    "count_document_pages",
    "count_image",
    "count_message",
    "count_system",
    "count_tools",
    "fits_its_length",
    "is_plausible_report",
    "make_policy_meter",
    "parse_chars_counter",
]

MESSAGE_OVERHEAD = 4  # role and separators of one message
REQUEST_OVERHEAD = 16  # what a chat template adds once: begin, end, the assistant's opening
LABEL_OVERHEAD = 4  # a system message in mid-conversation is shown as a labeled user text
TOOL_OVERHEAD = 8  # braces and keywords around a tool definition
UNKNOWN_IMAGE_TOKENS = 1200  # a picture of unknown size
_DOCUMENT_PAGE_TOKENS = 3_000  # text and picture of a page; providers name 1,500 to 3,000
_DOCUMENT_PAGE_BYTES = 100_000  # a page is rarely larger, unless it is scanned
_PDF_PAGE = re.compile(rb"/Type\s*/Page(?![a-zA-Z])")
_ENCODED_DATA = LazyPattern(r"[A-Za-z0-9+/=_-]{4000,}")
RENAMED_TOOL_OVERHEAD = 8  # a name that no provider takes is sent under a longer one
_PLAIN_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}").fullmatch

# Pictures are scaled down before they are looked at, so their cost has a ceiling.
_ANTHROPIC_EDGE = 2576
_ANTHROPIC_MOST = 4784
_OPENAI_EDGE = 2048
_OPENAI_SHORT = 768


class TokenCounter(Protocol):
    """Counts the tokens of a text. `name` says how, for people and for the log."""

    @property
    def name(self) -> str: ...

    def count_text(self, text: str) -> int: ...


class CharsPerToken:
    """`chars/N`: rounded up for every text, so a sum is never below the quotient of the whole."""

    def __init__(self, n: float = 4) -> None:
        if not 0 < n < math.inf:
            raise BadPolicy(f"chars/{n:g} is not a way to count.", "Give a number above zero, as in chars/4.")
        self.n = n
        self.name = f"chars/{n:g}"

    def count_text(self, text: str) -> int:
        return math.ceil(len(text) / self.n)


def parse_chars_counter(name: str) -> CharsPerToken | None:
    """The counter for a name of the form `chars/N`; None if it has another form."""
    if not name.startswith("chars/"):
        return None
    try:
        return CharsPerToken(float(name[6:]))
    except ValueError:
        raise BadPolicy(f"{name!r} is not a way to count.", "Give a number, as in chars/4.") from None


def count_image(image: Image) -> int:
    """By pixels, never by base64: the larger of what Anthropic and OpenAI would charge.

    Anthropic: width * height / 750 after scaling the long edge. OpenAI: fit into 2048, short edge to 768, then 85 and
    170 for every tile of 512. The newest model of each is taken, so that the sum is a safe bound for all of them.
    """
    size = read_image_size(image.data) if image.data else UNKNOWN_SIZE
    width, height = size if size != UNKNOWN_SIZE else (image.width, image.height)  # the picture itself knows best
    if width <= 0 or height <= 0:
        return UNKNOWN_IMAGE_TOKENS
    long = max(width, height)
    scale = min(1.0, _ANTHROPIC_EDGE / long)
    anthropic = min(math.ceil(width * scale * height * scale / 750), _ANTHROPIC_MOST)
    scale = min(1.0, _OPENAI_EDGE / long)
    scale *= min(1.0, _OPENAI_SHORT / (min(width, height) * scale))
    tiles = math.ceil(width * scale / 512) * math.ceil(height * scale / 512)
    return max(anthropic, 85 + 170 * tiles)


def count_message(message: Message, counter: TokenCounter, *, thinking: bool = False) -> int:
    """The tokens of everything that a renderer may send of a message. Plain thinking counts only with `thinking`."""
    count = MESSAGE_OVERHEAD + (LABEL_OVERHEAD if message.role == "system" else 0)
    for part in message.parts:
        count += _count_part(part, counter, thinking)
    return count


def _count_part(part: Part, counter: TokenCounter, thinking: bool) -> int:
    if isinstance(part, Text):
        return counter.count_text(part.text) + (counter.count_text(part.opaque) if part.opaque else 0)
    if isinstance(part, Result):
        count = 0
        for inner in part.parts:
            count += _count_part(inner, counter, thinking)
        return count
    if isinstance(part, Call):
        name = counter.count_text(part.name)
        if not _PLAIN_NAME(part.name):
            name += RENAMED_TOOL_OVERHEAD
        count = name + counter.count_text(part.arguments)
        return count + (counter.count_text(part.opaque) if part.opaque else 0)
    if isinstance(part, Thinking):
        if part.block:
            return counter.count_text(part.block)
        return counter.count_text(part.text) if thinking else 0
    if not part.media.startswith("image/"):
        return _count_attachment(part, counter)
    # A count by characters is a document's own convention, and that says one price for every picture.
    return UNKNOWN_IMAGE_TOKENS if isinstance(counter, CharsPerToken) else count_image(part)


def _count_attachment(attachment: Image, counter: TokenCounter) -> int:
    """A document by its pages, anything else by its text. Encoded data in it is never read as text by a model."""
    if attachment.media == OPAQUE_MEDIA:
        data = _ENCODED_DATA.findall(attachment.data)
        text = _ENCODED_DATA.sub("", attachment.data) if data else attachment.data
        return counter.count_text(text) + UNKNOWN_IMAGE_TOKENS * len(data)
    return _DOCUMENT_PAGE_TOKENS * count_document_pages(attachment.data)


def count_document_pages(base64_data: str) -> int:
    """The pages of a PDF, at least 1. Where they are compressed, their number is estimated from the size."""
    try:
        data = binascii.a2b_base64(base64_data)
    except ValueError:
        return 1
    return max(1, len(_PDF_PAGE.findall(data)), len(data) // _DOCUMENT_PAGE_BYTES)


def count_tools(tools: Iterable[Tool], counter: TokenCounter) -> int:
    return sum(
        TOOL_OVERHEAD
        + counter.count_text(tool.name)
        + counter.count_text(tool.description)
        + counter.count_text(tool.parameters)
        for tool in tools
    )


def count_system(text: str, counter: TokenCounter) -> int:
    return MESSAGE_OVERHEAD + counter.count_text(text) if text else 0


def make_policy_meter(name: str) -> Callable[[Message], int]:
    """A document's own estimator, for triggers only: the engine's count decides what fits.

    It rounds once for the whole message, counts plain thinking, and knows no overhead.
    """
    counter = parse_chars_counter(name)
    if counter is None:
        raise BadPolicy(f"{name!r} is not an estimator.", "Use chars/N, for instance chars/4.")
    per = counter.n

    def measure(message: Message) -> int:
        chars, images = _characters(message.parts)
        return math.ceil(chars / per) + UNKNOWN_IMAGE_TOKENS * images

    return measure


def _characters(parts: Iterable[Part]) -> tuple[int, int]:
    chars = images = 0
    for part in parts:
        if isinstance(part, Image):
            images += 1
        elif isinstance(part, Call):
            chars += len(part.name) + len(part.arguments)
        elif isinstance(part, Result):
            inner = _characters(part.parts)
            chars, images = chars + inner[0], images + inner[1]
        else:
            chars += len(part.text)
    return chars, images


def is_plausible_report(count: int, reported: int) -> bool:
    """Is a usage report about the request we counted?

    Far less means that a server cut the prompt in silence, far more that something else was billed: to learn from
    either would spoil every later count.
    """
    return count > 0 and 0.5 * count <= reported <= 4 * count


def fits_its_length(tokens: int, message: Message) -> bool:
    """Whether a stored count is believable for the length of its message. It takes no tokenizer and almost no time.

    Every vocabulary makes tokens of 2 to 6 bytes of UTF-8, in any language. Long runs of blanks are an honest
    exception, so a count that fails is counted again, not refused.
    """
    size, pictures = _extent(message.parts)
    return size // 8 <= tokens <= 4 * size + 5_000 * pictures + 64 or _has_attachment(message.parts)


def _has_attachment(parts: Iterable[Part]) -> bool:
    """Whether there is a document or unknown content: its length says little about its count."""
    return any(
        _has_attachment(part.parts)
        if isinstance(part, Result)
        else isinstance(part, Image) and not part.media.startswith("image/")
        for part in parts
    )


def _extent(parts: Iterable[Part]) -> tuple[int, int]:
    """The bytes of text that are certainly sent, and the number of images."""
    size = pictures = 0
    for part in parts:
        if isinstance(part, Text):
            text = part.text if not part.opaque else part.text + part.opaque
        elif isinstance(part, Result):
            inner = _extent(part.parts)
            size, pictures = size + inner[0], pictures + inner[1]
            continue
        elif isinstance(part, Call):
            text = f"{part.name}{part.arguments}{part.opaque}"
        elif isinstance(part, Thinking):
            text = part.block
        else:
            pictures += 1
            continue
        size += len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return size, pictures


def calibrate_ratio(ratio: float, count: int, reported: int) -> float:
    """The ratio of reported to counted tokens, after one more report.

    Up in big steps, down in small ones: a count that is too low overflows, one that is too high only wastes room.
    """
    if not is_plausible_report(count, reported):
        return ratio
    new_ratio = reported / count
    return min(max(ratio + (new_ratio - ratio) * (0.5 if new_ratio > ratio else 0.2), 0.5), 3.0)
