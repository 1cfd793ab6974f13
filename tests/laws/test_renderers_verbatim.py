"""Renderers merge, bridge, demote and rename; they never change a word, and never send more than was counted."""

import math
from itertools import product

import msgspec
import pytest
from hypothesis import strategies as st

from tests.laws.conversations import conversations
from tests.laws.sampled_law import sampled_law
from tests.laws.sessions import WIRES, a_session, chat_texts, check_renderings, fresh_rendering, sound, strings, words
from tests.laws.tape import Tape
from tidegate.core.events import Event, NoteAdded
from tidegate.core.messages import TOOL_RESULT, Call, Image, Message, Result, Text, Thinking, calls_of
from tidegate.core.stages.repair import repair_view
from tidegate.core.tokens.counting import REQUEST_OVERHEAD
from tidegate.core.view import LogView, View
from tidegate.wire.registry import DIALECTS


def view_of(messages: list[Message], *, mend: bool = True) -> LogView:
    tape = Tape()
    for message in messages:
        tape.say(sound(message))
    found = repair_view(tape.view)
    if mend and found.edits:
        tape.edit(found.edits, stage="repair")
    return tape.view


def shown_words(view: View) -> list[str]:
    """Every text of the view that says anything, those inside results included."""
    found: list[str] = []
    for item in view.items:
        found += words(item.message)
        for part in item.message.parts:
            if isinstance(part, Result):
                found += [inner.text for inner in part.parts if isinstance(inner, Text) and inner.text.strip()]
    return found


@sampled_law(30, 50, conversations(huge=5_000))
def test_every_text_of_the_view_is_in_the_request(messages: list[Message]) -> None:
    view = view_of(messages)
    for wire in WIRES:
        found = "\0".join(strings(fresh_rendering(view, wire).messages))
        for text in shown_words(view):
            assert text in found, f"{text[:40]!r} is lost for {wire}"


@sampled_law(60, 100, conversations(huge=5_000), st.booleans())
def test_every_view_renders_validly(messages: list[Message], mend: bool) -> None:
    """Even one that was never mended: rendering alone may not produce what a provider refuses."""
    check_renderings(view_of(messages, mend=mend))


# --- pairs ------------------------------------------------------------------------------------------------------------


def expected_pairs(view: View) -> list[list[str]]:
    """For every call, in order, the words of its answer. Of equal ids the first call has the first answer."""
    pairs: list[list[str]] = []
    slots: list[tuple[str, list[str]]] = []
    for item in view.items:
        calls = calls_of(item.message)
        if item.message.role != "tool":
            slots = [(call.id, []) for call in calls]
            pairs += [said for _, said in slots]
            continue
        for part in item.message.parts:
            if isinstance(part, Result):
                place = next(place for place, slot in enumerate(slots) if slot[0] == part.call_id)
                said = slots.pop(place)[1]
                said += [inner.text for inner in part.parts if isinstance(inner, Text) and inner.text.strip()]
    return pairs


def rendered_pairs(wire: str, messages: list[dict]) -> list[str]:
    """The text of the answer to every call, in the order of the calls."""
    calls: list[object] = []
    answers: dict[object, str] = {}
    for message in messages:
        for call in message.get("tool_calls", ()):
            calls.append(call["id"])
        if message.get("role") == "tool":
            answers[message["tool_call_id"]] = message["content"]
        if message.get("type") == "function_call":
            calls.append(message["call_id"])
        if message.get("type") == "function_call_output":
            answers[message["call_id"]] = "\0".join(strings(message["output"]))
        content = message.get("content")
        for block in content if isinstance(content, list) else ():
            if block.get("type") == "tool_use":
                calls.append(block["id"])
            elif block.get("type") == "tool_result":
                answers[block["tool_use_id"]] = "\0".join(strings(block["content"]))
        for part in message.get("parts", ()):
            if "functionCall" in part:
                calls.append(len(calls))
            elif "functionResponse" in part:
                answers[len(answers)] = "\0".join(strings(part["functionResponse"]["response"]))
    assert len(set(map(str, calls))) == len(calls), f"two calls of one request share an id for {wire}"
    assert set(answers) == set(calls)
    return [answers[call] for call in calls]


@sampled_law(25, 40, conversations(huge=0, size=20))
def test_every_call_keeps_its_own_answer(messages: list[Message]) -> None:
    view = view_of(messages)
    expected = expected_pairs(view)
    for wire in WIRES:
        found = rendered_pairs(wire, fresh_rendering(view, wire).messages)
        assert len(found) == len(expected), wire
        for texts, answer in zip(expected, found, strict=True):
            assert all(text in answer for text in texts), wire


