"""A stage of your own, which cuts the results of one tool to their first lines. It needs no key."""

from pathlib import Path
from tempfile import TemporaryDirectory

from tidegate import Budget, Call, Edit, Outcome, Replace, Result, Session, Text, View, load

POLICY = """\
name: builds
moments:
  before_call:
    - stage: keep_first_lines
      when: {pressure: "> 0.5"}
      tool: build
      lines: 3
"""


def keep_first_lines(view: View, budget: Budget, *, tool: str, lines: int = 20) -> Outcome:
    """Cut the results of `tool` to their first `lines` lines."""
    parts = [(item, part) for item in view.items for part in item.message.parts]
    calls = {part.id for _, part in parts if isinstance(part, Call) and part.name == tool}
    edits: list[Edit] = []
    for item, part in parts:
        if isinstance(part, Result) and part.call_id in calls:
            text = "\n".join(each.text for each in part.parts if isinstance(each, Text)).splitlines()
            if len(text) > lines:
                kept = "\n".join([*text[:lines], f"[{len(text) - lines} lines cut; recall {item.message.id}]"])
                edits.append(Replace(item.message.id, (Result(part.call_id, (Text(kept),), part.error),)))
    return Outcome(tuple(edits), why=f"results of {tool} cut to {lines} lines: {len(edits)}")


with TemporaryDirectory() as folder:
    path = Path(folder) / "builds.yaml"
    path.write_text(POLICY)
    policy = load(path, stages=[keep_first_lines])

session = Session("gpt-4o", window=8_000, policy=policy)
session.add({"role": "user", "content": "Build it."})
call = {"id": "c1", "type": "function", "function": {"name": "build", "arguments": "{}"}}
session.add({"role": "assistant", "content": None, "tool_calls": [call]})
output = "\n".join(f"step {number} took 4.2 s" for number in range(500))
session.add({"role": "tool", "tool_call_id": "c1", "content": output})

print(session.prepare().messages[-1]["content"])
print(session.explain())
