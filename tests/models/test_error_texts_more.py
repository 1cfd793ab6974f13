"""A fourth round of texts, gathered provider by provider and engine by engine after the table was widened for three.

Of 89 it read 70 at first sight (the others were in other languages, of engines' insides, or of Go's deadlines); now all
are held, and so are the numbers that may be learned from them, and no others.
"""

import pytest

from tests.models.test_error_texts import Text, texts
from tidegate.models.errors.classification import classify_frame, classify_response

TEXTS = r"""
overflow 400 Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens).
overflow 400 AiError: The estimated number of input and maximum output tokens (34012) exceeded this model context window limit (32768).
overflow 400 [ERROR] Error: Input length 6491 exceeds context length 1500
overflow 400 Please reduce the length of the messages or completion.
overflow 400 The prompt is too long: 141042, model maximum context length: 131072
overflow 400 too many tokens: size limit exceeded by 11326 tokens. Try using shorter or fewer inputs, or setting prompt_truncation='AUTO'.
overflow 400 Request too many tokens: 1999 + 50 > 2048
overflow 400 Input Tokens Exceeded: Number of input tokens exceeds maximum length. Please update the input to try again.
overflow 400 You passed 9000 input tokens and requested 1000 output tokens. However, the model's context length is only 8192 tokens, resulting in a maximum input length of 7192 tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=9000)
overflow 400 Input length (9000) exceeds model's maximum context length (8192).
overflow 400 The decoder prompt (length 9812) is longer than the maximum model length of 8192. Make sure that `max_model_len` is no smaller than the number of text tokens.
overflow 400 Multimodal prompt is too long after expanding multimodal tokens. After expanding len(req.origin_input_ids_unpadded)=1024 => 33211 >= 32764.
overflow 400 default_max_tokens (-808) should be greater than 0, default_max_tokens (-808) = max_seq_len (8192) - splited_prompt_len (9000) - query_token_len (0)
overflow 400 internal error happened, status code ResponseType.INPUT_LENGTH_ERROR
overflow 500 Context size has been exceeded.
overflow 400 request (53192 tokens) exceeds context size (50176 tokens)
overflow 400 the input length exceeds the context length
overflow 400 prompt too long; exceeded max context length by 1234 tokens
overflow 400 Reached context length of 4096 tokens with model (arch: llama) that does not currently support mid-generation context overflow. Try reloading with a larger context length or shortening the prompt/chat.
overflow 500 Cannot truncate prompt with n_keep (9000) >= n_ctx (4096)
overflow 400 litellm.ContextWindowExceededError: litellm.BadRequestError: ContextWindowExceededError: OpenAIException
overflow 400 Prompt 超长
overflow 400 Prompt exceeds max length
overflow 400 <400> InternalError.Algo.InvalidParameter: Total message token length exceed model limit
overflow 400 the max input characters is 20000
overflow 400 input is too long, current tokens: 33000, max tokens: 32000
overflow 400 The total tokens of messages and max_tokens exceed the maximum context length
overflow 400 maximum context length is 8192 tokens, however you requested 9000 tokens (8500 in your prompt; 500 for the completion).
overflow 400 Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum context length
overflow 400 The message you submitted was too long, please reload the conversation and submit something shorter.
overflow 400 Prompt too long: 9000 tokens exceeds max 8192
overflow 400 number of input tokens must be no more than 32768, got 40000
overflow 400 Tokens limit exceeded
overflow 400 The input token count exceeds the maximum number of tokens allowed 1048576.
overflow 400 Exceeded max_context_len 131072: prompt has 140000
overflow 400 Conversation history is too long for this model, please start a new chat
overflow 400 превышена максимальная длина контекста
overflow 400 コンテキスト長を超えています
overflow 400 컨텍스트 길이를 초과했습니다
overflow 400 Die maximale Kontextlänge wurde überschritten.
overflow 400 La longueur maximale du contexte est dépassée.
overflow 400 Se superó la longitud máxima del contexto.
overflow 400 the sum of input tokens (120000) and max_tokens (16384) must not exceed 131072
overflow 400 input_tokens + max_new_tokens = 9216 > max_position_embeddings = 8192
overflow 422 Input should have at most 131072 tokens
overflow 400 Your prompt has 9000 tokens but this deployment allows only 8192.
overflow 413 The request is too long for the model: 300,000 tokens (limit 262,144)
overflow 400 ExceededContextWindowSizeError: Session history of 5120 tokens does not fit
overflow 400 Unable to process: context limit of 200k reached
overflow 400 oversized prompt: total_tokens 131900 > context_size 131072
overflow 400 The request was rejected because the conversation no longer fits in the model's memory window of 32768 tokens
overflow 400 Error from provider: {"detail":[{"type":"value_error","msg":"Value error, prompt length of 41234 tokens is above the allowed 40960"}]}
overflow 400 Requested tokens (9300) exceed context window of 8192
overflow 500 Failed to create completion: prompt tokens 8300 + max_tokens 500 > n_ctx 8192
overflow 400 Model input cannot be longer than 32768 tokens
overflow 400 Messages have 210000 tokens, which exceeds the max limit of 200000 tokens.
rate_limit 429 Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2024-02-01 have exceeded token rate limit of your current OpenAI S0 pricing tier. Please retry after 7 seconds.
rate_limit 429 Too many tokens per day, please wait before trying again.
rate_limit 429 Resource has been exhausted (e.g. check quota).
rate_limit 429 You have exceeded the token usage per hour for this key
transport - rpc error: code = DeadlineExceeded desc = context deadline exceeded
transport 504 Post "https://host/v1/chat/completions": context deadline exceeded (Client.Timeout exceeded while awaiting headers)
transport - context canceled
server 503 {"detail":"exhausted all available targets to no avail"}
server 500 CUDA out of memory. Tried to allocate 2.00 GiB
server 529 Overloaded: the context cache service exceeded its capacity
rate_bucket 413 Request too large for model `llama-3.1-8b-instant` in organization `org_x` service tier `on_demand` on tokens per minute (TPM): Limit 6000, Requested 7000, please reduce your message size and try again.
rate_bucket 429 Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested 45000. The input or output tokens must be reduced in order to run successfully.
bytes 413 Request Entity Too Large
bytes 413 {"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}
bytes 413 <html><head><title>413 Request Entity Too Large</title></head><body><center><h1>413 Request Entity Too Large</h1></center><hr><center>nginx/1.24.0</center></body></html>
bytes 400 Total request size 41943040 bytes exceeds limit 33554432 bytes
output_cap 400 max_tokens must be at most 8192, got 32000
output_cap 400 Invalid value for max_completion_tokens: must be <= 16384
output_cap 400 The requested max_tokens of 65536 exceeds the model's maximum output of 32768 tokens
output_cap 400 `max_tokens` value 200000 is not within the allowed range [1, 131072]
unknown 400 Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 150 instead.
unknown 400 context_management: Extra inputs are not permitted
unknown 400 Request contains an invalid argument.
invalid_history 400 messages.4: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1
invalid_history 400 An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.
billing 402 Prompt tokens limit exceeded: 230799 > 91442.
billing 429 You exceeded your current quota, please check your plan and billing details.
media 400 image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes
media 400 This model does not support image inputs
media 400 Too many images: 30 provided, at most 20 allowed
refused 400 The response was filtered due to the prompt triggering Azure OpenAI's content management policy.
auth 401 Incorrect API key provided: sk-abc. You can find your API key at https://platform.openai.com/account/api-keys.
model 404 The model `gpt-9` does not exist or you do not have access to it.
"""  # noqa: E501


