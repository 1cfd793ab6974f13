"""Cuts: within the limit for every text, never through a character, JSON stays JSON."""

import json
import unicodedata
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.token_texts import texts
from tests.scale import scaled
from tidegate.core.text.clip import (
    CLIP_NOTICE,
    ClippedText,
    clip_bytes,
    clip_chars,
    clip_lines,
    clip_tokens,
    cut_json_array,
    shrink_json,
)
from tidegate.core.tokens.counting import CharsPerToken, TokenCounter, TokenEstimator
from tidegate.models.token_counters import create_counter

# Every index of these is tried as a limit: accents, joined and coloured emoji, flags, RTL, jamo, CJK, CRLF.
HARD = [
    "e\u0301a\u0308o\u0302\u0323" * 8,
    "👩‍👩‍👧‍👦👍🏽🏳️‍🌈❤️☎️" * 4,
    "🇩🇪🇯🇵🇧🇷🇫🇷🇮🇹" * 4,
    "שָׁלוֹם عَرَبِيّ " * 5,
    "한국어 각 텍스트" * 4,
    "日本語テキスト、漢字かな交じり文。" * 3,
    "line one\r\nline two\r\n" * 4,
    "plain ascii text " * 5,
    "\ud83d\ude00\ud83d\ude01" * 8,
]
COUNTERS: list[TokenCounter] = [
    create_counter("gpt-4o"),
    create_counter("claude-opus-5"),
    TokenEstimator(),
    CharsPerToken(4),
]
anything = st.text(st.characters(codec=None), max_size=400)
modes = st.sampled_from(["head", "head_tail"])


def whole_characters(text: str) -> bool:
    """No piece begins with something that belongs to what was before it."""
    return not text or not (
        unicodedata.combining(text[0]) or text[0] in "\u200d\ufe0f" or "\udc00" <= text[0] <= "\udfff"
    )


@pytest.mark.parametrize("mode", ["head", "head_tail"])
def test_every_limit_in_characters(mode: str) -> None:
    for text, notice in product(HARD, ("", "~")):
        for limit in range(len(text) + 2):
            done = clip_chars(text, limit, mode=mode, notice=notice)  # type: ignore[arg-type]
            assert len(done.text) <= limit
            assert done.cut == (limit < len(text))
            if done.cut:
                head, _, tail = done.text.partition("~") if notice else (done.text, "", "")
                assert len(head) + len(tail) + done.chars_left_out == len(text) or not notice
                assert text.startswith(head) or not notice
                assert text.endswith(tail)


def test_cuts_fall_between_characters() -> None:
    for text in HARD:
        for limit in range(16, len(text)):
            done = clip_chars(text, limit, mode="head", notice="")
            assert done.text
            assert whole_characters(text[len(done.text) :]), (limit, done.text)
            tail = clip_chars(text, limit, notice="~").text.partition("~")[2]
            assert whole_characters(tail), (limit, tail)


def test_flags_are_not_recombined() -> None:
    flags = "🇩🇪🇯🇵🇧🇷🇫🇷" * 5
    for limit in range(4, len(flags)):
        assert len(clip_chars(flags, limit, mode="head", notice="").text) % 2 == 0


@settings(max_examples=scaled(60))
@given(anything, st.integers(0, 500), modes)
def test_characters(text: str, limit: int, mode: str) -> None:
    done = clip_chars(text, limit, mode=mode)  # type: ignore[arg-type]
    assert len(done.text) <= max(limit, 0)
    assert done.cut == (len(text) > limit)
    if not done.cut:
        assert done == ClippedText(text)


@pytest.mark.parametrize("mode", ["head", "head_tail"])
def test_every_limit_in_bytes(mode: str) -> None:
    for text in HARD:
        size = len(text.encode("utf-8", "surrogatepass"))
        for limit in range(size + 2):
            done = clip_bytes(text, limit, mode=mode, notice="…")  # type: ignore[arg-type]
            assert len(done.text.encode("utf-8", "surrogatepass")) <= limit
            assert done.cut == (limit < size)


