"""Recall shows the arguments of a call as the texts they are: nothing is lost, nothing passes for something else."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.conversations import law
from tidegate import MemoryLog, Session
from tidegate.core.messages import Call, Message, Text, Thinking
from tidegate.session.message_text import lay_out_arguments, render_message_text
from tidegate.session.recall import recall_text

TEXTS = re.compile(r"<(\d+)> [^\n]*, ([\d,]+) characters:\n")


def read_back(shown: str) -> Any:
    """The arguments again, by what the layout says of itself: each text is as long as is said before it."""
    head, _, rest = shown.partition("\n")
    texts: dict[str, str] = {}
    while rest:
        begun = TEXTS.match(rest)
        assert begun is not None, rest[:80]
        end = begun.end() + int(begun[2].replace(",", ""))
        texts[begun[1]] = rest[begun.end() : end]
        rest = rest[end:].removeprefix("\n")
    done = ""
    for piece in re.split(r'("(?:[^"\\]|\\.)*")', head):  # a mark inside a quoted text is no mark
        inside = piece.startswith('"')
        done += piece if inside else re.sub(r"<(\d+)>", lambda mark: json.dumps(texts.pop(mark[1])), piece)
    assert not texts
    return json.loads(done)


VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.text(max_size=40),
        st.sampled_from(['say "x"\n<1> old, 3 characters:\n', "<2>", "a\\b", "\n", "\ud800 alone", "ж\t語"]),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@law(30)
@given(st.dictionaries(st.text(max_size=8), VALUES, max_size=4), st.booleans())
def test_whatever_the_arguments_are_they_can_be_read_back(arguments: dict[str, Any], plain: bool) -> None:
    source = json.dumps(arguments, ensure_ascii=plain)
    assert read_back(lay_out_arguments(source)) == json.loads(source)


def test_a_text_stands_as_it_was_written() -> None:
    old = 'if name == "x":\n\treturn y'
    source = json.dumps({"path": "a.py", "edits": [{"old": old, "all": True}], "limit": 1.50})
    assert lay_out_arguments(source) == (
        '{"path":"a.py","edits":[{"old":<1>,"all":true}],"limit":1.5}\n'
        f"<1> edits[0].old, {len(old)} characters:\n{old}"
    )


@pytest.mark.parametrize(
    "source",
    ['{"at":"x.png"}', '{"a": "b",  "a": 1e3}', "*** Begin Patch\n", '{"a":"\\n"', "[" * 3_000 + '"\\n"', ""],
)
def test_what_needs_no_layout_or_can_have_none_stays_as_it_is(source: str) -> None:
    assert lay_out_arguments(source) == source


def test_numbers_and_keys_stay_as_they_were_written() -> None:
    source = '{"n":1.50e+02,"big":123456789012345678901234567890,"n":NaN,"t":"\\u00e9\\n"}'
    assert lay_out_arguments(source) == (
        '{"n":1.50e+02,"big":123456789012345678901234567890,"n":NaN,"t":<1>}\n<1> t, 2 characters:\né\n'
    )


def test_plain_thinking_is_shown_and_signed_blocks_are_not() -> None:
    said = Message("assistant", (Thinking("I think."), Thinking(block='{"x":1}'), Text("Yes."), Call("c", "go")), "m1")
    assert render_message_text(said) == "## m1 assistant\n\nYes.\n\ncall go {}\n\nthought, 8 characters:\nI think.\n\n"


def test_recall_gives_the_quoted_text_page_by_page() -> None:
    log = MemoryLog()
    old = "".join(f'line {number} says "quoted"\n' for number in range(200))
    call = {"id": "c", "type": "function", "function": {"name": "edit", "arguments": json.dumps({"old": old})}}
    Session(log=log, clock=lambda: 1.0).add({"role": "assistant", "tool_calls": [call]})
    whole = recall_text(log, "m1", max_chars=10**9).text
    assert old in whole
    shown, offset = "", 0
    while True:
        page = recall_text(log, "m1", max_chars=900, offset=offset)
        assert len(page.text) <= 900
        shown += whole[offset : page.next_offset or None]
        assert whole[offset : page.next_offset or None] in page.text
        if not page.next_query:
            break
        offset = page.next_offset
    assert shown == whole
