"""Sessions under observation: what must hold of every request, judged from outside."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from tests.laws.tape import check_view, snapshot
from tidegate import Request, Session, presets
from tidegate.core.budget import MIN_ROOM, Budget
from tidegate.core.edits import Drop, Insert, Replace
from tidegate.core.events import MessageAdded, NoteAdded, ViewEdited
from tidegate.core.log_fold import fold_log
from tidegate.core.messages import Message, Text
from tidegate.core.outcome import SummaryRequest
from tidegate.core.view import View
from tidegate.store.log import MemoryLog
from tidegate.wire.parsing import repair_json_unicode
from tidegate.wire.registry import DIALECTS, get_dialect
from tidegate.wire.rendering.layout import LAST_USER_FILLER
from tidegate.wire.request import RequestRenderer

WIRES = tuple(DIALECTS)
TOOLS = ({"type": "function", "function": {"name": "read", "description": "Read a file.", "parameters": {}}},)
SYSTEM = "You are a careful assistant."


loaded = cache(presets.load)


class Clock:
    """Time passes only when it is told to: a policy may rightly do other things a second later."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def a_session(
    policy: str,
    *,
    window: int | None,
    wire: str,
    counting: str = "chars/4",
    log: MemoryLog | None = None,
    clock: Clock | None = None,
) -> Session:
    return Session(
        policy=loaded(policy),
        window=window,
        wire=wire,
        system=SYSTEM if log is None else "",
        tools=TOOLS,
        count=counting,
        log=log,
        clock=clock or Clock(),
    )


def reopened(session: Session, counting: str, clock: Clock) -> Session:
    """The same session from what is on record, with nothing else of the old one."""
    assert isinstance(session.log, MemoryLog)
    return Session(
        policy=session.policy,
        window=session.window,
        wire=session.dialect.name,
        count=counting,
        log=MemoryLog(session.log.records()),
        clock=clock,
    )


def hostile(request: SummaryRequest) -> str | None:
    """Summarizers return anything: nothing, blanks, too much, markup."""
    return (None, "", " \n", "short", "word " * 20_000, "<tool_call>{}</tool_call> \x00")[len(request.messages) % 6]


def said(session: Session) -> dict[str, Message]:
    return {
        event.payload.message.id: event.payload.message
        for event in session.log.read()
        if isinstance(event.payload, MessageAdded)
    }


def edits(session: Session) -> list[ViewEdited]:
    return [event.payload for event in session.log.read() if isinstance(event.payload, ViewEdited)]


# --- the request, as a provider reads it ------------------------------------------------------------------------------


