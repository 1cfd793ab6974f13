"""From a call to a result."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.agent.tools.workshop import make_context
from tidegate import Session
from tidegate.agent.tools.approval import ALLOW_ALL, ApprovalQuestion, ApprovalRules
from tidegate.agent.tools.tool import MAX_RESULT_BYTES, FunctionTool, ToolContext, ToolResult
from tidegate.agent.tools.toolbox import Toolbox, list_standard_tools
from tidegate.core.errors import BadInput
from tidegate.core.messages import Call


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    return make_context(tmp_path)


def run(toolbox: Toolbox, context: ToolContext, name: str, arguments: str) -> ToolResult:
    return asyncio.run(toolbox.run_call(Call("c1", name, arguments), context))


def test_a_call_becomes_a_result(context: ToolContext) -> None:
    (context.workspace / "f").write_text("text\n")
    toolbox = Toolbox(list_standard_tools(), approval=ALLOW_ALL)
    assert run(toolbox, context, "read", '{"path": "f"}').text == "1\ttext"
    assert not run(toolbox, context, "write", '{"path": "g", "text": "x"}').is_error
    assert run(toolbox, context, "read", '{"path": "f"').is_error
    unknown = run(toolbox, context, "raed", "{}")
    assert unknown.is_error
    assert "Did you mean 'read'?" in unknown.text


def test_a_name_twice_is_refused() -> None:
    with pytest.raises(BadInput, match="two tools with the name"):
        Toolbox([*list_standard_tools(), *list_standard_tools()])


class Asked:
    """A person who answers from a list."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.questions: list[ApprovalQuestion] = []

    async def __call__(self, question: ApprovalQuestion) -> bool:
        self.questions.append(question)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return bool(answer)


def test_what_is_asked_is_done_only_if_agreed(context: ToolContext) -> None:
    person = Asked(False, True, OSError("gone"))
    toolbox = Toolbox(list_standard_tools(), ask=person)
    write = '{"path": "f", "text": "x"}'
    assert "user denied" in run(toolbox, context, "write", write).text
    assert not (context.workspace / "f").exists()
    assert not run(toolbox, context, "write", write).is_error
    (context.workspace / "f").unlink()
    assert "could not be asked (OSError)" in run(toolbox, context, "write", write).text
    assert not (context.workspace / "f").exists()
    assert person.questions[0] == ApprovalQuestion("write", {"path": "f", "text": "x"}, "no rule allows or denies it")


def test_what_is_denied_is_not_done_and_not_asked(context: ToolContext) -> None:
    person = Asked()
    toolbox = Toolbox(list_standard_tools(), approval=ApprovalRules(verdicts={"write": "deny"}), ask=person)
    assert "Denied by the rule for write" in run(toolbox, context, "write", '{"path": "f", "text": "x"}').text
    nobody = Toolbox(list_standard_tools())
    assert "nobody is there to ask" in run(nobody, context, "shell", '{"command": "touch f"}').text
    assert not (context.workspace / "f").exists()
    assert person.questions == []


class Nothing(msgspec.Struct):
    pass


@pytest.mark.seed("JUT-04", fixed="the toolbox caps before any preset sees the result")
def test_results_and_errors_are_capped(context: ToolContext) -> None:
    class Stranger:
        """A tool that is not built as ours are."""

        tool = FunctionTool("x", "", Nothing, None).tool  # type: ignore[arg-type]
        runs_in_parallel = False

        async def __call__(self, arguments: Any, context: ToolContext) -> ToolResult:
            if arguments:
                raise RuntimeError("e" * 100_000)
            return ToolResult("v" * 100_000)

    toolbox = Toolbox([Stranger()], approval=ALLOW_ALL)
    for arguments, error in (("{}", False), ('{"a": 1}', True)):
        result = run(toolbox, context, "x", arguments)
        assert result.is_error is error
        assert 64 * 1024 - 200 < len(result.text.encode()) <= 64 * 1024


def test_the_compact_form_costs_less_and_means_the_same() -> None:
    toolbox = Toolbox(list_standard_tools())
    full, compact = (Session("gpt-4o", tools=toolbox.definitions(compact=small)) for small in (False, True))
    assert [tool.name for tool in compact.view.tools] == list(toolbox.tools)
    assert compact.view.fixed_tokens < 0.75 * full.view.fixed_tokens
    for one, other in zip(full.view.tools, compact.view.tools, strict=True):
        wide, narrow = (msgspec.json.decode(tool.parameters) for tool in (one, other))
        assert list(wide["properties"]) == list(narrow["properties"])
        assert wide.get("required") == narrow.get("required")
        assert "description" not in str(narrow.get("properties"))
    assert full.view.fixed_tokens < 800


READING = ["read", "list", "grep", "edit", "write", "recall", "compact", "memory_search"]
FIELDS = ["path", "offset", "limit", "old", "new", "text", "what", "words", "depth", "char"]
VALUES = (
    st.none() | st.booleans() | st.integers(-5, 10**12) | st.text(max_size=20) | st.lists(st.integers(), max_size=2)
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    st.sampled_from(READING[:2] + READING[3:]) | st.text(max_size=9),
    st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=4).map(lambda each: msgspec.json.encode(each).decode())
    | st.text(max_size=20),
)
def test_no_call_raises(context: ToolContext, name: str, arguments: str) -> None:
    result = run(Toolbox(list_standard_tools(), approval=ALLOW_ALL), context, name, arguments)
    assert result.text
    assert len(result.text.encode()) <= MAX_RESULT_BYTES
