"""The embedded model: a real model on this machine's CPU, without a key, a separate server or a compiler.

    model = EmbeddedProvider(window=4096)
    session = Session(model.model, wire=model.wire, window=model.window, count=model.counter)

It runs in a llama server inside this process, on a free local port and with a key that only this process knows.
Requests and errors are the same as with any other server.
"""

import asyncio
import importlib
import importlib.util
import os
import secrets
import threading
import weakref
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Protocol

from tidegate.core.errors import BadInput
from tidegate.core.tokens.counting import TokenCounter
from tidegate.models.embedded.gguf import GgufHeader, load_gguf_counter, read_gguf_header, read_special_tokens
from tidegate.models.embedded.weights import SMOLLM2, find_weights
from tidegate.models.errors.classification import ProviderError
from tidegate.models.http.control_tokens import ControlTokenEscaper
from tidegate.models.http.provider import HttpProvider
from tidegate.models.token_counters import create_counter
from tidegate.wire.limits import ProviderLimits
from tidegate.wire.streaming.reply import Delta, Reply

_LIBRARY: Final = "xllamacpp"
_MAX_MEMORY_BYTES: Final = 1 << 30
"""Most bytes for the context, besides the weights; on a small machine an eighth of its memory."""
_WINDOW_STEP: Final = 256
"""The server rounds its window up to a multiple of this."""
_MAX_OUTPUT_TOKENS: Final = 1024
# A slow CPU may read a long prompt for many minutes before the first token. A new connection costs nothing here, and a
# model that is used in several event loops leaves no connection open in any.
_LIMITS: Final = ProviderLimits(idle_seconds=3600.0, total_seconds=7200.0, keepalive_connections=0)


class EmbeddedProvider:
    """`model` is the path of a GGUF file; empty: `$TIDEGATE_GGUF`, else the weights of the extra, in `folder` or
    installed. A problem with the file is raised at once; the weights are loaded at the first request.

    `window` is the size that will be loaded: as requested, but never more than the model was trained for; by default as
    much as fits into `memory` bytes. `supports_tools` says whether the model is shown any. An answer ends after
    `max_output` tokens, because a small model may not stop by itself. With a `seed` the same request has the same
    answer.
    """

    wire: Final = "openai_chat"

    def __init__(
        self,
        model: str | Path = "",
        *,
        window: int | None = None,
        memory: int | None = None,
        max_output: int | None = None,
        threads: int = 1,
        seed: int | None = None,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        if importlib.util.find_spec(_LIBRARY) is None:
            raise BadInput(
                f"The embedded model needs the package {_LIBRARY}, which is not installed.",
                "Install it with `pip install 'tidegate[local]'`, then fetch the weights with `tidegate fetch`.",
            )
        self.path = find_weights(model, folder=folder, environment=os.environ if environment is None else environment)
        header = read_gguf_header(self.path)
        self.model = self.path.name.removesuffix(".gguf")
        self.window = choose_embedded_window(header, window, _available_memory() if memory is None else memory)
        self.supports_tools = header.supports_tools
        self.max_output = max_output or min(_MAX_OUTPUT_TOKENS, max(1, self.window // 4))
        self.threads = max(1, threads)
        self.seed = seed
        self.server = EmbeddedServer()
        # A server that is still writing at interpreter exit would use freed objects.
        weakref.finalize(self, self.server.stop)

    @cached_property
    def counter(self) -> TokenCounter:
        """The model's own vocabulary if it can be read: other counters are off by up to a factor of three."""
        return load_gguf_counter(self.path) or create_counter(self.model)

    def __repr__(self) -> str:
        return f"EmbeddedProvider({self.model!r}, window={self.window})"

    async def stream(self, request: bytes) -> AsyncGenerator[Delta | Reply, None]:
        provider = await asyncio.to_thread(self.server.start, self)
        async with aclosing(provider.stream(request)) as answer:
            async for each in answer:
                yield each

    async def close(self) -> None:
        """Stop the server and free its memory. The next request loads the model again."""
        if self.server.provider is not None:
            await self.server.provider.close()
        await asyncio.to_thread(self.server.stop)


def choose_embedded_window(header: GgufHeader, setting: int | None, memory: int) -> int:
    """Return the smaller of the trained context and the requested window, or what the memory holds."""
    if setting is not None:
        if setting <= 0:
            raise BadInput(f"The window is {setting} tokens.", "Give a positive number, or none.")
        return min(setting, header.context)
    fitting = max(1, memory // header.token_bytes // _WINDOW_STEP) * _WINDOW_STEP
    return min(fitting, header.context)


def _available_memory() -> int:
    try:
        return min(_MAX_MEMORY_BYTES, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 8)
    except (ValueError, OSError, AttributeError):  # not available on every system
        return _MAX_MEMORY_BYTES


class _LlamaServer(Protocol):
    """What is used of the library's server; it stops when the last reference to it is gone."""

    @property
    def listening_address(self) -> str: ...


class EmbeddedServer:
    """The running server, if any. It holds no reference to its EmbeddedProvider, which could then never be freed."""

    def __init__(self) -> None:
        self.provider: HttpProvider | None = None
        self._server: _LlamaServer | None = None
        self._turn = threading.Lock()

    def start(self, model: EmbeddedProvider) -> HttpProvider:
        """Start the server if it is not running. Called in a thread; after a cancellation the server stays for the next
        caller.

        The library blocks all other Python code while it loads: half a second for the bundled weights.
        """
        with self._turn:
            if self.provider is None:
                key = secrets.token_urlsafe(24)
                try:
                    server: _LlamaServer = importlib.import_module(_LIBRARY).Server(_server_settings(model, key))
                except (RuntimeError, ImportError, MemoryError) as failure:
                    cause = f"{model.path} could not be loaded with a window of {model.window:,} tokens: {failure}"
                    raise ProviderError(
                        "model", f"{cause} It may be cut off, of an unknown kind, or too large."
                    ) from failure
                self._server = server
                self.provider = HttpProvider(
                    model.wire,
                    model.model,
                    base_url=f"{server.listening_address}/v1",
                    key=key,
                    limits=_LIMITS,
                    marks=ControlTokenEscaper(read_special_tokens(model.path)),
                )
            return self.provider

    def stop(self) -> None:
        with self._turn:
            self.provider = self._server = None


def _server_settings(model: EmbeddedProvider, key: str) -> Any:
    settings = importlib.import_module(_LIBRARY).CommonParams()
    settings.model.path = str(model.path)
    settings.model_alias = {model.model}
    settings.hostnames, settings.port, settings.api_keys = ["127.0.0.1"], 0, [key]
    settings.n_ctx, settings.n_parallel, settings.n_predict = model.window, 1, model.max_output
    # More threads than idle cores wait for each other in busy loops: ten times slower than one thread.
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = model.threads
    settings.n_gpu_layers, settings.fit_params, settings.offline = 0, False, True
    settings.n_threads_http, settings.cache_ram_mib = 2, 0
    settings.verbosity = -1  # no output: the terminal belongs to the application
    settings.ui = settings.endpoint_slots = False
    # This is also how long a writing server takes to notice that it should stop.
    settings.sse_ping_interval = 1
    if model.seed is not None:
        settings.sampling.seed = model.seed
    if model.path.name == SMOLLM2.file:
        # The makers' recommendation, plus a penalty: a model this small soon repeats itself, also whole blocks.
        settings.sampling.temp, settings.sampling.top_p = 0.2, 0.9
        settings.sampling.penalty_repeat, settings.sampling.penalty_last_n = 1.1, 512
    return settings
