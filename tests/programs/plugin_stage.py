"""A program with a stage of its own: long tool results of one tool are cut to their first lines."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from msgspec import Meta

from tidegate import (
    Budget,
    Call,
    Drop,
    Edit,
    Insert,
    Item,
    Message,
    Outcome,
    Replace,
    Result,
    Session,
    Text,
    View,
    load,
)

POLICY = """\
moments:
  before_call:
    - stage: keep_first_lines
      when: {history: "> 50"}
      tool: build
      lines: 2
"""


def keep_first_lines(view: View, budget: Budget, *, tool: str, lines: Annotated[int, Meta(ge=1)] = 20) -> Outcome:
    """Cut the results of `tool` to their first `lines` lines."""
    calls = {call.id for item in view.items for call in _calls_of(item) if call.name == tool}
    edits: list[Edit] = []
    for item in view.items:
        for part in item.message.parts:
            if isinstance(part, Result) and part.call_id in calls:
                text = "\n".join(each.text for each in part.parts if isinstance(each, Text))
                kept = "\n".join(text.splitlines()[:lines])
                if budget.count(Message("tool", (Result(part.call_id, (Text(kept),)),))) < item.tokens:
                    edits.append(Replace(item.message.id, (Result(part.call_id, (Text(kept),), part.error),)))
    return Outcome(tuple(edits), why=f"{len(edits)} results of {tool} cut to {lines} lines")


def _calls_of(item: Item) -> list[Call]:
    return [part for part in item.message.parts if isinstance(part, Call)]


def drop_notes(view: View, budget: Budget, *, kind: str = "note") -> Outcome:
    """Drop the engine's own notes of a kind and say so in one line."""
    ids = tuple(item.message.id for item in view.items if item.message.kind == kind)
    if not ids:
        return Outcome()
    note = Message("user", (Text(f"[{len(ids)} notes left out]"),), kind="left_out")
    return Outcome((Drop(ids), Insert(note, ids[-1])), why=f"{len(ids)} notes")


def run() -> list[str]:
    """Prepare a request under the policy, and return the texts of its tool results."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "policy.yaml"
        path.write_text(POLICY)
        policy = load(path, stages=[keep_first_lines, drop_notes])
    session = Session("gpt-4o", window=16_000, policy=policy)
    session.add({"role": "user", "content": "Build it."})
    session.add(Message("assistant", (Call("c1", "build", "{}"),)))
    session.add(Message("tool", (Result("c1", (Text("\n".join(f"line {number}" for number in range(200))),)),)))
    request = session.prepare()
    return [message["content"] for message in request.messages if message["role"] == "tool"]


if __name__ == "__main__":
    print(run())
