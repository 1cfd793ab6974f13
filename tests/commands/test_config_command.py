"""`/config`: what is set in a chat holds at once, survives a restart, and spoils no file."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands.command_chat import KEY, REGISTRY, USER, Chat, chat_in
from tidegate import DataFolder
from tidegate.agent.config.files import read_config_sources
from tidegate.agent.config.trust import check_trust, trust_project_file
from tidegate.agent.runtime import OpenAgent
from tidegate.commands.actions import ReopenSession, SwitchPolicy, apply_change
from tidegate.commands.registry import make_command_context
from tidegate.core.events import ViewEdited


@pytest.fixture
def chat(tmp_path: Path) -> Iterator[Chat]:
    yield from chat_in(tmp_path)


@pytest.mark.seed("COW-03", fixed="settings are read and written by the command, whatever the preset")
def test_a_setting_holds_at_once_and_after_a_restart(chat: Chat) -> None:
    """`max_context_turns` of the policy: the very next turn goes by it, and so does a fresh process."""
    chat.file.write_text(USER + "policy: cowagent\n")

    async def run() -> None:
        opening = chat.opening()
        async with chat.open(opening, ["ok"] * 4) as agent:
            for number in range(4):
                await chat.say(agent, f"ask {number}")
            assert agent.session.view.visible_turns == 4
            told = await REGISTRY.answer("/config max_context_turns 3", make_command_context(agent, chat.data, opening))
        assert told.action == ReopenSession()
        assert "policy.settings.max_context_turns is 3 from now on" in told.text
        opening = apply_change(opening, told.action)
        async with chat.open(opening, ["ok"] * 4) as agent:  # what leaves is summarized into memory first
            assert agent.session.policy.settings["max_context_turns"] == 3
            await chat.say(agent, "ask 4")
            rules = [event.payload.rule for event in agent.session.log.read() if isinstance(event.payload, ViewEdited)]
        assert "turn_limit" in rules

    asyncio.run(run())
    again = DataFolder(chat.tmp / "data", secrets=[])
    found = chat._replace(data=again).opening().load_config().config
    again.close()
    assert found.settings.policy.settings == {"max_context_turns": 3}
    assert "# mine, by hand" in chat.file.read_text()
    assert "# the only one" in chat.file.read_text()


@pytest.mark.seed("COW-03", fixed="the document's own names are the preset's aliases")
def test_the_documents_own_names_are_taken(chat: Chat) -> None:
    chat.file.write_text(USER + "policy: {name: cowagent}\n")

    async def then(agent: OpenAgent) -> None:
        assert agent.session.policy.settings["max_context_tokens"] == 12_345

    chat.answers("/config agent_max_context_tokens 12345", then=then)


def test_the_list_names_sources_and_no_secrets(chat: Chat) -> None:
    (told,) = chat.answers("/config")
    lines = {line.split()[0]: line for line in told.text.splitlines()}
    assert lines["window"].endswith(f"20000  ({chat.file}:5)")
    assert lines["model.key"].endswith("[masked]  ($OPENAI_API_KEY)")
    assert KEY not in told.text
    assert "summary_tokens" in told.text, "settings of the policy are told, too"
    (some,) = chat.answers("/config spend")
    assert [line.split(".")[0] for line in some.text.splitlines()] == ["spend"] * 4
    assert chat.answers("/config spendings")[0].error


def test_any_kind_of_setting(chat: Chat) -> None:
    async def then(agent: OpenAgent) -> None:
        config = agent.config
        assert config.settings.execution.max_steps == 7
        assert config.settings.models["gpt-4.1"].window == 5_000
        assert config.settings.capabilities.allow_commands == ("git status", "ls")
        assert config.agent.model.temperature == 0.5
        assert config.settings.spend.day.dollars == 2.5
        assert agent.session.budget.reserve == 2_250
        assert agent.session.window == 9_000

    told = chat.answers(
        "/config execution.max_steps 7",
        "/config models.gpt-4.1.window 5000",
        '/config capabilities.allow_commands ["git status", ls]',
        "/config agents.main.model.temperature 0.5",
        "/config spend.day.dollars 2.5",
        "/config context.output_reserved 3000",
        "/config window 9000",
        then=then,
    )
    assert [each.error for each in told] == [False] * 7


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("/config window -3", "window"),
        ("/config nonsense 3", "unknown setting"),
        ("/config execution.maxsteps 3", 'Did you mean "max_steps"'),
        ("/config spend.day.dollars lots", "spend.day.dollars"),
        (f"/config agents.main.model.config.api_key {KEY}x", "do not belong in a file"),
        ("/config policy nosuch", "nosuch"),
        ("/config window [1", "not YAML"),
    ],
)
def test_what_would_not_load_is_not_written(chat: Chat, line: str, why: str) -> None:
    (told,) = chat.answers(line)
    assert told.error
    assert why in told.text
    assert chat.file.read_text() == USER
    assert KEY not in told.text


def test_a_secret_is_named_and_not_written(chat: Chat) -> None:
    chat.environment["MINE"] = "mine-mine-mine"
    (told,) = chat.answers("/config agents.main.model.config.api_key {{env.MINE}}")
    assert not told.error
    assert "mine-mine" not in told.text + chat.file.read_text()
    assert chat.opening().load_config().config.agent.model.config.api_key == "mine-mine-mine"


def test_it_goes_where_it_stands(chat: Chat) -> None:
    """The project's value is changed in the project's file, which stays as trusted and as readable as it was."""
    before = f"""\
