"""The plan: decide what to do at a moment, without doing it.

`run_moment` is a generator that runs the rules of one moment in order. It yields what the caller must do (ask for a
summary, carry out an effect, commit a transaction) and is sent the answer. It does no I/O, so sync code, async code and
replay use the same plan.

- Removing content is one transaction: save, summarize, check, commit. The check adds what is missing to the ledger
  (`core/ledger/`).
- It always ends: each rule acts at most once in a run, and an edit that frees nothing is not made. The last step, the
  guard, needs no model and always fits.
"""

import math
from collections.abc import Callable, Generator, Sequence
from itertools import takewhile
from typing import NamedTuple

import msgspec

from tidegate.core.budget import MIN_ROOM, Budget, count_excess, measure_request, priced_now
from tidegate.core.digest.writer import write_digest
from tidegate.core.edit_check import check_edits
from tidegate.core.edits import Drop, Edit, EditIndex, Insert, Replace, find_new_compaction
from tidegate.core.errors import BadEdit
from tidegate.core.events import ViewEdited
from tidegate.core.ledger.writer import LedgerUpdate, hide_ledger, ledger_allowance, update_ledger
from tidegate.core.messages import LEDGER, Message, Part, Result, Text, Thinking, result_of
from tidegate.core.outcome import Effect, Flush, Outcome, SummaryRequest
from tidegate.core.policy.external_stage import ExternalStage, StageFailed
from tidegate.core.policy.policy import (
    Moment,
    Policy,
    Rule,
    TriggerContext,
    TriggerReading,
    judge_rule,
)
from tidegate.core.policy.trigger_text import make_sentence
from tidegate.core.stages.guard import guard_history
from tidegate.core.stages.repair import repair_view
from tidegate.core.text.clip import clip_chars, clip_tokens
from tidegate.core.text.secrets import mask_outcome
from tidegate.core.view import Item, View


class AskSummary(NamedTuple):
    """Give the summary that a policy asks for. Answer with a text that is there, or with None: lines of the messages
    then take its place, without a model.
    """

    request: SummaryRequest


class RunEffect(NamedTuple):
    """Carry out an effect. Answer None when done, or why it failed: the edits that depend on it are then not made."""

    effect: Effect


class CommitEdits(NamedTuple):
    """Append this to the log and fold it into the plan's view. Answer None, or why it was not done."""

    edited: ViewEdited


_RETRY_SHARE = 0.1
"""The share of a refused request that must leave before it is sent again."""

_MOMENTS_IN_LOOP = ("tool_result", "before_call")
_WAITS_FOR_LOOP = "waits for the end of the tool loop, which must begin with its signed thinking"
_LOOP_WITHOUT_THINKING = "the signed thinking of the running tool loop is lost: its requests go without `thinking`"

PlanStep = AskSummary | RunEffect | CommitEdits
StepAnswer = str | None


class Decision(msgspec.Struct, frozen=True):
    """What one rule did and why, for `explain`. `failed`: its stage raised an error or asked for an invalid edit."""

    moment: str
    rule: str
    stage: str
    acted: bool
    cause: str | TriggerReading
    tokens_before: int = 0
    tokens_after: int = 0
    failed: bool = False

    @property
    def reason(self) -> str:
        """Why the rule acted or did not, as a sentence. It is made from `cause` when it is read: few are."""
        return make_sentence(str(self.cause)) or "It has no condition."


class PlanContext(NamedTuple):
    """The input of a run. `fruitless_runs` has rules that freed nothing, each with `View.changed_seq` at that time.

    `binds_prefix`: signed thinking is bound to everything before it, so a transaction also takes out the thinking after
    the first place that it changes (`core/thinking_walk.py`). `keeps_loop_start`: a running tool loop may have to begin
    with its signed thinking. That message, `view.loop_start`, stays as it is.

    `mask` replaces secrets in texts that go to a file. The preview in the view is then made from the masked text.
    """

    policy: Policy
    view: View
    budget: Budget
    now: float
    fruitless_runs: set[tuple[str, int]]
    mask: Callable[[str], str] = str
    binds_prefix: bool = False
    keeps_loop_start: bool = False


PlanRun = Generator[PlanStep, StepAnswer, list[Decision]]