@settings(max_examples=scaled(60))
@given(anything, st.integers(0, 900), modes)
def test_bytes(text: str, limit: int, mode: str) -> None:
    done = clip_bytes(text, limit, mode=mode)  # type: ignore[arg-type]
    assert len(done.text.encode("utf-8", "surrogatepass")) <= limit
    assert done.cut == (len(text.encode("utf-8", "surrogatepass")) > limit)


@pytest.mark.parametrize("counter", COUNTERS, ids=lambda counter: counter.name)
def test_every_limit_in_tokens(counter: TokenCounter) -> None:
    for text, mode in product(HARD, ("head", "head_tail")):
        for limit in range(counter.count_text(text) + 2):
            done = clip_tokens(text, limit, counter, mode=mode, notice=" ~ ")  # type: ignore[arg-type]
            assert counter.count_text(done.text) <= limit
            assert done.cut == (limit < counter.count_text(text))


@settings(max_examples=scaled(60))
@given(anything, st.integers(0, 300), modes, st.sampled_from(COUNTERS))
def test_tokens(text: str, limit: int, mode: str, counter: TokenCounter) -> None:
    done = clip_tokens(text, limit, counter, mode=mode)  # type: ignore[arg-type]
    assert counter.count_text(done.text) <= limit
    if not done.cut:
        assert done.text == text


@pytest.mark.parametrize("counter", COUNTERS, ids=lambda counter: counter.name)
def test_tokens_are_used_up(counter: TokenCounter) -> None:
    """A bound that is kept by throwing everything away is no use: at least nine tenths of it are filled."""
    for (kind, part), limit in product(texts(5).items(), (100, 500)):
        text = part * 8
        done = clip_tokens(text, limit, counter)
        assert 0.9 * limit <= counter.count_text(done.text) <= limit, kind
        assert "left out" in done.text
        assert text.startswith(done.text.partition("\n[... ")[0])


def test_huge_texts_are_not_counted_whole() -> None:
    class Careful:
        name = "careful"

        def count_text(self, text: str) -> int:
            assert len(text) < 1_000_000
            return len(text) // 2 + 1

    assert clip_tokens("x" * 5_000_000, 100, Careful()).cut


def test_notice_says_what_is_missing() -> None:
    text = "\n".join(f"line {number}" for number in range(1000))
    done = clip_chars(text, 400)
    assert done.chars_left_out > 0
    assert f"{done.chars_left_out:,} characters, {done.lines_left_out:,} lines left out" in done.text
    head, _, rest = done.text.partition("\n[... ")
    tail = rest.partition("left out ...]\n")[2]
    assert len(head) + len(tail) + done.chars_left_out == len(text)
    assert text[len(head) : len(text) - len(tail)].count("\n") == done.lines_left_out
    assert done.text.startswith("line 0\n")
    assert done.text.endswith("line 999")


def test_a_limit_too_small_for_the_notice_is_a_bare_cut() -> None:
    assert clip_chars("abcdefghij" * 10, 12) == ClippedText("abcdefghijab", cut=True, chars_left_out=88)
    assert clip_chars("abc", 0) == ClippedText("", cut=True, chars_left_out=3)
    assert clip_chars("abc", -5).text == ""


@pytest.mark.parametrize("ending", ["", "\n"])
def test_lines(ending: str) -> None:
    text = "\n".join(f"l{number}" for number in range(10)) + ending
    for limit in range(10):
        for mode in ("head", "head_tail"):
            done = clip_lines(text, limit, mode=mode)
            lines = done.text.splitlines()
            assert len(lines) == limit
            assert done.cut
            assert ("left out" in done.text) == (limit >= 4)
            kept = len(lines) - (limit >= 4)
            assert done.lines_left_out == 10 - kept
            if mode == "head_tail" and limit >= 2:
                assert (lines[0].removesuffix(" [...]"), lines[-1]) == ("l0", "l9")
                assert (" [...]" in done.text) == (limit < 4), "a gap is always marked"
    assert clip_lines(text, 10) == ClippedText(text)
    assert clip_lines("", 0) == ClippedText("")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | anything,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=12), inner, max_size=6),
    max_leaves=10,
)


