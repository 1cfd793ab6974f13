"""An agent put together from a configuration, against the strict server of each dialect and a scripted model."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.fake.server import KEY, Fake
from tidegate import BadInput, BadPolicy, DataFolder, GiveUp
from tidegate.agent.builder import MAX_TOOLS_DIVISOR, select_tools
from tidegate.agent.config.files import parse_config
from tidegate.agent.hooks.runner import HookReport
from tidegate.agent.loop import AgentEvent, RequestRefused, ToolFinished, TurnEnded
from tidegate.agent.provider_connection import ProviderConnection, find_provider_keys
from tidegate.agent.runtime import OpenAgent, UserNotice, open_agent
from tidegate.agent.tools.toolbox import list_standard_tools
from tidegate.core.messages import Call
from tidegate.core.notes import SideCost
from tidegate.core.tokens.counting import count_tools
from tidegate.core.tokens.estimate import TokenEstimator
from tidegate.core.usage import Usage
from tidegate.models.errors.classification import classify_response
from tidegate.models.scripted_provider import ScriptedAnswer, ScriptedProvider, ScriptStep
from tidegate.models.window import ResolvedWindow

SCRIPTED = "agents: [{id: main, model: {provider: openai, model: scripted}}]\nwindow: 8000\n"
MODELS = {
    "openai_chat": "gpt-4o",
    "openai_responses": "gpt-4o",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-2.5-pro",
}


async def said(agent: OpenAgent, text: str) -> list[AgentEvent | UserNotice]:
    async with aclosing(agent.run_turn(text)) as turn:
        return [each async for each in turn]


def talk(
    steps: Sequence[ScriptStep],
    *texts: str,
    config: str = "",
    data: DataFolder | None = None,
    workspace: Path = Path("."),
    after: Callable[[OpenAgent], None] = lambda agent: None,
) -> list[list[AgentEvent | UserNotice]]:
    """Say these to a scripted model; what happened in each turn."""

    async def run() -> list[list[AgentEvent | UserNotice]]:
        provider = ScriptedProvider("openai_chat", steps)
        parsed = parse_config(SCRIPTED + config, {})
        async with open_agent(parsed, data=data, name="build", workspace=workspace, provider=provider) as agent:
            turns = [await said(agent, text) for text in texts]
            after(agent)
            return turns

    return asyncio.run(run())


def notices(turn: list[AgentEvent | UserNotice]) -> list[str]:
    return [each.text for each in turn if isinstance(each, UserNotice)]


@pytest.mark.parametrize("wire", MODELS)
def test_a_whole_turn_over_http(wire: str, tmp_path: Path) -> None:
    """Prompt, tools, session, key and window come from the files; the server refuses what its provider would."""
    (tmp_path / "AGENTS.md").write_text("Use tabs.")
    (tmp_path / "notes.txt").write_text("The port is 8443.")
    backend = {"openai_chat": "openai", "gemini": "gemini"}.get(wire, wire)
    config = f"""
agents: [{{id: main, model: {{provider: here, model: {MODELS[wire]}, backend: {backend}, max_output: 1000}},
           system_prompt: "You know ports."}}]
