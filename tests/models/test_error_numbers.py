"""The numbers that an error text gives: the window, the size of the prompt and of the answer, and limits."""

from tidegate.models.errors.classification import ProviderError, classify_frame, classify_response
from tidegate.models.errors.numbers import ErrorNumbers

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


# A number in a place that is not known is not learned, however much it looks like a window.
NUMBERS: list[tuple[str, str, dict[str, int]]] = [
    (
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.",
        "overflow",
        {"window": 8192, "tokens": 9001},
    ),
    (
        "This model's maximum context length is 8192 tokens. However, you requested 8213 tokens (6683 in the"
        " messages, 730 in the functions, and 800 in the completion). Please reduce the length of the"
        " messages.",
        "overflow",
        {"window": 8192, "tokens": 7413, "output": 800, "total": 8213},
    ),
    (
        "This endpoint's maximum context length is 200000 tokens. However, you requested about 201209 tokens"
        " (158536 of text input, 10673 of tool input, 32000 in the output).",
        "overflow",
        {"window": 200_000, "tokens": 169_209, "output": 32_000, "total": 201_209},
    ),
    ("prompt is too long: 213462 tokens > 200000 maximum", "overflow", {"window": 200_000, "tokens": 213_462}),
    (
        "input length and `max_tokens` exceed context limit: 196348 + 21333 > 200000, decrease input length",
        "overflow",
        {"window": 200_000, "tokens": 196_348, "output": 21_333},
    ),
    (
        "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576).",
        "overflow",
        {"window": 1_048_576, "tokens": 1_200_293},
    ),
    (
        "Prompt has 5,958,968 tokens, but the configured context size is 256,000 tokens",
        "overflow",
        {"window": 256_000, "tokens": 5_958_968},
    ),
    (
        "Invalid request: Your request exceeded model token limit: 262144 (requested: 274613)",
        "overflow",
        {"window": 262_144, "total": 274_613},
    ),
    ("Range of input length should be [1, 983616]", "overflow", {"window": 983_616}),
    (
        "length of prompt_tokens (68957) must be less than max_seq_len (65536).",
        "overflow",
        {"window": 65_536, "tokens": 68_957},
    ),
    (
        "Input tokens length is 29618. Output tokens length is 8192. Range of total length should be less"
        " than or equal to 32768",
        "overflow",
        {"window": 32_768, "tokens": 29_618, "output": 8192},
    ),
    (
        "too many tokens: tokens in the prompt cannot exceed 4081 - received 4292.",
        "overflow",
        {"window": 4081, "tokens": 4292},
    ),
    (
        "max_tokens: 100000 > 64000, which is the maximum allowed number",
        "output_cap",
        {"output": 100_000, "limit": 64_000},
    ),
    (
        "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 38324.",
        "rate_bucket",
        {"limit": 30_000},
    ),
    ("invalid params, context window exceeds limit (2013)", "overflow", {}),
    ("1261 Prompt exceeds max length", "overflow", {}),
    ("Your input exceeds the context window of this model. (request id: 20240322112841786544)", "overflow", {}),
    ("prompt too long; exceeded max context length by 100918 tokens", "overflow", {}),
    ("Model context window is 128k tokens, you requested 256k tokens", "overflow", {}),
    ("Malformed input request: expected maxLength: 50000, actual: 63021, please reformat your input", "overflow", {}),
    ("context_length_exceeded at 2026-11-15 06:00:00, build 131072, account 8192, trace 200000", "overflow", {}),
    ("This model's maximum context length is 17 tokens.", "overflow", {}),
    ("The prompt is too long. See https://example.com/errors/32768", "overflow", {}),
    ("Rate limit of 150 per 86400s exceeded for UserByModelByDay. Please wait 3562 seconds", "rate_limit", {}),
    (
        "Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens).",
        "overflow",
        {"window": 59_862, "tokens": 160_062},
    ),
    ("Input length 6491 exceeds context length 1500", "overflow", {"window": 1500, "tokens": 6491}),
    (
        "The prompt is too long: 141042, model maximum context length: 131072",
        "overflow",
        {"window": 131_072, "tokens": 141_042},
    ),
    ("Request too many tokens: 1999 + 50 > 2048", "overflow", {"window": 2048, "tokens": 1999, "output": 50}),
    ("request (53192 tokens) exceeds context size (50176 tokens)", "overflow", {"window": 50_176, "tokens": 53_192}),
    ("number of input tokens must be no more than 32768, got 40000", "overflow", {"window": 32_768, "tokens": 40_000}),
    (
        "Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
        "overflow",
        {"window": 32_768, "tokens": 65_673},
    ),
    ("Cannot truncate prompt with n_keep (9000) >= n_ctx (4096)", "overflow", {"window": 4096}),
    (
        "Reached context length of 4096 tokens with model (arch: llama) that does not support it",
        "overflow",
        {"window": 4096},
    ),
    ("input is too long, current tokens: 33000, max tokens: 32000", "overflow", {}),
    ("Your prompt has 9000 tokens but this deployment allows only 8192.", "overflow", {}),
    ("Prompt too long: 9000 tokens exceeds max 8192", "overflow", {}),
    ("oversized prompt: total_tokens 131900 > context_size 131072", "overflow", {}),
    ("Prompt tokens (9120) exceeds context size (8192)", "overflow", {"window": 8192, "tokens": 9120}),
    (
        "total number of tokens (prompt and prediction) cannot exceed 2048 - received 6354. Try a shorter prompt",
        "overflow",
        {"window": 2048, "total": 6354},
    ),
    (
        "`inputs` tokens + `max_new_tokens` must be <= 32768. Given: 880370 `inputs` tokens and 0 `max_new_tokens`",
        "overflow",
        {"window": 32_768, "tokens": 880_370, "output": 0, "limit": 32_768},
    ),
    (
        "Request exceeds the maximum context length of 1048576 tokens. You requested 1100000 tokens (1000000"
        " in the input, 100000 in the output).",
        "overflow",
        {"window": 1_048_576, "tokens": 1_000_000, "output": 100_000, "total": 1_100_000},
    ),
    ("prompt (9000 tokens) does not fit in the context window (8192)", "overflow", {"window": 8192, "tokens": 9000}),
    ("The request used 9210 tokens, which exceeds the 8192-token context window.", "overflow", {"window": 8192}),
    ("Input too large: 2000 tokens exceeds the maximum allowed for model x-1 (1000)", "overflow", {"window": 1000}),
    ("status 400 Bad Request, message: input token limit is 97280", "overflow", {"window": 97_280}),
    ("property 'max_new_tokens' must be <= 2048.", "output_cap", {"limit": 2048}),
    ("Input validation error: `max_new_tokens` must be <= 192. Given: 200", "output_cap", {"limit": 192}),
    (
        "The parameter `max_tokens` specified in the request are not valid: integer above maximum value,"
        " expected a value <= 4096, but got 8192 instead.",
        "output_cap",
        {"output": 8192, "limit": 4096},
    ),
]


