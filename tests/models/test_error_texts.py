"""Providers' own words by kind, and a few close to them: the texts the table was written on."""

from typing import NamedTuple

import pytest

from tidegate.models.errors.classification import classify_response
from tidegate.models.errors.rows import ERROR_KINDS

# kind, status (- for none), text.
TEXTS = r"""
overflow 400 This model's maximum context length is 4097 tokens. However, your messages resulted in 7575 tokens. Please reduce the length of the messages.
overflow 400 This model's maximum context length is 8192 tokens. However, you requested 8213 tokens (6683 in the messages, 730 in the functions, and 800 in the completion). Please reduce the length of the messages, functions, or completion.
overflow 400 This model's maximum context length is 4097 tokens, however you requested 4116 tokens (1044 in your prompt; 3072 for the completion). Please reduce your prompt; or completion length.
overflow 400 context_length_exceeded Your input exceeds the context window of this model. Please adjust your input and try again.
overflow 400 prompt is too long: 213462 tokens > 200000 maximum
overflow 400 input length and `max_tokens` exceed context limit: 196348 + 21333 > 200000, decrease input length or `max_tokens` and try again
overflow 400 The input token count (1200293) exceeds the maximum number of tokens allowed (1048576).
overflow 400 The input token count exceeds the maximum number of tokens allowed 1048576.
overflow 400 ValidationException: Input is too long for requested model.
overflow 400 The model returned the following errors: prompt is too long: 903884 tokens > 200000 maximum
overflow 400 Prompt contains 300000 tokens, too large for model with 131072 maximum context length
overflow 400 Please reduce the length of the messages or completion.
overflow 400 This model's maximum context length is 131072 tokens. However, you requested 131134 tokens (122942 in the messages, 8192 in the completion). Please reduce the length of the messages or completion.
overflow 400 This model's maximum prompt length is 131072 but the request contains 136973 tokens.
overflow 400 This endpoint's maximum context length is 200000 tokens. However, you requested about 201209 tokens (158536 of text input, 10673 of tool input, 32000 in the output). Please reduce the length of either one, or use the "middle-out" transform to compress your prompt automatically.
overflow 400 The input (516368 tokens) is longer than the model's context length (262144 tokens).
overflow 400 prompt too long; exceeded max context length by 100918 tokens
overflow 500 no user query found in messages
overflow 400 request (124071 tokens) exceeds the available context size (123904 tokens), try increasing it
overflow 500 the request exceeds the available context size. try increasing the context size or enable context shift
overflow - Requested tokens (2285) exceed context window of 2048
overflow 400 This model's maximum context length is 196608 tokens. However, you requested 16384 output tokens and your prompt contains at least 180225 input tokens, for a total of at least 196609 tokens. Please reduce the length of the input prompt or the number of requested output tokens.
overflow 400 'max_tokens' or 'max_completion_tokens' is too large: 4096. This model's maximum context length is 32768 tokens and your request has 29000 input tokens (4096 > 32768 - 29000).
overflow 400 The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 13055>= n_ctx: 4096). Try to load the model with a larger context length, or provide a shorter input.
overflow 400 Trying to keep the first 10136 tokens when context the overflows. However, the model is loaded with context length of only 7866 tokens, which is not enough.
overflow 400 too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4292. Try using a shorter prompt, or enabling prompt truncating.
overflow 400 too many tokens: size limit exceeded by 11326 tokens. Try using shorter or fewer inputs. The limit for this model is 128000 tokens.
overflow 400 1261 Prompt exceeds max length
overflow 400 Request 66248 input tokens exceeds the model's maximum context length 131072
overflow 400 invalid params, context window exceeds limit (2013)
overflow 400 Invalid request: Your request exceeded model token limit: 262144 (requested: 274613)
overflow 400 <400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 983616]
overflow 400 InvalidParameter Input length 203743 exceeds the maximum length 202752
overflow 400 Total tokens of image and text exceed max message tokens.
overflow 400 Input length (265330) exceeds model's maximum context length (262144).
overflow 400 Input length 131393 exceeds the maximum allowed input length of 131040 tokens.
overflow 400 Requested token count exceeds the model's maximum context length of 131072 tokens.
overflow 503 litellm.ServiceUnavailableError: litellm.MidStreamFallbackError: litellm.APIConnectionError: APIConnectionError: OpenAIException - Requested token count exceeds the model's maximum context length of 131072 tokens.
overflow 400 Requested token count exceeds the model's maximum context length of 256000 tokens. You requested a total of 256878 tokens: 31216 tokens from the input messages and 225662 tokens for the completion.
overflow 400 Prompt has 5,958,968 tokens, but the configured context size is 256,000 tokens
overflow 400 prompt tokens (400007) exceed model maximum (278528) for openai.gpt-5.5
overflow 400 Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 509178 tokens. Please reduce the length of the messages.
overflow 400 The maximum context length of DeepSeek-V3-0324 is 32768. However, answering your request will take 39732 tokens. Please reduce the length of the messages or the specified max_completion_tokens value.
overflow 400 Please reduce the length of the messages or completion. Current length is 42328 while limit is 40000
overflow 400 This model's maximum context length has been exceeded. Please reduce the length of the messages.
overflow 400 prompt token count of 143254 exceeds the limit of 128000
overflow 413 Request body too large for gpt-4o model. Max size: 8000 tokens.
overflow 400 Unable to submit request because the input token count is 40152 but model only supports up to 32768. Reduce the input token count and try again.
overflow 422 Input validation error: `inputs` must have less than 4096 tokens. Given: 5120
overflow 422 Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens and 512 `max_new_tokens`
overflow 400 The decoder prompt (length 21535) is longer than the maximum model length of 16384. Make sure that `max_model_len` is no smaller than the number of text tokens plus multimodal tokens.
overflow 400 The prompt (total length 25938) is too long to fit into the model (context length 4096). Make sure that `max_model_len` is no smaller than the number of text tokens plus multimodal tokens.
overflow 400 max_tokens must be at least 1, got -1353.
overflow 400 Too many input tokens. Max input tokens: 131072, request input token count: 140233
overflow 400 Malformed input request: expected maxLength: 50000, actual: 63021, please reformat your input and try again.
overflow 400 The total length of all messages is too long.
overflow 400 input length exceeds maximum context length
overflow 400 ValidationException: Input exceeds the max input token limit
overflow 400 total tokens exceeds the model's max of 4096
overflow 400 tokens in request more than max tokens allowed
overflow 400 输入内容过长，超过模型最大上下文长度限制
overflow - ValueError: Requested tokens exceed context window of 512
overflow 400 Your input exceeds the model's context window
overflow 500 Context size has been exceeded.
rate_bucket 429 Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested 38324. The input or output tokens must be reduced in order to run successfully. Visit https://platform.openai.com/account/rate-limits to learn more.
rate_bucket 413 Request too large for model `llama-3.3-70b-versatile` in organization `org_01` service tier `on_demand` on tokens per minute (TPM): Limit 12000, Requested 14137, please reduce your message size and try again.
rate_bucket 429 Request too large for gpt-4-turbo in organization org-x on tokens per day (TPD)
rate_limit 429 Rate limit reached for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Used 28000, Requested 6060. Please try again in 8s.
rate_limit 429 You exceeded your current quota RESOURCE_EXHAUSTED generate_content_free_tier_input_token_count GenerateContentInputTokensPerModelPerDay-FreeTier
rate_limit 429 Resource exhausted. Please try again later. Please refer to https://cloud.google.com/vertex-ai/generative-ai/docs/error-code-429 for more details.
rate_limit 429 ThrottlingException: Too many tokens, please wait before trying again.
rate_limit 429 Too many tokens per day, please wait before trying again.
rate_limit 400 ThrottlingException: Too many requests, please wait before trying again.
rate_limit 429 too many tokens processed
rate_limit 429 Tokens per minute limit exceeded - too many tokens processed.
rate_limit 429 This request would exceed your organization's rate limit of 40,000 input tokens per minute (org: 1). For details, refer to: https://docs.anthropic.com/en/api/rate-limits; see the response headers for current usage.
rate_limit 429 Number of request tokens has exceeded your per-minute rate limit
rate_limit 429 Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2024-02-01 have exceeded token rate limit of your current OpenAI S0 pricing tier. Please retry after 6 seconds.
rate_limit 429 Request rate increased too quickly. To ensure system stability, please adjust your client logic to scale requests more smoothly over time.
rate_limit 429 1302 High concurrency usage of this API, please reduce concurrency or contact customer service to increase limits
rate_limit 429 request reached organization TPD rate limit, current: 1506556, limit: 1500000
rate_limit 429 This request exceeds the limit of 30000 tokens per minute
rate_limit 429 Rate limit of 150 per 86400s exceeded for UserByModelByDay. Please wait 3562 seconds before retrying.
rate_limit 429 The usage limit has been reached
rate_limit 429 Service tier capacity exceeded for this model.
rate_limit 429 The engine is currently overloaded, please try again later
output_cap 400 max_tokens is too large: 100000. This model supports at most 4096 completion tokens, whereas you provided 100000.
output_cap 400 max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for claude-sonnet-4
output_cap 400 'max_tokens' or 'max_completion_tokens' is too large: 100000. This model's maximum context length is 8192 tokens and your request has 50 input tokens (100000 > 8192 - 50).
output_cap 422 Input validation error: `inputs` tokens + `max_new_tokens` must be <= 32769. Given: 30 `inputs` tokens and 999999999 `max_new_tokens`
output_cap 400 Unable to submit request because it has a maxOutputTokens value of 339835 but the supported range is from 1 (inclusive) to 65537 (exclusive). Update the value and try again.
output_cap 400 Invalid max_tokens value, the valid range of max_tokens is [1, 8192]
output_cap 400 <400> InternalError.Algo.InvalidParameter: Range of max_tokens should be [1, 8192]
output_cap 400 max_completion_tokens must be less than or equal to 40960, the maximum value for max_completion_tokens is less than the context_window for this model
output_cap 400 max_tokens for `llama-3.1-8b-instant` must be less than or equal to 8000
output_cap 400 Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.
output_cap 400 The maximum tokens you requested exceeds the model limit of 4096. Try again with a maximum tokens value that is lower than 4096.
output_cap 400 `max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation.
output_cap 400 max_completion_tokens is too large: 262144. This model supports at most 256000 completion tokens.
output_cap 400 1210 max_tokens参数非法：取值范围 [1, 4095]
bytes 413 request_too_large Request exceeds the maximum size
bytes 413 Request Entity Too Large
bytes 413 <html><head><title>413 Request Entity Too Large</title></head><body><center><h1>413 Request Entity Too Large</h1></center><hr><center>nginx/1.25.3</center></body></html>
bytes 413 Request exceeds the maximum allowed number of bytes.
bytes 400 Request payload size exceeds the limit: 20971520 bytes.
bytes 400 http: request body too large
bytes 413 PayloadTooLargeError: request entity too large
bytes 400 Invalid 'messages[3].content': string too long. Expected a string with maximum length 10485760, but got a string with length 12034511 instead.
bytes 413 Payload Too Large
media 400 Too much media: 0 document pages + 102 images > 100
media 400 messages.3.content.1.image.source.base64: image exceeds 5 MB maximum: 7340032 bytes > 5242880 bytes
media 400 messages.0.content.0.image.source.base64.data: At least one of the image dimensions exceed max allowed size: 8000 pixels
media 400 At least one of the image dimensions exceed max allowed size for many-image requests: 2000 pixels
media 400 1210 messages.content.type 参数非法，取值范围 ['text']
media 400 Could not process image
media 400 Invalid content type. image_url is only supported by certain models.
media 400 model "claude-sonnet-4.6" not supported for vision
media 400 You uploaded an unsupported image. Please make sure your image has of one the following formats: ['png', 'jpeg', 'gif', 'webp'].
media 404 No endpoints found that support image input
media 400 Model does not support images. Please use a model that does.
media 400 At most 1 image(s) may be provided in one request.
media 400 A maximum of 100 PDF pages may be provided.
media 400 Unable to process input image. Please retry or report in https://developers.generativeai.google/guide/troubleshooting
media 400 Failed to deserialize the JSON body into the target type: messages[0]: unknown variant `image_url`, expected `text` at line 1 column 3045
media 500 image input is not supported - hint: if this is unexpected, you may need to provide the mmproj
media 400 Unsupported MIME type: text/x-python
invalid_history 400 messages.42: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_01. Each `tool_use` block must have a corresponding `tool_result` block in the next message.
invalid_history 400 each tool_use must have a single result. Found multiple `tool_result` blocks with id: toolu_1
invalid_history 400 messages.2.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_1. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.
invalid_history 400 messages: text content blocks must be non-empty
invalid_history 400 messages: text content blocks must contain non-whitespace text
invalid_history 400 messages.7: all messages must have non-empty content except for the optional final assistant message
invalid_history 400 messages: first message must use the "user" role
invalid_history 400 This model does not support assistant message prefill. The conversation must end with a user message.
invalid_history 400 A maximum of 4 blocks with cache_control may be provided. Found 5.
invalid_history 400 Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.
invalid_history 400 Please ensure that function call turn comes immediately after a user turn or after a function response turn.
invalid_history 400 400 FAILED_PRECONDITION: The input data is not valid json
invalid_history 400 The number of toolResult blocks at messages.2.content exceeds the number of toolUse blocks of previous turn.
invalid_history 400 A conversation must start with a user message. Try again with a conversation that starts with a user message.
invalid_history 400 The text field in the ContentBlock object at messages.4.content.0 is blank. Add text to the text field, and try again.
invalid_history 400 The toolConfig field must be defined when using toolUse and toolResult content blocks.
invalid_history 400 Not the same number of function calls and responses
invalid_history 400 Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant
invalid_history 400 Unexpected role 'user' after role 'tool'
invalid_history 400 Tool call id was call_abc but must be a-z, A-Z, 0-9, with a length of 9.
invalid_history 400 invalid params, tool call result does not follow tool call (2013)
invalid_history 400 invalid params, invalid function arguments json string (2013)
invalid_history 400 Invalid request: tool_call_id  is not found
invalid_history 400 Conversation roles must alternate user/assistant/user/assistant/...
invalid_history 400 deepseek-reasoner does not support successive user or assistant messages
invalid_history 400 No tool call found for function call output with call_id call_1.
invalid_history 400 No tool output found for function call call_abc.
invalid_history 400 Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.
invalid_history 400 An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: call_1
invalid_history 400 Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum length 40, but got a string with length 54 instead.
invalid_history 400 Invalid value for 'content': expected a string, got null.
invalid_history 400 Duplicate item found with id fc_1. Remove duplicate items from your input and try again.
invalid_history 500 Jinja Exception: System message must be at the beginning
invalid_history 400 Previous response with id 'resp_1' not found.
reasoning_state 400 Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly
reasoning_state 400 messages.1.content.0: Invalid `signature` in `thinking` block
reasoning_state 400 messages.5.content.49: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These blocks must remain as they were in the original response.
reasoning_state 400 messages.129.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a final `assistant` message must start with a thinking block (preceding the lastmost set of `tool_use` and `tool_result` blocks).
reasoning_state 400 messages.1.content.0.thinking.signature: Field required
reasoning_state 400 Missing `reasoning_content` field in the assistant message at message index 4.
reasoning_state 400 The `reasoning_content` in the thinking mode must be passed back to the API.
reasoning_state 400 thinking is enabled but reasoning_content is missing in assistant tool call message at index 2
reasoning_state 400 Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'.
reasoning_state 400 Item 'rs_1' of type 'reasoning' was provided without its required following item.
reasoning_state 404 Item with id 'rs_1' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input.
reasoning_state 400 invalid_encrypted_content The encrypted content gAAA... could not be verified.
billing 402 Prompt tokens limit exceeded: 36163 > 29652. To increase, visit https://openrouter.ai/settings/credits and upgrade to a paid account
billing 402 Insufficient Balance
billing 429 You exceeded your current quota, please check your plan and billing details. For more information on this error, read the docs: https://platform.openai.com/docs/guides/error-codes/api-errors. insufficient_quota
billing 400 Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits.
billing 429 1113 Insufficient balance or no resource package. Please recharge.
billing 429 Your prepayment credits are depleted. Please go to AI Studio to manage your project and billing. RESOURCE_EXHAUSTED
billing 403 This API method requires billing to be enabled.
billing 400 Access denied, please make sure your account is in good standing. Arrearage
billing 429 Your account is suspended due to insufficient balance, please recharge your account or check your plan and billing details exceeded_current_quota_error
billing 400 You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.
auth 401 Incorrect API key provided: sk-abc. You can find your API key at https://platform.openai.com/account/api-keys.
auth 401 invalid x-api-key
auth 400 API key not valid. Please pass a valid API key.
auth 403 The security token included in the request is invalid.
auth 403 Permission denied: Consumer has been suspended.
auth 401 Missing Authentication header
auth 401 maximum context length is 8192 tokens
model 404 The model `gpt-9` does not exist or you do not have access to it.
model 404 model 'llama9' not found, try pulling it first
model 404 models/gemini-9 is not found for API version v1beta, or is not supported for generateContent.
model 400 Model Not Exist
model 404 No endpoints found for acme/model-1.
model 400 The model `mixtral-8x7b` has been decommissioned and is no longer supported.
model 400 The provided model identifier is invalid.
model 404 The API deployment for this resource does not exist.
model 400 The requested model is not supported.
server 529 Overloaded
server 500 The server had an error while processing your request. Sorry about that!
server 503 The model is overloaded. Please try again later.
server 500 An internal error has occurred. Please retry or report in https://developers.generativeai.google/guide/troubleshooting
server 502 <html><head><title>502 Bad Gateway</title></head><body><center><h1>502 Bad Gateway</h1></center></body></html>
server 503 Loading model
refused 400 The response was filtered due to the prompt triggering Azure OpenAI's content management policy. Please modify your prompt and retry.
refused 400 Output data may contain inappropriate content. DataInspectionFailed
refused 400 Content Exists Risk
refused 400 Invalid prompt: your prompt was flagged as potentially violating our usage policy. Please try again with a different prompt.
refused 400 Output blocked by content filtering policy
refused 400 The request was rejected because it was considered high risk
unknown 400 Invalid 'metadata.key': string too long. Expected at most 64 characters.
unknown 400 Invalid value for 'temperature': must be <= 2
unknown 422 field required
unknown 400 Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 152 instead.
unknown 400 Invalid schema for function 'search': In context=(), 'additionalProperties' is required to be supplied and to be false.
transport 408 Request Timeout
transport - litellm.APIConnectionError: peer closed connection without sending complete message body (incomplete chunked read)
billing 400 INVALID_PAYMENT_INSTRUMENT: A valid payment instrument must be provided.
billing 402 Payment Required
billing 403 AccountOverdueError: The request failed because your account has an overdue balance.
billing 403 Sorry, your account balance is insufficient
billing 429 1113 您的账户已欠费，请充值后重试
billing 400 Billing hard limit has been reached
billing 400 Budget has been exceeded! Current cost: 10.2, Max budget: 10.0
billing 429 You have exceeded your premium request allowance.
billing 429 Extra usage is required for long context requests.
billing 400 The long context beta is not yet available for this subscription.
billing 429 You exceeded your current quota, please check your plan and billing details.
media 400 Invalid base64 image_url.
media 400 invalid_file The file could not be read.
refused 400 invalid params, input new_sensitive (1026)
refused - The prompt was blocked: blockReason PROHIBITED_CONTENT
invalid_history 400 Please ensure that multiturn requests ends with a user role or a function response.
invalid_history 400 GenerateContentRequest.contents: contents is not specified
invalid_history 400 Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.
invalid_history 422 Failed to deserialize the JSON body into the target type: messages[2]: missing field `content` at line 1 column 9
invalid_history 400 Invalid 'input[2].id': 'call_1'. Expected an ID that begins with 'fc'.
invalid_history 400 Invalid 'input[2].call_id': string too long. Expected a string with maximum length 64, but got a string with length 83 instead.
rate_limit 429 1302 您当前使用该API的并发数过高，请降低并发，或联系客服增加限额。
rate_limit 429 Quota has been exceeded
rate_limit - litellm.RateLimitError: AnthropicException - Slow down, please.
overflow - litellm.RateLimitError: OpenAIException - Your input exceeds the context window of this model.
overflow 400 litellm.ContextWindowExceededError: litellm.BadRequestError: prompt is over.
overflow 413 Request body too large for gpt-4o model. Max size: 8000 tokens. tokens_limit_reached
overflow 500 input (1043 tokens) is too large to process. increase the physical batch size (current batch size: 512)
overflow 400 Please use a shorter conversation history.
bytes 400 The size of the body is over the 20 MB limit.
bytes 413 Request body is too large
model 400 1211 模型不存在，请检查模型代码。
model 404 not_found_error model: claude-9
auth 401 无效的令牌
server 500 INTERNAL
transport - socket hang up
unknown 400 Tool description exceeds maximum length of 1024 characters
"""  # noqa: E501

