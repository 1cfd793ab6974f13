"""Counting: every part has a cost, sums are bounds, estimates hold against exact counts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.token_texts import texts
from tests.scale import scaled
from tidegate.core.errors import BadPolicy
from tidegate.core.events import Event, MessageAdded
from tidegate.core.messages import Call, Image, Message, Part, Result, Text, Thinking, Tool, user_message
from tidegate.core.tokens.counting import (
    LABEL_OVERHEAD,
    MESSAGE_OVERHEAD,
    TOOL_OVERHEAD,
    UNKNOWN_IMAGE_TOKENS,
    CharsPerToken,
    TokenEstimator,
    calibrate_ratio,
    count_image,
    count_message,
    count_system,
    count_tools,
    is_plausible_report,
    make_policy_meter,
    parse_chars_counter,
)
from tidegate.core.view import LogView
from tidegate.models.token_counters import ExactCounter

FOUR = CharsPerToken(4)
anything = st.text(st.characters(codec=None), max_size=60)  # lone surrogates too
parts: st.SearchStrategy[Part] = st.one_of(
    anything.map(Text),
    anything.map(lambda text: Thinking(text=text)),
    anything.map(lambda text: Thinking(block=text)),
    st.tuples(anything, anything).map(lambda pair: Call("c1", pair[0], pair[1])),
    st.lists(anything.map(Text), max_size=3).map(lambda inner: Result("c1", tuple(inner))),
    st.tuples(st.integers(0, 9000), st.integers(0, 9000)).map(lambda size: Image(width=size[0], height=size[1])),
)


def error(seed: int, kind: str) -> float:
    text = texts(seed)[kind]
    return TokenEstimator().count_text(text) / ExactCounter("o200k_base").count_text(text) - 1


@pytest.mark.parametrize("kind", list(texts(0)))
def test_estimate_holds_against_the_exact_count(kind: str) -> None:
    """Never under by more than 10 % on the mean of a kind, never over by more than 35 %."""
    errors = [error(seed, kind) for seed in range(6)]
    mean = sum(errors) / len(errors)
    assert -0.10 <= mean <= 0.35, f"{kind}: {mean:+.1%}"


def test_estimate_sees_what_characters_by_four_do_not() -> None:
    for kind in ("log", "hex", "base64", "chinese", "emoji"):
        text = texts(1)[kind]
        exact = ExactCounter("o200k_base").count_text(text)
        assert FOUR.count_text(text) < 0.6 * exact
        assert TokenEstimator().count_text(text) >= 0.9 * exact


def test_estimate_of_thai_is_that_of_other_scripts_with_letters_of_three_bytes() -> None:
    thai, georgian = "\u0e01" * 100, "\u10d0" * 100
    assert TokenEstimator().count_text(thai) == TokenEstimator().count_text(georgian)


@settings(max_examples=scaled(50))
@given(anything, anything)
def test_estimate_never_falls_when_text_is_added(one: str, two: str) -> None:
    assert TokenEstimator().count_text(one + two) >= TokenEstimator().count_text(one)
    assert (TokenEstimator().count_text(one) == 0) == (one == "")


@pytest.mark.timeout(120)  # a tenth of a second if the time is linear
def test_estimate_of_a_huge_text_is_that_of_its_parts() -> None:
    text = texts(3)["english"]
    huge = text * 500
    assert len(huge) > 1_500_000
    assert TokenEstimator().count_text(huge) == pytest.approx(500 * TokenEstimator().count_text(text), rel=0.01)


@settings(max_examples=scaled(50))
@given(
    st.lists(parts, max_size=6),
    st.sampled_from(["system", "user", "assistant", "tool"]),
    st.sampled_from([1, 3, 4, 7.5]),
)
def test_chars_per_bounds_the_characters_of_a_message(some: list[Part], role: str, n: float) -> None:
    message = Message(role, tuple(some))  # type: ignore[arg-type]
    total = images = 0
    for part in some:
        if isinstance(part, Text):
            total += len(part.text)
        elif isinstance(part, Call):
            total += len(part.name) + len(part.arguments)
        elif isinstance(part, Result):
            total += sum(len(inner.text) for inner in part.parts if isinstance(inner, Text))
        images += isinstance(part, Image)
    assert count_message(message, CharsPerToken(n)) >= total / n + UNKNOWN_IMAGE_TOKENS * images


@settings(max_examples=scaled(50))
@given(st.lists(parts, max_size=5), parts, st.booleans())
def test_a_part_more_never_costs_less(some: list[Part], more: Part, thinking: bool) -> None:
    for counter in (FOUR, TokenEstimator()):
        before = count_message(Message("assistant", tuple(some)), counter, thinking=thinking)
        assert count_message(Message("assistant", (*some, more)), counter, thinking=thinking) >= before


def test_what_a_message_costs() -> None:
    assert count_message(user_message("abcd" * 5), FOUR) == MESSAGE_OVERHEAD + 5
    assert count_message(Message("system", (Text("abcd"),)), FOUR) == MESSAGE_OVERHEAD + LABEL_OVERHEAD + 1
    call = Message("assistant", (Text("ok"), Call("id", "read", '{"a":1}')))
    assert count_message(call, FOUR) == MESSAGE_OVERHEAD + 1 + 1 + 2
    assert (
        count_message(Message("tool", (Result("id", (Text("abcdefgh"), Image())),)), FOUR)
        == MESSAGE_OVERHEAD + 2 + UNKNOWN_IMAGE_TOKENS
    )
    assert count_message(Message("assistant", (Text("ab", opaque="x" * 40),)), FOUR) == MESSAGE_OVERHEAD + 1 + 10


def test_thinking() -> None:
    plain = Message("assistant", (Thinking(text="a" * 40),))
    assert count_message(plain, FOUR) == MESSAGE_OVERHEAD
    assert count_message(plain, FOUR, thinking=True) == MESSAGE_OVERHEAD + 10
    block = Message("assistant", (Thinking(block='{"signature":"' + "b" * 40 + '"}'),))
    assert count_message(block, FOUR) == MESSAGE_OVERHEAD + 14


@pytest.mark.parametrize(
    ("width", "height", "tokens"),
    [
        (0, 0, 1200),
        (1, 1, 255),
        (512, 512, 350),  # Anthropic
        (1000, 1000, 1334),
        (1024, 1024, 1399),
        (2048, 4096, 4424),
        (20_000, 20_000, 4784),
        (100_000, 1, 765),
    ],
)
def test_images_by_pixels(width: int, height: int, tokens: int) -> None:
    assert count_image(Image(width=width, height=height)) == tokens
    assert count_image(Image(data="A" * 3_000_000, width=width, height=height)) == tokens


@settings(max_examples=scaled(50))
@given(st.integers(1, 50_000), st.integers(1, 50_000))
def test_images_are_bounded(width: int, height: int) -> None:
    assert 85 <= count_image(Image(width=width, height=height)) <= 5000
    assert count_image(Image(width=width, height=height)) == count_image(Image(width=height, height=width))


def test_an_image_that_says_its_size_only_in_its_data() -> None:
    dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    assert count_image(Image(data=dot)) == count_image(Image(width=1, height=1))
    assert count_message(Message("user", (Image(data=dot),)), FOUR) == MESSAGE_OVERHEAD + UNKNOWN_IMAGE_TOKENS


def test_tools_and_system() -> None:
    tool = Tool("read", "abcd" * 3, '{"type":"object"}')
    assert count_tools([tool, tool], FOUR) == 2 * (TOOL_OVERHEAD + 1 + 3 + 5)
    assert count_tools([], FOUR) == 0
    assert count_system("", FOUR) == 0
    assert count_system("abcde", FOUR) == MESSAGE_OVERHEAD + 2


def test_document_meter_rounds_once_and_knows_no_overhead() -> None:
    measure = make_policy_meter("chars/4")
    call = Call("id", "abc", "de")
    assert measure(Message("assistant", (Text("a"), Thinking(text="bc"), call))) == 2
    assert measure(Message("tool", (Result("id", (Text("abcde"), Image())),))) == 2 + 1200
    assert measure(Message("user")) == 0
    assert make_policy_meter("chars/2.5")(user_message("abcde")) == 2


@pytest.mark.parametrize("name", ["chars/0", "chars/-1", "chars/x", "chars/", "chars/nan", "chars/inf", "words"])
def test_bad_estimators_are_named(name: str) -> None:
    with pytest.raises(BadPolicy, match="chars"):
        make_policy_meter(name)


def test_chars_counter_names() -> None:
    counter = parse_chars_counter("chars/4")
    assert counter is not None
    assert counter.name == "chars/4"
    assert parse_chars_counter("exact") is None


def test_calibration_follows_reports_and_ignores_implausible_ones() -> None:
    ratio = 1.0
    for _ in range(12):
        ratio = calibrate_ratio(ratio, 1000, 1600)
    assert ratio == pytest.approx(1.6, abs=0.01)
    for counted, reported in ((1000, 0), (0, 500), (1000, 499), (1000, 4001), (1000, -5)):
        assert not is_plausible_report(counted, reported)
        assert calibrate_ratio(ratio, counted, reported) == ratio
    assert is_plausible_report(1000, 500)
    assert is_plausible_report(1000, 4000)
    assert calibrate_ratio(1.0, 1000, 1500) - 1.0 > 1.0 - calibrate_ratio(1.0, 1000, 500)  # up faster than down


@settings(max_examples=scaled(50))
@given(st.floats(0.5, 3.0), st.integers(0, 10**6), st.integers(0, 10**7))
def test_calibration_is_clamped(ratio: float, counted: int, reported: int) -> None:
    assert 0.5 <= calibrate_ratio(ratio, counted, reported) <= 3.0


def test_a_count_that_is_impossible_for_its_length_is_counted_again() -> None:
    messages = [user_message("word " * 1_000), user_message("short")]
    view = LogView()
    for seq, (message, stored) in enumerate(zip(messages, (3, 7), strict=True), start=1):
        view.fold(Event(seq, 0.0, MessageAdded(message, stored)))
    assert view.tokens == 10
    view.recount(FOUR, thinking=False)
    assert [item.tokens for item in view.items] == [count_message(messages[0], FOUR, thinking=False), 7]
    assert view.tokens == sum(item.tokens for item in view.items)
