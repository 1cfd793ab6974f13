"""Every kind of history in every dialect: accepted by its validator, with every word still there.

One table of histories (tests/wire/histories.py) against all dialects. Mistral's requests are also put before Mistral's
own validator, for each tokenizer version that takes text and calls together.
"""

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import pytest
from hypothesis import strategies as st

from tests.laws.sampled_law import sampled_law
from tests.wire.bedrock_profile import BEDROCK_PROFILE
from tests.wire.histories import (
    HISTORIES,
    PICTURE,
    REASONING,
    REDACTED,
    SIGNATURE,
    SIGNED,
    TOOLS,
    FakeView,
    Seen,
    view_of,
)
from tidegate.core.messages import (
    Call,
    Image,
    Message,
    Part,
    Result,
    Text,
    Thinking,
    Tool,
    calls_of,
    result_of,
    texts_of,
)
from tidegate.wire.anthropic import validate as check_anthropic
from tidegate.wire.parsing import ParsedRequest, repair_unicode
from tidegate.wire.registry import DIALECTS
from tidegate.wire.rendering.layout import is_blank
from tidegate.wire.request import RequestRenderer

EVERY = pytest.mark.parametrize("dialect", DIALECTS)


def rendered(dialect: str, view: FakeView) -> RequestRenderer:
    rendering = RequestRenderer(dialect, "some-model", max_tokens=8000)
    rendering.update(view)
    return rendering


def strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


def said_in(messages: tuple[Message, ...] | list[Message]) -> list[str]:
    return [repair_unicode(text) for message in messages for text in texts_of(message) if not is_blank(text)]


@EVERY
@pytest.mark.parametrize("tools", [TOOLS, ()], ids=["tools", "no tools"])
def test_the_provider_would_accept_every_history(dialect: str, tools: tuple[Tool, ...]) -> None:
    faults = {name: rendered(dialect, view_of(history, tools)).faults() for name, history in HISTORIES.items()}
    assert {name: found for name, found in faults.items() if found} == {}


def test_bedrock_would_accept_every_history() -> None:
    check = check_anthropic.AnthropicValidator.validate
    bodies = {name: rendered("anthropic", view_of(history)).body() for name, history in HISTORIES.items()}
    assert {name: found for name, body in bodies.items() if (found := check(body, BEDROCK_PROFILE))} == {}


def accept_as_mistral(body: dict[str, Any]) -> None:
    """Raises what Mistral would answer."""
    from mistral_common.protocol.instruct.request import ChatCompletionRequest
    from mistral_common.protocol.instruct.validator import ValidationMode, get_validator
    from mistral_common.tokens.tokenizers.base import TokenizerVersion

    request: ChatCompletionRequest[Any] = ChatCompletionRequest.model_validate(body)
    for version in (TokenizerVersion.v7, TokenizerVersion.v11, TokenizerVersion.v13):
        get_validator(version, ValidationMode.serving).validate_request(request)


@pytest.mark.sdk
def test_mistral_itself_would_accept_every_history() -> None:
    for history in HISTORIES.values():
        accept_as_mistral(rendered("mistral", view_of(history)).body())


@pytest.mark.sdk
def test_mistral_itself_does_refuse() -> None:
    """The oracle is awake: the same request with an id of another shape is refused."""
    body = rendered("mistral", view_of(HISTORIES["one call"])).body()
    messages: Any = body["messages"]
    messages[2]["tool_calls"][0]["id"] = messages[3]["tool_call_id"] = "call_1"
    with pytest.raises(Exception, match="must be a-z, A-Z, 0-9, with a length of 9"):
        accept_as_mistral(body)


@EVERY
def test_every_word_is_there_and_little_else(dialect: str) -> None:
    """We add at most 12 characters a message and two fillers of 28: less than what every count has to spare."""
    for name, history in HISTORIES.items():
        body = rendered(dialect, view_of(history)).body()
        sent = list(strings(body))
        for text in said_in(history.messages):
            assert any(text in each for each in sent), (name, text)
        parsed = DIALECTS[dialect].parse_body(body)
        added = sum(map(len, said_in(parsed.messages))) - sum(map(len, said_in(history.messages)))
        assert added <= 12 * len(history.messages) + 2 * 28, name


# --- pairing ------------------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    arguments: str
    answer: str
    error: bool


