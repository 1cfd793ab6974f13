"""`session.history`: going back, forking, past requests, search."""

import pytest

from tidegate import BadInput, MemoryLog, Session, SessionStorage


def talked() -> Session:
    session = Session("gpt-4o", window=4_000, count="chars/4", log=SessionStorage(), clock=lambda: 1.0)
    session.add({"role": "user", "content": "Where is the reactor?"})
    session.prepare()
    session.add({"role": "assistant", "content": "In hall 7."})
    session.record({"prompt_tokens": 30, "completion_tokens": 5})
    return session


def test_a_fork_continues_from_an_earlier_event() -> None:
    session = talked()
    first = next(event.seq for event in session.log.read() if "m" + str(event.seq) == session.view.items[0].message.id)
    fork = session.history.fork(first)
    assert isinstance(fork, MemoryLog)
    other = Session("gpt-4o", window=4_000, count="chars/4", log=fork)
    assert [item.message for item in other.view.items] == [session.view.items[0].message]
    other.add({"role": "user", "content": "And the pump?"})
    assert session.view.message_count == 2
    assert session.history.fork().records() == tuple(MemoryLog(session.history.fork().records()).records())
    assert session.history.fork().head == session.log.head


@pytest.mark.parametrize("seq", [-1, 1_000])
def test_an_event_that_does_not_exist(seq: int) -> None:
    session = talked()
    for look in (session.history.fork, session.history.request_at):
        with pytest.raises(BadInput, match=f"There is no event {seq}"):
            look(seq)


def test_past_requests() -> None:
    session = Session("gpt-4o", window=4_000, count="chars/4", log=SessionStorage())
    session.add({"role": "user", "content": "Where is the reactor?"})
    sent = session.prepare().to_bytes()
    session.add({"role": "assistant", "content": "In hall 7."})
    session.record({"prompt_tokens": 30, "completion_tokens": 5})
    (past,) = session.history.requests()
    assert (past.model, past.input_tokens, past.output_tokens) == ("gpt-4o", 30, 5)
    assert session.history.request_at(past.log_head).to_bytes() == sent


def test_search_finds_words_ids_and_ranges() -> None:
    session = talked()
    hit, *_ = session.history.search("reactor").ids
    assert session.recall(hit).role == "user"
    assert "In hall 7." in session.history.search("m1..m9").text


def test_attributes_are_read_only() -> None:
    session = talked()
    names = [name for name in dir(session) if not name.startswith("_") and not callable(getattr(session, name))]
    assert {"log", "view", "model", "policy", "window", "budget", "tokens", "history", "rules"} <= set(names)
    for name in names:
        with pytest.raises(AttributeError):
            setattr(session, name, None)
