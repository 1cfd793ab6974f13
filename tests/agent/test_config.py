"""tidegate.yaml: what it may say, what is said of mistakes in it, and which file wins."""

from pathlib import Path

import pytest

from tidegate import BadInput, BadPolicy
from tidegate.agent.config.effective_settings import EffectiveSetting, list_effective_settings
from tidegate.agent.config.files import ConfigFiles, locate_config_files, parse_config, read_config
from tidegate.agent.config.resolved_config import (
    ResolvedConfig,
    collect_secret_values,
)
from tidegate.agent.hook_types import Always, InjectMessage, LogMessage, ModuleAction, TurnCount

KEY = "sk-live-Zx81kqPw02LmnB7r"
WHOLE = """\
app:
  app_id: garden
  name: "Garden helper"
modules:
  hello: {}
  filesystem:
    constraints:
      allowed_actions: [read, find]
      denied_actions: [write]
  memory:
agents:
  - id: main
    role: assistant
    model:
      provider: deepseek
      model: deepseek-chat
      backend: openai_compat
      temperature: 0.5
      timeout: 30
      config:
        api_key: "{{env.GARDEN_KEY}}"
        headers: {x-team: "{{ env.TEAM }}"}
      context:
        keep_recent: 4
        summary_model: {provider: ollama, model: "tiny:1b"}
    system_prompt: |
      You know plants.
  - id: digger
    role: worker
    model: {provider: nowhere, config: {api_key: "{{env.DIGGER_KEY}}"}}
execution:
  mode: conversation
  greeting: "Hello."
  max_turns: 12
  timeout: 90.5
  context: {strategy: truncate, keep_recent: 8, compression_trigger: 0.5}
  hooks:
    - id: say
      on: turn_start
      condition: {type: always}
      action: {type: log, message: "turn {turn}"}
    - id: greet
      condition: {type: turn_count, count: 3}
      action: {type: module_action, module: hello, action: greet, params: {name: "{{env.TEAM}}", more: [1, null]}}
      cooldown: 2.5
capabilities:
  default_policy: ask
  tools: {read: allow, filesystem.find: allow, "github__*": deny}
  deny_commands: [rm]
providers:
  nowhere: {base_url: "http://localhost:7/v1", key_env: NOWHERE_KEY, wire: openai_chat}
models:
  "tiny:1b": {window: 4096, max_output: 512, input: 0, output: 0.25}
window: 64_000
spend:
  session: {dollars: 2.5, tokens: 1_000_000}
  day: {dollars: 10}
mcp:
  github: {command: npx, args: [server], env: {TOKEN: "{{env.TEAM}}"}}
skills: [skills]
"""
ENVIRONMENT = {"GARDEN_KEY": KEY, "TEAM": "blue-beetles"}


def whole(agent: str = "") -> ResolvedConfig:
    return parse_config(WHOLE, ENVIRONMENT, agent=agent)


def refused(text: str, environment: dict[str, str] | None = None) -> str:
    with pytest.raises(BadPolicy) as caught:
        parse_config(text, environment or {}, source="here.yaml")
    return str(caught.value)


def test_every_key_lands_where_it_is_used() -> None:
    config = whole()
    settings, agent_model, run = config.settings, config.agent.model, config.settings.execution
    assert (settings.app.app_id, settings.app.name, settings.window) == ("garden", "Garden helper", 64_000)
    assert config.agent.system_prompt == "You know plants.\n"
    assert (
        agent_model.provider,
        agent_model.model,
        agent_model.backend,
        agent_model.temperature,
        agent_model.timeout,
    ) == (
        "deepseek",
        "deepseek-chat",
        "openai_compat",
        0.5,
        30.0,
    )
    assert agent_model.config.api_key == KEY
    assert agent_model.config.headers == {"x-team": "blue-beetles"}
    assert (run.mode, run.greeting, run.max_turns, run.timeout) == ("conversation", "Hello.", 12, 90.5)
    assert settings.spend.session.tokens == 1_000_000
    assert (settings.spend.day.dollars, settings.spend.day.tokens) == (10, None)
    assert settings.models["tiny:1b"].window == 4096
    assert settings.mcp["github"].args == ("server",)
    assert settings.modules is not None
    assert settings.modules["filesystem"].constraints.allowed_actions == ("read", "find")
    say, greet = run.hooks
    assert (say.on, say.condition, say.action, say.cooldown) == ("turn_start", Always(), LogMessage("turn {turn}"), 0)
    assert (greet.on, greet.condition, greet.cooldown) == ("turn_end", TurnCount(3), 2.5)
    assert greet.action == ModuleAction("hello", "greet", {"name": "blue-beetles", "more": [1, None]})


