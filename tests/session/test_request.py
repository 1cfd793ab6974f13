"""A request says what it is, and carries the decisions that made it fit."""

from tidegate import Request, Session

SECRET = "the launch code is 0451"


def test_its_repr_names_model_size_and_edits_and_no_content() -> None:
    session = Session("gpt-4o", window=4_000, count="chars/4", system=SECRET)
    session.add({"role": "user", "content": f"Hello. {SECRET}"})
    request = session.prepare()
    assert repr(request) == (
        f"<Request gpt-4o (openai_chat): {request.tokens:,} of 4,000 tokens, 2 messages, edits: none>"
    )
    for _ in range(30):
        session.add({"role": "assistant", "content": SECRET * 40}, {"role": "user", "content": SECRET})
    request = session.prepare()
    acted = [decision.stage for decision in request.decisions if decision.acted]
    assert acted
    assert ", ".join(acted) in repr(request)
    assert SECRET not in repr(request)


def test_it_keeps_its_own_decisions() -> None:
    session = Session("gpt-4o", window=4_000, count="chars/4")
    session.add({"role": "user", "content": "Hello."})
    first = session.prepare()
    decisions = first.decisions
    assert list(decisions) == session.last_decisions
    session.add({"role": "assistant", "content": "x" * 60_000}, {"role": "user", "content": "Go on."})
    second = session.prepare()
    assert first.decisions == decisions
    assert any(decision.acted for decision in second.decisions)
    assert not any(decision.acted for decision in first.decisions)


def test_without_a_model_and_a_window() -> None:
    session = Session(count="chars/4", policy="default")
    session.add({"role": "user", "content": "Hello."})
    request = session.history.request_at(session.log.head)
    assert isinstance(request, Request)
    assert repr(request).startswith("<Request no model (openai_chat): ")
    assert " of " not in repr(request)
