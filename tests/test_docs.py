"""docs/policies.md tells of everything a policy may say, and of nothing else."""

import asyncio
import inspect
import re
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec
import pytest

from tests.cli.calling import list_command_names
from tidegate import Session, load
from tidegate.agent.config.files import locate_config_files, read_config
from tidegate.core.policy.parser import POLICY_KEYS, RULE_KEYS
from tidegate.core.policy.policy import COMPARISONS, METRICS, MOMENTS
from tidegate.core.stages import STAGES
from tidegate.models.scripted_provider import ScriptedProvider
from tidegate.wire import limits as limits_module
from tidegate.wire.limits import ProviderLimits, ServerLimits

DOCS = Path(__file__).parents[1] / "docs"
POLICIES = DOCS / "policies.md"
_QUOTED = re.compile(r"`([^`]+)`")
_VALUES = re.compile(r"`(\w+)` \(([^)]*)\)")

pytestmark = pytest.mark.skipif(not POLICIES.exists(), reason="the documentation is not in the source distribution")


@cache
def table(head: str, page: Path = POLICIES) -> tuple[tuple[str, ...], ...]:
    """The rows of the table whose first column has this title, each cell as it is written."""
    lines = iter(page.read_text("utf-8").splitlines())
    assert any(line.startswith(f"| {head} |") for line in lines), f"there is no table of {head}s"
    next(lines)
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append(tuple(cell.strip() for cell in line.strip("|").split(" | ")))
    return tuple(rows)


def named(head: str) -> list[str]:
    return [name for row in table(head) for name in _QUOTED.findall(row[0])]


def settings_of(stage: str) -> list[str]:
    parameters = inspect.signature(STAGES[stage]).parameters.values()
    return [each.name for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY]


def test_every_stage_once_and_no_other() -> None:
    assert sorted(named("stage")) == sorted(STAGES)


def test_every_setting_of_a_stage_and_no_other() -> None:
    told = {row[0].strip("`"): _QUOTED.findall(re.sub(r"\([^)]*\)", "", row[2])) for row in table("stage")}
    assert {name: sorted(settings) for name, settings in told.items()} == {
        name: sorted(settings_of(name)) for name in STAGES
    }


def test_what_a_stage_loses_is_told_in_its_own_settings() -> None:
    for name, loses, _ in table("stage"):
        assert set(_QUOTED.findall(loses)) <= set(settings_of(name.strip("`"))), name


def test_choices_of_a_setting_are_the_choices_there_are() -> None:
    told = {
        (row[0].strip("`"), setting): sorted(_QUOTED.findall(values))
        for row in table("stage")
        for setting, values in _VALUES.findall(row[2])
    }
    there = {
        (name, setting): sorted(map(str, get_args(hint)))
        for name, stage in STAGES.items()
        for setting, hint in get_type_hints(stage).items()
        if get_origin(hint) is Literal
    }
    assert told == there
    assert len(there) > 2


@pytest.mark.parametrize(
    ("head", "there"), [("metric", list(METRICS)), ("moment", list(MOMENTS)), ("key", list(POLICY_KEYS))]
)
def test_every_name_once_and_no_other(head: str, there: list[str]) -> None:
    assert sorted(named(head)) == sorted(there)


def test_the_example_of_a_rule_shows_every_key_and_is_a_rule(tmp_path: Path) -> None:
    text = POLICIES.read_text("utf-8")
    example = next(block for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) if "- stage:" in block)
    keys = re.findall(r"^[- ] (\w+):", example, re.MULTILINE)
    stage = keys[0] == "stage" and example.split()[2]
    assert set(keys) - set(settings_of(str(stage))) == set(RULE_KEYS)
    path = tmp_path / "example.yaml"
    path.write_text("settings: {strategy: summarize}\nmoments:\n  manual:\n" + re.sub("^", "    ", example, flags=re.M))
    (rule,) = load(path).moments["manual"]
    assert (rule.stage, rule.name) == (stage, "sweep")


def test_the_small_policy_is_a_policy(tmp_path: Path) -> None:
    (example,) = [block for block in blocks("policies.md", "yaml") if block.startswith("name: mine")]
    path = tmp_path / "mine.yaml"
    path.write_text(example)
    assert [rule.stage for rule in load(path).moments["before_call"]] == ["clear_results", "summarize"]


def test_every_comparison_and_no_other() -> None:
    (line,) = [line for line in POLICIES.read_text("utf-8").splitlines() if line.startswith("Triggers compare with")]
    assert sorted(_QUOTED.findall(line)) == sorted(COMPARISONS)


