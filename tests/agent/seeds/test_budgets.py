"""The presets `cowagent` and `picoclaw` through the agent: their budgets, windows and background summaries."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.agent.seeds.agent_talk import Json, call, run_agent
from tests.fake.server import KEY, Step
from tidegate import BadInput
from tidegate.agent.config.editor import change_setting
from tidegate.agent.config.files import locate_config_files
from tidegate.agent.config.launch import LaunchOptions
from tidegate.agent.loop import RequestSent
from tidegate.agent.runtime import OpenAgent
from tidegate.agent.system_prompt import AGENT_RULES, SHORT_AGENT_RULES
from tidegate.models.token_counters import create_counter

SMALL = "execution: {context: {summary_brain: {provider: small, model: gpt-4o-mini}}}\n"
SUMMARY = "The user asked about many valves. Valve four opens at nine bar."
COWAGENT_FILE = {
    "channel_type": "web",
    "model": "gpt-4o",
    "open_ai_api_base": "https://api.openai.com/v1",
    "agent": True,
    "agent_max_context_tokens": 40_000,
    "agent_max_context_turns": 30,
    "agent_max_steps": 7,
}


@pytest.mark.seed("COW-02")
@pytest.mark.seed("COW-03")
def test_a_config_json_is_read_and_changed(tmp_path: Path) -> None:
    """What other programs need of it stays in the file."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(COWAGENT_FILE))
    environment = {"OPENAI_API_KEY": KEY, "HOME": str(tmp_path / "home")}
    options = LaunchOptions(locate_config_files(tmp_path, environment, explicit_file=str(path)), environment)
    config = options.load_config().config
    assert config.policy_name == "cowagent"
    assert (config.agent.model.provider, config.agent.model.model) == ("openai", "gpt-4o")
    assert config.settings.policy.settings == {
        "agent_max_context_tokens": 40_000,
        "agent_max_context_turns": 30,
        "agent_max_steps": 7,
    }
    change_setting(options, "agent_max_context_tokens", "80000")
    change_setting(options, "max_context_turns", "12")
    assert json.loads(path.read_text()) == {
        **COWAGENT_FILE,
        "agent_max_context_tokens": 80_000,
        "agent_max_context_turns": 12,
    }
    with pytest.raises(BadInput, match=r"config\.json has no name for execution\.max_steps"):
        change_setting(options, "execution.max_steps", "3")


@pytest.mark.seed("COW-15")
@pytest.mark.parametrize("where", ["in results", "in requests"])
def test_after_trimming_the_request_is_within_the_budget(where: str, tmp_path: Path) -> None:
    """Also while a turn runs, whose own results then leave, the oldest first."""
    budget, count = 12_000, create_counter("gpt-4o").count_text
    (tmp_path / "log.txt").write_text("pressure is nine bar, valve four is open\n" * 450)
    reads: list[Step] = [call("read", '{"path": "log.txt"}', f"c{number}") for number in range(12)]
    steps: list[Step] = ["Yes. " * 100 for _ in range(9)]
    long = "which valve is it, and when was it opened? " * 400
    asks = [f"Ask {number}. {long if where == 'in requests' and number > 5 else ''}" for number in range(9)]
    steps += [*reads, "Read."] if where == "in results" else ["Yes. "]
    asks.append("Read all of it.")
    newest = "What did it say?"
    config = f"policy: {{name: cowagent, settings: {{max_context_tokens: {budget}}}}}\nmodules: {{filesystem: {{}}}}\n"
    talk = run_agent(tmp_path, config + SMALL, [*steps, "Nine bar."], *asks, newest, small=lambda _: SUMMARY)
    assert max(each.request.tokens for each in talk.events(RequestSent)) <= budget
    last = talk.bodies[-1]
    assert count(str(last["messages"])) <= budget
    assert last["messages"][-1]["content"] == newest
    assert talk.small_bodies, "what is dropped goes into memory"
    if where == "in results":
        reading = str(talk.bodies[-2]["messages"])
        assert count(reading) > budget // 2, "as much as fits stays"
        assert reading.count("[cleared: result of read,") > 5
        assert ", 22 tokens" not in reading, "the size of the result, not of its stub"


