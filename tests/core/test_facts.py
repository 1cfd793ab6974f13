"""What is a hard fact and what is not."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scale import scaled
from tidegate.core.text.facts import (
    Fact,
    find_error_lines,
    find_facts,
    find_last_line,
    find_rule_sentences,
    head_and_tail,
    split_sentences,
)

FOUND = (
    ("see src/app/main.py.", "path", "src/app/main.py"),
    ("in (/etc/nginx/nginx.conf),", "path", "/etc/nginx/nginx.conf"),
    ("run ./build.sh now", "path", "./build.sh"),
    ("put it in ~/notes/a.md", "path", "~/notes/a.md"),
    ("at src/a.py:42:7", "path", "src/a.py:42:7"),
    (r"open C:\Users\bob\x.txt", "path", r"C:\Users\bob\x.txt"),
    ("文件src/核心.py在这里 src/core.py。", "path", "src/core.py"),
    ("edit package.json first", "file", "package.json"),
    ("the .github/workflows folder", "path", ".github/workflows"),
    ("отчёт.pdf лежит там", "file", "отчёт.pdf"),
    ("go to https://example.com/a?b=1.", "url", "https://example.com/a?b=1"),
    ("mail bob.smith@example.co.uk!", "email", "bob.smith@example.co.uk"),
    ("id 123e4567-e89b-12d3-a456-426614174000", "uuid", "123e4567-e89b-12d3-a456-426614174000"),
    ("commit 9f3a1bc22d", "hash", "9f3a1bc22d"),
    ("ticket JIRA-1234 is open", "id", "JIRA-1234"),
    ("host=pg-7731.internal:5433", "id", "pg-7731.internal:5433"),
    ("upgrade to v2.14.1", "version", "v2.14.1"),
    ("port 8443 is taken", "number", "8443"),
    ("it costs $1,250.50 a month", "number", "$1,250.50"),
    ("set timeout=30s", "number", "30s"),
    ("call getUserName()", "name", "getUserName"),
    ("os.path.join is used", "name", "os.path.join"),
    ("DATABASE_URL is unset", "name", "DATABASE_URL"),
    ('the "Magic Button" is gone', "quoted", "Magic Button"),
    ("run `make test` twice", "quoted", "make test"),
    ("「設定画面」を開く", "quoted", "設定画面"),
)


def test_found() -> None:
    for text, kind, value in FOUND:
        assert (kind, value) in [(fact.kind, fact.value) for fact in find_facts(text)], text


@pytest.mark.parametrize(
    "text", ["and/or", "Hello there.", "e.g. this", "it is 5 or 12", "What?!", "- - -", "yes/no \\n\\t"]
)
def test_not_a_fact(text: str) -> None:
    assert [fact for fact in find_facts(text) if fact.value != "yes/no"] == []


def test_an_arrow_is_between_two_names() -> None:
    assert [fact.value for fact in find_facts("src/old.py→src/new.py")] == ["src/old.py", "src/new.py"]


def test_context_tells_what_a_number_is() -> None:
    assert find_facts("the gateway listens on port 8443") == [Fact("number", "8443", "on port")]
    assert Fact("number", "30", "retry_count") not in find_facts("retry_count=30")  # two digits say too little
    assert Fact("number", "300", "retry_count") in find_facts("retry_count=300")


def test_each_fact_once_in_order() -> None:
    values = [fact.value for fact in find_facts("b/c.py then a/b.py then b/c.py")]
    assert values == ["b/c.py", "a/b.py"]


@pytest.mark.parametrize(
    "rule",
    [
        "You must run the tests.",
        "Never touch main.",
        "Don't use mocks.",
        "Use tabs.",
        "必须使用中文回答。",
        "不要删除这个文件。",
        "必ずテストを実行してください。",
        "반드시 한국어로 답하세요.",
        "Никогда не меняй этот файл.",
        "Verwende niemals globale Variablen.",
        "Il faut toujours tester.",
        "Nunca uses esa rama.",
        "يجب أن تستخدم هذا الملف.",
    ],
)
def test_rules_in_many_languages(rule: str) -> None:
    assert find_rule_sentences(f"Some words before. {rule}\nThe sky was blue") == [rule]


def test_errors() -> None:
    text = (
        'File "a.py", line 3\nValueError: no key\n0 errors\nall fine\nfatal: not a git repo\n  raise ValueError("no")'
    )
    assert find_error_lines(text) == ["ValueError: no key", "fatal: not a git repo"]


_FAILURES = (
    "KeyError|IOException|error|errors|failed|failure|fatal|panic|denied|refused|cannot|could not|can't|not found"
    "|no such|undefined|unresolved|traceback|abort|aborted|timeout|time out|timedout|timed out|segfault|killed|invalid"
    "|conflict|exit code|exit status|FAIL|FAILED"
).split("|")


@pytest.mark.parametrize("word", _FAILURES)
def test_every_word_of_a_failure_is_found_however_it_is_written(word: str) -> None:
    lines = [f"it: {form} here" for form in (word, word.upper(), word.title())]
    assert find_error_lines("\n".join(["fine", *lines, "fine"])) == lines


def test_codes_and_other_alphabets_are_failures_too() -> None:
    assert find_error_lines("a.py:1: E501 too long\na.py:1: e501 too long") == ["a.py:1: E501 too long"]
    for line in ("错误", "失败", "エラー", "失敗", "오류", "실패", "ОШИБКА", "خطأ", "\u212aILLED", "fa\u0131l"):
        assert find_error_lines(f"ok ✓\n12: {line} x") == [f"12: {line} x"]
    assert find_error_lines("ok ✓\nОшибка сети\nthe ſegfault") == ["Ошибка сети", "the ſegfault"]


def test_last_line_and_sentences() -> None:
    assert find_last_line("a\n12 passed in 3s\n\n----\n") == "12 passed in 3s"
    assert find_last_line("  \n") == ""
    assert split_sentences("One two. Three!  Four\nfive。六") == ["One two.", "Three!", "Four", "five。", "六"]


def test_a_long_text_is_read_at_both_ends() -> None:
    text = "a/first.py " + "x " * 100_000 + " z/last.py"
    assert [fact.value for fact in find_facts(text)] == ["a/first.py", "z/last.py"]
    assert len(head_and_tail(text, 1000)) <= 1001
    assert head_and_tail("short", 1000) == "short"


@settings(max_examples=scaled(60))
@given(st.text(st.characters(codec=None), max_size=300))
def test_never_raises(text: str) -> None:
    for fact in find_facts(text):
        assert fact.value
        assert "\n" not in fact.value
    find_rule_sentences(text)
    find_error_lines(text)


@pytest.mark.exhaustive
@pytest.mark.timeout(120)  # a second if the time is linear; a pattern that goes back over 400,000 characters gets there
def test_linear_time_on_hostile_texts() -> None:
    for unit in ("a", "/", "a/", "1.", '"', "a-", "@", ".a", "1,", "=", "a=", ":", "a:", "\\", "é", "中", "- "):
        text = unit * (400_000 // len(unit))
        find_facts(text, len(text))
        find_rule_sentences(text, len(text))
        find_error_lines(text, len(text))


def test_what_was_read_before_changes_nothing() -> None:
    """What runs were found to be is remembered, within bounds: forgetting it must not show."""
    text = 'at line 4711 of src/a.py:\nport 8443 "in quotes"\nport 9000 and "src/b.py"\nsrc/b.py 0xfeedbeef'
    before = find_facts(text)
    letters = str.maketrans("0123456789", "abcdefghij")
    for first in range(0, 70_000, 10_000):  # 65,536 runs are remembered
        find_facts(" ".join(str(number).translate(letters) for number in range(first, first + 10_000)), 100_000)
        assert find_facts(text) == before
    assert [fact.value for fact in before][:4] == ["4711", "src/a.py", "8443", "9000"]
    assert [fact.context for fact in before if fact.kind == "number"] == ["at line", "port", "port"]
