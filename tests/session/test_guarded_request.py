"""A client's own request that does not fit: the guard alone shortens it, and no log is needed."""

import json
from typing import Any

import pytest

from tidegate.core.errors import TooSmall
from tidegate.session.guarded_request import write_guarded
from tidegate.session.managed_request import ClientRequest, read_client_request
from tidegate.wire.request_check import find_request_faults

WORDS = "The tide table lists high water and low water. " * 20


def make_body(dialect: str, messages: int) -> dict[str, Any]:
    texts = [f"{number} {WORDS}" for number in range(messages)]
    if dialect == "gemini":
        return {"contents": [{"role": ("user", "model")[n % 2], "parts": [{"text": t}]} for n, t in enumerate(texts)]}
    listed = [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(texts)]
    if dialect == "openai_responses":
        return {"model": "gpt-4o", "input": listed, "store": False}
    return {"model": "gpt-4o", "messages": listed, **({"max_tokens": 500} if dialect == "anthropic" else {})}


def read_request(dialect: str, messages: int) -> ClientRequest:
    client = read_client_request(dialect, json.dumps(make_body(dialect, messages)).encode(), "gpt-4o")
    assert client is not None
    return client


@pytest.mark.parametrize("dialect", ["anthropic", "openai_chat", "openai_responses", "gemini"])
def test_the_oldest_messages_leave_and_the_rest_is_valid(dialect: str) -> None:
    client = read_request(dialect, 61)
    text = write_guarded(client, 4000)
    assert find_request_faults(dialect, text, "gpt-4o") == []
    assert len(text) < len(client.text) // 2
    assert b"60 The tide" in text
    assert b"recall" not in text, "the ids of its notes would not be those of the log"


def test_a_request_that_fits_stays_as_it_is() -> None:
    client = read_request("openai_chat", 5)
    assert write_guarded(client, 4000) == client.text


def test_a_fixed_part_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(TooSmall):
        write_guarded(read_request("openai_chat", 5), 100)
