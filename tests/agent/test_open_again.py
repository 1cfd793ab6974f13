"""An open agent as a face uses it: one turn or many, steered, and the same session under another model."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.agent.test_open import MODELS, SCRIPTED, notices, said, talk
from tests.fake.server import KEY, Fake, Step
from tidegate import BadInput, BadPolicy, DataFolder, GiveUp
from tidegate.agent.config.files import parse_config
from tidegate.agent.loop import AgentEvent, RequestSent, ToolFinished, TurnEnded, UserSteered
from tidegate.agent.provider_connection import WINDOWS_FILE
from tidegate.agent.runtime import OpenAgent, UserNotice, open_agent
from tidegate.core.messages import SUMMARY, Call, text_of
from tidegate.models.scripted_provider import ScriptedAnswer, ScriptedProvider
from tidegate.models.window import LearnedWindow


def test_one_shot_ends_after_one_turn() -> None:
    seen: list[bool] = []
    with pytest.raises(GiveUp, match="runs one turn only"):
        talk(["Yes.", "No."], "One.", "Two.", config="execution: {mode: one_shot}")
    talk(["Yes."], "One.", config="execution: {mode: one_shot}", after=lambda agent: seen.append(agent.is_finished))
    talk(["Yes."], "One.", after=lambda agent: seen.append(agent.is_finished))
    assert seen == [True, False]


def test_a_turn_of_a_one_shot_agent_that_failed_may_be_tried_again() -> None:
    def broken(request: bytes) -> str:
        raise BadInput("The line is dead.", "Try again.")

    async def run() -> list[bool]:
        provider = ScriptedProvider("openai_chat", [broken, "Yes."])
        config = parse_config(f"{SCRIPTED}execution: {{mode: one_shot}}", {})
        async with open_agent(config, data=None, name="b", workspace=Path("."), provider=provider) as agent:
            with pytest.raises(BadInput):
                await said(agent, "One.")
            before = agent.is_finished
            await said(agent, "One.")
            return [before, agent.is_finished]

    assert asyncio.run(run()) == [False, True]


def test_a_greeting_belongs_to_a_new_session(tmp_path: Path) -> None:
    data = DataFolder(tmp_path, secrets=[])
    shown: list[str] = []
    config = "execution: {greeting: Good morning.}"
    talk([], config=config, data=data, after=lambda agent: shown.append(agent.greeting))
    talk(["Yes."], "Hello.", config=config, data=data, after=lambda agent: shown.append(agent.greeting))
    talk([], config=config, data=data, after=lambda agent: shown.append(agent.greeting))
    assert shown == ["Good morning.", "", ""]


def steering(config: str = "") -> list[AgentEvent | UserNotice]:
    async def run() -> list[AgentEvent | UserNotice]:
        provider = ScriptedProvider("openai_chat", ["It is the linker.", "The cache, then."])
        parsed = parse_config(SCRIPTED + config, {})
        async with open_agent(parsed, data=None, name="b", workspace=Path("."), provider=provider) as agent:
            happened: list[AgentEvent | UserNotice] = []
            with pytest.raises(BadInput, match="No turn is running"):
                agent.steer("Too early.")
            async for each in agent.run_turn("Why?"):
                happened.append(each)
                if isinstance(each, RequestSent) and len(provider.requests) == 0:
                    assert agent.is_busy
                    agent.steer("Not the linker.")
            assert not agent.is_busy
            return happened

    return asyncio.run(run())


def test_an_open_agent_is_steered() -> None:
    happened = steering()
    assert UserSteered("Not the linker.") in happened
    assert happened[-1] == TurnEnded("end")
    with pytest.raises(GiveUp, match="limit of 1 turn"):
        steering("execution: {max_turns: 1}")


Steps = list[Step] | Callable[[dict[str, Any]], Step]


class Talk:
    """One session in a data folder, opened under one model after another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = DataFolder(folder / "data", secrets=[])

    async def under(self, wire: str, steps: Steps, *texts: str, window: int = 16_000) -> "tuple[Fake, OpenAgent]":
        backend = {"openai_chat": "openai"}.get(wire, wire)
        async with Fake(wire, steps, window=window) as server:
            config = parse_config(
                f"agents: [{{id: main, model: {{provider: here, model: {MODELS[wire]}, backend: {backend}}}}}]\n"
                f"window: {window}\nproviders: {{here: {{base_url: {server.url}, key_env: HERE}}}}",
                {"HERE": KEY},
            )
            async with open_agent(
                config, data=self.data, name="build", workspace=self.folder, environment={"HERE": KEY}
            ) as agent:
                for text in texts:
                    happened = await said(agent, text)
                    assert happened[-1] == TurnEnded("end")
                    assert not [each for each in happened if isinstance(each, ToolFinished) and each.result.is_error]
        assert server.refused == []
        return server, agent


