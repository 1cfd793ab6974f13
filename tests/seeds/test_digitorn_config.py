"""The promises of the preset `digitorn` that concern its file: levels, brains, variables and hooks."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.fake.server import KEY, Fake
from tests.seeds.talk import Clock, Preset, Scribe, asks, numbers, only, opened, passage, replies, rules, stages, turns
from tidegate import BadPolicy, Session
from tidegate.agent.config.files import ConfigFiles, parse_config, read_config
from tidegate.agent.config.provider_target import ProviderTarget
from tidegate.agent.config.resolved_config import (
    ResolvedConfig,
    make_policy_settings,
    resolve_model_target,
    resolve_summary_target,
)
from tidegate.agent.config.tool_access import list_offered_tools, resolve_approval
from tidegate.agent.hooks.actions import make_action_runner
from tidegate.agent.hooks.runner import HookReport, HookRunner
from tidegate.agent.tools.modules import HELLO_TOOL
from tidegate.agent.tools.tool import ToolContext
from tidegate.agent.tools.toolbox import Toolbox, list_standard_tools
from tidegate.core.events import NoteAdded
from tidegate.core.messages import text_of
from tidegate.models.http.provider import HttpProvider
from tidegate.models.provider import collect_reply
from tidegate.session.summarizer import create_summarizer
from tidegate.wire.answers import parse_reply

EXAMPLE = """\
app:
  app_id: valves
  name: "Valve house"

modules:
  hello: {}
  filesystem:
    constraints:
      allowed_actions: [read, find, grep]

agents:
  - id: engineer
    role: assistant
    brain:
      provider: deepseek
      model: deepseek-chat
      backend: openai_compat
      config:
        api_key: "{{env.DEEPSEEK_API_KEY}}"
      context:
        max_tokens: 0
        output_reserved: 4096
        strategy: summarize
        keep_recent: 6
        compression_trigger: 0.05
        summary_max_tokens: 512
        auto_compact: true
        summary_brain:
          provider: ollama
          model: qwen2.5:3b
          backend: openai_compat
    system_prompt: |
      You look after valves.

execution:
  mode: conversation
  greeting: "Which valve?"
  max_turns: 50
  timeout: 120.0
  context:
    max_tokens: 0
    strategy: truncate
    keep_recent: 10
    compression_trigger: 0.75
  hooks:
    - id: pressure_log
      on: turn_start
      condition:
        type: always
      action:
        type: log
        message: "Turn {turn}: ~{tokens} tokens, {messages} messages"
      cooldown: 0
    - id: third
      on: turn_start
      condition:
        type: turn_count
        count: 3
      action:
        type: inject_message
        role: system
        message: "This is the third turn."
      cooldown: 0

capabilities:
  default_policy: auto
"""
SUMMARY = "The user asked for the state of several valves. The assistant said that valve four opens at nine bar."


def made(target: ProviderTarget) -> HttpProvider:
    return HttpProvider(target.wire, target.model, base_url=target.base_url, key=target.api_key, headers=target.headers)


async def lived(
    config: ResolvedConfig, session: Session, environment: dict[str, str], workspace: Path
) -> list[HookReport]:
    """Eight turns of a conversation: as an agent's loop has them, without tools."""
    main, summary = (made(each(config, environment)) for each in (resolve_model_target, resolve_summary_target))
    summarize = create_summarizer(summary, window=32_000, counter=session.counter, timeout=600)
    tools = [tool for tool in (*list_standard_tools(), HELLO_TOOL) if tool.tool.name in list_offered_tools(config)]
    toolbox = Toolbox(tools, approval=resolve_approval(config))
    session.set_tools(toolbox.definitions())
    act = make_action_runner(config, toolbox, ToolContext(workspace, session))
    hooks = HookRunner(config.hooks, context=config.context, run_module=act)
    done: list[HookReport] = []
    for number in range(1, 9):
        session.add(asks(f"ask-{number}", 4_000))
        done += await hooks.run_due("turn_start", session, summarizer=summarize)
        request = await session.prepare_async(summarize)
        reply = await collect_reply(main, request.to_bytes())
        session.add(*parse_reply(main.wire, reply))
        session.record(reply.usage)
        done += await hooks.run_due("turn_end", session, summarizer=summarize)
    await main.close()
    await summary.close()
    return done


