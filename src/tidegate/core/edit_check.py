"""The check that every transaction passes before it is written to the log."""

from tidegate.core.edits import Drop, Edit, Insert, Replace, find_new_compaction
from tidegate.core.errors import BadEdit
from tidegate.core.messages import Message, Part, Result, calls_of, is_user_request, result_of, text_of
from tidegate.core.turns import split_groups
from tidegate.core.view import View

_DEFECT = "This is a defect of the stage that made the edit; please report it."


def check_edits(view: View, edits: tuple[Edit, ...], *, may_touch_newest: bool = False) -> None:
    """Raise BadEdit if edits would cut a group, break a pair of call and result, or touch the newest user message."""
    messages = {item.message.id: item.message for item in view.items}
    orphans = {item.message.id for item in view.orphans}
    dropped_ids = {ident for edit in edits if isinstance(edit, Drop) for ident in edit.ids}
    replaced_ids = {edit.id for edit in edits if isinstance(edit, Replace)}
    missing = (dropped_ids - messages.keys() - orphans) | (replaced_ids - messages.keys())
    if missing:
        raise BadEdit(f"An edit names messages that are not in the view: {sorted(missing)[:5]}.", _DEFECT)
    if view.newest_request in dropped_ids | replaced_ids and not (may_touch_newest or _repeats_newest(view, edits)):
        raise BadEdit("An edit touches the newest user message.", _DEFECT)
    caller_of: dict[str, str] = {}
    ends: set[str] = {""}
    for group in split_groups(view):
        ids = group.ids
        if 0 < sum(ident in dropped_ids for ident in ids) < len(ids):
            raise BadEdit(f"A drop would cut the group of {ids[0]}.", _DEFECT)
        caller_of.update(dict.fromkeys(ids, ids[0]))
        ends.add(ids[-1])
    open_calls = {caller: list(calls) for caller, calls in view.unanswered.items() if caller not in dropped_ids}
    for edit in edits:
        if isinstance(edit, Replace):
            _check_replace(messages[edit.id], edit.parts)
        elif isinstance(edit, Insert) and edit.message.role == "tool":
            _check_answer(edit, open_calls.get(caller_of.get(edit.after_id, ""), []))
        elif isinstance(edit, Insert) and (calls_of(edit.message) or edit.after_id not in ends):
            raise BadEdit(f"An insert after {edit.after_id!r} would be inside a group or contain calls.", _DEFECT)


def _repeats_newest(view: View, edits: tuple[Edit, ...]) -> bool:
    """Whether a provider's block takes the place of the newest request, and its words stand after it."""
    newest = next((item.message for item in view.items if item.message.id == view.newest_request), None)
    if newest is None or find_new_compaction(edits) is None:
        return False
    texts = [text_of(edit.message) for edit in edits if isinstance(edit, Insert) and is_user_request(edit.message)]
    return any(text_of(newest) in text for text in texts)


def _check_replace(old: Message, parts: tuple[Part, ...]) -> None:
    new = Message(old.role, parts)
    if [call.id for call in calls_of(old)] != [call.id for call in calls_of(new)]:
        raise BadEdit(f"A replace would change the calls of {old.id}.", _DEFECT)
    if _answers(old) != _answers(new):
        raise BadEdit(f"A replace would separate the result {old.id} from its call.", _DEFECT)


def _answers(message: Message) -> list[str]:
    return [part.call_id for part in message.parts if isinstance(part, Result)]


def _check_answer(edit: Insert, open_calls: list[str]) -> None:
    """A result may only be inserted into the group with its open call."""
    result = result_of(edit.message)
    if result is None or result.call_id not in open_calls:
        raise BadEdit(f"An insert after {edit.after_id!r} answers no open call of that group.", _DEFECT)
    open_calls.remove(result.call_id)
