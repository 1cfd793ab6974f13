"""How long a request asks the provider to keep it in its cache."""

import pytest

from tidegate.wire.registry import get_dialect

_ANTHROPIC_HOUR = {"type": "ephemeral", "ttl": "1h"}
_ANTHROPIC_USUAL = {"type": "ephemeral"}
_TEXT = {"type": "text", "text": "be careful"}


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        ({"system": [_TEXT | {"cache_control": _ANTHROPIC_HOUR}]}, 3600),
        ({"cache_control": _ANTHROPIC_HOUR}, 3600),
        ({"tools": [{"name": "read", "cache_control": _ANTHROPIC_HOUR}], "system": "be careful"}, 3600),
        (
            {"messages": [{"role": "user", "content": [_TEXT | {"cache_control": {**_ANTHROPIC_HOUR, "ttl": "5m"}}]}]},
            300,
        ),
        ({"messages": [{"role": "user", "content": [_TEXT | {"cache_control": _ANTHROPIC_USUAL}]}]}, 0),
        ({"system": "be careful", "messages": [{"role": "user", "content": "go on"}]}, 0),
        ({"system": [_TEXT | {"cache_control": {"ttl": 3600}}], "messages": "none"}, 0),
        ({"system": None, "tools": [None], "messages": ["x"], "cache_control": "1h"}, 0),
    ],
)
def test_anthropic_requests_name_it_in_their_marks(body: dict[str, object], seconds: float) -> None:
    assert get_dialect("anthropic").read_cache_lifetime(body) == seconds


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses"])
@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        ({"prompt_cache_options": {"mode": "implicit", "ttl": "30m"}}, 1800),
        ({"prompt_cache_retention": "24h"}, 86_400),
        ({"prompt_cache_retention": "in_memory"}, 0),
        ({"prompt_cache_options": {"ttl": "soon"}}, 0),
        ({"prompt_cache_options": "30m", "prompt_cache_retention": 24}, 0),
        ({}, 0),
    ],
)
def test_openai_requests_name_it_in_an_option(dialect: str, body: dict[str, object], seconds: float) -> None:
    assert get_dialect(dialect).read_cache_lifetime(body) == seconds


def test_other_dialects_do_not() -> None:
    assert get_dialect("gemini").read_cache_lifetime({"prompt_cache_retention": "24h"}) == 0