def run_moment(moment: Moment, at: PlanContext) -> PlanRun:
    """Run the rules of a moment. Before a call and after an overflow the guard runs last."""
    decisions: list[Decision] = []
    view, budget = at.view, priced_now(at.view, at.budget, at.now)
    if budget is not at.budget:
        at = at._replace(budget=budget)
    if view.orphans or view.unanswered:
        decisions.append((yield from _commit("repair", moment, "", repair_view(view), at)))
    view.loop_start = _find_loop_start(view) if at.keeps_loop_start and moment in _MOMENTS_IN_LOOP else ""
    recovery = view.recoveries if moment == "overflow" else 0
    compacted = 0
    retry_target = _retry_target(at) if moment == "overflow" else None
    later = len(view.items_since_reply()) if moment == "turn_end" else 0
    occasion = TriggerContext(view, at.budget, at.policy, recovery=recovery, later_messages=later)
    for rule in at.policy.moments.get(moment, ()):
        verdict = judge_rule(rule, occasion, at.now)
        if verdict.fires:
            decision = yield from _act(rule, moment, str(verdict.why), at)
            compacted += decision.acted and decision.tokens_after < decision.tokens_before
            occasion = TriggerContext(
                view, at.budget, at.policy, compacted=compacted, recovery=recovery, later_messages=later
            )
        else:
            decision = Decision(moment, rule.name, rule.stage, False, verdict.why, view.tokens, view.tokens)
        decisions.append(decision)
    if moment in ("before_call", "overflow"):
        target = _guard_target(at, retry_target)
        if target is not None:
            decisions.extend((yield from _run_guard(moment, target, at)))
    return decisions


def _find_loop_start(view: View) -> str:
    """The first answer since the newest request, if it has signed thinking; else an empty id."""
    start = ""
    for item in reversed(view.items):
        if item.message.id == view.newest_request:
            break
        if item.message.role == "assistant":
            start = item.message.id if _has_signed_thinking(item.message.parts) else ""
    return start


def _has_signed_thinking(parts: Sequence[Part]) -> bool:
    return any(isinstance(part, Thinking) and part.block for part in parts)


def _touches_loop_start(edits: Sequence[Edit], at: PlanContext) -> bool:
    """Whether these edits change the message with which a running tool loop must begin."""
    start = at.view.loop_start
    edit_index = EditIndex(edits)
    return bool(start) and (start in edit_index.dropped or start in edit_index.replaced)


def _without_bound_thinking(edits: tuple[Edit, ...], at: PlanContext) -> tuple[Edit, ...]:
    """The edits, and for each later message one that takes out signed thinking, which is bound to what is before it."""
    edit_index = EditIndex(edits)
    new_edits: list[Edit] = []
    is_changed = any(not insert.after_id for insert in edit_index.inserts)
    for item in at.view.items:
        message, new = item.message, edit_index.replaced.get(item.message.id)
        is_changed = is_changed or message.id in edit_index.dropped or new is not None
        parts = new.parts if new is not None else message.parts
        if is_changed and message.id not in edit_index.dropped and _has_signed_thinking(parts):
            other_parts = tuple(part for part in parts if not (isinstance(part, Thinking) and part.block))
            tokens = at.budget.count(Message(message.role, other_parts))
            new_edits.append(Replace(message.id, other_parts, tokens, new.kind if new is not None else None))
        is_changed = is_changed or bool(edit_index.inserts_after(message.id))
    replaced_ids = {edit.id for edit in new_edits if isinstance(edit, Replace)}
    return (*(edit for edit in edits if not (isinstance(edit, Replace) and edit.id in replaced_ids)), *new_edits)


def _retry_target(at: PlanContext) -> int:
    """The largest history, in our own tokens, with which a refused request is worth sending again.

    It must shrink by a tenth, both by our own count and by the measured size, which may be a provider's report.
    """
    fixed, scale = at.budget.fixed, at.budget.scale
    size = min(fixed + at.view.tokens, math.floor(measure_request(at.view, at.budget) / scale))
    return max(size - math.ceil(size * _RETRY_SHARE) - fixed, MIN_ROOM)


