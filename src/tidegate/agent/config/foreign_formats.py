"""The configuration files of other agents: how each is recognized, and which tidegate setting each of its keys becomes.

A format converts a file to entries: a key of the file, the setting of `tidegate.yaml` it becomes, and the value. Keys
without an entry have no equivalent. API keys are never values: an entry names the environment variable instead.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from tidegate.agent.config.provider_target import KNOWN_PROVIDERS, guess_provider
from tidegate.agent.config.settings import EARLIER_KEYS
from tidegate.presets import find_preset_of_setting

Json = Mapping[str, Any]
AGENT_ID: Final = "assistant"
_MODEL: Final = ("agents", AGENT_ID, "model")
_POLICY_SETTINGS: Final = ("policy", "settings")
_PROVIDER_BY_NAME: Final = {"open_ai": "openai", "claude": "anthropic", "google": "gemini", "google_genai": "gemini"}
"""Names that other systems have for a provider."""


class ForeignEntry(NamedTuple):
    """A key of the file (its path), the path of the tidegate setting, and its value there."""

    key: tuple[str, ...]
    setting: tuple[str, ...]
    value: object


class ForeignFormat(NamedTuple):
    """The file of one system. `keys` are paths of which a file of this system has at least one.

    `setting` is one that only the preset of this system has. `is_native`: its keys are those of `tidegate.yaml`.
    """

    system: str
    setting: str
    keys: tuple[tuple[str, ...], ...]
    list_entries: Callable[[Json], Iterator[ForeignEntry]]
    is_native: bool = False

    @property
    def preset(self) -> str:
        """The preset that follows the description of the system."""
        return find_preset_of_setting(self.setting)


def recognize_format(values: object) -> ForeignFormat | None:
    """Return the format of a parsed file; None if it is of no known system."""
    if not isinstance(values, dict):
        return None
    return next((each for each in FOREIGN_FORMATS if any(get_path(values, key) is not None for key in each.keys)), None)


def get_path(values: object, path: tuple[str, ...]) -> Any:
    """Return the value at a path of keys, or None."""
    for key in path:
        values = values.get(key) if isinstance(values, dict) else None
    return values


# --- what the formats share -----------------------------------------------------------------------------------------


def _take(values: Json, prefix: tuple[str, ...], names: Mapping[str, tuple[str, ...]]) -> Iterator[ForeignEntry]:
    """Yield the keys of the mapping at `prefix` that become a setting. Spelling is ignored: maxTokens is max_tokens."""
    settings = {_fold(name): setting for name, setting in names.items()}
    path = get_path(values, prefix)
    for key, value in path.items() if isinstance(path, dict) else ():
        setting = settings.get(_fold(key))
        if setting is not None and value is not None:
            yield ForeignEntry((*prefix, key), setting, value)


def _fold(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _name_provider(name: str) -> str:
    return _PROVIDER_BY_NAME.get(name, name)


def _name_key_variable(provider: str) -> str:
    defaults = KNOWN_PROVIDERS.get(provider)
    return defaults.key_env if defaults is not None and defaults.key_env else _name_variable(provider, "API_KEY")


def _name_variable(*words: str) -> str:
    name = re.sub("[^A-Z0-9]+", "_", "_".join(words).upper()).strip("_")
    return f"_{name}" if name[:1].isdigit() else name


def _take_model(key: tuple[str, ...], text: object, separator: str, provider: str = "") -> Iterator[ForeignEntry]:
    """Yield provider and name of a model. The provider is given, or before the separator, or known from the name."""
    if not isinstance(text, str) or not text.strip():
        return
    prefix, separator_text, name = text.partition(separator) if separator else ("", "", text)
    if not separator_text or (provider and _name_provider(prefix) != provider):
        prefix, name = provider or guess_provider(text), text
    if prefix:
        yield ForeignEntry(key, (*_MODEL, "provider"), _name_provider(prefix))
    yield ForeignEntry(key, (*_MODEL, "model"), name)


def _take_address(
    key: tuple[str, ...], provider: str, values: Json, url_key: str, secret_key: str
) -> Iterator[ForeignEntry]:
    """Yield the address of a provider, and the variable for its key in place of the key."""
    url, secret = values.get(url_key), values.get(secret_key)
    if isinstance(url, str) and url:
        yield ForeignEntry((*key, url_key), ("providers", provider, "base_url"), url)
    if secret and ((isinstance(url, str) and url) or provider not in KNOWN_PROVIDERS):
        yield ForeignEntry((*key, secret_key), ("providers", provider, "key_env"), _name_key_variable(provider))


def _take_servers(prefix: tuple[str, ...], servers: object) -> Iterator[ForeignEntry]:
    """Yield MCP servers. Values of `env` and `headers` become variables, because they may be secret."""
    for name, server in servers.items() if isinstance(servers, dict) else ():
        if not isinstance(server, dict) or server.get("enabled") is False:
            continue
        for key in ("command", "args", "url"):
            if server.get(key):
                yield ForeignEntry((*prefix, name, key), ("mcp", name, key), server[key])
        for key in ("env", "headers"):
            variables = server.get(key)
            for variable in variables if isinstance(variables, dict) else ():
                source = variable if key == "env" else _name_variable(name, variable)
                value = f"{{{{env.{source}}}}}"
                yield ForeignEntry((*prefix, name, key, variable), ("mcp", name, key, variable), value)


# --- the formats ----------------------------------------------------------------------------------------------------


def _list_cowagent_entries(values: Json) -> Iterator[ForeignEntry]:
    settings = ("max_context_tokens", "max_context_turns", "max_steps")
    yield from _take(values, (), {f"agent_{name}": (*_POLICY_SETTINGS, name) for name in settings})
    yield from _take_model(("model",), values.get("model"), "")
    yield from _take(
        values,
        (),
        {"temperature": (*_MODEL, "temperature"), "character_desc": ("agents", AGENT_ID, "system_prompt")},
    )
    for key in values:
        if key.endswith("_api_base"):
            name = key.removesuffix("_api_base")
            yield from _take_address((), _name_provider(name), values, key, f"{name}_api_key")


def _list_picoclaw_entries(values: Json) -> Iterator[ForeignEntry]:
    defaults = ("agents", "defaults")
    section = get_path(values, defaults) or {}
    names = {
        "max_tokens": (*_POLICY_SETTINGS, "max_tokens"),
        "context_window": (*_POLICY_SETTINGS, "context_window"),
        "summarize_message_threshold": (*_POLICY_SETTINGS, "message_threshold"),
        "max_tool_iterations": ("execution", "max_steps"),
        "temperature": (*_MODEL, "temperature"),
    }
    yield from _take(values, defaults, names)
    share = section.get("summarize_token_percent")
    if isinstance(share, int | float):
        yield ForeignEntry(
            (*defaults, "summarize_token_percent"), (*_POLICY_SETTINGS, "token_percent"), round(share / 100, 4)
        )
    for key in ("summarize_message_threshold", "summarize_token_percent"):
        if key in section:  # they are thresholds of summaries in the background
            yield ForeignEntry((*defaults, key), (*_POLICY_SETTINGS, "background"), True)
    model_key = next((key for key in ("model_name", "model") if section.get(key)), "")
    listed, model_name = values.get("model_list"), section.get(model_key)
    entries = listed if isinstance(listed, list) else []
    model_entry = next(
        (each for each in entries if isinstance(each, dict) and each.get("model_name") == model_name), None
    )
    if model_entry is not None and isinstance(model_entry.get("model"), str):
        yield from _take_model((*defaults, model_key), model_entry["model"], "/")
        provider = _name_provider(model_entry["model"].partition("/")[0])
        for each in _take_address(("model_list",), provider, model_entry, "api_base", "api_key"):
            yield each._replace(key=("model_list",))
    elif model_key:
        yield from _take_model((*defaults, model_key), model_name, "/", _name_provider(section.get("provider") or ""))
    providers = values.get("providers")
    for name, provider in providers.items() if isinstance(providers, dict) else ():
        if isinstance(provider, dict):
            yield from _take_address(("providers", name), _name_provider(name), provider, "api_base", "api_key")
    servers = ("tools", "mcp", "servers")
    yield from _take_servers(servers, get_path(values, servers))


def _list_jutul_entries(values: Json) -> Iterator[ForeignEntry]:
    yield from _take_model(("model",), values.get("model"), ":")
    verdict = {"ask": "ask", "workspace": "auto"}.get(str(values.get("approval_mode")))
    if verdict:  # "auto" approves everything, which only the user may allow
        yield ForeignEntry(("approval_mode",), ("capabilities", "default_policy"), verdict)


def _list_ai_entries(values: Json) -> Iterator[ForeignEntry]:
    settings = (
        "max_messages max_tokens keep_recent keep_recent_tokens reserve_tokens tool_call_cutoff tool_summary_strategy"
        " auto_compact".split()
    )
    names = {name: (*_POLICY_SETTINGS, name) for name in settings}
    yield from _take(values, ("compactor",), names)
    if get_path(values, ("compactor",)) is None:
        yield from _take(values, (), names)
    limits = ("max_lines", "max_bytes", "max_chars", "large_output_threshold", "truncate_mode")
    for each in _take(values, ("toolOutput",), {name: (*_POLICY_SETTINGS, name) for name in limits}):
        yield each._replace(value="head_tail") if each.value == "middle" else each
    model = values.get("model")
    if isinstance(model, dict) and isinstance(model.get("id"), str):
        provider = _name_provider(str(model.get("provider") or ""))
        yield from _take_model(("model", "id"), model["id"], "", provider)
        if provider:
            yield from _take_address(("model",), provider, model, "baseUrl", "")
            if provider not in KNOWN_PROVIDERS:
                variable = _name_key_variable(provider)
                yield ForeignEntry(("model", "provider"), ("providers", provider, "key_env"), variable)


def _list_digitorn_entries(values: Json) -> Iterator[ForeignEntry]:
    """Its file is a `tidegate.yaml`: each value keeps its place. Agents are a list, whose items have ids."""
    for entry in _list_leaves(values, ()):
        yield entry._replace(setting=tuple(EARLIER_KEYS.get(key, key) for key in entry.setting))


def _list_leaves(value: object, path: tuple[str, ...]) -> Iterator[ForeignEntry]:
    """Yield the values of nested mappings. API keys are left out unless they are taken from the environment."""
    if isinstance(value, dict) and value:
        for key, each in value.items():
            yield from _list_leaves(each, (*path, str(key)))
    elif isinstance(value, list) and value and all(isinstance(each, dict) and "id" in each for each in value):
        for each in value:
            yield from _list_leaves({key: part for key, part in each.items() if key != "id"}, (*path, str(each["id"])))
    elif not _is_secret(path, value):
        yield ForeignEntry(path, path, value)
    elif path[-2:] == ("config", "api_key"):
        yield ForeignEntry(path, path, f"{{{{env.{_name_variable(*path[1:2], 'API_KEY')}}}}}")


def _is_secret(path: tuple[str, ...], value: object) -> bool:
    is_secret_name = (
        path[-1].lower() in ("api_key", "key", "token", "secret", "password") or "headers" in path or "env" in path
    )
    return is_secret_name and isinstance(value, str) and bool(value) and "{{env." not in value


FOREIGN_FORMATS: Final = (
    ForeignFormat(
        "CowAgent",
        "max_context_tokens",
        (
            *((f"agent_max_{name}",) for name in ("context_tokens", "context_turns", "steps")),
            *((name,) for name in ("channel_type", "bot_type", "open_ai_api_key", "character_desc", "use_linkai")),
        ),
        _list_cowagent_entries,
    ),
    ForeignFormat("PicoClaw", "context_window", (("agents", "defaults"), ("model_list",)), _list_picoclaw_entries),
    ForeignFormat(
        "jutul-agent",
        "evict_tokens",
        (("simulator",), ("approval_mode",), ("simulators",), ("julia",)),
        _list_jutul_entries,
    ),
    ForeignFormat(
        "ai agent",
        "tool_call_cutoff",
        (
            *(("compactor",), ("toolOutput",), ("KeepRecentTokens",), ("keepRecentTokens",), ("keep_recent_tokens",)),
            *(("ToolCallCutoff",), ("toolCallCutoff",), ("tool_call_cutoff",)),
        ),
        _list_ai_entries,
    ),
    ForeignFormat(
        "Digitorn",
        "compression_trigger",
        (("execution",), ("app", "app_id"), ("capabilities",)),
        _list_digitorn_entries,
        is_native=True,
    ),
)
