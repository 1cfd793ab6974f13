"""Connecting the model of a configuration to a provider: its address, its window and its prices."""

from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from tidegate.agent.config.provider_target import KNOWN_PROVIDERS, ProviderTarget, resolve_target
from tidegate.agent.config.resolved_config import ResolvedConfig
from tidegate.agent.config.settings import AgentModel, FileSettings, ModelSettings
from tidegate.agent.plugin_provider import open_plugin_provider
from tidegate.core.errors import BadInput, BadPolicy, TidegateError
from tidegate.core.tokens.counting import TokenCounter
from tidegate.datafolder.contents import FolderContents
from tidegate.disk.folder import TextFolder
from tidegate.models.catalog import ModelInfo, find_entry, find_model
from tidegate.models.embedded.provider import EmbeddedProvider
from tidegate.models.errors.classification import ProviderError
from tidegate.models.http.control_tokens import ControlTokenEscaper
from tidegate.models.http.provider import HttpProvider
from tidegate.models.pricing import TokenRates, take_dearer
from tidegate.models.provider import Provider
from tidegate.models.server_loading import load_with_window
from tidegate.models.server_probes import is_hosted_service
from tidegate.models.token_counters import create_counter
from tidegate.models.window import LearnedWindow, LearnedWindows, ResolvedWindow, WindowResolver
from tidegate.session.state_notes import COMPACTION_NOTES
from tidegate.wire.dialect import CompactionForm
from tidegate.wire.limits import ProviderLimits
from tidegate.wire.registry import get_dialect

WINDOWS_FILE: Final = "windows.json"
_WEIGHTS_FOLDER: Final = "models"
"""In the data folder: the windows learned from providers, and downloaded weights."""


