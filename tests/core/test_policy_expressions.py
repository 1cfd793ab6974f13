"""Expressions: they mean what Python means by them, and any text is a bounded number or refused."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.scale import scaled
from tidegate.core.config.values import MAX_NUMBER, Scalar, SourcePosition, evaluate_number, evaluate_string
from tidegate.core.errors import BadPolicy

HERE = SourcePosition("my.yaml", 1)
NUMBERS: dict[str, Scalar] = {"a": 7, "b": 0.5, "c": -3, "min": 2}

VALUES: dict[str, Scalar] = {
    "$a": 7,
    " ${a} ": 7,
    "$a / 2": 3.5,
    "$a*2/7": 2,
    "-($c) + +1": 4,
    "$c // 2": -2,
    "min(1, $a, .5) * 1_000.": 500,
    "max($min)": 2,
    "$a\n + 1": 8,
    "plain": "plain",
    "3 * 4": "3 * 4",
    "costs $5": "costs $5",
    "$$a": "$a",
    "a: ${a}, ${b} $$": "a: 7, 0.5 $",
    "${a": "${a",
    "": "",
}


def test_values() -> None:
    for text, meant in VALUES.items():
        found = evaluate_string(text, NUMBERS, HERE)
        assert found == meant, text
        assert type(found) is type(meant), text


def test_settings_of_every_type() -> None:
    of_all: dict[str, Scalar] = {"s": "word", "t": True, "n": None, "f": 1.5}
    assert evaluate_string("${s} ${t} ${n} ${f}", of_all, HERE) == "word true null 1.5"
    assert [evaluate_string(f"${name}", of_all, HERE) for name in of_all] == ["word", True, None, 1.5]


def expressions() -> st.SearchStrategy[str]:
    leaves = st.one_of(
        st.integers(0, 50).map(str),
        st.decimals(0, 9, places=2).map(str),
        st.sampled_from([f"${name}" for name in NUMBERS]),
    )

    def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        binary = st.tuples(inner, st.sampled_from(["+", "-", " * ", "/", "//"]), inner).map("".join)
        call = st.tuples(st.sampled_from(["min", "max"]), st.lists(inner, min_size=2, max_size=3)).map(
            lambda made: f"{made[0]}({', '.join(made[1])})"
        )
        return st.one_of(binary, call, inner.map("({})".format), inner.map("-{}".format))

    return st.recursive(leaves, grow, max_leaves=8).filter(lambda text: len(text) <= 200)


@given(expressions())
@settings(max_examples=scaled(100))
def test_expressions_mean_what_python_means(text: str) -> None:
    spelled = text
    for name in sorted(NUMBERS, key=len, reverse=True):
        spelled = spelled.replace(f"${name}", f"({NUMBERS[name]!r})")
    try:
        expected = eval(spelled, {"__builtins__": {}, "min": min, "max": max})
    except ZeroDivisionError:
        with pytest.raises(BadPolicy, match="division by zero"):
            evaluate_number(text, NUMBERS, HERE)
        return
    assert evaluate_number(text, NUMBERS, HERE) == expected


def outcome(text: str) -> int | float | BadPolicy:
    try:
        return evaluate_number(text, NUMBERS, HERE)
    except BadPolicy as bad:
        return bad


@given(st.text(alphabet="$ab0129.+-*/(), minax_{}[]:=<>!&|^%'\"\n\\", max_size=220))
@example("-" * 199 + "1")
@example("9" * 190 + ".5")
@settings(max_examples=scaled(150))
def test_any_text_is_a_bounded_number_or_refused(text: str) -> None:
    found = outcome(text)
    if isinstance(found, BadPolicy):
        assert found.remedy
    else:
        assert type(found) in (int, float)
        assert abs(found) <= MAX_NUMBER


@pytest.mark.parametrize("text", ["(" * 200, "9" * 200, "1" + "*9" * 99, "9**9**9**9", "1 + " * 50 + "1", "__import__"])
def test_what_could_cost_or_do_too_much_is_refused(text: str) -> None:
    assert isinstance(outcome(text), BadPolicy)