def test_a_hook_injects_as_the_system_unless_told_otherwise() -> None:
    text = "execution: {hooks: [{id: a, condition: {type: always}, action: {type: inject_message, message: x}}]}"
    assert parse_config(text, {}).hooks[0].action == InjectMessage("x", "system")


def test_the_context_of_a_model_goes_over_that_of_the_execution_key_by_key() -> None:
    config = whole()
    assert (config.context.keep_recent, config.context.strategy) == (4, "truncate")
    assert config.context.compression_trigger == 0.5
    assert config.summary_model.model == "tiny:1b"
    other = parse_config(WHOLE, {**ENVIRONMENT, "DIGGER_KEY": "x"}, agent="digger")
    assert other.context.keep_recent == 8
    assert other.summary_model == other.agent.model, "without one of its own, the main one writes summaries"


def test_an_agent_is_picked_by_its_id() -> None:
    assert whole().agent.id == "main"
    assert parse_config("agents: [{id: a, role: worker}, {id: b}]", {}).agent.id == "b"
    assert parse_config("", {}).agent.id == "assistant"
    with pytest.raises(BadInput, match=r'no agent "diger"\. Did you mean "digger"'):
        whole("diger")


MISTAKES = [
    ("agnts: []", 'here.yaml:1: unknown key "agnts". Did you mean "agents"?'),
    ("\nexecution:\n  contxt: {}", 'here.yaml:3: unknown key "contxt" in "execution". Did you mean "context"?'),
    ("execution: {context: {keep_recent: -1}}", '"execution.context.keep_recent" is -1'),
    ("execution: {context: {keep_recent: 1.5}}", "Give a whole number (0 or more)."),
    ("execution: {context: {compression_trigger: 75}}", '"execution.context.compression_trigger" is 75'),
    ("execution: {context: {strategy: summarise}}", 'Did you mean "summarize"?'),
    ("execution: {context: {auto_compact: 1}}", "Give true or false."),
    ("execution: {hooks: [{id: a}]}", '"execution.hooks.a" has no "condition"'),
    ("execution: {hooks: {}}", '"execution.hooks" is a mapping. Give a list'),
    ("agents:\n  - id: a\n  - id: b\n  - id: a\n", 'here.yaml:4: id "a" in "agents" is taken by line 2.'),
    ("agents: [{role: worker}]", 'has no "id"'),
    ("modules: {filesystm: {}}", 'unknown module "filesystm". Did you mean "filesystem"?'),
    (
        "modules:\n  filesystem:\n    constraints:\n      allowed_actions: [raed]\n",
        'here.yaml:4: unknown action of filesystem "raed". Did you mean "read"?',
    ),
    ("capabilities: {tools: {shel: ask}}", 'unknown tool "shel". Did you mean "shell"?'),
    ("capabilities: {tools: {shell: maybe}}", "There is allow, ask, deny."),
    ("mcp: {a: {}}", "neither a command nor a url"),
    ("mcp: {a: {command: x, url: y}}", "both a command and a url"),
    ("providers: {x: {key_env: 'a b'}}", '"providers.x.key_env" is "a b"'),
    ("app", "here.yaml:1: the file is text."),
    ("a: b: c", "here.yaml:1: not YAML"),
    ("policy: default\nexecution:\n  context:\n    keep_recent: 4", 'here.yaml:4: "keep_recent" means nothing'),
    ("execution: {hooks: [{id: a, condition: {type: allways}, action: {}}]}", 'Did you mean "always"?'),
    ("execution: {hooks: [{id: a, condition: {}, action: {}}]}", '"execution.hooks.a.condition" has no "type".'),
    ("execution: {hooks: [{id: a, condition: {type: always}, action: {type: function}}]}", 'type" is "function"'),
    ("execution: {hooks: [{id: a, condition: {type: turn_count, count: '{{env.N}}'}, action: {}}]}", "the variable N,"),
    ("models: {a: {window: 1}, b: {window: none}}", '"models.b.window" is "none"'),
    ("mcp: {a: {command: x, headers: {b: [y]}}}", '"mcp.a.headers.b" is a list. Give text.'),
]


def test_a_mistake_is_named_with_its_place() -> None:
    wrong = [f"{text!r}: {told}" for text, said in MISTAKES if said not in (told := refused(text))]
    assert not wrong, "\n".join(wrong)


def test_a_hook_may_not_name_an_action_that_is_not_there() -> None:
    action = "{type: module_action, module: hello, action: gret}"
    text = f"execution:\n  hooks:\n    - id: a\n      condition: {{type: always}}\n      action: {action}\n"
    assert 'here.yaml:5: unknown action "gret". Did you mean "greet"?' in refused(text)


# Variables and secrets.


