"""Reads a provider's error body of any form: an object, a list, a bare string, HTML, SSE lines or nothing.

Only the fields in which servers report errors are read. A body may quote the request (`input`, `content`): user text
about context windows must not be read as the provider's words, nor be shown in an error.
"""

import html
import math
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final

import msgspec

from tidegate.core.text.lazy_pattern import LazyPattern

_MAX_BYTES: Final = 262_144
_MAX_CHARS: Final = 4_000
"""Characters of all sentences, and of all codes, that are compared with the table."""
_MAX_LINES: Final = 24
_MAX_SENTENCES: Final = 8
"""Sentences that are kept. Real answers have one to three; a hostile one must not take a second of matching."""
_MAX_DEPTH: Final = 8
_MAX_WAIT_SECONDS: Final = 7 * 86_400.0

_SENTENCE_KEYS: Final = (
    "message msg error_msg error_message errorMessage detail description error_description title status_msg Message"
    " statusMessage raw_message text fault faultstring"
).split()
_NESTED_KEYS: Final = (
    "error errors header message detail details metadata raw upstream_error innererror inner_error cause body"
    " base_resp response incomplete_details promptFeedback violations last_error choices candidates"
    " args data responseBody response_body $metadata"
).split()
_CODE_KEYS: Final = (
    "code type status reason name error_type errorType __type error_code errCode status_code httpStatusCode"
    " statusCode quotaId quotaMetric blockReason exception finish_reason finishReason stop_reason"
).split()
_ECHO_KEYS: Final = frozenset("args body candidates choices data metadata name text title".split())
"""Where servers also put the request or an answer: not read beside a field `error`, which then has the error."""
_COUNT_KEYS: Final = ("n_ctx", "n_prompt_tokens")
_WAIT_KEYS: Final = ("retryDelay", "retry_after", "resets_in_seconds")

