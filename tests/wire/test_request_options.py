"""The user's own request options: sent as they are, in every dialect, and refused only where tidegate sets the same."""

from pathlib import Path
from typing import Any

import pytest

from tidegate import BadInput, DataFolder, Session
from tidegate.session.request import render_past_request

MODELS = {
    "openai_chat": "gpt-4o",
    "openai_responses": "gpt-4o",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-2.5-pro",
}
HELLO = {"role": "user", "content": "Hello."}
TOOL = {"name": "read", "description": "Read a file.", "input_schema": {"type": "object"}}
OWN_OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("openai_chat", {"tool_choice": "required", "reasoning_effort": "low", "seed": 7, "brand_new": {"a": [1, None]}}),
    ("openai_responses", {"reasoning": {"effort": "low"}, "tool_choice": "required", "store": True}),
    ("anthropic", {"thinking": {"type": "enabled", "budget_tokens": 2_000}, "metadata": {"user_id": "u"}}),
    ("gemini", {"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}, "safetySettings": []}),
]


def opened(wire: str, options: dict[str, Any], **more: Any) -> Session:
    session = Session(MODELS[wire], wire=wire, tools=[TOOL], max_tokens=4_000, request_options=options, **more)
    session.add(HELLO)
    return session


@pytest.mark.parametrize(("wire", "options"), OWN_OPTIONS)
def test_options_are_sent_as_they_are(wire: str, options: dict[str, Any]) -> None:
    body = opened(wire, options).prepare().body
    assert {name: body[name] for name in options} == options


def test_objects_are_merged_and_lists_are_joined() -> None:
    config = {"thinkingConfig": {"thinkingBudget": 9}, "responseMimeType": "application/json"}
    body = opened("gemini", {"generationConfig": config, "temperature": 0}).prepare().body
    assert body["generationConfig"] == {"maxOutputTokens": 4_000, "temperature": 0, **config}
    body = opened("openai_responses", {"include": ["file_search_call.results"]}).prepare().body
    assert body["include"] == ["reasoning.encrypted_content", "file_search_call.results"]


@pytest.mark.parametrize(
    ("wire", "options", "remedy"),
    [
        ("openai_chat", {"messages": []}, "add()"),
        ("openai_chat", {"max_completion_tokens": 5}, "max_tokens"),
        ("openai_responses", {"input": "x"}, "add()"),
        ("openai_responses", {"previous_response_id": "r"}, "whole view"),
        ("anthropic", {"system": "x"}, "system="),
        ("anthropic", {"tools": []}, "tools="),
        ("gemini", {"contents": []}, "add()"),
        ("gemini", {"generationConfig": {"maxOutputTokens": 5}}, "max_tokens"),
        ("gemini", {"model": "x"}, "Session(model)"),
    ],
)
def test_a_name_that_tidegate_sets_is_refused(wire: str, options: dict[str, Any], remedy: str) -> None:
    with pytest.raises(BadInput, match="tidegate sets") as refused:
        opened(wire, options)
    assert remedy in refused.value.remedy


@pytest.mark.parametrize("options", [{"temperature": "hot"}, {"seed": object()}, {"seed": {1, 2}.__iter__}])
def test_a_value_that_cannot_be_sent_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        opened("openai_chat", options)


def test_an_option_that_the_provider_would_refuse_is_named() -> None:
    session = opened("anthropic", {"thinking": {"type": "enabled", "budget_tokens": 90_000}})
    with pytest.raises(BadInput, match="The request options break a rule of anthropic") as refused:
        session.prepare()
    assert "request_options" in refused.value.remedy


def test_thinking_is_left_out_where_the_history_does_not_allow_it() -> None:
    session = opened("anthropic", {"thinking": {"type": "enabled", "budget_tokens": 2_000}})
    use = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "done"}
    session.add({"role": "assistant", "content": [use]}, {"role": "user", "content": [result]})
    assert "thinking" not in session.prepare().body, "a turn that began without thinking cannot end with it"
    session.add({"role": "assistant", "content": "Done."}, HELLO)
    assert "thinking" in session.prepare().body


@pytest.mark.parametrize(
    ("model", "stays"),
    [("claude-opus-5-5", True), ("claude-sonnet-5-1", True), ("claude-opus-5", False), ("claude-sonnet-4-5", False)],
)
def test_only_older_models_demand_that_a_loop_begins_with_thinking(model: str, stays: bool) -> None:
    option = {"type": "enabled", "budget_tokens": 2_000}
    session = Session(model, wire="anthropic", tools=[TOOL], max_tokens=4_000, request_options={"thinking": option})
    use = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "done"}
    session.add(HELLO, {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]})
    request = session.prepare()
    assert request.body.get("thinking") == (option if stays else None)
    assert request.allows_thinking == stays
    assert any(each.stage == "thinking" for each in session.last_decisions) != stays


def test_the_options_belong_to_the_session() -> None:
    options: dict[str, Any] = {"metadata": {"user": "a"}}
    session = opened("openai_chat", options)
    options["metadata"]["user"] = "b"
    assert session.prepare().body["metadata"] == {"user": "a"}


@pytest.mark.parametrize(("wire", "options"), OWN_OPTIONS)
def test_a_past_request_has_them(wire: str, options: dict[str, Any], tmp_path: Path) -> None:
    data = DataFolder(tmp_path)
    with data.open("s", MODELS[wire], wire=wire, tools=[TOOL], request_options=options, max_tokens=4_000) as session:
        session.add(HELLO)
        sent, head = session.prepare().to_bytes(), session.log.head
    with data.open("s", MODELS[wire], wire=wire) as session:
        session.add(HELLO)
        assert session.prepare().to_bytes() != sent
        assert session.history.request_at(head).to_bytes() == sent
        assert render_past_request(session.log, head).to_bytes() == sent
    data.close()
