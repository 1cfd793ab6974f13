"""A log by hand, the view kept up beside it, and what must hold of any view.

The invariants are recomputed from the items alone, by code that shares nothing with the fold.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from tidegate.core.edits import Edit, Insert, Replace
from tidegate.core.events import Event, EventPayload, MessageAdded, NoteAdded, UsageReported, ViewEdited
from tidegate.core.log_fold import fold_log
from tidegate.core.messages import TOOL_RESULT, Message, calls_of, is_user_request, result_of
from tidegate.core.view import RefoldNeeded, View


def rough(message: Message) -> int:
    """A count that differs from message to message; the fold must not care which it is."""
    return 3 + len(msgspec.json.encode(message.parts)) // 4


def meter(message: Message) -> int:
    return 7 + 2 * len(message.parts)


class Tape:
    """What a session does with a log, and nothing else of it."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.events = list(events)
        self.view = fold_log(self.read, meter)

    def read(self) -> Iterator[Event]:
        return iter(self.events)

    def add(self, what: EventPayload) -> int:
        seq = len(self.events) + 1
        event = Event(seq, 1000.0 + seq, what)
        self.events.append(event)
        try:
            self.view.fold(event)
        except RefoldNeeded:
            self.view = fold_log(self.read, meter)
        return seq

    def say(self, message: Message) -> str:
        ident = f"m{len(self.events) + 1}"
        self.add(MessageAdded(msgspec.structs.replace(message, id=ident), rough(message)))
        return ident

    def edit(self, edits: tuple[Edit, ...], *, stage: str = "test", rule: str = "", moment: str = "manual") -> int:
        """Inserted messages are named here, as a session names them."""
        seq = len(self.events) + 1
        named: list[Edit] = []
        for place, edit in enumerate(edits):
            if isinstance(edit, Insert):
                message = msgspec.structs.replace(edit.message, id=f"e{seq}.{place}")
                named.append(Insert(message, edit.after_id, rough(message)))
            elif isinstance(edit, Replace):
                named.append(msgspec.structs.replace(edit, tokens=rough(Message("user", edit.parts))))
            else:
                named.append(edit)
        return self.add(ViewEdited(stage, moment, rule, "because", self.view.tokens, 0, tuple(named)))

    def note(self, topic: str, text: str = "", tokens: int = 0) -> int:
        return self.add(NoteAdded(topic, text, tokens))

    def use(self, counted: int, reported: int, model: str = "a") -> int:
        return self.add(UsageReported(model, len(self.events), counted, reported))

    def said(self) -> list[Message]:
        return [event.payload.message for event in self.events if isinstance(event.payload, MessageAdded)]


def snapshot(view: View) -> dict[str, Any]:
    """Everything a view knows, to compare two of them. A field someone adds later is compared as well."""
    return {name: _plain(value) for name, value in view.fields().items() if name not in ("meter", "skipped_edits")} | {
        "fixed": view.fixed_tokens,
        "messages": view.message_count,
    }


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value, builtin_types=(bytes,)) if not isinstance(value, Mapping) else dict(value)


def shown(view: View) -> list[str]:
    return [item.message.id for item in view.items]


def check_view(view: View) -> None:
    """What holds of every view, whatever was said and done."""
    ids = shown(view)
    assert len(ids) == len(set(ids)), "a message stands twice in the view"
    assert all(ids), "a message without an id"
    open_calls = check_groups(view)
    assert {name: sorted(wanted) for name, wanted in view.unanswered.items()} == open_calls
    check_counters(view)


def check_groups(view: View) -> dict[str, list[str]]:
    """Every result stands in the group of its call, at most one for each. The answer is what is still open."""
    open_calls: dict[str, Counter[str]] = {}
    caller = ""
    for item in view.items:
        message = item.message
        if message.role != "tool":
            caller = message.id
            open_calls[caller] = Counter(call.id for call in calls_of(message))
            continue
        result = result_of(message)
        assert result is not None
        assert caller, "a result stands at the head"
        assert open_calls[caller][result.call_id] > 0, f"{message.id} does not answer a call of {caller}"
        open_calls[caller][result.call_id] -= 1
    left = {name: sorted(calls.elements()) for name, calls in open_calls.items()}
    return {name: calls for name, calls in left.items() if calls}


def check_counters(view: View) -> None:
    messages = [item.message for item in view.items]
    requests = [message.id for message in messages if is_user_request(message)]
    assert view.message_count == len(messages)
    assert view.tokens == sum(item.tokens for item in view.items)
    assert view.metered == sum(item.metered_tokens for item in view.items)
    assert view.visible_turns == len(requests)
    assert view.newest_request == (requests[-1] if requests else "")
    assert view.tool_call_count == sum(len(calls_of(message)) for message in messages)
    assert view.tool_result_count == sum(message.role == "tool" and message.kind == TOOL_RESULT for message in messages)
    assert view.fixed_tokens == view.system_tokens + view.tools_tokens
