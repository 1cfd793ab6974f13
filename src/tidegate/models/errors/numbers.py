"""The numbers in a provider's error, read only from known places: a group of a known sentence, or a named field.

The same digits elsewhere (an id, a date, a code, user text) mean nothing: taking the largest number is how a window of
2013 tokens is learned from an error code.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

import msgspec

from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.models.errors.body import ErrorBody
from tidegate.models.errors.rows import ErrorKind

MIN_WINDOW_TOKENS, MAX_WINDOW_TOKENS = 128, 100_000_000
"""A window outside this range is a mistake of the provider or of a proxy."""

_NUMBER = r"\d{1,3}(?:[,_]\d{3})+|\d{1,12}"


# `<window>` stands for a number with this name, `<>` for one that is ignored.
_NUMBER_MARK: Final = LazyPattern(r"(?<!\?P)<(\w*)>")

# `tokens` is the prompt as the provider counted it (`tokens2` and `tokens3` are added to it), `output` the requested
# output, `total` both. vLLM's "at least" is a bound, not a count.
_LENGTH_SENTENCES: Final = (
    r"maximum context length (?:is|of|\() ?<window>",
    r"maximum context length of \S+ is <window>",
    r"maximum context length \(?<window>",
    r"too large for model with <window> maximum context length",
    r"prompt is too long: <tokens> tokens > <window> maximum",
    r"exceed context limit: <tokens> \+ <output> > <window>\b",
    r"your messages resulted in <tokens> tokens",
    r"you requested <> tokens \(<tokens> in (?:the messages|your prompt)[,;] <output> (?:in|for) the completion",
    r"\(<tokens> in the messages, <tokens2> in the functions, and <output> in the completion",
    r"you requested <tokens> tokens in the messages",
    r"you requested (?:about )?<total> tokens(?! in the messages)",
    r"\(<tokens> of text input(?:, <tokens2> of tool input)?(?:, <tokens3> of \w+ input)?(?:, <output> in the output)?",
    r"you requested <output> output tokens",
    r"total of <total> tokens: <tokens> tokens from the input messages and <output> tokens for the completion",
    r"max_(?:completion_)?tokens'? is too large: <output>\. this model's maximum context length is <window> tokens",
    r"context length is <window> tokens and your request has <tokens> input",
    r"answering your request will take <total> tokens",
    r"input tokens exceed the configured limit of <window> tokens",
    r"input token count (?:is |of )?\(?<tokens>\)? (?:exceeds the maximum number|but (?:the )?model only supports)",
    r"maximum number of tokens allowed \(?<window>",
    r"model only supports up to <window>",
    r"prompt tokens \(<tokens>\) exceed model maximum \(<window>\)",
    r"max input tokens: <window>, request input token count: <tokens>",
    r"prompt contains <tokens> tokens",
    r"maximum prompt length is <window>",
    r"request contains <tokens> tokens",
    r"the input \(<tokens> tokens\) is longer than the model's context length \(<window> tokens\)",
    r"must have less than <window> tokens\. given: <tokens>\b",
    r"tokens \+ `max_new_tokens` must be <= <window>",
    r"given: <tokens> `inputs` tokens and <output> `max_new_tokens`",
    r"request \(<tokens> tokens\) exceeds (?:the available )?context size \(<window> tokens\)",
    r"requested tokens (?:\(<total>\) )?exceed context window of <window>",
    r"n_keep: <>\s*>=\s*n_ctx: <window>",
    r"model is loaded with context length of only <window> tokens",
    r"prompt \(length <tokens>\) is longer than the maximum model length of <window>",
    r"prompt \(total length <tokens>\) is too long to fit into the model \(context length <window>",
    r"input prompt \(<tokens> tokens\) is too long and exceeds limit of <window>\b",
    r"(?<!prediction\) )cannot exceed <window> - received <tokens>",
    r"\(prompt and prediction\) cannot exceed <window> - received <total>",
    r"the limit for this model is <window> tokens",
    r"request <tokens> input tokens exceeds the model's maximum context length <window>",
    r"exceeded model token limit: <window> \(requested: <total>\)",
    r"range of input length should be \[\d+, ?<window>\]",
    r"input length \(?<tokens>\)? exceeds (?:\S+ )?maximum (?:\w+ ){0,2}(?:length|token size) (?:of )?\(?<window>",
    r"prompt token count of <tokens> exceeds the limit of <window>",
    r"current length is <total> while limit is <window>",
    r"prompt has <tokens> tokens, but the configured context size is <window> tokens",
    r"body too large for \S+ model\. max size: <window> tokens",
    r"number of input tokens \(<tokens>\) has exceeded max_prompt_tokens \(<window>\)",
    r"prompt_tokens \(<tokens>\) must be less than max_seq_len \(<window>\)",
    r"max_total_tokens \(<total>\) must be less than or equal to max_seq_len \(<window>\)",
    r"input tokens length is <tokens>\. output tokens length is <output>\.",
    r"range of total length should be less than or equal to <window>",
    r"you passed <tokens> input tokens and requested <output> output tokens",
    r"context length is only <window> tokens",
    r"input length \(<tokens> tokens\) exceeds the maximum allowed length \(<window> tokens\)",
    r"input and maximum output tokens \(<total>\) exceeded this model context window limit \(<window>\)",
    r"input length <tokens> exceeds context length <window>",
    r"prompt is too long: <tokens>, model maximum context length: <window>",
    r"request too many tokens: <tokens> \+ <output> > <window>\b",
    r"max_seq_len \(<window>\) - splited_prompt_len \(<tokens>\)",
    r"cannot truncate prompt with n_keep \(<>\) >= n_ctx \(<window>\)",
    r"reached context length of <window> tokens with model",
    r"number of input tokens must be no more than <window>, got <tokens>",
    r"prompt tokens \(<tokens>\) exceeds context size \(<window>\)",
    r"\(<tokens> in the input, <output> in the output\)",
    r"\(<tokens> tokens\) does not fit in the context window \(<window>\)",
    r"exceeds the <window>-token context window",
    r"tokens exceeds the maximum allowed for model \S+ \(<window>\)",
    r"input token limit is <window>",
)
_OUTPUT_SENTENCES: Final = (
    r"max_tokens: <output> > <limit>, which is the maximum allowed",
    r"supports at most <limit> (?:completion|output) tokens",
    r"is too large: <output>\b",
    r"value of <output> but the supported range is from \d+ \(inclusive\) to <above> \(exclusive\)",
    r"valid range of max_tokens is \[\d+, ?<limit>\]",
    r"range of max_tokens should be \[\d+, ?<limit>\]",
    r"max_\w*tokens`?(?: for `\S+`)? must be less than or equal to `?<limit>",
    r"exceeds the model limit of <limit>",
    r"max_tokens \(<output>\) cannot exceed <limit>",
    r"max_new_tokens[`']? must be <= <limit>",
    r"expected a value <= <limit>, but got <output> instead",
)
_RATE_SENTENCES: Final = (r"limit:? <limit>, (?:used:? <>, )?requested:? <requested>",)
_SIZE_SENTENCES: Final = (r"size exceeds the limit: <limit> bytes", r"<output> bytes > <limit> bytes")

_SENTENCES_BY_KIND: Final[Mapping[ErrorKind, tuple[str, ...]]] = MappingProxyType(
    {
        "overflow": _LENGTH_SENTENCES,
        "output_cap": (*_LENGTH_SENTENCES, *_OUTPUT_SENTENCES),
        "rate_bucket": _RATE_SENTENCES,
        "bytes": _SIZE_SENTENCES,
        "media": _SIZE_SENTENCES,
    }
)
_NUMBER_FIELDS: Final[Mapping[str, str]] = MappingProxyType({"n_ctx": "window", "n_prompt_tokens": "tokens"})
"""Fields in which llama.cpp repeats its numbers."""


class ErrorNumbers(msgspec.Struct, frozen=True):
    window: int | None = None
    tokens: int | None = None
    output: int | None = None
    total: int | None = None
    limit: int | None = None
    requested: int | None = None

    def resolve_kind(self, kind: ErrorKind) -> ErrorKind:
        """Decide by the numbers where one sentence can mean two things."""
        if kind == "rate_bucket" and self.limit and self.requested and self.requested <= self.limit:
            return "rate_limit"  # it fits after the bucket is refilled
        if kind in ("overflow", "output_cap") and self.window and self.output is not None:
            if self.output >= self.window:
                return "output_cap"  # not even an empty prompt would fit
            return "overflow"
        return kind


def extract_numbers(kind: ErrorKind, body: ErrorBody) -> ErrorNumbers:
    """Return the numbers that an error of this kind may contain."""
    sentences = _SENTENCES_BY_KIND.get(kind, ())
    numbers = _match_numbers(sentences, body.sentences)
    if kind == "overflow":
        for field, name in _NUMBER_FIELDS.items():
            if (count := body.counts.get(field, 0)) > 0:
                numbers[name] = count
    if "above" in numbers:
        numbers["limit"] = numbers["above"] - 1
    if "tokens" in numbers:
        numbers["tokens"] += numbers.pop("tokens2", 0) + numbers.pop("tokens3", 0)
    if not MIN_WINDOW_TOKENS <= numbers.get("window", MIN_WINDOW_TOKENS) <= MAX_WINDOW_TOKENS:
        del numbers["window"]
    return ErrorNumbers(**{name: number for name, number in numbers.items() if name in ErrorNumbers.__struct_fields__})


def list_number_phrases(line: str) -> list[str]:
    """The text of each known sentence about a length, an output or a rate that is in the line."""
    sentences = (*_LENGTH_SENTENCES, *_OUTPUT_SENTENCES, *_RATE_SENTENCES, *_SIZE_SENTENCES)
    return [match[0] for sentence in _compile_sentences(sentences) if (match := sentence.search(line))]


@cache
def _compile_sentences(sentences: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(_NUMBER_MARK.sub(_spell_number, sentence), re.IGNORECASE) for sentence in sentences)


def _spell_number(name: re.Match[str]) -> str:
    return rf"(?P<{name[1]}>{_NUMBER})(?![\w]|[.,]\d)" if name[1] else f"(?:{_NUMBER})"


def _match_numbers(sentences: tuple[str, ...], lines: Iterable[str]) -> dict[str, int]:
    """Return the numbers of all matching sentences; the first of a name counts."""
    numbers: dict[str, int] = {}
    text_lines = list(lines)
    for sentence in _compile_sentences(sentences):
        for line in text_lines:
            match = sentence.search(line)
            for name, digits in (match.groupdict() if match else {}).items():
                if digits is not None:
                    numbers.setdefault(name, int(digits.replace(",", "").replace("_", "")))
    return numbers