@pytest.mark.seed("DIG-01", change={"strategy": "truncate"})
@pytest.mark.seed("DIG-01", change={"compression_trigger": 0.75})
@pytest.mark.seed("DIG-01", change={"keep_recent": 10})
@pytest.mark.seed("DIG-09", change={"strategy": "truncate"})
def test_a_complete_file_runs_against_local_servers(preset: Preset, tmp_path: Path) -> None:
    """The project's file as it is; the user's says where the names of the providers lead."""

    async def run() -> None:
        answers = [passage(f"reply-{number}", 4_000) for number in range(1, 9)]
        async with Fake("deepseek", answers, window=131_072) as main, Fake("openai_chat", lambda _: SUMMARY) as small:
            (tmp_path / "tidegate.yaml").write_text(EXAMPLE, "utf-8")
            mapped = (
                f"providers: {{deepseek: {{base_url: '{main.url}'}}, ollama: {{base_url: '{small.url}', key_env: K}}}}"
            )
            (tmp_path / "user.yaml").write_text(mapped, "utf-8")
            environment = {"DEEPSEEK_API_KEY": KEY, "K": KEY}
            config = read_config(ConfigFiles(tmp_path / "tidegate.yaml", tmp_path / "user.yaml"), environment)
            policy = preset(config.policy_name, make_policy_settings(config))
            session = Session("deepseek-chat", policy=policy, wire="deepseek", system=config.agent.system_prompt)
            done = await lived(config, session, environment, tmp_path)
        assert (main.refused, small.refused) == ([], [])
        assert session.budget.window == 131_072
        assert [each.hook_id for each in done].count("pressure_log") == 8
        assert only([each for each in done if each.hook_id == "third"]).text == "This is the third turn."
        assert "This is the third turn." not in str(main.seen[1].body)
        assert "This is the third turn." in str(main.seen[2].body)
        assert only(small.seen).body["model"] == "qwen2.5:3b", "one summary, by the model that is there for it"
        assert "<ask-1>" in str(small.seen[0].body)
        compacted = next(seen.body for seen in main.seen if "[Summary: " in str(seen.body))
        assert SUMMARY in str(compacted["messages"][1])
        recent = str(compacted["messages"])
        assert recent.count("</") + recent.count("third turn") == 6, "so many recent messages, the hook's among them"
        assert all(KEY not in seen.raw.decode() for seen in (*main.seen, *small.seen)), "the key is in the header only"

    asyncio.run(run())


def config_of(text: str, **environment: str) -> ResolvedConfig:
    return parse_config(text, environment)


LEVELS = """\
execution:
  context: {max_tokens: 10_000, output_reserved: 2_000, strategy: truncate, keep_recent: 4}
agents:
  - id: plain
  - id: own
    brain: {context: {keep_recent: 2, max_tokens: 9_000}}
"""


@pytest.mark.seed("DIG-01", change={"keep_recent": 5})
@pytest.mark.seed("DIG-01", change={"max_tokens": 30_000})
@pytest.mark.seed("DIG-01", change={"strategy": "summarize"})
def test_a_brains_settings_go_over_the_executions_key_by_key(preset: Preset) -> None:
    for agent, kept, window in (("plain", 4, 10_000), ("own", 2, 9_000)):
        config = parse_config(LEVELS, {}, agent=agent)
        session = opened(preset("digitorn", make_policy_settings(config)), window=None)
        session.add(*turns(1, 9, ask=400, reply=4_000), asks("ask-10"))
        session.prepare(Scribe())
        assert session.budget.window == window
        assert session.budget.reserve == 2_000
        assert stages(session) == ["keep_recent"]
        assert [item.message.kind for item in session.view.items].count("") == kept


@pytest.mark.seed("DIG-01", change={"compression_trigger": 0.7})
@pytest.mark.seed("DIG-01", change={"output_reserved": 4_000})
@pytest.mark.seed("DIG-01", change={"auto_compact": False})
def test_what_the_file_leaves_open_is_as_the_document_says(preset: Preset) -> None:
    config = config_of("execution: {context: {strategy: summarize}}")
    given = preset("digitorn", make_policy_settings(config)).settings
    assert (given["max_tokens"], given["output_reserved"], given["keep_recent"]) == (0, 4_096, 10)
    assert (given["compression_trigger"], given["summary_max_tokens"]) == (0.75, 1_024)
    assert (given["strategy"], given["auto_compact"]) == ("summarize", True)
    assert config.context.summary_model is None


