"""`tidegate config import`: the configurations of five other agents become a `tidegate.yaml`."""

import json
from pathlib import Path

import pytest

from tests.cli.calling import called
from tidegate.agent.config.files import parse_config
from tidegate.agent.config.resolved_config import ResolvedConfig, load_configured_policy

SECRET = "sk-proj-Zx81kQw93LmVb27TyRn50PdHs64"
COWAGENT = {
    "channel_type": "web",
    "model": "gpt-4o",
    "open_ai_api_key": SECRET,
    "open_ai_api_base": "https://proxy.example/v1",
    "character_desc": "Be kind.",
    "temperature": 0.7,
    "agent_max_context_tokens": 40_000,
    "agent_max_steps": 7,
}
PICOCLAW = {
    "agents": {
        "defaults": {
            "workspace": "~/w",
            "model": "fast",
            "max_tokens": 8192,
            "context_window": 100_000,
            "max_tool_iterations": 20,
            "summarize_token_percent": 60,
        }
    },
    "model_list": [{"model_name": "fast", "model": "openai/gpt-5.2", "api_key": SECRET}],
    "providers": {"zhipu": {"api_key": SECRET, "api_base": "https://z.example/v4"}},
    "channels": {"telegram": {"token": SECRET}},
    "tools": {
        "mcp": {"servers": {"fs": {"command": "npx", "args": ["-y", "x"], "env": {"TOKEN": SECRET}, "timeout": 3}}}
    },
}
AI = {
    "model": {"id": "glm-4.5-air", "provider": "zai", "baseUrl": "https://z.example/v4"},
    "compactor": {"maxMessages": 30, "keepRecentTokens": 2_000, "toolSummaryStrategy": "heuristic"},
    "toolOutput": {"maxLines": 900, "truncateMode": "middle"},
    "log": {"level": "info"},
}
JUTUL = 'simulator = "jutuldarcy"\nmodel = "ollama:qwen3:8b"\napproval_mode = "ask"\n[julia]\nsysimage = true\n'
DIGITORN = f"""
app: {{app_id: mine, color: red}}
security: {{level: high}}
agents:
  - id: helper
    mood: calm
    model: {{provider: deepseek, model: deepseek-chat, config: {{api_key: {SECRET}}}, context: {{keep_recent: 6}}}}
execution:
  max_turns: 50
  hooks:
    - {{id: note, on: turn_start, condition: {{type: always}}, action: {{type: log, message: hi, shade: 3}}}}
"""


def import_file(folder: Path, name: str, content: object) -> tuple[str, ResolvedConfig]:
    """Import this file in the folder; return what was printed and the configuration that was written."""
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
    done = called("config", "import", folder / name)
    assert done.returncode == 0, done.stderr
    text = (folder / "tidegate.yaml").read_text()
    assert SECRET not in done.stdout + text, "keys are never copied"
    variables = {"TOKEN": "t", "HELPER_API_KEY": "k"}
    return done.stdout, parse_config(text, variables)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return tmp_path


@pytest.mark.seed("COW-16")
@pytest.mark.parametrize(
    ("name", "content", "policy", "settings", "agent_model", "unused"),
    [
        pytest.param(
            "config.json",
            COWAGENT,
            "cowagent",
            {"max_context_tokens": 40_000, "max_steps": 7},
            ("openai", "gpt-4o"),
            ["channel_type (no equivalent)"],
            id="CowAgent",
        ),
        pytest.param(
            "config.json",
            PICOCLAW,
            "picoclaw",
            {"max_tokens": 8192, "context_window": 100_000, "token_percent": 0.6, "background": True},
            ("openai", "gpt-5.2"),
            ["agents.defaults.workspace (no equivalent)", "channels (no equivalent)"],
            id="PicoClaw",
        ),
        pytest.param(
            "config.toml",
            JUTUL,
            "jutul",
            {},
            ("ollama", "qwen3:8b"),
            ["simulator (no equivalent)", "julia (no equivalent)"],
            id="jutul-agent",
        ),
        pytest.param(
            "config.json",
            AI,
            "ai",
            {
                "max_messages": 30,
                "keep_recent_tokens": 2_000,
                "tool_summary_strategy": "heuristic",
                "max_lines": 900,
                "truncate_mode": "head_tail",
            },
            ("zai", "glm-4.5-air"),
            ["log (no equivalent)"],
            id="ai",
        ),
        pytest.param(
            "app.yaml",
            DIGITORN,
            "digitorn",
            {"keep_recent": 6},
            ("deepseek", "deepseek-chat"),
            ["app.color", "security.level", "agents.helper.mood", "execution.hooks.note.action.shade"],
            id="Digitorn",
        ),
    ],
)
def test_a_configuration_is_taken_over(
    folder: Path,
    name: str,
    content: object,
    policy: str,
    settings: dict[str, object],
    agent_model: tuple[str, str],
    unused: list[str],
) -> None:
    printed, config = import_file(folder, name, content)
    assert config.policy_name == policy
    assert load_configured_policy(config).settings.items() >= settings.items()
    assert (config.agent.model.provider, config.agent.model.model) == agent_model
    _, _, rest = printed.partition("Not taken over:\n")
    for each in unused:
        assert f"  {each}" in rest
    again = called("config", "import", folder / name)
    assert again.returncode != 0, "no file is overwritten"
    assert "tidegate.yaml already" in again.stderr


