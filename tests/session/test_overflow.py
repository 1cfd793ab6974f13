"""A request that the provider refused as too long: what the next try leaves out."""

from typing import Any

import pytest

from tidegate import Session
from tidegate.core.errors import GiveUp
from tidegate.presets import preset_names

WINDOW = 8000


def make_words(count: int, stem: str) -> str:
    return " ".join(f"{stem}{number}" for number in range(count))


def open_session(policy: str, request_words: int, result_words: list[int]) -> Session:
    """An older exchange, a long request and one call per result."""
    session = Session("gpt-4o", policy=policy, window=WINDOW)
    session.add({"role": "user", "content": f"What is this project about? {make_words(60, 'old')}"})
    session.add({"role": "assistant", "content": f"It is a parser. {make_words(80, 'answer')}"})
    session.add({"role": "user", "content": make_words(request_words, "request")})
    for number, words in enumerate(result_words):
        function = {"name": "read", "arguments": "{}"}
        call = {"id": f"c{number}", "type": "function", "function": function}
        session.add({"role": "assistant", "content": None, "tool_calls": [call]})
        session.add({"role": "tool", "tool_call_id": f"c{number}", "content": make_words(words, "result")})
    return session


def shown_request(body: dict[str, Any], words: int) -> bool:
    """Whether the newest request is in the body, whole."""
    return any(make_words(words, "request") in str(message["content"]) for message in body["messages"])


def has_only_stubs(body: dict[str, Any]) -> bool:
    """Whether the newest request is all that has more than a few words."""
    return all(len(str(message["content"])) < 200 for message in body["messages"] if message["role"] == "tool")


def retry_until_refused(session: Session) -> list[tuple[int, dict[str, Any]]]:
    """The size and the body of each request that may be sent after an overflow."""
    tries: list[tuple[int, dict[str, Any]]] = []
    while True:
        try:
            request = session.overflowed()
        except GiveUp:
            return tries
        tries.append((session.tokens, request.body))


@pytest.mark.parametrize("policy", preset_names())
@pytest.mark.parametrize("results", [[900], [450, 450], [100, 700, 100], [20] * 8])
def test_each_retry_frees_a_tenth_and_keeps_the_newest_request(policy: str, results: list[int]) -> None:
    session = open_session(policy, 1200, results)
    session.prepare()
    size = session.tokens
    tries = retry_until_refused(session)
    assert tries
    for smaller, body in tries:
        assert smaller <= size * 0.9
        assert shown_request(body, 1200) or (has_only_stubs(body) and results != [900])
        size = smaller


@pytest.mark.parametrize("policy", preset_names())
def test_a_reported_size_counts_for_the_tenth(policy: str) -> None:
    """The report is below our own count: a tenth of our count alone would free too little of the reported size."""
    session = open_session(policy, 1200, [900])
    reported = int(session.prepare().tokens * 0.93)
    session.record({"prompt_tokens": reported, "completion_tokens": 1})
    request = session.overflowed()
    assert session.tokens <= reported * 0.9
    assert shown_request(request.body, 1200)


@pytest.mark.parametrize("policy", preset_names())
def test_the_newest_request_is_shortened_only_after_the_results(policy: str) -> None:
    """Everything but the request is less than a tenth: the results are cut to stubs first, then the request."""
    session = open_session(policy, 2200, [80])
    session.prepare()
    size = session.tokens
    request = session.overflowed()
    assert session.tokens <= size * 0.9
    assert not shown_request(request.body, 2200)
    assert has_only_stubs(request.body)
    assert any("request0 " in str(message["content"]) for message in request.body["messages"])