# Codes, and what is left of a sentence when a gateway shortens it: each is met by one line of the table alone.
SHORT = r"""
rate_limit - Quota exceeded for requests
rate_limit - generate_content_free_tier_requests
rate_limit - GenerateRequestsPerDayPerProjectPerModel-FreeTier
billing 429 insufficient_quota
billing 429 Your team does not have any credits.
billing 400 Please make sure your account is in good standing.
billing 400 There are past-due invoices.
billing 429 Please recharge.
billing 400 The allowance has been exceeded.
overflow 400 Longer than the maximum model length.
overflow 400 It is too long to fit into the model.
refused 400 ResponsibleAIPolicyViolation
refused 400 DataInspectionFailed
refused 400 It may contain inappropriate content.
refused 400 See our usage policies.
refused 400 The input was flagged.
refused 400 Blocked by a guardrail.
refused 400 It violates our policy.
reasoning_state 400 Expected `redacted_thinking` first.
reasoning_state 400 The signature does not belong to this thinking.
reasoning_state 400 The required 'reasoning' item is not there.
invalid_history 400 Unexpected toolResult blocks.
invalid_history 400 The function call has parts missing.
invalid_history 400 Unexpected role 'tool'
invalid_history 400 No prefill with this model.
invalid_history 400 The system message must be first.
invalid_history 500 raise_exception in the chat template
invalid_history 400 content cannot be empty
invalid_history 400 Failed to parse the input.
invalid_history 400 Expected an ID that begins with 'msg'.
output_cap 400 max_output_tokens is out of range
output_cap 400 over the maximum number of output tokens
output_cap 400 It supports at most 4096 completion tokens.
output_cap 400 budget_tokens is wrong
rate_limit - 10 requests per min are allowed
rate_limit - more than 10 per second
rate_limit - over the TPM of the key
rate_limit - please wait before the next one
overflow 400 context_length_exceeded
overflow 400 model_context_window_exceeded
overflow 400 prompt_too_long
overflow 400 tokens_limit_reached
overflow 400 CONTENT_LENGTH_EXCEEDS_THRESHOLD
overflow 400 context overflow
overflow 400 The maximum prompt length is 4096.
overflow 400 the max tokens allowed are 4096
overflow 400 The conversation is too large.
overflow 400 The history is longer than it may be.
overflow 400 over the token limit
overflow 400 more than the max tokens
overflow 400 The content exceeds the limit.
overflow 400 token count 9000, limit 8192
overflow 400 It only supports up to 32768.
model 400 model_not_found
model 400 unknown model
auth 400 The api key was disabled.
auth 400 unauthenticated
server 400 Provider returned error
transport - connection reset
transport - server disconnected
"""


class Text(NamedTuple):
    kind: str
    status: int | None
    text: str


def texts(rows: str) -> list[Text]:
    split = (row.split(" ", 2) for row in rows.splitlines() if row)
    return [Text(kind, None if status == "-" else int(status), text) for kind, status, text in split]


@pytest.mark.parametrize("row", texts(TEXTS + SHORT), ids=lambda row: row.text[:60])
def test_kind(row: Text) -> None:
    assert classify_response(row.status, row.text).kind == row.kind


def test_every_kind_is_there() -> None:
    assert {row.kind for row in texts(TEXTS)} == set(ERROR_KINDS) - {"excess"}, "no text of a provider means that"
    assert len(texts(TEXTS)) >= 120
