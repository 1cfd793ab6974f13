"""The stage `summarize`: replace old messages by a summary.

The stage returns a request for the summary. The caller writes it with a model; without one it is the digest.
"""

from collections.abc import Iterable

import msgspec

from tidegate.core.budget import Budget
from tidegate.core.config.values import Share
from tidegate.core.edits import Drop, Edit
from tidegate.core.ledger.recall_pointers import is_recall_note, make_recall_line, strip_recall_line
from tidegate.core.messages import HANDOFF, REMINDER, SUMMARY, Message, Part, Result, Text, calls_of, text_of
from tidegate.core.outcome import NO_OUTCOME, Effect, Outcome, Spill, SummaryRequest
from tidegate.core.stages.notices import make_reminder_edits
from tidegate.core.text.clip import clip_chars
from tidegate.core.turns import Group, collect_ids, count_newest_groups, split_groups, split_turns
from tidegate.core.view import View

_DEFAULT_HEADING = "[Summary of earlier messages: what was said, not what to do]\n"
_DEFAULT_SECTIONS = ("Session intent", "Key decisions", "Artifacts", "Next steps")


def summarize(
    view: View,
    budget: Budget,
    *,
    max_tokens: int,
    keep_turns: int | None = None,
    keep_messages: int | None = None,
    keep_tokens: int | None = None,
    keep_share: Share = 0.0,
    before: str = _DEFAULT_HEADING,
    behind: str = "",
    sections: tuple[str, ...] = _DEFAULT_SECTIONS,
    input_chars: int = 0,
    save: str = "",
    reminder: int = 0,
) -> Outcome:
    """Replace old messages by one summary. Recent messages and the newest request stay verbatim.

    How many are recent is given in turns, messages or tokens; `keep_share` limits them to a share of the room. An
    earlier summary is continued, not summarized again. `save` names a file that the full messages are written to first.
    Below the summary a line names the range of messages to recall, including those of the earlier summary. It is left
    out if the policy sets `before`, its own heading.
    """
    units = split_groups(view)
    newest_count = _count_kept_groups(view, budget, units, keep_turns, keep_messages, keep_tokens, keep_share)
    old = [
        group
        for group in units[: len(units) - newest_count]
        if view.newest_request not in group.ids and group.items[0].message.kind != HANDOFF
    ]
    earlier = [item for group in old for item in group.items if item.message.kind == SUMMARY]
    fresh = [item for group in old for item in group.items if not _stands_for_others(item.message)]
    if not fresh:
        return NO_OUTCOME
    room = max(64, budget.room // 4)
    leaving = [item.message for group in old for item in group.items]
    request = SummaryRequest(
        messages=tuple(_shorten_result(item.message, input_chars) for item in fresh),
        instructions=_write_instructions(sections),
        max_tokens=min(max_tokens, room),
        previous="\n".join(strip_recall_line(text_of(item.message)) for item in earlier),
        prefix=before,
        suffix=behind
        + (f"\n[The full messages are in {save}]" if save else "")
        + (make_recall_line(leaving) if before == _DEFAULT_HEADING else ""),
        after_id=old[0].last_id,
    )
    edits: list[Edit] = [Drop(collect_ids(old)), *make_reminder_edits(view, budget, old, reminder)]
    effects: tuple[Effect, ...] = (
        (Spill(save, "", "", append=True, ids=tuple(item.message.id for item in fresh)),) if save else ()
    )
    return Outcome(tuple(edits), (request,), effects, f"{len(fresh):,} old messages were replaced by one summary")


def _stands_for_others(message: Message) -> bool:
    return message.kind in (SUMMARY, REMINDER) or is_recall_note(message)


def _count_kept_groups(
    view: View,
    budget: Budget,
    units: list[Group],
    turns: int | None,
    messages: int | None,
    tokens: int | None,
    share: float,
) -> int:
    """How many of the newest groups stay: by tokens if given, else by messages, else by turns."""
    if tokens or messages is not None:
        turns = None
        messages = None if tokens else messages
    if turns is not None:
        newest = split_turns(view)[-turns:] if turns else []
        messages = sum(len(turn.items) for turn in newest)
    if share:
        tokens = min(tokens or budget.room, int(budget.room * share))
    return count_newest_groups(units, messages=messages, tokens=tokens or None)


def _write_instructions(sections: tuple[str, ...]) -> str:
    heads = "\n".join(f"## {name}" for name in sections)
    return (
        "Summarize the conversation below for the assistant that continues it. Keep every file name, identifier,"
        " number, error text and rule of the user exactly. State facts in the past tense and begin each line with its"
        f" author: user said, tool said or agent concluded; write no instructions. Use these headings:\n{heads}"
    )


def _shorten_result(message: Message, chars: int) -> Message:
    """A message as the summarizer gets it: long tool output is cut to its beginning and end."""
    if not chars or message.role != "tool":
        return message

    def cut(part: Part) -> Part:
        if not isinstance(part, Result):
            return part
        inner = tuple(Text(clip_chars(p.text, chars).text) if isinstance(p, Text) else p for p in part.parts)
        return Result(part.call_id, inner, part.error)

    return msgspec.structs.replace(message, parts=tuple(cut(part) for part in message.parts))


def render_transcript(messages: Iterable[Message]) -> str:
    """Messages as plain text, for a file that people and the agent's read tool open."""
    lines: list[str] = []
    for message in messages:
        lines.append(f"## {message.id} {message.role}\n")
        text = text_of(message)
        if text:
            lines.append(text + "\n")
        lines.extend(f"call {call.name} {call.arguments}\n" for call in calls_of(message))
    return "\n".join(lines) + "\n"
