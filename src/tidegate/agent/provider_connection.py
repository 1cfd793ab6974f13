"""From a brain to a provider that can be asked: where it is, how much it holds, and what it was found to lack."""

from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Final

import msgspec

from tidegate.agent.config.provider_target import KNOWN_PROVIDERS, ProviderTarget, resolve_target
from tidegate.agent.config.resolved_config import ResolvedConfig
from tidegate.agent.config.settings import BrainSettings, FileSettings, ModelSettings
from tidegate.core.errors import BadInput, BadPolicy, NotKept
from tidegate.core.tokens.counting import TokenCounter
from tidegate.disk.atomic_files import write_atomically
from tidegate.models.catalog import ModelInfo, find_entry, find_model
from tidegate.models.embedded.provider import EmbeddedProvider
from tidegate.models.errors.classification import ProviderError
from tidegate.models.http.control_tokens import ControlTokenEscaper
from tidegate.models.http.provider import HttpProvider
from tidegate.models.pricing import TokenRates, take_dearer
from tidegate.models.provider import Provider
from tidegate.models.server_probes import is_hosted_service
from tidegate.models.token_counters import create_counter
from tidegate.models.window import LearnedWindow, LearnedWindows, ResolvedWindow, WindowResolver
from tidegate.wire.limits import ProviderLimits

WINDOWS_FILE: Final = "windows.json"
_WEIGHTS_FOLDER: Final = "models"
"""In the data folder: what providers said of their windows, and the weights that were fetched."""


class ProviderConnection(msgspec.Struct, frozen=True):
    """`tools` is False for a model that is shown none. `max_tokens` is the output to ask for, 0: the dialect's own.

    `prices` are what the configuration says, over the catalog.
    """

    provider: Provider
    window: ResolvedWindow
    counter: TokenCounter
    supports_tools: bool = True
    max_output_tokens: int = 0
    is_embedded: bool = False
    model_overrides: Mapping[str, ModelInfo] = {}
    window_resolver: WindowResolver | None = None
    learned_windows: LearnedWindows | None = None
    folder: Path | None = None

    def learn_window(self, error: ProviderError) -> ResolvedWindow | None:
        """The window, if a provider told of it. It is kept for the next time, if that can be."""
        if self.window_resolver is None or not self.window_resolver.learn(error):
            return None
        self.save_windows()
        return self.window_resolver.window

    def confirm_tokens(self, tokens: int) -> ResolvedWindow | None:
        """The window, if so many tokens were read in one request and an error had told of fewer."""
        if self.window_resolver is None or not self.window_resolver.confirm_tokens(tokens):
            return None
        self.save_windows()
        return self.window_resolver.window

    def save_windows(self) -> None:
        if self.learned_windows is not None and self.folder is not None:
            with suppress(NotKept):  # then it is learned again
                write_atomically(
                    self.folder / WINDOWS_FILE, msgspec.json.encode(self.learned_windows.to_records()), durable=False
                )


async def connect_provider(
    config: ResolvedConfig,
    brain: BrainSettings,
    environment: Mapping[str, str],
    folder: Path | None,
    *,
    stack: AsyncExitStack,
    window: int | None = None,
    provider: Provider | None = None,
) -> ProviderConnection:
    """The brain's provider, closed with `stack`; one that is handed in stays open. `window` is what someone set."""
    prices = build_model_overrides(config)
    target = resolve_target(brain, config.settings.providers, environment)
    if target.is_embedded and provider is None:
        return _connect_embedded(brain, environment, folder, window, prices, stack)
    if provider is None:
        _check_key(target)
        _check_price(config, brain, target, prices)
        limits = ProviderLimits(total_seconds=target.timeout) if target.timeout else None
        provider = HttpProvider(
            target.wire,
            target.model,
            base_url=target.base_url,
            key=target.api_key,
            headers=target.headers,
            limits=limits,
            marks=None if is_hosted_service(target.base_url) else ControlTokenEscaper(),
        )
        stack.push_async_callback(provider.close)
        resolver = _create_window_resolver(target, window, prices, learned := _load_learned_windows(folder))
        found = await resolver.query_server()
    else:
        target = msgspec.structs.replace(target, model=provider.model, wire=provider.wire)
        resolver = _create_window_resolver(target, window, prices, learned := LearnedWindows())
        found = resolver.window
    known = find_model(provider.model, prices)
    most = known.max_output if known is not None else None
    wanted = brain.max_output or 0
    connection = ProviderConnection(
        provider,
        found,
        create_counter(provider.model),
        max_output_tokens=min(wanted, most) if most and wanted else wanted,
        model_overrides=prices,
        window_resolver=resolver,
        learned_windows=learned,
        folder=folder,
    )
    if resolver.forgotten_notice:
        connection.save_windows()
    return connection


def _connect_embedded(
    brain: BrainSettings,
    environment: Mapping[str, str],
    folder: Path | None,
    window: int | None,
    prices: Mapping[str, ModelInfo],
    stack: AsyncExitStack,
) -> ProviderConnection:
    place = folder / _WEIGHTS_FOLDER if folder is not None else None
    model = EmbeddedProvider(
        brain.model, window=window, max_output=brain.max_output, folder=place, environment=environment
    )
    stack.push_async_callback(model.close)
    free = {model.model.lower(): ModelInfo(model.window, model.max_output, (TokenRates(0.0, 0.0),), images=False)}
    said = f"{model.model} runs on this machine with a window of {model.window:,} tokens."
    return ProviderConnection(
        model,
        ResolvedWindow(model.window, "setting" if window else "server", said),
        model.counter,
        supports_tools=model.supports_tools,
        max_output_tokens=model.max_output,
        is_embedded=True,
        model_overrides={**prices, **free},
    )


