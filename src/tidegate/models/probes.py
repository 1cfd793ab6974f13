"""Asks a server how much the model it serves holds: the size that is loaded, never what the weights could do.

Only questions that change nothing, with a short patience: a server that does not answer is one that did not say. The
key goes where requests go and nowhere else; a redirect is not followed.
"""

import asyncio
import re
import ssl
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlsplit

import httpx
import msgspec

from tidegate.models.catalog import LOCAL
from tidegate.models.endpoints import endpoint_of, headers_of, on_this_machine, url_of
from tidegate.models.fault_numbers import LARGEST, SMALLEST
from tidegate.wire.limits import MAX_LISTING_BYTES, MAX_LISTING_VALUES, has_too_many_values

PATIENCE: Final = 2.0
ALL_PATIENCE: Final = 6.0
OLLAMA_DEFAULT: Final = 4_096
"""What Ollama loads on a machine with less than 24 GiB of video memory if nobody says otherwise."""

# Services, not servers: they have no loaded size to ask for beyond their list of models.
_SERVICES: Final = (
    "openai.com anthropic.com googleapis.com deepseek.com mistral.ai openrouter.ai groq.com together.xyz x.ai "
    "moonshot.ai moonshot.cn z.ai bigmodel.cn cerebras.ai cohere.com fireworks.ai minimax.io azure.com amazonaws.com "
    "aliyuncs.com perplexity.ai"
).split()
_SILENT: Final = ("openai.com", "deepseek.com")
"""Their lists of models say nothing of windows: not worth a request."""

_LOADED: Final = ("max_model_len", "loaded_context_length")
# Numbers of a service about what it serves. Of a server at home they may be what the weights could do: asked last.
_TOLD: Final = ("context_length", "context_window", "max_input_tokens", "inputTokenLimit", "max_context_length")
_VERSION: Final = re.compile(r"/v\d+(?:beta\d*)?$")
_NUM_CTX: Final = re.compile(r"^\s*num_ctx\s+(\d{1,9})\s*$", re.MULTILINE)


class Asked(NamedTuple):
    """`sure` is False as long as the model is not loaded: then ask again after its first answer."""

    tokens: int | None
    said: str
    sure: bool = True


class Server(NamedTuple):
    """`address` is what requests are sent to, `root` the same without version, `host` for people to read."""

    client: httpx.AsyncClient
    address: str
    host: str
    wire: str
    service: bool

    @property
    def root(self) -> str:
        return _VERSION.sub("", self.address)

    async def get(self, url: str) -> Any:
        return await self._json(self.client.stream("GET", url))

    async def post(self, url: str, body: Mapping[str, object]) -> Any:
        return await self._json(self.client.stream("POST", url, json=dict(body)))

    async def _json(self, sent: Any) -> Any:
        """The answer as JSON, or None: an error, a web page or a flood says nothing about windows."""
        async with sent as response:
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


async def ask_server(
    model: str,
    *,
    wire: str = "openai_chat",
    base_url: str = "",
    key: str = "",
    headers: Mapping[str, str] | None = None,
    patience: float = PATIENCE,
) -> Asked | None:
    """None if there is nobody to ask; an answer without a number says why there is none."""
    endpoint = endpoint_of(wire)
    url_of(endpoint, model, base_url)
    base = (base_url or endpoint.base).rstrip("/")
    name = urlsplit(base).hostname or ""
    if (not base_url and not key) or _under(name, _SILENT):
        return None
    host = urlsplit(base).netloc
    sent = headers_of(endpoint, key, headers or {}) | {"accept": "application/json"}
    verify: ssl.SSLContext | bool = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if base.startswith("http:") else True
    try:
        async with (
            asyncio.timeout(max(ALL_PATIENCE, patience)),
            httpx.AsyncClient(
                timeout=patience, headers=sent, verify=verify, trust_env=not on_this_machine(base)
            ) as client,
        ):
            server = Server(client, _address(base), host, wire, _under(name, _SERVICES))
            return await answer_of(server, _own_name(model))
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, OSError):
        return Asked(None, f"The server at {host} did not answer.", sure=False)


