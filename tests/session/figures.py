"""A policy of our own and the words of a conversation, for the tests of figures: no preset's change moves them."""

from tidegate import Message, Policy, Session
from tidegate.core.messages import Call, Result, Text
from tidegate.core.policy.parser import parse_policy
from tidegate.core.stages import STAGES

OWN = """
name: own
settings: {clear_at: 0.85, summarize_at: 0.92, ledger: 0.08}
reserve: 4096
moments:
  tool_result:
    - {stage: cap_result, share: 0.25}
  before_call:
    - {stage: clear_results, when: {pressure: "> $clear_at"}, keep: 2, least: 60}
    - {stage: summarize, when: {pressure: "> $summarize_at"}, keep_share: 0.5, max_tokens: 500}
  overflow:
    - {stage: summarize, keep_share: 0.25, max_tokens: 500}
  manual:
    - {stage: summarize, keep_turns: 1, max_tokens: 500}
"""


def own_policy() -> Policy:
    return parse_policy(OWN, source="own.yaml", stages=STAGES)


def step(number: int, *tools: str, size: int = 200) -> list[Message]:
    """An answer that calls these tools, and their results."""
    calls = tuple(Call(f"c{number}.{place}", tool, '{"path": "a.py"}') for place, tool in enumerate(tools))
    results = [Message("tool", (Result(call.id, (Text("word " * size),)),), kind="tool_result") for call in calls]
    return [Message("assistant", (Text("I look."), *calls)), *results]


def said(text: str) -> Message:
    return Message("assistant", (Text(text),))


def reported(session: Session, factor: float = 1.0, **more: int) -> None:
    """Ask, and have the provider say what it read: our count times this."""
    request = session.prepare()
    session.record({"input_tokens": max(1, int(request.tokens * factor)), "output_tokens": 5, **more})