# --- opaque data ------------------------------------------------------------------------------------------------------


@sampled_law(25, 40, conversations(broken=False, huge=0), st.booleans())
def test_signed_blocks_go_out_as_they_came_or_not_at_all(messages: list[Message], moved: bool) -> None:
    view = view_of(messages)
    if moved:
        view.fold(Event(view.head + 1, 0.0, NoteAdded("unsigned")))
    for wire in ("anthropic", "openai_responses", "gemini"):
        sent = [block for block in blocks_of(fresh_rendering(view, wire).messages) if is_signed(block)]
        known: list[object] = []
        for item in view.items:
            if item.message.origin == DIALECTS[wire].family and item.signed:
                blocks = [part.block for part in item.message.parts if isinstance(part, Thinking) and part.block]
                known += [opaque(msgspec.json.decode(block)) for block in blocks]
        assert all(opaque(block) in known for block in sent), wire
        assert not sent or not moved, wire


def blocks_of(messages: list[dict]) -> list[dict]:
    found: list[dict] = []
    for message in messages:
        found.append(message)
        for key in ("content", "parts"):
            inner = message.get(key)
            found += [each for each in inner if isinstance(each, dict)] if isinstance(inner, list) else []
    return found


def opaque(block: dict) -> dict:
    """Without the name of a reasoning item: a provider that keeps nothing does not know it."""
    return {key: value for key, value in block.items() if key != "id"}


def is_signed(block: dict) -> bool:
    return block.get("type") in ("thinking", "redacted_thinking", "reasoning") or bool(block.get("thought"))


# --- sizes ------------------------------------------------------------------------------------------------------------


CHAT_WIRES = ("openai_chat", "mistral", "deepseek")
COUNTINGS = ("chars/4", "exact", "estimate")


@sampled_law(25, 50, conversations(huge=20_000))
def test_a_request_is_never_larger_than_was_counted(messages: list[Message]) -> None:
    """Labels, fillers, mended arguments and made-up names are all paid for."""
    for wire, counting in product(CHAT_WIRES, COUNTINGS):
        session = a_session("default", window=10_000_000, wire=wire, counting=counting)
        session.add(*messages)
        request = session.prepare()
        texts = chat_texts(request.body)
        counted = sum(session.counter.count_text(text) for text in texts if text)
        assert counted <= request.tokens, (wire, counting)
        assert request.tokens == session.view.tokens + session.view.fixed_tokens + REQUEST_OVERHEAD
        if counting == "chars/4":
            assert math.ceil(sum(map(len, texts)) / 4) <= request.tokens, wire


PICTURE = Image("image/png", url="https://example.com/picture.png")
ODD_TURNS: dict[str, tuple[Message, ...]] = {
    "blank": (Message("user", (Text(" "),)), Message("assistant", (Text("a"),))),
    "system": (Message("system", (Text("a"),)), Message("system", (Text("a"), Text("b")))),
    "many texts": (Message("user", tuple(Text("a") for _ in range(20))), Message("assistant", (Text("a"), Text("b")))),
    "same side": (Message("user", (Text("a"),)), Message("user", (Text("b"),))),
    "said twice": (Message("assistant", (Text("a"),)), Message("assistant", (Text("b"),))),
    "no output": (Message("assistant", (Call("c1", "f"),)), Message("tool", (Result("c1"),), kind=TOOL_RESULT)),
    "picture": (
        Message("assistant", (Call("c1", "f"),)),
        Message("tool", (Result("c1", (PICTURE, Text("a"), PICTURE)),), kind=TOOL_RESULT),
    ),
    "odd name": (Message("assistant", (Call("c1", "", "null"), Call("c1", "bad name!", "3"))), Message("user", ())),
    "broken": (Message("assistant", (Call("", "f", '{"a": "' + '"\\' * 50),)), Message("user", ())),
    "thinking": (Message("assistant", (Thinking("a"), Text("b"))), Message("user", (Text("c"),))),
}


@pytest.mark.parametrize("wire", CHAT_WIRES)
def test_what_is_added_is_paid_for_however_often(wire: str) -> None:
    """What a renderer adds to one message is little; a hundred of them would be over the window."""
    for odd, counting in product(ODD_TURNS, COUNTINGS):
        session = a_session("default", window=10_000_000, wire=wire, counting=counting)
        session.add(*ODD_TURNS[odd] * 100)
        request = session.prepare()
        found = chat_texts(request.body)
        assert sum(session.counter.count_text(text) for text in found if text) <= request.tokens, (odd, counting)
        assert counting != "chars/4" or sum(map(len, found)) / 4 <= request.tokens, odd
