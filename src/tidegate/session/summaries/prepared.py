"""Summaries of a policy, written before it asks for them: the counterpart of state notes for presets.

A preset has its own prompt for a summary, and its own place for it. When its threshold is near, the same plan runs on a
copy of the view with a lower threshold, and says which summary it will ask for. The model of the conversation writes it
beside the next calls; the text is an event of the log, with the ids of the messages that it covers. The compaction uses
it when it comes. Nothing waits: without a text that fits, the summary is made without a model.
"""

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from tidegate.core.digest.writer import write_digest
from tidegate.core.edits import Insert
from tidegate.core.events import BranchStarted, Event, ViewEdited
from tidegate.core.messages import Message
from tidegate.core.notes import REFOLD_NOTES, PreparedSummary, ViewCleared, is_note, read_note
from tidegate.core.outcome import SummaryRequest
from tidegate.core.plan import AskSummary, CommitEdits, PlanContext, PlanStep, run_moment
from tidegate.core.policy.policy import (
    Moment,
    Policy,
    Rule,
    Trigger,
    TriggerContext,
    judge_rule,
)
from tidegate.core.snapshot import freeze_view, thaw_view
from tidegate.core.tokens.counting import TokenCounter
from tidegate.core.view import LogView, Meter
from tidegate.session.summaries.answer_check import AnswerCriteria, check_answer, restore_missing_facts
from tidegate.session.summaries.drivers import strip_focus_line
from tidegate.session.summaries.prompt import make_record_entries, write_closing_question
from tidegate.store.log import LogReader

_MAX_NEW_SHARE: Final = 0.35  # of the requested messages, newer than a text, if a newer text can be asked for
_MARGIN: Final = 0.15  # below the thresholds of the policy
_MOMENTS: Final[tuple[Moment, ...]] = ("turn_end", "turn_start", "before_call")
_SIZE_METRICS: Final = frozenset(
    {"tokens", "history", "pressure", "window_share", "history_share", "fill", "messages", "turns", "unlimited"}
)
_PREPARED_SHARE: Final = 3, 4
"""The share of the limit that is for the prepared text; the rest is for newer messages."""


class SummaryTask(NamedTuple):
    """What a model is asked, and what its answer is checked with. `horizon` is the last message that it sees.

    `head` is the log's head when the question was made, `max_tokens` the limit of the text.
    """

    instruction: str
    horizon: str
    request: SummaryRequest
    max_tokens: int
    head: int


def wants_summaries(policy: Policy, moments: Iterable[str] = _MOMENTS) -> bool:
    """Whether rules of these moments ask for texts that a model should write."""
    rules = [rule for moment in moments for rule in policy.moments.get(moment, ())]
    return any(map(_asks, rules))


def is_summary_near(at: PlanContext) -> bool:
    """Whether a rule that asks for a summary would fire soon."""
    coming = _choose_coming_rules(at)
    return any(map(_asks, (rule for rules in coming.moments.values() for rule in rules)))


def _choose_coming_rules(at: PlanContext) -> Policy:
    """The policy with lower thresholds: a rule that asks for a summary fires at once if it is near, else never.

    A copy of a view does not have the provider's reports, so its size cannot be compared with a threshold again.
    """
    policy = _change_triggers(at.policy, _MOMENTS, _lower_trigger)
    occasion = TriggerContext(at.view, at.budget, policy)

    def choose(rules: Sequence[Rule]) -> tuple[Rule, ...]:
        near = (rule for rule in rules if not _asks(rule) or (rule.when and judge_rule(rule, occasion, at.now).fires))
        return tuple(
            msgspec.structs.replace(rule, when=(), cooldown_turns=0, cooldown_seconds=0.0) if _asks(rule) else rule
            for rule in near
        )

    return msgspec.structs.replace(
        policy, moments={moment: choose(policy.moments.get(moment, ())) for moment in _MOMENTS}
    )


def _asks(rule: Rule) -> bool:
    return rule.stage == "summarize" or bool(rule.settings.get("flush"))


def _change_triggers(policy: Policy, moments: Iterable[Moment], change: Callable[[Trigger], Trigger]) -> Policy:
    """Return the policy with the rules of these moments only, with other triggers."""

    def change_rule(rule: Rule) -> Rule:
        when = tuple(tuple(map(change, condition)) for condition in rule.when)
        return msgspec.structs.replace(rule, when=when)

    rules = {moment: tuple(map(change_rule, policy.moments.get(moment, ()))) for moment in moments}
    return msgspec.structs.replace(policy, moments=rules)


def _lower_trigger(trigger: Trigger) -> Trigger:
    if trigger.metric not in _SIZE_METRICS or trigger.op not in (">", ">="):
        return trigger
    return trigger._replace(value=trigger.value * (1 - _MARGIN))


