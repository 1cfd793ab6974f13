"""Arguments as models write them."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from tests.agent.tools.workshop import make_context, use
from tidegate.agent.tools.arguments import (
    build_arguments_schema,
    convert_arguments,
    parse_tool_arguments,
    strip_descriptions,
)
from tidegate.agent.tools.tool import MAX_RESULT_BYTES, FunctionTool, ToolContext, ToolResult
from tidegate.agent.tools.toolbox import list_standard_tools
from tidegate.core.errors import BadInput
from tidegate.wire.registry import parse_tools


class Asked(msgspec.Struct):
    path: str
    limit: Annotated[int, Meta(ge=1, description="lines")] = 5
    description: str = ""


def test_the_schema_has_what_a_model_needs_and_no_more() -> None:
    assert msgspec.json.decode(build_arguments_schema(Asked)) == {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "limit": {"type": "integer", "minimum": 1, "description": "lines"},
            "description": {"type": "string"},
        },
        "required": ["path"],
    }


def test_a_schema_without_words_keeps_an_argument_of_that_name() -> None:
    bare = msgspec.json.decode(strip_descriptions(build_arguments_schema(Asked)))
    assert list(bare["properties"]) == ["path", "limit", "description"]
    assert bare["properties"]["limit"] == {"type": "integer"}


def test_numbers_may_come_as_text_and_nothing_is_a_default() -> None:
    assert convert_arguments(Asked, {"path": "a", "limit": "7"}) == Asked("a", 7)
    assert convert_arguments(Asked, {"path": "a", "limit": None}) == Asked("a", 5)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"pth": "a"}, "no argument 'pth'; did you mean 'path'? The arguments are: path, limit, description."),
        ({"Limit": 1, "path": "a"}, "did you mean 'limit'"),
        ({"zzz": 1}, "no argument 'zzz'. The arguments are"),
        ({}, "'path' is missing"),
        ({"path": None}, "path"),
        ({"path": 3}, "path"),
        ({"path": "a", "limit": 0}, ">= 1"),
        ({"path": "a", "limit": "many"}, "limit"),
    ],
)
def test_what_is_wrong_is_named(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput) as raised:
        convert_arguments(Asked, arguments)
    assert says in str(raised.value)


@pytest.mark.parametrize("text", ['{"a": ', "[1]", "3", "null", '{"a": "\ud800"}', "[" * 100_000])
def test_broken_json_is_refused_with_words(text: str) -> None:
    with pytest.raises(BadInput) as raised:
        parse_tool_arguments(text)
    assert "JSON" in str(raised.value)


def test_no_text_is_no_arguments() -> None:
    assert parse_tool_arguments("  ") == {}
    assert parse_tool_arguments('{"a": 1}') == {"a": 1}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["path", "limit", "description", "x"]) | st.text(), JSON, max_size=4))
def test_any_object_is_read_or_refused(arguments: dict[str, Any]) -> None:
    try:
        read = convert_arguments(Asked, arguments)
    except BadInput:
        return
    assert read.limit >= 1


def test_the_tools_are_tools_for_every_provider() -> None:
    tools = list_standard_tools()
    assert len(parse_tools([tool.tool for tool in tools])) == len(tools)


def test_an_error_nobody_foresaw_is_a_bounded_result(tmp_path: Path) -> None:
    async def act(asked: Asked, context: ToolContext) -> ToolResult:
        raise KeyError("x" * 200_000)

    result = use(FunctionTool("odd", "", Asked, act), make_context(tmp_path), path="a")
    assert result.is_error
    assert "KeyError" in result.text
    assert len(result.text.encode()) <= MAX_RESULT_BYTES


def test_a_cancellation_passes(tmp_path: Path) -> None:
    async def act(asked: Asked, context: ToolContext) -> ToolResult:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        use(FunctionTool("odd", "", Asked, act), make_context(tmp_path), path="a")


def test_a_result_is_capped_and_valid_text(tmp_path: Path) -> None:
    async def act(asked: Asked, context: ToolContext) -> ToolResult:
        return ToolResult("a\ud800" + "é" * 100_000)

    text = use(FunctionTool("odd", "", Asked, act), make_context(tmp_path), path="a").text
    assert len(text.encode()) <= MAX_RESULT_BYTES
    assert "left out" in text
