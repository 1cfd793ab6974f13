"""From a provider's failure to a ProviderError: its kind, the numbers it names, and the remedy.

All failures pass through here: an HTTP answer (`classify_response`), a frame in a stream that began well
(`classify_frame`), and a complete answer without content. The kinds and their order are data in `rows` and `table`;
this file reads them, compares the numbers where one sentence can mean two things, and builds the error.
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from tidegate.core.errors import TidegateError
from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.core.text.secrets import SecretMask
from tidegate.models.errors.body import ErrorBody, parse_error_body, read_retry_delay
from tidegate.models.errors.numbers import ErrorNumbers, extract_numbers
from tidegate.models.errors.quotations import SIZE_KINDS, remove_quotations
from tidegate.models.errors.rows import ErrorKind
from tidegate.models.errors.table import STATUS_KINDS, STOP_KINDS, WRAPPER_ALONE, match_error
from tidegate.wire.answers import read_usage
from tidegate.wire.streaming.reply import Reply

MAX_SHOWN_CHARS: Final = 300
_STATUS_IN_TEXT: Final = LazyPattern(
    r"(?:^\W{0,2}|(?:\b(?:http(?:/\d(?:\.\d)?)?|status|response|returned|got|api|failed|rejected)|code|(?<!encoding)error|exception)\b"
    r"[^\w\n]{0,4}(?: ?\b(?:status|code|was|is|with|of)\b[^\w\n]{0,4}){0,2}|[a-z]{4}(?<!error): )"
    r"([45]\d\d)(?![\w,.]?\d|\w| ?tokens| ?req)"
    r"|\b([45]\d\d)\b\W{1,3}(?:bad request|unauthori[sz]ed|payment required|forbidden|not found|request time|conflict"
    r"|payload too|unprocessable|too many req|internal server|bad gateway|service (?:temporarily )?una|gateway time)",
    re.IGNORECASE,
)
_REFUSALS: Final = frozenset({400, 401, 402, 403, 404, 405, 413, 422, 429})
"""Statuses in a client's words that say more than its complaint about the connection: the server did answer."""
_FULL_WINDOW_SHARE: Final = 0.97
"""A cut and empty answer is an overflow if the prompt filled at least this fraction of the window."""

ERROR_CAUSES: Final[Mapping[ErrorKind, str]] = MappingProxyType(
    {
        "overflow": "The request is longer than the model's window.",
        "rate_bucket": "This one request is larger than all the tokens the account may send in a minute.",
        "rate_limit": "The provider's rate limit is reached.",
        "output_cap": "More output was asked for than the model can give.",
        "bytes": "The request has too many bytes for the server.",
        "media": "An image or document in the request was not accepted.",
        "invalid_history": "The provider refused the order or form of the messages.",
        "reasoning_state": "The provider refused reasoning it had signed before.",
        "billing": "The account has no money or no plan for this.",
        "auth": "The provider did not accept the key, or the key may not do this.",
        "model": "The provider does not know or does not serve this model.",
        "transport": "The connection failed before the answer was whole.",
        "excess": "The provider sent more than is accepted.",
        "server": "The provider failed on its own side.",
        "refused": "The provider's filter refused the content.",
        "unknown": "The provider refused the request.",
    }
)
ERROR_REMEDIES: Final[Mapping[ErrorKind, str]] = MappingProxyType(
    {
        "overflow": "Compact the session, or set the model's true window.",
        "rate_bucket": "Waiting does not help: compact below that limit, or use another model or a higher tier.",
        "rate_limit": "Wait and ask again.",
        "output_cap": "Ask for less output (max_output of the model).",
        "bytes": "Shrink or leave out images and large results.",
        "media": "Leave out the named part, or use a model that reads it.",
        "invalid_history": "Repair the session (tidegate doctor) and ask again.",
        "reasoning_state": "Ask again without the earlier reasoning.",
        "billing": "Add credit with the provider, or use another one.",
        "auth": "Check the key, and that it belongs to this provider and base URL.",
        "model": "Check the model's name and the base URL.",
        "transport": "Ask again; if it stays, check the network and the base URL.",
        "excess": "Ask for less at once; if it stays, use another model or server. docs/agent.md lists the limits.",
        "server": "Ask again in a while.",
        "refused": "Reword the last message, or take out what was refused.",
        "unknown": "The session is whole; the provider's words say more.",
    }
)
_RETRYABLE_KINDS: Final[frozenset[ErrorKind]] = frozenset({"transport", "server", "rate_limit"})
"""The same request may be sent again after a pause. With all other kinds it would be refused again."""


