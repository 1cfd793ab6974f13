"""`doctor --live` against strict fakes: what a provider does right and wrong is in the report, and no key."""

import asyncio
import re
from typing import Any

import pytest

from tests.cli.calling import called
from tests.fake.server import KEY, Fake, strings
from tests.fake.words import refusal
from tests.scale import mark_all_but
from tidegate.agent.config.provider_target import ProviderTarget
from tidegate.core.errors import BadInput
from tidegate.core.messages import Call
from tidegate.core.text.secrets import SecretString
from tidegate.core.usage import Usage
from tidegate.models.catalog import find_window
from tidegate.proof.live_check import CHECK_WINDOW, DEFAULT_MODELS, plan_live_check, run_live_check
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

WIRES = {"anthropic": "anthropic", "openai": "openai_chat", "gemini": "gemini"}
WORD = "HERON-7315"


class ReadingModel:
    """A model that reads one part after the other, and recalls the first one if it is not in front of it."""

    def __init__(self, *, recalls: bool = True, cache_read: int = 3_000) -> None:
        self._recalls = recalls
        self._cache_read = cache_read
        self._answers = 0

    def __call__(self, body: dict[str, Any]) -> ScriptedAnswer:
        self._answers += 1
        number, text = self._answers, "\n".join(strings(body))
        usage = Usage(5_000, 20, self._cache_read, 0)
        if number <= 14:
            call = Call(f"call{number}", "read_part", f'{{"number": {number}}}')
            return _think(call, usage, number)
        if WORD not in text and self._recalls:
            call = Call(f"call{number}", "recall", '{"what": "Part 1 The code word is"}')
            return _think(call, usage, number)
        found = re.search(r"[A-Z]+-\d{4}", text)
        return ScriptedAnswer(text=f"It is {found[0] if found else 'unknown'}.", usage=usage, number=number)


def _think(call: Call, usage: Usage, number: int) -> ScriptedAnswer:
    return ScriptedAnswer(
        calls=(call,), thinking="I read on.", signature=f"signed-{number}", usage=usage, number=number
    )


def check(provider: str, model: Any, **options: Any) -> tuple[bool, str]:
    lines: list[str] = []

    async def run() -> bool:
        window = find_window(DEFAULT_MODELS[provider])
        async with Fake(WIRES[provider], model, window=window, **options) as fake:
            target = ProviderTarget(
                provider=provider,
                model=DEFAULT_MODELS[provider],
                wire=WIRES[provider],
                base_url=fake.url,
                api_key=SecretString(KEY),
            )
            return await run_live_check(plan_live_check(target), lines.append)

    holds = asyncio.run(run())
    return holds, "\n".join(lines)


@pytest.mark.parametrize("provider", mark_all_but(WIRES, "anthropic"))
def test_what_a_provider_does_is_reported(provider: str) -> None:
    options = {"binding": "prefix"} if provider == "anthropic" else {}
    holds, text = check(provider, ReadingModel(), **options)
    assert holds, text
    assert re.search(r"yes  edits inside a tool loop: \d+ sweeps? between", text)
    assert "yes  recall: 1 call of the hidden tool; the model answered with the code word" in text
    assert ("not sent: it could cost too much" if provider == "anthropic" else "read as overflow") in text
    assert "60% 60%" in text
    assert KEY not in text


def test_what_a_provider_does_not_do_is_reported() -> None:
    holds, text = check("anthropic", ReadingModel(recalls=False, cache_read=0))
    assert not holds
    assert re.search(r"NO +cache", text)
    assert re.search(r"NO +recall: 0 calls of the hidden tool; the model did not answer", text)


def test_it_stops_before_the_limit() -> None:
    def answer(body: dict[str, Any]) -> ScriptedAnswer:
        count = str(body).count("Part ")
        call = Call(f"call{count}", "read_part", f'{{"number": {count + 1}}}')
        return ScriptedAnswer(calls=(call,), usage=Usage(900_000, 20, 0, 0))

    holds, text = check("anthropic", answer)
    assert not holds
    stopped = re.search(r"NO +the conversation: it was stopped after (\d+) requests, before \$0.50 were spent", text)
    assert stopped is not None, text
    assert int(stopped[1]) == 2, "each was reported to cost a third of a dollar or more"


def test_a_refusal_is_a_line_of_the_report() -> None:
    holds, text = check("anthropic", lambda body: refusal("anthropic", 400, f"No, {KEY}."))
    assert not holds
    assert re.search(r"NO +the conversation: it was refused", text)
    assert KEY not in text


def test_a_model_that_costs_more_is_refused() -> None:
    target = ProviderTarget(provider="openai", model="gpt-5-pro", wire="openai_chat", api_key=SecretString(KEY))
    with pytest.raises(BadInput, match="the limit is"):
        plan_live_check(target)
    assert plan_live_check(target.__class__(**{**_fields(target), "model": "gpt-5-mini"})).dollars < 0.5


def _fields(target: ProviderTarget) -> dict[str, Any]:
    return {name: getattr(target, name) for name in target.__struct_fields__}


def test_nothing_is_sent_without_a_key_or_a_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    without = called("doctor", "--live", "anthropic")
    assert without.returncode == 2
    assert "There is no key for anthropic" in without.stderr
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    asked = called("doctor", "--live", "anthropic")
    assert asked.returncode == 2
    assert "up to 28 times" in asked.stdout
    assert "stops before $0.50" in asked.stdout
    assert "Add --yes" in asked.stderr
    assert str(CHECK_WINDOW) not in asked.stderr
