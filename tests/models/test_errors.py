"""What a failure turns into, whatever its shape: kind, numbers, how long to wait, what is shown."""

import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.test_error_texts import SHORT, TEXTS, texts
from tests.models.test_error_texts_held_out import TEXTS as HELD
from tests.models.test_error_texts_issues import ISSUES
from tests.models.test_error_texts_more import TEXTS as MORE
from tests.models.test_error_texts_reported import REPORTED
from tests.models.test_error_texts_rounds import TEXTS as ROUNDS
from tidegate.core.errors import TidegateError
from tidegate.core.text.secrets import SecretMask
from tidegate.models.errors.classification import (
    ERROR_CAUSES,
    ERROR_REMEDIES,
    MAX_SHOWN_CHARS,
    ProviderError,
    classify_frame,
    classify_response,
    transport_error,
)
from tidegate.models.errors.numbers import ErrorNumbers
from tidegate.models.errors.rows import ERROR_KINDS
from tidegate.models.errors.table import ERROR_TABLE, compile_patterns, match_error

OVERFLOW = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens."


def known(fault: ProviderError) -> dict[str, int]:
    numbers = {
        "window": fault.window,
        "tokens": fault.prompt_tokens,
        "output": fault.requested_output,
        "total": fault.requested_total,
        "limit": fault.limit,
    }
    return {name: number for name, number in numbers.items() if number is not None}


NUMBERS = [
    (OVERFLOW, {"window": 8192, "tokens": 9001}),
    (
        "This model's maximum context length is 8192 tokens. However, you requested 8213 tokens (6683 in the messages,"
        " 730 in the functions, and 800 in the completion). Please reduce the length of the messages.",
        {"window": 8192, "tokens": 7413, "output": 800, "total": 8213},
    ),
    (
        "This endpoint's maximum context length is 200000 tokens. However, you requested about 201209 tokens (158536 of"
        " text input, 10673 of tool input, 32000 in the output).",
        {"window": 200_000, "tokens": 169_209, "output": 32_000, "total": 201_209},
    ),
    ("prompt is too long: 213462 tokens > 200000 maximum", {"window": 200_000, "tokens": 213_462}),
    (
        "input length and `max_tokens` exceed context limit: 196348 + 21333 > 200000, decrease input length",
        {"window": 200_000, "tokens": 196_348, "output": 21_333},
    ),
    (
        "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576).",
        {"window": 1_048_576, "tokens": 1_200_293},
    ),
    (
        "Prompt has 5,958,968 tokens, but the configured context size is 256,000 tokens",
        {"window": 256_000, "tokens": 5_958_968},
    ),
    (
        "Invalid request: Your request exceeded model token limit: 262144 (requested: 274613)",
        {"window": 262_144, "total": 274_613},
    ),
    ("Range of input length should be [1, 983616]", {"window": 983_616}),
    ("length of prompt_tokens (68957) must be less than max_seq_len (65536).", {"window": 65_536, "tokens": 68_957}),
    (
        "Input tokens length is 29618. Output tokens length is 8192. Range of total length should be less than or equal"
        " to 32768",
        {"window": 32_768, "tokens": 29_618, "output": 8192},
    ),
    ("too many tokens: tokens in the prompt cannot exceed 4081 - received 4292.", {"window": 4081, "tokens": 4292}),
    ("max_tokens: 100000 > 64000, which is the maximum allowed number", {"output": 100_000, "limit": 64_000}),
    (
        "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 38324.",
        {"limit": 30_000},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "numbers"), NUMBERS, ids=lambda value: str(value)[:40])
def test_numbers_of_known_sentences(text: str, numbers: dict[str, int]) -> None:
    assert known(classify_response(400, text)) == numbers


@pytest.mark.parametrize(
    "text",
    [
        "invalid params, context window exceeds limit (2013)",
        "1261 Prompt exceeds max length",
        "Your input exceeds the context window of this model. (request id: 20240322112841786544)",
        "prompt too long; exceeded max context length by 100918 tokens",
        "Model context window is 128k tokens, you requested 256k tokens",
        "Malformed input request: expected maxLength: 50000, actual: 63021, please reformat your input",
        "context_length_exceeded at 2026-11-15 06:00:00, build 131072, account 8192, trace 200000",
        "This model's maximum context length is 17 tokens.",
        "The prompt is too long. See https://example.com/errors/32768",
        "Rate limit of 150 per 86400s exceeded for UserByModelByDay. Please wait 3562 seconds",
    ],
)
def test_other_numbers_are_not_learned(text: str) -> None:
    assert known(classify_response(400, text)) == {}


def test_a_bound_is_not_taken_for_a_count() -> None:
    """vLLM stops counting where the window ends and says "at least": that number tells nothing about the prompt."""
    fault = classify_response(
        400,
        "This model's maximum context length is 196608 tokens. However, you requested 16384 output tokens and your"
        " prompt contains at least 180225 input tokens, for a total of at least 196609 tokens.",
    )
    assert known(fault) == {"window": 196_608, "output": 16_384}
    assert fault.output_room is None


def test_a_window_is_not_learned_from_another_kind() -> None:
    fault = classify_response(429, f"Rate limit reached, tokens per min. {OVERFLOW}")
    assert fault.kind == "rate_limit"
    assert known(fault) == {}


def test_the_numbers_decide_between_two_meanings() -> None:
    rate = "Limit 30000, Used 28000, Requested {}. Please try again in 8s."
    assert classify_response(429, rate.format(6060)).kind == "rate_limit"
    assert classify_response(429, rate.format(30_001)).kind == "rate_bucket"
    vllm = (
        "'max_tokens' or 'max_completion_tokens' is too large: {}. This model's maximum context length is 8192 tokens"
        " and your request has 5000 input tokens."
    )
    assert classify_response(400, vllm.format(4096)).kind == "overflow"
    assert classify_response(400, vllm.format(8192)).kind == "output_cap"


