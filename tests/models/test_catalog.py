"""Windows of known models; an unknown one is unknown, never guessed."""

import pytest

from tidegate.models.catalog import window_of


@pytest.mark.parametrize(
    ("model", "window"),
    [
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
    ],
)
def test_known(model: str, window: int) -> None:
    assert window_of(model) == window


@pytest.mark.parametrize("model", ["", "my-own-model", "gpt-4o-realtime", "llama3.2", "ollama/gpt-4o", "vllm/glm-4.6"])
def test_unknown_or_local(model: str) -> None:
    assert window_of(model) is None
