"""The token counter of a model.

The vocabularies are compiled into splintr: nothing is downloaded or read from disk. It is imported on first use,
because a session with another counter never needs it.

Measured: reported usage divided by our count of the same tool results in recorded sessions:

    | model | vocabulary | reported / counted |
    |---|---|---|
    | gpt-5.4, gpt-5.4-mini | o200k_base | 1.01 to 1.02 (their framing) |
    | gemini-3-flash | gemma4 | 1.00 to 1.01 |
    | deepseek-v4-flash | deepseek_v3 | 1.02 |
    | llama-4-maverick | o200k_base | 1.01 |
    | claude-opus-4-7, 4-8 | o200k_base | 1.56 to 1.71 for a session, 1.95 for the worst single result |

Claude's vocabulary is not published. A factor on o200k_base is closer than an estimate by kinds of characters, because
it follows the shape of the text. From 4.7 on the factor is 1.75. Earlier models make up to 1.35 times fewer tokens of
the same text according to Anthropic, and 1.18 to 1.3 times those of o200k_base according to others: 1.35 is a safe
bound. A wrong factor lasts only until the first usage report.
"""

import math
import re
from collections.abc import Callable
from functools import lru_cache
from threading import Lock
from typing import Final, NamedTuple

from tidegate.core.errors import BadPolicy
from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.core.tokens.counting import TokenCounter, TokenEstimator, parse_chars_counter

_DEFAULT_VOCABULARY: Final = "o200k_base"

# A longer text is counted in pieces, because the tokens of a piece are in memory while they are counted.
MAX_PIECE_CHARS: Final = 1_000_000
_LOOK_BACK: Final = 4_096
_SEAM_TOKENS: Final = 2
# Short texts recur (tool definitions, notices); a long text is counted once and logged.
_CACHED: Final = 512
_CACHED_LENGTH: Final = 8_192
_LOADING: Final = Lock()


class Vocabulary(NamedTuple):
    """A bundled vocabulary, and the factor for a model whose own vocabulary is similar."""

    name: str
    factor: float = 1.0


class ExactCounter:
    """Counts with a bundled vocabulary. Text that spells a special token counts as text."""

    def __init__(self, vocabulary: str = _DEFAULT_VOCABULARY) -> None:
        self.name = vocabulary
        self._count = load_text_counter(vocabulary)
        self._cached = lru_cache(_CACHED)(self._count)

    def count_text(self, text: str) -> int:
        size = len(text)
        if size <= _CACHED_LENGTH:
            return self._cached(text)
        if size <= MAX_PIECE_CHARS:
            return self._count(text)
        return self._in_pieces(text)

    def _in_pieces(self, text: str) -> int:
        """A cut between words costs nothing; one inside a word may change the count by a token, which is added."""
        total = start = 0
        while len(text) - start > MAX_PIECE_CHARS:
            cut = _word_start(text, start + MAX_PIECE_CHARS)
            total += self._count(text[start : cut or start + MAX_PIECE_CHARS]) + (0 if cut else _SEAM_TOKENS)
            start = cut or start + MAX_PIECE_CHARS
        return total + self._count(text[start:])


class ScaledCounter:
    """A count times a factor, for a model whose own vocabulary is not bundled."""

    def __init__(self, counter: TokenCounter, factor: float) -> None:
        self.name = f"{counter.name}*{factor:g}"
        self._counter = counter
        self._factor = factor

    def count_text(self, text: str) -> int:
        return math.ceil(self._counter.count_text(text) * self._factor)


def _word_start(text: str, near: int) -> int:
    """Return the last position before `near` with a single space between two words, which no token crosses; or 0."""
    for _ in range(64):
        at = text.rfind(" ", near - _LOOK_BACK, near)
        if at <= 0:
            return 0
        if not text[at - 1].isspace() and not text[at + 1].isspace():
            return at
        near = at
    return 0


@lru_cache(maxsize=32)
def load_text_counter(vocabulary: str) -> Callable[[str], int]:
    import splintr  # noqa: PLC0415 - heavy, and not every session counts with it

    tokenizer = splintr.Tokenizer.from_pretrained(vocabulary)
    # The fast call reads special tokens as such, so it is used only for texts without one.
    marks = sorted({mark[:2] for mark in tokenizer.special_tokens()})
    plain_is_safe = tokenizer.family == "BPE" and len(marks) <= 4

    def count(text: str) -> int:
        try:
            if plain_is_safe and not any(mark in text for mark in marks):
                return len(tokenizer.encode_flat(text)) // 4
            return len(tokenizer.encode_ordinary(text))
        except UnicodeEncodeError:
            return len(tokenizer.encode_ordinary(repair_surrogates(text)))

    return count


