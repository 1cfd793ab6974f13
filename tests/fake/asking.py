"""Asking the fake server through the HTTP provider, and what came of it."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from tests.fake.server import KEY, Fake, Step
from tidegate import Session
from tidegate.core.messages import Call
from tidegate.models.errors.classification import ProviderError
from tidegate.models.http.provider import HttpProvider, RetrySettings
from tidegate.models.provider import Delta, Provider, Reply
from tidegate.wire.registry import DIALECTS
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

RICH = ScriptedAnswer(
    text="I read both files, the long one first.",
    calls=(Call("c1", "read", '{"path":"a.txt"}'), Call("c2", "grep", '{"words":"high tide"}')),
    thinking="Two files are to be read.",
    signature="c2lnbmF0dXJl",
)
TOOLS = [{"name": "read"}, {"name": "grep"}]
WIRES = pytest.mark.parametrize("wire", DIALECTS)
NEVER = RetrySettings(max_retries=0)


def session_of(wire: str, words: str = "Read both files.", window: int = 50_000, cache: bool = False) -> Session:
    session = Session("m", wire=wire, window=window, tools=TOOLS, system="You read files.", cache=cache)
    session.add({"role": "user", "content": words})
    return session


def provider_of(server: Fake, **more: Any) -> HttpProvider:
    return HttpProvider(server.wire, "m", **{"base_url": server.url, "key": KEY, "retries": NEVER, **more})


class Outcome:
    """What one request came to: the deltas, and the reply or the fault."""

    def __init__(self) -> None:
        self.deltas: list[Delta] = []
        self.reply: Reply | None = None
        self.fault: ProviderError | None = None


async def outcome(provider: Provider, request: bytes) -> Outcome:
    found = Outcome()
    try:
        async for each in provider.stream(request):
            if isinstance(each, Delta):
                found.deltas.append(each)
            else:
                assert found.reply is None
                found.reply = each
    except ProviderError as fault:
        found.fault = fault
    return found


def asked(wire: str, steps: Iterable[Step], count: int = 1, **more: Any) -> tuple[list[Outcome], Fake]:
    """What `count` equal requests came to."""
    words = more.pop("words", "Read both files.")
    fake = {key: more.pop(key) for key in ("window", "truncates", "usage") if key in more}

    async def run() -> tuple[list[Outcome], Fake]:
        async with Fake(wire, steps, **fake) as server:
            provider = provider_of(server, **more)
            request = session_of(wire, words).prepare().to_bytes()
            found = [await outcome(provider, request) for _ in range(count)]
            await provider.close()
            return found, server

    return asyncio.run(run())


def faulted(wire: str, step: Step, **more: Any) -> ProviderError:
    ((found,), _) = asked(wire, [step], **more)
    assert found.reply is None
    assert found.fault is not None
    return found.fault
