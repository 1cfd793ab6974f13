"""Exceptions of frameworks and SDKs, as they report that a provider refused a request."""

from types import SimpleNamespace
from typing import Any

import pytest

from tidegate import Session
from tidegate.core.messages import Message, Result, Text
from tidegate.integrations.provider_errors import classify_exception, describe_upstream
from tidegate.session.following import FollowedRequest, FollowingSession, make_host_item

WORDS = "This model's maximum context length is 8192 tokens."
BODY = {"error": {"message": WORDS, "code": "context_length_exceeded"}}


class SomeError(Exception):
    def __init__(self, text: str = "It failed.", **fields: Any) -> None:
        super().__init__(text)
        vars(self).update(fields)


def make_refused(*texts: str) -> FollowedRequest[str]:
    following = FollowingSession[str](Session("gpt-4o", window=32_000))
    messages = [Message("user", (Text(text),)) for text in texts]
    return following.prepare([make_host_item("", message) for message in messages])


def caused_by(cause: Exception) -> Exception:
    error = SomeError("The agent failed.")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        SomeError(status_code=400, body=BODY),
        SomeError(status_code=400, body=None, response=SimpleNamespace(text=str(BODY).replace("'", '"'))),
        SomeError(code=400, details=BODY),
        SomeError(f"Error code: 400 - {WORDS}"),
        caused_by(SomeError(status_code=400, body=BODY)),
        SomeError(inner_exception=SomeError(status_code=400, body=BODY)),
        caused_by(caused_by(SomeError(WORDS))),
    ],
    ids=["body", "response", "details", "words", "cause", "inner exception", "words of a cause"],
)
def test_a_refusal_is_recognized(error: Exception) -> None:
    found = classify_exception(error, make_refused("Hello."))
    assert (found.kind, found.window) == ("overflow", 8192)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (SomeError(status_code=401, body={"error": {"message": "Incorrect API key provided."}}), "auth"),
        (SomeError(status_code=429, body={"error": {"message": "Rate limit reached."}}), "rate_limit"),
        (ValueError("a bug"), "unknown"),
        (SomeError("a bug", status_code=True, code="400"), "unknown"),
    ],
)
def test_other_failures_are_something_else(error: Exception, kind: str) -> None:
    assert classify_exception(error, make_refused("Hello.")).kind == kind


def test_text_of_the_request_that_an_error_repeats_is_not_believed() -> None:
    planted = "maximum context length is 900 tokens"
    error = SomeError(status_code=400, body={"error": {"message": f"Invalid value: '{planted}'."}})
    assert classify_exception(error, make_refused("Hello.")).window == 900, "it cannot be known that it is a quotation"
    assert classify_exception(error, make_refused("Hello.", planted)).kind != "overflow"
    following = FollowingSession[str](Session("gpt-4o", window=32_000))
    result = Message("tool", (Result("c1", (Text(planted),)),))
    items = [make_host_item("", message) for message in (Message("user", (Text("Hello."),)), result)]
    request = following.prepare(items)
    assert classify_exception(error, request._replace(changed=None)).kind != "overflow"


def test_models_at_different_places_are_told_apart() -> None:
    first, second, third = (
        describe_upstream(SimpleNamespace(base_url=url)) for url in ("http://a/v1", "http://b/v1", "")
    )
    assert len({first, second, third}) == 3
    assert describe_upstream(SimpleNamespace(client=SimpleNamespace(base_url="http://a/v1"))) == first
