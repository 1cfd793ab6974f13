"""The policy file: what a good one means, and that no text brings anything but a policy or a BadPolicy."""

import copy
import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.core.policy_samples import GOOD, STAGES, complaint, drop_turns, parse, parsed_or_refused, rule
from tests.scale import scaled
from tidegate.core.config.values import Scalar
from tidegate.core.config.yaml_tree import (
    MAX_YAML_CHARS,
    MAX_YAML_DEPTH,
    MAX_YAML_LINE_CHARS,
    MAX_YAML_NODES,
    read_yaml,
)
from tidegate.core.errors import BadPolicy
from tidegate.core.policy.parser import parse_policy
from tidegate.core.policy.policy import COMPARISONS, METRICS, MOMENTS, PolicyContext, Trigger

# What a good file means.


def test_a_whole_policy() -> None:
    policy = parse(GOOD)
    assert (policy.name, policy.about, policy.meter) == ("cowagent", "Two words", "chars/4")
    assert (policy.reserve, policy.unknown_window, policy.unknown_limit) == (32768, 131072, 32768)
    assert policy.settings["max_context_turns"] == 20
    assert policy.settings["brain"] is None
    assert set(policy.moments) == {"before_call", "overflow", "manual"}
    assert policy.moments["overflow"] == policy.moments["manual"] == ()


def test_its_rules() -> None:
    trim, clear, again = parse(GOOD).moments["before_call"]
    assert (trim.name, trim.stage, trim.run) == ("trim", "drop_turns", drop_turns)
    assert trim.when == ((Trigger("turns", ">", 20), Trigger("pressure", ">=", 0.6)),)
    assert (trim.cooldown_turns, trim.cooldown_seconds, trim.floor) == (2, 30.0, 500)
    assert trim.settings == {"keep": 3}
    assert clear.when == (
        (Trigger("messages", ">", 40),),
        (Trigger("unlimited", "==", 1), Trigger("tokens", ">", 65536)),
    )
    texts = {"spare": ("read", "summarize"), "mode": "head_tail"}
    assert clear.settings == {**texts, "share": 0.75, "limit": None, "loud": True, "least": 2}
    assert (clear.name, again.name) == ("before_call/clear", "before_call/clear-2")
    assert (again.when, again.settings, again.floor, again.cooldown_turns) == ((), {}, 0, 0)


def test_settings_handed_in_are_used_everywhere() -> None:
    policy = parse(GOOD, {"agent_max_context_turns": 60, "max_tokens": 1000.0, "ratio": 1})
    trim, clear = policy.moments["before_call"][:2]
    assert (policy.reserve, policy.unknown_limit) == (1000, 1000)
    assert trim.when[0][0] == Trigger("turns", ">", 60)
    assert trim.settings["keep"] == 10
    assert clear.settings["share"] == 1.0
    assert type(policy.settings["max_tokens"]) is int
    assert type(policy.settings["ratio"]) is float


def test_a_rule_left_out_keeps_its_name_and_the_names_of_others() -> None:
    names = [found.name for found in parse(GOOD, {"auto": False}).moments["before_call"]]
    assert names == ["before_call/clear", "before_call/clear-2"]
    text = rule("stage: bare\nif: {n: 7}") + "    - stage: bare\n"
    names = [found.name for found in parse(text).moments["before_call"]]
    assert names == ["before_call/bare-2"]
    names = [found.name for found in parse(text, {"n": 7}).moments["before_call"]]
    assert names == ["before_call/bare", "before_call/bare-2"]


@pytest.mark.parametrize("condition", "{n: 6}|{n: 6.0}|{n: [5, 6]}|{n: $n}|{on: true}|{on: [true, 1]}|{}".split("|"))
def test_condition_that_applies(condition: str) -> None:
    assert len(parse(rule(f"stage: bare\nif: {condition}")).moments["before_call"]) == 1


@pytest.mark.parametrize("condition", "{n: []}|{n: 6, word: ho}|{n: '6'}|{on: 1}|{word: null}|{zero: false}".split("|"))
def test_condition_that_does_not_apply(condition: str) -> None:
    assert len(parse(rule(f"stage: bare\nif: {condition}")).moments["before_call"]) == 0


def test_what_a_left_out_rule_cannot_compute_today_is_no_fault() -> None:
    text = rule("stage: drop_turns\nkeep: 6 // $zero\nwhen: {turns: 1 / $zero}\nif: {zero: [1, 2]}")
    assert parse(text).moments["before_call"] == ()
    assert parse(text, {"zero": 2}).moments["before_call"][0].settings == {"keep": 3}


