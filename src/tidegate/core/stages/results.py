"""Stages that shorten old tool output: the cheapest loss, because the model has used it and can recall it."""

from typing import Literal

from tidegate.core.budget import Budget
from tidegate.core.config.values import Share
from tidegate.core.edits import Drop, Edit, Insert, Replace
from tidegate.core.messages import (
    ARCHIVED,
    TOOL_RESULT,
    TOOL_SUMMARY,
    Image,
    Message,
    Part,
    Result,
    Text,
    result_of,
    text_of,
    user_message,
)
from tidegate.core.outcome import NO_OUTCOME, Outcome, SummaryRequest
from tidegate.core.stages.guard import make_cleared_stub
from tidegate.core.text.clip import clip_chars, clip_tokens
from tidegate.core.text.plural import format_count
from tidegate.core.turns import Group, split_groups, split_turns, tool_names_by_call
from tidegate.core.view import Item, View

ArchiveStrategy = Literal["llm", "heuristic", "off"]


def clear_results(
    view: View, budget: Budget, *, keep: int, spare: tuple[str, ...] = (), placeholder: str = "", least: int = 0
) -> Outcome:
    """Clear all tool results except the newest `keep` and those of tools named in `spare`.

    They are cleared in one edit, because every edit makes the provider read the rest of the prompt again. Without a
    `placeholder` a stub says which result it was and how to recall it. Results below `least` tokens stay.
    """
    names = tool_names_by_call(view.items)
    results = [item for item in view.items if item.message.role == "tool"]
    edits: list[Edit] = []
    for item in results[: len(results) - keep] if keep else results:
        result = result_of(item.message)
        if result is None or names.get(result.call_id) in spare or item.tokens < least:
            continue
        parts: tuple[Part, ...] = make_cleared_stub(item, names)
        if placeholder:
            parts = (Result(result.call_id, (Text(placeholder),), result.error),)
        if budget.count(Message("tool", parts)) < item.tokens:
            edits.append(Replace(item.message.id, parts))
    return Outcome(tuple(edits), why=f"{format_count(len(edits), 'old result')} cleared") if edits else NO_OUTCOME


def cap_results(
    view: View, budget: Budget, *, chars: int, scope: Literal["historical", "all"] = "historical"
) -> Outcome:
    """Cut results over `chars` characters to their beginning and end. `historical` leaves the current turn alone."""
    current = _current(view) if scope == "historical" else frozenset()
    edits: list[Edit] = []
    for item in view.items:
        result = result_of(item.message)
        if result is None or item.message.id in current:
            continue
        text = text_of(item.message)
        if len(text) <= chars:
            continue
        notice = f"\n[... {len(text):,} characters cut to {chars:,}: the middle was left out ...]\n"
        cut = clip_chars(text, chars, mode="head_tail", notice=notice).text
        images = tuple(part for part in result.parts if isinstance(part, Image))
        edits.append(Replace(item.message.id, (Result(result.call_id, (Text(cut), *images), result.error),)))
    return (
        Outcome(tuple(edits), why=f"{format_count(len(edits), 'result')} over {chars:,} characters")
        if edits
        else NO_OUTCOME
    )


def _current(view: View) -> frozenset[str]:
    turns = split_turns(view)
    return frozenset(turns[-1].ids) if turns else frozenset()


def cap_texts(
    view: View,
    budget: Budget,
    *,
    chars: int = 0,
    share: Share = 0.0,
    roles: tuple[str, ...] = ("user", "assistant", "tool", "system"),
) -> Outcome:
    """Cut any single message over `chars` characters, or over a share of the room, to its beginning and end.

    The newest request is not touched; if it cannot fit, the guard shortens it.
    """
    tokens = int(budget.room * share)
    edits: list[Edit] = []
    for item in view.items:
        message = item.message
        if message.role not in roles or message.id == view.newest_request:
            continue
        parts = tuple(_cap_part(part, chars, tokens, budget) for part in message.parts)
        if parts != message.parts:
            edits.append(Replace(message.id, parts))
    return (
        Outcome(tuple(edits), why=f"{format_count(len(edits), 'message')} too long for the view")
        if edits
        else NO_OUTCOME
    )


def _cap_part(part: Part, chars: int, tokens: int, budget: Budget) -> Part:
    if isinstance(part, Text):
        text = clip_chars(part.text, chars).text if chars else part.text
        if tokens:
            text = clip_tokens(text, tokens, budget.counter).text
        return part if text == part.text else Text(text)
    if isinstance(part, Result):
        inner = tuple(_cap_part(each, chars, tokens, budget) for each in part.parts)
        if inner != part.parts:
            return Result(part.call_id, inner, part.error)  # type: ignore[arg-type]
    return part


