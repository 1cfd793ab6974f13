"""The reminder after a compaction: what was done so far, and which tools there are. It replaces the one before it."""

from collections import Counter as Tally
from collections.abc import Sequence

from tidegate.core.budget import Budget
from tidegate.core.clip import clip_tokens
from tidegate.core.edits import Drop, Edit, Insert
from tidegate.core.messages import REMINDER, Tool, calls_of, text_of, user
from tidegate.core.turns import Group
from tidegate.core.view import View

HEAD = "[Context reminder: earlier messages were compacted]"
_DONE, _TOOLS = "Done so far:", "Tools:"
DIRECT = 12


def reminder_edits(view: View, budget: Budget, gone: Sequence[Group], allowance: int) -> list[Edit]:
    """Drop the old reminder, add a new one of at most `allowance` tokens. Nothing without an allowance."""
    if not allowance:
        return []
    old = [item.message for item in view.items if item.message.kind == REMINDER]
    going = {ident for group in gone for ident in group.ids}
    earlier = [line for message in old for line in text_of(message).splitlines() if line.startswith("- ")]
    lines = [*(_done(gone)), *earlier]
    half = max(1, (allowance - 24) // 2)
    tools = clip_tokens(_tools(view.tools), half, budget.counter, mode="head").text
    done = clip_tokens("\n".join(lines), half, budget.counter, mode="head").text
    text = "\n".join(filter(None, (HEAD, _DONE if done else "", done, tools)))
    edits: list[Edit] = []
    stale = tuple(message.id for message in old if message.id not in going)
    if stale:
        edits.append(Drop(stale))
    after = gone[-1].last if gone else ""
    edits.append(Insert(user(text, REMINDER), after))
    return edits


def _done(gone: Sequence[Group]) -> list[str]:
    """What the calls that leave accomplished: by tool, how often and on what."""
    counts: Tally[str] = Tally()
    last: dict[str, str] = {}
    for group in gone:
        for item in group.items:
            for call in calls_of(item.message):
                counts[call.name] += 1
                last[call.name] = call.arguments[:80]
    return [f"- {name} x{count}, last {last[name]}" for name, count in counts.most_common(20)]


def _tools(tools: tuple[Tool, ...]) -> str:
    """Few tools are listed; of many only the families and how to find one."""
    if not tools:
        return ""
    if len(tools) <= DIRECT:
        return "\n".join([_TOOLS, *(f"* {tool.name}: {' '.join(tool.description.split())[:100]}" for tool in tools)])
    families = Tally(_family(tool.name) for tool in tools)
    finders = [tool.name for tool in tools if any(word in tool.name for word in ("search", "find", "discover", "list"))]
    how = f" Find one with {finders[0]}." if finders else " Each can be called by its name."
    return f"{_TOOLS} {len(tools)} in " + ", ".join(f"{name} ({count})" for name, count in families.items()) + "." + how


def _family(name: str) -> str:
    for mark in (".", "__", "-", "_"):
        if mark in name:
            return name.split(mark, maxsplit=1)[0]
    return name