def test_a_missing_variable_is_named_and_no_value_is() -> None:
    environment = {"TEAM": "blue-beetles", "GARDEN_KEYS": KEY}
    said = refused(WHOLE, environment)
    assert "here.yaml:21: the variable GARDEN_KEY" in said
    assert "is not set. Set it. Did you mean GARDEN_KEYS?" in said
    assert KEY not in said
    assert "blue" not in said
    assert "is empty" in refused("app: {name: '{{env.A}}'}", {"A": ""})
    assert "is not the name of a variable" in refused("app: {name: '{{env.a b}}'}")


def test_what_an_agent_that_was_not_picked_asks_for_is_not_missed() -> None:
    assert whole().agent.id == "main"
    with pytest.raises(BadPolicy, match="DIGGER_KEY"):
        whole("digger")


def test_a_variable_can_hold_a_number() -> None:
    config = parse_config(
        "execution: {max_turns: '{{env.TURNS}}', timeout: '{{env.LIMIT}}'}", {"TURNS": "7", "LIMIT": "2.5"}
    )
    assert (config.settings.execution.max_turns, config.settings.execution.timeout) == (7, 2.5)
    said = refused("execution: {max_turns: '{{env.TURNS}}'}", {"TURNS": "hunter2"})
    assert '"{{env.TURNS}}", whose value does not fit. Give a whole number (0 or more).' in said
    assert "hunter2" not in said
    text = parse_config("app: {name: 'n{{env.TURNS}}'}", {"TURNS": "7"})
    assert text.settings.app.name == "n7"
    assert parse_config("app: {name: '{{env.TURNS}}'}", {"TURNS": "007"}).settings.app.name == "007"


def test_an_empty_key_is_a_secret_that_is_shown_empty() -> None:
    shown = lines(parse_config("agents: [{id: a, model: {config: {api_key: ''}}}]", {}))
    assert shown["agents.a.model.config.api_key"].value == '""'


def test_other_braces_are_text() -> None:
    prompt = "agents: [{id: a, system_prompt: 'Dear {{ user.name }}, {x}'}]"
    assert parse_config(prompt, {}).agent.system_prompt == "Dear {{ user.name }}, {x}"


@pytest.mark.parametrize(
    "config",
    ["config: hunter2-hunter2", "config: {api_key: 20231231}", "config: {api_key: [hunter2-hunter2]}"],
)
def test_a_key_in_the_wrong_place_is_not_repeated(config: str) -> None:
    said = refused(f"agents:\n  - id: a\n    brain:\n      {config}\n")
    assert "here.yaml:4" in said
    assert "hunter2" not in said
    assert "20231231" not in said


def test_no_dump_of_a_config_shows_a_key() -> None:
    for shown in (repr(whole()), str(whole()), repr(whole().agent.model.config)):
        assert KEY not in shown
        assert "[masked]" in shown
    assert set(collect_secret_values(whole(), ENVIRONMENT)) == {KEY, "blue-beetles"}


# What is in force, and where it comes from.


def lines(config: ResolvedConfig, environment: dict[str, str] | None = None) -> dict[str, EffectiveSetting]:
    found = list_effective_settings(config, ENVIRONMENT if environment is None else environment)
    assert len({each.name for each in found}) == len(found), "no name twice"
    return {each.name: each for each in found}


def test_every_value_is_shown_with_its_source() -> None:
    shown = lines(whole())
    assert shown["context.keep_recent"][1:3] == ("4", "tidegate.yaml:24")
    assert shown["context.strategy"][1:3] == ("truncate", "tidegate.yaml:36")
    assert shown["context.summary_max_tokens"][1:3] == ("1024", "default")
    assert shown["agents.main.model.config.api_key"][1:3] == ("[masked]", "tidegate.yaml:21 ($GARDEN_KEY)")
    assert shown["model.key"][1:3] == ("[masked]", "tidegate.yaml:21 ($GARDEN_KEY)")
    assert shown["execution.hooks.greet.condition.count"][1:3] == ("3", "tidegate.yaml:43")
    assert shown["policy.name"][1:3] == ("digitorn", "context")
    assert shown["summary.base_url"][1:3] == ("http://localhost:11434/v1", "default")
    assert not any(name.startswith("agents.digger") for name in shown)


def test_nothing_from_the_environment_is_shown_but_addresses_and_numbers() -> None:
    shown = lines(whole())
    for each in shown.values():
        assert KEY not in each.value
        assert "blue-beetles" not in each.value
    assert shown["mcp.github.env.TOKEN"].value == "[masked]"
    assert shown["execution.hooks.greet.action.params.name"].value == "[masked]"
    text = "execution: {max_turns: '{{env.N}}'}\nproviders: {a: {base_url: '{{env.URL}}'}}"
    environment = {"N": "5", "URL": "http://10.0.0.1/v1"}
    shown = lines(parse_config(text, environment), environment)
    assert shown["execution.max_turns"].value == "5"
    assert shown["providers.a.base_url"].value == "http://10.0.0.1/v1"


