"""The README's example runs as it is printed, against a scripted model."""

import asyncio
import re
from pathlib import Path
from typing import Any

from tidegate import Session, SummaryRequest
from tidegate.core.events import MessageAdded
from tidegate.core.messages import text_of

README = Path(__file__).parents[1] / "README.md"
MARK = "<!-- run as a test -->"
ROUNDS = 16
RULE = "Never touch main."
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "read_file",
            "description": "Read a file of the project.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        },
    }
]
Json = dict[str, Any]


def example() -> str:
    found = re.findall(re.escape(MARK) + r"\s*```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert len(found) == 1, "exactly one block is marked to be run"
    return str(found[0])


class Scripted:
    """A model that reads a file in each round and then answers; it keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Json] = []

    def __call__(self, **body: Any) -> Json:
        self.asked.append({**body, "messages": list(body["messages"])})
        number = len(self.asked)
        message: Json = {"role": "assistant", "content": "It is the linker."}
        if number <= ROUNDS:
            function = {"name": "read_file", "arguments": f'{{"path": "build/log_{number}.txt"}}'}
            message = {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"call_{number}", "type": "function", "function": function}],
            }
        return {"message": message, "usage": {"prompt_tokens": weight(body), "completion_tokens": 20}}


def weight(body: Json) -> int:
    return len(str(body["messages"])) // 4 + len(str(body["tools"])) // 4


def run_tools(message: Json) -> list[Json]:
    return [
        {"role": "tool", "tool_call_id": call["id"], "content": f"step of {call['id']} took 4.2 s\n" * 200}
        for call in message["tool_calls"]
    ]


def check_requests(asked: list[Json]) -> None:
    """Whole at first, within the window to the end, and always with the words of the user."""
    assert len(asked) == ROUNDS + 1
    for body in asked:
        assert body["model"] == "gpt-4o"
        assert body["tools"]
        assert weight(body) <= 16_000
        assert body["messages"][0]["role"] == "system"
        assert any(RULE in str(message["content"]) for message in body["messages"] if message["role"] == "user")
    assert asked[1]["messages"][:2] == asked[0]["messages"]
    assert ROUNDS * len(run_tools({"tool_calls": [{"id": "call_1"}]})[0]["content"]) > 16_000 * 4, "it had to fit"


def test_the_example_runs() -> None:
    model = Scripted()
    space: Json = {"TOOLS": TOOLS, "model": model, "run_tools": run_tools}
    exec(compile(example(), str(README), "exec"), space)
    check_requests(model.asked)
    session = space["session"]
    assert isinstance(session, Session)
    assert re.search(
        r"of 16,000 tokens, policy default\n  The history has room for [\d,]+ tokens", str(session.explain())
    )
    assert session.edit_counts, "something was done to make it fit"
    told = [text_of(event.payload.message) for event in session.log.read() if isinstance(event.payload, MessageAdded)]
    for number in range(1, ROUNDS + 1):
        assert any(text.startswith(f"step of call_{number} took") for text in told), "nothing was lost"


def test_each_way_in_has_at_most_ten_lines() -> None:
    ways = README.read_text("utf-8").split("## Three ways in\n")[1].split("\n## ")[0]
    blocks = re.findall(r"```\w+\n(.*?)```", ways, re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        assert len([line for line in block.splitlines() if line.strip()]) <= 10


def test_the_same_for_async_code() -> None:
    model = Scripted()
    asked: list[SummaryRequest] = []

    async def summarize(request: SummaryRequest) -> str:
        await asyncio.sleep(0)
        asked.append(request)
        return "The agent read build logs and found nothing slow yet."

    async def loop() -> Session:
        session = Session("gpt-4o", policy="picoclaw", window=16_000, system="You are careful.", tools=TOOLS)
        session.add({"role": "user", "content": f"Find out why the build is slow. {RULE}"})
        while True:
            request = await session.prepare_async(summarize)
            reply = model(**request.body)
            session.add(reply["message"])
            session.record(reply["usage"])
            if not reply["message"].get("tool_calls"):
                return session
            session.add(*run_tools(reply["message"]))

    session = asyncio.run(loop())
    check_requests(model.asked)
    assert asked, "the async summarizer was awaited"
    assert "found nothing slow yet" in str(model.asked[-1]["messages"])
    assert "summarize" in session.edit_counts
