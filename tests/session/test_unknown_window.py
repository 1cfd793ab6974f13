"""A model that is in no catalog: a conservative window is assumed, and the caller is told once."""

import warnings

import pytest

from tidegate import Session, load
from tidegate.core.budget import UNKNOWN_WINDOW
from tidegate.core.errors import UnknownWindowWarning
from tidegate.core.events import NoteAdded
from tidegate.models.errors.classification import classify_response
from tidegate.presets import preset_names


def fill_session(policy: str, turns: int = 120, length: int = 80, **settings: object) -> Session:
    session = Session("no-such-model", policy=load(policy, settings), count="chars/4")
    for turn in range(turns):
        session.add({"role": "user", "content": f"Question {turn}: what is in part{turn}? " + "Please look. " * length})
        session.add({"role": "assistant", "content": f"In part{turn} is {turn}. " + "So it is written. " * length})
    session.add({"role": "user", "content": "And now?"})
    return session


def noted(session: Session, topic: str) -> list[str]:
    payloads = (event.payload for event in session.log.read())
    return [each.text for each in payloads if isinstance(each, NoteAdded) and each.topic == topic]


@pytest.mark.parametrize("policy", preset_names())
def test_every_request_has_a_bound(policy: str) -> None:
    session = fill_session(policy)
    with pytest.warns(UnknownWindowWarning):
        request = session.prepare()
    bound = {"picoclaw": 131_072 - 32_768, "ai": 8_000}.get(policy, UNKNOWN_WINDOW)
    assert session.tokens == request.tokens <= bound
    assert len(str(session.explain())) < 3_000
    assert "9,007" not in str(session.explain())


def test_without_max_tokens_there_is_still_a_bound() -> None:
    """Rules that look at the window or the number of messages see no limit; those for a full room act at the bound."""
    for policy in ("ai", "digitorn"):
        session = fill_session(policy, turns=20, length=500, max_tokens=0)
        session.prepare()
        assert session.tokens <= UNKNOWN_WINDOW
        assert session.edit_counts
        assert "guard" not in session.edit_counts


def test_it_is_said_once_as_a_warning_and_in_the_log() -> None:
    session = fill_session("default", turns=2)
    with pytest.warns(UnknownWindowWarning, match="'no-such-model' is not known"):
        session.prepare()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session.prepare()
    assert len(noted(session, "window_unknown")) == 1
    assert "window unknown: 32,768 tokens are assumed; set a window" in str(session.explain())


def test_a_known_window_is_not_spoken_of() -> None:
    for session in (Session("no-such-model", window=9_000), Session("gpt-4o")):
        session.add({"role": "user", "content": "Hello."})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            session.prepare()
        assert not session.window_is_assumed
        assert noted(session, "window_unknown") == []
        assert "unknown" not in str(session.explain())


@pytest.mark.parametrize("window", [9_000, 200_000])
def test_an_error_of_the_provider_teaches_the_window(window: int) -> None:
    """Also a larger one: the assumed window is only a guess."""
    words = f"This model's maximum context length is {window} tokens. However, your messages resulted in 250000 tokens."
    error = classify_response(400, {"error": {"message": words}})
    session = fill_session("default", turns=4)
    session.prepare()
    session.recovery.learn_limits(error.window)
    assert (session.window, session.window_is_assumed) == (window, False)
    session.prepare()
    assert len(noted(session, "window_unknown")) == 1


def test_a_policy_decides_what_is_assumed() -> None:
    assert Session("no-such-model").window == UNKNOWN_WINDOW
    assert Session("no-such-model", policy="picoclaw").window == 131_072
    assert Session("no-such-model", policy="ai").window is None
    assert Session("no-such-model", policy="digitorn").window is None