@pytest.mark.seed("DIG-09", change={"summary_max_tokens": 100})
def test_a_summary_brain_stands_at_either_level_and_the_brains_wins(preset: Preset) -> None:
    brain = "{provider: %s, model: %s, backend: openai_compat, temperature: 0.1, timeout: 9}"
    execution = "execution: {context: {summary_max_tokens: 300, summary_brain: " + brain % ("ollama", "one") + "}}\n"
    agents = "agents: [{id: a, brain: {provider: openai, model: main, context: {keep_recent: 3%s}}}]"
    main = config_of(agents % "")
    assert (main.summary_model.provider, main.summary_model.model) == ("openai", "main")
    lower = config_of(execution + agents % "")
    assert (lower.summary_model.model, lower.summary_model.temperature, lower.summary_model.timeout) == ("one", 0.1, 9)
    upper = config_of(execution + agents % (", summary_brain: " + brain % ("vllm", "two")))
    assert (upper.summary_model.provider, upper.summary_model.model) == ("vllm", "two")
    session, scribe = opened(preset("digitorn", make_policy_settings(upper)), window=8_000), Scribe()
    session.add(*turns(1, 9, reply=3_000), asks("ask-10"))
    session.prepare(scribe)
    assert only(scribe.asked).max_tokens == 300


# Hooks.

DECLARED = """\
execution:
  context: {keep_recent: 8, strategy: truncate%s}
  hooks:
    - id: mine
      on: turn_start
      condition: {type: context_pressure, threshold: 0.3}
      action: {type: compact_context, keep_recent: 2}
"""


def fired(hooks: HookRunner, session: Session, moment: Any = "turn_start") -> list[HookReport]:
    return asyncio.run(hooks.run_due(moment, session))


@pytest.mark.seed("DIG-05", change={"auto_compact": True})
def test_auto_compact_is_added_only_where_no_compaction_is_declared(preset: Preset) -> None:
    bare = config_of("execution: {context: {keep_recent: 8, strategy: truncate}}")
    added = bare.auto_compact_hook
    assert added is not None
    assert (added.id, added.on, added.cooldown) == ("_auto_compact", "turn_start", 30.0)
    config = config_of(DECLARED % "")
    assert config.auto_compact_hook is None
    for chosen, rule, kept in ((bare, "_auto_compact", 8), (config, "mine", 2)):
        session = opened(preset("digitorn", make_policy_settings(chosen)), window=10_000, reserve=1_000)
        session.add(*turns(1, 9, reply=3_000), asks("ask-10"))
        fired(HookRunner(chosen.hooks, context=chosen.context), session)
        session.prepare(Scribe())
        assert rules(session) == [rule]
        assert [item.message.kind for item in session.view.items].count("") == kept
        session.add(replies("reply-10", 28_000), asks("ask-11"))
        session.prepare(Scribe())
        assert ("_auto_compact" in {each.rule for each in session.last_decisions}) is (rule == "_auto_compact")


HOOK = """\
execution:
  context: {output_reserved: 1_000, auto_compact: false}
  hooks:
    - id: watch
      condition: {type: context_pressure, threshold: 0.5}
      action: {type: log, message: "{turn}/{tokens}/{messages}"}
      cooldown: 60
"""


@pytest.mark.seed("DIG-11", change={"output_reserved": 2_000})
@pytest.mark.seed("DIG-12", fields={"meter": "chars/3"})
@pytest.mark.seed("DIG-13", fields={"meter": "chars/5"})
def test_a_hook_fires_at_the_end_of_a_turn_and_rests_over_a_restart(preset: Preset) -> None:
    """4,000 of 8,000 tokens are not more than half; 4,001 are."""
    config, clock = config_of(HOOK), Clock()
    policy = preset("digitorn", make_policy_settings(config))
    session = opened(policy, window=9_000, system="", clock=clock)
    session.add({"role": "user", "content": "x" * 8_000}, {"role": "assistant", "content": "y" * 8_000})
    hooks = HookRunner(config.hooks, context=config.context, clock=clock)
    assert fired(hooks, session, "turn_start") == fired(hooks, session, "turn_end") == []
    session.add({"role": "user", "content": "more"})
    assert fired(hooks, session, "turn_start") == [], "the end of a turn, where nothing is said"
    assert fired(hooks, session, "turn_end") == [HookReport("watch", "log", "2/4001/3")]
    for seconds, fires in ((59.9, 0), (0.2, 1)):
        clock.now += seconds
        session = Session(policy=policy, window=9_000, count="chars/4", log=session.log, clock=clock)
        hooks = HookRunner(config.hooks, context=config.context, clock=clock)
        assert len(fired(hooks, session, "turn_end")) == fires
    noted = [event.payload.text for event in session.log.read() if isinstance(event.payload, NoteAdded)]
    assert noted.count("watch") == 2


