"""What each bad policy is told: file, line, key, what is wrong and what to do about it."""

from typing import Any

import pytest

from tests.core.policy_samples import GOOD, complaint, rule
from tidegate.core.policy.policy import METRICS

# Each case is the text of a file, `|` for a new line, then what is said of it.
BAD_FILES = """
# only words
: the file is empty. Begin with a line of `key: value`.
---|...
: the file is empty. Begin with a line of `key: value`.
- a
:1: a policy is a list. Give a mapping: lines of `key: value`.
hello
:1: a policy is "hello". Give a mapping: lines of `key: value`.
name: x|momets: {}
:2: unknown key "momets" in a policy. Did you mean "moments"?
name: x||name: y
:3: key "name" is here twice. Keep one of them.
name: 5
:1: name is 5. Give text, in quotes if it looks like something else.
name: x|---|name: y
:2: a second document begins. Keep one document to a file.
? [a]|: 1
:1: a key is not a word. Write a name before the colon.
name: !!str x
:1: tag "tag:yaml.org,2002:str" has no meaning here. Leave it out.
a: *b
:1: alias "*b" has no anchor. Write the value itself.
a: &a [*a]
:1: alias "*a" has no anchor. Write the value itself.
name: "\\ud800"
:1: "\\ud800" holds half a character. Write the character itself.
moments:|  before_cal:|    - stage: bare
:2: unknown moment "before_cal" in moments. Did you mean "before_call"?
moments:|  overflow: {stage: bare}
:2: moment overflow is a mapping. Give a list: lines that begin with a dash.
moments:|  overflow:|    - bare
:3: a rule of overflow is "bare". Give a mapping: lines of `key: value`.
settings: 4
:1: settings is 4. Give a mapping: lines of `key: value`.
settings: {a: [1]}
:1: setting "a" is a list. Give a number, text, true, false or null.
settings: {a-b: 1}
:1: setting "a-b" has a bad name. Use letters, digits and underscores.
settings: {a: .nan}
:1: NaN is not a number to use here. Stay below 9,007,199,254,740,992.
settings: {a: -.inf}
:1: -Infinity is not a number to use here. Stay below 9,007,199,254,740,992.
settings: {a: 9007199254740993}
:1: 9007199254740993 is not a number to use here. Stay below 9,007,199,254,740,992.
settings: {turns: 1}|aliases: {t: turn}
:2: alias "t" names no setting: "turn". Did you mean "turns"?
settings: {a: 1, b: 1}|aliases: {a: b}
:2: alias "a" is a setting itself. Give it another name.
settings: {b: 1}|aliases: {a b: b}
:2: alias "a b" has a bad name. Give it another name.
reserve: -1
:1: reserve is -1. Give a whole number, 0 or more.
reserve: 1.5
:1: reserve is 1.5. Give a whole number, 0 or more.
reserve: true
:1: reserve is true. Give a whole number, 0 or more.
reserve: [1]
:1: reserve is a list. Give a whole number, 0 or more.
settings: {n: 2}|reserve: $n - 5
:2: reserve is "$n - 5", which is -3. Give a whole number, 0 or more.
unknown_window: -5
:1: unknown_window is -5. Give a whole number, 0 or more.
meter: words/4
:1: meter is "words/4". Write "chars/4": so many characters to a token.
meter: chars/0
:1: meter is "chars/0". Write "chars/4": so many characters to a token.
meter: 4
:1: meter is 4. Give text, in quotes if it looks like something else.
"""

