"""The preset `digitorn` through the agent: every key of its file, hooks, summaries and windows."""

import asyncio
from pathlib import Path

import pytest

from tests.agent.seeds.agent_talk import Json, Talk, call, collect_turn, run_agent
from tests.fake.server import KEY, Fake, Hang, Step
from tidegate import DataFolder, GiveUp
from tidegate.agent.config.files import parse_config
from tidegate.agent.hooks.runner import HookReport
from tidegate.agent.loop import ToolFinished
from tidegate.agent.runtime import UserNotice, open_agent
from tidegate.agent.tools.approval import ApprovalQuestion
from tidegate.core.events import NoteAdded, ViewEdited
from tidegate.datafolder.trace.writer import read_trace
from tidegate.models.scripted_provider import ScriptedAnswer
from tidegate.models.window import LearnedWindows, WindowResolver

SUMMARY = "The user asked for the state of several valves. Valve four opens at nine bar."


def edits_of(talk: Talk) -> list[ViewEdited]:
    return [event.payload for event in talk.session.log.read() if isinstance(event.payload, ViewEdited)]


def texts_of(body: Json) -> list[str]:
    return [str(message["content"]) for message in body["messages"] if message["role"] != "system"]


def long_answers(count: int) -> list[Step]:
    return [f"Answer {number}: " + "the valve opens at nine bar. " * 40 for number in range(count)]


def long_asks(count: int) -> list[str]:
    return [f"Question {number}: " + "when does the valve open? " * 40 for number in range(count)]


FILE = """\
app: {app_id: valves, name: Valve house}
modules:
  hello: {}
  filesystem:
    constraints:
      allowed_actions: [read, find, grep]
agents:
  - id: engineer
    role: assistant
    brain:
      provider: main
      model: deepseek-chat
      backend: openai_compat
      config: {api_key: "{{env.DEEPSEEK_API_KEY}}"}
      context:
        max_tokens: 0
        output_reserved: 4096
        strategy: summarize
        keep_recent: 6
        compression_trigger: 0.05
        summary_max_tokens: 512
        auto_compact: true
        summary_brain: {provider: small, model: "qwen2.5:3b", backend: openai_compat}
    system_prompt: |
      You look after valves.
execution:
  state_notes: false  # so that calls wait for their summaries
  mode: conversation
  greeting: "Which valve?"
  max_turns: 9
  timeout: 120.0
  context: {max_tokens: 0, strategy: truncate, keep_recent: 10, compression_trigger: 0.75}
  hooks:
    - id: pressure_log
      on: turn_start
      condition: {type: always}
      action: {type: log, message: "Turn {turn}: ~{tokens} tokens, {messages} messages"}
      cooldown: 0
    - id: third
      on: turn_start
      condition: {type: turn_count, count: 3}
      action: {type: inject_message, role: system, message: "This is the third turn."}
      cooldown: 0
capabilities:
  default_policy: POLICY
"""


@pytest.mark.seed("DIG-01")
@pytest.mark.seed("DIG-09")
def test_all_keys_of_a_complete_file_hold(tmp_path: Path) -> None:
    """Nine turns: greeting, offered tools, hooks, one summary by the summary brain, and then no more turns."""
    asks = [f"Ask {number}: " + "when does the valve open? " * 130 for number in range(1, 10)]
    steps: list[Step] = [f"Reply {number}: " + "it opens at nine bar. " * 130 for number in range(1, 10)]
    config = FILE.replace("POLICY", "auto")
    talk = run_agent(tmp_path, config, steps, *asks, small=lambda _: SUMMARY, variables={"DEEPSEEK_API_KEY": KEY})
    assert talk.greeting == "Which valve?"
    assert "Which valve?" not in str(talk.bodies), "the model never sees it"
    offered = {tool["function"]["name"] for tool in talk.bodies[0]["tools"]}
    assert offered == {"hello", "read", "list", "grep", "recall"}
    assert talk.session.window == 131_072
    assert talk.session.budget.reserve == 4_096
    assert "You look after valves." in str(talk.bodies[0]["messages"][0])
    logged = [each.text for each in talk.events(HookReport) if each.hook_id == "pressure_log"]
    assert [text.split(":")[0] for text in logged] == [f"Turn {number}" for number in range(1, 10)]
    assert ["third turn" in str(body) for body in talk.bodies] == [False] * 2 + [True] * 7
    (asked,) = talk.small_bodies
    assert asked["model"] == "qwen2.5:3b"
    compacted = next(body for body in talk.bodies if "[Summary: " in str(body))
    assert f"[Summary: {SUMMARY}" in str(compacted)
    kept = [text for text in (*asks, *steps) if str(text).strip() in str(compacted)]
    assert len(kept) + ("third turn" in str(compacted)) == 6, "keep_recent of the brain"
    with pytest.raises(GiveUp, match="limit of 9 turns"):
        run_agent(tmp_path, config, [], "One more.", variables={"DEEPSEEK_API_KEY": KEY})


