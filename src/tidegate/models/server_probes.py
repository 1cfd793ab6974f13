"""Asks a server for the window of a model: the size that is loaded, not the size that the weights allow.

The requests change nothing and have short timeouts; no answer counts as unknown. The key is sent only where requests
are sent; redirects are not followed.
"""

import asyncio
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final, NamedTuple
from urllib.parse import quote, urlsplit

import httpx
import msgspec

from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.models.catalog import LOCAL_PROVIDERS
from tidegate.models.errors.numbers import MAX_WINDOW_TOKENS, MIN_WINDOW_TOKENS
from tidegate.models.http.endpoints import build_headers, build_url, choose_tls, is_loopback_url
from tidegate.wire.dialect import Endpoint
from tidegate.wire.limits import MAX_LISTING_BYTES, MAX_LISTING_VALUES, has_too_many_values
from tidegate.wire.registry import DIALECTS, get_dialect

_PROBE_SECONDS: Final = 2.0
_TOTAL_SECONDS: Final = 6.0
_OLLAMA_DEFAULT_WINDOW: Final = 4_096
"""The default window of Ollama on a machine with less than 24 GiB of video memory."""


def _domain_of(endpoint: Endpoint) -> str:
    return ".".join((urlsplit(endpoint.base_url).hostname or "").split(".")[-2:])


_ENDPOINTS: Final = tuple(dialect.endpoint for dialect in DIALECTS.values())
# Hosted services, not servers: they have no loaded size, only a list of models.
_HOSTED_DOMAINS: Final = (
    *map(_domain_of, _ENDPOINTS),
    *"openrouter.ai groq.com together.xyz x.ai moonshot.ai moonshot.cn z.ai bigmodel.cn cerebras.ai cohere.com".split(),
    *"fireworks.ai minimax.io azure.com amazonaws.com aliyuncs.com perplexity.ai".split(),
)
_DOMAINS_WITHOUT_WINDOWS: Final = tuple(_domain_of(endpoint) for endpoint in _ENDPOINTS if not endpoint.lists_windows)
"""Their lists of models do not contain windows, so they are not asked."""

_LOADED_KEYS: Final = ("max_model_len", "loaded_context_length")
# Sizes that a service advertises. On a local server they may be those of the weights, so they are tried last.
_ADVERTISED_KEYS: Final = (
    "context_length",
    "context_window",
    "max_input_tokens",
    "inputTokenLimit",
    "max_context_length",
)
_VERSION_SUFFIX: Final = LazyPattern(r"/v\d+(?:beta\d*)?$")
_NUM_CTX: Final = LazyPattern(r"^\s*num_ctx\s+(\d{1,9})\s*$", re.MULTILINE)


class ProbeResult(NamedTuple):
    """`is_final` is False while the model is not loaded: ask again after its first answer."""

    tokens: int | None
    explanation: str
    is_final: bool = True


class ProbedServer(NamedTuple):
    """`address` is the base URL of requests, `root` the same without the version, `host` is for display."""

    client: httpx.AsyncClient
    address: str
    host: str
    wire: str
    is_hosted: bool

    @property
    def root(self) -> str:
        return _VERSION_SUFFIX.sub("", self.address)

    async def get(self, url: str) -> object:
        return await self._json(self.client.stream("GET", url))

    async def post(self, url: str, body: Mapping[str, object]) -> object:
        return await self._json(self.client.stream("POST", url, json=dict(body)))

    async def _json(self, call: AbstractAsyncContextManager[httpx.Response]) -> object:
        """Return the answer as JSON; None for an error, a web page or an oversized answer."""
        async with call as response:
            if response.status_code != 200:
                return None
            body = bytearray()
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > MAX_LISTING_BYTES:
                    return None
        if has_too_many_values(bytes(body), MAX_LISTING_VALUES):
            return None
        try:
            return msgspec.json.decode(body)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return None


async def probe_server(
    model: str,
    *,
    wire: str = "openai_chat",
    base_url: str = "",
    key: str = "",
    headers: Mapping[str, str] | None = None,
    patience: float = _PROBE_SECONDS,
) -> ProbeResult | None:
    """Ask a server for the window of a model. None if there is no server to ask; a result without a number says why."""
    endpoint = get_dialect(wire).endpoint
    build_url(endpoint, model, base_url)
    base = (base_url or endpoint.base_url).rstrip("/")
    name = urlsplit(base).hostname or ""
    if (not base_url and not key) or _is_under_domain(name, _DOMAINS_WITHOUT_WINDOWS):
        return None
    host = urlsplit(base).netloc
    all_headers = build_headers(endpoint, key, headers or {}) | {"accept": "application/json"}
    try:
        async with (
            asyncio.timeout(max(_TOTAL_SECONDS, patience)),
            httpx.AsyncClient(
                timeout=patience, headers=all_headers, verify=choose_tls(base), trust_env=not is_loopback_url(base)
            ) as client,
        ):
            server = ProbedServer(client, strip_request_path(base), host, wire, _is_under_domain(name, _HOSTED_DOMAINS))
            return await probe_window(server, _strip_local_prefix(model))
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, OSError):
        return ProbeResult(None, f"The server at {host} did not answer.", is_final=False)


