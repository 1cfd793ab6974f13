"""Discovery mode: with many tools the model sees categories and meta-tools, and calls what it finds as any tool."""

import json
import sys
from pathlib import Path

import pytest

from tests.agent.seeds.agent_talk import Json, call, run_agent
from tests.fake.server import Step
from tidegate.agent.loop import ToolFinished, ToolStarted
from tidegate.agent.tools.approval import ApprovalQuestion
from tidegate.models.token_counters import create_counter

pytestmark = pytest.mark.sdk

SERVER = Path(__file__).parent / "mcp_warehouse.py"
META_TOOLS = ["tool_categories", "search_tools", "describe_tool", "call_tool", "recall"]


def with_tools(count: int, more: str = "") -> str:
    server = f'mcp: {{w: {{command: {sys.executable}, args: ["{SERVER}", "{count}"]}}}}'
    return f"policy: digitorn\nwindow: 32000\n{server}\n{more}"


def names(body: Json) -> list[str]:
    return [tool["function"]["name"] for tool in body["tools"]]


def results(talk_body: Json) -> list[str]:
    return [message["content"] for message in talk_body["messages"] if message["role"] == "tool"]


@pytest.mark.seed("DIG-17")
@pytest.mark.parametrize(
    ("count", "setting", "is_discovery"),
    [
        (10, "", False),
        (60, "", True),
        (60, "execution: {tool_mode: direct}", False),
        (10, "execution: {tool_mode: discovery}", True),
        (10, "execution: {max_direct_tools: 12}", True),
    ],
)
def test_the_mode_follows_the_setting_and_the_number_of_tools(
    count: int, setting: str, is_discovery: bool, tmp_path: Path
) -> None:
    talk = run_agent(tmp_path, with_tools(count, setting), ["Hello."], "Hello.")
    (body,) = talk.bodies
    if not is_discovery:
        assert "read" in names(body)
        assert f"w__stock_report_{count // 4 * 4 - 4}" in names(body)
        return
    assert names(body) == META_TOOLS
    shown = json.dumps(body["tools"])
    assert 300 < create_counter("gpt-4o").count_text(shown) < 1_500
    for category in ("filesystem (5)", "stock", "billing", "transport") if count == 60 else ("filesystem (5)", "w ("):
        assert category in shown
    assert "stock_report" not in shown


@pytest.mark.seed("DIG-17")
def test_a_tool_is_found_described_and_called_with_the_usual_approval(tmp_path: Path) -> None:
    asked: list[str] = []

    def answer(question: ApprovalQuestion) -> bool:
        asked.append(f"{question.tool} {question.arguments}")
        return bool(question.arguments["item"] == "bolts")

    report = "w__orders_report_5"
    steps: list[Step] = [
        call("tool_categories", "{}", "c1"),
        call("tool_categories", '{"category": "w/orders"}', "c2"),
        call("search_tools", '{"words": "orders report number 5"}', "c3"),
        call("describe_tool", f'{{"name": "{report}"}}', "c4"),
        call("call_tool", f'{{"name": "{report}", "arguments": {{"item": "bolts"}}}}', "c5"),
        call("call_tool", f'{{"name": "{report}", "arguments": "{{\\"item\\": \\"nuts\\"}}"}}', "c6"),
        call("call_tool", '{"name": "w__order_report_5"}', "c7"),
        call("call_tool", '{"name": "list", "arguments": {}}', "c8"),
        call("call_tool", "{}", "c9"),
        call("search_tools", '{"words": "zeppelin"}', "c10"),
        "Done.",
    ]
    talk = run_agent(tmp_path, with_tools(60), steps, "Orders, please.", ask=answer)
    found = results(talk.bodies[-1])
    assert "w/orders: 15 tools" in found[0]
    assert found[1].count("\n") == 14
    assert found[2].startswith(f"{report}: Report number 5 about orders")
    assert '"item"' in found[3]
    assert found[4] == "orders_report_5 of bolts at depth 1"
    assert found[5] == "The user denied this; it was not run. Ask what they want instead."
    assert "Did you mean w__orders_report_5" in found[6]
    assert "mcp" not in found[7]
    assert "'name' is missing" in found[8]
    assert found[9].startswith("No tool matches these words.")
    assert asked == [f"{report} {{'item': 'bolts'}}", f"{report} {{'item': 'nuts'}}"], "list needs no approval"
    started = [each.call.name for each in talk.events(ToolStarted)]
    assert started[4:8] == [report, report, "w__order_report_5", "list"], "the app shows the tool itself"
    assert [each.result.is_error for each in talk.events(ToolFinished)][4:9] == [False, True, True, False, True]


@pytest.mark.seed("DIG-17")
def test_limits_of_a_turn_count_calls_of_found_tools(tmp_path: Path) -> None:
    steps: list[Step] = [call("call_tool", '{"name": "list"}', f"c{number}") for number in range(9)]
    talk = run_agent(tmp_path, with_tools(60, "execution: {max_steps: 3}"), steps, "List.")
    assert len(talk.bodies) == 3
    assert talk.turns[0][-1].reason == "steps"  # type: ignore[union-attr]


COMPACTING = """
execution:
  tool_mode: MODE
  context: {strategy: truncate, keep_recent: 2, compression_trigger: 0.3, output_reserved: 1000}
"""


@pytest.mark.seed("DIG-06")
@pytest.mark.parametrize("mode", ["direct", "discovery"])
def test_the_reminder_follows_the_mode(mode: str, tmp_path: Path) -> None:
    """What was done, and all tools by name, or their categories and how to find one."""
    (tmp_path / "valves.txt").write_text("Valve four opens at nine bar.")
    steps: list[Step] = [call("read" if mode == "direct" else "call_tool", READ[mode]), "It opens. " * 200]
    steps += [f"Answer {number}. " * 300 for number in range(8)]
    asks = [
        "When does valve four open?",
        *(f"Question {number}: " + "and the next valve? " * 100 for number in range(8)),
    ]
    talk = run_agent(tmp_path, with_tools(0, COMPACTING.replace("MODE", mode)), steps, *asks)
    reminders = [text for body in talk.bodies for text in reminders_of(body)]
    assert reminders
    first, last = reminders[0], reminders[-1]
    assert max(str(body).count("[Context reminder") for body in talk.bodies) == 1, "it replaces the previous one"
    assert "- read x1, last" in first
    assert "- answered: Question" in first
    if mode == "direct":
        offered = names(talk.bodies[-1])
        assert len(offered) > 12
        assert all(f"* {name}" in first or f" {name}," in f"{first}," for name in offered), first
    else:
        assert "filesystem (5)" in last
        assert "search_tools" in last
        assert "call_tool" in last


READ = {
    "direct": '{"path": "valves.txt"}',
    "discovery": '{"name": "read", "arguments": {"path": "valves.txt"}}',
}


def reminders_of(body: Json) -> list[str]:
    texts = [message["content"] for message in body["messages"] if message["role"] == "user"]
    return [text[text.index("[Context reminder") :] for text in texts if "[Context reminder" in text]
