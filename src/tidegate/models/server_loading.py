"""Has a local server load a model with the window that is set, where its interface allows that.

LM Studio loads a model at its first request with a window of its own choice, which may be much smaller than the one
that is set in tidegate. A model that is loaded already stays as it is: another program may be using it.
"""

import asyncio
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import httpx

from tidegate.models.http.endpoints import build_headers, choose_tls, is_loopback_url
from tidegate.models.server_probes import ProbedServer, ProbeResult, find_lm_studio_model, strip_request_path
from tidegate.wire.registry import get_dialect

_LOAD_SECONDS: Final = 180.0


async def load_with_window(
    model: str, tokens: int, *, wire: str, base_url: str, key: str = "", headers: Mapping[str, str] | None = None
) -> ProbeResult | None:
    """Load a model with a window of so many tokens, or as many as it allows. None if the server cannot do that.

    The result is the window that the model has now.
    """
    all_headers = build_headers(get_dialect(wire).endpoint, key, headers or {}) | {"accept": "application/json"}
    host = urlsplit(base_url).netloc
    try:
        async with (
            asyncio.timeout(_LOAD_SECONDS),
            httpx.AsyncClient(
                timeout=_LOAD_SECONDS,
                headers=all_headers,
                verify=choose_tls(base_url),
                trust_env=not is_loopback_url(base_url),
            ) as client,
        ):
            server = ProbedServer(client, strip_request_path(base_url.rstrip("/")), host, wire, is_hosted=False)
            lm_studio_model = await find_lm_studio_model(server, model)
            if lm_studio_model is None:
                return None
            if lm_studio_model.loaded_tokens:
                return ProbeResult(
                    lm_studio_model.loaded_tokens,
                    f"LM Studio at {host} has loaded {model} with {lm_studio_model.loaded_tokens:,} tokens already.",
                )
            window = min(tokens, lm_studio_model.max_tokens or tokens)
            answer = await server.post(
                f"{server.root}/api/v1/models/load", {"model": lm_studio_model.key, "context_length": window}
            )
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, OSError):
        return None
    loaded = isinstance(answer, dict) and answer.get("status") == "loaded"
    return ProbeResult(window, f"LM Studio at {host} has loaded {model} with {window:,} tokens.") if loaded else None