def is_hosted_service(base_url: str) -> bool:
    """Return whether the URL belongs to a public provider, not to a server of the user or of their company."""
    return not base_url or _is_under_domain(urlsplit(base_url).hostname or "", _HOSTED_DOMAINS)


def _is_under_domain(name: str, domains: tuple[str, ...]) -> bool:
    return any(name == domain or name.endswith(f".{domain}") for domain in domains)


def strip_request_path(base: str) -> str:
    """Remove the path of requests from a base URL."""
    for path in ("/chat/completions", "/responses", "/messages"):
        base = base.removesuffix(path)
    return base


def _strip_local_prefix(model: str) -> str:
    """Return the model's name without the prefix of a local provider."""
    first, slash, rest = model.strip().partition("/")
    return rest if slash and first.lower() in LOCAL_PROVIDERS else model.strip()


async def probe_window(server: ProbedServer, model: str) -> ProbeResult:
    """Return the window that a server reports. A server may drop the connection on a request it does not know."""
    listed = await _get_model_entry(server, model)
    if tokens := _loaded_window(listed):
        return ProbeResult(tokens, f"The server at {server.host} holds {tokens:,} tokens of {model}.")
    remark = None
    for probe in () if server.is_hosted else (_llama_cpp, _ollama, _lm_studio, _tgi):
        try:
            window = await probe(server, model)
        except httpx.HTTPError:
            continue
        if window is not None and window.tokens is not None:
            return window
        remark = remark or window
    if remark is None and (tokens := _advertised_window(listed, server.is_hosted)):
        return ProbeResult(tokens, f"{server.host} says that {model} holds {tokens:,} tokens.")
    return remark or ProbeResult(None, f"The server at {server.host} does not say how much {model} holds.")


async def _get_model_entry(server: ProbedServer, model: str) -> Mapping[str, object]:
    """Return the entry of the model in the server's list of models."""
    versioned = server.address if _VERSION_SUFFIX.search(server.address) else f"{server.address}/v1"
    if server.is_hosted and get_dialect(server.wire).endpoint.has_model_pages:
        return _as_object(await server.get(f"{versioned}/models/{quote(model.removeprefix('models/'), safe='')}"))
    return _find_model_entry(await server.get(f"{versioned}/models"), model)


async def _llama_cpp(server: ProbedServer, model: str) -> ProbeResult | None:
    # Without autoload=false, a router of several models would load the model.
    properties = _as_object(await server.get(f"{server.root}/props?model={quote(model, safe='')}&autoload=false"))
    tokens = _as_window(_as_object(properties.get("default_generation_settings")).get("n_ctx"))
    return (
        ProbeResult(tokens, f"llama.cpp at {server.host} holds {tokens:,} tokens for each request.") if tokens else None
    )


async def _ollama(server: ProbedServer, model: str) -> ProbeResult | None:
    running = await server.get(f"{server.root}/api/ps")
    if not isinstance(_as_object(running).get("models"), list):
        return None
    tokens = _as_window(_find_model_entry(running, model, alone=False).get("context_length"))
    if tokens:
        return ProbeResult(tokens, f"Ollama at {server.host} has loaded {model} with {tokens:,} tokens.")
    properties = _as_object(await server.post(f"{server.root}/api/show", {"model": model}))
    if not properties:
        return ProbeResult(None, f"Ollama at {server.host} does not know {model}.", is_final=False)
    most = next(
        (
            _as_window(n)
            for key, n in _as_object(properties.get("model_info")).items()
            if key.endswith(".context_length")
        ),
        None,
    )
    parameters = properties.get("parameters")
    match = _NUM_CTX.search(parameters) if isinstance(parameters, str) else None
    if match and (tokens := _as_window(int(match[1]))):
        tokens = min(tokens, most or tokens)
        return ProbeResult(
            tokens, f"Ollama at {server.host} will load {model} with its num_ctx of {tokens:,}.", is_final=False
        )
    tokens = min(_OLLAMA_DEFAULT_WINDOW, most or _OLLAMA_DEFAULT_WINDOW)
    return ProbeResult(
        tokens,
        f"Ollama at {server.host} has not loaded {model}, and it sets no num_ctx: its default of {tokens:,} tokens is "
        "assumed. Set num_ctx or OLLAMA_CONTEXT_LENGTH for more.",
        is_final=False,
    )