PAIRS = [
    pytest.param(one, other, marks=() if (at + 1) % len(MODELS) == place else pytest.mark.exhaustive)
    for at, one in enumerate(MODELS)
    for place, other in enumerate(MODELS)
    if one != other
]


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_the_model_is_switched_in_the_middle_of_a_session(before: str, after: str, tmp_path: Path) -> None:
    """Calls, results and signed thinking of one dialect are told in another, and back; each server judges strictly."""
    (tmp_path / "port.txt").write_text("8443")
    read = ScriptedAnswer(
        text="I look.",
        thinking="The port is in a file.",
        signature="c2lnbmVk",
        calls=(Call("call_1", "read", '{"path": "port.txt"}'),),
    )
    talk = Talk(tmp_path)

    async def run() -> None:
        await talk.under(before, [read, "It is 8443."], "Which port?")
        other, agent = await talk.under(after, ["8443, as was said."], "Say it again.")
        raw = other.seen[-1].raw
        assert b"Which port?" in raw
        assert b"8443" in raw
        assert b"c2lnbmVk" not in raw
        assert agent.session.model == MODELS[after]
        back, _ = await talk.under(before, ["Still 8443."], "And now?")
        assert b"8443, as was said." in back.seen[-1].raw

    asyncio.run(run())


def test_a_switch_to_a_smaller_window_fits_at_once(tmp_path: Path) -> None:
    talk = Talk(tmp_path)

    async def run() -> None:
        texts = [f"Question {number}. " + "The tide comes in twice a day. " * 60 for number in range(8)]
        await talk.under("anthropic", [f"Answer {number}." for number in range(8)], *texts, window=16_000)
        # The strict server would refuse, in OpenAI's words, what is longer than its window.
        small, agent = await talk.under("openai_chat", lambda body: "In short: the tide.", "And?", window=3_000)
        assert agent.session.window == 3_000
        assert b"And?" in small.seen[-1].raw

    asyncio.run(run())


@pytest.mark.sdk
def test_tools_of_mcp_servers_come_with_the_configuration(tmp_path: Path) -> None:
    """One of two servers does not start: that costs its own tools and nothing else."""
    child = str(Path(__file__).parent / "tools" / "plain_mcp_server.py")
    config = f"""
mcp:
  w: {{command: {sys.executable}, args: ["{child}"]}}
  none: {{command: no-such-program-here}}
capabilities: {{tools: {{w__add: allow}}}}
"""
    add = ScriptedAnswer(calls=(Call("c1", "w__add", '{"a": 2, "b": 3}'), Call("c2", "w__slow", "{}")))
    (turn,) = talk([add, "Five."], "Add.", config=config)
    results = {each.call.id: each.result for each in turn if isinstance(each, ToolFinished)}
    assert results["c1"].text == "5"
    assert "Denied" in results["c2"].text, "nobody is there to ask"
    assert any("MCP server 'none' could not be used" in each.text for each in turn if isinstance(each, UserNotice))
    assert turn[-1] == TurnEnded("end")


def test_rules_of_the_user_stand_in_every_prompt() -> None:
    seen: list[str] = []
    talk(
        ["Yes."],
        "Hello.",
        config="rules: [Never push to main., Answer in French.]",
        after=lambda agent: seen.append(agent.session.view.system),
    )
    assert "# Rules of the user\n- Never push to main.\n- Answer in French." in seen[0]
    for rules in ('["' + "x" * 501 + '"]', "[" + ", ".join(['"' + "x" * 400 + '"'] * 21) + "]", '[""]'):
        with pytest.raises(BadPolicy, match=r"tidegate.yaml:3"):
            talk([], config=f"rules: {rules}")


def test_summaries_may_be_prepared_ahead_under_any_policy() -> None:
    """As state notes are, and with `background` also without these."""
    found: list[bool] = []
    for more in ("", "{state_notes: false}", "{state_notes: false, background: true}"):
        talk(
            ["Yes."],
            "Hello.",
            config=f"policy: jutul\n{more and f'execution: {more}'}",
            after=lambda agent: found.append(agent.session.state_notes.writer is not None),
        )
    assert found == [True, False, True]


