"""Windows of known models; an unknown one is unknown, never guessed."""

from datetime import UTC, date, datetime
from importlib import resources

import msgspec
import pytest

from tidegate.models.catalog import ModelInfo, find_model, find_window
from tidegate.models.pricing import TokenRates

KNOWN = [
    ("deepseek-chat", 131_072),
    ("gpt-4o", 128_000),
    ("gpt-4o-mini", 128_000),
    ("llama-3.3-70b-versatile", 128_000),
    ("mistral-large-latest", 128_000),
    ("o3", 200_000),
    ("o3-mini", 200_000),
    ("openai/gpt-4o", 128_000),
    ("gpt-4o-2024-08-06", 128_000),
    ("groq/llama-3.3-70b-versatile", 128_000),
    ("claude-sonnet-4-5-20250929", 200_000),
    ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", 200_000),
    ("anthropic/claude-opus-4.7", 1_000_000),
    ("claude-3-5-sonnet@20241022", 200_000),
    ("GPT-4.1", 1_047_576),
    ("models/gemini-2.5-pro", 1_048_576),
]


def test_known() -> None:
    assert {model: find_window(model) for model, _ in KNOWN} == dict(KNOWN)


@pytest.mark.parametrize("model", ["", "my-own-model", "gpt-4o-realtime", "llama3.2", "ollama/gpt-4o", "vllm/glm-4.6"])
def test_unknown_or_local(model: str) -> None:
    assert find_window(model) is None


@pytest.mark.parametrize("model", ["deepseek-chat:7b", "gpt-4o:latest", "glm-4.6:9b-q4_K_M", "kimi-k2.5:q8_0"])
def test_the_tag_of_weights_at_home_says_nothing_of_what_was_loaded(model: str) -> None:
    assert find_window(model) is None
    assert find_window(model.partition(":")[0]) is not None


def test_a_host_has_its_own_entry() -> None:
    groq, cerebras = find_model("groq/openai/gpt-oss-120b"), find_model("cerebras/gpt-oss-120b")
    assert groq is not None
    assert cerebras is not None
    assert groq.prices != cerebras.prices
    assert find_model("gpt-oss-120b") is None


def test_what_is_known_of_a_model() -> None:
    model = find_model("anthropic/claude-sonnet-4.5")
    assert model is not None
    assert (model.window, model.max_output) == (200_000, 64_000)
    assert model.prices == (TokenRates(input=3.0, output=15.0, cached=0.3, written=3.75),)


def test_a_tuned_model_has_prices_of_its_own_or_none() -> None:
    tuned, plain = find_model("ft:gpt-4o-2024-08-06:org::q4abc"), find_model("gpt-4o")
    assert tuned is not None
    assert plain is not None
    assert tuned.window == 128_000
    assert tuned.prices[0].input > plain.prices[0].input
    unpriced = find_model("ft:gpt-4.1-nano-2030-01-01:org::a")
    assert unpriced is not None
    assert (unpriced.window, unpriced.prices) == (1_047_576, ())


# The snapshot as it is delivered.

SNAPSHOT = resources.files("tidegate").joinpath("data", "models.json")


def test_the_snapshot_names_its_sources_and_their_licence() -> None:
    told = msgspec.json.decode(SNAPSHOT.read_bytes())
    assert {(each["name"], each["licence"]) for each in told["sources"]} == {
        ("litellm", "MIT"),
        ("genai-prices", "MIT"),
    }
    assert all(each["version"] and each["copyright"].startswith("Copyright") for each in told["sources"])
    assert told["permission"].startswith("Permission is hereby granted, free of charge")
    assert date.fromisoformat(told["written"]) <= datetime.now(UTC).date()


def test_the_snapshot_is_small_sorted_and_sound() -> None:
    text = SNAPSHOT.read_bytes()
    models = msgspec.json.decode(text)["models"]
    assert len(text) < 150_000
    assert list(models) == sorted(models)
    assert len(models) > 200
    for name in models:
        model = find_model(name)
        assert model is not None, name
        assert model == msgspec.convert(models[name], ModelInfo), name
        assert 4_000 <= (model.window or 0) <= 3_000_000, name
        assert model.max_output is None or 0 < model.max_output < (model.window or 0), name
        steps = [rate.above for rate in model.prices]
        assert steps[:1] == [0], name
        assert steps == sorted(set(steps)), name
        for rate in model.prices:
            assert 0 < rate.input <= rate.output, name
            assert rate.cached is None or rate.cached <= rate.input, name


def test_where_the_sources_differ_is_listed() -> None:
    told = msgspec.json.decode(SNAPSHOT.read_bytes())
    assert told["differences"]["mistral-large-latest"]["window"]["litellm"] > 128_000
    assert set(told["differences"]) <= set(told["models"])


# What the user says of a model.


def test_overrides_stand_above_the_catalog_and_leave_the_rest_to_it() -> None:
    mine = {"gpt-4o": ModelInfo(64_000), "mine": ModelInfo(9_000, prices=(TokenRates(input=1, output=2),))}
    seen, plain = find_model("openai/gpt-4o-2024-08-06", mine), find_model("gpt-4o")
    assert seen is not None
    assert plain is not None
    assert seen == ModelInfo(64_000, plain.max_output, plain.prices, plain.images)
    assert find_model("mine", mine) == ModelInfo(9_000, None, (TokenRates(input=1, output=2),))
    assert find_window("other", mine) is None


def test_an_override_reaches_a_model_at_home() -> None:
    mine = {"ollama/qwen2.5:14b": ModelInfo(16_384)}
    assert find_window("ollama/qwen2.5:14b", mine) == 16_384
    assert find_window("ollama/qwen2.5:7b", mine) is None