def blocks(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text("utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_the_example_of_a_configuration_is_read(tmp_path: Path) -> None:
    example = blocks("agent.md", "yaml")[0]
    (tmp_path / "tidegate.yaml").write_text(example)
    config = read_config(locate_config_files(tmp_path, {"HOME": str(tmp_path)}), {})
    assert config.settings.spend.day.dollars == 5
    assert [hook.id for hook in config.hooks] == ["nudge"]


def test_the_example_of_a_kept_session_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    example = blocks("store.md", "python")[0]
    scope: dict[str, Any] = {}
    exec(compile(example, "docs/store.md", "exec"), scope)
    assert scope["request"].messages[-1]["content"] == "The build of main fails."
    assert (tmp_path / "data" / "tidegate.db").is_file()
    scope["data"].close()


PAGES = ["README.md", *(f"docs/{name}.md" for name in "agent extending guide integrations lab store".split())]


@pytest.mark.parametrize("page", PAGES)
def test_every_command_that_is_shown_exists(page: str) -> None:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```", (DOCS.parent / page).read_text("utf-8"), re.DOTALL | re.MULTILINE)
    plain = "\n".join(text for language, text in fenced if not language)
    shown = set(re.findall(r"^tidegate ([a-z]+)", plain, re.MULTILINE))
    assert shown
    assert shown <= list_command_names()


@pytest.mark.parametrize(
    ("head", "limits", "constants"),
    [
        (
            "provider limit",
            ProviderLimits(),
            "MAX_CALLS MAX_PARTS MAX_JSON_VALUES MAX_USAGE_FIELDS MAX_LISTING_BYTES MAX_LISTING_VALUES",
        ),
        ("server limit", ServerLimits(), "MAX_TOOLS MAX_JSON_VALUES"),
    ],
)
def test_every_limit_is_listed_with_its_value(head: str, limits: ProviderLimits | ServerLimits, constants: str) -> None:
    known = msgspec.structs.asdict(limits) | {name: vars(limits_module)[name] for name in constants.split()}
    rows = {_QUOTED.findall(name)[0]: default for name, default, _ in table(head, DOCS / "agent.md")}
    assert rows == {name: f"{value:,g}" if isinstance(value, float) else f"{value:,}" for name, value in known.items()}


def test_the_example_of_an_agent_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = [block for block in blocks("agent.md", "python") if "run_turn" in block]
    scope: dict[str, Any] = {}
    exec(compile(example, "docs/agent.md", "exec"), scope)
    provider = ScriptedProvider("openai_chat", ["The cache is off."])
    asyncio.run(scope["work"](Session("gpt-4o", window=16_000), provider))
    shown = capsys.readouterr().out
    assert shown.startswith("RequestSent(")
    assert "TurnEnded(" in shown


@pytest.mark.parametrize("kind", ["stage", "tool", "importer", "provider"])
def test_the_page_on_plugins_shows_the_example_package(kind: str) -> None:
    """The tests of tests/plugins install that package: what the page shows is what works."""
    (example,) = [
        block
        for block in blocks("extending.md", "python")
        if _CODE_OF_PLUGINS[kind] in block and "conformance" not in block
    ]
    shown = [line for line in example.splitlines() if line.strip()]
    source = (DOCS.parent / "examples" / "plugins" / "tidegate_example" / f"{kind}.py").read_text("utf-8")
    body = source.split('"""', 2)[2]
    assert shown == [line for line in body.splitlines() if line.strip()]


def test_the_page_on_plugins_shows_the_entry_points_of_the_package() -> None:
    (example,) = blocks("extending.md", "toml")
    assert example in (DOCS.parent / "examples" / "plugins" / "pyproject.toml").read_text("utf-8")


_CODE_OF_PLUGINS = {
    "stage": "def shorten_repeats",
    "tool": "COUNT_WORDS =",
    "importer": 'FORMAT = "interview"',
    "provider": "class EchoProvider",
}


def test_the_page_on_adapters_shows_an_example_that_is_tested() -> None:
    page = (DOCS / "integrations.md").read_text("utf-8")
    shown = re.search(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert shown is not None
    example = (DOCS.parent / "examples" / "integrations" / "langchain_agent.py").read_text("utf-8")
    assert example.endswith(shown[1])


def test_the_page_on_adapters_names_the_versions_that_are_tested() -> None:
    makefile = (DOCS.parent / "Makefile").read_text("utf-8")
    for row in table("framework", DOCS / "integrations.md"):
        for version in row[3].split(", "):
            name, number = version.split()
            assert f" {name}" in makefile, name
            assert f"=={number}" in makefile, number