def test_a_summary_that_was_prepared_ahead_is_what_the_compaction_takes() -> None:
    asked: list[str] = []

    def answer(body: dict[str, Any]) -> str:
        asked.append(str(body))
        return "The user asked about tides; port 8443 and src/app.py matter. The agent answered each."

    config = """
policy: {name: jutul, settings: {summarize_at: 0.5}}
execution: {background: true, context: {summary_model: {provider: here, model: small}}}
models: {small: {window: 16000}}
"""

    async def run() -> tuple[int, int, str]:
        async with Fake("openai_chat", answer, window=16_000) as server:
            whole = f"{SCRIPTED}{config}providers: {{here: {{base_url: {server.url}, key_env: HERE}}}}"
            provider = ScriptedProvider(
                "openai_chat", [f"Answer {number}. " + "In and out. " * 60 for number in range(40)]
            )
            async with open_agent(
                parse_config(whole, {"HERE": KEY}),
                data=None,
                name="b",
                workspace=Path("."),
                provider=provider,
                environment={"HERE": KEY},
            ) as agent:
                ahead = agent.session.state_notes.writer
                assert ahead is not None
                begun = 0
                for number in range(40):
                    before = len(asked)
                    async for each in agent.run_turn(
                        f"Question {number} about port 8443. " + "The tide comes in. " * 30
                    ):
                        if isinstance(each, RequestSent):
                            assert len(asked) == before, "nobody waits for a summary"
                    if ahead.is_busy and not begun:
                        begun = number
                    while ahead.is_busy:
                        await asyncio.sleep(0.01)
                    summaries = [item for item in agent.session.view.items if item.message.kind == SUMMARY]
                    if summaries:
                        return begun, number, text_of(summaries[0].message)
        raise AssertionError("there was no compaction")

    begun, number, text = asyncio.run(run())
    assert 0 < begun < number, "it was prepared in a turn before the one that needed it"
    assert "src/app.py matter" in text
    assert asked


def test_another_model_in_mid_session_is_no_restart(tmp_path: Path) -> None:
    """cowagent restores only the newest turns after a restart; a change of the model must not cost the others."""
    data = DataFolder(tmp_path, secrets=[])
    config = "policy: cowagent\n"
    talk([f"Answer {n}." for n in range(8)], *(f"Question {n}." for n in range(8)), config=config, data=data)

    async def shown(restore: bool) -> int:
        provider = ScriptedProvider("openai_chat", [])
        parsed = parse_config(SCRIPTED + config, {})
        async with open_agent(
            parsed, data=data, name="build", workspace=tmp_path, provider=provider, restore=restore
        ) as agent:
            return agent.session.view.visible_turns

    assert asyncio.run(shown(restore=False)) == 8
    assert asyncio.run(shown(restore=True)) < 8


@pytest.mark.seed("COW-02", fixed="the number of steps is the policy's own, or what execution.max_steps says")
def test_the_steps_of_a_policy_are_kept_to() -> None:
    found: list[int] = []
    for more in ("policy: cowagent", "policy: cowagent\nexecution: {max_steps: 40}", "policy: jutul"):
        talk([], config=more, after=lambda agent: found.append(agent.agent.max_steps))
    assert found == [15, 40, 100]


def test_a_learned_window_that_the_provider_outgrows_is_dropped_and_told(tmp_path: Path) -> None:
    """A number of an old error would hold the session small for ever."""

    async def run() -> None:
        async with Fake("openai_chat", ["Yes.", "No."], usage=lambda used: used._replace(input_tokens=3001)) as server:
            whole = "agents: [{id: main, model: {provider: here, model: gpt-4o}}]\n"
            here = f"providers: {{here: {{base_url: {server.url}, key_env: HERE}}}}"
            kept = tmp_path / WINDOWS_FILE
            kept.write_bytes(msgspec.json.encode([LearnedWindow(server.url, "gpt-4o", 3000)]))
            parsed, data = parse_config(whole + here, {"HERE": KEY}), DataFolder(tmp_path, secrets=[])
            async with open_agent(
                parsed, data=data, name="build", workspace=tmp_path, environment={"HERE": KEY}
            ) as agent:
                assert (agent.session.window, agent.window.source) == (3000, "learned")
                assert "it has read 3,001 in one request" in " ".join(notices(await said(agent, "Hello.")))
                assert (agent.session.window, agent.window.source) == (128_000, "catalog")
            data.close()
            assert msgspec.json.decode(kept.read_bytes()) == []

    asyncio.run(run())