@settings(max_examples=scaled(30))
@given(st.dictionaries(st.text(max_size=12), values, max_size=8), st.integers(0, 300), st.booleans())
def test_shrunk_arguments_are_an_object_within_the_limit(value: dict[str, object], limit: int, pretty: bool) -> None:
    text = json.dumps(value, indent=1 if pretty else None)
    done = shrink_json(text, limit)
    assert len(done) <= max(limit, 2)
    assert isinstance(json.loads(done), dict)
    done.encode()
    if len(text) <= limit:
        assert done == text


@settings(max_examples=scaled(60))
@given(anything, st.integers(2, 200))
def test_broken_arguments_become_an_object(text: str, limit: int) -> None:
    done = shrink_json(text, limit)
    assert len(done) <= limit
    assert isinstance(json.loads(done), dict)


def test_longest_strings_go_first_and_keys_stay() -> None:
    value = {"path": "/a/b.py", "content": "x" * 5000, "note": "y" * 300, "mode": 7}
    done = json.loads(shrink_json(json.dumps(value), 500))
    assert list(done) == list(value)
    assert done["path"] == "/a/b.py"
    assert done["mode"] == 7
    assert done["content"].endswith("…[5000 chars]")
    assert len(json.dumps(done)) > 400
    least = json.loads(shrink_json(json.dumps(value), 90))
    assert set(least) == set(value)


def test_lists_are_shortened_and_nan_is_no_json() -> None:
    done = shrink_json(json.dumps({"items": list(range(10_000)), "n": 1}), 100)
    assert json.loads(done)["items"][-1].endswith("more]")
    assert json.loads(done)["n"] == 1
    assert "NaN" in shrink_json('{"a": NaN}', 50)
    assert json.loads(shrink_json('{"a": NaN}', 50)) == {"a": "NaN"}
    deep = '{"a":' * 5000 + "1" + "}" * 5000
    assert isinstance(json.loads(shrink_json(deep, 100)), dict)


@settings(max_examples=scaled(30))
@given(st.lists(values, min_size=1, max_size=8), st.integers(1, 300), st.sampled_from([None, 2]))
def test_json_array_keeps_its_first_items(value: list[object], limit: int, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    cut = cut_json_array(text, lambda some: len(some) <= limit)
    if cut is None:
        assert len(json.dumps(value[:1], indent=indent)) > limit - 2
        return
    assert cut.total == len(value)
    assert json.loads(cut.text) == value[: cut.shown]
    assert len(cut.text) <= limit
    if cut.shown < cut.total:
        assert text.startswith(cut.text[:-1])


@settings(max_examples=scaled(30))
@given(st.lists(values, min_size=1, max_size=8), st.integers(1, 400), st.sampled_from([None, 2]))
def test_json_array_in_an_object_keeps_its_first_items(value: list[object], limit: int, indent: int | None) -> None:
    """The largest value of the object, however deep; the rest stays as it is."""
    whole = {"query": "x", "page": {"results": [*value, "y" * 80], "total": 99}, "next": None}
    text = json.dumps(whole, indent=indent)
    cut = cut_json_array(text, lambda some: len(some) <= limit)
    if cut is None:
        return
    found = json.loads(cut.text)
    assert found["page"]["results"] == [*value, "y" * 80][: cut.shown]
    assert (found["query"], found["page"]["total"], found["next"], cut.total) == ("x", 99, None, len(value) + 1)
    assert len(cut.text) <= limit


@pytest.mark.parametrize("text", ["", "[", "[]", "[1,2", "[1,]", '{"a":1}', "[1] x", "null", "[1,,2]", "[" * 5000])
def test_what_is_no_array(text: str) -> None:
    assert cut_json_array(text, lambda some: False) is None


def test_default_notice_has_both_numbers() -> None:
    assert "{chars}" in CLIP_NOTICE
    assert "{lines}" in CLIP_NOTICE


def test_arguments_that_fit_stay_as_they_are_whatever_their_keys() -> None:
    text = '{"Infinity": null, "NaN": "-Infinity"}'
    assert shrink_json(text, 100) == text
    assert json.loads(shrink_json('{"a": NaN}', 100)) == {"a": "NaN"}
