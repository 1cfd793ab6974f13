"""The embedded model that tests share. It starts once in each process and is never closed."""

import importlib.util
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
