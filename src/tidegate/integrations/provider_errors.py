"""The exceptions with which frameworks report that a provider refused a request, as errors of ours.

A framework raises the exception of the provider's SDK, or one of its own with that as the cause. The first one that has
an HTTP status and the provider's answer is read. Without one, the words of the exceptions are.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from tidegate.models.errors.classification import ProviderError, classify_response
from tidegate.session.following import FollowedRequest

_STATUS_NAMES = ("status_code", "code", "status", "http_status")
_BODY_NAMES = ("body", "details", "message")
_MAX_CAUSES = 8


def classify_exception(error: BaseException, followed: FollowedRequest[Any]) -> ProviderError:
    """What a failed call says. Texts of the request that it repeats are not taken for the provider's words."""
    request = _encode_texts(followed)
    chain = list(_list_causes(error))
    for each in chain:
        status = next((value for name in _STATUS_NAMES if _is_status(value := getattr(each, name, None))), None)
        if status is not None:
            return classify_response(status, _read_body(each), request=request)
    return classify_response(None, "\n".join(str(each) for each in chain), request=request)


def _encode_texts(request: FollowedRequest[Any]) -> bytes:
    try:
        return msgspec.json.encode([unit.message for unit in request.shown])
    except UnicodeEncodeError:  # half a surrogate pair
        return b""


def _list_causes(error: BaseException) -> Iterator[BaseException]:
    """The exception and what caused it. A framework's own may also keep the cause in a field."""
    at: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if at is None:
            return
        yield at
        inner = getattr(at, "inner_exception", None)
        at = at.__cause__ or (inner if isinstance(inner, BaseException) else None) or at.__context__


def _is_status(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 400 <= value < 600


def _read_body(error: Any) -> object:
    """The provider's answer: its text, else as far as the exception has it."""
    try:
        text = error.response.text
    except Exception:  # noqa: BLE001 - the answer of a stream is not read yet, and every SDK says so in its own way
        text = None
    if isinstance(text, str) and text:
        return text
    return next((body for name in _BODY_NAMES if (body := getattr(error, name, None))), None) or str(error)


def describe_upstream(model: object) -> str:
    """Where a model of a framework is served: its class, and its base URL if it says so."""
    holders = [model, getattr(model, "client", None), getattr(model, "_client", None)]
    names = ("base_url", "openai_api_base", "anthropic_api_url", "endpoint")
    urls = [str(url) for holder in holders for name in names if (url := getattr(holder, name, None))]
    return " ".join([type(model).__name__, *urls[:1]])[:200]
