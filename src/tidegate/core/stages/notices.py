"""Notices to the model: the reminder after a compaction, and hints on files that left the view."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from tidegate.core.budget import Budget
from tidegate.core.edits import Drop, Edit, Insert
from tidegate.core.ledger.lines import parse_ledger
from tidegate.core.messages import NOTE, REMINDER, Tool, calls_of, is_user_request, text_of, user_message
from tidegate.core.outcome import NO_OUTCOME, Outcome
from tidegate.core.sweep.group_notes import is_group_note, lines_of_note, tell_calls
from tidegate.core.text.clip import clip_tokens
from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.core.text.plural import format_count
from tidegate.core.text.tool_calls import find_file_names
from tidegate.core.turns import Group, tool_names_by_call
from tidegate.core.view import View

_REMINDER_HEADING = "[Context reminder: earlier messages were compacted]"
_DONE, _TOOLS = "Done so far:", "Tools:"
_MAX_LISTED_TOOLS = 12
_MAX_DONE_CHARS, _MAX_REQUESTS = 80, 3
"""Characters of a request or of arguments in the reminder, and the number of requests."""
CATEGORIES_TOOL: Final = "tool_categories"
"""The meta-tool of an agent in discovery mode whose description has the categories of its tools."""


def make_reminder_edits(view: View, budget: Budget, gone: Sequence[Group], allowance: int) -> list[Edit]:
    """The edits that replace the reminder by a new one of at most `allowance` tokens; none if that is 0."""
    if not allowance:
        return []
    old = [item.message for item in view.items if item.message.kind == REMINDER]
    going = {ident for group in gone for ident in group.ids}
    earlier = [line for message in old for line in text_of(message).splitlines() if line.startswith("- ")]
    lines = [*(_done(gone)), *earlier]
    left = max(2, allowance - 24)
    done = clip_tokens("\n".join(lines), left // 2, budget.counter, mode="head").text
    tools = _tools(view.tools, left - budget.counter.count_text(done), budget)
    text = "\n".join(filter(None, (_REMINDER_HEADING, _DONE if done else "", done, tools)))
    edits: list[Edit] = []
    stale = tuple(message.id for message in old if message.id not in going)
    if stale:
        edits.append(Drop(stale))
    after = gone[-1].last_id if gone else ""
    edits.append(Insert(user_message(text, REMINDER), after))
    return edits


def _done(gone: Sequence[Group]) -> list[str]:
    """What was done in the dropped groups: the newest requests, and each tool with its number of calls and the last
    arguments.
    """
    counts: Counter[str] = Counter()
    last: dict[str, str] = {}
    requests: list[str] = []
    for group in gone:
        names = tool_names_by_call(group.items)
        for item in group.items:
            if is_user_request(item.message):
                requests.append(" ".join(text_of(item.message).split())[:_MAX_DONE_CHARS])
            for call in calls_of(item.message):
                counts[names[call.id]] += 1
                last[names[call.id]] = call.arguments[:_MAX_DONE_CHARS]
    tools = [f"- {name} x{count}, last {last[name]}" for name, count in counts.most_common(20)]
    return [*(f"- answered: {text}" for text in requests[-_MAX_REQUESTS:]), *tools]


def _tools(tools: tuple[Tool, ...], room: int, budget: Budget) -> str:
    """The tools with as much of their descriptions as fits. In discovery mode the categories and how to find a tool.

    Discovery mode: there is our own meta-tool, or one among many tools that is named like a meta-tool.
    """
    if not tools:
        return ""
    categories = next((tool for tool in tools if tool.name == CATEGORIES_TOOL), None)
    if categories is not None:
        others = ", ".join(tool.name for tool in tools if tool is not categories)
        text = f"{_TOOLS} {categories.description} Use {categories.name}, {others}."
        return clip_tokens(text, room, budget.counter, mode="head").text
    if len(tools) > _MAX_LISTED_TOOLS and _find_finder(tools):
        return clip_tokens(_families(tools), room, budget.counter, mode="head").text
    for chars in (100, 60, 30, 0):
        text = "\n".join([_TOOLS, *(_line(tool, chars) for tool in tools)])
        if budget.counter.count_text(text) <= room:
            return text
    text = f"{_TOOLS} {', '.join(tool.name for tool in tools)}"
    if budget.counter.count_text(text) > room:
        text = _families(tools)
    return clip_tokens(text, room, budget.counter, mode="head").text


def _line(tool: Tool, chars: int) -> str:
    about = " ".join(tool.description.split())[:chars]
    return f"* {tool.name}: {about}" if about else f"* {tool.name}"


def _families(tools: tuple[Tool, ...]) -> str:
    families = Counter(_family(tool.name) for tool in tools)
    finder = _find_finder(tools)
    how = f" Find one with {finder}." if finder else " Each can be called by its name."
    return f"{_TOOLS} {len(tools)} in " + ", ".join(f"{name} ({count})" for name, count in families.items()) + "." + how


def _find_finder(tools: tuple[Tool, ...]) -> str:
    words = ("tool", "discover", "capabilit")
    return next((tool.name for tool in tools if any(word in tool.name for word in words)), "")


def _family(name: str) -> str:
    for mark in (".", "__", "-", "_"):
        if mark in name:
            return name.split(mark, maxsplit=1)[0]
    return name


# The hint is at the end of the view, so that the cached prefix stays valid.

_IDENT = LazyPattern(r"\bm\d+(?:\.\.m\d+)?\b")
HINT_PREFIX = "[Left the view, and can be had back: "


def hint(view: View, budget: Budget, *, most: int = 3) -> Outcome:
    """Say how to recall files that the new request names and that left the view, at most `most` of them."""
    request = next((item.message for item in reversed(view.items_since_reply()) if is_user_request(item.message)), None)
    if request is None or not view.ledger_items or view.items[-1].message.id != request.id:
        return NO_OUTCOME
    names = find_file_names(text_of(request))
    notes = [item.message for item in view.items if is_group_note(item.message)] if names else []
    lines = [tell_calls(line) for note in notes for line in lines_of_note(note)]
    for item in view.ledger_items if names else ():
        lines += [f"{line.ident} {line.text}" for line in parse_ledger(text_of(item.message))]
    found: dict[str, str] = {}
    for line in lines:
        ident = _IDENT.search(line)
        for name in find_file_names(line) & names if ident else ():
            found[name] = f"{name}: recall {ident[0]}" if ident else ""
    if not found:
        return NO_OUTCOME
    text = HINT_PREFIX + "; ".join(list(found.values())[:most]) + "]"
    return Outcome(
        (Insert(user_message(text, NOTE), request.id),),
        why=f"the request names {format_count(len(found), 'file')} that left the view",
        grows=True,
    )