window: 16000
"""

    async def run() -> tuple[Fake, list[AgentEvent | UserNotice]]:
        read = ScriptedAnswer(text="I look.", calls=(Call("c1", "read", '{"path": "notes.txt"}'),), signature="c2ln")
        async with Fake(wire, [read, "It is 8443."], window=16_000) as server:
            parsed = parse_config(
                f"{config}providers: {{here: {{base_url: {server.url}, key_env: HERE}}}}", {"HERE": KEY}
            )
            data = DataFolder(tmp_path / "data")
            async with open_agent(
                parsed, data=data, name="ports", workspace=tmp_path, environment={"HERE": KEY}
            ) as agent:
                return server, await said(agent, "Which port?")

    server, happened = asyncio.run(run())
    assert happened[-1] == TurnEnded("end")
    (ended,) = [each for each in happened if isinstance(each, ToolFinished)]
    assert "8443" in ended.result.text
    assert server.refused == []
    sent = server.seen[-1].raw.decode()
    for part in ("You know ports.", "Use tabs.", "Which port?", "memory_search", "task", "1000"):
        assert part in sent
    assert KEY not in sent


def test_a_session_is_kept_and_goes_on(tmp_path: Path) -> None:
    data = DataFolder(tmp_path, secrets=[])
    talk(["Noted."], "The port is 8443.", data=data)
    scripted = ScriptedProvider("openai_chat", ["8443."])

    async def again() -> None:
        parsed = parse_config(SCRIPTED, {})
        async with open_agent(parsed, data=data, name="build", workspace=tmp_path, provider=scripted) as agent:
            await said(agent, "Which port was it?")

    asyncio.run(again())
    assert b"The port is 8443." in scripted.requests[0]


def test_a_subagent_is_kept_beside_its_asker(tmp_path: Path) -> None:
    data = DataFolder(tmp_path, secrets=[])
    task = ScriptedAnswer(calls=(Call("t", "task", '{"prompt": "Look at the port."}'),))
    for number in (1, 2):
        talk([task, "It is 8443.", "The port is 8443."], "Which port?", data=data)
        names = {info.name for info in data.store.sessions()}
        assert names == {"build", *(f"build.task-{n}" for n in range(1, number + 1))}


def test_a_specialist_has_its_own_model() -> None:
    config = """
agents:
  - {id: main, model: {provider: openai, model: scripted}}
  - id: reviewer
    role: specialist
    description: reads code
    system_prompt: You review.
    model: {provider: here, model: m}
"""

    async def run() -> tuple[list[AgentEvent | UserNotice], Fake]:
        async with Fake("openai_chat", ["Looks good."]) as server:
            whole = f"{config}window: 8000\nproviders: {{here: {{base_url: {server.url}, key_env: HERE}}}}"
            environment = {"HERE": KEY}
            main, reviewer = (parse_config(whole, environment, agent=each) for each in ("main", "reviewer"))
            call = ScriptedAnswer(calls=(Call("t", "task", '{"prompt": "Read it.", "agent": "reviewer"}'),))
            async with open_agent(
                main,
                data=None,
                name="build",
                workspace=Path("."),
                provider=ScriptedProvider("openai_chat", [call, "Fine."]),
                specialists=[reviewer],
                environment=environment,
            ) as agent:
                return await said(agent, "Review it."), server

    happened, server = asyncio.run(run())
    (ended,) = [each for each in happened if isinstance(each, ToolFinished)]
    assert ended.result.text.startswith("Looks good.")
    asked = next(seen.body for seen in server.seen if seen.raw)
    assert "You review." in asked["messages"][0]["content"]


def test_hooks_fire_and_spending_is_capped(tmp_path: Path) -> None:
    config = """