def find_coming_request(at: PlanContext, meter: Meter | None, moments: Sequence[Moment] = ()) -> SummaryRequest | None:
    """The first summary that the policy will ask for: its plan runs on a copy of the view.

    By default for the moments before a call, with lower thresholds. A request with a fallback of its own is not meant.
    """
    policy = at.policy if moments else _choose_coming_rules(at)
    view = thaw_view(freeze_view(at.view), meter)
    at = at._replace(policy=policy, view=view, fruitless_runs=set(at.fruitless_runs))
    for moment in moments or _MOMENTS:
        plan = run_moment(moment, at)
        step: PlanStep | None = next(plan, None)
        while step is not None:
            if isinstance(step, AskSummary) and not step.request.fallback:
                return step.request
            if isinstance(step, CommitEdits):
                _fold_edits(view, step.edited, at.now)
            try:
                step = plan.send(None)
            except StopIteration:
                step = None
    return None


def _fold_edits(view: LogView, edited: ViewEdited, now: float) -> None:
    """Apply an edit to the copy, with the ids that the session would give."""
    seq = view.head + 1
    edits = tuple(
        msgspec.structs.replace(edit, message=msgspec.structs.replace(edit.message, id=f"e{seq}.{place}"))
        if isinstance(edit, Insert)
        else edit
        for place, edit in enumerate(edited.edits)
    )
    view.fold(Event(seq, now, msgspec.structs.replace(edited, edits=edits)))


def make_summary_task(request: SummaryRequest, horizon: str, head: int, *, is_ahead: bool) -> SummaryTask:
    """The task of writing this summary. What is written ahead leaves room for lines about newer messages."""
    part, whole = _PREPARED_SHARE
    tokens = max(1, request.max_tokens * part // whole) if is_ahead else request.max_tokens
    return SummaryTask(write_closing_question(request, tokens), horizon, request, tokens, head)


def check_prepared(task: SummaryTask, answer: str, counter: TokenCounter) -> PreparedSummary:
    """The summary in an answer, checked against the messages. AnswerRejected says why it cannot be used."""
    request = task.request
    source = "\n".join(entry.text for entry in make_record_entries(request.messages))
    words = strip_focus_line(task.instruction)
    criteria = AnswerCriteria(source, request.previous, words, "", task.max_tokens, request.max_chars, counter)
    text = restore_missing_facts(check_answer(answer, criteria), criteria)
    return PreparedSummary(_hash_task(request), tuple(message.id for message in request.messages), text)


def _hash_task(request: SummaryRequest) -> str:
    """Equal for requests of the same kind of text that continue the same summary. A focus makes no difference."""
    parts = [request.kind, strip_focus_line(request.instructions), request.previous, str(request.max_chars)]
    return blake2b("\x00".join(parts).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def find_prepared(
    log: LogReader, request: SummaryRequest, counter: TokenCounter, *, may_be_old: bool = False
) -> str | None:
    """The newest text of the log that answers a request: it covers only messages of it.

    Lines about the newer ones are added to it. None after an undo or a return to before it was written, and unless it
    `may_be_old` also if too many messages are newer.
    """
    message_ids = {message.id for message in request.messages}
    task, found = _hash_task(request), None
    for event in log.read(_first_seq(request.messages)):
        what = event.payload
        if isinstance(what, BranchStarted) or is_note(what, *REFOLD_NOTES, ViewCleared):
            found = None
            continue
        made = read_note(what, PreparedSummary)
        if made is not None and made.task == task and message_ids.issuperset(made.ids):
            found = made
    if found is None:
        return None
    covered = set(found.ids)
    rest = [message for message in request.messages if message.id not in covered]
    if not may_be_old and _count(rest, counter) > _MAX_NEW_SHARE * _count(request.messages, counter):
        return None
    return _join_digest(found.text, rest, request.max_tokens, counter)


def _first_seq(messages: Sequence[Message]) -> int:
    """The seq from which on a text about these messages can be."""
    return min((int(each.id[1:]) for each in messages if each.id[1:].isdecimal()), default=1)


def _count(messages: Sequence[Message], counter: TokenCounter) -> int:
    return sum(counter.count_text(entry.text) for entry in make_record_entries(messages))


def _join_digest(text: str, rest: Sequence[Message], max_tokens: int, counter: TokenCounter) -> str:
    """Return a prepared text with lines about the messages that came after it."""
    if not rest:
        return text
    part, whole = _PREPARED_SHARE
    left = max(max_tokens - counter.count_text(text) - 2, max_tokens * (whole - part) // whole)
    return f"{text}\n{write_digest(rest, max_tokens=left, counter=counter)}"
