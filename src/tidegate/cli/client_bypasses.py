"""Settings with which a client does not send its requests through the gateway, found before it starts.

`tidegate wrap` sets variables and arguments. A client's own settings may win over these, or choose a provider that none
of them is for. The files are only read. What is found is a sentence about the cause and one about what to do.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from tidegate.core.text.clip import clip_chars
from tidegate.core.text.terminal_text import clean_line

_MAX_SHOWN_CHARS: Final = 200
_MAX_FILE_BYTES: Final = 1_000_000
_COMMENT: Final = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', re.DOTALL)
"""A string, which stays, or a comment or trailing comma of JSON with comments."""
_CLAUDE_ADDRESS: Final = "ANTHROPIC_BASE_URL"
_CLAUDE_HEADERS: Final = "ANTHROPIC_CUSTOM_HEADERS"
_CLAUDE_SWITCHES: Final = {
    "CLAUDE_CODE_USE_BEDROCK": "Amazon Bedrock",
    "CLAUDE_CODE_USE_VERTEX": "Google Vertex AI",
    "CLAUDE_CODE_USE_FOUNDRY": "Microsoft Foundry",
}
_CLAUDE_MANAGED: Final = (
    Path("/etc/claude-code/managed-settings.json"),
    Path("/Library/Application Support/ClaudeCode/managed-settings.json"),
)
_OPENCODE_PASSED: Final = ("anthropic", "openai", "google")
_PI_PASSED: Final = ("anthropic", "openai", "google")
_UPSTREAM_OF_PROVIDER: Final = {
    "anthropic": ("anthropic", "/v1"),
    "openai": ("openai", ""),
    "google": ("gemini", "/v1beta"),
}
"""The gateway's name for a provider of OpenCode and pi, and the end of its address that is part of the path there."""
_AIDER_PASSED: Final = ("anthropic", "openai")
_GOOGLE_LOGINS: Final = {
    "oauth-personal": "the login with Google",
    "cloud-shell": "Cloud Shell",
    "compute-default-credentials": "Cloud Shell",
    "vertex-ai": "Google Vertex AI",
}


class Bypass(NamedTuple):
    """Why requests of a client would not pass the gateway, and what to do."""

    cause: str
    remedy: str

    def __str__(self) -> str:
        line = clean_line(clip_chars(self.cause, _MAX_SHOWN_CHARS).text)
        return f"{line} These requests do not go through tidegate. {self.remedy}"


class ClientSituation(NamedTuple):
    """Where a client is started, and with which arguments."""

    environment: Mapping[str, str]
    workspace: Path
    arguments: Sequence[str] = ()

    @property
    def home(self) -> Path:
        return Path(self.environment.get("HOME") or Path.home())

    def find_option(self, *names: str) -> str:
        """The value of the last of these options among the arguments; "" without one."""
        option = ""
        for place, each in enumerate(self.arguments):
            name, equals, value = each.partition("=")
            if name in names:
                option = value if equals else next(iter(self.arguments[place + 1 : place + 2]), "")
        return option


def find_bypasses(program: str, at: ClientSituation) -> list[Bypass]:
    """Find what keeps the requests of a client from the gateway."""
    find = _FINDERS.get(program)
    return list(find(at)) if find else []


def read_settings_variables(program: str, at: ClientSituation) -> dict[str, str]:
    """The variables of Claude Code's own settings that would win over those of `wrap`.

    `wrap` can replace them by a file that it names with `--settings`, unless the user or the machine has one.
    """
    if program != "claude" or _settings_given(at) or _find_address(_read_managed(at)):
        return {}
    variables: dict[str, str] = {}
    for _, env in _read_claude_settings(at):
        variables = {name: env[name] for name in (_CLAUDE_ADDRESS, _CLAUDE_HEADERS) if env.get(name)} | variables
    return variables


def read_own_addresses(program: str, at: ClientSituation) -> dict[str, str]:
    """The addresses in the client's own settings that those of `wrap` replace, by the gateway's name for the upstream.

    The gateway forwards to them, as the client would: a key for a server of the user must not go to another one.
    """
    if program not in ("opencode", "pi"):
        return {}
    is_pi = program == "pi"
    address = ("baseUrl",) if is_pi else ("options", "baseURL")
    paths = [_find_pi_folder(at) / "models.json"] if is_pi else _list_opencode_settings(at)
    addresses: dict[str, str] = {}
    for path in paths:
        for provider, (upstream, version) in _UPSTREAM_OF_PROVIDER.items():
            url = _read_path(_read_json(path), "providers" if is_pi else "provider", provider, *address)
            if isinstance(url, str) and url.startswith(("http://", "https://")):
                addresses.setdefault(upstream, url.rstrip("/").removesuffix(version))
    return addresses


def _find_address(env: Mapping[str, str]) -> str:
    return env.get(_CLAUDE_ADDRESS, "")


def _settings_given(at: ClientSituation) -> bool:
    return any(each == "--settings" or each.startswith("--settings=") for each in at.arguments)


# --- clients ----------------------------------------------------------------------------------------------------------


def _find_claude_bypasses(at: ClientSituation) -> Iterator[Bypass]:
    managed = _read_managed(at)
    if _find_address(managed):
        yield Bypass(
            f"The managed settings of this machine set {_CLAUDE_ADDRESS} for Claude Code.",
            "Ask who manages them; `tidegate serve` can be what they name.",
        )
    environments = [("the managed settings", managed), *_read_claude_settings(at), ("the environment", at.environment)]
    for source, env in environments:
        for name, provider in _CLAUDE_SWITCHES.items():
            if env.get(name, "").lower() not in ("", "0", "false", "no", "off"):
                yield Bypass(
                    f"{name} in {source} makes Claude Code use {provider}.",
                    f"To use an Anthropic key or login, remove it there; see docs/gateway.md for {provider}.",
                )
    if _settings_given(at):
        for source, env in _read_claude_settings(at):
            if _find_address(env):
                yield Bypass(
                    f"{_CLAUDE_ADDRESS} in {source} wins over the gateway's address.",
                    "Remove it there, or leave out --settings, in which tidegate puts its own address.",
                )
                return