def test_an_overflow_that_less_output_cures_says_how_much() -> None:
    fault = classify_response(
        400, "input length and `max_tokens` exceed context limit: 196348 + 21333 > 200000, decrease"
    )
    assert fault.kind == "overflow"
    assert fault.output_room == 3652
    assert "3,652" in str(fault)
    over = classify_response(400, "prompt is too long: 213462 tokens > 200000 maximum")
    assert over.output_room is None
    alone = classify_response(400, "exceed context limit: 200001 + 21333 > 200000")
    assert alone.output_room is None


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


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_of_a_body(shape: bytes) -> None:
    fault = classify_response(400, shape % OVERFLOW.encode())
    assert (fault.kind, fault.window, fault.prompt_tokens) == ("overflow", 8192, 9001)


def test_named_fields() -> None:
    body = b'{"error":{"code":400,"message":"the request exceeds the available context size","type":'
    fault = classify_response(400, body + b'"exceed_context_size_error","n_prompt_tokens":9000,"n_ctx":8192}}')
    assert known(fault) == {"window": 8192, "tokens": 9000}
    fault = classify_response(500, b'{"error":{"message":"slot failed","n_prompt_tokens":9000,"n_ctx":8192}}')
    assert (fault.kind, known(fault)) == ("server", {})


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


@given(body=st.binary(max_size=400) | st.text(max_size=400) | json_values, status=statuses)
def test_any_body_is_a_fault(body: object, status: int | None) -> None:
    fault = classify_response(status, body, {"Retry-After": str(body)[:40]})
    assert fault.kind in ERROR_KINDS
    assert len(str(fault)) < MAX_SHOWN_CHARS + 400
    assert fault.window is None or fault.window >= 128


@given(value=json_values)
def test_any_json_is_a_fault(value: object) -> None:
    try:
        body = msgspec.json.encode(value)
    except (ValueError, OverflowError):
        body = repr(value).encode("utf-8", "replace")
    assert classify_response(400, body).kind in ERROR_KINDS


@given(frame=json_values)
def test_any_frame_is_a_fault_or_none(frame: object) -> None:
    fault = classify_frame(frame)
    assert fault is None or fault.kind in ERROR_KINDS


def test_deep_and_large_bodies() -> None:
    assert classify_response(400, b"[" * 100_000).kind == "unknown"
    assert classify_response(400, b'{"error":' * 5000 + b"1" + b"}" * 5000).kind == "unknown"
    assert classify_response(400, b'{"error":{"message":"' + b"a" * 10_000_000 + b'"}}').kind == "unknown"
    assert classify_response(400, OVERFLOW + " y" * 500_000).kind == "overflow"


@pytest.mark.parametrize(
    "unit",
    [
        "prompt ",
        "context ",
        "tokens exceed ",
        "a" * 50,
        "image ",
        "max_tokens ",
        "limit: 1, ",
        "<a ",
        "> ",
        "retry in 1",
        "tool call ",
    ],
)
def test_work_grows_with_the_text_only(unit: str) -> None:
    """CPU time, and far above what it takes: a pattern that tries everything against everything takes minutes."""
    start = time.process_time()
    classify_response(400, (unit * 20_000)[:200_000])
    assert time.process_time() - start < 5


def test_every_way_to_say_it_has_a_text() -> None:
    """A line of the table that no text meets is dead, or was never tried."""
    judged = [
        (text.text, match_error([text.text], text.status))
        for text in texts(TEXTS + SHORT + HELD + MORE + ROUNDS + REPORTED + ISSUES)
    ]
    for row in ERROR_TABLE:
        met = [text for text, by in judged if by is row]
        for way in row.patterns.splitlines():
            pattern = compile_patterns(way.strip())
            assert any(pattern.search(text) for text in met), f"{row.kind}: {way.strip()}"


def test_the_usual_wrapping_changes_nothing() -> None:
    for text in texts(TEXTS + SHORT + HELD + MORE + ROUNDS):
        if not text.text.startswith(("<", "{")):
            error = {"message": text.text, "type": "invalid_request_error", "param": None, "code": text.status}
            body = msgspec.json.encode({"type": "error", "error": error, "request_id": "req_011CWwvKgCCu3fvjASX69zqX"})
            assert classify_response(text.status, body).kind == text.kind, text.text


def test_names_of_programs_are_read_as_words_but_never_as_a_length() -> None:
    assert classify_response(None, "{ errorType: 'InvalidProviderAPIKey' }").kind == "auth"
    assert classify_response(None, "{ missing: 'MaxInputTokens' }").kind == "unknown"
    assert classify_response(400, {"error": {"type": "MessageTooBig"}}).kind == "bytes"


def test_a_single_word_decides_only_where_no_status_does() -> None:
    for words, kind in (("The wallet and the balance", "billing"), ("A proxy, again", "transport")):
        assert classify_response(None, words).kind == kind
        assert classify_response(400, words).kind == "unknown"
        assert classify_response(500, words).kind == "server"


def test_numbers_of_an_unsettled_kind() -> None:
    assert ErrorNumbers(window=8192, output=9000).resolve_kind("overflow") == "output_cap"
    assert ErrorNumbers(window=8192).resolve_kind("output_cap") == "output_cap"
    assert ErrorNumbers(limit=5).resolve_kind("rate_bucket") == "rate_bucket"
