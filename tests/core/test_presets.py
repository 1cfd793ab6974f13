"""Policies by name and by path: what is found, and what is said of what cannot be."""

from pathlib import Path

import pytest

from tidegate import presets
from tidegate.core.config.yaml_tree import MAX_YAML_CHARS
from tidegate.core.errors import BadPolicy
from tidegate.core.stages import STAGES

MINE = """\
name: mine
settings: {turns: 20}
aliases: {agent_turns: turns}
moments:
  before_call:
    - stage: drop_turns
      when: {turns: $turns}
"""


def refusal(name_or_path: str | Path) -> str:
    with pytest.raises(BadPolicy) as caught:
        presets.load(name_or_path)
    assert caught.value.remedy
    return str(caught.value)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(MINE, "utf-8")
    return path


def test_the_presets_are_there() -> None:
    assert presets.preset_names() == ("ai", "cowagent", "default", "digitorn", "jutul", "picoclaw")


@pytest.mark.parametrize("name", presets.preset_names())
def test_every_preset_loads(name: str) -> None:
    policy = presets.load(name)
    assert policy.name == name
    assert policy.about
    assert any(policy.moments.values())
    assert all(STAGES[rule.stage] is rule.run for rules in policy.moments.values() for rule in rules)


@pytest.mark.parametrize("name", presets.preset_names())
def test_every_setting_of_a_preset_can_be_handed_in(name: str) -> None:
    settings = presets.load(name).settings
    assert presets.load(name, settings).settings == settings


def test_a_file_with_overrides(mine: Path) -> None:
    assert presets.load(mine).settings == {"turns": 20}
    policy = presets.load(str(mine), {"turns": 5})
    assert policy.settings == {"turns": 5}
    assert policy.moments["before_call"][0].when[0][0].value == 5
    config = {"agent_turns": 7, "channel": "web"}
    assert presets.load(mine, config, ignore_unknown=True).settings == {"turns": 7}
    with pytest.raises(BadPolicy, match='unknown setting "channel"'):
        presets.load(mine, config)


def test_a_byte_order_mark_and_windows_lines(mine: Path) -> None:
    mine.write_bytes(b"\xef\xbb\xbf" + MINE.replace("\n", "\r\n").encode())
    assert presets.load(mine) == presets.load(_again(mine))


def _again(path: Path) -> Path:
    other = path.with_name("again.yaml")
    other.write_text(MINE, "utf-8")
    return other


def test_an_error_names_the_file_and_line(mine: Path) -> None:
    mine.write_text(MINE.replace("drop_turns", "drop_turn"), "utf-8")
    assert refusal(mine) == f'{mine}:6: unknown stage "drop_turn". Did you mean "drop_turns"?'


@pytest.mark.parametrize("wrong", ["{}x", "{}.yml", "some/where/{}x.yaml"])
def test_the_nearest_preset_is_named(wrong: str) -> None:
    for name in presets.preset_names():
        path = wrong.format(name)
        assert refusal(path) == f'No policy file or preset is called "{path}". Did you mean "{name}"?'


def test_what_is_no_policy(tmp_path: Path) -> None:
    path = tmp_path / "odd"
    path.write_bytes(b"name: x\nabout: \xff\xfe\n")
    assert refusal(path) == f"{path}:2: not UTF-8 text. Save the file as UTF-8; is it a policy at all?"
    path.write_bytes(bytes(range(256)))
    assert refusal(path).startswith(f"{path}:")
    path.write_bytes(b"")
    assert refusal(path).startswith(f"{path}: the file is empty.")
    path.write_bytes(b"#" * (MAX_YAML_CHARS + 1))
    assert refusal(path).startswith(f"{path}: more than 1,000,000 bytes.")


def test_what_cannot_be_read(tmp_path: Path) -> None:
    assert refusal(tmp_path).endswith("cannot be read: Is a directory. Give a preset's name or a readable file.")
    assert refusal("a\0b").startswith('"a\\u0000b" cannot be read: ')
    assert refusal("x" * 5000).startswith('"xxx')
    assert refusal("").startswith('"" cannot be read: ')
    assert refusal("/dev/zero").startswith("/dev/zero: more than 1,000,000 bytes.")


# --- British and American spelling ------------------------------------------------------------------------------------

SPELLED = """\
settings: {summarise_at: 0.5, strategy: summarise}
moments:
  before_call:
    - {stage: STAGE, if: {strategy: summarize}, when: {pressure: $summarise_at}, max_tokens: 900}
"""


@pytest.mark.parametrize("stage", ["summarise", "summarize"])
def test_both_spellings_of_a_stage_are_one_stage(tmp_path: Path, stage: str) -> None:
    path = tmp_path / "spelled.yaml"
    path.write_text(SPELLED.replace("STAGE", stage), "utf-8")
    (rule,) = presets.load(path).moments["before_call"]
    assert (rule.stage, rule.name, rule.run) == ("summarize", "before_call/summarize", STAGES["summarize"])


def test_a_setting_may_be_given_in_either_spelling() -> None:
    british, american = presets.load("jutul", {"summarise_at": 0.5}), presets.load("jutul", {"summarize_at": 0.5})
    assert british == american
    assert british.settings["summarize_at"] == 0.5
    assert "summarise_at" not in british.settings
    with pytest.raises(BadPolicy, match='"summarise_at" and "summarize_at" are the same setting'):
        presets.load("jutul", {"summarise_at": 0.5, "summarize_at": 0.6})


def test_a_value_may_be_given_in_either_spelling() -> None:
    british, american = (presets.load("digitorn", {"strategy": name}) for name in ("summarise", "summarize"))
    assert british.moments == american.moments
    assert british.moments != presets.load("digitorn", {"strategy": "truncate"}).moments


def test_a_key_given_in_both_spellings_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "twice.yaml"
    path.write_text(
        SPELLED.replace("STAGE", "summarise").replace("strategy: summarize}", "summarise_at: 1, summarize_at: 1}"),
        "utf-8",
    )
    assert '"summarise_at" is given twice in if' in refusal(path)