def _read_claude_settings(at: ClientSituation) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The variables in the settings files, that which wins first, with the name of the file."""
    own = Path(at.environment.get("CLAUDE_CONFIG_DIR") or at.home / ".claude")
    project = at.workspace / ".claude"
    for path in (project / "settings.local.json", project / "settings.json", own / "settings.json"):
        yield str(path), _read_variables(path)


def _read_managed(at: ClientSituation) -> Mapping[str, str]:
    return next((variables for path in _CLAUDE_MANAGED if (variables := _read_variables(path))), {})


def _read_variables(path: Path) -> Mapping[str, str]:
    env = _read_json(path).get("env")
    return {name: str(value) for name, value in env.items()} if isinstance(env, dict) else {}


def _find_opencode_bypasses(at: ClientSituation) -> Iterator[Bypass]:
    choice, source = at.find_option("-m", "--model"), "the arguments"
    for path in _list_opencode_settings(at) if not choice else ():
        model = _read_json(path).get("model")
        if isinstance(model, str):
            choice, source = model, str(path)
            break
    yield from _find_other_provider("OpenCode", choice, source, _OPENCODE_PASSED)


def _list_opencode_settings(at: ClientSituation) -> list[Path]:
    """The settings of OpenCode, that which wins first."""
    folder = Path(at.environment.get("XDG_CONFIG_HOME") or at.home / ".config") / "opencode"
    config_path = at.environment.get("OPENCODE_CONFIG", "")
    paths = [at.workspace / name for name in ("opencode.jsonc", "opencode.json")]
    paths += [Path(config_path)] if config_path else []
    return paths + [folder / name for name in ("opencode.jsonc", "opencode.json", "config.json")]


def _find_pi_folder(at: ClientSituation) -> Path:
    return Path(at.environment.get("PI_CODING_AGENT_DIR") or at.home / ".pi" / "agent")


def _find_pi_bypasses(at: ClientSituation) -> Iterator[Bypass]:
    provider, source = at.find_option("--provider"), "the arguments"
    model = at.find_option("--model")
    if not provider and "/" in model:
        provider = model.partition("/")[0]
    if not provider:
        for path in (at.workspace / ".pi" / "settings.json", _find_pi_folder(at) / "settings.json"):
            default_provider = _read_json(path).get("defaultProvider")
            if isinstance(default_provider, str):
                provider, source = default_provider, str(path)
                break
    yield from _find_other_provider("pi", f"{provider}/" if provider else "", source, _PI_PASSED)


def _find_aider_bypasses(at: ClientSituation) -> Iterator[Bypass]:
    yield from _find_other_provider("aider", at.find_option("--model"), "the arguments", _AIDER_PASSED)


def _find_other_provider(client: str, model: str, source: str, providers: Sequence[str]) -> Iterator[Bypass]:
    provider = model.partition("/")[0]
    if "/" in model and provider not in providers:
        yield Bypass(
            f"{client} uses the provider {provider}, which {source} {'name' if source.endswith('s') else 'names'}.",
            f"Choose a model of {' or '.join(providers)}. For an OpenAI-compatible server, name its address with"
            " --upstream openai=URL, and its model as openai/MODEL.",
        )


def _find_gemini_bypasses(at: ClientSituation) -> Iterator[Bypass]:
    for path in (at.workspace / ".gemini" / "settings.json", at.home / ".gemini" / "settings.json"):
        login = _read_auth_type(path)
        if login in _GOOGLE_LOGINS:
            yield Bypass(
                f"Gemini CLI uses {_GOOGLE_LOGINS[login]} ({path}).",
                "Set GEMINI_API_KEY, and choose the key with /auth.",
            )
            return
        if login:
            return
    for name, service in (("GOOGLE_GENAI_USE_VERTEXAI", "Google Vertex AI"), ("GOOGLE_GENAI_USE_GCA", "the login")):
        if at.environment.get(name, "").lower() == "true":
            yield Bypass(f"{name} makes Gemini CLI use {service}.", f"Start it without {name}, with GEMINI_API_KEY.")


def _find_qwen_bypasses(at: ClientSituation) -> Iterator[Bypass]:
    for path in (at.workspace / ".qwen" / "settings.json", at.home / ".qwen" / "settings.json"):
        login = _read_auth_type(path)
        if login == "qwen-oauth":
            yield Bypass(
                f"Qwen Code uses the login with Qwen ({path}).",
                "Set OPENAI_API_KEY and OPENAI_BASE_URL, and choose OpenAI with /auth.",
            )
        if login:
            return


def _read_auth_type(path: Path) -> str:
    auth_type = _read_path(_read_json(path), "security", "auth", "selectedType")
    return auth_type if isinstance(auth_type, str) else ""


def _read_path(value: Any, *names: str) -> object:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file, with comments or without; empty if there is none. The client reports a broken file."""
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_FILE_BYTES).decode("utf-8-sig")
        value = json.loads(_COMMENT.sub(lambda match: match[1] or "", text))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


_FINDERS: Final[Mapping[str, Callable[[ClientSituation], Iterator[Bypass]]]] = MappingProxyType(
    {
        "claude": _find_claude_bypasses,
        "opencode": _find_opencode_bypasses,
        "pi": _find_pi_bypasses,
        "gemini": _find_gemini_bypasses,
        "qwen": _find_qwen_bypasses,
        "aider": _find_aider_bypasses,
    }
)
