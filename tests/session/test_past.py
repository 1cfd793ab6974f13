"""Every request of a long life can be rendered again from the log alone, byte for byte."""

from functools import cache
from itertools import count
from typing import NamedTuple

import pytest

from tests.laws.sampled_law import SAMPLES
from tests.scale import spread
from tidegate import MemoryLog, Session, SessionStorage
from tidegate.core.errors import BadInput
from tidegate.core.events import Event, NoteAdded, ViewEdited
from tidegate.core.notes import ModelNote
from tidegate.proof.session_generator import generate_session
from tidegate.session.request import list_sent_requests, parse_model_note, render_past_request

MODELS = (("gpt-4o", ""), ("claude-sonnet-4", ""), ("some-model", "gemini"))
TOOLS = [{"type": "function", "function": {"name": "read", "description": "Read a file.", "parameters": {}}}]


class Was(NamedTuple):
    head: int
    body: bytes
    tokens: int


class Life(NamedTuple):
    log: MemoryLog
    requests: list[Was]


@cache
def a_life(policy: str) -> Life:
    """Compactions, undo and redo, a clear, overflows, new instructions and tools, reports, and three models in turn."""
    log, clock, was = MemoryLog(), count(1_000_000), list[Was]()
    messages = [message for message in generate_session(30, seed=7) if message["role"] != "system"]
    for life, (model, wire) in enumerate(MODELS):
        session = Session(
            model,
            wire=wire,
            policy=policy,
            window=6_000,
            count="estimate",
            system=f"You are number {life}.",
            tools=TOOLS if life else [],
            log=SessionStorage(log),
            clock=lambda: float(next(clock)),
        )
        for place, message in enumerate(messages[life * 70 : (life + 1) * 70]):
            if message["role"] == "assistant":
                request = session.prepare()
                was.append(Was(log.head, request.to_bytes(), request.tokens))
                if place % 3 == 0:
                    session.record({"prompt_tokens": request.tokens + place, "completion_tokens": 5})
            session.add(message)
            if place in (30, 31, 45):
                session.history.undo()
            if place == 45:
                session.history.redo()
            if place in (50, 51):
                request = session.overflowed()
                was.append(Was(log.head, request.to_bytes(), request.tokens))
            if place == 60:
                session.history.clear()
    return Life(log, was)


@SAMPLES
@pytest.mark.parametrize("policy", ["default", "jutul"])
def test_every_request_comes_back_as_it_was_sent(policy: str, sample: str) -> None:
    """A few requests of each part of its life, or all of them."""
    log, was = a_life(policy)
    events = [event.payload for event in log.read()]
    assert sum(isinstance(what, ViewEdited) for what in events) > 10
    topics = {what.topic for what in events if isinstance(what, NoteAdded)}
    assert topics >= {"undo", "redo", "clear", "overflow", "system", "tools", "model"}
    assert len(was) > 75
    for each in spread(was, 24) if sample == "few" else was:
        again = render_past_request(log, each.head)
        assert again.to_bytes() == each.body, each.head
        assert again.tokens == each.tokens
    assert len({each.body for each in was}) > 70


def test_a_short_restore_is_one_edit_and_the_same_from_then_on() -> None:
    log = MemoryLog()
    session = Session("gpt-4o", policy="cowagent", log=log, clock=lambda: 1.0)
    session.add(*(message for message in generate_session(9, seed=7) if message["role"] != "system"))
    before = log.head
    session.run_rules("restore")
    assert [type(event.payload) for event in log.read(before + 1)] == [ViewEdited]
    assert session.view.visible_turns == 3
    assert session.view.tool_call_count == session.view.tool_result_count == 0
    restored = session.render_request().to_bytes()
    again = Session("gpt-4o", policy="cowagent", log=log, clock=lambda: 2.0)
    again.run_rules("restore")
    assert log.head == before + 1, "nothing is left to restore"
    assert (
        again.render_request().to_bytes() == restored == render_past_request(log, log.head, model="gpt-4o").to_bytes()
    )


@pytest.mark.exhaustive
def test_recorded_requests_are_listed_where_they_stood() -> None:
    log, was = a_life("default")
    bodies = {each.head: each.body for each in was}
    listed = list_sent_requests(log)
    assert len(listed) > 20
    assert {sent.model for sent in listed} == {model for model, _ in MODELS}
    for sent in listed[::5]:
        assert render_past_request(log, sent.log_head).to_bytes() == bodies[sent.log_head]
    assert [sent.log_head for sent in listed] == sorted(sent.log_head for sent in listed)
    assert [sent.time for sent in listed] == sorted(sent.time for sent in listed)


def test_given_names_come_before_those_of_the_log() -> None:
    log = MemoryLog()
    session = Session("gpt-4o", log=SessionStorage(log), clock=lambda: 1.0)
    session.add({"role": "user", "content": "hello"})
    assert render_past_request(log, log.head).dialect_name == "openai_chat"
    assert render_past_request(log, log.head, model="claude-sonnet-4").dialect_name == "anthropic"
    assert render_past_request(log, log.head, wire="gemini").dialect_name == "gemini"


@pytest.mark.parametrize("note", ["", "not JSON", "[]", '{"model": 3}', "null"])
def test_without_a_good_note_it_is_rendered_all_the_same(note: str) -> None:
    log = MemoryLog()
    log.append(Event(1, 1.0, NoteAdded("model", note)))
    Session("gpt-4o", log=log, clock=lambda: 1.0).add({"role": "user", "content": "hello"})
    assert render_past_request(log, log.head, model="gpt-4o").messages == [{"role": "user", "content": "hello"}]
    assert render_past_request(log, log.head).dialect_name == "openai_chat"
    assert parse_model_note(note) == ModelNote("", "")


def test_the_empty_beginning_and_what_is_not_there() -> None:
    log = MemoryLog()
    Session("gpt-4o", log=log, clock=lambda: 1.0).add({"role": "user", "content": "hello"})
    assert "hello" not in render_past_request(log, 0).to_bytes().decode()
    for seq in (-1, 2, 10**9):
        with pytest.raises(BadInput, match="There is no event"):
            render_past_request(log, seq)


@pytest.mark.parametrize("policy", ["default", "cowagent"])
def test_marks_for_the_prompt_cache_stand_where_they_stood(policy: str) -> None:
    """Through compactions, and in a session that is opened again in the middle: there the first has one mark less."""
    log, sent = MemoryLog(), dict[int, bytes]()
    messages = [message for message in generate_session(30, seed=9) if message["role"] != "system"][:140]
    for half in (messages[:70], messages[70:]):
        session = Session(
            "claude-sonnet-4",
            policy=policy,
            window=6_000,
            count="estimate",
            system="Be brief.",
            log=SessionStorage(log),
            cache=True,
        )
        for message in half:
            if message["role"] == "assistant":
                request = session.prepare()
                sent[log.head] = request.to_bytes()
                session.record({"input_tokens": request.tokens, "output_tokens": 5})
            session.add(message)
    assert {body.count(b'"cache_control"') for body in sent.values()} >= {2, 3}
    assert any(isinstance(event.payload, ViewEdited) for event in log.read())
    for head, body in spread(list(sent.items()), 30):
        assert render_past_request(log, head).to_bytes() == body
