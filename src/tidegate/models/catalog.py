"""How large the windows of known models are. An unknown model has none: it is asked for, never guessed."""

WINDOWS = {
    "deepseek-chat": 131_072,
    "gpt-4o": 128_000,
    "gpt-4o-mini": 128_000,
    "llama-3.3-70b-versatile": 128_000,
    "mistral-large-latest": 128_000,
    "o3": 200_000,
    "o3-mini": 200_000,
}


def window_of(model: str) -> int | None:
    """The window of a model, by its name with or without a provider before it; None if it is not known."""
    return WINDOWS.get(model.rsplit("/", 1)[-1].lower())