@pytest.mark.seed("DIG-01")
@pytest.mark.parametrize(
    ("policy", "asked", "ran"), [("auto", [], True), ("ask", ["read"], True), ("deny", [], False), ("allow", [], True)]
)
def test_the_default_policy_says_which_tools_need_approval(
    policy: str, asked: list[str], ran: bool, tmp_path: Path
) -> None:
    (tmp_path / "valve.txt").write_text("nine bar")
    questions: list[str] = []

    def agree(question: ApprovalQuestion) -> bool:
        questions.append(question.tool)
        return True

    steps: list[Step] = [call("read", '{"path": "valve.txt"}'), "Nine bar."]
    talk = run_agent(
        tmp_path,
        FILE.replace("POLICY", policy),
        steps,
        "Read it.",
        ask=agree,
        variables={"DEEPSEEK_API_KEY": KEY},
    )
    assert questions == asked
    (done,) = talk.events(ToolFinished)
    assert ("nine bar" in done.result.text) is ran


@pytest.mark.seed("DIG-01")
@pytest.mark.parametrize("action", ["write", "edit", "shell"])
def test_actions_that_are_not_allowed_are_not_there(action: str, tmp_path: Path) -> None:
    steps: list[Step] = [call(action, '{"path": "x.txt", "text": "x", "command": "touch x.txt"}'), "I cannot."]
    config = FILE.replace("POLICY", "allow")
    talk = run_agent(tmp_path, config, steps, "Do it.", variables={"DEEPSEEK_API_KEY": KEY})
    (done,) = talk.events(ToolFinished)
    assert f"There is no tool '{action}'" in done.result.text
    assert not (tmp_path / "x.txt").exists()


@pytest.mark.seed("DIG-01")
@pytest.mark.seed("DIG-16")
def test_a_turn_that_takes_too_long_and_a_missing_variable_are_said(tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"DEEPSEEK_API_KEY.*is not set"):
        run_agent(tmp_path, FILE.replace("POLICY", "auto"), [], "Hello.")
    config = FILE.replace("POLICY", "allow").replace("timeout: 120.0", "timeout: 0.05")
    never: list[Step] = [Hang(ScriptedAnswer(text="Hello."), 0)]
    with pytest.raises(GiveUp, match=r"longer than 0\.05 s"):
        run_agent(tmp_path, config, never, "Hello.", variables={"DEEPSEEK_API_KEY": KEY})
    once = FILE.replace("POLICY", "auto").replace("mode: conversation", "mode: one_shot")
    with pytest.raises(GiveUp, match="one turn only"):
        run_agent(tmp_path, once, ["Hello."], "Hello.", "Again.", variables={"DEEPSEEK_API_KEY": KEY}, name="once")


@pytest.mark.seed("DIG-01")
def test_a_variable_sends_a_provider_to_another_address(tmp_path: Path) -> None:
    async def run() -> Fake:
        async with Fake("deepseek", ["Hello."]) as server:
            environment = {"DEEPSEEK_API_KEY": KEY, "TIDEGATE_DEEPSEEK_BASE_URL": server.url}
            config = parse_config("agents: [{id: a, brain: {provider: deepseek, model: deepseek-chat}}]", environment)
            async with open_agent(config, data=None, name="a", workspace=tmp_path, environment=environment) as agent:
                await collect_turn(agent, "Hello.")
            return server

    assert [seen.path for seen in asyncio.run(run()).seen if seen.raw] == ["/chat/completions"]