@pytest.mark.seed("COW-16")
@pytest.mark.parametrize("key", ["ToolCallCutoff", "toolCallCutoff", "tool_call_cutoff"])
def test_settings_of_ai_are_recognized_without_a_section(folder: Path, key: str) -> None:
    _, config = import_file(folder, "config.json", {key: 8})
    assert config.policy_name == "ai"
    assert load_configured_policy(config).settings["tool_call_cutoff"] == 8


def test_other_values_are_taken_over(folder: Path) -> None:
    _, config = import_file(folder, "config.json", COWAGENT)
    assert (config.agent.system_prompt, config.agent.model.temperature) == ("Be kind.", 0.7)
    assert config.settings.providers["openai"].base_url == "https://proxy.example/v1"
    (folder / "tidegate.yaml").unlink()
    printed, config = import_file(folder, "config.json", PICOCLAW)
    assert config.settings.execution.max_steps == 20
    assert config.settings.providers["zhipu"].key_env == "ZHIPU_API_KEY"
    assert config.settings.mcp["fs"].args == ("-y", "x")
    assert "Set these variables to your keys: OPENAI_API_KEY, TOKEN, ZHIPU_API_KEY." in printed
    (folder / "tidegate.yaml").unlink()
    _, config = import_file(folder, "app.yaml", DIGITORN)
    assert (config.hooks[0].id, config.settings.execution.max_turns) == ("note", 50)


@pytest.mark.seed("COW-16")
def test_what_a_file_brings_needs_trust(folder: Path) -> None:
    """Commands and addresses are those of a project's file."""
    printed, _ = import_file(folder, "config.json", PICOCLAW)
    assert "The file sets mcp, providers: read it, then run `tidegate config --trust`." in printed
    refused = called("config")
    assert refused.returncode != 0
    assert "you have not said that you trust it" in refused.stderr


@pytest.mark.seed("COW-16")
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({**COWAGENT, "agent_max_steps": "many"}, "agent_max_steps (cowagent.yaml: setting"),
        ({**COWAGENT, "temperature": 9}, "temperature ("),
        ({**COWAGENT, "character_desc": f"My key is {SECRET}."}, "character_desc (it looks like a secret"),
        ({**COWAGENT, "model": "glm-5-turbo"}, "that of the model glm-5-turbo is not known"),
    ],
)
def test_a_value_that_cannot_be_used_is_reported(folder: Path, content: object, reason: str) -> None:
    """It never refuses the whole file."""
    printed, config = import_file(folder, "config.json", content)
    assert reason in printed
    assert config.settings.policy.settings["max_context_tokens"] == 40_000


@pytest.mark.parametrize("content", ["{}", '{"name": "a package"}', "[1]", "{not json", "\x00"])
def test_a_file_of_no_known_agent_is_refused(folder: Path, content: str) -> None:
    (folder / "config.json").write_text(content)
    done = called("config", "import", folder / "config.json")
    assert done.returncode != 0
    assert "config.json" in done.stderr
    assert not (folder / "tidegate.yaml").exists()