@pytest.mark.parametrize("row", texts(TEXTS), ids=lambda row: row.text[:60])
def test_kind(row: Text) -> None:
    assert classify_response(row.status, row.text).kind == row.kind


@pytest.mark.parametrize(
    ("text", "window", "tokens"),
    [
        ("Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens).", 59_862, 160_062),
        ("Input length 6491 exceeds context length 1500", 1_500, 6_491),
        ("The prompt is too long: 141042, model maximum context length: 131072", 131_072, 141_042),
        ("Request too many tokens: 1999 + 50 > 2048", 2_048, 1_999),
        ("request (53192 tokens) exceeds context size (50176 tokens)", 50_176, 53_192),
        ("number of input tokens must be no more than 32768, got 40000", 32_768, 40_000),
        (
            "Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
            32_768,
            65_673,
        ),
        ("Cannot truncate prompt with n_keep (9000) >= n_ctx (4096)", 4_096, None),
        ("Reached context length of 4096 tokens with model (arch: llama) that does not support it", 4_096, None),
        # A number that stands in no place we know is not learned, however much it looks like a window.
        ("input is too long, current tokens: 33000, max tokens: 32000", None, None),
        ("Your prompt has 9000 tokens but this deployment allows only 8192.", None, None),
        ("Prompt too long: 9000 tokens exceeds max 8192", None, None),
        ("invalid params, context window exceeds limit (2013)", None, None),
        ("oversized prompt: total_tokens 131900 > context_size 131072", None, None),
    ],
)
def test_what_is_learned(text: str, window: int | None, tokens: int | None) -> None:
    fault = classify_response(400, text)
    assert (fault.kind, fault.window, fault.prompt_tokens) == ("overflow", window, tokens)


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