def repair_surrogates(text: str) -> str:
    """Join surrogate pairs and replace single halves by U+FFFD, as a request does."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


# The first pattern found in the bare name decides. None: a known family whose vocabulary is not bundled.
_VOCABULARIES: Final[tuple[tuple[str, Vocabulary | None], ...]] = (
    (r"distill-llama", Vocabulary("llama3")),
    (r"distill-qwen", Vocabulary("qwen3")),
    (
        r"gpt-?4o|gpt-?4\.[15]|gpt-?oss|gpt-?([5-9]|1\d)|codex|(^|[^a-z])o[1-9]([^a-z0-9]|$)",
        Vocabulary("o200k_base"),
    ),
    (r"gpt-?4|gpt-?3\.?5|text-embedding", Vocabulary("cl100k_base")),
    (r"gemini|gemma-?[34]", Vocabulary("gemma4")),
    (r"gemma", Vocabulary("gemma2")),
    (r"llama-?v?4", Vocabulary("o200k_base", 1.05)),
    (r"code-?llama", Vocabulary("codellama")),
    (r"tinyllama|vicuna|llama-?v?2|phi-?3", Vocabulary("llama2")),
    (r"llama-?v?3", Vocabulary("llama3")),
    (r"qwen-?(3\.[5-9]|[4-9])", None),
    (r"qwen-?\d|qwq|qvq", Vocabulary("qwen3")),
    (r"deepseek-?(v2|llm|coder)", None),
    (r"deepseek", Vocabulary("deepseek_v3")),
    (r"^mistral$|mixtral|mathstral|mistral-?7b|mistral-large-24|codestral-(2405|mamba)", Vocabulary("mistral_v2")),
    (r"mistral|ministral|codestral|devstral|magistral|pixtral|voxtral", Vocabulary("mistral_v3")),
    (r"glm-?[5-9]", None),
    (r"glm-?4", Vocabulary("glm4")),
    (r"kimi-?k3", Vocabulary("kimi_k3")),
    (r"kimi|moonshot", Vocabulary("kimi_k2")),
    (r"phi-?4-(mini|multimodal)", Vocabulary("o200k_base", 1.05)),
    (r"phi-?4", Vocabulary("phi4")),
    (r"olmo-?2", Vocabulary("olmo2")),
)
_CLAUDE: Final = LazyPattern(r"claude(?:[^0-9]*(\d{1,2})(?!\d)(?:[.-](\d{1,2})(?!\d))?)?")


def strip_model_name(model: str) -> str:
    """Return a model's name without provider, region, fine-tuning owner and tag: `ollama/qwen2.5:14b` -> `qwen2.5`."""
    name = model.strip().lower().removeprefix("ft:").rsplit("/", 1)[-1]
    return name.split(":", 1)[0].split("@", 1)[0]


def find_vocabulary(model: str) -> Vocabulary | None:
    name = strip_model_name(model)
    claude = _CLAUDE.search(name)
    if claude:
        version = (int(claude[1]), int(claude[2] or 0)) if claude[1] else (99, 0)
        return Vocabulary(_DEFAULT_VOCABULARY, 1.75 if version >= (4, 7) else 1.35)
    return next((vocabulary for pattern, vocabulary in _VOCABULARIES if re.search(pattern, name)), None)


def create_counter(model: str, count: str = "auto") -> TokenCounter:
    """Create a counter. `auto`: a vocabulary if one is known, else the estimate. `exact`: always a vocabulary, no
    factor.
    """
    by_chars = parse_chars_counter(count)
    if by_chars is not None:
        return by_chars
    if count == "estimate":
        return TokenEstimator()
    if count not in ("auto", "exact"):
        raise BadPolicy(f"{count!r} is not a way to count.", "Use auto, exact, estimate or chars/N.")
    vocabulary = find_vocabulary(model)
    if count == "exact":
        return _exact_counter(vocabulary.name if vocabulary else _DEFAULT_VOCABULARY)
    if vocabulary is None:
        return TokenEstimator()
    exact = _exact_counter(vocabulary.name)
    return exact if vocabulary.factor == 1.0 else ScaledCounter(exact, vocabulary.factor)


def _exact_counter(vocabulary: str) -> ExactCounter:
    with _LOADING:  # else threads that begin at the same time would all load the vocabulary, 40 MB each
        return load_exact_counter(vocabulary)


load_exact_counter = lru_cache(maxsize=32)(ExactCounter)
