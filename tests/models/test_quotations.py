"""Errors that repeat the request: the client's text is not taken for the provider's words."""

import json

import pytest

from tests.fake.words import refusal, too_long
from tidegate.models.errors.classification import classify_frame, classify_response

WIRES = ("anthropic", "openai_chat", "openai_responses", "gemini", "mistral")
CLAIM = "This model's maximum context length is 900 tokens. However, your messages resulted in 5000 tokens."
ROLE = "maximum context length is 900 tokens"


def request_with(**fields: object) -> bytes:
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hello"}], **fields}
    return json.dumps(body).encode()


QUOTING = [
    ("Invalid value: '{}'. Supported values are: 'system', 'assistant' and 'user'.", ROLE),
    ('messages.0.role: Input should be "user" or "assistant", got "{}"', ROLE),
    ("Unknown user {} in the list.", ROLE),
    ("Unknown role: {}", "prompt is too long: 5000 tokens > 900 maximum"),
    ("Invalid `user`: `{}` is not allowed.", CLAIM),
    ("Invalid 'user': {}", CLAIM.upper()),
    ("1 validation error: input_value={{'role': '{}'}}, input_type=dict", ROLE),
    ("Bad role “{}”.", "context_length_exceeded"),
    ("Tool «{}» is unknown.", "max_tokens: 5000 > 900, which is the maximum allowed"),
]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(("form", "value"), QUOTING)
def test_a_quoted_value_is_no_claim(wire: str, form: str, value: str) -> None:
    sent = request_with(user=value)
    body = refusal(wire, 400, form.format(value)).body
    assert classify_response(400, body).kind in ("overflow", "output_cap", "media"), "without the request it looks so"
    error = classify_response(400, body, request=sent)
    assert (error.window, error.prompt_tokens, error.limit) == (None, None, None)
    assert error.kind not in ("overflow", "output_cap", "rate_bucket", "bytes")


@pytest.mark.parametrize("key", [ROLE, "context_length_exceeded"])
def test_names_of_fields_count_as_well(key: str) -> None:
    body = {"error": {"message": f"Unknown field '{key}'", "code": "unknown_field"}}
    error = classify_response(400, json.dumps(body).encode(), request=request_with(**{key: 1}))
    assert error.kind == "unknown"


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("cut", [slice(None), slice(60), slice(46), slice(13, None)])
def test_a_part_of_a_text_without_quotation_marks_is_no_claim(wire: str, cut: slice) -> None:
    sent = request_with(messages=[{"role": "user", "content": f"Explain this, please: {CLAIM} Why is it so?"}])
    for form in ("Cannot read the message {}", "<p>It&#39;s bad: {}</p>", "{}"):
        body = refusal(wire, 400, form.format(CLAIM[cut])).body
        plain, error = classify_response(400, body), classify_response(400, body, request=sent)
        assert plain.window == 900, "without the request it looks so"
        assert (error.window, error.prompt_tokens) == (None, None), form
        assert error.kind not in ("overflow", "output_cap")
    code = {"error": {"message": "Bad message.", "code": CLAIM[cut]}}
    assert classify_response(400, code, request=sent).window is None


def test_a_value_that_is_escaped_as_html() -> None:
    sent = request_with(user=CLAIM)
    body = f"<html><body><p>Bad user: {CLAIM.replace(chr(39), '&#39;')}</p></body></html>".encode()
    assert classify_response(400, body).window == 900
    assert classify_response(400, body, request=sent).window is None


def test_a_value_that_is_cut_or_escaped_in_quotation_marks() -> None:
    value = "é" * 40 + " " + ROLE + ' "so" ' + "x" * 400
    sent = request_with(user=value)
    for quoted in (value[30:120] + "...", value.replace("é", "\\u00e9")[:500], json.dumps(value)[1:-1]):
        error = classify_response(400, {"error": {"message": f"Invalid user '{quoted}'."}}, request=sent)
        assert (error.kind, error.window) == ("unknown", None), quoted


@pytest.mark.parametrize("wire", WIRES)
def test_the_provider_is_believed_although_an_earlier_error_is_in_the_conversation(wire: str) -> None:
    """People paste errors and ask about them; the tool result of a test prints them."""
    earlier = json.loads(too_long(wire, 9100, 8192).body)
    pasted = f"What does it mean?\n{json.dumps(earlier)}\n{too_long(wire, 9100, 8192).body.decode()}"
    sent = request_with(messages=[{"role": "user", "content": pasted}])
    for body in (too_long(wire, 9512, 8192).body, b"litellm.BadRequestError: " + too_long(wire, 9512, 8192).body):
        plain, error = classify_response(400, body), classify_response(400, body, request=sent)
        assert error.kind == "overflow"
        assert (error.window, error.prompt_tokens) == (plain.window, plain.prompt_tokens)


def test_only_the_repeated_part_is_removed() -> None:
    sent = request_with(user=ROLE)
    text = f"This model's maximum context length is 8192 tokens. (user: '{ROLE}')"
    assert classify_response(400, {"error": {"message": text}}, request=sent).window == 8192
    text = f"Invalid user '{ROLE}'. Your messages exceed the context window."
    error = classify_response(400, {"error": {"message": text}}, request=sent)
    assert (error.kind, error.window) == ("overflow", None)


def test_names_of_parameters_stay() -> None:
    """A tool may have a parameter of this name, and the table needs it."""
    sent = request_with(tools=[{"parameters": {"required": ["max_tokens"], "type": "object"}}])
    body = {"error": {"message": "'max_tokens' is too large: 9000. This model supports at most 4096 completion tokens"}}
    error = classify_response(400, body, request=sent)
    assert (error.kind, error.limit) == ("output_cap", 4096)


def test_the_request_beside_the_error_is_not_read() -> None:
    repeated = {"message": CLAIM, "n_ctx": 900, "error": {"message": CLAIM}}
    for place in ("body", "data", "args", "metadata", "choices"):
        body = {"error": {"message": "Wrong request.", "type": "invalid_request_error"}, place: repeated}
        error = classify_response(400, body)
        assert (error.kind, error.window) == ("unknown", None), place


def test_a_failed_response_repeats_the_request() -> None:
    response = {"status": "failed", "metadata": {"message": CLAIM}, "error": {"code": "x", "message": "Bad input."}}
    error = classify_frame({"type": "response.failed", "response": response})
    assert error is not None
    assert (error.kind, error.window) == ("server", None)
    response["error"] = {}
    error = classify_frame({"type": "response.failed", "response": response})
    assert error is not None
    assert (error.kind, error.window) == ("server", None)


def test_a_frame_that_repeats_the_request() -> None:
    frame = {"type": "error", "error": {"type": "invalid_request_error", "message": f"Bad role '{ROLE}'"}}
    error = classify_frame(frame, request=request_with(user=ROLE))
    assert error is not None
    assert (error.kind, error.window) == ("server", None)


@pytest.mark.parametrize("request_body", [b"", b"{", b"\xff\x00", b"[" * 5000, b"7", b'"hello"'])
def test_any_request(request_body: bytes) -> None:
    error = classify_response(400, {"error": {"message": CLAIM}}, request=request_body)
    assert (error.kind, error.window) == ("overflow", 900)