# Each case is the lines of a rule, the first of them on line 5, then what is said of it.
BAD_RULES = """
id: a
:5: a rule of before_call names no stage. Add the key "stage". There is bare, clear, drop_turns.
stage: drop_turn|keep: 1
:5: unknown stage "drop_turn". Did you mean "drop_turns"?
stage: null
:5: stage is null. Give text, in quotes if it looks like something else.
stage: drop_turns|kep: 1
:6: unknown key "kep" in stage drop_turns. Did you mean "keep"?
stage: drop_turns|wen: 1
:6: unknown key "wen" in stage drop_turns. Did you mean "when"?
stage: drop_turns
:5: stage drop_turns needs "keep". Give it a whole number (0 or more).
stage: drop_turns|keep: '5'
:6: "keep" in stage drop_turns is "5" (expected int, got str). Give a whole number (0 or more).
stage: drop_turns|keep: 2.5
:6: "keep" in stage drop_turns is 2.5 (expected int, got float). Give a whole number (0 or more).
stage: drop_turns|keep: true
:6: "keep" in stage drop_turns is true (expected int, got bool). Give a whole number (0 or more).
stage: drop_turns|keep: $word
:6: setting "word" ("keep" in stage drop_turns) is "hi" (expected int, got str). Give a whole number (0 or more).
stage: clear|mode: heads
:6: "mode" in stage clear is "heads" (invalid enum value 'heads'). Did you mean "head"?
stage: clear|mode: 5
:6: "mode" in stage clear is 5 (expected str, got int). Give "head" or "head_tail".
stage: clear|spare: read
:6: "spare" in stage clear is "read" (expected array, got str). Give a list.
stage: clear|spare: [1]
:6: "spare" in stage clear is a list (expected str, got int). Give a list.
stage: clear|limit: x
:6: "limit" in stage clear is "x" (expected int | null, got str). Give a whole number (0 or more) or null.
stage: clear|loud: 1
:6: "loud" in stage clear is 1 (expected bool, got int). Give true or false.
stage: clear|least: 0
:6: "least" in stage clear is 0 (expected int >= 1). Give a whole number (1 or more).
stage: drop_turns|keep: $m
:6: unknown setting "$m" in "$m". There is n, on, word, zero.
stage: drop_turns|keep: $wrod + 1
:6: unknown setting "$wrod" in "$wrod + 1". Did you mean "word"?
stage: drop_turns|keep: 1|notice: 'a ${wrod}'
:7: unknown setting "$wrod" in "a ${wrod}". Did you mean "word"?
stage: drop_turns|keep: $word + 1
:6: $word is "hi" in "$word + 1". Only numbers can be reckoned with.
stage: drop_turns|keep: $on + 1
:6: $on is true in "$on + 1". Only numbers can be reckoned with.
stage: drop_turns|keep: $n // $zero
:6: division by zero in "$n // $zero" (n is 6, zero is 0). Give a divisor that is not 0.
stage: drop_turns|keep: $n +
:6: bad expression "$n +". WRITE
stage: drop_turns|keep: $n ** 2
:6: bad expression "$n ** 2". WRITE
stage: drop_turns|keep: abs($n)
:6: bad expression "abs($n)". WRITE
stage: drop_turns|keep: max(*$n)
:6: bad expression "max(*$n)". WRITE
stage: drop_turns|keep: max() + $n
:6: bad expression "max() + $n". WRITE
stage: drop_turns|keep: $n * 9007199254740992
:6: "$n * 9007199254740992" comes to too large a number. Stay below 9,007,199,254,740,992.
stage: bare|when: {turn: 5}
:6: unknown metric "turn" in when. Did you mean "turns"?
stage: bare|when: {zzz: 5}
:6: unknown metric "zzz" in when. There is METRICS.
stage: bare|when: 5
:6: when is 5. Give a mapping: lines of `key: value`.
stage: bare|when: [5]
:6: when is 5. Give a mapping: lines of `key: value`.
stage: bare|when: {turns: '=> 5'}
:6: unknown comparison "=>" for turns. Use >, >=, <, <=, ==.
stage: bare|when: {turns: '> many'}
:6: bad expression "many". WRITE
stage: bare|when: {turns: '>'}
:6: bad expression "". WRITE
stage: bare|when: {turns: true}
:6: turns is compared with true. Give a number, or text such as "> 20".
stage: bare|when: {turns: [1]}
:6: turns is compared with a list. Give a number, or text such as "> 20".
stage: bare|when: {turns: '> $m'}
:6: unknown setting "$m" in "> $m". There is n, on, word, zero.
stage: bare|when: {turns: '> 1 / $zero'}
:6: division by zero in "1 / $zero" (zero is 0). Give a divisor that is not 0.
stage: bare|if: {wrod: hi}
:6: unknown setting "wrod" in if. Did you mean "word"?
stage: bare|if: {word: {a: 1}}
:6: "word" in if is a mapping. Give a value, or a list of values.
stage: bare|if: [word]
:6: if is a list. Give a mapping: lines of `key: value`.
stage: bare|cooldown: 5
:6: cooldown is 5. Give a mapping: lines of `key: value`.
stage: bare|cooldown: {turn: 5}
:6: unknown key "turn" in cooldown. Did you mean "turns"?
stage: bare|cooldown: {turns: -1}
:6: turns in cooldown is -1. Give a whole number, 0 or more.
stage: bare|cooldown: {turns: 1.5}
:6: turns in cooldown is 1.5. Give a whole number, 0 or more.
stage: bare|cooldown: {seconds: -0.5}
:6: seconds in cooldown is -0.5. Give a number, 0 or more.
stage: bare|floor: -1
:6: floor is -1. Give a whole number, 0 or more.
stage: bare|floor: some
:6: bad expression "some". WRITE
stage: bare|id: 5
:6: id is 5. Give text, in quotes if it looks like something else.
"""

WRITE = "Write numbers, $settings, + - * / // ( ) min max; in text write ${name}, and $$ for a dollar sign."


