"""A mistyped setting or a value out of range is an error that says what to do."""

from pathlib import Path

import pytest

from tests.cli.calling import called
from tidegate import BadPolicy, load
from tidegate.core.policy.parser import parse_policy
from tidegate.core.stages import STAGES
from tidegate.presets import preset_names

WRONG = {
    ("digitorn", "strategy", "sumarize"): 'Did you mean "summarize"?',
    ("digitorn", "strategy", "none"): "There is summarize, truncate.",
    ("digitorn", "keep_recent", -1): "Give a whole number (0 or more)",
    ("digitorn", "compression_trigger", 75): "from 0 to 1",
    ("digitorn", "compression_trigger", -0.5): "0 or more",
    ("digitorn", "result_share", 3): "from 0 to 1",
    ("digitorn", "auto_compact", "ture"): "Give true or false",
    ("ai", "tool_summary_strategy", "lm"): 'Did you mean "llm"?',
    ("ai", "truncate_mode", "heads"): 'Did you mean "head"?',
    ("ai", "max_lines", -2000): "0 or more",
    ("cowagent", "max_context_turns", -20): "0 or more",
    ("cowagent", "retention_days", -1): "0 or more",
    ("jutul", "clear_at", 60): "from 0 to 1",
    ("jutul", "keep_share", 30): "from 0 to 1",
    ("picoclaw", "context_window", -1): "0 or more",
    ("picoclaw", "keep_share", 1.5): "from 0 to 1",
    ("default", "spill_share", 25): "from 0 to 1",
    ("default", "ledger", 12): "from 0 to 1",
    ("default", "fidelity", -1): "0 or more",
    ("default", "fidelty", 2): 'Did you mean "fidelity"?',
}


@pytest.mark.parametrize(("policy", "name", "value"), WRONG)
def test_a_wrong_value_is_refused_with_what_to_do(policy: str, name: str, value: object) -> None:
    with pytest.raises(BadPolicy, match=f'"{name}"|compared with') as refused:
        load(policy, {name: value})
    assert WRONG[policy, name, value] in str(refused.value)


@pytest.mark.parametrize("policy", preset_names())
def test_no_number_of_a_preset_may_be_negative(policy: str) -> None:
    for name, default in load(policy).settings.items():
        if isinstance(default, int | float) and not isinstance(default, bool):
            with pytest.raises(BadPolicy, match="or more"):
                load(policy, {name: -1})
            assert load(policy, {name: default}).settings[name] == default


@pytest.mark.parametrize("strategy", ["summarize", "summarise", "truncate"])
def test_the_documented_values_are_taken(strategy: str) -> None:
    assert load("digitorn", {"strategy": strategy}).moments["before_call"]


@pytest.mark.parametrize(
    ("rule", "remedy"),
    [
        ("{stage: keep_recent, messages: -1}", "0 or more"),
        ("{stage: clear_results, keep: -6}", "0 or more"),
        ("{stage: drop_turns, share: 50}", "from 0 to 1"),
        ("{stage: summarise, max_tokens: 100, keep_share: -0.1}", "from 0 to 1"),
        ("{stage: clear_results, keep: 1, when: {pressure: 80}}", "from 0 to 1"),
        ("{stage: clear_results, keep: 1, when: {turns: -3}}", "0 or more"),
        ("{stage: cap_results, chars: 10, scope: historic}", "historical"),
    ],
)
def test_a_policy_file_is_held_to_the_same(rule: str, remedy: str) -> None:
    with pytest.raises(BadPolicy) as refused:
        parse_policy(f"moments:\n  before_call:\n    - {rule}\n", source="mine.yaml", stages=STAGES)
    assert "mine.yaml:3" in str(refused.value)
    assert remedy in str(refused.value)


def test_the_command_line_refuses_it(tmp_path: Path) -> None:
    recording = tmp_path / "talk.json"
    recording.write_text('[{"role": "user", "content": "Hello."}]')
    done = called("replay", recording, "--policy", "digitorn", "--window", 9000, "--set", "strategy=sumarize")
    assert done.returncode == 2
    assert 'Did you mean "summarize"?' in done.stderr
