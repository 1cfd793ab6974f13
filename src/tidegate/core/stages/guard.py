"""The guard: the last step under every policy. It needs no model and always makes the history fit.

It removes, in this order and only as far as needed: old tool output, old thinking, whole old groups of work, the middle
of long old messages of the user, the middle of the newest results, and only then old messages of the user. What the
assistant said and the arguments of its calls stay verbatim or leave with their group; notes then say what was done. The
newest request is shortened only if it would not fit alone: it fills the room until there is work on it, and half of the
room then. The newest group leaves if there would be no room for the note that says how to recall what was dropped. As
long as there is old work it frees a fifth more than needed, because each edit makes the provider read the prompt again.
"""

import re
from collections.abc import Sequence

from tidegate.core.budget import MIN_ROOM, Budget
from tidegate.core.config.values import Share
from tidegate.core.edits import Insert
from tidegate.core.ledger.recall_pointers import add_recall_note, count_recall_note, is_recall_note
from tidegate.core.messages import (
    HANDOFF,
    INSTRUCTION,
    NOTE,
    PIN,
    REMINDER,
    SUMMARY,
    Call,
    Image,
    Part,
    Result,
    Text,
    Thinking,
    common_mark,
    is_user_request,
    mark_text,
    result_of,
)
from tidegate.core.outcome import NO_OUTCOME, Outcome
from tidegate.core.stages.view_draft import ViewDraft
from tidegate.core.sweep.gap_notes import Gap, make_gap_notes
from tidegate.core.sweep.group_notes import describe_group
from tidegate.core.text.clip import clip_tokens
from tidegate.core.turns import Group, split_groups, tool_names_by_call
from tidegate.core.view import Item, View

_TARGET_SHARE = 0.8
_NOTES_SHARE = 0.045  # of the room: the most that notes take, as after a sweep
_MIN_RESULT_TOKENS = 24
_MIN_SAID_TOKENS = 120  # of a message of the user that is shortened
_STUB_CHARS = 120
_IMAGE_PLACEHOLDER = "[image left out]"