class ProviderError(TidegateError):
    """A provider's failure. A number is None unless the provider named it in a place we know."""

    def __init__(
        self,
        kind: ErrorKind,
        cause: str,
        *,
        status: int | None = None,
        numbers: ErrorNumbers | None = None,
        retry_after: float | None = None,
        why: str = "",
        words: str = "",
    ) -> None:
        super().__init__(cause, ERROR_REMEDIES[kind])
        counts = numbers or ErrorNumbers()
        self.kind: ErrorKind = kind
        self.status = status
        self.retry_after = retry_after
        self.window = counts.window  # the model's window
        self.prompt_tokens = counts.tokens  # the prompt as the provider counted it
        self.requested_output = counts.output  # the requested output tokens
        self.requested_total = counts.total  # prompt and output together, where only the sum was named
        self.limit = counts.limit  # of a rate bucket, of the output or of the body
        self.words = words  # the provider's own, as far as they were compared with the table
        self.matched_row = why  # description of the row that matched; empty: only the status was used

    @property
    def is_certain(self) -> bool:
        """Whether the provider's words decided. If not, the caller may use its own count: a bare 400 or 413 can be
        length.
        """
        return bool(self.matched_row)

    @property
    def is_retryable(self) -> bool:
        return self.kind in _RETRYABLE_KINDS

    @property
    def output_room(self) -> int | None:
        """The largest output with which the same prompt fits, for an overflow that less output avoids."""
        if self.kind not in ("overflow", "output_cap") or self.window is None or not self.requested_output:
            return None
        prompt = (
            self.prompt_tokens
            if self.prompt_tokens is not None
            else self.requested_total - self.requested_output
            if self.requested_total
            else None
        )
        room = None if prompt is None else self.window - prompt
        return room if room is not None and 0 < room < self.requested_output else None

    @property
    def output_limit(self) -> int | None:
        """The largest output that may be requested, after a refusal because of the requested output.

        If the provider named only its window, a quarter of it: the prompt will need the rest.
        """
        if self.kind != "output_cap":
            return None
        room = self.output_room
        return self.limit or (min(room, self.window // 4) if room and self.window else None)


def classify_response(
    status: int | None,
    body: object = b"",
    headers: Mapping[str, str] | None = None,
    mask: Callable[[str], str] | None = None,
    request: bytes = b"",
) -> ProviderError:
    """Classify an HTTP error response. Never raises, for any body. `mask` hides the caller's keys.

    `request` is the body that was refused: what the error repeats of it is not taken for the provider's words.
    """
    error_body = parse_error_body(body)
    kind, numbers, why = _classify(error_body, status, request)
    return _build_error(
        kind,
        error_body,
        status=status,
        numbers=numbers,
        why=why,
        wait=read_retry_delay(error_body, headers or {}),
        mask=mask,
    )


def classify_frame(
    frame: object, mask: Callable[[str], str] | None = None, request: bytes = b""
) -> ProviderError | None:
    """Classify an error in a stream that began with 200, or in a whole 200 body; None for ordinary frames.

    The forms of all dialects are tried, because a gateway passes on the errors of other servers.
    """
    if not isinstance(frame, Mapping):
        return None
    error_frame = _read_error_frame(frame)
    if error_frame is None:
        stop = _find_failed_stop(frame)
        words = [f"the answer ended with {stop!r}."]
        return _build_error(STOP_KINDS[stop], ErrorBody(words), why="its stop reason", mask=mask) if stop else None
    status = _read_status(frame)
    kind, numbers, why = _classify(error_frame, status, request)
    if kind == "unknown" and not why:
        kind = "server"  # it accepted the request and then failed: the server's fault unless it says otherwise
    return _build_error(
        kind, error_frame, status=status, numbers=numbers, why=why, wait=read_retry_delay(error_frame, {}), mask=mask
    )


def classify_reply(reply: Reply, *, window: int | None = None) -> ProviderError | None:
    """Classify a complete answer without content: cut before the first word, filtered or refused."""
    if (kind := STOP_KINDS.get(reply.provider_stop.lower())) is not None:
        return ProviderError(
            kind, f"{ERROR_CAUSES[kind][:-1]}: the answer ended with {reply.provider_stop!r}.", why="its stop reason"
        )
    if any(map(_has_content, reply.messages)):
        return None
    usage = read_usage(reply.usage)
    if reply.stop in ("refused", "filtered"):
        return ProviderError("refused", ERROR_CAUSES["refused"], why=f"an empty answer that ended as {reply.stop}")
    if reply.stop != "length":
        return None
    full = window is not None and usage.input_tokens + usage.output_tokens >= _FULL_WINDOW_SHARE * window
    if full or (usage.input_tokens and not usage.output_tokens):
        cause = f"The prompt filled the window: nothing could be answered ({usage.input_tokens:,} tokens were read)."
        return ProviderError(
            "overflow", cause, numbers=ErrorNumbers(tokens=usage.input_tokens or None), why="length, and empty"
        )
    cause = f"The answer was cut before its first word: all {usage.output_tokens:,} tokens of output went elsewhere."
    return ProviderError(
        "output_cap", cause, numbers=ErrorNumbers(output=usage.output_tokens or None), why="length, and empty"
    )


def transport_error(cause: str, mask: Callable[[str], str] | None = None) -> ProviderError:
    """Build the error for a failed connection, where there is no answer to read."""
    return _build_error("transport", ErrorBody(sentences=[cause]), why="the connection failed", mask=mask)


def excess_fault(cause: str, mask: Callable[[str], str] | None = None) -> ProviderError:
    """Build the error for an answer that exceeded a limit (`wire/limits.py`)."""
    return _build_error("excess", ErrorBody(sentences=[cause]), why="a limit of ours", mask=mask)


def _classify(body: ErrorBody, status: int | None, request: bytes = b"") -> tuple[ErrorKind, ErrorNumbers, str]:
    match = _match(body, status)
    return _match(remove_quotations(body, request), status) if request and match[0] in SIZE_KINDS else match


def _match(body: ErrorBody, status: int | None) -> tuple[ErrorKind, ErrorNumbers, str]:
    response_status = status
    status = status or _find_status(body)
    row = match_error(body.lines, status)
    if row is None:
        error = match_error(body.lines_as_words, status)  # names as programs write them
        # Names of settings in a sentence are not evidence of a size.
        row = None if error is not None and body.sentences and error.kind in SIZE_KINDS else error
    if status == 402:
        return "billing", ErrorNumbers(), "402 is about money, whatever it counts"
    if row is WRAPPER_ALONE and len(body.sentences) > 1:
        row = None
    if row is None:
        return _classify_status(status), ErrorNumbers(), ""
    kind: ErrorKind = row.kind
    if status == 429 and kind == "server":
        kind = "rate_limit"  # some report an overloaded server as too many requests: both mean to wait
    if kind == "transport" and response_status is not None and response_status >= 500 and response_status != 504:
        kind = "server"  # the line held, or there would be no status; what broke is behind the server
    if kind == "transport" and status in (_REFUSALS if response_status is None else STATUS_KINDS) and status != 408:
        return _classify_status(status), ErrorNumbers(), ""
    if status == 413 and kind in ("server", "transport", "model", "unknown", "invalid_history"):
        kind = "bytes"
    numbers = extract_numbers(kind, body)
    return numbers.resolve_kind(kind), numbers, row.description


def _find_status(body: ErrorBody) -> int | None:
    """Return a status that is only in the body, where a client dropped the real one."""
    if body.status is not None:
        return body.status
    matches = (_STATUS_IN_TEXT.search(line) for line in body.sentences)
    return next((int(match[1] or match[2]) for match in matches if match is not None), None)


def _classify_status(status: int | None) -> ErrorKind:
    if status is not None and status >= 500:
        return "server"
    return STATUS_KINDS.get(status, "unknown") if status is not None else "unknown"


def _build_error(
    kind: ErrorKind,
    body: ErrorBody,
    *,
    status: int | None = None,
    numbers: ErrorNumbers | None = None,
    why: str = "",
    wait: float | None = None,
    mask: Callable[[str], str] | None = None,
) -> ProviderError:
    safe_text = (mask or SecretMask())(_cut_between_words(" ".join(body.sentences or body.codes)))
    safe_text = "".join(char if char.isprintable() else " " for char in safe_text)
    safe_text = safe_text if len(safe_text) <= MAX_SHOWN_CHARS else safe_text[: MAX_SHOWN_CHARS - 1] + "…"
    where = f" (HTTP {status})" if status is not None else ""
    words = (mask or SecretMask())(" ".join((*body.sentences, *body.codes)))
    fault = ProviderError(kind, "", status=status, numbers=numbers, retry_after=wait, why=why, words=words)
    room = fault.output_room
    cure = f" It fits with at most {room:,} tokens of output." if room else ""
    fault.args = (f"{ERROR_CAUSES[kind][:-1]}{where}{': ' + safe_text if safe_text else '.'}{cure}",)
    return fault


def _cut_between_words(text: str) -> str:
    """Shorten a text for display, between words: part of a key could not be recognized and masked."""
    return text if len(text) <= 8 * MAX_SHOWN_CHARS else text[: 8 * MAX_SHOWN_CHARS].rpartition(" ")[0]


def _read_error_frame(frame: Mapping[str, object]) -> ErrorBody | None:
    """Return the error in a frame. A field `error` that is null or empty is not an error."""
    response = frame.get("response")
    kind = frame.get("type")
    if isinstance(response, Mapping) and (response.get("error") or kind == "response.failed"):
        return parse_error_body({"error": response.get("error")})  # the rest of it repeats the request
    if frame.get("error") or kind in ("error", "response.failed") or frame.get("object") == "error":
        return parse_error_body(frame)
    base = frame.get("base_resp")
    if isinstance(base, Mapping) and base.get("status_code") not in (None, 0):
        return parse_error_body(base)
    feedback = frame.get("promptFeedback")
    if isinstance(feedback, Mapping) and feedback.get("blockReason") and not frame.get("candidates"):
        return parse_error_body({"message": f"The prompt was blocked: blockReason {feedback['blockReason']}"})
    return None


def _read_status(frame: Mapping[str, object]) -> int | None:
    """Return the status that a gateway put into the body because it had already sent 200."""
    error = frame.get("error")
    codes = [error.get(key) for key in ("code", "status_code", "status")] if isinstance(error, Mapping) else []
    for code in (*codes, frame.get("code"), frame.get("status_code")):
        if isinstance(code, int) and not isinstance(code, bool) and 400 <= code < 600:
            return code
    return None


def _find_failed_stop(frame: Mapping[str, object]) -> str | None:
    """Return a stop reason that means failure, in the field that the dialect uses."""
    delta, choices, candidates = frame.get("delta"), frame.get("choices"), frame.get("candidates")
    places = [
        frame,
        delta,
        *(choices if isinstance(choices, list) else ()),
        *(candidates if isinstance(candidates, list) else ()),
    ]
    for place in places:
        for key in ("stop_reason", "finish_reason", "finishReason") if isinstance(place, Mapping) else ():
            if isinstance(stop := place.get(key), str) and stop.lower() in STOP_KINDS:
                return stop.lower()
    return None


def _has_content(part: object) -> bool:
    """Return whether there is text or a call in the part. Thinking does not count."""
    if isinstance(part, str):
        return bool(part.strip())
    if isinstance(part, list | tuple):
        return any(_has_content(item) for item in part)
    if not isinstance(part, Mapping):
        return False
    kind = part.get("type")
    if kind in ("thinking", "redacted_thinking", "reasoning") or part.get("thought") is True:
        return False
    if isinstance(kind, str) and kind.endswith(("_call", "tool_use")):
        return True
    if part.get("tool_calls") or part.get("functionCall") or part.get("function_call"):
        return True
    return any(_has_content(part.get(key)) for key in ("content", "parts", "text", "refusal"))
