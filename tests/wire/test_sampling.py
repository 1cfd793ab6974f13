"""How freely a model chooses its words: sent where it was said, in each dialect's own way, and nowhere else."""

from typing import Any

import pytest

from tidegate import DataFolder, Session
from tidegate.session.request import render_past_request

MODELS = {
    "openai_chat": "gpt-4o",
    "openai_responses": "gpt-4o",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-2.5-pro",
}


def body(wire: str, **options: Any) -> dict[str, Any]:
    session = Session(MODELS[wire], wire=wire, **options)
    session.add({"role": "user", "content": "Hello."})
    return session.prepare().body


@pytest.mark.parametrize("wire", ["openai_chat", "openai_responses"])
def test_like_openai(wire: str) -> None:
    found = body(wire, request_options={"temperature": 0.0, "top_p": 0.5})
    assert (found["temperature"], found["top_p"]) == (0.0, 0.5)


def test_anthropic_takes_one_of_the_two() -> None:
    found = body("anthropic", request_options={"temperature": 0.2, "top_p": 0.5})
    assert found["temperature"] == 0.2
    assert "top_p" not in found
    assert body("anthropic", request_options={"top_p": 0.5})["top_p"] == 0.5


def test_gemini() -> None:
    config = body("gemini", request_options={"temperature": 0.2, "top_p": 0.5}, max_tokens=100)["generationConfig"]
    assert config == {"maxOutputTokens": 100, "temperature": 0.2, "topP": 0.5}


@pytest.mark.parametrize("wire", MODELS)
def test_what_was_not_said_is_not_sent(wire: str) -> None:
    assert "temperature" not in str(body(wire))
    assert "top" not in str(body(wire)).replace("stop", "")


@pytest.mark.parametrize("wire", MODELS)
def test_a_past_request_has_it(wire: str, tmp_path: Any) -> None:
    data = DataFolder(tmp_path)
    with data.open("s", MODELS[wire], wire=wire, request_options={"temperature": 0.3}, max_tokens=77) as session:
        session.add({"role": "user", "content": "Hello."})
        sent = session.prepare().to_bytes()
        head = session.log.head
    with data.open("s", MODELS[wire], wire=wire) as session:
        session.add({"role": "user", "content": "Again."})
        assert render_past_request(data.open_log("s"), head).to_bytes() == sent
    data.close()