def is_service(base_url: str) -> bool:
    """Is it one of the providers that serve everybody? All else is a server of one's own, or of one's firm."""
    return not base_url or _under(urlsplit(base_url).hostname or "", _SERVICES)


def _under(name: str, domains: list[str] | tuple[str, ...]) -> bool:
    return any(name == domain or name.endswith(f".{domain}") for domain in domains)


def _address(base: str) -> str:
    """A base that names the path of the requests is fine, as it is for them."""
    for path in ("/chat/completions", "/responses", "/messages"):
        base = base.removesuffix(path)
    return base


def _own_name(model: str) -> str:
    """The name as the server knows it, without the word that says it is at home."""
    first, slash, rest = model.strip().partition("/")
    return rest if slash and first.lower() in LOCAL else model.strip()


async def answer_of(server: Server, model: str) -> Asked:
    """What a server says of a model. One that answers at all may still hang up on a question it does not know."""
    listed = await _listed(server, model)
    if tokens := _loaded(listed):
        return Asked(tokens, f"The server at {server.host} holds {tokens:,} tokens of {model}.")
    remark = None
    for probe in () if server.service else (_llama_cpp, _ollama, _lm_studio, _tgi):
        try:
            asked = await probe(server, model)
        except httpx.HTTPError:
            continue
        if asked is not None and asked.tokens is not None:
            return asked
        remark = remark or asked
    if remark is None and (tokens := _told(listed, server.service)):
        return Asked(tokens, f"{server.host} says that {model} holds {tokens:,} tokens.")
    return remark or Asked(None, f"The server at {server.host} does not say how much {model} holds.")


async def _listed(server: Server, model: str) -> Mapping[str, Any]:
    """The server's entry for the model in its list of models."""
    versioned = server.address if _VERSION.search(server.address) else f"{server.address}/v1"
    if server.service and server.wire in ("anthropic", "gemini"):
        return _fields(await server.get(f"{versioned}/models/{quote(model.removeprefix('models/'), safe='')}"))
    return _entry(await server.get(f"{versioned}/models"), model)


async def _llama_cpp(server: Server, model: str) -> Asked | None:
    # A router of several models would load one that is asked about, if it were not told to leave it.
    told = _fields(await server.get(f"{server.root}/props?model={quote(model, safe='')}&autoload=false"))
    tokens = _size(_fields(told.get("default_generation_settings")).get("n_ctx"))
    return Asked(tokens, f"llama.cpp at {server.host} holds {tokens:,} tokens for each request.") if tokens else None


async def _ollama(server: Server, model: str) -> Asked | None:
    running = await server.get(f"{server.root}/api/ps")
    if not isinstance(_fields(running).get("models"), list):
        return None
    tokens = _size(_entry(running, model, alone=False).get("context_length"))
    if tokens:
        return Asked(tokens, f"Ollama at {server.host} has loaded {model} with {tokens:,} tokens.")
    shown = _fields(await server.post(f"{server.root}/api/show", {"model": model}))
    if not shown:
        return Asked(None, f"Ollama at {server.host} does not know {model}.", sure=False)
    most = next(
        (_size(n) for key, n in _fields(shown.get("model_info")).items() if key.endswith(".context_length")), None
    )
    parameters = shown.get("parameters")
    match = _NUM_CTX.search(parameters) if isinstance(parameters, str) else None
    if match and (tokens := _size(int(match[1]))):
        tokens = min(tokens, most or tokens)
        return Asked(tokens, f"Ollama at {server.host} will load {model} with its num_ctx of {tokens:,}.", sure=False)
    tokens = min(OLLAMA_DEFAULT, most or OLLAMA_DEFAULT)
    return Asked(
        tokens,
        f"Ollama at {server.host} has not loaded {model}, and it sets no num_ctx: its default of {tokens:,} tokens is "
        "assumed. Set num_ctx or OLLAMA_CONTEXT_LENGTH for more.",
        sure=False,
    )


