"""Resolves the model of a configuration to the target of its requests: address, key and dialect."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from tidegate.agent.config.settings import AgentModel, ProviderSettings
from tidegate.core.config.values import quote_value, suggest_name
from tidegate.core.errors import BadInput
from tidegate.core.text.secrets import SecretString
from tidegate.plugins import Plugin, find_plugin, list_plugins
from tidegate.wire.registry import DIALECTS, find_dialect_of_model, get_dialect, resolve_dialect

EMBEDDED_PROVIDER = "embedded"
_P = ProviderSettings
KNOWN_PROVIDERS: Final[Mapping[str, ProviderSettings]] = MappingProxyType(
    {
        EMBEDDED_PROVIDER: _P(wire="openai_chat"),
        **{
            dialect.vendor.name: _P("", dialect.vendor.key_variable, dialect.name)
            for dialect in DIALECTS.values()
            if dialect.vendor
        },
        "groq": _P("https://api.groq.com/openai/v1", "GROQ_API_KEY", "openai_chat"),
        "openrouter": _P("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", "openai_chat"),
        "together": _P("https://api.together.xyz/v1", "TOGETHER_API_KEY", "openai_chat"),
        "xai": _P("https://api.x.ai/v1", "XAI_API_KEY", "openai_chat"),
        "ollama": _P("http://localhost:11434/v1", "", "openai_chat"),
        "lmstudio": _P("http://localhost:1234/v1", "", "openai_chat", loads_models=True),
        "llamacpp": _P("http://localhost:8080/v1", "", "openai_chat"),
        "vllm": _P("http://localhost:8000/v1", "", "openai_chat"),
    }
)
_DIALECT_BY_BACKEND: Final[Mapping[str, str]] = MappingProxyType(
    {
        "openai": "openai_chat",
        "openai_responses": "openai_responses",
        "anthropic": "anthropic",
        "gemini": "gemini",
        EMBEDDED_PROVIDER: "openai_chat",
    }
)


def guess_provider(model: str) -> str:
    """Return the provider whose models are named like this; "" if the name does not say."""
    if model.endswith(".gguf"):
        return EMBEDDED_PROVIDER
    if model.lower().startswith(("gpt-", "o1", "o3", "o4", "chatgpt-")):
        return "openai"
    dialect = find_dialect_of_model(model)
    return "" if dialect is None or dialect.vendor is None else dialect.vendor.name


def is_path_of_weights(model: str) -> bool:
    """Whether a model without a provider is a file of weights, which the embedded model loads."""
    return re.search(r"[/\\]|\.gguf$", model) is not None


class ProviderTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The target of requests. An empty base URL is the dialect's default. The sources say where a value comes from.

    `plugin` is set if another package makes the provider.
    """

    provider: str
    model: str
    wire: str
    base_url: str = ""
    base_url_source: str = "default"
    api_key: str = SecretString("")
    key_source: str = "default"
    headers: dict[str, str] = {}
    timeout: float | None = None
    plugin: Plugin | None = None
    loads_models: bool = False

    @property
    def is_embedded(self) -> bool:
        return self.provider == EMBEDDED_PROVIDER


def base_url_variable(provider: str) -> str:
    """Return the name of the variable that overrides the base URL of a provider."""
    return f"TIDEGATE_{re.sub('[^A-Z0-9]', '_', provider.upper())}_BASE_URL"


def resolve_target(
    agent_model: AgentModel, providers: Mapping[str, ProviderSettings], environment: Mapping[str, str]
) -> ProviderTarget:
    """Resolve a model. The base URL of the environment wins over that of the model, and that over the provider's."""
    if agent_model.model and not agent_model.provider and not is_path_of_weights(agent_model.model):
        raise BadInput(
            f"The provider of the model {quote_value(agent_model.model)} is not known.",
            f"Set the model's provider, or choose a model with --model PROVIDER/MODEL; known providers:"
            f" {', '.join(KNOWN_PROVIDERS)}.",
        )
    name = agent_model.provider or EMBEDDED_PROVIDER
    declared, defaults = providers.get(name), KNOWN_PROVIDERS.get(name)
    variable = base_url_variable(name)
    address = environment.get(variable, "")
    plugin = find_plugin("provider", name) if declared is None and defaults is None else None
    if declared is None and defaults is None and plugin is None and not (address or agent_model.config.base_url):
        names = {*KNOWN_PROVIDERS, *providers, *(each.name for each in list_plugins("provider"))}
        raise BadInput(
            f"The provider {quote_value(name)} is not known and has no base URL.",
            f"{suggest_name(name, names)} Or set providers.{name}.base_url, or ${variable}.",
        )
    choices = (
        (address, f"${variable}"),
        (agent_model.config.base_url, "config.base_url"),
        (declared.base_url if declared else "", f"providers.{name}.base_url"),
        (defaults.base_url if defaults else "", "default"),
    )
    base_url, base_url_source = next((each for each in choices if each[0]), ("", "default"))
    key_env = (declared.key_env if declared else "") or (defaults.key_env if defaults else "")
    key, key_source = str(agent_model.config.api_key), "config.api_key"
    if not key and key_env:
        key, key_source = environment.get(key_env, ""), f"${key_env}"
    return ProviderTarget(
        provider=name,
        model=agent_model.model,
        wire=_choose_dialect(agent_model, declared, defaults),
        base_url=base_url,
        base_url_source=base_url_source,
        api_key=SecretString(key),
        key_source=key_source if key else "default",
        headers={**(declared.headers if declared else {}), **agent_model.config.headers},
        timeout=agent_model.timeout,
        plugin=plugin,
        loads_models=_loads_models(declared, defaults),
    )


def _loads_models(declared: ProviderSettings | None, defaults: ProviderSettings | None) -> bool:
    if declared is not None and declared.loads_models is not None:
        return declared.loads_models
    return defaults is not None and defaults.loads_models is True


def _choose_dialect(
    agent_model: AgentModel, declared: ProviderSettings | None, defaults: ProviderSettings | None
) -> str:
    """Return the dialect of the model's backend; for `openai_compat`, the provider's variant of it if there is one."""
    if agent_model.backend is not None and agent_model.backend != "openai_compat":
        return _DIALECT_BY_BACKEND[agent_model.backend]
    wire = (declared.wire if declared else None) or (defaults.wire if defaults else None)
    if agent_model.backend == "openai_compat":
        return wire if wire and get_dialect(wire).family == "openai_chat" else "openai_chat"
    return wire or resolve_dialect("", agent_model.model).name