def shrink_to(view: View, budget: Budget, *, share: Share = 1.0, tokens: int = 0) -> Outcome:
    """The guard as a stage: shrink the history to a share of the room, without touching the newest request.

    With `tokens`, the whole request has at most so many of the provider's tokens, too.
    """
    target = int(budget.room * share)
    if tokens:
        target = min(target, max(int(tokens / budget.scale) - budget.fixed, MIN_ROOM))
    ledger = sum(item.tokens for item in view.ledger_items)  # it stays, beside what the stage sees
    return guard_history(view, budget, target=target - min(ledger, target // 2), whole_request=True)


def guard_history(view: View, budget: Budget, *, target: int, whole_request: bool = False) -> Outcome:
    """Shrink the history to at most `target` tokens. `whole_request`: do not touch the newest request."""
    if view.tokens <= target or not view.items:
        return NO_OUTCOME
    draft = ViewDraft(view, budget)
    units = split_groups(view)
    newest = view.newest_request
    last = units[-1]
    old = [unit for unit in units if unit is not last and newest not in unit.ids]
    requests = [unit for unit in old if is_user_request(unit.items[0].message)]
    work = [unit for unit in old if unit not in requests]
    aim = int(target * _TARGET_SHARE)
    request = next((item for item in view.items if item.message.id == newest and _may_cut(item, target)), None)
    if request is not None and (request.tokens > budget.room or request.edited) and not whole_request:
        has_work = newest not in last.ids
        spare = 0 if has_work else target - (view.tokens - request.tokens) - count_recall_note(budget)
        _clip_request(draft, request, max(spare, target // 2), budget)
    _clear(draft, work, aim)
    start = next((place for place, unit in enumerate(work) if view.loop_start in unit.ids), len(work))
    _shrink(draft, work[:start], aim)
    _drop(draft, [unit for unit in work if view.loop_start not in unit.ids], aim)
    limit = target if any(is_recall_note(item.message) for item in view.items) else target - count_recall_note(budget)
    _shorten_said(draft, requests, limit, budget)
    if draft.tokens > limit and newest not in last.ids:
        squeeze_group(draft, last, limit, budget)
    _drop(draft, requests, limit)
    if draft.tokens > target and request is not None and not whole_request:
        rest = draft.tokens - draft.cost(newest)
        _clip_request(draft, request, max(target - rest - count_recall_note(budget), target // 2), budget)
    if draft.tokens > target:
        _drop_rest(draft, units, newest, target)
    if draft.tokens - draft.group_cost(last) <= limit < draft.tokens and newest not in last.ids:
        draft.drop(last)
    why = f"the history has {view.tokens:,} tokens, and {target:,} fit"
    if request is not None and draft.cost(newest) < request.tokens:
        why += f"; the newest request is cut from {request.tokens:,} to {draft.cost(newest):,} tokens"
    notes = _describe_gaps(draft, units, target - draft.tokens - count_recall_note(budget), budget)
    edits = add_recall_note(view, (*draft.edits(), *notes), budget, target - draft.tokens - _count(notes))
    return Outcome(edits, why=why) if draft.edit_count else NO_OUTCOME


def _may_cut(request: Item, target: int) -> bool:
    """Whether the newest request may be shortened: it does not fit, or it was shortened to fill the room."""
    return request.tokens > (max(target // 2, MIN_ROOM) if request.edited else target)


def _count(notes: Sequence[Insert]) -> int:
    return sum(note.tokens for note in notes)


def _describe_gaps(draft: ViewDraft, units: Sequence[Group], spare: int, budget: Budget) -> list[Insert]:
    """A note for each gap, as after a sweep, so that what was done there is not repeated; fewer if there is no room."""
    gaps: list[Gap] = []
    shown_id, in_gap = "", False
    for unit in units:
        if not draft.is_dropped(unit):
            shown_id, in_gap = unit.last_id, False
            continue
        lines = [described] if (described := describe_group(unit)) else []
        if in_gap:
            gaps[-1] = gaps[-1]._replace(last_id=unit.last_id, lines=gaps[-1].lines + lines)
        else:
            gaps.append(Gap(shown_id, unit.last_id, lines))
        in_gap = True
    gaps = [gap for gap in gaps if gap.lines]
    room = min(spare, int(budget.room * _NOTES_SHARE))
    while gaps and room > 0:
        notes = make_gap_notes(gaps, room, budget)
        if _count(notes) <= spare:
            return notes
        room -= max(_count(notes) - spare, room // 4, 1)
    return []


def make_cleared_stub(item: Item, names: dict[str, str]) -> tuple[Part, ...]:
    """The stub of a cleared result: which tool, how large, and how to recall it."""
    result = result_of(item.message)
    if result is None or _is_cleared(result):
        return item.message.parts
    name = names.get(result.call_id, "a tool")
    text = f"[cleared: result of {name[:40]}, {item.tokens:,} tokens; recall {item.message.id}]"
    return (Result(result.call_id, (Text(text),), result.error),)


def _is_cleared(result: Result) -> bool:
    """Whether this is a stub already. Another one would give the size of the stub as that of the result."""
    text = result.parts[0] if len(result.parts) == 1 else None
    return isinstance(text, Text) and text.text.startswith("[cleared: result of ") and len(text.text) < _STUB_CHARS


def _clear(draft: ViewDraft, old: list[Group], aim: int) -> None:
    for group in old:
        names = tool_names_by_call(group.items)
        for item in group.results:
            if draft.tokens <= aim:
                return
            draft.replace(item, make_cleared_stub(item, names))


def _shrink(draft: ViewDraft, old: list[Group], aim: int) -> None:
    for group in old:
        for item in group.items:
            if draft.tokens <= aim:
                return
            if item.message.role == "assistant":
                draft.replace(item, _without_thinking(item.message.parts))


def _without_thinking(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    return tuple(part for part in parts if not isinstance(part, Thinking))


def _drop(draft: ViewDraft, old: list[Group], aim: int) -> None:
    """Drop whole groups, oldest first. Pins, summaries, notes, instructions, reminders and handoffs stay."""
    if draft.tokens <= aim:
        return
    for unit in old:
        if draft.tokens <= aim:
            break
        if unit.items[0].message.kind not in (PIN, SUMMARY, NOTE, INSTRUCTION, REMINDER, HANDOFF):
            draft.drop(unit)


def _shorten_said(draft: ViewDraft, said: list[Group], limit: int, budget: Budget) -> None:
    """Shorten the longest old messages of the user, all to the same length: a paste is rarely needed whole."""
    over = draft.tokens - limit
    sizes = sorted((draft.group_cost(unit) for unit in said), reverse=True)
    if over <= 0 or not sizes:
        return
    cap = sizes[0]
    for count, size in enumerate(sizes, 1):
        following = max(sizes[count] if count < len(sizes) else 0, _MIN_SAID_TOKENS)
        cap = max(following, size - -(-over // count))
        over -= (size - cap) * count
        if over <= 0 or following == _MIN_SAID_TOKENS:
            break
    for unit in said:
        item = unit.items[0]
        if draft.cost(item.message.id) > cap:
            draft.replace(item, _clipped(item.message.parts, cap, budget, item.message.id))


def squeeze_group(draft: ViewDraft, last: Group, target: int, budget: Budget) -> None:
    """Shorten the results of the newest group to the tokens that the rest leaves. Each gets an equal share."""
    for item in last.items:
        if item.message.role == "assistant":
            draft.replace(item, _without_thinking(item.message.parts))
    room = target - (draft.tokens - draft.group_cost(last))
    for item in last.items:
        if item.message.role != "tool":
            room -= draft.cost(item.message.id)
    results = sorted(last.results, key=lambda item: draft.cost(item.message.id))
    for place, item in enumerate(results):
        share = max(room // (len(results) - place), _MIN_RESULT_TOKENS)
        if draft.cost(item.message.id) > share:
            draft.replace(item, _clipped(item.message.parts, share, budget, item.message.id))
        room -= draft.cost(item.message.id)
    caller = last.items[0]
    if results and draft.tokens > target:
        draft.replace(caller, tuple(part for part in draft.parts(caller) if not isinstance(part, Text)))


def _clipped(parts: tuple[Part, ...], tokens: int, budget: Budget, ident: str) -> tuple[Part, ...]:
    """The text of these parts in about `tokens` tokens, with placeholders for images."""
    text = "\n".join(text for part in parts for text in _texts(part))
    whole = _clip_middle(text, max(1, tokens - 10), budget, ident)
    for part in parts:
        if isinstance(part, Result):
            return (Result(part.call_id, (Text(whole),), part.error),)
    return (mark_text(whole, common_mark(parts)), *(part for part in parts if isinstance(part, Call)))


def _clip_middle(text: str, tokens: int, budget: Budget, ident: str) -> str:
    """The beginning and the end of a text. If its middle was left out before, one notice tells of both cuts."""
    notice = f"\n[... {{chars}} characters left out; recall {ident} ...]\n"
    earlier = re.search(re.escape(notice).replace(r"\{chars\}", r"([\d,]{1,20})"), text)
    rest = text if earlier is None else text[: earlier.start()] + text[earlier.end() :]
    clipped = clip_tokens(rest, tokens, budget.counter, notice=notice)
    if earlier is None or not clipped.cut:
        return clipped.text if clipped.cut else text
    gap = clipped.chars_left_out
    both = gap + int(earlier[1].replace(",", ""))
    return clipped.text.replace(notice.replace("{chars}", f"{gap:,}"), notice.replace("{chars}", f"{both:,}"), 1)


def _texts(part: Part) -> list[str]:
    if isinstance(part, Text):
        return [part.text]
    if isinstance(part, Image):
        return [_IMAGE_PLACEHOLDER]
    if isinstance(part, Result):
        return [text for inner in part.parts for text in _texts(inner)]
    return []


def _drop_rest(draft: ViewDraft, units: list[Group], newest: str, target: int) -> None:
    """Drop everything but the newest request, oldest first, then pins and handoffs, the recall note last."""

    def rank(unit: Group) -> int:
        first = unit.items[0].message
        return 2 if is_recall_note(first) else int(first.kind in (PIN, HANDOFF))

    for unit in sorted(units, key=rank):
        if draft.tokens <= target:
            return
        if newest not in unit.ids:
            draft.drop(unit)


def _clip_request(draft: ViewDraft, request: Item, tokens: int, budget: Budget) -> None:
    """Show the beginning and the end of the newest request. The log has the whole text."""
    draft.replace(request, _clipped(request.message.parts, max(tokens, _MIN_RESULT_TOKENS), budget, request.message.id))