execution: {hooks: [{id: say, on: turn_start, condition: {type: always}, action: {type: log, message: "turn {turn}"}}]}
spend: {session: {tokens: 100}, day: {dollars: 5}}
"""
    with pytest.raises(GiveUp, match=r"the cap is 100"):
        talk([ScriptedAnswer(text="Yes.", usage=Usage(90, 20, 0, 0))], "One.", "Two.", config=config)
    (turn,) = talk(["Yes."], "One.", config=config, data=DataFolder(tmp_path, secrets=[]))
    assert [each.text for each in turn if isinstance(each, HookReport)] == ["turn 1"]
    assert "price of scripted is not known" in "".join(notices(turn))
    assert list((tmp_path / "spend").glob("*.json"))


def test_the_day_is_capped_over_sessions(tmp_path: Path) -> None:
    data = DataFolder(tmp_path, secrets=[], clock=lambda: 1_794_744_000.0)
    config = "spend: {day: {tokens: 100}}"
    step = ScriptedAnswer(text="Yes.", usage=Usage(90, 20, 0, 0))
    talk([step], "One.", config=config, data=data)
    with pytest.raises(GiveUp, match="The day so far has used 110 tokens"):
        talk([step], "Two.", config=config, data=data)


def test_a_cap_that_cannot_be_held_is_said() -> None:
    (turn,) = talk(["Yes."], "One.", config="spend: {day: {tokens: 1}}")
    assert "not enforced" in "".join(notices(turn))


def test_turns_and_time_are_bounded() -> None:
    async def never(request: bytes) -> str:
        await asyncio.sleep(60)
        return "Too late."

    with pytest.raises(GiveUp, match="limit of 1 turn"):
        talk(["Yes.", "No."], "One.", "Two.", config="execution: {max_turns: 1}")
    with pytest.raises(GiveUp, match=r"longer than 0\.05 s"):
        talk([never], "One.", config="execution: {timeout: 0.05}")


def test_a_server_that_reports_nothing_is_told_of_once() -> None:
    turns = talk(["One.", "Two.", "Three.", "Four."], "a", "b", "c", "d")
    told = [text for turn in turns for text in notices(turn) if "reports no token usage" in text]
    assert len(told) == 1
    assert isinstance(turns[1][-1], TurnEnded)
    assert notices(turns[1])


def test_a_window_that_was_learned_is_known_the_next_time(tmp_path: Path) -> None:
    error = "This model's maximum context length is 3000 tokens. However, your messages resulted in 9999 tokens."

    async def run() -> list[int | None]:
        windows: list[int | None] = []
        async with Fake("openai_chat", ["Done."], window=3000) as server:
            whole = "agents: [{id: main, model: {provider: here, model: nameless}}]\n"
            parsed = parse_config(
                f"{whole}providers: {{here: {{base_url: {server.url}, key_env: HERE}}}}", {"HERE": KEY}
            )
            for text in ("word " * 6000, ""):
                data = DataFolder(tmp_path, secrets=[])
                async with open_agent(
                    parsed, data=data, name="build", workspace=tmp_path, environment={"HERE": KEY}
                ) as agent:
                    windows.append(agent.window.tokens)
                    happened = await said(agent, text) if text else []
                    assert not text or any(isinstance(each, RequestRefused) for each in happened)
                data.close()
        return windows

    assert classify_response(400, error).window == 3000
    assert asyncio.run(run()) == [None, 3000]


def test_an_unknown_window_is_said() -> None:
    scripted = ScriptedProvider("openai_chat", ["Yes."], model="nameless")

    async def run() -> list[AgentEvent | UserNotice]:
        parsed = parse_config("agents: [{id: main, model: {provider: openai, model: nameless}}]", {})
        async with open_agent(parsed, data=None, name="b", workspace=Path("."), provider=scripted) as agent:
            return await said(agent, "Hello.")

    assert any("How much nameless holds is not known" in text for text in notices(asyncio.run(run())))


def test_modules_bound_the_tools() -> None:
    bodies: list[dict[str, Any]] = []

    def look(agent: OpenAgent) -> None:
        provider = agent.connection.provider
        assert isinstance(provider, ScriptedProvider)
        bodies.extend(msgspec.json.decode(request) for request in provider.requests)

    talk(["Yes."], "Hello.", config="modules: {hello: {}, shell: {}}", after=look)
    names = {tool["function"]["name"] for tool in bodies[0]["tools"]}
    assert names == {"hello", "shell", "recall"}


@pytest.mark.parametrize("window", [300, 1000, 2048, 4096, 16_000, None])
def test_tools_take_at_most_a_quarter_of_the_window(window: int | None) -> None:
    reached = ProviderConnection(
        ScriptedProvider("openai_chat"), ResolvedWindow(window, "setting", ""), TokenEstimator()
    )
    suited = select_tools(list_standard_tools(), reached, TokenEstimator())
    assert len(suited.tools) == len(suited.definitions)
    if window is None or window >= 4096:
        assert len(suited.tools) == len(list_standard_tools())
    else:
        assert count_tools(tuple(suited.definitions), TokenEstimator()) * MAX_TOOLS_DIVISOR <= window
    if window == 2048:
        assert suited.definitions[0].name == "recall"
        assert {"read", "list", "grep", "shell"} <= {tool.name for tool in suited.definitions}
    assert (
        select_tools(
            list_standard_tools(), msgspec.structs.replace(reached, supports_tools=False), TokenEstimator()
        ).definitions
        == []
    )


def test_the_background_of_a_policy_is_honoured() -> None:
    found: list[bool] = []

    def look(agent: OpenAgent) -> None:
        found.append(agent.session.state_notes.writer is not None)

    for setting in ("true", "false"):
        config = f"policy: {{name: picoclaw, settings: {{background: {setting}}}}}\nexecution: {{state_notes: false}}"
        talk(["Yes."], "Hello.", config=config, after=look)
    assert found == [True, False]


def test_a_missing_key_is_said_before_anything_is_sent() -> None:
    async def run() -> None:
        parsed = parse_config("agents: [{id: main, model: {provider: anthropic, model: claude-sonnet-4-5}}]", {})
        async with open_agent(parsed, data=None, name="b", workspace=Path("."), environment={}):
            pass

    with pytest.raises(BadInput, match=r"no key for anthropic.*ANTHROPIC_API_KEY"):
        asyncio.run(run())


def test_prices_of_ones_own() -> None:
    costs: list[float] = []
    config = "models: {scripted: {input: 1, output: 2}}\n"
    step = ScriptedAnswer(text="Yes.", usage=Usage(1_000_000, 500_000, 0, 0))
    talk([step], "One.", config=config, after=lambda agent: costs.append(agent.spending.session_total.dollars))
    assert costs == [2.0]
    with pytest.raises(BadPolicy, match=r"tidegate.yaml:\d+.*one of two prices"):
        talk([], config="models: {scripted: {input: 1}}\n")


def test_summaries_are_written_by_the_summary_model_and_paid_for() -> None:
    config = """