class ProviderConnection(msgspec.Struct, frozen=True):
    """A provider with its window and token counter.

    `supports_tools` is False for a model that gets no tools. `max_output_tokens` is the output limit of a request; 0 is
    the default of the dialect. `model_overrides` are the models of the configuration, which override the catalog.
    `compacts`: the provider may be asked for a block in place of messages, and gets the header for it.
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
    windows_folder: TextFolder | None = None
    compacts: bool = False

    def learn_window(self, error: ProviderError) -> ResolvedWindow | None:
        """Learn the window from an error, store it, and return it; None if the error does not tell it."""
        if self.window_resolver is None or not self.window_resolver.learn(error):
            return None
        self.save_windows()
        return self.window_resolver.window

    def confirm_tokens(self, tokens: int) -> ResolvedWindow | None:
        """Raise a learned window below `tokens`, which the provider accepted, and return it; else None."""
        if self.window_resolver is None or not self.window_resolver.confirm_tokens(tokens):
            return None
        self.save_windows()
        return self.window_resolver.window

    def save_windows(self) -> None:
        if self.learned_windows is not None and self.windows_folder is not None:
            with suppress(TidegateError):  # it will be learned again
                self.windows_folder.write(WINDOWS_FILE, msgspec.json.encode(self.learned_windows.to_records()).decode())


async def connect_provider(
    config: ResolvedConfig,
    agent_model: AgentModel,
    environment: Mapping[str, str],
    data: FolderContents | None,
    *,
    stack: AsyncExitStack,
    window: int | None = None,
    provider: Provider | None = None,
) -> ProviderConnection:
    """Connect to the provider of the model, which is closed with `stack`; a given `provider` stays open.

    `window` is the configured window. `data` has the learned windows, and weights that were downloaded.
    """
    windows_folder, form = data.state_folder if data else None, None
    prices = build_model_overrides(config)
    target = resolve_target(agent_model, config.settings.providers, environment)
    if target.is_embedded and provider is None:
        return _connect_embedded(agent_model, environment, data.root if data else None, window, prices, stack)
    if provider is None and target.plugin is not None:
        _check_price(config, agent_model, target, prices, environment)
        provider = open_plugin_provider(target.plugin, target)
        stack.push_async_callback(provider.close)
    if provider is None:
        check_key(target)
        _check_price(config, agent_model, target, prices, environment)
        form = _find_compaction(config, target)
        provider = _open_http_provider(target, target.headers if form is None else form.add_beta(target.headers))
        stack.push_async_callback(provider.close)
        window = await _load_model(target, window, prices) or window
        resolver = _create_window_resolver(
            target, window, prices, learned_windows := _load_learned_windows(windows_folder)
        )
        resolved_window = await resolver.query_server()
    else:
        target = msgspec.structs.replace(target, model=provider.model, wire=provider.wire)
        resolver = _create_window_resolver(target, window, prices, learned_windows := LearnedWindows())
        resolved_window = resolver.window
    model_info = find_model(provider.model, prices)
    most = model_info.max_output if model_info is not None else None
    output_setting = agent_model.max_output or 0
    connection = ProviderConnection(
        provider,
        resolved_window,
        create_counter(provider.model),
        max_output_tokens=min(output_setting, most) if most and output_setting else output_setting,
        model_overrides=prices,
        window_resolver=resolver,
        learned_windows=learned_windows,
        windows_folder=windows_folder,
        compacts=form is not None,
    )
    if resolver.forgotten_notice:
        connection.save_windows()
    return connection


def _open_http_provider(target: ProviderTarget, headers: Mapping[str, str]) -> HttpProvider:
    return HttpProvider(
        target.wire,
        target.model,
        base_url=target.base_url,
        key=target.api_key,
        headers=headers,
        limits=ProviderLimits(total_seconds=target.timeout) if target.timeout else None,
        marks=None if is_hosted_service(target.base_url) else ControlTokenEscaper(),
    )


def _find_compaction(config: ResolvedConfig, target: ProviderTarget) -> CompactionForm | None:
    """How the provider is asked for a block in place of messages, if the configuration wants that and it can."""
    form = get_dialect(target.wire).find_compaction(target.model)
    is_wanted = config.settings.execution.state_notes == COMPACTION_NOTES
    return form if form and is_wanted and form.is_served(urlsplit(target.base_url).hostname or "") else None


def _connect_embedded(
    agent_model: AgentModel,
    environment: Mapping[str, str],
    folder: Path | None,
    window: int | None,
    prices: Mapping[str, ModelInfo],
    stack: AsyncExitStack,
) -> ProviderConnection:
    weights_folder = folder / _WEIGHTS_FOLDER if folder is not None else None
    model = EmbeddedProvider(
        agent_model.model,
        window=window,
        max_output=agent_model.max_output,
        folder=weights_folder,
        environment=environment,
    )
    stack.push_async_callback(model.close)
    free = {model.model.lower(): ModelInfo(model.window, model.max_output, (TokenRates(0.0, 0.0),), images=False)}
    explanation = f"{model.model} runs on this machine with a window of {model.window:,} tokens."
    return ProviderConnection(
        model,
        ResolvedWindow(model.window, "setting" if window else "server", explanation),
        model.counter,
        supports_tools=model.supports_tools,
        max_output_tokens=model.max_output,
        is_embedded=True,
        model_overrides={**prices, **free},
    )


async def _load_model(target: ProviderTarget, window: int | None, prices: Mapping[str, ModelInfo]) -> int | None:
    """Have the server load the model with the window that is set. Return the window, if it is smaller."""
    own = find_entry(target.model, prices)
    target_window = window or (own.window if own else None)
    if not target.loads_models or not target_window:
        return None
    loaded = await load_with_window(
        target.model,
        target_window,
        wire=target.wire,
        base_url=target.base_url,
        key=target.api_key,
        headers=target.headers,
    )
    return min(target_window, loaded.tokens) if loaded is not None and loaded.tokens else None


def _create_window_resolver(
    target: ProviderTarget, window: int | None, prices: Mapping[str, ModelInfo], learned_windows: LearnedWindows
) -> WindowResolver:
    return WindowResolver(
        target.model,
        setting=window,
        wire=target.wire,
        base_url=target.base_url,
        key=target.api_key,
        headers=target.headers,
        overrides=prices,
        learned_windows=learned_windows,
    )


def _load_learned_windows(folder: TextFolder | None) -> LearnedWindows:
    """Load the learned windows. If the file cannot be read, they will be learned again."""
    if folder is None:
        return LearnedWindows()
    try:
        text = folder.read(WINDOWS_FILE)
        return LearnedWindows(msgspec.json.decode(text, type=list[LearnedWindow]) if text else ())
    except (TidegateError, msgspec.MsgspecError):
        return LearnedWindows()


def check_key(target: ProviderTarget) -> None:
    """Require an API key, unless the base URL is a custom one: such a server may not need a key."""
    provider = KNOWN_PROVIDERS.get(target.provider)
    if provider is None or not provider.key_env or target.api_key or target.base_url_source != "default":
        return
    raise BadInput(
        f"There is no key for {target.provider}.",
        f"Set ${provider.key_env} and start again, or set config.api_key of the model.",
    )


def _check_price(
    config: ResolvedConfig,
    agent_model: AgentModel,
    target: ProviderTarget,
    prices: Mapping[str, ModelInfo],
    environment: Mapping[str, str],
) -> None:
    """Refuse a model without a known price if dollars are capped: of a provider that the user marked as paid, and of a
    hosted one if a project's file chose the model and the user's own file has the cap.

    A price that only a project's file gives does not count at a provider that is marked as paid.
    """
    limits = config.user_limits
    own = prices if limits is None else _build_model_infos(config, limits.user_settings)
    if (
        not _has_price(target.model, own)
        and has_dollar_cap(config.settings)
        and _is_marked_as_paid(config, target, environment)
    ):
        raise BadInput(
            f"The price of {target.model} is not known, so the cap in dollars would have no effect, and the provider"
            f" {target.provider} is paid.",
            "Give its prices under models in your own file, or choose another model.",
        )
    if (
        limits is None
        or _has_price(target.model, prices)
        or not is_hosted_service(target.base_url)
        or not has_dollar_cap(limits.user_settings)
    ):
        return
    path = f"agents.{config.agent.id}.model" if agent_model is config.agent.model else "context.summary_model"
    source = config.sources.get(f"{path}.model", "")
    if source.startswith(f"{limits.project_file}:"):
        raise BadInput(
            f"{source}: the price of {target.model} is not known, so your own file's cap in dollars has no effect.",
            "Give its prices under models in your own file, or choose it yourself with --model.",
        )


def _has_price(model: str, models: Mapping[str, ModelInfo]) -> bool:
    model_info = find_model(model, models)
    return model_info is not None and bool(model_info.prices)


def _is_marked_as_paid(config: ResolvedConfig, target: ProviderTarget, environment: Mapping[str, str]) -> bool:
    """Return whether the provider is marked as paid, or another one with the same address is."""
    providers = config.settings.providers
    paid_providers = [name for name, each in providers.items() if each.paid]
    addresses = [resolve_target(AgentModel(name), providers, environment).base_url for name in paid_providers]
    return target.provider in paid_providers or _find_server(target.base_url) in map(
        _find_server, filter(None, addresses)
    )


def _find_server(base_url: str) -> tuple[str, int]:
    """The host and port of an address. All names of this machine are the same."""
    parts = urlsplit(base_url)
    host = (parts.hostname or "").rstrip(".")
    is_local = (
        host == "localhost" or host.endswith(".localhost") or host.startswith("127.") or host in ("::1", "0.0.0.0")
    )
    return "localhost" if is_local else host, parts.port or (443 if parts.scheme == "https" else 80)


def find_provider_keys(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the providers whose keys are in the environment, with the names of the variables."""
    return {
        name: each.key_env for name, each in KNOWN_PROVIDERS.items() if each.key_env and environment.get(each.key_env)
    }


