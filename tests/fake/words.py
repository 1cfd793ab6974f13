"""What the providers say when they refuse, in the form they say it."""

from typing import Any, NamedTuple

import msgspec

Json = dict[str, Any]


class Refusal(NamedTuple):
    """An HTTP answer as it is, word for word; whatever was asked."""

    status: int
    body: bytes
    kind: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


def refusal(wire: str, status: int, text: str, code: str = "", *, streamed: bool = False, param: str = "") -> Refusal:
    """An error in the envelope of the provider. Gemini wraps it in a list where a stream was asked for without SSE."""
    body: Any
    if wire == "anthropic":
        kind = code or {401: "authentication_error", 429: "rate_limit_error", 529: "overloaded_error"}.get(
            status, "invalid_request_error"
        )
        body = {"type": "error", "error": {"type": kind, "message": text}, "request_id": "req_0"}
    elif wire == "gemini":
        word = code or {429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}.get(status, "INVALID_ARGUMENT")
        body = {"error": {"code": status, "message": text, "status": word}}
        body = [body] if streamed else body
    elif wire == "mistral":
        body = {"object": "error", "message": text, "type": "invalid_request_error", "param": None, "code": status}
    else:
        kind = "rate_limit_error" if status == 429 else "invalid_request_error"
        param = param or ("input" if wire == "openai_responses" else "messages")
        body = {"error": {"message": text, "type": kind, "param": param, "code": code or None}}
    return Refusal(status, msgspec.json.encode(body))


def too_long(wire: str, tokens: int, window: int, output: int = 0) -> Refusal:
    """`output` is what was asked for, where that counts as a part of the window."""
    if output and wire == "anthropic":
        text = f"input length and `max_tokens` exceed context limit: {tokens} + {output} > {window}, decrease input"
        return refusal(wire, 400, f"{text} length or `max_tokens` and try again")
    if output and wire == "openai_chat":
        text = (
            f"This model's maximum context length is {window} tokens. However, you requested {tokens + output} tokens"
            f" ({tokens} in the messages, {output} in the completion). Please reduce the length of the messages or"
            " completion."
        )
        return refusal(wire, 400, text, "context_length_exceeded")
    if wire == "anthropic":
        return refusal(wire, 400, f"prompt is too long: {tokens} tokens > {window} maximum")
    if wire == "gemini":
        text = f"The input token count ({tokens}) exceeds the maximum number of tokens allowed ({window})."
        return refusal(wire, 400, text)
    if wire == "openai_responses":
        text = "Your input exceeds the context window of this model. Please adjust your input and try again."
        return refusal(wire, 400, text, "context_length_exceeded")
    if wire == "mistral":
        text = f"Prompt contains {tokens} tokens, too large for model with {window} maximum context length"
        return refusal(wire, 400, text)
    text = (
        f"This model's maximum context length is {window} tokens. However, your messages resulted in {tokens} tokens."
        " Please reduce the length of the messages."
    )
    return refusal(wire, 400, text, "invalid_request_error" if wire == "deepseek" else "context_length_exceeded")


def busy(wire: str, status: int, seconds: str) -> Refusal:
    """A server that asks to be left alone for a while."""
    text = "Overloaded" if status == 529 else "Rate limit reached for requests. Please slow down."
    found = refusal(wire, status, text, "rate_limit_exceeded" if wire.startswith("openai") else "")
    return found._replace(headers=(("retry-after", seconds),))


PAGE = Refusal(
    502, b"<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>", "text/html; charset=utf-8"
)
"""What stands between us and the provider answers in its own way."""
