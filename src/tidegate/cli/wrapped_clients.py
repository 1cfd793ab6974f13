"""The clients that `tidegate wrap` can start: how each is pointed at a gateway without editing the user's files."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

if TYPE_CHECKING:  # loaded when the command runs
    from tidegate.gateway.settings import Family


class WrappedClient(NamedTuple):
    """A client. `{url}` in its settings is the gateway's address, `{token}` the gateway's token, and `{file}` the
    temporary file with `file_text`.

    `environment`: variables to set. `header_variable`: a variable with headers to send, and what separates them; the
    token is added to them. `json_environment`: a variable with a JSON configuration, into which this is merged.
    `sends_token`: the settings make the client send the token in a header; else it is a part of the address.
    `sends_tools`: the requests of its conversation have tools, and those beside it have none.
    `arguments` are put before the user's own. `file_name`: a temporary file that the arguments name.
    `upstream_variables`: variables with the address that the user's client would use; the gateway forwards to it.
    `session_prefix`: how the gateway names the client's sessions, if the client sends ids; `resume` makes the client
    continue the session `{id}`. `settings_option`: the option that names a file with settings, which win over the
    user's. `by_hand` is what to do without `wrap` where variables are not enough.
    """

    program: str
    title: str
    install: str
    environment: Mapping[str, str] = {}
    header_variable: tuple[str, str] | None = None
    sends_token: bool = True
    sends_tools: bool = True
    json_environment: Mapping[str, Mapping[str, Any]] = {}
    arguments: Sequence[str] = ()
    file_name: str = ""
    file_text: str = ""
    upstream_variables: Mapping[str, "Family"] = {}
    session_prefix: str = ""
    resume: Sequence[str] = ()
    settings_option: str = ""
    by_hand: str = ""


class ClientSetup(NamedTuple):
    """A client for one gateway: the variables to set, the arguments before the user's own, and the files to write.

    `links` are symbolic links to make, with their targets.
    """

    environment: dict[str, str]
    arguments: list[str]
    files: dict[Path, str]
    links: Mapping[Path, Path] = MappingProxyType({})


TOKEN_HEADER: Final = "x-tidegate-token"
TOKEN_VARIABLE: Final = "TIDEGATE_GATEWAY_TOKEN"
_OPENCODE_PROVIDERS: Final[Mapping[str, Any]] = {
    "provider": {
        "anthropic": {"options": {"baseURL": "{url}/anthropic/v1", "headers": {TOKEN_HEADER: "{token}"}}},
        "openai": {"options": {"baseURL": "{url}/openai/v1", "headers": {TOKEN_HEADER: "{token}"}}},
        "google": {"options": {"baseURL": "{url}/gemini/v1beta", "headers": {TOKEN_HEADER: "{token}"}}},
    }
}
_PI_EXTENSION: Final = """\
export default function (pi) {
  const headers = { "x-tidegate-token": "{token}" };
  pi.registerProvider("anthropic", { baseUrl: "{url}/anthropic", headers });
  pi.registerProvider("openai", { baseUrl: "{url}/openai/v1", headers });
  pi.registerProvider("google", { baseUrl: "{url}/gemini/v1beta", headers });
}
"""
_GEMINI_KEY_SETTINGS: Final = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
_CODEX_PROVIDER: Final = (
    'model_providers.tidegate={name="tidegate",base_url="{url}/v1",wire_api="responses",{codex_key},'
    f'env_http_headers={{"{TOKEN_HEADER}"="{TOKEN_VARIABLE}"}}}}'
)
"""Other users of this machine see the arguments of a process, but not its environment."""

CLIENTS: Final[Mapping[str, WrappedClient]] = MappingProxyType(
    {
        "claude": WrappedClient(
            program="claude",
            title="Claude Code",
            install="npm install -g @anthropic-ai/claude-code",
            environment={"ANTHROPIC_BASE_URL": "{url}"},
            header_variable=("ANTHROPIC_CUSTOM_HEADERS", "\n"),
            upstream_variables={"ANTHROPIC_BASE_URL": "anthropic"},
            session_prefix="claude-",
            resume=("--resume", "{id}"),
            settings_option="--settings",
        ),
        "codex": WrappedClient(
            program="codex",
            title="Codex",
            install="npm install -g @openai/codex",
            environment={TOKEN_VARIABLE: "{token}"},
            arguments=("-c", 'model_provider="tidegate"', "-c", _CODEX_PROVIDER),
            upstream_variables={"OPENAI_BASE_URL": "openai"},
            session_prefix="codex-",
            resume=("resume", "{id}"),
        ),
        "opencode": WrappedClient(
            program="opencode",
            title="OpenCode",
            install="npm install -g opencode-ai",
            json_environment={"OPENCODE_CONFIG_CONTENT": _OPENCODE_PROVIDERS},
            session_prefix="opencode-",
            resume=("--session", "{id}"),
        ),
        "gemini": WrappedClient(
            program="gemini",
            title="Gemini CLI",
            install="npm install -g @google/gemini-cli",
            environment={"GOOGLE_GEMINI_BASE_URL": "{url}"},
            header_variable=("GEMINI_CLI_CUSTOM_HEADERS", ", "),
            by_hand=f"with an API key also, in ~/.gemini/settings.json: {json.dumps(_GEMINI_KEY_SETTINGS)}",
            upstream_variables={"GOOGLE_GEMINI_BASE_URL": "gemini"},
        ),
        "pi": WrappedClient(
            program="pi",
            title="pi",
            install="npm install -g @mariozechner/pi-coding-agent",
            arguments=("--extension", "{file}"),
            file_name="tidegate.js",
            file_text=_PI_EXTENSION,
            by_hand='in ~/.pi/agent/models.json: {"providers": {"anthropic": {"baseUrl": "{url}/anthropic"}}}',
        ),
        "qwen": WrappedClient(
            program="qwen",
            title="Qwen Code",
            install="npm install -g @qwen-code/qwen-code",
            environment={"OPENAI_BASE_URL": "{url}/v1"},
            sends_token=False,
            upstream_variables={"OPENAI_BASE_URL": "openai"},
        ),
        "aider": WrappedClient(
            program="aider",
            title="aider",
            install="python -m pip install aider-chat",
            environment={
                "OPENAI_API_BASE": "{url}/openai/v1",
                "AIDER_OPENAI_API_BASE": "{url}/openai/v1",
                "ANTHROPIC_API_BASE": "{url}/anthropic",
            },
            upstream_variables={"OPENAI_API_BASE": "openai", "ANTHROPIC_API_BASE": "anthropic"},
            sends_token=False,
            sends_tools=False,
        ),
    }
)


def find_user_upstreams(client: WrappedClient, environment: Mapping[str, str]) -> dict[str, str]:
    """The addresses that the user's environment gives the client, by the gateway's name for the upstream."""
    urls = {family: environment.get(name, "") for name, family in client.upstream_variables.items()}
    return {name: url for name, url in urls.items() if url}


def make_client_setup(
    client: WrappedClient,
    url: str,
    environment: Mapping[str, str],
    folder: Path = Path(),
    *,
    token: str = "",
    session: str = "",
    overrides_settings: bool = False,
) -> ClientSetup:
    """What points the client at the gateway with this address and token. `folder` is for temporary files.

    `overrides_settings`: the user's settings for the client have these variables, too, and would win.
    """
    file = folder / client.file_name
    if token and not client.sends_token:
        url = f"{url}/k/{token}"
    if session:
        url = f"{url}/s/{quote(session, safe='')}"
    values = {
        "{url}": url,
        "{token}": token,
        "{file}": str(file),
        "{codex_key}": _describe_codex_key(environment),
    }

    def fill(text: str) -> str:
        for name, value in values.items():
            text = text.replace(name, value)
        return text

    variables = {name: fill(text) for name, text in client.environment.items()}
    if token and client.header_variable is not None:
        name, separator = client.header_variable
        variables[name] = separator.join(filter(None, [environment.get(name, ""), f"{TOKEN_HEADER}: {token}"]))
    for name, settings in client.json_environment.items():
        own = json.loads(environment.get(name) or "{}")
        own_settings = json.loads(fill(json.dumps(settings)))
        variables[name] = json.dumps(_merge(own, own_settings if token else _without_headers(own_settings)))
    if overrides_settings and client.settings_option:
        settings_file = folder / "settings.json"
        arguments = [client.settings_option, str(settings_file)]
        return ClientSetup(variables, arguments, {settings_file: json.dumps({"env": variables})})
    setup = ClientSetup(
        variables, [fill(each) for each in client.arguments], {file: fill(client.file_text)} if client.file_name else {}
    )
    return _choose_gemini_key(setup, environment, folder) if client.program == "gemini" else setup


def _without_headers(settings: Any) -> Any:
    if not isinstance(settings, dict):
        return settings
    return {name: _without_headers(value) for name, value in settings.items() if name != "headers"}


def _choose_gemini_key(setup: ClientSetup, environment: Mapping[str, str], folder: Path) -> ClientSetup:
    """Make Gemini CLI use the key in the environment if the user's settings choose no authentication.

    With a base URL, it would else choose one that it then refuses. No variable and no argument says it, so the client
    gets a temporary home folder: the user's settings with this choice, and links to the user's other files.
    """
    home = Path(environment.get("GEMINI_CLI_HOME") or environment.get("HOME") or Path.home()) / ".gemini"
    try:
        own = json.loads((home / "settings.json").read_bytes())
    except FileNotFoundError:
        own = {}
    except (OSError, ValueError):  # with comments, for example; the client reports what it cannot read
        return setup
    settings = _merge(_GEMINI_KEY_SETTINGS, own)
    if settings == own or not environment.get("GEMINI_API_KEY"):
        return setup
    others = [path for path in home.iterdir() if path.name != "settings.json"] if home.is_dir() else []
    return ClientSetup(
        {**setup.environment, "GEMINI_CLI_HOME": str(folder)},
        setup.arguments,
        {folder / ".gemini" / "settings.json": json.dumps(settings)},
        {folder / ".gemini" / path.name: path for path in others},
    )


def _describe_codex_key(environment: Mapping[str, str]) -> str:
    """Codex uses its own login if it has one, else the key in the environment."""
    home = Path(environment.get("CODEX_HOME") or Path(environment.get("HOME") or Path.home()) / ".codex")
    if environment.get("OPENAI_API_KEY") and not os.path.exists(home / "auth.json"):
        return 'env_key="OPENAI_API_KEY"'
    return "requires_openai_auth=true"


def _merge(one: Any, other: Any) -> Any:
    if isinstance(one, dict) and isinstance(other, dict):
        return one | {key: _merge(one.get(key), value) for key, value in other.items()}
    return other


def make_resume_arguments(client: WrappedClient, session: str, own_id: str = "") -> list[str]:
    """The arguments with which the client continues this session; none if it had no conversation in it.

    `own_id` is the client's own name of its conversation, if the session has another name.
    """
    is_own = client.session_prefix and session.startswith(client.session_prefix)
    ident = own_id or (session.removeprefix(client.session_prefix) if is_own else "")
    return [each.replace("{id}", ident) for each in client.resume] if ident else []
