"""The HTTP provider when the server refuses, is busy, hangs or never ends, and when the reader leaves."""

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pytest

from tests.fake.asking import RICH, WIRES, Outcome, asked, faulted, outcome, provider_of, session_of
from tests.fake.server import KEY, Bytes, CutAt, Fake, Hang, Step
from tests.fake.words import PAGE, Refusal, busy, refusal
from tidegate.models.http.provider import HttpProvider, RetrySettings
from tidegate.wire.limits import ProviderLimits
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

# --- refusals and retries -----------------------------------------------------------------------------------------


class Clock:
    """Takes down how long it was asked to sleep, and does not."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def retries(self, most: int = 3, chance: Callable[[], float] = lambda: 0.0) -> RetrySettings:
        return RetrySettings(max_retries=most, jitter=chance, sleep=self.sleep)


@WIRES
def test_too_long_is_told_with_its_numbers_and_not_asked_again(wire: str) -> None:
    clock = Clock()
    ((found,), server) = asked(wire, [], words="high tide " * 2000, window=3000, retries=clock.retries())
    assert found.fault is not None
    assert found.fault.kind == "overflow"
    assert found.fault.window == (None if wire == "openai_responses" else 3000)
    assert (len(server.seen), clock.slept) == (1, [])


@WIRES
@pytest.mark.parametrize("status", [429, 503, 529])
def test_busy_server_is_asked_again_after_what_it_says(wire: str, status: int) -> None:
    clock = Clock()
    ((found,), server) = asked(wire, [busy(wire, status, "7"), PAGE, "Hello."], retries=clock.retries())
    assert found.reply is not None
    assert clock.slept == [7.0, 0.5]
    assert len({seen.raw for seen in server.seen}) == 1


def test_waits_grow_spread_and_end() -> None:
    for chances, slept in (([0.0] * 3, [0.25, 0.5, 1.0]), ([1.0] * 3, [0.5, 1.0, 2.0])):
        clock = Clock()
        steps = [refusal("openai_chat", 500, "The server had an error")] * 9
        ((found,), server) = asked("openai_chat", steps, retries=clock.retries(chance=chances.pop))
        assert found.fault is not None
        assert found.fault.kind == "server"
        assert clock.slept == slept
        assert len(server.seen) == 4


def test_long_wait_is_left_to_the_caller() -> None:
    clock = Clock()
    ((found,), server) = asked("openai_chat", [busy("openai_chat", 429, "3600")], retries=clock.retries())
    assert found.fault is not None
    assert found.fault.retry_after == 3600
    assert (len(server.seen), clock.slept) == (1, [])


def test_cut_is_asked_again_only_before_the_first_delta() -> None:
    clock = Clock()
    steps: list[Step] = [Bytes(b""), CutAt(RICH, 40), "Hello."]
    ((found,), _) = asked("anthropic", steps, retries=clock.retries())
    assert found.reply is not None
    assert len(clock.slept) == 2
    clock = Clock()
    ((found,), server) = asked("anthropic", [CutAt(RICH, 1500), "Hello."], retries=clock.retries())
    assert found.deltas != []
    assert found.fault is not None
    assert (len(server.seen), clock.slept) == (1, [])


@pytest.mark.parametrize("body", [b"[{}]", b"[]", b'"no"', b"null", b"\xff\xfe", b"{" * 5000])
def test_refusal_with_any_body(body: bytes) -> None:
    assert faulted("openai_chat", Refusal(500, body)).kind == "server"


def test_redirect_is_not_followed() -> None:
    fault = faulted("openai_chat", Refusal(307, b"", headers=(("location", "http://localhost:1/"),)))
    assert fault.status == 307


def test_nobody_there() -> None:
    async def run() -> Outcome:
        clock = Clock()
        async with Fake("openai_chat") as server:
            gone = server.url
        provider = HttpProvider("openai_chat", "m", base_url=gone, key=KEY, retries=clock.retries(most=2))
        found = await outcome(provider, b"{}")
        await provider.close()
        assert len(clock.slept) == 2
        return found

    found = asyncio.run(run())
    assert found.fault is not None
    assert found.fault.kind == "transport"
    assert "ConnectError" in str(found.fault)


# --- leaving early ------------------------------------------------------------------------------------------------


def left(leave: Callable[[HttpProvider, bytes], Any]) -> None:
    """The server learns that the client is gone while the provider is still open."""

    async def run() -> None:
        async with Fake("openai_chat", [Hang(RICH, 900)]) as server:
            provider = provider_of(server)
            gc.disable()  # it is closed at once, not when the garbage is collected
            try:
                await leave(provider, session_of("openai_chat").prepare().to_bytes())
                while not server.hung_up:
                    await asyncio.sleep(0.01)
            finally:
                gc.enable()
            await provider.close()

    asyncio.run(run())


def test_cancelling_closes_the_connection() -> None:
    async def leave(provider: HttpProvider, request: bytes) -> None:
        begun = asyncio.Event()

        async def read() -> None:
            async for _ in provider.stream(request):
                begun.set()

        task = asyncio.ensure_future(read())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    left(leave)


def test_closing_the_stream_closes_the_connection() -> None:
    async def leave(provider: HttpProvider, request: bytes) -> None:
        stream = provider.stream(request)
        await anext(stream)
        await stream.aclose()

    left(leave)


@pytest.mark.parametrize("limits", [ProviderLimits(total_seconds=0.2), ProviderLimits(idle_seconds=0.2)])
def test_server_that_hangs(limits: ProviderLimits) -> None:
    ((found,), _) = asked("openai_chat", [Hang(RICH, 900)], limits=limits)
    assert found.fault is not None
    assert found.fault.kind == "transport"


def test_whole_answer_whose_stream_hangs_is_an_answer() -> None:
    ((found,), _) = asked("anthropic", [Hang(RICH, 99_999)])
    assert found.reply is not None


# --- limits -------------------------------------------------------------------------------------------------------


def test_longest_answer_and_line() -> None:
    long = ScriptedAnswer(text="tide " * 2000)
    assert "longer than 9,000 bytes" in str(faulted("openai_chat", long, limits=ProviderLimits(max_answer_bytes=9_000)))
    endless = Bytes(b"data: " + b"x" * 5000)
    assert "longer than 2,000 bytes" in str(
        faulted("openai_chat", endless, limits=ProviderLimits(max_line_bytes=2_000))
    )


def test_endless_refusal_is_read_only_so_far() -> None:
    fault = faulted("openai_chat", Refusal(500, b"x" * 3_000_000), limits=ProviderLimits(max_error_bytes=1000))
    assert (fault.kind, fault.status) == ("server", 500)
