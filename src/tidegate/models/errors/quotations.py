"""Request text that a provider's error repeats: it is the client's text, not the provider's.

A refusal of an invalid value often quotes it ("Invalid role 'maximum context length is 900 tokens'"). Such a text must
not be classified. It cannot be recognized by its wording, so it is compared with the request: a text counts as repeated

- if it is one of the request's own strings, whole, anywhere in a sentence; or
- if it is in quotation marks, and each of its phrases about a size is in the request; or
- if each of its phrases with numbers is in the request: some errors repeat a value, or its beginning, without marks.

Only texts that name a size are removed: names of parameters and models stay, because the table needs them. A
conversation may contain an earlier error of the same provider. A new one is still believed if it has a number of its
own, such as the size of the request. If not, a smaller request shows it (`session/smaller_try.py`).
"""

import html
import re
from collections.abc import Iterator
from typing import Final

import msgspec

from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.models.errors.body import ErrorBody
from tidegate.models.errors.numbers import list_number_phrases
from tidegate.models.errors.rows import ErrorKind
from tidegate.models.errors.table import list_phrases

SIZE_KINDS: Final[frozenset[ErrorKind]] = frozenset({"overflow", "rate_bucket", "output_cap", "bytes"})
"""The kinds after which a view is shortened, or a limit is learned."""
_MIN_CHARS: Final = 8
"""Shorter texts name no size."""
_QUOTATION: Final = LazyPattern(
    r"""(?<!\w)(?:'(?P<single>[^\n]{8,4000}?)'|"(?P<double>[^\n]{8,4000}?)"|`(?P<back>[^\n]{8,4000}?)`"""
    r"""|‘(?P<curly>[^’\n]{8,4000})’|“(?P<curly2>[^”\n]{8,4000})”|«(?P<angle>[^»\n]{8,4000})»)(?!\w)"""
)
_ERROR_FIELD: Final = LazyPattern(r"""["'](?:message|msg|detail|code|type|error)["']: ?$""")
"""Before the provider's own words, if an error in JSON is part of a sentence."""


def remove_quotations(body: ErrorBody, request: bytes) -> ErrorBody:
    """The error without the text that repeats the request. `request` is its body; if it is not JSON, none is found."""
    try:
        value = msgspec.json.decode(request)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return body
    strings = {text for each in _list_strings(value) if len(text := _normalize(each)) >= _MIN_CHARS}
    whole_text = "\n".join(strings)
    return msgspec.structs.replace(
        body,
        sentences=[left for each in body.sentences if (left := _remove(each, strings, whole_text))],
        codes=[
            code
            for code in body.codes
            if not (
                (_normalize(code) in strings and _names_size(code)) or _repeats_numbers(_normalize(code), whole_text)
            )
        ],
    )


def _list_strings(value: object) -> Iterator[str]:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            waiting += each.keys()
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each


def _normalize(text: str) -> str:
    """The text as it is compared: escapes of JSON, Python and HTML, line breaks and capitals make no difference."""
    text = html.unescape(text)
    for escaped, plain in (("\\n", " "), ("\\r", " "), ("\\t", " "), ('\\"', '"'), ("\\'", "'"), ("\\\\", "\\")):
        text = text.replace(escaped, plain)
    return " ".join(text.split()).lower()


def _remove(sentence: str, strings: set[str], whole_text: str) -> str:
    plain = _normalize(sentence)
    repeated = [each for each in strings if each in plain and _names_size(each)]
    for each in sorted(repeated, key=len, reverse=True):
        plain = plain.replace(each, " ")
    left = _QUOTATION.sub(lambda quoted: " " if _repeats(quoted, whole_text) else quoted[0], plain)
    if _repeats_numbers(left, whole_text):
        for phrase in _list_size_phrases(left):
            left = left.replace(phrase, " ")
    return left.strip() if repeated or left != plain else sentence


def _repeats(quotation: re.Match[str], whole_text: str) -> bool:
    if _ERROR_FIELD.search(quotation.string, max(0, quotation.start() - 20), quotation.start()):
        return False
    phrases = _list_size_phrases(next(text for text in quotation.groups() if text is not None))
    return bool(phrases) and all(phrase in whole_text for phrase in phrases)


def _repeats_numbers(text: str, whole_text: str) -> bool:
    phrases = list_number_phrases(text)
    return bool(phrases) and all(phrase in whole_text for phrase in phrases)


def _names_size(text: str) -> bool:
    return bool(_list_size_phrases(text))


def _list_size_phrases(text: str) -> list[str]:
    return [*list_phrases(text, SIZE_KINDS), *list_number_phrases(text)]
