"""From a configuration to what an agent runs with: a session's policy and window, a provider's address, its tools."""

import ast
import asyncio
from pathlib import Path

import pytest

import tidegate
from tidegate import BadInput, BadPolicy, Session, load
from tidegate.agent.config.files import ConfigFiles, parse_config, read_config
from tidegate.agent.config.provider_target import KNOWN_PROVIDERS, ProviderTarget, base_url_variable, resolve_target
from tidegate.agent.config.resolved_config import (
    ResolvedConfig,
    load_configured_policy,
    resolve_model_target,
    resolve_summary_target,
)
from tidegate.agent.config.settings import AgentModel, ModelAccess, ProviderSettings
from tidegate.agent.config.tool_access import find_module_tool, list_offered_tools, resolve_approval
from tidegate.agent.hook_types import CompactContext, ContextPressure
from tidegate.agent.tools.approval import decide_approval
from tidegate.agent.tools.modules import BUILTIN_TOOL_NAMES, HELLO_TOOL, MODULE_ACTIONS
from tidegate.agent.tools.tool import ToolContext
from tidegate.agent.tools.toolbox import list_standard_tools
from tidegate.models.http.provider import HttpProvider
from tidegate.presets import DEFAULT_PRESET, preset_names
from tidegate.wire.registry import DIALECTS


def config(text: str, **environment: str) -> ResolvedConfig:
    return parse_config(text, environment)


# The policy.


def test_a_context_is_settings_of_the_policy_it_belongs_to() -> None:
    chosen = config(
        "execution: {context: {max_tokens: 9000, output_reserved: 900, keep_recent: 3, strategy: truncate}}"
    )
    policy = load_configured_policy(chosen)
    assert (policy.name, policy.window, policy.reserve) == ("digitorn", 9_000, 900)
    session = Session(
        "qwen2.5:14b", policy=policy, window=chosen.window, reserve=chosen.output_reserve, count="chars/4"
    )
    assert session.budget.window == 9_000
    session.add(*({"role": role, "content": "word " * 400} for _ in range(8) for role in ("user", "assistant")))
    session.add({"role": "user", "content": "and now?"})
    session.prepare()
    assert [(each.rule, each.stage) for each in session.last_decisions if each.acted] == [
        ("_auto_compact", "keep_recent")
    ]
    assert "[Earlier messages truncated]" in str(session.render_request().messages)
    assert [item.message.kind for item in session.view.items].count("") == 3, "so many recent messages"


def test_without_a_context_the_default_policy_holds() -> None:
    assert load_configured_policy(config("")) == load("default")
    other = config("execution: {context: {max_tokens: 9000, output_reserved: 100}}")
    assert (load_configured_policy(other).name, other.window, other.output_reserve) == ("default", 9_000, 100)
    assert config("").output_reserve is None


def test_a_policy_and_its_settings_can_be_named() -> None:
    assert load_configured_policy(config("policy: jutul")).name == "jutul"
    chosen = config("policy: {name: digitorn, settings: {cooldown_turns: 5}}\nexecution: {context: {keep_recent: 2}}")
    settings = load_configured_policy(chosen).settings
    assert (settings["cooldown_turns"], settings["keep_recent"]) == (5, 2)
    with pytest.raises(BadPolicy, match=r'tidegate.yaml:3: .*unknown setting "cooldwn_turns".*"cooldown_turns"'):
        load_configured_policy(config("policy:\n  name: digitorn\n  settings: {cooldwn_turns: 5}"))
    with pytest.raises(BadPolicy, match=r'tidegate.yaml:1: No policy file or preset is called "digitron"'):
        load_configured_policy(config("policy: digitron"))


