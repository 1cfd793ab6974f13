"""The repair: complete the pairs of call and result. The plan runs it before the rules of a moment.

A history may arrive cut off: a call whose tool never returned, a result whose call was trimmed away. A provider refuses
every request with either. The repair answers a call without a result with the statement that it was interrupted, and
drops a result without a call from the view (the log keeps it). A complete history is left as it is.
"""

from tidegate.core.edits import Drop, Edit, Insert
from tidegate.core.messages import INTERRUPTED, Message, Result, Text, result_of
from tidegate.core.outcome import NO_OUTCOME, Outcome
from tidegate.core.text.plural import format_count
from tidegate.core.turns import split_groups
from tidegate.core.view import Item, View

_NO_RESULT_TEXT = "[interrupted: no result was recorded; it is not known whether the call took effect]"


def repair_view(view: View) -> Outcome:
    edits: list[Edit] = []
    if view.orphans:
        edits.append(Drop(tuple(item.message.id for item in view.orphans)))
    open_calls = 0
    last_ids = {group.ids[0]: group.last_id for group in split_groups(view)} if view.unanswered else {}
    for caller, call_ids in view.unanswered.items():
        for call_id in call_ids:
            open_calls += 1
            result = Result(call_id, (Text(_NO_RESULT_TEXT),), error=True)
            edits.append(Insert(Message("tool", (result,), kind=INTERRUPTED), after_id=last_ids[caller]))
    if not edits:
        return NO_OUTCOME
    calls = f"{format_count(open_calls, 'call')} had no result" if open_calls else ""
    answers = _find_answers(view) if view.orphans else {}
    second = sum(_call_id(item) in answers for item in view.orphans)
    without_call = len(view.orphans) - second
    results = f"{format_count(without_call, 'result')} had no call" if without_call else ""
    repeated = f"{format_count(second, 'result')} came after another for the same call" if second else ""
    return Outcome(tuple(edits), why=" and ".join(filter(None, (calls, results, repeated))))


def describe_ignored_results(view: View) -> list[str]:
    """A sentence for each result that the repair drops from the view: what is wrong with it and what happens to it."""
    answers = _find_answers(view) if view.orphans else {}
    texts: list[str] = []
    for item in view.orphans:
        ident, call = item.message.id, _call_id(item)
        if call in answers:
            what = f"{ident} is a second result for the call {call[:80]!r}, which {answers[call]} has answered."
        else:
            what = f"{ident} is a result for the call {call[:80]!r}, which no earlier message in the view has made."
        texts.append(f"{what} It is left out of requests and stays in the log: recall({ident!r}) returns it.")
    return texts


def _find_answers(view: View) -> dict[str, str]:
    """The message with the result of each call in the view."""
    return {_call_id(item): item.message.id for item in view.items if item.message.role == "tool"}


def _call_id(item: Item) -> str:
    result = result_of(item.message)
    return "" if result is None else result.call_id