SUMMARIES = """
agents: [{id: a, brain: {provider: main, model: gpt-4o, context: {OWN}}}]
execution:
  state_notes: false  # so that calls wait for their summaries
  context: {max_tokens: 12000, keep_recent: 2, compression_trigger: 0.4, output_reserved: 1000, summary_max_tokens: 300
    EXECUTION}
"""
BRAIN = "summary_brain: {provider: small, model: %s, temperature: 0.1, timeout: 9}"


@pytest.mark.seed("DIG-09")
@pytest.mark.parametrize(
    ("execution", "own", "model"), [(BRAIN % "one", "", "one"), (BRAIN % "one", BRAIN % "two", "two"), ("", "", "")]
)
def test_the_summary_brain_of_either_level_writes_the_summaries(
    execution: str, own: str, model: str, tmp_path: Path
) -> None:
    def answer(body: Json) -> Step:
        return SUMMARY if "max_completion_tokens" in body or "max_tokens" in body else long_answers(1)[0]

    config = SUMMARIES.replace("OWN", own).replace("EXECUTION", f", {execution}" if execution else "")
    talk = run_agent(tmp_path, config, answer, *long_asks(8), small=lambda _: SUMMARY)
    assert any(f"[Summary: {SUMMARY}" in str(body) for body in talk.bodies)
    assert {body["model"] for body in talk.small_bodies} == ({model} if model else set())
    if not model:
        assert any(SUMMARY not in str(body) and "Question 0" in str(body) for body in talk.bodies), "the main brain"
        return
    assert all(body["temperature"] == 0.1 for body in talk.small_bodies)
    assert len(talk.bodies) == 8, "the main model writes none"


@pytest.mark.seed("DIG-09")
def test_the_timeout_of_the_summary_brain_holds(tmp_path: Path) -> None:
    """A summary without a model takes the place of one that does not come."""
    brain = "summary_brain: {provider: small, model: one, timeout: 0.2}"
    config = SUMMARIES.replace("OWN", "").replace("EXECUTION", f", {brain}")
    talk = run_agent(
        tmp_path, config, long_answers(8), *long_asks(8), small=lambda _: Hang(ScriptedAnswer(text="Late."), 0)
    )
    notes = [event.payload.text for event in talk.session.log.read() if isinstance(event.payload, NoteAdded)]
    assert "there was no answer within 0.2 seconds" in notes
    assert any("[Summary: " in str(body) for body in talk.bodies)


SPECIALIST = """
policy: digitorn
agents:
  - {id: a, brain: {provider: main, model: gpt-4o}}
  - {id: reader, role: specialist, brain: {provider: main, model: gpt-4o}}
execution:
  state_notes: false  # so that calls wait for their summaries
  context: {max_tokens: 12000, keep_recent: 2, compression_trigger: 0.4, output_reserved: 1000,
    summary_brain: {provider: small, model: gpt-4o-mini}}
  hooks: [{id: care, on: turn_start, condition: {type: always}, action: {type: inject_message, message: Take care.}}]
"""


@pytest.mark.seed("DIG-09")
@pytest.mark.seed("DIG-01")
@pytest.mark.seed("JUT-16")
def test_settings_of_the_execution_reach_a_specialist(tmp_path: Path) -> None:
    """Its summary brain writes the specialist's summaries, and its hooks run there. The calls are in its own trace."""
    (tmp_path / "log.txt").write_text("pressure is nine bar, valve four is open\n" * 150)
    reads: list[Step] = [call("read", '{"path": "log.txt"}', f"r{number}") for number in range(6)]
    steps: list[Step] = [call("task", '{"prompt": "Read it.", "agent": "reader"}'), *reads, "Nine bar.", "It is nine."]
    talk = run_agent(tmp_path, SPECIALIST, steps, "Which pressure?", small=lambda _: SUMMARY, specialists=["reader"])
    own = talk.bodies[1:-1]
    assert any(f"[Summary: {SUMMARY}" in str(body) for body in own)
    assert talk.small_bodies
    assert "Take care." in str(own[0]["messages"])
    data = DataFolder(tmp_path / "data", secrets=[])
    kinds = {
        name: [line.kind for line in read_trace(data.trace_path(name)) if line.event == "model_usage"].count("summary")
        for name in ("build", "build.task-1")
    }
    data.close()
    assert kinds == {"build": 0, "build.task-1": len(talk.small_bodies)}


