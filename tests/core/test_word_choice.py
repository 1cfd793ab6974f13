"""A choice that shares first letters matches what the plain choice matches."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.text.user_rules import find_rules
from tidegate.core.text.word_choice import join_by_first_letter

CHOICES = (
    r"must|mustn't|never|no longer|needs? to|nie wolno",
    r"(?:is|are|be) (?:strictly )?(?:forbidden|required)|(?:under|in) no case",
    r"debe[ns]?|долж[а-я]+|a?b|[ck]at|(?:x|y)?z|\\d+ more",
)
PIECES = (
    "must",
    "n't",
    "never",
    "no",
    " longer",
    "need",
    "s",
    " to",
    "nie",
    " wolno",
    "is ",
    "are ",
    "be ",
    "strictly ",
)
MORE = (
    "forbidden",
    "required",
    "under",
    "in",
    " no case",
    "debe",
    "n",
    "долж",
    "ен",
    "a",
    "b",
    "cat",
    "z",
    "7",
    " more",
    " ",
)


@given(st.lists(st.sampled_from(PIECES + MORE), max_size=8).map("".join))
def test_it_matches_what_the_plain_choice_matches(text: str) -> None:
    plain = re.compile(rf"\b(?=\w)(?:{'|'.join(CHOICES)})\b")
    joined = re.compile(rf"\b(?=\w)(?:{join_by_first_letter(CHOICES)})\b")
    assert bool(joined.search(text)) == bool(plain.search(text))


@pytest.mark.parametrize(
    "sentence",
    [
        "Fix the build, never touch main.",
        "The tests are green; always run them first.",
        "It is urgent: do not rewrite the parser.",
        "Look at the log and don't delete it.",
        "Look at the log, please don’t delete it.",
        "One more thing, dont forget the changelog.",
        "By the way, remember the deadline.",
        "Fine, note that port 8080 is taken.",
        "While you are there, keep in mind that users read this.",
        "Well, bear in mind that users read this.",
    ],
)
def test_rules_after_a_stop_are_found(sentence: str) -> None:
    """They begin inside a sentence, so the quick look at its words must let them through."""
    assert find_rules(sentence)