def _guard_target(at: PlanContext, retry_target: int | None) -> int | None:
    """The size the guard must reach, in tokens, or None if there is nothing to do.

    If the rules of an overflow freed less than a tenth, half of everything but the newest request leaves, so that the
    turn has room to go on. The newest request stays whole if it fits: a report far above our count must not shorten it.
    """
    view = at.view
    over = count_excess(view, at.budget)
    fits = retry_target is None or view.tokens <= retry_target
    if fits and not over:
        return None
    room = at.budget.room
    newest = next((item.tokens for item in view.items if item.message.id == view.newest_request), 0)
    if retry_target is None or fits:
        return min(room, max(view.tokens - over, MIN_ROOM, newest))
    half = newest + (view.tokens - newest) // 2
    return min(room, retry_target, max(half - over, newest, MIN_ROOM))


def _run_guard(moment: Moment, target: int, at: PlanContext) -> Generator[PlanStep, StepAnswer, list[Decision]]:
    """Fit the history into the target. If both do not fit, the ledger shrinks, not the newest request."""
    view, visible = at.view, hide_ledger(at.view)
    ledger_tokens = view.tokens - visible.tokens
    newest = next((item.tokens for item in visible.items if item.message.id == view.newest_request), 0)
    spare = target - newest if newest <= target else target // 2
    limit = min(ledger_allowance(at.policy, view, at.budget), spare // 2)
    outcome = guard_history(visible, at.budget, target=target - min(ledger_tokens, limit))
    if outcome.empty and ledger_tokens <= limit:
        return []
    edits = _with_token_counts(outcome.edits, at)
    rest = visible.tokens + count_token_change(visible, edits)
    ledger = update_ledger(
        at.policy, view, edits, at.budget, limit, min(target, view.tokens - 1) - rest - ledger_tokens
    )
    outcome = _with_tally(outcome, ledger)
    if _touches_loop_start(ledger.edits, at):
        outcome = msgspec.structs.replace(outcome, why=f"{outcome.why}; {_LOOP_WITHOUT_THINKING}")
    return [(yield from _commit("guard", moment, "", outcome, at, ledger.edits, newest=True))]


def _with_tally(outcome: Outcome, ledger: LedgerUpdate) -> Outcome:
    """The outcome with the ledger's counts in its reason, which is stored with the edit."""
    counts = str(ledger.tally or "")
    return msgspec.structs.replace(outcome, why=make_sentence(outcome.why, counts)) if counts else outcome


def _act(rule: Rule, moment: Moment, why: str, at: PlanContext) -> Generator[PlanStep, StepAnswer, Decision]:
    """Run the stage of a rule that fires, unless it freed nothing on this same view."""
    tokens = at.view.tokens
    key = (rule.name, at.view.changed_seq)
    if key in at.fruitless_runs:
        return Decision(
            moment, rule.name, rule.stage, False, "it freed nothing on this same view before", tokens, tokens
        )
    try:
        outcome = rule.run(hide_ledger(at.view), at.budget, **rule.settings)
    except StageFailed as failed:
        return Decision(moment, rule.name, rule.stage, False, f"{failed}; nothing was changed", tokens, tokens, True)
    if outcome.empty:
        return Decision(
            moment, rule.name, rule.stage, False, make_sentence(why, "there is nothing to do"), tokens, tokens
        )
    if _touches_loop_start(outcome.edits, at):
        return Decision(moment, rule.name, rule.stage, False, make_sentence(why, _WAITS_FOR_LOOP), tokens, tokens)
    outcome = msgspec.structs.replace(outcome, why=make_sentence(why, outcome.why))
    decision = yield from _carry_out(rule, moment, outcome, at)
    if not decision.acted:
        at.fruitless_runs.add(key)
    return decision


def _carry_out(
    rule: Rule, moment: Moment, outcome: Outcome, at: PlanContext
) -> Generator[PlanStep, StepAnswer, Decision]:
    tokens = at.view.tokens
    outcome = mask_outcome(outcome, at.mask)

    def refused(why: str) -> Decision:
        return Decision(moment, rule.name, rule.stage, False, why, tokens, tokens)

    least = _with_token_counts(outcome.edits, at)
    if outcome.edits and not outcome.grows and count_token_change(at.view, least) >= 0:
        return refused(make_sentence(outcome.why, "it would free nothing"))
    for effect in outcome.effects:
        if isinstance(effect, Flush):
            text = yield from _obtain_summary(effect.request, at.budget)
            effect = Flush(effect.request, text)
        failed = yield RunEffect(effect)
        if failed is not None:
            return refused(make_sentence(outcome.why, f"it was not done because saving failed: {failed}"))
    texts = []
    for request in outcome.requests:
        texts.append((yield from _obtain_summary(request, at.budget)))
    edits = (*_summary_edits(outcome, texts, at), *least)
    if not edits:
        return Decision(moment, rule.name, rule.stage, True, outcome.why, tokens, tokens)
    freed, enough = -count_token_change(at.view, edits), max(1, rule.floor)
    if outcome.requests and freed < enough and not outcome.grows:  # the summary is too long: the digest may be shorter
        edits = (*_summary_edits(outcome, [_digest_summary(each, at.budget) for each in outcome.requests], at), *least)
        freed = -count_token_change(at.view, edits)
    if outcome.grows and freed < 0 and tokens - freed > at.budget.room:
        return refused(make_sentence(outcome.why, "it would not fit into the room"))
    if not outcome.grows and freed < enough:
        return refused(make_sentence(outcome.why, f"it would free only {freed:,} of at least {enough:,} tokens"))
    if not outcome.grows or freed >= enough:
        ledger = _update_ledger_within(edits, freed - enough, at)
        if ledger.lost:
            return refused(make_sentence(outcome.why, "it would free too little to keep the rules of the user"))
        outcome, edits = _with_tally(outcome, ledger), ledger.edits
    origin = rule.run.origin if isinstance(rule.run, ExternalStage) else ""
    return (yield from _commit(rule.stage, moment, rule.name, outcome, at, edits, origin=origin))


def _update_ledger_within(edits: tuple[Edit, ...], spare: int, at: PlanContext) -> LedgerUpdate:
    """Check a transaction for the facts it removes. The ledger may take at most `spare` tokens to keep them."""
    most = ledger_allowance(at.policy, at.view, at.budget)
    ledger_tokens = at.view.tokens - hide_ledger(at.view).tokens
    ledger = update_ledger(at.policy, at.view, edits, at.budget, most, spare)
    return ledger._replace(lost=ledger.lost and ledger_tokens + spare < most)


def _commit(
    stage: str,
    moment: Moment,
    rule: str,
    outcome: Outcome,
    at: PlanContext,
    edits: tuple[Edit, ...] | None = None,
    *,
    newest: bool = False,
    origin: str = "",
) -> Generator[PlanStep, StepAnswer, Decision]:
    """Check a transaction and have the caller commit it. One that breaks a law is refused, and the session goes on.

    `origin` says where a stage comes from that is not part of tidegate.
    """
    if edits is None:
        edits = _with_token_counts(outcome.edits, at)
    if find_new_compaction(edits) is not None:  # the thinking after it stays valid, or the walk leaves it out
        edits = _place_compaction(edits, at.view)
    else:
        edits = _keep_compaction(edits, at.view)
        if at.binds_prefix:
            edits = _without_bound_thinking(edits, at)
    before = at.view.tokens
    after = before + count_token_change(at.view, edits)
    try:
        check_edits(at.view, edits, may_touch_newest=newest)
    except BadEdit as bad:
        source = f" The stage {stage} comes from {origin}." if origin else ""
        return Decision(moment, rule, stage, False, f"refused: {bad}{source}", before, before, True)
    failed = yield CommitEdits(ViewEdited(stage, moment, rule, outcome.why, before, after, edits))
    if failed is not None:
        return Decision(moment, rule, stage, False, failed, before, before)
    return Decision(moment, rule, stage, True, outcome.why, before, after)


def _keep_compaction(edits: tuple[Edit, ...], view: View) -> tuple[Edit, ...]:
    """The edits without those of the message with a compaction by the provider, which must stay the first as it is.

    The model does not see what is before it. Results of its calls that would leave with it are shortened to a pointer.
    """
    first = view.compaction_id
    if not first or not view.items or view.items[0].message.id != first:
        return edits
    results = {item.message.id: item.message for item in takewhile(_is_result, view.items[1:])}
    new_edits: list[Edit] = []
    for edit in edits:
        if isinstance(edit, Insert) and not edit.after_id:
            edit = msgspec.structs.replace(edit, after_id=first)
        elif isinstance(edit, Drop) and first in edit.ids:
            edit = Drop(tuple(ident for ident in edit.ids if ident != first and ident not in results))
            new_edits += [_make_pointer(message) for message in results.values()]
        if not (isinstance(edit, Replace) and edit.id == first) and edit != Drop(()):
            new_edits.append(edit)
    return tuple(new_edits)


def _place_compaction(edits: tuple[Edit, ...], view: View) -> tuple[Edit, ...]:
    """The edits with a new block first, and everything else that they insert at the end, also a ledger before it.

    "Don't skip or add a message between the last summarized message and the first kept one":
    https://platform.claude.com/docs/en/build-with-claude/compaction-thinking-blocks
    """
    block = find_new_compaction(edits)
    assert block is not None
    dropped_ids, last = EditIndex(edits).dropped, view.items[-1].message.id
    first_items = takewhile(lambda item: item.message.id in dropped_ids or item.message.kind == LEDGER, view.items)
    ledger = [item for item in first_items if item.message.id not in dropped_ids]
    ledger_inserts = [Insert(item.message, last, item.tokens) for item in ledger]
    rest = [
        msgspec.structs.replace(edit, after_id=last) if isinstance(edit, Insert) else edit
        for edit in edits
        if edit is not block
    ]
    drop = (Drop(tuple(item.message.id for item in ledger)),) if ledger else ()
    return (msgspec.structs.replace(block, after_id=""), *drop, *ledger_inserts, *rest)


def _is_result(item: Item) -> bool:
    return item.message.role == "tool"


def _make_pointer(message: Message) -> Replace:
    result = result_of(message)
    assert result is not None
    text = f"[recall {message.id} has all of it]"
    return Replace(message.id, (Result(result.call_id, (Text(text),), result.error),), len(text) // 3 + 8)


def _with_token_counts(edits: Sequence[Edit], at: PlanContext) -> tuple[Edit, ...]:
    """The same edits with the token counts of their new content."""
    roles = {item.message.id: item.message.role for item in at.view.items}
    new_edits: list[Edit] = []
    for edit in edits:
        if isinstance(edit, Replace):
            message = Message(roles.get(edit.id, "user"), edit.parts)
            edit = msgspec.structs.replace(edit, tokens=at.budget.count(message))
        elif isinstance(edit, Insert):
            edit = msgspec.structs.replace(edit, tokens=at.budget.count(edit.message))
        new_edits.append(edit)
    return tuple(new_edits)


def count_token_change(view: View, edits: Sequence[Edit]) -> int:
    """The difference in tokens that a transaction makes to the view."""
    cost = {item.message.id: item.tokens for item in view.items}
    dropped_ids = {ident for edit in edits if isinstance(edit, Drop) for ident in edit.ids}
    total = -sum(cost.get(ident, 0) for ident in dropped_ids)
    for edit in edits:
        if isinstance(edit, Replace) and edit.id not in dropped_ids:
            total += edit.tokens - cost.get(edit.id, 0)
        elif isinstance(edit, Insert):
            total += edit.tokens
    return total


def _summary_edits(outcome: Outcome, texts: Sequence[str], at: PlanContext) -> tuple[Edit, ...]:
    """The edits that insert these summaries."""
    pairs = zip(outcome.requests, texts, strict=True)
    return _with_token_counts([Insert(each.to_message(text), each.after_id) for each, text in pairs], at)


def _obtain_summary(request: SummaryRequest, budget: Budget) -> Generator[PlanStep, StepAnswer, str]:
    """The text of a summary, clipped to its limits: if no model writes one, the fallback or the digest."""
    text = yield AskSummary(request)
    if text is None or not text.strip():
        return _digest_summary(request, budget)
    return _clip_summary(text, request, budget)


def _digest_summary(request: SummaryRequest, budget: Budget) -> str:
    """The deterministic summary."""
    text = request.fallback or write_digest(
        request.messages, max_tokens=request.max_tokens, counter=budget.counter, previous=request.previous
    )
    return _clip_summary(text, request, budget)


def _clip_summary(text: str, request: SummaryRequest, budget: Budget) -> str:
    if request.max_chars:
        text = clip_chars(text, request.max_chars).text
    return clip_tokens(text.strip(), request.max_tokens, budget.counter).text
