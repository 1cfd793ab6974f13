"""The embedded model that the tests of a file share. It takes 130 MB, so it is closed after the last of them."""

import asyncio
import importlib.util
from collections.abc import Iterator
from functools import cache

import pytest

from tests.scale import scaled
from tidegate.models.embedded.provider import EmbeddedProvider
from tidegate.models.embedded.weights import SMOLLM2

ABSENT = [name for name in ("xllamacpp", SMOLLM2.module) if importlib.util.find_spec(name) is None]
needs_model = pytest.mark.skipif(
    bool(ABSENT), reason=f"not installed: {', '.join(ABSENT)} (`make setup` installs them)"
)
WINDOW = scaled(256, 2048)


@cache
def shared_model() -> EmbeddedProvider:
    return EmbeddedProvider(window=WINDOW, seed=1)


@pytest.fixture(scope="module", autouse=True)
def model_closed_after_file() -> Iterator[None]:
    """Import it where `shared_model` is used."""
    yield
    if shared_model.cache_info().currsize:
        asyncio.run(shared_model().close())
        shared_model.cache_clear()