def pairs(messages: tuple[Message, ...]) -> list[Pair]:
    """Each call with its answer, by id and occurrence behind the message that called."""
    found: list[Pair] = []
    for place, message in enumerate(messages):
        behind = []
        for later in messages[place + 1 :]:
            if later.role != "tool":
                break
            behind.append(result_of(later))
        for call in calls_of(message):
            result = next(each for each in behind if each is not None and each.call_id == call.id)
            behind.remove(result)
            shown = "".join(part.text for part in result.parts if isinstance(part, Text))
            for place_of_image in ("(img)", "(image)"):
                shown = shown.replace(place_of_image, "")
            found.append(Pair(call.arguments.replace(" ", ""), "".join(shown.split()), error=result.error))
        if message.role == "assistant":
            assert not behind
    return found


def through(dialect: str, parsed: ParsedRequest) -> ParsedRequest:
    view = view_of(parsed.messages)
    view.system, view.tools = parsed.system, parsed.tools
    return DIALECTS[dialect].parse_body(rendered(dialect, view).body())


@EVERY
def test_there_and_back_keeps_every_pair(dialect: str) -> None:
    """A -> neutral -> B -> neutral -> A: the same calls, the same answers. Only Anthropic and Gemini know errors."""
    for history, other in product(HISTORIES.values(), DIALECTS):
        start = through(dialect, ParsedRequest("Be good.", TOOLS[:1], history.messages))
        back = through(dialect, through(other, start))
        assert [pair[:2] for pair in pairs(back.messages)] == [pair[:2] for pair in pairs(start.messages)], history.name
        assert len(pairs(start.messages)) == sum(len(calls_of(message)) for message in history.messages)
        assert (back.system, back.tools) == (start.system, start.tools)
        if {dialect, other} <= {"anthropic", "gemini"}:
            assert pairs(back.messages) == pairs(start.messages)


@EVERY
def test_what_was_read_back_renders_the_same(dialect: str) -> None:
    """Rendering is a projection: its own output, read and rendered again, is a fixed point."""
    for history in HISTORIES.values():
        once = through(dialect, ParsedRequest("", (), history.messages))
        twice = through(dialect, once)
        again = rendered(dialect, view_of(twice.messages)).messages
        assert rendered(dialect, view_of(once.messages)).messages == again, history.name


# --- any history at all -------------------------------------------------------------------------------------------

_IDS = st.sampled_from(["", "a", "call_1", "x y", "i" * 70, "日"])
_TEXT = st.builds(
    Text, st.sampled_from(["", " ", "text", "日本語", "a\n\nb", "\U0001f600"]), st.sampled_from(["", SIGNATURE])
)
_IMAGE = st.sampled_from([PICTURE, Image(), Image(url="https://example.com/a.png")])
_THINKING = st.builds(
    Thinking,
    st.sampled_from(["", "hm"]),
    st.sampled_from(["", SIGNED, "{", "[1]", REASONING, REDACTED, '{"text":3}', '{"type":"text"}']),
)
_CALL = st.builds(
    Call,
    _IDS,
    st.sampled_from(["read", "fs.read", ""]),
    st.sampled_from(["{}", "", "[", '{"a":1}']),
    st.sampled_from(["", "s"]),
)
_RESULT = st.builds(Result, _IDS, st.lists(_TEXT | _IMAGE, max_size=3).map(tuple), st.booleans())
_PARTS: st.SearchStrategy[tuple[Part, ...]] = st.lists(_TEXT | _IMAGE | _THINKING | _CALL | _RESULT, max_size=4).map(
    tuple
)
_MESSAGE = st.builds(
    Message,
    st.sampled_from(["system", "user", "assistant", "tool"]),
    _PARTS,
    st.just("m"),
    origin=st.sampled_from(["", *(dialect.family for dialect in DIALECTS.values())]),
)


@pytest.mark.sdk
@sampled_law(50, 50, st.lists(st.builds(Seen, _MESSAGE, st.just(0), st.booleans()), max_size=12))
def test_any_messages_whatever_are_accepted(items: list[Seen]) -> None:
    """Even those no contract allows: results from the user, calls from a tool, the same message id twice."""
    for dialect in DIALECTS:
        rendering = rendered(dialect, FakeView(items))
        assert rendering.faults() == []
        if dialect == "mistral":
            accept_as_mistral(rendering.body())