def cases(table: str) -> list[tuple[str, str]]:
    lines = table.replace("WRITE", WRITE).replace("METRICS", ", ".join(sorted(METRICS))).strip("\n").split("\n")
    return [(text.replace("|", "\n"), f"my.yaml{said}") for text, said in zip(lines[::2], lines[1::2], strict=True)]


def test_bad_files() -> None:
    assert [(text, complaint(text)) for text, _ in cases(BAD_FILES)] == cases(BAD_FILES)


def test_bad_rules() -> None:
    assert [(lines, complaint(rule(lines))) for lines, _ in cases(BAD_RULES)] == cases(BAD_RULES)


def test_empty_file() -> None:
    assert complaint("") == "my.yaml: the file is empty. Begin with a line of `key: value`."


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: x\nabout: [1,\n", "my.yaml:3: not YAML: "),
        ("name: x\n\tabout: y\n", "my.yaml:2: not YAML: "),
        ("name: x\nabout: 'never closed\n", "my.yaml:3: not YAML: "),
        ("name: x\nabout: a\x00b\n", "my.yaml:2: not YAML: special characters are not allowed."),
        ('name: "\\Uffffffff"\n', "my.yaml:1: not YAML: "),
        ("name: x\n  about: y\n", "my.yaml:2: not YAML: "),
    ],
)
def test_not_yaml(text: str, said: str) -> None:
    found = complaint(text)
    assert found.startswith(said)
    assert found.endswith("Look at the indentation, quotes and colons.")
    assert "\n" not in found


@pytest.mark.parametrize(
    "lines",
    [
        "stage: drop_turn\nkeep: 1",
        "stage: drop_turns\nkep: 1",
        "stage: drop_turns",
        "stage: drop_turns\nkeep: $m",
        "stage: bare\nwhen: {turn: 5}",
        "stage: bare\nwhen: {turns: '=> 5'}",
    ],
)
def test_a_left_out_rule_is_checked_too(lines: str) -> None:
    assert complaint(rule(f"{lines}\nif: {{n: 0}}")) == complaint(rule(lines))


def test_two_rules_with_one_id() -> None:
    text = rule("stage: bare\nid: same") + "  overflow:\n    - stage: bare\n      id: same\n"
    assert complaint(text) == 'my.yaml:9: id "same" is taken by line 6. Give each rule its own.'
    text = rule("stage: bare") + "    - stage: bare\n      id: before_call/bare\n"
    assert "is taken by line 5" in complaint(text)


NOT_WHOLE = "Give a whole number (0 or more) or null."


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"max_context_turn": 5}, 'unknown setting "max_context_turn". Did you mean "max_context_turns"?'),
        (
            {"agent_max_context_turn": 5},
            'unknown setting "agent_max_context_turn". Did you mean "agent_max_context_turns"?',
        ),
        ({"max_tokens": "5"}, f'setting "max_tokens" is "5" (expected int | null, got str). {NOT_WHOLE}'),
        ({"max_tokens": True}, f'setting "max_tokens" is true (expected int | null, got bool). {NOT_WHOLE}'),
        ({"max_tokens": 2.5}, f'setting "max_tokens" is 2.5 (expected int | null, got float). {NOT_WHOLE}'),
        ({"strategy": None}, 'setting "strategy" is null (expected str, got null). Give text.'),
        ({"auto": 1}, 'setting "auto" is 1 (expected bool, got int). Give true or false.'),
        ({"max_tokens": 10**400}, "a huge number is not a number to use here. Stay below 9,007,199,254,740,992."),
        ({"ratio": float("nan")}, "NaN is not a number to use here. Stay below 9,007,199,254,740,992."),
        ({"strategy": "\udc00"}, '"\\udc00" holds half a character. Write the character itself.'),
        (
            {"max_context_turns": 5, "agent_max_context_turns": 6},
            '"max_context_turns" and "agent_max_context_turns" are the same setting. Give it once.',
        ),
    ],
)
def test_bad_settings_handed_in(given: dict[str, object], said: str) -> None:
    assert complaint(GOOD, given) == f"my.yaml: {said}"


def test_settings_that_are_no_mapping() -> None:
    wrong: Any = ["max_tokens"]
    assert complaint(GOOD, wrong) == "my.yaml: the settings handed in are a list. Give a mapping of names and values."
    odd: Any = {5: 5}
    assert complaint(GOOD, odd).startswith("my.yaml: unknown setting 5. There is ")


def test_a_setting_that_a_rule_cannot_use_is_told_at_the_rule() -> None:
    said = 'my.yaml:25: $max_context_turns is null in "max(3, $max_context_turns // 6)".'
    assert complaint(GOOD, {"max_context_turns": None}) == f"{said} Only numbers can be reckoned with."