def test_words_of_yaml_1_1_stay_words() -> None:
    text = (
        "%YAML 1.1\n---\nsettings: {on: yes, off: no, y: off, date: 2026-01-01, o: 010, h: 0x1F, u: 1_000, s: 1:30}\n"
    )
    values = {"on": "yes", "off": "no", "y": "off", "date": "2026-01-01", "o": 10, "h": 31, "u": 1000, "s": "1:30"}
    assert parse(text).settings == values


SCALARS: dict[str, Scalar] = {
    "1.5": 1.5,
    "-.5": -0.5,
    "1e3": 1000.0,
    "+7": 7,
    "0o17": 15,
    "~": None,
    "": None,
    "TRUE": True,
    "tRUE": "tRUE",
    "'12'": "12",
    "'null'": "null",
    "1e": "1e",
    "0b1": "0b1",
    ".": ".",
    "5 # five": 5,
}


def test_scalars() -> None:
    for written, meant in SCALARS.items():
        found = parse(f"settings:\n  s: {written}\n").settings["s"]
        assert found == meant, written
        assert type(found) is type(meant), written


def test_the_name_is_the_files_own_where_none_is_given() -> None:
    policy = parse_policy("moments: {}", source="some/where/mine.yaml", stages={})
    assert (policy.name, policy.reserve, policy.meter, policy.unknown_limit) == ("mine", 0, "", None)


def test_a_limit_may_be_a_setting_that_is_off() -> None:
    text = "settings: {n: 8}\nunknown_limit: $n\nunknown_window: null\n"
    assert parse(text).unknown_limit == 8
    assert parse(text, {"n": None}).unknown_limit is None


def test_anchors_are_fine_within_bounds() -> None:
    text = "moments:\n  overflow:\n    - &r {stage: drop_turns, keep: 2}\n    - *r\n"
    names = [found.name for found in parse(text).moments["overflow"]]
    assert names == ["overflow/drop_turns", "overflow/drop_turns-2"]


def test_every_moment_metric_and_comparison_is_accepted() -> None:
    whens = "".join(f'      - {{{metric}: "{op} 1"}}\n' for metric in METRICS for op in COMPARISONS)
    text = "moments:\n" + "".join(f"  {moment}:\n  - stage: bare\n    when:\n{whens}" for moment in MOMENTS)
    policy = parse(text)
    assert set(policy.moments) == set(MOMENTS)
    triggers = [tests[0] for tests in policy.moments["restore"][0].when]
    assert triggers == [Trigger(metric, op, 1) for metric in METRICS for op in COMPARISONS]


def test_context_names_settings_and_a_rule() -> None:
    rules = "moments: {manual: [{stage: bare, id: squeeze, if: {n: 7}}]}\n"
    policy = parse("settings: {n: 6}\ncontext: {settings: [n], automatic_rule: squeeze}\n" + rules)
    assert policy.context == PolicyContext(frozenset({"n"}), "squeeze")
    assert parse("settings: {n: 6}\n" + rules).context is None
    assert complaint("settings: {n: 6}\ncontext:\n  settings: [m]\n").startswith(
        'my.yaml:3: context names no setting: "m".'
    )
    wrong = complaint("settings: {n: 6}\ncontext: {automatic_rule: squeeeze}\n" + rules)
    assert wrong.startswith('my.yaml:2: automatic_rule names no rule: "squeeeze".')
    assert '"squeeze"' in wrong


def test_a_config_with_other_things_in_it() -> None:
    config = {"agent_max_context_turns": 5, "api_key": "k", "nested": {"a": 1}}
    assert parse(GOOD, config, ignore_unknown=True).settings["max_context_turns"] == 5
    assert complaint(GOOD, config).startswith('my.yaml: unknown setting "api_key". There is ')


def test_reading_the_module_loads_no_yaml() -> None:
    code = "import sys, tidegate.core.policy.parser; print(any(name.startswith('ruamel') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "False\n"


# Bounds.