@pytest.mark.seed("PIC-01")
@pytest.mark.parametrize(
    ("model", "settings", "window", "reserve", "output"),
    [
        ("gpt-4o", "{}", 131_072, 32_768, 16_384),
        ("gpt-4o", "{context_window: 0}", 131_072, 32_768, 16_384),
        ("no-such-model", "{}", 131_072, 32_768, 32_768),
        ("gemini-2.5-pro", "{}", 131_072, 32_768, 32_768),
        ("gpt-4o", "{context_window: 60000}", 60_000, 15_000, 15_000),
        ("gpt-4o", "{context_window: 60000, max_tokens: 5000}", 60_000, 5_000, 5_000),
        ("gpt-4", "{}", 8_192, 2_048, 2_048),
    ],
)
def test_the_window_of_picoclaw(
    model: str, settings: str, window: int, reserve: int, output: int, tmp_path: Path
) -> None:
    """0 is 131,072, unless the model is known to hold less than the requests that this allows.

    The output limit is the setting, the most that the model can write, or the reserve, whichever is least.
    """
    config = f"policy: {{name: picoclaw, settings: {settings}}}\n"
    talk = run_agent(tmp_path, config, ["Yes."], "Hello.", model=model)
    budget = talk.session.budget
    assert (talk.session.window, budget.window, budget.reserve) == (window, window, reserve)
    assert talk.bodies[0]["max_completion_tokens"] == output


@pytest.mark.seed("PIC-01")
@pytest.mark.parametrize(
    ("window", "rules"), [(3_000, SHORT_AGENT_RULES), (60_000, AGENT_RULES)], ids=["small", "large"]
)
def test_the_prompt_suits_the_window_of_picoclaw(window: int, rules: str, tmp_path: Path) -> None:
    """The agent knows the window that the policy sets: in a small one its own instructions are short."""
    config = f"policy: {{name: picoclaw, settings: {{context_window: {window}}}}}\n"
    talk = run_agent(tmp_path, config, ["Yes."], "Hello.", model="gpt-4o")
    assert talk.bodies[0]["messages"][0]["content"].startswith(rules)


@pytest.mark.seed("PIC-07")
@pytest.mark.parametrize("background", [True, False])
def test_after_a_turn_a_summary_is_written_in_the_background(background: bool, tmp_path: Path) -> None:
    """More than 20 messages have it used at the next turn, which does not wait: it is written three messages before."""
    turns, asked_before, busy_after = 14, [], []

    async def wait_until_idle(agent: OpenAgent) -> None:
        ahead = agent.session.state_notes.writer
        busy_after.append(ahead is not None and ahead.is_busy)
        while ahead is not None and ahead.is_busy:
            await asyncio.sleep(0.01)

    def summarize(body: Json) -> Step:
        asked_before.append(str(body))
        return SUMMARY

    config = f"policy: {{name: picoclaw, settings: {{background: {str(background).lower()}}}}}\n"
    steps = [f"Answer {number}: " + "it opens at nine bar. " * 10 for number in range(turns)]
    asks = [f"Question {number}: " + "what about the valve? " * 10 for number in range(turns)]
    talk = run_agent(tmp_path, config + SMALL, steps, *asks, small=summarize, after_turn=wait_until_idle)
    summarized = [SUMMARY in str(body) for body in talk.bodies]
    if not background:
        assert not any(summarized)
        assert asked_before == []
        return
    assert busy_after.index(True) == 8, "after the turn with message 18"
    assert summarized.index(True) == 11, "the next request has it"
    assert "Question 0" in asked_before[0]
    assert "Question 0" not in str(talk.bodies[11]["messages"])
