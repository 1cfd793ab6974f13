"""Ready-made summarizers for `Session(summarizer=...)`: the SDK client of a program asks the model of the conversation.

    client = openai.OpenAI()
    session = Session("gpt-4o", summarizer=openai_summarizer(client))

The model then writes state notes (docs/state-notes.md). Clients may be sync or async. Nothing is tried again: a note
that fails is left out. The usage of each answer is noted in the log, so that costs include it.
"""

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any

import msgspec

from tidegate.core.errors import BadInput
from tidegate.session.summaries.model_question import (
    AskModel,
    CompactingModel,
    ModelAnswer,
    ModelQuestion,
    read_block,
)
from tidegate.wire.anthropic.compaction import ANTHROPIC_COMPACTION as _COMPACTION
from tidegate.wire.anthropic.dialect import DIALECT as ANTHROPIC
from tidegate.wire.openai_responses.dialect import DIALECT as RESPONSES
from tidegate.wire.parsing import require_object


def openai_summarizer(client: Any) -> AskModel:
    """Ask with an `openai.OpenAI` or `AsyncOpenAI` client, by chat completions or responses as the session does."""
    once = _without_retries(client)

    def ask(question: ModelQuestion) -> Any:
        if question.dialect_name == RESPONSES.name:
            return once.responses.create(**question.body)
        return once.chat.completions.create(**question.body)

    def read(reply: Any) -> ModelAnswer:
        if hasattr(reply, "choices"):
            return ModelAnswer(reply.choices[0].message.content or "", reply.usage)
        return ModelAnswer(reply.output_text or "", reply.usage)

    return _make_asker(ask, read)


def anthropic_summarizer(client: Any, *, compaction: bool = False, **options: Any) -> AskModel:
    """Ask with an `anthropic.Anthropic` or `AsyncAnthropic` client.

    `options` are arguments of `messages.create` that the conversation's own calls have, too, such as `extra_headers`:
    the provider reads the conversation from its cache only if they are the same.

    With `compaction` (experimental), the provider writes the note as a block in place of the messages, where the model
    can (docs/state-notes.md). All calls then need its beta header: give the client `default_headers={"anthropic-beta":
    "compact-2026-09-04"}`.
    """
    once = _without_retries(client)

    def read(reply: Any) -> ModelAnswer:
        texts = [block.text for block in reply.content if getattr(block, "type", "") == "text"]
        return ModelAnswer("\n".join(texts), reply.usage)

    ask = _make_asker(lambda question: once.messages.create(**question.body, **options), read)
    if not compaction:
        return ask
    header, beta = _COMPACTION.beta
    request = {
        name.lower(): value for name, value in {**client.default_headers, **options.get("extra_headers", {})}.items()
    }
    if beta not in str(request.get(header, "")):
        raise BadInput(
            f"The client does not send the header {header}: {beta}.",
            f'Make it with default_headers={{"{header}": "{beta}"}}: every request that has the block needs it.',
        )

    def ask_for_block(question: ModelQuestion) -> Any:
        """The response as bytes: the block must be sent back exactly as it came."""
        body = question.body
        extra = {_COMPACTION.option: body.pop(_COMPACTION.option), **options.get("extra_body", {})}
        return once.messages.with_raw_response.create(**body, **{**options, "extra_body": extra})

    ask_compacting = _make_asker(ask_for_block, _read_block)
    return CompactingModel(lambda question: (ask_compacting if question.compacts else ask)(question))


def _read_block(response: Any) -> ModelAnswer:
    reply = require_object(msgspec.json.decode(response.http_response.content), "The answer")
    answer = ANTHROPIC.parse_message({"role": "assistant", "content": reply.get("content") or ""})
    return read_block(ANTHROPIC, answer)._replace(usage=reply.get("usage"))


def gemini_summarizer(client: Any, *, is_async: bool = False) -> AskModel:
    """Ask with a `google.genai.Client`; with `is_async` by its async interface."""

    def ask(question: ModelQuestion) -> Any:
        from google.genai import types  # noqa: PLC0415 - only a program with this SDK calls it

        body = question.body
        options = {name: value for name, value in body.items() if name not in ("contents", "generationConfig")}
        config = types.GenerateContentConfig.model_validate(options | body["generationConfig"])
        models = client.aio.models if is_async else client.models
        return models.generate_content(model=question.model, contents=body["contents"], config=config)

    return _make_asker(ask, lambda reply: ModelAnswer(reply.text or "", reply.usage_metadata))


def _without_retries(client: Any) -> Any:
    return client.with_options(max_retries=0) if hasattr(client, "with_options") else client


def _make_asker(ask: Callable[[ModelQuestion], Any], read: Callable[[Any], ModelAnswer]) -> AskModel:
    def put(question: ModelQuestion) -> ModelAnswer | Awaitable[ModelAnswer]:
        reply = ask(question)
        return _read_async(reply, read) if isawaitable(reply) else read(reply)

    return put


async def _read_async(reply: Awaitable[Any], read: Callable[[Any], ModelAnswer]) -> ModelAnswer:
    return read(await reply)