def build_model_overrides(config: ResolvedConfig) -> dict[str, ModelInfo]:
    """Return the models of the configuration. The catalog gives what they leave out.

    Prices of a project's file are never below those of the user's own file. If that file caps dollars, they are not
    below those of the catalog either: otherwise a project could evade the cap with low prices.
    """
    models = _build_model_infos(config, config.settings)
    if config.user_limits is None:
        return models
    own = _build_model_infos(config, config.user_limits.user_settings)
    capped = has_dollar_cap(config.user_limits.user_settings)
    return {
        name: _limit_model_info(name, model, find_entry(name, own) or ModelInfo(), capped)
        for name, model in models.items()
    }


def _build_model_infos(config: ResolvedConfig, settings: FileSettings) -> dict[str, ModelInfo]:
    return {name.strip().lower(): _build_model_info(config, name, each) for name, each in settings.models.items()}


def _limit_model_info(name: str, model: ModelInfo, own: ModelInfo, capped: bool) -> ModelInfo:
    """Return the model with prices at least as high, and limits at most as high, as in the user's own file."""
    catalog_info = find_model(name) if capped and not own.prices else None
    return ModelInfo(
        _smallest(model.window, own.window),
        _smallest(model.max_output, own.max_output),
        take_dearer(model.prices, catalog_info.prices if catalog_info is not None else own.prices),
        model.images if own.images is None else own.images,
        model.cache_lifetime if own.cache_lifetime is None else own.cache_lifetime,
    )


def _smallest(*sizes: int | None) -> int | None:
    return min((size for size in sizes if size is not None), default=None)


def has_dollar_cap(settings: FileSettings) -> bool:
    return settings.spend.session.dollars is not None or settings.spend.day.dollars is not None


def _build_model_info(config: ResolvedConfig, name: str, own: ModelSettings) -> ModelInfo:
    own_prices = (own.input, own.output, own.cache_read, own.cache_write)
    if all(each is None for each in own_prices):
        return ModelInfo(own.window, own.max_output, images=own.images, cache_lifetime=own.cache_lifetime)
    model = find_model(name)
    rates = model.prices[0] if model is not None and model.prices else None
    read = own.input if own.input is not None else rates.input if rates else None
    output = own.output if own.output is not None else rates.output if rates else None
    if read is None or output is None:
        raise BadPolicy(
            f"{config.sources.get(f'models.{name}', f'models.{name}')}: only one of two prices is given.",
            "Give input and output, in dollars per million tokens.",
        )
    cached = own.cache_read if own.cache_read is not None or rates is None else rates.cached
    cache_write = own.cache_write if own.cache_write is not None or rates is None else rates.written
    prices = (TokenRates(read, output, cached, cache_write),)
    return ModelInfo(own.window, own.max_output, prices, own.images, own.cache_lifetime)