def test_a_policy_file_is_meant_from_where_the_configuration_stands(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("name: mine\nmoments: {}\n", "utf-8")
    (tmp_path / "tidegate.yaml").write_text("policy: mine.yaml\n", "utf-8")
    chosen = read_config(ConfigFiles(tmp_path / "tidegate.yaml", tmp_path / "none.yaml"), {})
    assert load_configured_policy(chosen).name == "mine"


def test_a_policy_file_may_take_over_the_context(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        "settings: {keep_recent: 2, auto_compact: false}\n"
        "context: {settings: [keep_recent, auto_compact], automatic_rule: squeeze}\n"
        "moments: {before_call: [{stage: keep_recent, id: squeeze, messages: $keep_recent, if: {auto_compact: true},"
        " cooldown: {seconds: 7}}]}\n",
        "utf-8",
    )
    file = tmp_path / "tidegate.yaml"
    file.write_text("policy: mine.yaml\nexecution: {context: {keep_recent: 5}}\n", "utf-8")
    chosen = read_config(ConfigFiles(file, tmp_path / "none.yaml"), {})
    assert [rule.settings for rule in load_configured_policy(chosen).moments["before_call"]] == [{"messages": 5}]
    hook = chosen.auto_compact_hook
    assert hook is not None
    assert (hook.id, hook.cooldown) == ("squeeze", 7.0)
    file.write_text("policy: mine.yaml\nexecution: {context: {strategy: truncate}}\n", "utf-8")
    with pytest.raises(BadPolicy, match='"strategy" means nothing to the policy'):
        read_config(ConfigFiles(file, tmp_path / "none.yaml"), {})


@pytest.mark.parametrize("room", ["agent", "commands"])
def test_no_preset_is_known_by_its_name(room: str) -> None:
    names = {name for name in preset_names() if name != DEFAULT_PRESET}
    for file in (Path(tidegate.__file__).parent / room).rglob("*.py"):
        nodes = ast.walk(ast.parse(file.read_text("utf-8")))
        assert not names & {node.value for node in nodes if isinstance(node, ast.Constant)}, file


HOOK = "hooks: [{id: own, condition: {type: always}, action: {type: compact_context}}]"


def test_auto_compact_is_there_only_where_no_compaction_is_declared() -> None:
    chosen = config("execution: {context: {compression_trigger: 0.6, strategy: truncate, keep_recent: 3}}")
    hook = chosen.auto_compact_hook
    assert hook is not None
    assert (hook.id, hook.on, hook.cooldown) == ("_auto_compact", "turn_start", 30.0)
    assert hook.condition == ContextPressure(0.6)
    assert hook.action == CompactContext("truncate", 3, 1024)
    assert load_configured_policy(chosen).settings["auto_compact"] is True
    assert load_configured_policy(chosen).moments["before_call"][0].name == hook.id
    for text in (f"execution: {{context: {{keep_recent: 3}}, {HOOK}}}", "execution: {context: {auto_compact: false}}"):
        assert config(text).auto_compact_hook is None
        rules = load_configured_policy(config(text)).moments["before_call"]
        assert hook.id not in [rule.name for rule in rules]


def test_the_window_someone_set() -> None:
    models = "models: {m: {window: 5000}}\nwindow: 7000\n"
    agents = "agents: [{id: a, model: {model: m%s}}]\n"
    assert config(models + agents % "").window == 5_000
    assert config(models + agents % "2").window == 7_000
    assert config(models + agents % ", context: {max_tokens: 3000}").window == 3_000
    assert config("agents: [{id: a, model: {model: gpt-4o}}]").window is None, "the catalog is not a setting"


# Where requests go.


def target(text: str, **environment: str) -> ProviderTarget:
    return resolve_model_target(config(f"agents: [{{id: a, model: {text}}}]", **environment), environment)


def test_a_providers_name_can_be_sent_elsewhere() -> None:
    plain = "{provider: deepseek, model: deepseek-chat, backend: openai_compat}"
    assert target(plain, DEEPSEEK_API_KEY="k").base_url == ""
    assert target(plain, TIDEGATE_DEEPSEEK_BASE_URL="http://127.0.0.1:9/v1").base_url == "http://127.0.0.1:9/v1"
    mapped = f"agents: [{{id: a, model: {plain}}}]\nproviders: {{deepseek: {{base_url: 'http://map/v1'}}}}"
    assert resolve_model_target(config(mapped), {}).base_url == "http://map/v1"
    own = AgentModel(provider="deepseek", config=ModelAccess(base_url="http://own/v1"))
    providers = {"deepseek": ProviderSettings("http://map/v1")}
    assert resolve_target(own, providers, {}).base_url == "http://own/v1"
    everything = resolve_target(own, providers, {base_url_variable("deepseek"): "http://env/v1"})
    assert (everything.base_url, everything.base_url_source) == ("http://env/v1", "$TIDEGATE_DEEPSEEK_BASE_URL")
    assert base_url_variable("my-server.2") == "TIDEGATE_MY_SERVER_2_BASE_URL"


def test_the_key_is_the_models_or_the_providers_variable() -> None:
    assert target("{provider: openai}", OPENAI_API_KEY="k1").api_key == "k1"
    assert (
        target("{provider: openai, config: {api_key: '{{env.MINE}}'}}", OPENAI_API_KEY="k1", MINE="k2").api_key == "k2"
    )
    assert target("{provider: ollama}", OPENAI_API_KEY="k1").api_key == ""
    providers = {"openai": ProviderSettings(key_env="OTHER")}
    assert (
        resolve_target(AgentModel(provider="openai"), providers, {"OPENAI_API_KEY": "k1", "OTHER": "k3"}).api_key
        == "k3"
    )
    assert "k1" not in repr(target("{provider: openai}", OPENAI_API_KEY="k1-secret"))


@pytest.mark.parametrize(
    ("agent_model", "wire"),
    [
        ("{provider: deepseek, backend: openai_compat}", "deepseek"),
        ("{provider: anthropic}", "anthropic"),
        ("{provider: anthropic, backend: openai_compat}", "openai_chat"),
        ("{provider: openai, backend: openai_responses}", "openai_responses"),
        ("{provider: ollama, model: 'deepseek-r1:8b', backend: openai_compat}", "openai_chat"),
        ("{provider: mine, model: claude-sonnet-5, config: {base_url: 'http://h/v1'}}", "anthropic"),
        ("{}", "openai_chat"),
    ],
)
def test_the_wire_follows_from_backend_and_provider(agent_model: str, wire: str) -> None:
    assert target(agent_model).wire == wire


def test_an_unknown_provider_asks_for_an_address() -> None:
    with pytest.raises(BadInput, match=r'"olama" is not known.*Did you mean "ollama"\?.*TIDEGATE_OLAMA_BASE_URL'):
        target("{provider: olama}")
    assert target("{}").is_embedded
    assert not target("{provider: openai}").is_embedded


def test_every_known_provider_makes_a_provider() -> None:
    async def make() -> None:
        for name, known in KNOWN_PROVIDERS.items():
            made = resolve_target(
                AgentModel(provider=name, model="m"), {}, {known.key_env: "k"} if known.key_env else {}
            )
            assert made.wire in DIALECTS
            if not made.is_embedded:
                await HttpProvider(made.wire, made.model, base_url=made.base_url, key=made.api_key).close()

    asyncio.run(make())


def test_summaries_go_to_their_own_model() -> None:
    text = "{model: big, provider: openai, context: {summary_model: {provider: ollama, model: small}}}"
    chosen = config(f"agents: [{{id: a, model: {text}}}]")
    found = resolve_summary_target(chosen, {"OPENAI_API_KEY": "k"})
    assert (found.provider, found.model, found.api_key) == ("ollama", "small", "")
    both = config("agents: [{id: a, model: {model: big, provider: openai}}]")
    assert resolve_summary_target(both, {}) == resolve_model_target(both, {})


# Tools.


def test_modules_bound_the_tools_and_without_them_all_are_there() -> None:
    chosen = config(
        "modules: {hello: {}, filesystem: {constraints: {allowed_actions: [read, find], denied_actions: [find]}}}"
    )
    assert list_offered_tools(chosen) == {"hello", "read", "recall"}
    assert find_module_tool(chosen, "filesystem", "read") == "read"
    assert find_module_tool(chosen, "filesystem", "grep") is None
    assert find_module_tool(chosen, "shell", "run") is None
    assert list_offered_tools(config("modules: {filesystem: {}}")) == {
        "read",
        "write",
        "edit",
        "list",
        "grep",
        "recall",
    }
    assert list_offered_tools(config("")) == BUILTIN_TOOL_NAMES - {"hello"}


def test_every_tool_there_is_stands_behind_an_action() -> None:
    made = {each.tool.name for each in (*list_standard_tools(), HELLO_TOOL)}
    assert made | {"skills", "task"} == BUILTIN_TOOL_NAMES
    assert {tool for found in MODULE_ACTIONS.values() for tool in found.values()} == BUILTIN_TOOL_NAMES


def test_hello_says_hello(tmp_path: Path) -> None:
    context = ToolContext(tmp_path, Session())
    assert asyncio.run(HELLO_TOOL({"name": "Ada"}, context)).text == "Hello, Ada."


def test_approval_by_default_and_by_tool() -> None:
    def verdicts(text: str) -> list[str]:
        approval = resolve_approval(config(text))
        return [
            decide_approval(approval, name, {}).verdict for name in ("read", "write", "shell", "github__push", "hello")
        ]

    assert verdicts("") == ["allow", "ask", "ask", "ask", "allow"]
    assert verdicts("capabilities: {default_policy: deny}") == ["deny"] * 5
    assert verdicts("capabilities: {default_policy: allow, tools: {shell: ask}}") == [
        "allow",
        "allow",
        "ask",
        "allow",
        "allow",
    ]
    tools = "capabilities: {tools: {filesystem.write: allow, read: deny, 'github__*': deny}}"
    assert verdicts(tools) == ["deny", "allow", "ask", "deny", "allow"]
    approval = resolve_approval(config("capabilities: {allow_commands: [git status], deny_commands: [rm]}"))
    assert decide_approval(approval, "shell", {"command": "git status"}).verdict == "allow"
    assert decide_approval(approval, "shell", {"command": "rm x"}).verdict == "deny"
