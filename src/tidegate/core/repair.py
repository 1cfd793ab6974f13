"""Mend what came in broken, in both directions, and nothing else.

Histories arrive cut off: a call whose tool never returned, a result whose call someone trimmed away. A provider
refuses both for ever after. A call without a result is answered with a plain statement that it was interrupted; a
result without a call leaves the view (the log keeps it). A whole history is left as it is.
"""

from tidegate.core.edits import Drop, Edit, Insert
from tidegate.core.messages import INTERRUPTED, Message, Result, Text
from tidegate.core.outcome import NO_OUTCOME, Outcome
from tidegate.core.view import View

_NO_RESULT_TEXT = "[interrupted: no result was recorded; it is not known whether the call took effect]"


def repair_view(view: View) -> Outcome:
    edits: list[Edit] = []
    if view.orphans:
        edits.append(Drop(tuple(item.message.id for item in view.orphans)))
    open_calls = 0
    for caller, call_ids in view.unanswered.items():
        behind = _last_of_group(view, caller)
        for call_id in call_ids:
            open_calls += 1
            result = Result(call_id, (Text(_NO_RESULT_TEXT),), error=True)
            edits.append(Insert(Message("tool", (result,), kind=INTERRUPTED), after_id=behind))
    if not edits:
        return NO_OUTCOME
    return Outcome(tuple(edits), why=f"{open_calls} calls had no result, {len(view.orphans)} results had no call")


def _last_of_group(view: View, caller: str) -> str:
    last, inside = caller, False
    for item in view.items:
        if item.message.id == caller:
            inside = True
        elif inside:
            if item.message.role != "tool":
                break
            last = item.message.id
    return last