_ANY_BAD_REQUEST: Final = "INVALID_ARGUMENT"
"""Google's name for every status 400, whatever is wrong: it does not mean a parameter."""
_TAGS: Final = LazyPattern(
    r"<(?:script|style)\b.{0,20000}?</(?:script|style)>|<[^<>]{0,2000}>", re.IGNORECASE | re.DOTALL
)
_CAPITAL: Final = LazyPattern(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD_BREAK: Final = LazyPattern(rf"[_-]+|{_CAPITAL.source}")
_HTML: Final = LazyPattern(r"\s*<(?:!doctype|html|head|body|h1|center)\b", re.IGNORECASE)
_DURATION_NUMBER: Final = r"(\d{1,7}(?:\.\d{1,9})?)\s?"
_WAIT_SENTENCE: Final = LazyPattern(
    r"(?:try again|retry|retrying|wait|available again|reset\w*) (?:in|after|for)\s+"
    rf"(?:{_DURATION_NUMBER}h\w*\s?)?(?:{_DURATION_NUMBER}m(?:in\w*)?(?!s|illi)\s?)?"
    rf"(?:{_DURATION_NUMBER}(ms|milliseconds?|s(?:ec\w*)?)\b)?",
    re.IGNORECASE,
)


class ErrorBody(msgspec.Struct):
    """`sentences` are for people, `codes` for programs, `counts` are numbers under a known name.

    `status` is the HTTP status that a gateway put into the body.
    """

    sentences: list[str] = []
    codes: list[str] = []
    counts: dict[str, int] = {}
    status: int | None = None
    retry_after: float | None = None

    @property
    def lines(self) -> list[str]:
        return [*self.sentences, *self.codes]

    @property
    def lines_as_words(self) -> list[str]:
        """`MessageTooBig` as "Message Too Big", and in a code `message_too_big` too: in a sentence it is a setting."""
        codes = (_WORD_BREAK.sub(" ", code) for code in self.codes if code != _ANY_BAD_REQUEST)
        return [*(_CAPITAL.sub(" ", sentence) for sentence in self.sentences), *codes]


def parse_error_body(body: object) -> ErrorBody:
    """Parse an error body. Bytes and text are decoded first."""
    error_body = ErrorBody()
    if isinstance(body, bytes | bytearray | memoryview):
        body = bytes(body[:_MAX_BYTES]).decode("utf-8", "replace")
    if isinstance(body, str):
        _read_text(body[:_MAX_BYTES], error_body, _MAX_DEPTH)
    else:
        _read_value(body, error_body, _MAX_DEPTH)
    return error_body


def _read_text(text: str, body: ErrorBody, depth: int) -> None:
    """Read a string, which may be JSON again: gateways wrap the errors they get, several times over."""
    text = text.strip().removeprefix("\ufeff")
    if text.startswith(("data:", "event:", ":")):
        for line in text.splitlines()[:_MAX_LINES]:
            if line.startswith("data:"):
                _read_text(line[5:], body, depth - 1)
        return
    if text[:1] in ("{", "[", '"') and depth > 0 and (inner := _decode_json(text)) is not None:
        _read_value(inner, body, depth - 1)
        return
    if _HTML.match(text):
        text = html.unescape(_TAGS.sub(" ", text))
    _append_unique(body.sentences, " ".join(text[: 4 * _MAX_CHARS].split()), _MAX_SENTENCES)


def _decode_json(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return None


def _append_unique(texts: list[str], text: str, most: int) -> None:
    text = text[: _MAX_CHARS - sum(map(len, texts))]
    if text and len(texts) < most and text not in texts:
        texts.append(text)


def _read_value(value: object, body: ErrorBody, depth: int) -> None:
    if depth <= 0 or value is None or isinstance(value, bool | int | float):
        return
    if isinstance(value, str):
        _read_text(value, body, depth)
    elif isinstance(value, list | tuple):
        for item in value[:_MAX_LINES]:
            _read_value(item, body, depth - 1)
    elif isinstance(value, Mapping):
        _read_fields(value, body, depth)


def _read_fields(fields: Mapping[object, object], body: ErrorBody, depth: int) -> None:
    if fields.get("error") or fields.get("errors"):
        fields = {key: value for key, value in fields.items() if key not in _ECHO_KEYS}
    for key in _SENTENCE_KEYS:
        if isinstance(text := fields.get(key), str):
            _read_text(text, body, depth)
    _read_place(fields, body, depth)
    for key in _CODE_KEYS:
        code = fields.get(key)
        if isinstance(code, str):
            _append_unique(body.codes, code[:200], _MAX_LINES)
        status = int(code) if isinstance(code, str) and code.isdecimal() and len(code) == 3 else code
        if isinstance(status, int) and 400 <= status < 600 and body.status is None:
            body.status = status
    for key in _NESTED_KEYS:
        _read_value(fields.get(key), body, depth - 1)
    for key in _COUNT_KEYS:
        if isinstance(count := fields.get(key), int) and not isinstance(count, bool):
            body.counts.setdefault(key, count)
    for key in _WAIT_KEYS:
        if body.retry_after is None:
            body.retry_after = _seconds(fields.get(key))


def _read_place(fields: Mapping[object, object], body: ErrorBody, depth: int) -> None:
    """Read which part of the request is at fault, in one text (`input[3].content`) or step by step."""
    if isinstance(param := fields.get("param"), str) and " " in param:
        _read_text(param, body, depth)  # usually the name of a parameter; one gateway puts its message here
    elif isinstance(param, str) and "[" in param:
        _append_unique(body.codes, param[:200], _MAX_LINES)
    if isinstance(steps := fields.get("loc"), list | tuple):
        _append_unique(body.codes, ".".join(str(step) for step in steps[:8] if step != "body")[:200], _MAX_LINES)


def read_retry_delay(body: ErrorBody, headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait, from the headers, a field or a sentence. A date is compared with the server's
    clock.
    """
    lower = {key.lower(): value for key, value in headers.items()}
    if (wait := _seconds(lower.get("retry-after-ms"))) is not None:
        return wait / 1000
    after = lower.get("retry-after")
    if (wait := _seconds(after)) is not None or (wait := _seconds_until(after, lower.get("date"))) is not None:
        return wait
    if body.retry_after is not None:
        return body.retry_after
    return next((wait for line in body.sentences if (wait := _read_wait_sentence(line)) is not None), None)


def _read_wait_sentence(line: str) -> float | None:
    for match in _WAIT_SENTENCE.finditer(line):
        hours, minutes, seconds, unit = match.groups()
        if hours or minutes or seconds:
            scale = 0.001 if unit and unit.lower().startswith("m") else 1.0
            return _seconds(float(hours or 0) * 3600 + float(minutes or 0) * 60 + float(seconds or 0) * scale)
    return None


def _seconds(value: object) -> float | None:
    if isinstance(value, str):
        try:
            value = float(value.strip().removesuffix("s"))
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        seconds = float(value)
    except OverflowError:
        return None
    return seconds if math.isfinite(seconds) and 0 <= seconds <= _MAX_WAIT_SECONDS else None


def _seconds_until(after: str | None, now: str | None) -> float | None:
    if not after or not now:
        return None
    try:
        return _seconds(max(0.0, (parsedate_to_datetime(after) - parsedate_to_datetime(now)).total_seconds()))
    except (ValueError, TypeError, OverflowError):
        return None
