"""Threat: a summary is written by a model of another provider, which so gets keys that were never meant for it.
What such a model is asked is masked; the session's own model, and another one at the same provider, have seen the text.
"""

import asyncio
from pathlib import Path

import pytest

from tests.fake.server import KEY, Fake
from tests.security.planted import PLANTED, seen_in
from tests.session.settling import COUNTER, GOOD, opened, scribe
from tidegate import DataFolder, Session
from tidegate.agent.config.files import parse_config
from tidegate.agent.runtime import open_agent
from tidegate.core.messages import SUMMARY, text_of
from tidegate.models.scripted_provider import ScriptedProvider
from tidegate.session.summarizer import create_summarizer

BY_SHAPE = {kind for kind in PLANTED if not kind.startswith("configured")}
ENVIRONMENT = {"HERE": KEY, "THERE": KEY, "HUSH_API_KEY": PLANTED["configured plain"].hidden[0]}
CONFIG = """
agents:
  - id: main
    model:
      provider: here
      model: big
      context: {max_tokens: 6000, keep_recent: 2, compression_trigger: 0.3, output_reserved: 500,
                summary_model: {provider: PROVIDER, model: MODEL}}
models: {small: {window: 16000}, big: {window: 16000}}
"""


def summarized(tmp_path: Path, provider: str, model: str) -> tuple[list[bytes], list[str]]:
    """An agent that is told secrets until a summary is made of them: what the summary model was asked, and wrote."""

    def answer(body: dict[str, object]) -> str:
        return "The user gave keys to the agent. The agent kept each of them, and went on with port 8443."

    async def run() -> tuple[list[bytes], list[str]]:
        async with Fake("openai_chat", answer, window=16_000) as one, Fake("openai_chat", answer) as other:
            servers = {"here": one, "there": other}
            listed = ", ".join(
                f"{name}: {{base_url: {server.url}, key_env: {name.upper()}}}" for name, server in servers.items()
            )
            text = CONFIG.replace("PROVIDER", provider).replace("MODEL", model) + f"providers: {{{listed}}}\n"
            data = DataFolder(tmp_path / "data", secrets=[])
            talks = ScriptedProvider("openai_chat", ["So be it. " * 30] * len(PLANTED), model="big")
            async with open_agent(
                parse_config(text, ENVIRONMENT),
                data=data,
                name="s",
                workspace=tmp_path,
                provider=talks,
                environment=ENVIRONMENT,
            ) as agent:
                for planted in PLANTED.values():
                    async for _ in agent.run_turn(f"Keep this: {planted.text}\nand go on, please."):
                        pass
                summaries = [text_of(i.message) for i in agent.session.view.items if i.message.kind == SUMMARY]
            data.close()
            return [seen.raw for seen in servers[provider].seen if b"messages" in seen.raw], summaries

    return asyncio.run(run())


def test_another_provider_gets_no_secret(tmp_path: Path) -> None:
    asked, summaries = summarized(tmp_path, "there", "small")
    assert b"[masked]" in b"".join(asked)
    known = {kind for kind in seen_in(b"".join(asked)) if not kind.startswith("configured")}
    assert known == set()
    assert PLANTED["configured plain"].hidden[0].encode() not in b"".join(asked)
    assert summaries, "it was taken"


def test_another_provider_gets_no_secret_though_its_model_has_the_same_name(tmp_path: Path) -> None:
    asked, _ = summarized(tmp_path, "there", "big")
    assert asked
    assert BY_SHAPE & seen_in(b"".join(asked)) == set()


@pytest.mark.parametrize("model", ["small", pytest.param("big", marks=pytest.mark.exhaustive)])
def test_the_provider_of_the_session_sees_what_it_has_seen(tmp_path: Path, model: str) -> None:
    asked, _ = summarized(tmp_path, "here", model)
    assert len(BY_SHAPE & seen_in(b"".join(asked))) > 5


def led(session: Session) -> Session:
    for planted in PLANTED.values():
        session.add({"role": "user", "content": f"Look at {planted.text}"})
        session.add({"role": "assistant", "content": f"I see {planted.text}"})
    return session


@pytest.mark.parametrize(("model", "hidden"), [("other", True), ("main", False)])
def test_a_library_user_need_not_think_of_it(model: str, hidden: bool) -> None:
    """Without a mask of its own a summarizer hides what looks like a secret from every model but the session's."""
    session, writer = led(opened(window=16_000)), scribe([GOOD] * 9, model=model)
    summarize = create_summarizer(writer, window=16_000, counter=COUNTER, timeout=60, conversation=session)
    asyncio.run(session.compact_async(summarize, focus=PLANTED["slack"].text))
    assert writer.requests
    found = BY_SHAPE & seen_in(b"".join(writer.requests))
    assert (found == set()) == hidden
