"""docs/guide.md is true: its commands are accepted, its files are read, its tables are what there is."""

import re
import shlex
from pathlib import Path

import pytest

from tidegate import Session, load
from tidegate.agent.config.files import locate_config_files, read_config
from tidegate.agent.config.provider_target import KNOWN_PROVIDERS
from tidegate.agent.config.trust import trust_project_file
from tidegate.cli.parser import make_parser
from tidegate.commands.catalog import create_command_registry
from tidegate.core.events import ViewEdited
from tidegate.proof.session_generator import generate_session
from tidegate.tui.app import ChatApp
from tidegate.tui.composer.composer import NEW_LINE_KEYS

GUIDE = Path(__file__).parents[1] / "docs" / "guide.md"
pytestmark = pytest.mark.skipif(not GUIDE.exists(), reason="the documentation is not in the source distribution")


def text() -> str:
    return GUIDE.read_text("utf-8")


def fenced(language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```", text(), re.DOTALL | re.MULTILINE)
    return [block for name, block in found if name == language]


def table(head: str) -> list[list[str]]:
    """The rows of the table whose first column has this title, each cell as it is written."""
    lines = text().splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith(f"| {head} |"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in re.split(r" \| | \|$|^\| ", line)[1:]])
    return rows


def shown() -> list[str]:
    return [line for block in fenced("") for line in block.splitlines() if line.startswith("tidegate ")]


@pytest.mark.parametrize("line", shown() if GUIDE.exists() else [])
def test_every_command_is_accepted(line: str) -> None:
    words = shlex.split(line.partition(" < ")[0])
    assert make_parser().parse_args(words[1:]).command == words[1]


def test_there_are_many_commands() -> None:
    assert len({line.split()[1] for line in shown()}) >= 12


def test_every_command_of_the_chat_and_no_other() -> None:
    told = [
        (row[0].strip("`").replace("\\|", "|"), row[1], re.findall(r"`/([^`]+)`", row[2])) for row in table("command")
    ]
    there = [
        (f"/{each.name} {each.usage}".rstrip(), each.description, list(each.aliases))
        for each in create_command_registry()
    ]
    assert told == there


def test_the_keys_are_keys_of_the_app() -> None:
    told = {key for row in table("key") for key in re.findall(r"`([^`]+)`", " ".join(row))} - {"/", "@"}
    bound = {key for each in ChatApp.BINDINGS for key in getattr(each, "key", "").split(",")}
    typed = {
        "enter",
        "up",
        "down",
        "tab",
        NEW_LINE_KEYS[0],
    }  # the composer takes these: tests/tui/test_every_key.py
    assert told - bound == typed
    assert bound <= told


def test_the_keys_of_providers_are_those_that_are_looked_for() -> None:
    told = set(re.findall(r"`([A-Z]+_API_KEY)`", text()))
    assert told == {each.key_env for each in KNOWN_PROVIDERS.values() if each.key_env}
    (local,) = re.findall(r"Servers on your machine\s+\(([^)]*)\)", text())
    keyless = {name for name, each in KNOWN_PROVIDERS.items() if each.base_url and not each.key_env}
    assert set(re.findall(r"`(\w+)`", local)) == keyless


def test_the_configuration_is_read(tmp_path: Path) -> None:
    (tmp_path / "tidegate.yaml").write_text(fenced("yaml")[0])
    files = locate_config_files(tmp_path, {"HOME": str(tmp_path)})
    trust_project_file(files)
    config = read_config(files, {})
    assert (config.agent.model.model, config.policy_name) == ("claude-sonnet-4-5", "default")
    assert [hook.id for hook in config.hooks] == ["room"]
    assert config.settings.spend.day.dollars == 5


def test_the_policy_is_one_and_works(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(fenced("yaml")[1])
    assert load(path, {"keep": 8}).name == "mine"
    prompt, *messages = generate_session(12, 7)
    session = Session(policy=str(path), window=8000, wire="openai_chat", count="exact", system=str(prompt["content"]))
    for message in messages:
        if message["role"] == "assistant":
            session.prepare()
        session.add(message)
    stages = {event.payload.stage for event in session.log.read() if isinstance(event.payload, ViewEdited)}
    assert {"clear_results", "summarize"} <= stages
    assert "compact" in {command.name for command in create_command_registry()}
    assert load(path).moments["manual"]


def test_the_files_it_leads_to_are_there() -> None:
    for name in re.findall(r"\]\(([^)#]+)", text()):
        assert (GUIDE.parent / name).is_file(), name
