"""Replies of the providers' SDKs go into a session as they are. The SDKs are imported late, for they load slowly."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

import pytest

from tests.fake.server import Step
from tests.fake.test_sdks import CALLS, with_anthropic, with_gemini, with_openai
from tidegate import Call, DataFolder, Message, Result, Session, Text
from tidegate.core.events import UsageReported

if TYPE_CHECKING:
    from pathlib import Path

    import anthropic
    import openai
    from google import genai
    from google.genai import types

pytestmark = pytest.mark.sdk

TOOL = {"name": "read", "description": "Read a file.", "input_schema": {"type": "object"}}
ANSWERS: list[Step] = [CALLS, CALLS]


def opened(model: str, wire: str = "") -> Session:
    session = Session(model, wire=wire, tools=[TOOL])
    session.add({"role": "user", "content": "Hello"})
    return session


def check(session: Session, output_tokens: int) -> None:
    """The reply is in the view with its calls, and its usage in the log."""
    session.add(*({"role": "tool", "tool_call_id": f"call_{number}", "content": "done"} for number in (1, 2)))
    parts = [part for item in session.view.items for part in item.message.parts]
    assert [part.text for part in parts if isinstance(part, Text)][1] == "Reading both."
    assert [(part.name, part.arguments) for part in parts if isinstance(part, Call)] == [
        ("read", '{"path":"a"}'),
        ("read", "{}"),
    ]
    assert len([part for part in parts if isinstance(part, Result)]) == 2
    (usage,) = (event.payload for event in session.log.read() if isinstance(event.payload, UsageReported))
    assert usage.input_tokens > 1
    assert usage.output_tokens == output_tokens
    session.prepare()


def test_openai_chat() -> None:
    session = opened("gpt-4o")

    async def use(client: openai.AsyncOpenAI) -> None:
        reply = await client.chat.completions.create(**session.prepare().body)
        session.add(reply.choices[0].message)
        session.record(reply.usage)
        assert reply.usage is not None
        check(session, reply.usage.completion_tokens)

    with_openai("openai_chat", ANSWERS, use)


def test_openai_responses() -> None:
    session = opened("gpt-4o", "openai_responses")

    async def use(client: openai.AsyncOpenAI) -> None:
        reply = await client.responses.create(**session.prepare().body)
        session.add(*reply.output)
        session.record(reply.usage)
        assert reply.usage is not None
        check(session, reply.usage.output_tokens)

    with_openai("openai_responses", ANSWERS, use)


def test_anthropic() -> None:
    session = opened("claude-opus-4-8")

    async def use(client: anthropic.AsyncAnthropic) -> None:
        reply = await client.messages.create(**session.prepare().body)
        session.add(reply)
        session.record(reply.usage)
        check(session, reply.usage.output_tokens)

    with_anthropic(ANSWERS, use)


def test_gemini() -> None:
    session = opened("gemini-2.5-pro")

    async def use(client: genai.Client) -> None:
        from google.genai import types

        body = dict(session.prepare().body)
        contents, config = body.pop("contents"), types.GenerateContentConfig.model_validate(body)
        reply = await client.aio.models.generate_content(model="gemini-2.5-pro", contents=contents, config=config)
        session.add(first_content(reply))
        session.record(reply.usage_metadata)
        assert reply.usage_metadata
        check(session, reply.usage_metadata.candidates_token_count or 0)

    with_gemini(ANSWERS, use)


def first_content(reply: types.GenerateContentResponse) -> types.Content:
    assert reply.candidates
    content = reply.candidates[0].content
    assert content
    return content


def test_gemini_thought_signatures_and_empty_arguments() -> None:
    from google.genai import types

    reply = types.GenerateContentResponse.model_validate(
        {
            "candidates": [
                {
                    "content": {
                        "role": "model",
                        "parts": [
                            {"text": "Reading both."},
                            {
                                "functionCall": {"name": "read", "args": {"path": "a", "none": None}},
                                "thoughtSignature": "c2ln",
                            },
                        ],
                    }
                }
            ],
            "usageMetadata": {"promptTokenCount": 30, "candidatesTokenCount": 12, "cachedContentTokenCount": 4},
        }
    )
    session = opened("gemini-2.5-pro")
    session.add(first_content(reply))
    session.record(reply.usage_metadata)
    call = next(part for part in session.view.items[-1].message.parts if isinstance(part, Call))
    assert (call.name, call.arguments) == ("read", '{"path":"a","none":null}')
    (usage,) = (event.payload for event in session.log.read() if isinstance(event.payload, UsageReported))
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read) == (30, 12, 4)
    (sent,) = (one for one in session.prepare().messages if one["role"] == "model")
    assert sent["parts"][1]["thoughtSignature"] == "c2ln"


class Words(str):
    """A text as frameworks have it, such as LangChain's `.text`."""

    __slots__ = ()

    def __str__(self) -> str:
        return "not this"


class Role(str, Enum):  # noqa: UP042 - as SDKs have it
    USER = "user"


@pytest.mark.parametrize("kind", ["text", "parts", "message", "sdk"])
def test_subclasses_of_str(kind: Literal["text", "parts", "message", "sdk"], tmp_path: Path) -> None:
    words: Any = Words("Hello there.")
    given: Any = {
        "text": {"role": Role.USER, "content": words},
        "parts": {"role": "user", "content": [{"type": Words("text"), Words("text"): words}]},
        "message": Message("user", (Text(words),)),
        "sdk": {Words("role"): Words("user"), "content": words},
    }[kind]
    with DataFolder(tmp_path) as data, data.open("s", "gpt-4o", system=Words("Be brief.")) as session:
        session.add(given)
        assert session.prepare().body["messages"] == [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hello there."},
        ]
        (item,) = session.view.items
        (text,) = item.message.parts
        assert isinstance(text, Text)
        assert type(text.text) is str


def test_no_usage_is_no_report() -> None:
    session = opened("gpt-4o")
    session.prepare()
    head = session.log.head
    session.record(None)
    assert session.log.head == head