async def _lm_studio(server: Server, model: str) -> Asked | None:
    """From 0.4 on by its own interface; the older one still answers, and before that it was the only one."""
    entry = _entry(await server.get(f"{server.root}/api/v1/models"), model, alone=False)
    if _instances(entry) is None:
        entry = _entry(await server.get(f"{server.root}/api/v0/models"), model, alone=False)
        if "state" not in entry:
            return None
        tokens = _size(entry.get("loaded_context_length")) if entry["state"] == "loaded" else None
    else:
        loaded = _instances(entry) or []
        own = [each for each in loaded if each.get("id") == model] or loaded
        # Which of several is asked nobody knows: the smallest holds for all.
        sizes = [_size(_fields(each.get("config")).get("context_length")) for each in own]
        tokens = min((size for size in sizes if size), default=None)
    if tokens:
        return Asked(tokens, f"LM Studio at {server.host} has loaded {model} with {tokens:,} tokens.")
    return Asked(None, f"LM Studio at {server.host} has not loaded {model} yet.", sure=False)


async def _tgi(server: Server, model: str) -> Asked | None:
    told = _fields(await server.get(f"{server.root}/info"))
    sizes = [_size(told.get(key)) for key in ("max_input_tokens", "max_input_length", "max_total_tokens")]
    tokens = min((size for size in sizes if size), default=None)
    return Asked(tokens, f"The server at {server.host} takes {tokens:,} tokens of {model}.") if tokens else None


# Reading what they say.


def _fields(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _size(value: object) -> int | None:
    sound = isinstance(value, int) and not isinstance(value, bool) and SMALLEST <= value <= LARGEST
    return value if sound and isinstance(value, int) else None


def _loaded(entry: Mapping[str, Any]) -> int | None:
    sizes = [*(_size(entry.get(key)) for key in _LOADED), _size(_fields(entry.get("meta")).get("n_ctx"))]
    return next((size for size in sizes if size), None)


def _told(entry: Mapping[str, Any], service: bool) -> int | None:
    # What is called a maximum is one only where nobody but the maker loads the model.
    keys = _TOLD if service else [key for key in _TOLD if not key.startswith("max_")]
    sizes = [_size(entry.get(key)) for key in keys]
    sizes.append(_size(_fields(entry.get("top_provider")).get("context_length")))
    return min((size for size in sizes if size), default=None)


def _entry(listing: object, model: str, *, alone: bool = True) -> Mapping[str, Any]:
    """The model's entry in a list; the only one of a list is meant if `alone`, whatever its name."""
    listed = listing if isinstance(listing, list) else next(_lists(_fields(listing)), [])
    entries: list[dict[str, Any]] = [entry for entry in listed if isinstance(entry, dict)]
    for same in (_plain, _short):
        meant = [entry for entry in entries if same(model) in {same(name) for name in _called(entry)}]
        if len(meant) == 1 or (meant and same is _plain):
            return meant[0]
    return entries[0] if alone and len(entries) == 1 else {}


def _lists(listing: Mapping[str, Any]) -> Iterator[list[Any]]:
    return (listing[key] for key in ("data", "models") if isinstance(listing.get(key), list))


def _called(entry: Mapping[str, Any]) -> list[str]:
    names = [entry.get(key) for key in ("id", "name", "model", "key")]
    names += [each.get("id") for each in _instances(entry) or []]
    aliases = entry.get("aliases")
    return [name for name in [*names, *(aliases if isinstance(aliases, list) else [])] if isinstance(name, str)]


def _instances(entry: Mapping[str, Any]) -> list[Mapping[str, Any]] | None:
    """What LM Studio has loaded of a model; None if this is no entry of its."""
    found = entry.get("loaded_instances")
    return [_fields(each) for each in found] if isinstance(found, list) else None


def _plain(name: str) -> str:
    return name.lower().removeprefix("models/").removesuffix(":latest")


def _short(name: str) -> str:
    """Without the owner. The tag stays: two sizes of a model are two models, loaded each in its own way."""
    return _plain(name).rsplit("/", 1)[-1]
