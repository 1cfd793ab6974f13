"""A provider with compaction on demand, in the process: it refuses what the real one would refuse."""

import json
from collections.abc import Callable
from typing import Any

from tests.fake.issued_thinking import IssuedThinking
from tests.fake.on_demand import BETA, OnDemandCompaction
from tests.fake.words import Refusal
from tests.session.noted import REQUEST, write_answer
from tests.session.test_note_writer import wait_for_threads
from tidegate import Session
from tidegate.core.usage import Usage
from tidegate.session.summaries.model_question import CompactingModel, ModelAnswer, ModelQuestion, read_block
from tidegate.wire.anthropic.dialect import DIALECT

Json = dict[str, Any]
MODEL = "claude-opus-5-5"
WINDOW = 24_000
MAX_STEPS = 80
TOOLS = [{"name": "Read", "input_schema": {"type": "object", "properties": {"file_path": {"type": "string"}}}}]
SUMMARY = write_answer(
    [{"why": "to be called", "find": "def step_0_3()", "before": 1, "after": 2}],
    goal=f'- user: "{REQUEST}" [m3]',
    state="- `src/part_0.py` was read [m4, m5]",
)


class RefusedByProvider(Exception):
    """The words of a refusal."""


class Claude:
    """The provider of one conversation. `summary` is what the model writes as a note; a function gets the request."""

    def __init__(self, summary: str | Callable[[Json], str] = SUMMARY, *, model: str = MODEL) -> None:
        self.model = model
        self.issued = IssuedThinking(binds_prefix=DIALECT.binds_prefix(model))
        self.on_demand = OnDemandCompaction(self.issued)
        self.summary = summary
        self.questions: list[Json] = []
        self.sent: list[Json] = []
        self.steps = 0

    def open(self, **options: Any) -> Session:
        made: dict[str, Any] = {
            "window": WINDOW,
            "reserve": 2_000,
            "count": "chars/4",
            "tools": TOOLS,
            "system": "You are a careful engineer.",
            "request_options": {"thinking": {"type": "adaptive"}},
            "summarizer": CompactingModel(self.ask),
        }
        return Session(self.model, **(made | options))

    def judge(self, body: Json, *, beta: str = BETA) -> None:
        head = {key: value for key, value in body.items() if key != "messages"}
        check = DIALECT.create_validator(head, DIALECT.profile_for_model(self.model))
        for message in body["messages"]:
            check.feed(message)
        assert [fault.text for fault in check.finish()] == []
        refused = self.on_demand.judge(body, beta)
        if isinstance(refused, Refusal):
            raise RefusedByProvider(refused.body.decode())
        assert [fault.text for fault in self.issued.find_faults(body)] == []

    def ask(self, question: ModelQuestion) -> ModelAnswer:
        """An answer to the question of a note."""
        body = json.loads(question.to_bytes())
        self.questions.append(body)
        self.judge(body)
        text = self.summary if isinstance(self.summary, str) else self.summary(body)
        if not question.compacts:
            return ModelAnswer(text)
        answer = self.on_demand.answer(body, text, Usage(1_000, 200, 0, 0))
        read = read_block(DIALECT, DIALECT.parse_message({"role": "assistant", "content": answer["content"]}))
        return read._replace(usage=answer["usage"])

    def send(self, session: Session) -> Json:
        """The next request of a session, as it is accepted."""
        body: Json = json.loads(session.prepare().to_bytes())
        self.judge(body)
        self.sent.append(body)
        return body

    def play_step(self, session: Session, lines: int = 40) -> Json:
        """One request, an answer with thinking and a call, and its result."""
        body = self.send(session)
        number, self.steps = self.steps, self.steps + 1
        path = f"src/part_{number}.py"
        content = [
            {"type": "thinking", "thinking": f"I think of {number}.", "signature": f"sig{number}=="},
            {"type": "tool_use", "id": f"toolu_{number}", "name": "Read", "input": {"file_path": path}},
        ]
        self.issued.issue(body, content)
        session.add({"role": "assistant", "content": content})
        text = "\n".join(f"{n}\tdef step_{number}_{n}(): return {number * 1000 + n}" for n in range(lines))
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": text}
        session.add({"role": "user", "content": [result]})
        return body


def list_block_places(body: Json) -> list[tuple[int, int]]:
    """Where a request has compaction blocks."""
    return [
        (place, number)
        for place, message in enumerate(body["messages"])
        for number, block in enumerate(message["content"] if isinstance(message["content"], list) else [])
        if block["type"] == "compaction"
    ]


def count_thinking(body: Json) -> int:
    blocks = [block for message in body["messages"] for block in message["content"] if isinstance(block, dict)]
    return sum(block["type"] == "thinking" for block in blocks)


def play_until_sweep(claude: Claude, session: Session) -> Json:
    """Steps until a sweep. Return the first request after it."""
    before = sum(session.edit_counts.values())
    for _ in range(MAX_STEPS):
        body = claude.play_step(session)
        wait_for_threads()
        if sum(session.edit_counts.values()) > before:
            return body
    raise AssertionError("no sweep was made")