def _create_window_resolver(
    target: ProviderTarget, window: int | None, prices: Mapping[str, ModelInfo], learned: LearnedWindows
) -> WindowResolver:
    return WindowResolver(
        target.model,
        setting=window,
        wire=target.wire,
        base_url=target.base_url,
        key=target.api_key,
        headers=target.headers,
        overrides=prices,
        learned=learned,
    )


def _load_learned_windows(folder: Path | None) -> LearnedWindows:
    """What cannot be read is learned again."""
    if folder is None:
        return LearnedWindows()
    try:
        return LearnedWindows(msgspec.json.decode((folder / WINDOWS_FILE).read_bytes(), type=list[LearnedWindow]))
    except (OSError, msgspec.MsgspecError):
        return LearnedWindows()


def _check_key(target: ProviderTarget) -> None:
    """Whoever sits behind a base URL of one's own may want none; the providers themselves all do."""
    known = KNOWN_PROVIDERS.get(target.provider)
    if known is None or not known.key_env or target.api_key or target.base_url_source != "default":
        return
    raise BadInput(
        f"There is no key for {target.provider}.",
        f"Set ${known.key_env}, or config.api_key of the brain; without any provider the embedded model answers.",
    )


def _check_price(
    config: ResolvedConfig, brain: BrainSettings, target: ProviderTarget, prices: Mapping[str, ModelInfo]
) -> None:
    """A model without a known price costs nothing as far as a cap in dollars can tell: a project must not pick one."""
    known = find_model(target.model, prices)
    priced = known is not None and bool(known.prices)
    if (
        config.user_limits is None
        or priced
        or not is_hosted_service(target.base_url)
        or not has_dollar_cap(config.user_limits.user_settings)
    ):
        return
    path = f"agents.{config.agent.id}.brain" if brain is config.agent.brain else "context.summary_brain"
    source = config.sources.get(f"{path}.model", "")
    if source.startswith(f"{config.user_limits.project_file}:"):
        raise BadInput(
            f"{source}: the price of {target.model} is not known, so your own file's cap in dollars would not hold.",
            "Give its prices under models in your own file, or choose it yourself with --model.",
        )


def find_provider_keys(environment: Mapping[str, str]) -> dict[str, str]:
    """The providers whose keys are there, and the variables that hold them: what a first run can offer."""
    return {
        name: each.key_env for name, each in KNOWN_PROVIDERS.items() if each.key_env and environment.get(each.key_env)
    }


def build_model_overrides(config: ResolvedConfig) -> dict[str, ModelInfo]:
    """What the configuration says of models. What it leaves out is the catalog's.

    Prices that a project's file gives are never below those of the user's own file, nor, where that file caps dollars,
    below the catalog's: else a project could lift the cap by calling a model cheap.
    """
    models = {
        name.strip().lower(): _build_model_info(config, name, own) for name, own in config.settings.models.items()
    }
    if config.user_limits is None:
        return models
    own = {
        name.strip().lower(): _build_model_info(config, name, each)
        for name, each in config.user_limits.user_settings.models.items()
    }
    capped = has_dollar_cap(config.user_limits.user_settings)
    return {
        name: _limit_model_info(name, model, find_entry(name, own) or ModelInfo(), capped)
        for name, model in models.items()
    }


def _limit_model_info(name: str, model: ModelInfo, own: ModelInfo, capped: bool) -> ModelInfo:
    """A model that is at least as dear as the user's own entry for it says, and no larger."""
    known = find_model(name) if capped and not own.prices else None
    return ModelInfo(
        _smallest(model.window, own.window),
        _smallest(model.max_output, own.max_output),
        take_dearer(model.prices, known.prices if known is not None else own.prices),
        model.images if own.images is None else own.images,
    )


def _smallest(*sizes: int | None) -> int | None:
    return min((size for size in sizes if size is not None), default=None)


def has_dollar_cap(settings: FileSettings) -> bool:
    return settings.spend.session.dollars is not None or settings.spend.day.dollars is not None


def _build_model_info(config: ResolvedConfig, name: str, own: ModelSettings) -> ModelInfo:
    given = (own.input, own.output, own.cache_read, own.cache_write)
    if all(each is None for each in given):
        return ModelInfo(own.window, own.max_output, images=own.images)
    known = find_model(name)
    rates = known.prices[0] if known is not None and known.prices else None
    read = own.input if own.input is not None else rates.input if rates else None
    written = own.output if own.output is not None else rates.output if rates else None
    if read is None or written is None:
        raise BadPolicy(
            f"{config.sources.get(f'models.{name}', f'models.{name}')}: only one of two prices is given.",
            "Give input and output, in dollars for a million tokens.",
        )
    cached = own.cache_read if own.cache_read is not None or rates is None else rates.cached
    kept = own.cache_write if own.cache_write is not None or rates is None else rates.written
    return ModelInfo(own.window, own.max_output, (TokenRates(read, written, cached, kept),), own.images)