def archive_results(
    view: View,
    budget: Budget,
    *,
    cutoff: int,
    strategy: ArchiveStrategy = "llm",
    input_chars: int = 12000,
    output_chars: int = 1200,
    heuristic_chars: int = 800,
) -> Outcome:
    """Archive the oldest results over `cutoff`, a number of results. A short summary of each takes its place.

    An archived result stays as a stub, because its call needs one. Once all results of a group are archived, the group
    is dropped; the summaries stay. Results are counted, not measured: short ones are archived even if that frees
    nothing. If no model writes a summary, it is the beginning and end of the result, as with `heuristic`.
    """
    surplus = view.tool_result_count - cutoff
    if surplus <= 0 or strategy == "off":
        return NO_OUTCOME
    edits: list[Edit] = []
    requests: list[SummaryRequest] = []
    for group in split_groups(view):
        results = [item for item in group.results if item.message.kind == TOOL_RESULT][:surplus]
        if not results:
            continue
        surplus -= len(results)
        edits.extend(_archived(group, results))
        for item in results:
            request = _tool_request(group, item, input_chars, output_chars, heuristic_chars)
            if strategy == "llm":
                requests.append(request)
            else:
                edits.append(Insert(request.to_message(request.fallback), request.after_id))
    return Outcome(tuple(edits), tuple(requests), why=_describe_surplus(view, cutoff), grows=True)


def _archived(group: Group, results: list[Item]) -> list[Edit]:
    ids = {item.message.id for item in results}
    if all(item.message.kind == ARCHIVED or item.message.id in ids for item in group.results):
        return [Drop(group.ids)]
    return [
        Replace(item.message.id, (Result(result.call_id, (Text("[archived]"),), result.error),), kind=ARCHIVED)
        for item in results
        if (result := result_of(item.message)) is not None
    ]


def _label(group: Group, item: Item) -> str:
    result = result_of(item.message)
    return tool_names_by_call(group.items).get(result.call_id if result else "", "tool")


def _tool_request(
    group: Group, item: Item, input_chars: int, output_chars: int, heuristic_chars: int
) -> SummaryRequest:
    text = clip_chars(text_of(item.message), input_chars).text
    excerpt = tuple(
        Result(part.call_id, (Text(text),), part.error) for part in item.message.parts if isinstance(part, Result)
    )
    return SummaryRequest(
        messages=(Message("tool", excerpt, kind=TOOL_RESULT),),
        instructions=f"State in a few lines what this result of the tool {_label(group, item)} says. Facts only.",
        max_tokens=max(1, output_chars // 2),
        max_chars=min(output_chars, max(1, len(text))),
        prefix=f"[Tool result summary: {_label(group, item)}] ",
        kind=TOOL_SUMMARY,
        after_id=group.last_id,
        fallback=clip_chars(text_of(item.message), heuristic_chars).text or "(no text)",
        line_start="  ",
    )


def digest_results(
    view: View, budget: Budget, *, cutoff: int, chars: int = 2400, before: str = "[Compaction tool digest]\n"
) -> Outcome:
    """Archive the oldest results over `cutoff` and leave one message with a line about each."""
    surplus = view.tool_result_count - cutoff
    if surplus <= 0:
        return NO_OUTCOME
    edits: list[Edit] = []
    lines: list[str] = []
    after = ""
    for group in split_groups(view):
        results = [item for item in group.results if item.message.kind == TOOL_RESULT][:surplus]
        if not results:
            continue
        surplus -= len(results)
        edits.extend(_archived(group, results))
        after = group.last_id
        each = max(40, chars // max(1, view.tool_result_count - cutoff))
        for item in results:
            excerpt = " ".join(clip_chars(text_of(item.message), each, notice=" ... ").text.split())
            lines.append(f"- {_label(group, item)} ({item.message.id}): {excerpt}")
    edits.append(Insert(user_message(before + clip_chars("\n".join(lines), chars).text, TOOL_SUMMARY), after))
    return Outcome(tuple(edits), why=_describe_surplus(view, cutoff), grows=True)


def _describe_surplus(view: View, cutoff: int) -> str:
    return f"the view has {format_count(view.tool_result_count, 'tool result')}; the limit is {cutoff:,}"