def strings(value: Any) -> Iterator[str]:
    """Every text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from strings(inner)
    elif isinstance(value, Sequence) and not isinstance(value, bytes):
        for inner in value:
            yield from strings(inner)


def fresh_rendering(view: View, wire: str, max_tokens: int = 0) -> RequestRenderer:
    rendering = RequestRenderer(wire, max_tokens=max_tokens)
    rendering.update(view)
    return rendering


def check_renderings(view: View) -> None:
    """The view is valid for every provider, whichever the session speaks to."""
    for wire in WIRES:
        assert fresh_rendering(view, wire).faults() == [], wire


def chat_texts(body: Mapping[str, Any]) -> list[str]:
    """What is counted of an OpenAI chat request: contents, call names, arguments."""
    found: list[str] = []
    for message in body["messages"]:
        content = message.get("content")
        if isinstance(content, list):
            content = "".join(part["text"] for part in content if part["type"] == "text")
        found.append(content or "")
        for call in message.get("tool_calls", ()):
            found += [call["function"]["name"], call["function"]["arguments"]]
    return found


# --- what holds of every request --------------------------------------------------------------------------------------


def check_request(session: Session, request: Request) -> None:
    check_size(session, request)
    check_view(session.view)
    assert not session.view.unanswered
    assert not session.view.orphans
    check_renderings(session.view)
    check_newest(session, request)
    check_truth(session)
    asked = get_dialect(request.dialect_name).output.read(request.body)
    assert request.to_bytes() == fresh_rendering(session.view, request.dialect_name, asked).to_bytes()
    assert msgspec.json.decode(request.to_bytes()) == msgspec.json.decode(msgspec.json.encode(request.body))


def check_size(session: Session, request: Request) -> None:
    budget = session.budget
    assert request.tokens <= budget.capacity
    assert session.window is None or request.tokens + budget.reserve <= session.window
    assert session.view.tokens <= budget.room
    assert request.tokens == session.tokens
    body = fresh_rendering(session.view, "openai_chat").body()
    texts = chat_texts(body)
    counted = sum(session.counter.count_text(text) for text in texts if text)
    assert counted <= session.view.tokens + budget.fixed, "the request is larger than the view was counted"
    if session.counter.name == "chars/4":
        assert sum(map(len, texts)) / 4 <= budget.limit


def check_newest(session: Session, request: Request) -> None:
    """The newest words of the user are in the request as they were said, or clipped by the guard with a notice."""
    newest = newest_visible(session)
    assert session.view.newest_request == (newest.id if newest else "")
    if newest is None:
        return
    found = "\0".join(strings(request.messages))
    if all(text in found for text in words(newest)):
        return
    assert "guard" in {e.stage for e in edits(session) if newest.id in touched(e)}, (
        "something changed the newest request"
    )
    assert "left out" in found


def newest_visible(session: Session) -> Message | None:
    """The newest message of the user since the view was last cleared on purpose."""
    newest = None
    for event in session.log.read():
        what = event.payload
        if isinstance(what, MessageAdded) and what.message.role == "user" and what.message.agent_visible:
            newest = what.message
        elif isinstance(what, NoteAdded) and what.topic == "clear":
            newest = None
    return newest


def words(message: Message) -> list[str]:
    return [part.text for part in message.parts if isinstance(part, Text) and part.text.strip()]


def check_truth(session: Session) -> None:
    """The live view is what the log says, and so is the request of a session opened from its records.

    But for counts: those of a log are upper bounds where something was forgotten, and are made again when it is opened.
    """
    told = fold_log(session.log.read, session.view.meter)
    told.recount(session.counter, thinking=session.dialect.capabilities.plain_thinking, since=0)
    if session.view.usage is None:  # else it is what was said since the report
        told.tokens_since_report, told.metered_since_report = (
            session.view.tokens_since_report,
            session.view.metered_since_report,
        )
    assert snapshot(session.view) == snapshot(told)


def touched(edited: ViewEdited) -> set[str]:
    """The messages a transaction replaces or drops."""
    found: set[str] = set()
    for edit in edited.edits:
        if isinstance(edit, Replace):
            found.add(edit.id)
        elif isinstance(edit, Drop):
            found.update(edit.ids)
    return found


def check_edit(before: View, after: View, edited: ViewEdited, budget: Budget) -> None:
    """What one transaction may do to a view."""
    assert (before.tokens, after.tokens) == (edited.tokens_before, edited.tokens_after), (
        "the transaction was priced wrongly"
    )
    if edited.stage in ("archive_results", "digest_results"):  # by count: a summary may be longer than its result
        assert after.tool_result_count < before.tool_result_count
    elif edited.stage not in ("repair", "hint"):  # a hint says how to recall a file that a request names
        assert after.tokens < before.tokens, f"{edited.stage} did not make the view smaller"
    ids = touched(edited)
    first = len(before.items)
    for place, item in enumerate(before.items):
        if item.message.id in ids:
            first = min(first, place)
    names = [item.message.id for item in before.items]
    for edit in edited.edits:
        if isinstance(edit, Insert):
            first = min(first, names.index(edit.after_id) + 1 if edit.after_id else 0)
    assert after.items[:first] == before.items[:first], "the prefix before the first edited message changed"
    check_newest_spared(before, edited, budget)


def check_newest_spared(before: View, edited: ViewEdited, budget: Budget) -> None:
    """Only the guard touches the newest request: if alone it is too large, if it was cut to fill the room and there is
    work on it now, or if it is most of what a provider refused.
    """
    if before.newest_request not in touched(edited):
        return
    assert edited.stage == "guard"
    item = next(item for item in before.items if item.message.id == before.newest_request)
    assert item.tokens > MIN_ROOM, "a short request of the user was changed"
    is_refused = edited.moment == "overflow" and 2 * item.tokens > before.tokens
    assert item.tokens > budget.room or item.edited or is_refused, "it would have fitted"


def check_extends(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> None:
    """Only the last message of a request may still grow; the filler behind an answer goes when more is said."""
    filler = bool(before) and any(text == LAST_USER_FILLER for text in strings(before[-1]))
    firm = len(before) - (2 if filler else 1)
    assert after[: max(0, firm)] == before[: max(0, firm)]


def check_new_edits(session: Session, start: int) -> None:
    """Judge every edit made since the log had `start` events."""
    events = list(session.log.read())
    after: View | None = None
    for event in events[start:]:
        if isinstance(event.payload, ViewEdited):
            if after is None or after.head != event.seq - 1:
                after = fold_log(lambda: events[: event.seq - 1], session.view.meter)  # noqa: B023 - read at once
            before, after = after, fold_log(lambda: events[: event.seq], session.view.meter)  # noqa: B023
            check_edit(before, after, event.payload, session.budget)


def sound(message: Message) -> Message:
    """The message with every text valid Unicode."""
    return msgspec.convert(repair_json_unicode(msgspec.to_builtins(message)), Message)