CONDITIONS = """\
execution:
  context: {output_reserved: 1_000, auto_compact: false}
  hooks:
    - {id: turn, on: turn_start, condition: {type: turn_count, count: 2}, action: {type: log, message: a}}
    - {id: calls, on: turn_start, condition: {type: tool_calls, threshold: 3}, action: {type: log, message: a}}
    - {id: messages, on: turn_start, condition: {type: message_count, threshold: 8}, action: {type: log, message: a}}
    - id: pressure
      on: turn_start
      condition: {type: context_pressure, threshold: 0.25}
      action: {type: log, message: a}
    - {id: always, on: turn_start, condition: {type: always}, action: {type: log, message: a}}
"""


@pytest.mark.seed("DIG-12", change={"output_reserved": 0})
@pytest.mark.seed("DIG-12", fields={"meter": "chars/2"})
def test_conditions_are_strict_and_a_turn_count_is_exact(preset: Preset) -> None:
    config = config_of(CONDITIONS)
    session = opened(preset("digitorn", make_policy_settings(config)), window=5_000, system="")
    hooks = HookRunner(config.hooks, context=config.context)
    seen: list[set[str]] = []
    for number in range(1, 4):
        session.add(asks(f"ask-{number}", 250))
        seen.append({done.hook_id for done in fired(hooks, session)})
        session.add(*turns(number, number, (250, 250), ask=250, reply=250)[1:])
    assert seen == [{"always"}, {"always", "turn"}, {"always", "calls", "messages"}]
    session.add(asks("ask-4", 250))
    missing = 1_010 - session.view.metered
    assert missing > 10
    session.add({"role": "assistant", "content": "z" * 4 * missing})
    assert {done.hook_id for done in fired(hooks, session)} == {"always", "calls", "messages", "pressure"}


ACTIONS = """\
modules: {hello: {}, context: {}}
execution:
  context: {strategy: truncate, keep_recent: 9, auto_compact: false}
  hooks:
    - id: squeeze
      on: turn_start
      condition: {type: always}
      action: {type: compact_context, strategy: summarize, keep_recent: 3, summary_max_tokens: 200}
    - id: word
      on: turn_start
      condition: {type: always}
      action: {type: inject_message, message: "At {turn}.", role: user}
    - id: hail
      on: turn_start
      condition: {type: always}
      action: {type: module_action, module: hello, action: greet, params: {name: Ada}}
    - {id: note, on: turn_start, condition: {type: always}, action: {type: log, message: "{turn} {tokens} {messages}"}}
"""


@pytest.mark.seed("DIG-13", change={"reminder_tokens": 0})
@pytest.mark.seed("DIG-13", fields={"meter": "chars/2"})
def test_the_four_actions(preset: Preset, tmp_path: Path) -> None:
    config = config_of(ACTIONS)
    session = opened(preset("digitorn", make_policy_settings(config)), window=20_000, system="")
    session.add(*turns(1, 6, reply=1_000), asks("ask-7"))
    act = make_action_runner(
        config, Toolbox([HELLO_TOOL], approval=resolve_approval(config)), ToolContext(tmp_path, session)
    )
    done = fired(HookRunner(config.hooks, context=config.context, run_module=act), session)
    assert [each.action for each in done] == ["compact_context", "inject_message", "module_action", "log"]
    assert not any(each.is_error for each in done)
    kinds = [item.message.kind for item in session.view.items]
    assert kinds == ["summary", "reminder", "", "", "", "note"], "and the reminder follows, as after any compaction"
    assert numbers(session.prepare(), "ask-")[-2:] == [6, 7]
    assert rules(session) == ["squeeze"]
    assert session.render_request().messages[-1]["content"].endswith("At 7.")
    assert done[2].text == "Hello, Ada."
    assert done[3].text == f"7 {session.view.metered} 6"
    assert session.view.metered == sum(-(-len(text_of(item.message)) // 4) for item in session.view.items)


# Variables.


@pytest.mark.seed("DIG-16", change={"keep_recent": 9})
def test_a_variable_is_filled_in_and_a_missing_one_is_said(preset: Preset) -> None:
    text = "execution:\n  context:\n    keep_recent: '{{env.KEEP}}'\n    strategy: truncate\n"
    key = "sk-abcdefghijklmnop-0123456789"
    session = opened(preset("digitorn", make_policy_settings(config_of(text, KEEP="3"))), window=10_000, reserve=1_000)
    session.add(*turns(1, 9, reply=3_000), asks("ask-10"))
    session.prepare()
    assert [item.message.kind for item in session.view.items].count("") == 3
    with pytest.raises(BadPolicy, match=r"tidegate\.yaml:3: the variable KEEP,.*is not set") as caught:
        config_of(text, OTHER=key)
    assert key not in str(caught.value)
    with pytest.raises(BadPolicy, match=r"whose value does not fit") as caught:
        config_of(text, KEEP=key)
    assert key not in str(caught.value)
