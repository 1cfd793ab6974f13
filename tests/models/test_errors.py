"""What a failure turns into, whatever its shape: kind, numbers, how long to wait, what is shown."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scale import scaled
from tidegate.core.errors import TidegateError
from tidegate.core.text.secrets import SecretMask
from tidegate.models.errors.classification import (
    ERROR_CAUSES,
    ERROR_REMEDIES,
    MAX_SHOWN_CHARS,
    classify_frame,
    classify_response,
    transport_error,
)
from tidegate.models.errors.rows import ERROR_KINDS

OVERFLOW = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens."


SHAPES = [
    b'{"error":{"message":"%s","type":"invalid_request_error","code":"context_length_exceeded"}}',
    b'[{"error":{"code":400,"message":"%s","status":"INVALID_ARGUMENT"}}]',
    b'{"error":"%s"}',
    b'{"object":"error","message":"%s","type":"BadRequestError","code":400}',
    b'{"detail":"%s"}',
    b'{"detail":[{"loc":["body"],"msg":"%s","type":"value_error"}]}',
    b'"%s"',
    b"%s",
    b"<html><body><h1>400</h1><p>%s</p></body></html>",
    b'data: {"error":{"message":"%s"}}\n\ndata: [DONE]\n\n',
    b'{"error":{"message":"Provider returned error","metadata":{"raw":"{\\"error\\":{\\"message\\":\\"%s\\"}}"}}}',
    b'{"error":{"message":"{\\"type\\":\\"error\\",\\"error\\":{\\"message\\":\\"%s\\"}}","code":400}}',
    b'{"type":"error","error":{"type":"request_fail","upstream_error":{"error":{"message":"%s"}}}}',
    b'{"base_resp":{"status_code":1039,"status_msg":"%s"}}',
    b'{"__type":"ValidationException","message":"%s"}',
    b"\xef\xbb\xbf%s",
]


def test_shapes_of_a_body() -> None:
    for shape in SHAPES:
        fault = classify_response(400, shape % OVERFLOW.encode())
        assert (fault.kind, fault.window, fault.prompt_tokens) == ("overflow", 8192, 9001), shape


def test_a_code_alone_is_enough() -> None:
    assert classify_response(400, b'{"error":{"message":"No.","code":"context_length_exceeded"}}').kind == "overflow"
    assert classify_response(429, b'{"error":{"message":"No.","code":"insufficient_quota"}}').kind == "billing"
    assert classify_response(429, b'{"error":{"message":"No.","code":"rate_limit_exceeded"}}').kind == "rate_limit"
    assert (
        classify_response(529, b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}').kind
        == "server"
    )


def test_what_the_request_said_is_not_taken_for_the_provider() -> None:
    body = {"detail": [{"loc": ["body", "messages"], "msg": "field required", "input": OVERFLOW}], "prompt": OVERFLOW}
    fault = classify_response(422, msgspec.json.encode(body))
    assert (fault.kind, fault.window) == ("unknown", None)
    assert "8192" not in str(fault)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *((status, "unknown") for status in (None, 200, 400, 418)),
        *((status, "auth") for status in (401, 403)),
        *((status, "server") for status in (500, 503, 529, 599)),
        (404, "model"),
        (408, "transport"),
        (413, "bytes"),
        (429, "rate_limit"),
    ],
)
def test_a_bare_status(status: int | None, kind: str) -> None:
    for body in (b"", b"{}", b"null", b"   ", b"\x00\xff", b"[]"):
        fault = classify_response(status, body)
        assert (fault.kind, fault.is_certain) == (kind, False)


def test_what_is_certain() -> None:
    assert classify_response(402).is_certain
    assert classify_response(402, OVERFLOW).kind == "billing"
    assert classify_response(413, "Payload Too Large").is_certain
    assert classify_response(400, OVERFLOW).is_certain


@pytest.mark.parametrize(
    ("headers", "body", "wait"),
    [
        ({"Retry-After": "12"}, b"", 12.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, b"", 1.5),
        ({"retry-after": "Sun, 15 Nov 2026 06:01:00 GMT", "date": "Sun, 15 Nov 2026 06:00:00 GMT"}, b"", 60.0),
        ({"retry-after": "Sun, 15 Nov 2026 06:01:00 GMT"}, b"", None),
        ({"retry-after": "soon"}, b"Please try again in 8s.", 8.0),
        ({"retry-after": "-3"}, b"", None),
        ({"retry-after": "nan"}, b"", None),
        ({"retry-after": "1e999"}, b"", None),
        ({}, b"Please try again in 1m30.5s. Visit", 90.5),
        ({}, b"Please try again in 320ms.", 0.32),
        ({}, b"Please retry after 6 seconds.", 6.0),
        ({}, b"Please retry in 34.074824224s.", 34.074824224),
        ({}, b'{"error":{"message":"q","details":[{"@type":"RetryInfo","retryDelay":"34s"}]}}', 34.0),
        ({}, b"Limit 30000, Used 28000, Requested 6060", None),
        ({}, b"Please try again in a while", None),
    ],
)
def test_how_long_to_wait(headers: dict[str, str], body: bytes, wait: float | None) -> None:
    assert classify_response(429, body, headers).retry_after == (pytest.approx(wait) if wait is not None else None)


def test_neither_keys_nor_the_whole_body_are_shown() -> None:
    key = "my-own-secret-value-42"
    shaped = "sk-proj-" + "a1B2c3D4" * 5
    body = f"Incorrect API key provided: {shaped}. Authorization: Bearer {key} " + "x" * 5000
    fault = classify_response(401, body, mask=SecretMask([key]))
    assert fault.kind == "auth"
    for shown in (str(fault), repr(fault)):
        assert key not in shown
        assert shaped not in shown
        assert len(shown) < MAX_SHOWN_CHARS + 300


def test_a_fault_is_an_error_of_ours() -> None:
    fault = classify_response(400, OVERFLOW)
    assert isinstance(fault, TidegateError)
    assert str(fault).endswith(ERROR_REMEDIES["overflow"])
    assert set(ERROR_CAUSES) == set(ERROR_REMEDIES) == set(ERROR_KINDS)
    assert transport_error("peer closed connection").kind == "transport"
    assert [classify_response(status).is_retryable for status in (429, 503, 408, 400, 402)] == [
        True,
        True,
        True,
        False,
        False,
    ]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from("error message code type detail metadata raw n_ctx n_prompt_tokens retryDelay delta choices"
                            " finish_reason response base_resp status_code promptFeedback content".split()) | st.text(),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)  # fmt: skip
statuses = st.none() | st.integers(min_value=-1, max_value=1000)


@settings(max_examples=scaled(40))
@given(body=st.binary(max_size=400) | st.text(max_size=400) | json_values, status=statuses)
def test_any_body_is_a_fault(body: object, status: int | None) -> None:
    fault = classify_response(status, body, {"Retry-After": str(body)[:40]})
    assert fault.kind in ERROR_KINDS
    assert len(str(fault)) < MAX_SHOWN_CHARS + 400
    assert fault.window is None or fault.window >= 128


@settings(max_examples=scaled(40))
@given(value=json_values)
def test_any_json_is_a_fault(value: object) -> None:
    try:
        body = msgspec.json.encode(value)
    except (ValueError, OverflowError):
        body = repr(value).encode("utf-8", "replace")
    assert classify_response(400, body).kind in ERROR_KINDS


@settings(max_examples=scaled(40))
@given(frame=json_values)
def test_any_frame_is_a_fault_or_none(frame: object) -> None:
    fault = classify_frame(frame)
    assert fault is None or fault.kind in ERROR_KINDS


def test_deep_and_large_bodies() -> None:
    assert classify_response(400, b"[" * 100_000).kind == "unknown"
    assert classify_response(400, b'{"error":' * 5000 + b"1" + b"}" * 5000).kind == "unknown"
    assert classify_response(400, b'{"error":{"message":"' + b"a" * 2_000_000 + b'"}}').kind == "unknown"
    assert classify_response(400, OVERFLOW + " y" * 500_000).kind == "overflow"


REPEATED = ["prompt ", "context ", "tokens exceed ", "a" * 50, "image ", "max_tokens ", "limit: 1, ", "<a ", "> "]
REPEATED += ["retry in 1", "tool call "]


@pytest.mark.exhaustive
def test_work_grows_with_the_text_only() -> None:
    """A pattern that tries everything against everything takes many minutes for any of these."""
    for unit in REPEATED:
        assert classify_response(400, (unit * 20_000)[:100_000]).kind in ERROR_KINDS


def test_names_of_programs_are_read_as_words_but_never_as_a_length() -> None:
    assert classify_response(None, "{ errorType: 'InvalidProviderAPIKey' }").kind == "auth"
    assert classify_response(None, "{ missing: 'MaxInputTokens' }").kind == "unknown"
    assert classify_response(400, {"error": {"type": "MessageTooBig"}}).kind == "bytes"


def test_a_single_word_decides_only_where_no_status_does() -> None:
    for words, kind in (("The wallet and the balance", "billing"), ("A proxy, again", "transport")):
        assert classify_response(None, words).kind == kind
        assert classify_response(400, words).kind == "unknown"
        assert classify_response(500, words).kind == "server"


def test_the_name_that_google_gives_every_bad_request_says_nothing() -> None:
    envelope = {"error": {"code": 400, "message": "Nope.", "status": "INVALID_ARGUMENT"}}
    error = classify_response(400, envelope)
    assert (error.kind, error.is_certain) == ("unknown", False)
    envelope["error"]["message"] = "Invalid parameter 'top_k'."
    assert classify_response(400, envelope).is_certain