DECLARED = """
policy: digitorn
execution:
  context: {max_tokens: 12000, output_reserved: 1000, compression_trigger: 0.5, strategy: truncate, keep_recent: 3}
HOOKS
"""
MINE = """
  hooks:
    - id: mine
      on: turn_start
      condition: {type: context_pressure, threshold: 0.3}
      action: {type: compact_context, strategy: truncate, keep_recent: 2}
"""


@pytest.mark.seed("DIG-05")
@pytest.mark.parametrize(("hooks", "rule", "share"), [("", "_auto_compact", 0.5), (MINE, "mine", 0.3)])
def test_auto_compact_acts_where_no_compaction_is_declared(hooks: str, rule: str, share: float, tmp_path: Path) -> None:
    talk = run_agent(tmp_path, DECLARED.replace("HOOKS", hooks), long_answers(12), *long_asks(12))
    made = edits_of(talk)
    assert made
    assert {each.rule for each in made} == {rule}
    assert made[0].tokens_before > share * 11_000 - talk.session.budget.fixed
    last = [text for text in texts_of(talk.bodies[-1]) if "[Context reminder" not in text]
    assert "Question 0" not in str(last)


CONDITIONS = """
policy: digitorn
execution:
  context: {max_tokens: 20000, auto_compact: false, output_reserved: 1000}
  hooks:
    - {id: turn, on: turn_start, condition: {type: turn_count, count: 2}, action: {type: log, message: a}}
    - {id: calls, on: turn_start, condition: {type: tool_calls, threshold: 1}, action: {type: log, message: a}}
    - {id: messages, on: turn_start, condition: {type: message_count, threshold: 4}, action: {type: log, message: a}}
    - {id: ended, condition: {type: always}, action: {type: log, message: a}}
    - {id: rests, condition: {type: always}, action: {type: log, message: a}, cooldown: 3600}
    - id: pressure
      on: turn_start
      condition: {type: context_pressure, threshold: 0.2}
      action: {type: log, message: "{turn}"}
"""


@pytest.mark.seed("DIG-11")
@pytest.mark.seed("DIG-12")
def test_hooks_fire_under_their_conditions(tmp_path: Path) -> None:
    steps: list[Step] = [
        "One.",
        call("list", ident="c1"),
        "Two.",
        call("list", ident="c2"),
        "Three.",
        "Four: " + "it opens at nine bar. " * 800,
        "Five.",
    ]
    talk = run_agent(tmp_path, CONDITIONS, steps, *(f"Ask {number}." for number in range(1, 6)))
    fired = [[each.hook_id for each in turn if isinstance(each, HookReport)] for turn in talk.turns]
    assert fired[0] == ["ended", "rests"], "the end of a turn is the default"
    assert fired[1] == ["turn", "messages", "ended"], "at first 3 messages, then 5 with the result"
    assert fired[2] == ["messages", "calls", "messages", "ended"], "2 calls are more than 1"
    assert fired[3] == ["calls", "messages", "ended"]
    assert fired[4] == ["calls", "messages", "pressure", "ended"]
    again = run_agent(tmp_path, CONDITIONS, ["Six."], "Ask 6.")
    assert "rests" not in [each.hook_id for each in again.events(HookReport)], "the cooldown holds over a restart"