app: {{description: 'it''s "fine"', name: "two  words"}}
window: 10000  # small
capabilities:
    default_policy: ask
    allow_commands:
      - "{"git log " * 20}"
policy: jutul
"""
    chat.project.write_text(before)
    chat.project.chmod(0o644)
    trust_project_file(chat.opening().files)
    told = chat.answers("/config window 12000", "/config clear_at 0.5", "/config execution.max_steps 9")
    assert [each.error for each in told] == [False] * 3
    text = chat.project.read_text()
    policy = "policy:\n    name: jutul\n    settings:\n        clear_at: 0.5\n"  # one wish: it stands in one file
    assert text == before.replace("10000", "12000").replace("policy: jutul\n", policy), "all else is as it was"
    assert "max_steps: 9" in chat.file.read_text()
    assert chat.project.stat().st_mode & 0o777 == 0o644
    files = chat.opening().files
    check_trust(files, read_config_sources(files))
    chat.project.write_text(text + "mcp: {evil: {command: rm}}\n")
    with pytest.raises(Exception, match="you have not said"):
        chat.answers("/config window 13000")


def test_the_first_setting_of_all(chat: Chat) -> None:
    chat.file.unlink()
    chat.answers("/config window 9000", opening=chat.opening(model="openai/gpt-4o"))
    assert chat.file.read_text() == "window: 9000\n"
    assert chat.file.stat().st_mode & 0o777 == 0o600
    chat.file.write_text("# nothing yet\n")
    chat.answers("/config window 9000", opening=chat.opening(model="openai/gpt-4o"))
    assert chat.file.read_text() == "# nothing yet\nwindow: 9000\n"


def test_a_setting_of_a_policy_from_the_command_line(chat: Chat) -> None:
    """The policy goes into the file with it: its setting alone would mean nothing there."""

    async def then(agent: OpenAgent) -> None:
        assert agent.session.policy.name == "jutul"
        assert agent.session.policy.settings["clear_at"] == 0.4

    opening = chat.opening(policy="jutul")
    (told,) = chat.answers("/config clear_at 0.4", opening=opening, then=then)
    assert told.action == SwitchPolicy("")
    assert apply_change(opening, told.action).policy == ""
    assert "with policy.name jutul" in told.text
    kept = opening.load_config().config.settings.policy
    assert (kept.name, kept.settings) == ("jutul", {"clear_at": 0.4}), "nor is it lost where the policy is named again"


@pytest.mark.parametrize(
    "text",
    [
        "skills:\n- one\n- two  # both\nwindow: 5000\n",
        "skills:\n   - one\nwindow: 5000\n",
        "execution:\n      max_steps: 3\n\n# the end\nwindow: 5000 # tokens\n",
        "{window: 5000, app: {name: me}}\n",
    ],
)
def test_a_file_keeps_its_looks(chat: Chat, text: str) -> None:
    chat.file.write_text(text)
    chat.answers("/config window 6000", opening=chat.opening(model="openai/gpt-4o"))
    assert chat.file.read_text() == text.replace("5000", "6000")


def test_another_policy_comes_without_the_settings_of_the_old(chat: Chat) -> None:
    chat.file.write_text(USER + "policy: {name: cowagent, settings: {max_context_turns: 3}}\n")
    told = chat.answers("/config policy jutul", "/config policy jutul", "/config clear_at 0.5", "/config policy jutul")
    assert [each.error for each in told] == [False] * 4
    kept = chat.opening().load_config().config.settings.policy
    assert (kept.name, kept.settings) == ("jutul", {"clear_at": 0.5})


def test_a_policy_of_ones_own(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    """Named from where the user is, it is found from anywhere."""
    (chat.tmp / "work" / "own.yaml").write_text("name: own\nmoments: {manual: [{stage: clear_results, keep: 1}]}\n")
    monkeypatch.chdir(chat.tmp / "work")

    async def then(agent: OpenAgent) -> None:
        assert agent.session.policy.name == "own"

    (told,) = chat.answers("/config policy own.yaml", then=then)
    assert not told.error
    assert str(chat.tmp / "work" / "own.yaml") in chat.file.read_text()
    assert chat.answers("/policy own.yaml")[0].action == SwitchPolicy("own.yaml")


@pytest.mark.parametrize("name", ["brain", "model"])
def test_a_file_with_an_earlier_key_keeps_it(chat: Chat, name: str) -> None:
    chat.file.write_text(USER.replace("    model: {", "    brain: {"))
    told = chat.answers(f"/config agents.main.{name}.temperature 0.5", f"/config agents.main.{name}.model gpt-4.1")
    assert [each.error for each in told] == [False] * 2
    text = chat.file.read_text()
    assert "    brain: {provider: openai, model: gpt-4.1, temperature: 0.5}" in text
    assert chat.opening().load_config().config.agent.model.temperature == 0.5
