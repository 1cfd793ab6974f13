"""The window to plan a request with: what the settings, refusals, servers and the clients themselves say.

What upstreams said in refusals is kept in the data folder for the next process and for other workers. Servers are asked
for the windows of models that are in no catalog, with the client's own key.

A client compares the usage of the last answer with its own idea of the window. If it compacts first, the log gets its
summary instead of the conversation, so the gateway stays below that size. What was measured or read in a client says
where it is; the other limits are chosen, well below the window.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import parse_qs

from tidegate.core.errors import TidegateError
from tidegate.core.text.terminal_text import clean_line
from tidegate.disk.folder import TextFolder
from tidegate.gateway.conversations import Conversation
from tidegate.gateway.settings import CHATGPT_UPSTREAM, GatewaySettings
from tidegate.gateway.store_gate import StoreGate
from tidegate.gateway.upstream_clients import CLIENT_KEY_HEADERS, IncomingRequest
from tidegate.models.catalog import find_window
from tidegate.models.errors.classification import ProviderError
from tidegate.models.errors.numbers import MAX_WINDOW_TOKENS
from tidegate.models.server_probes import ProbeResult, probe_server
from tidegate.models.window_evidence import (
    EVIDENCE_SECONDS,
    OwnCount,
    WindowEvidence,
    WindowKey,
    estimate_accepted,
)
from tidegate.store.errors import StoreUnreachable

WINDOWS_FILE: Final = "gateway-windows.json"
_REFRESH_SECONDS: Final = 10.0
"""How long a worker does not look for what others have learned."""
_FINAL_SECONDS: Final = 3600.0
_RETRY_SECONDS: Final = 60.0
_MAX_KNOWN: Final = 1_000
_MAX_NAME_CHARS: Final = 200

_MARGIN: Final = 0.95
"""The client's count includes the answer, and ours may differ from the provider's."""

_LIMITS: Final[Mapping[str, Callable[[int], int]]] = {
    # By the model's window. Codex knows its models with 272,000 tokens at most, whatever the provider offers.
    "codex": lambda window: min(241_000, int(window * 0.9)),  # measured with 0.166
    "claude": lambda window: int(window * 0.9),  # chosen; it compacted at 990,000 of 1M
    "opencode": lambda window: int(window * 0.85),  # chosen; it compacted at 125,000 of 128,000
    "pi": lambda window: window - 16_384,  # its setting reserveTokens
    "gemini": lambda window: window // 2,  # COMPRESSION_TOKEN_THRESHOLD of 0.61.0
    "qwen": lambda window: window // 2,  # chosen: it is a fork of Gemini CLI
}
_AGENTS: Final = (("geminicli", "gemini"), ("qwencode", "qwen"), ("codex", "codex"), ("claude-cli", "claude"))
"""The beginnings of `User-Agent`, for clients that do not name their conversation."""
_CODEX_WINDOW: Final = 272_000


class UpstreamWindows:
    """The evidence about windows (`models/window_evidence.py`). The file is read and written in threads."""

    def __init__(
        self,
        settings: GatewaySettings,
        folder: TextFolder,
        gate: StoreGate,
        log_line: Callable[[str], None],
        note_once: Callable[[str], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._folder = folder
        self._gate = gate
        self._log_line = log_line
        self._note_once = note_once
        self._clock = clock
        self._evidence = WindowEvidence()
        self._read_at = 0.0
        self._servers = ServerWindows(clock)

    async def choose(
        self, request: IncomingRequest, dialect: str, model: str, conversation: Conversation, set_window: int | None
    ) -> WindowKey:
        """Have a conversation plan with what is known of its window now; `set_window` is what the settings say of it.

        Under `default`, a request to a window of which nothing is known is left alone.
        """
        key, client_name = WindowKey(request.scope, request.route.upstream.name, model), request.client.client
        limits = [await self.find(key)]
        if not set_window:
            first_window = conversation.opened_window
            server_window = None if first_window else await self._servers.find(request, dialect, model)
            limits += [server_window, find_client_limit(client_name, request.headers, first_window or server_window)]
            if not (first_window or any(limits)) and self._settings.policy_for(model, client_name) == "default":
                limits.append(MAX_WINDOW_TOKENS)
                self._note_once(
                    f"the window of {clean_line(model)[:100]} is not known: requests are forwarded whole until the"
                    " provider refuses one; set it with --window"
                )
        own, learned_at = conversation.own_limit
        is_recent = own and abs(self._clock() - learned_at) < EVIDENCE_SECONDS
        candidates = [conversation.opened_window, *limits, own if is_recent else None]
        conversation.recovery.set_window(min(filter(None, candidates), default=None))
        return key

    def find_without_store(self, request: IncomingRequest, model: str) -> int | None:
        """The window of a model, as far as it is known while the store is silent."""
        learned_window = self.find_known(WindowKey(request.scope, request.route.upstream.name, model))
        return self._settings.window_for(model) or learned_window or find_window(model)

    async def find(self, key: WindowKey) -> int | None:
        """The window to plan with, if one was learned. StoreUnreachable if the store is silent."""
        now = self._clock()
        if abs(now - self._read_at) >= _REFRESH_SECONDS:
            self._read_at = now
            try:
                self._evidence.merge(await self._gate.run(self._folder.read, WINDOWS_FILE))
            except StoreUnreachable:
                self._read_at = 0.0
                raise
            except (TidegateError, OSError) as failure:
                self._log_line(f"the learned windows cannot be read: {type(failure).__name__}")
        return self.find_known(key)

    @property
    def now(self) -> float:
        return self._clock()

    def find_known(self, key: WindowKey) -> int | None:
        """The learned window, as far as it is known without reading the file."""
        return self._evidence.find_window(key, self._clock())

    def largest_accepted(self, key: WindowKey) -> int:
        return self._evidence.largest_accepted(key, self._clock())

    def knows_words(self, key: WindowKey, words: str) -> bool:
        return self._evidence.knows_words(key, words)

    def is_fruitless(self, key: WindowKey, words: str) -> bool:
        """Whether a smaller request was refused after these words as well."""
        return self._evidence.is_fruitless(key, words)

    def note_fruitless(self, key: WindowKey, words: str) -> None:
        self._evidence.note_fruitless(key, words)

    async def take_ceiling(self, key: WindowKey, tokens: int) -> None:
        """Take note of a request that was refused without a number; the ceiling is never below what was accepted."""
        self._evidence.take_ceiling(key, max(tokens, self.largest_accepted(key)), self._clock())
        await self._store()

    async def take_words(self, key: WindowKey, words: str, ceiling: int | None) -> None:
        """Remember the words of a refusal that was about the length, and a ceiling."""
        self._evidence.take_words(key, words, self._clock())
        await (self._store() if ceiling is None else self.take_ceiling(key, ceiling))

    async def take_refusal(self, key: WindowKey, error: ProviderError, count: OwnCount) -> int | None:
        """The window that a refusal names, if it is believed."""
        now = self._clock()
        window = self._evidence.take_refusal(key, error, count, now)
        if window is not None and window == self._evidence.find_window(key, now):
            await self._store()
        return window

    async def take_accepted(self, key: WindowKey, reported: int, own_count: int) -> None:
        """Take note of a request that was answered, with its size as the upstream reported and as we counted it."""
        if self._evidence.take_accepted(key, estimate_accepted(reported, own_count), self._clock()):
            await self._store()

    async def _store(self) -> None:
        own_evidence = self._evidence.encode()

        def combine(text: str | None) -> str:
            evidence = WindowEvidence(text)
            evidence.merge(own_evidence)
            return evidence.encode()

        try:
            await self._gate.run(self._folder.update, WINDOWS_FILE, combine)
        except (TidegateError, OSError) as failure:
            self._log_line(f"a learned window was not stored: {type(failure).__name__}")


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
        answer, until = self._known.get(key, (None, 0.0))
        if self._clock() >= until:
            task = self._running.get(key)
            if task is None:
                task = self._running[key] = asyncio.create_task(_ask(request, dialect, model))
                task.add_done_callback(lambda _: self._running.pop(key, None))
            answer = await asyncio.shield(task)
            is_final = answer is not None and answer.is_final
            self._known[key] = answer, self._clock() + (_FINAL_SECONDS if is_final else _RETRY_SECONDS)
            while len(self._known) > _MAX_KNOWN:
                del self._known[next(iter(self._known))]
        return answer.tokens if answer else None


async def _ask(request: IncomingRequest, dialect: str, model: str) -> ProbeResult | None:
    upstream = request.route.upstream
    headers: dict[str, str] = {name: request.headers[name] for name in CLIENT_KEY_HEADERS if name in request.headers}
    if query_keys := parse_qs(request.query.decode("latin-1")).get("key"):
        headers["x-goog-api-key"] = query_keys[0]
    try:
        base = request.route.path.partition("/models/")[0]
        return await probe_server(
            model, wire=dialect, base_url=base, key=upstream.key, headers={} if upstream.key else headers
        )
    except TidegateError:
        return None


def find_client_limit(client: str, headers: Mapping[str, str], window: int | None) -> int | None:
    """The largest window with which this client does not compact by itself; None if nothing is known about it.

    `window` is the model's, None if it is not known: then only Codex is known to assume one.
    """
    agent = headers.get("user-agent", "").lower()
    name = client or next((name for start, name in _AGENTS if agent.startswith(start)), "")
    if name not in _LIMITS or (window is None and name != "codex"):
        return None
    limit = int(_LIMITS[name](window or _CODEX_WINDOW) * _MARGIN)
    return limit if limit > 0 else None