# Files.


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def test_where_files_are_looked_for(tmp_path: Path) -> None:
    files = locate_config_files(tmp_path, {"HOME": "/home/me"})
    assert files == ConfigFiles(tmp_path / "tidegate.yaml", Path("/home/me/.config/tidegate/tidegate.yaml"))
    assert locate_config_files(tmp_path, {"XDG_CONFIG_HOME": "/etc/me"}).user == Path("/etc/me/tidegate/tidegate.yaml")
    asked = locate_config_files(tmp_path, {"HOME": "/home/me"}, explicit_file="other.yaml")
    assert asked.project == Path("other.yaml")
    with pytest.raises(BadInput, match=r"There is no file"):
        read_config(ConfigFiles(tmp_path / "no.yaml", tmp_path / "none.yaml", is_explicit=True), {})


def test_the_project_goes_over_the_user_except_for_limits(tmp_path: Path) -> None:
    """Limits are tests/security/test_project_limits.py; a file that was named wins in everything."""
    user = "execution: {max_turns: 5, greeting: hi}\nproviders: {a: {base_url: 'http://a/v1', wire: anthropic}}\n"
    user += "agents: [{id: x, role: worker}, {id: y, system_prompt: users}]\nskills: [one]\n"
    project = "execution: {max_turns: 9, mode: one_shot}\nproviders: {a: {base_url: 'http://b/v1'}}\n"
    project += "agents: [{id: y, description: projects}]\nskills: [two]\n"
    files = ConfigFiles(
        written(tmp_path / "p" / "tidegate.yaml", project), written(tmp_path / "u" / "tidegate.yaml", user)
    )
    config = read_config(files, {})
    execution = config.settings.execution
    assert (execution.max_turns, execution.greeting, execution.mode) == (5, "hi", "one_shot")
    assert config.settings.providers["a"].base_url == "http://a/v1"
    assert [each.id for each in config.settings.agents] == ["y", "x"]
    assert config.agent.system_prompt == "", "an agent is one file's, whole"
    assert config.settings.skills == ("one",)
    shown = lines(config, {})
    assert shown["execution.mode"].source == f"{files.project}:1"
    assert shown["execution.max_turns"].source == f"{files.user}:1"
    named = read_config(files._replace(is_explicit=True), {})
    assert named.settings.execution.max_turns == 9
    assert named.settings.providers["a"].base_url == "http://b/v1"
    assert named.settings.providers["a"].wire == "anthropic"
    assert named.settings.skills == ("two",)
    written(files.user, "execution: {max_turn: 5}")
    with pytest.raises(BadPolicy) as caught:
        read_config(files, {})
    assert f"{files.user}:1" in str(caught.value), "a mistake is named with the file it is in"


def test_in_its_own_folder_the_users_file_is_the_users(tmp_path: Path) -> None:
    user = written(tmp_path / "tidegate.yaml", "allow_env: [HOME]\nexecution: {max_turns: 5}\n")
    config = read_config(ConfigFiles(user, user), {})
    assert config.settings.execution.max_turns == 5


def test_no_file_and_a_file_of_comments_are_a_config(tmp_path: Path) -> None:
    for text in (None, "", "# execution:\n\n   # nothing\n"):
        path = tmp_path / "tidegate.yaml"
        if text is not None:
            written(path, text)
        config = read_config(ConfigFiles(path, tmp_path / "none.yaml"), {})
        assert (config.policy_name, config.window, config.agent.model.provider) == ("default", None, "")


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    path = tmp_path / "tidegate.yaml"
    path.write_bytes(b"app: \xff\xfe")
    with pytest.raises(BadPolicy, match="not UTF-8"):
        read_config(ConfigFiles(path, tmp_path / "none.yaml"), {})
    path.unlink()
    path.mkdir()
    with pytest.raises(BadPolicy, match="cannot be read"):
        read_config(ConfigFiles(path, tmp_path / "none.yaml"), {})


def test_earlier_names_of_keys_are_accepted() -> None:
    agents = "agents: [{id: brain, MODEL: {provider: openai, model: m, context: {SUMMARY: {provider: x, model: s}}}}]\n"
    text = agents + "execution: {context: {SUMMARY: {provider: y, model: t}}}\n"
    now = text.replace("MODEL", "model").replace("SUMMARY", "summary_model")
    earlier = text.replace("MODEL", "brain").replace("SUMMARY", "summary_brain")
    assert parse_config(earlier, {}) == parse_config(now, {})
    with pytest.raises(BadPolicy, match=r'tidegate\.yaml:1: "brain" and "model" are the same key\. Leave out brain\.'):
        parse_config("agents: [{id: a, model: {}, brain: {}}]", {})