agents:
  - id: main
    model:
      provider: openai
      model: scripted
      context: {max_tokens: 4000, keep_recent: 2, compression_trigger: 0.3, output_reserved: 500,
                summary_model: {provider: here, model: small}}
models: {small: {window: 6000}}
"""

    async def run() -> tuple[Fake, OpenAgent]:
        async with Fake("openai_chat", lambda body: "The user asked about the port 8443.", window=6000) as server:
            whole = f"{config}providers: {{here: {{base_url: {server.url}, key_env: HERE}}}}"
            provider = ScriptedProvider("openai_chat", [f"Answer {number}. " * 40 for number in range(8)])
            parsed = parse_config(whole, {"HERE": KEY})
            async with open_agent(
                parsed, data=None, name="b", workspace=Path("."), provider=provider, environment={"HERE": KEY}
            ) as agent:
                for number in range(8):
                    await said(agent, f"Question {number} about the port 8443. " * 20)
                return server, agent

    server, agent = asyncio.run(run())
    asked = [seen.body for seen in server.seen if b"messages" in seen.raw]
    assert asked
    assert all(body["model"] == "small" for body in asked)
    assert server.refused == []
    paid = [
        event.payload for event in agent.session.log.read(1) if getattr(event.payload, "topic", "") == SideCost.topic
    ]
    assert len(paid) == len(asked)


def test_keys_that_are_there_are_offered() -> None:
    assert find_provider_keys({"GROQ_API_KEY": "x", "OPENAI_API_KEY": "", "HOME": "y"}) == {"groq": "GROQ_API_KEY"}
