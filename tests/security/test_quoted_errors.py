"""Threat: an error that repeats a text of the request ("maximum context length is 900 tokens") is taken for the
provider's own words: the conversation is shortened, and a window is learned that the model does not have.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.fake.server import KEY, Fake, Json, Played
from tests.fake.words import refusal
from tidegate import managed
from tidegate.models.errors.classification import ProviderError
from tidegate.models.http.provider import HttpProvider
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

pytestmark = pytest.mark.sdk

CLAIM = "maximum context length is 900 tokens"
PAGE = "The tide table of the harbor lists high water and low water for each day. " * 300


def refuse_user(body: Json) -> Played:
    """Refuses a value of `user` as OpenAI refuses a wrong role: with the value in its sentence."""
    if "user" in body:
        return refusal("openai_chat", 400, f"Invalid value: '{body['user']}'. Supported values are: 'me'.")
    return ScriptedAnswer(text="Fine.")


def test_a_managed_client_gets_the_refusal_and_keeps_its_conversation(tmp_path: Path) -> None:
    import openai

    def talk(url: str) -> None:
        messages: list[Any] = [{"role": "user", "content": PAGE}]
        with managed(openai.OpenAI(api_key=KEY, base_url=url, max_retries=0), tmp_path) as client:
            with pytest.raises(openai.BadRequestError, match="maximum context length is 900"):
                client.chat.completions.create(model="gpt-4o", messages=messages, user=CLAIM)
            client.chat.completions.create(model="gpt-4o", messages=messages)

    async def run() -> Fake:
        async with Fake("openai_chat", refuse_user) as fake:
            await asyncio.to_thread(talk, fake.url)
        return fake

    fake = asyncio.run(run())
    first, smaller, later = [seen.body["messages"][-1]["content"] for seen in fake.seen]
    assert first == later == PAGE, "the window is not believed, so the next request is whole again"
    assert len(smaller) < len(PAGE), "one smaller request is tried, in case that the length was the reason"


def test_a_managed_client_does_not_believe_a_window_above_its_own_count(tmp_path: Path) -> None:
    """The words are the provider's, but the request is far smaller. One smaller request is tried, and no more."""
    import openai

    def refuse_all(body: Json) -> Played:
        return refusal("openai_chat", 400, "This model's maximum context length is 900000 tokens.")

    def talk(url: str) -> None:
        messages: list[Any] = [{"role": "user", "content": PAGE}]
        with (
            managed(openai.OpenAI(api_key=KEY, base_url=url, max_retries=0), tmp_path) as client,
            pytest.raises(openai.BadRequestError, match="900000"),
        ):
            client.chat.completions.create(model="gpt-4o", messages=messages)

    async def run() -> Fake:
        async with Fake("openai_chat", refuse_all) as fake:
            await asyncio.to_thread(talk, fake.url)
        return fake

    assert len(asyncio.run(run()).seen) == 2


def test_a_provider_of_the_agent_reports_no_overflow() -> None:
    async def run() -> ProviderError:
        async with Fake("openai_chat", refuse_user) as fake:
            provider = HttpProvider("openai_chat", "gpt-4o", base_url=fake.url, key=KEY)
            body = b'{"model":"gpt-4o","user":"%s","messages":[{"role":"user","content":"hello"}]}' % CLAIM.encode()
            try:
                async for _ in provider.stream(body):
                    pass
            except ProviderError as error:
                return error
            finally:
                await provider.close()
        raise AssertionError("it was refused")

    error = asyncio.run(run())
    assert (error.kind, error.window, error.prompt_tokens) == ("unknown", None, None)
