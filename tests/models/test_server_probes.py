"""What servers say when they are asked how much they hold, in the forms their makers document."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from tests.models.stub_server import SHOWN, Answers, Stub, listing, running
from tidegate.core.errors import BadInput
from tidegate.models.server_probes import ProbedServer, ProbeResult, probe_server, probe_window


def asked(
    model: str, answers: Answers, path: str = "/v1", patience: float = 300, **more: Any
) -> tuple[ProbeResult | None, Stub]:
    async def run() -> tuple[ProbeResult | None, Stub]:
        async with Stub(answers) as server:
            return await probe_server(model, base_url=server.root + path, patience=patience, **more), server

    return asyncio.run(run())


def tokens(model: str, answers: Answers, **more: Any) -> int | None:
    told = asked(model, answers, **more)[0]
    assert told is not None
    assert (
        (f"{told.tokens:,}" in told.explanation)
        if told.tokens
        else ("does not say" in told.explanation or "not " in told.explanation)
    )
    return told.tokens


# What servers say.

VLLM = {"id": "Qwen/Qwen2.5-7B-Instruct", "object": "model", "owned_by": "vllm", "max_model_len": 8_192, "parent": None}
OPENROUTER = {
    "id": "z-ai/glm-4.6",
    "context_length": 202_752,
    "top_provider": {"context_length": 131_072, "max_completion_tokens": 65_536},
}
LLAMA_CPP = {"id": "/models/a.gguf", "owned_by": "llamacpp", "meta": {"n_ctx": 4_096, "n_ctx_train": 131_072}}


@pytest.mark.parametrize(
    ("model", "entries", "expected"),
    [
        ("Qwen/Qwen2.5-7B-Instruct", [VLLM, {"id": "other", "max_model_len": 1_024}], 8_192),
        ("qwen2.5-7b-instruct", [VLLM, {"id": "other", "max_model_len": 1_024}], 8_192),
        ("vllm/Qwen/Qwen2.5-7B-Instruct", [VLLM, {"id": "other", "max_model_len": 1_024}], 8_192),
        ("whatever-name", [VLLM], 8_192),
        ("whatever-name", [VLLM, {"id": "other", "max_model_len": 1_024}], None),
        ("z-ai/glm-4.6", [OPENROUTER, VLLM], 131_072),
        ("a.gguf", [LLAMA_CPP], 4_096),
        ("lora", [{"id": "lora", "max_model_len": None}], None),
        ("m", [{"id": "m", "max_model_len": "8192"}], None),
        ("m", [{"id": "m", "max_model_len": True}], None),
        ("m", [{"id": "m", "max_model_len": 0}], None),
        ("m", [{"id": "m", "meta": {"n_ctx_train": 131_072}}], None),
        ("m", [{"id": "m", "max_context_length": 131_072}], None),
    ],
)
def test_the_list_of_models(model: str, entries: list[dict[str, object]], expected: int | None) -> None:
    assert tokens(model, listing(*entries)) == expected


def test_llama_cpp_without_a_size_in_its_list() -> None:
    props = {"default_generation_settings": {"n_ctx": 2_048, "params": {}}, "total_slots": 4}
    told, server = asked("a", {**listing({"id": "a", "meta": {"n_ctx_train": 32_768}}), "/props": props})
    assert told is not None
    assert told.tokens == 2_048
    assert told.is_final
    assert "autoload=false" in server.seen[-1].path


def test_ollama_has_loaded_the_model() -> None:
    answers = running({"name": "llama3.2:latest", "model": "llama3.2:latest", "context_length": 16_384})
    told, server = asked("ollama/llama3.2", answers)
    assert told == ProbeResult(16_384, told.explanation if told else "", is_final=True)
    assert "POST /api/show" not in server.paths


@pytest.mark.parametrize(
    ("shown", "expected", "word"),
    [
        (SHOWN, 8_192, "num_ctx of 8,192"),
        (SHOWN | {"parameters": "num_ctx 99999"}, 32_768, "num_ctx of 32,768"),
        (SHOWN | {"parameters": 'stop "x"'}, 4_096, "default of 4,096"),
        ({"model_info": {"llama.context_length": 2_048}}, 2_048, "default of 2,048"),
        (404, None, "does not know"),
    ],
)
def test_ollama_has_not_loaded_it(shown: object, expected: int | None, word: str) -> None:
    """Never the maximum of the weights: 32,768 here. Another size of the same model that is loaded says nothing."""
    answers = {**running({"name": "qwen2.5:7b", "context_length": 65_536}), "/api/show": shown}
    told, server = asked("qwen2.5:14b", answers)
    assert told is not None
    assert (told.tokens, told.is_final) == (expected, False)
    assert word in told.explanation
    (shown_body,) = (each.body for each in server.seen if each.method == "POST")
    assert json.loads(shown_body) == {"model": "qwen2.5:14b"}


def studio(**more: object) -> Answers:
    entry = {"id": "qwen2-vl-7b-instruct", "type": "vlm", "state": "not-loaded", "max_context_length": 32_768}
    answers = {path: {"error": "Unexpected endpoint or method."} for path in ("/props", "/api/ps", "/info")}
    return {**listing({"id": entry["id"]}), **answers, "/api/v0/models": {"object": "list", "data": [entry | more]}}


def test_lm_studio_tells_what_is_loaded_and_that_nothing_is() -> None:
    assert tokens("qwen2-vl-7b-instruct", studio(state="loaded", loaded_context_length=4_096)) == 4_096
    for entry in (studio(), studio(state="loading", loaded_context_length=4_096)):
        told, _ = asked("qwen2-vl-7b-instruct", entry)
        assert told is not None
        assert (told.tokens, told.is_final) == (None, False)
        assert "has not loaded" in told.explanation


def loaded(ident: str, size: object) -> dict[str, object]:
    return {"id": ident, "config": {"context_length": size, "flash_attention": True}}


@pytest.mark.parametrize(
    ("model", "instances", "expected"),
    [
        ("openai/gpt-oss-20b", [loaded("openai/gpt-oss-20b", 8_192)], 8_192),
        ("gpt-oss-20b", [loaded("openai/gpt-oss-20b", 8_192)], 8_192),
        ("openai/gpt-oss-20b", [loaded("openai/gpt-oss-20b", 8_192), loaded("openai/gpt-oss-20b:2", 4_096)], 8_192),
        ("openai/gpt-oss-20b:2", [loaded("openai/gpt-oss-20b", 8_192), loaded("openai/gpt-oss-20b:2", 4_096)], 4_096),
        ("openai/gpt-oss-20b", [loaded("a", 8_192), loaded("b", 4_096)], 4_096),
        ("openai/gpt-oss-20b", [loaded("a", "8192")], None),
        ("openai/gpt-oss-20b", [], None),
    ],
)
def test_lm_studio_of_today(model: str, instances: list[dict[str, object]], expected: int | None) -> None:
    """Never the maximum of the weights: 131,072 here."""
    entry = {"type": "llm", "key": "openai/gpt-oss-20b", "loaded_instances": instances, "max_context_length": 131_072}
    other = {"type": "embedding", "key": "nomic", "loaded_instances": [], "max_context_length": 2_048}
    answers = {**listing({"id": "openai/gpt-oss-20b"}, {"id": "nomic"}), "/api/v1/models": {"models": [other, entry]}}
    told, _ = asked(model, answers)
    assert told is not None
    assert (told.tokens, told.is_final) == (expected, expected is not None)
    assert "LM Studio" in told.explanation


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({"max_input_tokens": 4_095, "max_total_tokens": 8_192}, 4_095),
        ({"max_input_length": 1_024, "max_total_tokens": 2_048}, 1_024),
        ({"max_total_tokens": 2_048}, 2_048),
        ({"model_id": "x"}, None),
    ],
)
def test_tgi(info: Mapping[str, object], expected: int | None) -> None:
    assert tokens("x", {"/info": info}, path="") == expected


def test_an_error_is_not_read_for_numbers() -> None:
    assert tokens("m", {"/v1/models": (500, {"data": [{"id": "m", "max_model_len": 2_048}]})}) is None


@pytest.mark.parametrize("answer", [500, "<html>no</html>", "[[[[", '"text"', "[1, 2]", '{"data": 5}', '{"data": [1]}'])
def test_nonsense_is_no_answer(answer: object) -> None:
    paths = ("/v1/models", "/props", "/api/ps", "/api/show", "/api/v1/models", "/api/v0/models", "/info")
    assert tokens("m", dict.fromkeys(paths, answer)) is None


def test_a_server_that_does_not_answer_is_not_waited_for() -> None:
    told, server = asked("m", {"/v1/models": None}, patience=0.2)
    assert told == ProbeResult(
        None, f"The server at {server.root.removeprefix('http://')} did not answer.", is_final=False
    )
    gone = asyncio.run(probe_server("m", base_url=server.root, patience=0.2))
    assert gone == told


def test_the_key_goes_to_the_server_and_no_further() -> None:
    told, server = asked("m", {"/v1/models": 302}, key="k-12345", headers={"X-Own": "1"})
    assert told is not None
    assert all(each.headers["authorization"] == "Bearer k-12345" for each in server.seen)
    assert all(each.headers["x-own"] == "1" for each in server.seen)
    assert "GET /elsewhere" not in server.paths
    assert "k-12345" not in told.explanation


@pytest.mark.parametrize("path", ["", "/v1", "/v1/", "/v1/chat/completions"])
def test_every_form_of_the_base_url(path: str) -> None:
    assert tokens("m", listing({"id": "m", "max_model_len": 2_048}), path=path) == 2_048


@pytest.mark.parametrize(
    ("wire", "model", "path", "answer", "expected"),
    [
        (
            "anthropic",
            "claude-opus-5",
            "/v1/models/claude-opus-5",
            {"type": "model", "id": "claude-opus-5", "max_input_tokens": 1_000_000, "max_tokens": 128_000},
            1_000_000,
        ),
        (
            "gemini",
            "models/gemini-2.5-pro",
            "/v1/models/gemini-2.5-pro",
            {"name": "models/gemini-2.5-pro", "inputTokenLimit": 1_048_576, "outputTokenLimit": 65_536},
            1_048_576,
        ),
        ("openai_chat", "m", "/v1/models", {"data": [{"id": "m", "context_window": 131_072}]}, 131_072),
        ("mistral", "m", "/v1/models", {"data": [{"id": "m", "max_context_length": 131_072}, {"id": "n"}]}, 131_072),
        ("openai_chat", "m", "/v1/models", {"data": [{"id": "m"}, {"id": "n"}]}, None),
    ],
)
def test_a_service_is_asked_once(wire: str, model: str, path: str, answer: object, expected: int | None) -> None:
    async def run() -> tuple[ProbeResult, list[str]]:
        async with Stub({path: answer}) as stub, httpx.AsyncClient(timeout=300) as client:
            server = ProbedServer(client, f"{stub.root}/v1", "host", wire, is_hosted=True)
            return await probe_window(server, model), stub.paths

    told, paths = asyncio.run(run())
    assert told.tokens == expected
    assert paths == [f"GET {path}"]


def test_a_server_that_hangs_up_on_one_question_is_asked_the_next() -> None:
    answers = {"/v1/models": {"data": []}, "/props": b"", "/info": {"max_total_tokens": 2_048}}
    assert tokens("x", answers) == 2_048


def test_nobody_to_ask() -> None:
    assert asyncio.run(probe_server("gpt-4o")) is None
    assert asyncio.run(probe_server("gpt-4o", base_url="https://api.openai.com/v1", key="k")) is None
    with pytest.raises(BadInput):
        asyncio.run(probe_server("m", base_url="nowhere"))
