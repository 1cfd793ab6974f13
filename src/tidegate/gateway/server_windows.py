"""Asks upstreams for the windows of models that are in no catalog, with the client's own key."""

import asyncio
import time
from collections.abc import Callable
from typing import Final
from urllib.parse import parse_qs

from tidegate.core.errors import TidegateError
from tidegate.gateway.settings import CHATGPT_UPSTREAM
from tidegate.gateway.upstream_clients import CLIENT_KEY_HEADERS, IncomingRequest
from tidegate.models.server_probes import ProbeResult, probe_server

_FINAL_SECONDS: Final = 3600.0
_RETRY_SECONDS: Final = 60.0
_MAX_KNOWN: Final = 1_000
_MAX_NAME_CHARS: Final = 200


class ServerWindows:
    """What servers said, for an hour; an answer that may change soon, or none, for a minute."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._known: dict[tuple[str, str], tuple[ProbeResult | None, float]] = {}
        self._running: dict[tuple[str, str], asyncio.Task[ProbeResult | None]] = {}

    async def find(self, request: IncomingRequest, dialect: str, model: str) -> int | None:
        """The window of a model at the upstream of this request; None if the server does not say it."""
        key = (request.route.upstream.name, model)
        if request.route.upstream.name == CHATGPT_UPSTREAM or not 0 < len(model) <= _MAX_NAME_CHARS:
            return None
        found, until = self._known.get(key, (None, 0.0))
        if self._clock() >= until:
            task = self._running.get(key)
            if task is None:
                task = self._running[key] = asyncio.create_task(_ask(request, dialect, model))
                task.add_done_callback(lambda _: self._running.pop(key, None))
            found = await asyncio.shield(task)
            is_final = found is not None and found.is_final
            self._known[key] = found, self._clock() + (_FINAL_SECONDS if is_final else _RETRY_SECONDS)
            while len(self._known) > _MAX_KNOWN:
                del self._known[next(iter(self._known))]
        return found.tokens if found else None


async def _ask(request: IncomingRequest, dialect: str, model: str) -> ProbeResult | None:
    upstream = request.route.upstream
    headers: dict[str, str] = {name: request.headers[name] for name in CLIENT_KEY_HEADERS if name in request.headers}
    if given := parse_qs(request.query.decode("latin-1")).get("key"):
        headers["x-goog-api-key"] = given[0]
    try:
        base = request.route.path.partition("/models/")[0]
        return await probe_server(
            model, wire=dialect, base_url=base, key=upstream.key, headers={} if upstream.key else headers
        )
    except TidegateError:
        return None
