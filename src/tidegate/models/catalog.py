"""The catalog of well-known models: window, output limit, prices.

The window is the largest prompt the provider accepts. The window of a model on the user's machine is what its server
loaded, regardless of what the weights allow: for those the catalog has None, and the server is asked
(`models/window.py`).

The figures are in data/models.json, a snapshot of two packages' tables that bench/catalog.py writes, with its sources
and the rules by which they were merged. The user's own settings for a model take precedence.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

import msgspec

from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.core.usage import Usage
from tidegate.models.pricing import RequestCost, TokenRates, compute_cost
from tidegate.models.token_counters import strip_model_name

LOCAL_PROVIDERS: Final = (
    "ollama",
    "lmstudio",
    "lm_studio",
    "llamacpp",
    "llama.cpp",
    "vllm",
    "hosted_vllm",
    "local",
    "llamafile",
)
_DATE_SUFFIX: Final = LazyPattern(r"[-@](20\d{6}|20\d\d-\d\d-\d\d)(-v\d+)?$")
_BEDROCK_PREFIX: Final = LazyPattern(r"^(?:[a-z]{2,6}\.)?(?:anthropic|amazon|meta|mistral|deepseek|openai)\.")
# The tag of local weights: a size or a quantization. Hosted models have `:free`, `:0`, `:thinking`.
_WEIGHTS_TAG: Final = LazyPattern(r":(?:latest|(?:.*[-_])?(?:e?\d+(?:\.\d+)?[bm](?:[-_].*)?|i?q\d.*|b?fp?16))$")


class ModelInfo(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """None or empty: unknown. `prices` are steps; the first applies from the first token on.

    `images`: whether the model takes images. `cache_lifetime` is set by the user: for how many seconds the provider
    keeps a prompt in its cache.
    """

    window: int | None = None
    max_output: int | None = None
    prices: tuple[TokenRates, ...] = ()
    images: bool | None = None
    cache_lifetime: float | None = None


class _CatalogFile(msgspec.Struct):
    models: dict[str, ModelInfo]


def find_model(name: str, overrides: Mapping[str, ModelInfo] | None = None) -> ModelInfo | None:
    """Return the entry of a model, or None. Fields that `overrides` leave out come
    from the catalog.
    """
    info = _find_in_catalog(name)
    own = find_entry(name, overrides) if overrides else None
    if own is None or info is None:
        return own or info
    images = info.images if own.images is None else own.images
    return ModelInfo(
        own.window or info.window,
        own.max_output or info.max_output,
        own.prices or info.prices,
        images,
        own.cache_lifetime,
    )


def accepts_images(model: str, overrides: Mapping[str, ModelInfo] | None = None) -> bool | None:
    """Return whether the model takes images; None: unknown."""
    info = find_model(model, overrides)
    return info.images if info else None


def find_window(model: str, overrides: Mapping[str, ModelInfo] | None = None) -> int | None:
    info = find_model(model, overrides)
    return info.window if info else None


def compute_model_cost(
    usage: Usage, model: str | ModelInfo | None, overrides: Mapping[str, ModelInfo] | None = None
) -> RequestCost | None:
    """Return the cost of a request, or None if the model's prices are unknown. A reseller may charge another price."""
    info = find_model(model, overrides) if isinstance(model, str) else model
    return compute_cost(usage, info.prices) if info else None


def _find_in_catalog(name: str) -> ModelInfo | None:
    plain_name = name.strip().lower()
    tuned = f"ft:{strip_model_name(plain_name)}" if plain_name.startswith("ft:") else ""
    if plain_name.startswith(tuple(f"{local}/" for local in LOCAL_PROVIDERS)) or (
        not tuned and _WEIGHTS_TAG.search(plain_name)
    ):
        return None
    models = _load_catalog()
    if tuned in models:
        return models[tuned]
    entry = find_entry(plain_name, models)
    # A fine-tuned model costs more than its base model.
    return ModelInfo(entry.window, entry.max_output, images=entry.images) if tuned and entry else entry


def find_entry(name: str, models: Mapping[str, ModelInfo]) -> ModelInfo | None:
    """Return the entry for a name in any of its forms."""
    return next((models[each] for each in _name_variants(name.strip().lower()) if each in models), None)


def _name_variants(name: str) -> Iterator[str]:
    """Yield the forms of a name: as it is, without its host, bare, without a date, with hyphens. The first known one
    is used.
    """
    yield name
    bare = strip_model_name(name)
    host, slash, _ = name.partition("/")
    if slash:
        yield f"{host}/{bare}"
    bare = _BEDROCK_PREFIX.sub("", bare)
    undated = _DATE_SUFFIX.sub("", bare)
    yield from (bare, undated, undated.replace(".", "-"))


@cache
def _load_catalog() -> Mapping[str, ModelInfo]:
    """Loaded on first use: a session whose window is set never needs it."""
    from importlib import resources  # noqa: PLC0415 - slow to load, and needed only here

    text = resources.files("tidegate").joinpath("data", "models.json").read_bytes()
    return msgspec.json.decode(text, type=_CatalogFile).models