ACTIONS = """
policy: digitorn
modules: {hello: {}, filesystem: {constraints: {allowed_actions: [read]}}}
execution:
  context: {max_tokens: 20000, output_reserved: 1000, strategy: truncate, keep_recent: 9, auto_compact: false,
    summary_brain: {provider: small, model: gpt-4o-mini}}
  hooks:
    - id: squeeze
      on: turn_start
      condition: {type: turn_count, count: 5}
      action: {type: compact_context, strategy: summarize, keep_recent: 3, summary_max_tokens: 200}
    - id: word
      on: turn_start
      condition: {type: turn_count, count: 5}
      action: {type: inject_message, message: "This is turn {turn}.", role: user}
    - id: hail
      on: turn_start
      condition: {type: turn_count, count: 5}
      action: {type: module_action, module: hello, action: greet, params: {name: Ada}}
    - id: forbidden
      on: turn_start
      condition: {type: turn_count, count: 5}
      action: {type: module_action, module: filesystem, action: write, params: {path: x.txt, text: x}}
    - {id: note, condition: {type: turn_count, count: 5}, action: {type: log, message: "{turn}/{messages}/{tokens}"}}
"""


@pytest.mark.seed("DIG-13")
def test_the_four_actions_of_hooks(tmp_path: Path) -> None:
    talk = run_agent(tmp_path, ACTIONS, long_answers(6), *long_asks(6), small=lambda _: SUMMARY)
    done = {each.hook_id: each for each in talk.events(HookReport)}
    assert list(done) == ["squeeze", "word", "hail", "forbidden", "note"]
    fifth = talk.bodies[4]
    (asked,) = talk.small_bodies
    assert "Question 0" in str(asked)
    limit = max(asked.get("max_completion_tokens", 0), asked.get("max_tokens", 0))
    assert 200 <= limit < 1_000, "that of the hook, and not of the context"
    assert f"[Summary: {SUMMARY}" in str(fifth)
    assert "Question 1" not in str([text for text in texts_of(fifth) if "[Context reminder" not in text])
    assert "Answer 3" in str(fifth)
    assert "This is turn 5." in texts_of(fifth)[-1]
    assert "This is turn 5." not in str(fifth["messages"][0])
    assert done["hail"].text == "Hello, Ada."
    assert done["forbidden"].is_error
    assert not (tmp_path / "x.txt").exists()
    turn, messages, tokens = map(int, done["note"].text.split("/"))
    assert (turn, messages) == (5, 7), "summary, reminder, three recent, the injected message and the answer"
    assert tokens > 500


WINDOWS = {
    "deepseek-chat": 131_072,
    "gpt-4o": 128_000,
    "gpt-4o-mini": 128_000,
    "llama-3.3-70b-versatile": 128_000,
    "mistral-large-latest": 128_000,
    "o3": 200_000,
    "o3-mini": 200_000,
    "qwen2.5:14b": None,
}
LARGE_VOCABULARIES = ("llama-3.3-70b-versatile", "mistral-large-latest")


@pytest.mark.seed("DIG-14")
def test_the_windows_of_the_document() -> None:
    assert {
        model: WindowResolver(model, learned_windows=LearnedWindows()).window.tokens for model in WINDOWS
    } == WINDOWS


@pytest.mark.seed("DIG-14")
@pytest.mark.parametrize(
    "model",
    [pytest.param(model, marks=pytest.mark.exhaustive if model in LARGE_VOCABULARIES else ()) for model in WINDOWS],
)
def test_windows_are_found_by_name_and_an_unknown_one_is_asked_for(model: str, tmp_path: Path) -> None:
    """The message names the settings; with either of them it is gone."""
    config = f"policy: digitorn\nagents: [{{id: a, brain: {{provider: main, model: '{model}', backend: openai_compat"
    talk = run_agent(tmp_path, config + "}}]\nexecution: {context: {max_tokens: 0}}", ["Hello."], "Hello.")
    notices = [each.text for each in talk.events(UserNotice)]
    assert talk.agent.window.tokens == WINDOWS[model]
    if WINDOWS[model] is not None:
        assert notices == []
        return
    (notice,) = notices
    assert "How much qwen2.5:14b holds is not known." in notice
    assert "models.qwen2.5:14b.window" in notice
    assert "max_tokens" in notice
    for setting in ("execution: {context: {max_tokens: 8000}}", "models: {'qwen2.5:14b': {window: 8000}}"):
        talk = run_agent(tmp_path, config + "}}]\n" + setting, ["Hello."], "Hello.", name=setting[:6])
        assert talk.agent.window.tokens == talk.session.window == 8_000
        assert talk.events(UserNotice) == []
