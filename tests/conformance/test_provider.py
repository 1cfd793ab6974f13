"""What every provider owes, whatever stands behind it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager

import pytest

from tests.fake.server import KEY, Fake
from tests.fake.words import busy
from tidegate import Session
from tidegate.core.messages import Call, calls_of
from tidegate.models.errors.classification import ProviderError, classify_response
from tidegate.models.http.provider import HttpProvider, RetrySettings
from tidegate.models.provider import Delta, Provider, Reply, collect_reply
from tidegate.models.scripted_provider import ScriptedProvider
from tidegate.wire.answers import parse_reply
from tidegate.wire.registry import DIALECTS
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

RICH = ScriptedAnswer(text="I read the file now, from its first line on.", calls=(Call("c1", "read", '{"path":"a"}'),))


@asynccontextmanager
async def scripted(wire: str) -> AsyncIterator[Provider]:
    yield ScriptedProvider(wire, [RICH, classify_response(429, b"Rate limit reached"), "Good morning."])


@asynccontextmanager
async def over_http(wire: str) -> AsyncIterator[Provider]:
    async with Fake(wire, [RICH, busy(wire, 429, "1"), "Good morning."]) as server:
        provider = HttpProvider(wire, "m", base_url=server.url, key=KEY, retries=RetrySettings(max_retries=0))
        yield provider
        await provider.close()


PROVIDERS: dict[str, Callable[[str], AbstractAsyncContextManager[Provider]]] = {
    "scripted": scripted,
    "http": over_http,
}
EVERY = pytest.mark.parametrize(
    ("provider", "wire"), [(name, wire) for name in PROVIDERS for wire in DIALECTS], ids=str
)


def request_for(wire: str) -> bytes:
    session = Session("m", wire=wire, window=50_000, tools=[{"name": "read"}])
    session.add({"role": "user", "content": "Read the file."})
    return session.prepare().to_bytes()


@EVERY
def test_reply_is_last_and_once_and_the_deltas_spell_it(provider: str, wire: str) -> None:
    async def run() -> list[Delta | Reply]:
        async with PROVIDERS[provider](wire) as asked:
            assert asked.wire == wire
            return [each async for each in asked.stream(request_for(wire))]

    *deltas, reply = asyncio.run(run())
    assert isinstance(reply, Reply)
    assert all(isinstance(delta, Delta) for delta in deltas)
    assert "".join(each.text for each in deltas if isinstance(each, Delta) and each.kind == "text") == RICH.text
    (message,) = parse_reply(wire, reply)
    assert [call.name for call in calls_of(message)] == ["read"]
    assert reply.stop == "calls"


@EVERY
def test_fault_is_raised_and_the_next_request_is_answered(provider: str, wire: str) -> None:
    async def run() -> None:
        async with PROVIDERS[provider](wire) as asked:
            await collect_reply(asked, request_for(wire))
            with pytest.raises(ProviderError) as fault:
                await collect_reply(asked, request_for(wire))
            assert fault.value.kind == "rate_limit"
            assert (await collect_reply(asked, request_for(wire))).stop == "end"

    asyncio.run(run())


@EVERY
def test_stream_that_is_left_early_harms_nothing(provider: str, wire: str) -> None:
    async def run() -> None:
        async with PROVIDERS[provider](wire) as asked:
            stream = asked.stream(request_for(wire))
            async with aclosing(stream) as left:
                await anext(left)
            with pytest.raises(ProviderError):
                await collect_reply(asked, request_for(wire))
            assert (await collect_reply(asked, request_for(wire))).stop == "end"

    asyncio.run(run())


@EVERY
def test_closing_twice_is_fine(provider: str, wire: str) -> None:
    async def run() -> None:
        async with PROVIDERS[provider](wire) as asked:
            await collect_reply(asked, request_for(wire))
            await asked.close()
            await asked.close()

    asyncio.run(run())