async def _lm_studio(server: ProbedServer, model: str) -> ProbeResult | None:
    """Since 0.4 LM Studio has its own interface; the older one still works, and before 0.4 it was the only one."""
    entry = _find_model_entry(await server.get(f"{server.root}/api/v1/models"), model, alone=False)
    if _loaded_instances(entry) is None:
        entry = _find_model_entry(await server.get(f"{server.root}/api/v0/models"), model, alone=False)
        if "state" not in entry:
            return None
        tokens = _as_window(entry.get("loaded_context_length")) if entry["state"] == "loaded" else None
    else:
        loaded = _loaded_instances(entry) or []
        own = [each for each in loaded if each.get("id") == model] or loaded
        # It is unknown which of several instances will answer, so the smallest window is used.
        sizes = [_as_window(_as_object(each.get("config")).get("context_length")) for each in own]
        tokens = min((size for size in sizes if size), default=None)
    if tokens:
        return ProbeResult(tokens, f"LM Studio at {server.host} has loaded {model} with {tokens:,} tokens.")
    return ProbeResult(None, f"LM Studio at {server.host} has not loaded {model} yet.", is_final=False)


class LmStudioModel(NamedTuple):
    """A model of LM Studio since 0.4: its name there, the window it is loaded with (0: not loaded), and the largest."""

    key: str
    loaded_tokens: int
    max_tokens: int


async def find_lm_studio_model(server: ProbedServer, model: str) -> LmStudioModel | None:
    """Return the model as LM Studio lists it. None if the server is another one, or does not have the model."""
    entry = _find_model_entry(await server.get(f"{server.root}/api/v1/models"), model, alone=False)
    instances, key = _loaded_instances(entry), entry.get("key")
    if instances is None or not isinstance(key, str):
        return None
    sizes = [_as_window(_as_object(each.get("config")).get("context_length")) or 0 for each in instances]
    return LmStudioModel(key, min(sizes, default=0), _as_window(entry.get("max_context_length")) or 0)


async def _tgi(server: ProbedServer, model: str) -> ProbeResult | None:
    properties = _as_object(await server.get(f"{server.root}/info"))
    sizes = [_as_window(properties.get(key)) for key in ("max_input_tokens", "max_input_length", "max_total_tokens")]
    tokens = min((size for size in sizes if size), default=None)
    return ProbeResult(tokens, f"The server at {server.host} takes {tokens:,} tokens of {model}.") if tokens else None


# Reading the answers.


def _as_object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _as_window(value: object) -> int | None:
    sound = isinstance(value, int) and not isinstance(value, bool) and MIN_WINDOW_TOKENS <= value <= MAX_WINDOW_TOKENS
    return value if sound and isinstance(value, int) else None


def _loaded_window(entry: Mapping[str, object]) -> int | None:
    sizes = [
        *(_as_window(entry.get(key)) for key in _LOADED_KEYS),
        _as_window(_as_object(entry.get("meta")).get("n_ctx")),
    ]
    return next((size for size in sizes if size), None)


def _advertised_window(entry: Mapping[str, object], service: bool) -> int | None:
    # On a local server, a maximum is that of the weights.
    keys = _ADVERTISED_KEYS if service else [key for key in _ADVERTISED_KEYS if not key.startswith("max_")]
    sizes = [_as_window(entry.get(key)) for key in keys]
    sizes.append(_as_window(_as_object(entry.get("top_provider")).get("context_length")))
    return min((size for size in sizes if size), default=None)


def _find_model_entry(listing: object, model: str, *, alone: bool = True) -> Mapping[str, object]:
    """Find the model's entry in a list. With `alone`, the only entry of a list is used even if its name differs."""
    listed = listing if isinstance(listing, list) else next(_lists(_as_object(listing)), [])
    entries: list[dict[str, object]] = [entry for entry in listed if isinstance(entry, dict)]
    for same in (_normalize_name, _strip_owner):
        matches = [entry for entry in entries if same(model) in {same(name) for name in _entry_names(entry)}]
        if len(matches) == 1 or (matches and same is _normalize_name):
            return matches[0]
    return entries[0] if alone and len(entries) == 1 else {}


def _lists(listing: Mapping[str, object]) -> Iterator[list[object]]:
    return (entries for key in ("data", "models") if isinstance(entries := listing.get(key), list))


def _entry_names(entry: Mapping[str, object]) -> list[str]:
    names = [entry.get(key) for key in ("id", "name", "model", "key")]
    names += [each.get("id") for each in _loaded_instances(entry) or []]
    aliases = entry.get("aliases")
    return [name for name in [*names, *(aliases if isinstance(aliases, list) else [])] if isinstance(name, str)]


def _loaded_instances(entry: Mapping[str, object]) -> list[Mapping[str, object]] | None:
    """Return the instances that LM Studio has loaded; None if the entry is not one of LM Studio."""
    instances = entry.get("loaded_instances")
    return [_as_object(each) for each in instances] if isinstance(instances, list) else None


def _normalize_name(name: str) -> str:
    return name.lower().removeprefix("models/").removesuffix(":latest")


def _strip_owner(name: str) -> str:
    """Return the name without its owner. The tag stays: two sizes of a model are two models."""
    return _normalize_name(name).rsplit("/", 1)[-1]