@pytest.mark.exhaustive
def test_size_line_depth_and_number_of_values_are_bounded() -> None:
    assert complaint("# x\n" * (MAX_YAML_CHARS // 4) + "#\n").startswith("my.yaml: 1,000,002 characters are too many.")
    assert complaint("name: x\n#" + "x" * MAX_YAML_LINE_CHARS).startswith("my.yaml:2: the line is too long.")
    assert complaint("a: " + "[" * MAX_YAML_DEPTH).startswith("my.yaml:1: nested too deep.")
    assert complaint("[" * 15_000).startswith("my.yaml:1: nested too deep.")
    assert complaint("- a\n" * MAX_YAML_NODES).startswith("my.yaml:20000: more than 20,000 values")
    assert read_yaml("[" * MAX_YAML_DEPTH + "]" * MAX_YAML_DEPTH, "x").size == MAX_YAML_DEPTH


def test_an_alias_bomb_is_refused_before_it_goes_off() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert complaint("\n".join(lines)).startswith("my.yaml:5: more than 20,000 values, aliases counted.")


# No text brings anything but a policy or a BadPolicy.


def well_behaved(text: str, handed: Mapping[str, object] | None = None) -> None:
    found = parsed_or_refused(text, handed)
    if isinstance(found, BadPolicy):
        said = str(found)
        assert found.remedy
        assert said.startswith("my.yaml:")
        assert said.isprintable()
        return
    for moment, rules in found.moments.items():
        assert moment in MOMENTS
        for each in rules:
            assert STAGES[each.stage] is each.run
            assert all(test.metric in METRICS and test.op in COMPARISONS for tests in each.when for test in tests)
            assert each.cooldown_turns >= 0 <= each.floor


@given(st.text(max_size=200))
@example("\ufeffname: x")
@example('name: "\\x"')
@example("%YAML 1.x\n--- a")
@settings(max_examples=scaled(100))
def test_any_text(text: str) -> None:
    well_behaved(text)


PIECES = """&a |*a|!!int |? |- |: |[|]|{|}|>\n|'|"|%YAML 1.1\n|---\n|...\n|\t|#|\x85|\u2028|\ufeff|\x00|\\|\\x|$|${
|$max_tokens| // 0|> |-1|1e999|.nan|null|true|[]|{}|<<: |\r|\ud800|@|`|💧|""".split("|")


@st.composite
def mutated(draw: st.DrawFn) -> str:
    text = GOOD
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(text)))
        until = min(len(text), at + draw(st.sampled_from([0, 0, 1, 3, 20])))
        piece = draw(st.sampled_from([*PIECES, "|\n", "9" * 5000]) | st.text(max_size=5))
        text = text[:at] + piece + text[until:]
    return text


@given(mutated())
@settings(max_examples=scaled(80))
def test_any_mutated_policy(text: str) -> None:
    well_behaved(text)


def anything() -> st.SearchStrategy[Any]:
    words = ["> 1", "$n", "${n}", "$n/0", "turns", "drop_turns", "keep", "chars/4", "", "=> 2", "[", "null"]
    keys = st.sampled_from("n turns keep stage id seconds tokens before_call name".split()) | st.text(max_size=3)
    leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(words) | st.text(max_size=5)
    return st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=5
    )


TREE: dict[str, Any] = {
    "name": "x",
    "about": "y",
    "settings": {"n": 6, "word": "hi"},
    "aliases": {"m": "n"},
    "context": {"settings": ["n"], "automatic_rule": "c"},
    "reserve": 5,
    "meter": "chars/4",
    "default_window": 1,
    "unknown_window": 1,
    "unknown_limit": 1,
    "moments": {
        "overflow": [
            {"stage": "drop_turns", "keep": 1, "when": {"turns": "> $n"}, "cooldown": {"turns": 1}, "if": {"n": [6]}},
            {"stage": "clear", "spare": ["a"], "share": 0.5, "id": "c", "floor": 5, "limit": None},
        ]
    },
}
Path = tuple[str | int, ...]


def paths(tree: Any, path: Path = ()) -> list[Path]:
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [*([path] if path else []), *(found for key, value in inner for found in paths(value, (*path, key)))]


@given(st.sampled_from(paths(TREE)), anything(), st.dictionaries(st.sampled_from("nmz"), anything(), max_size=2))
@settings(max_examples=scaled(80))
def test_any_value_anywhere(path: Path, value: Any, handed: dict[str, Any]) -> None:
    """JSON is YAML: put anything in any place of a good policy, and hand in anything as settings."""
    owner: Any = copy.deepcopy(TREE)
    tree = owner
    for key in path[:-1]:
        owner = owner[key]
    owner[path[-1]] = value
    well_behaved(json.dumps(tree, ensure_ascii=False), handed)