def test_numbers_of_texts() -> None:
    found = [(text, kind, numbers, classify_response(400, text)) for text, kind, numbers in NUMBERS]
    wrong = [
        f"{fault.kind} {known(fault)}, not {kind} {numbers}: {text}"
        for text, kind, numbers, fault in found
        if (fault.kind, known(fault)) != (kind, numbers)
    ]
    assert not wrong, "\n".join(wrong)


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


def test_named_fields() -> None:
    body = b'{"error":{"code":400,"message":"the request exceeds the available context size","type":'
    fault = classify_response(400, body + b'"exceed_context_size_error","n_prompt_tokens":9000,"n_ctx":8192}}')
    assert known(fault) == {"window": 8192, "tokens": 9000}
    fault = classify_response(500, b'{"error":{"message":"slot failed","n_prompt_tokens":9000,"n_ctx":8192}}')
    assert (fault.kind, known(fault)) == ("server", {})


def test_the_prompt_and_the_answer_are_told_apart() -> None:
    text = (
        "You passed 9000 input tokens and requested 1000 output tokens. However, the model's context length is only"
        " 8192 tokens, resulting in a maximum input length of 7192 tokens. Please reduce the input prompt."
    )
    fault = classify_response(400, text)
    assert (fault.window, fault.prompt_tokens, fault.requested_output) == (8_192, 9_000, 1_000)
    assert fault.output_room is None
    short = classify_response(400, text.replace("9000", "8000"))
    assert short.output_room == 192
    both = "The estimated number of input and maximum output tokens (34012)"
    cloud = classify_response(400, f"{both} exceeded this model context window limit (32768).")
    assert (cloud.window, cloud.prompt_tokens, cloud.requested_total) == (32_768, None, 34_012)


def test_a_code_in_a_frame() -> None:
    told = classify_frame({"choices": None, "base_resp": {"status_code": 1039, "status_msg": "token limit"}})
    assert told is not None
    assert (told.kind, told.window) == ("overflow", None)


def test_numbers_of_an_unsettled_kind() -> None:
    assert ErrorNumbers(window=8192, output=9000).resolve_kind("overflow") == "output_cap"
    assert ErrorNumbers(window=8192).resolve_kind("output_cap") == "output_cap"
    assert ErrorNumbers(limit=5).resolve_kind("rate_bucket") == "rate_bucket"
