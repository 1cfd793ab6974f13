"""The settings in `tidegate.yaml`, as types. These declarations are the only list of its keys.

`files` finds and reads the files, `reader` reads them into these types and records the position of each value, and
`resolved_config` has the settings of one agent.
"""

from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec
from msgspec import Meta

from tidegate.agent.hook_types import Hook
from tidegate.agent.tools.approval import ApprovalVerdict
from tidegate.core.text.secrets import SecretString
from tidegate.wire.registry import DIALECTS

NonNegativeInt = Annotated[int, Meta(ge=0)]
PositiveInt = Annotated[int, Meta(ge=1)]
NonNegativeFloat = Annotated[float, Meta(ge=0)]
UnitInterval = Annotated[float, Meta(ge=0, le=1)]
ConfigName = Annotated[str, Meta(pattern=r"^[\w.-]{1,64}$")]
_Scalar = str | int | float | bool | None
UserRule = Annotated[str, Meta(min_length=1, max_length=500)]
VariableName = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]

if TYPE_CHECKING:
    DialectName = str
else:  # the file may name any dialect of the registry
    DialectName = Literal[tuple(DIALECTS)]
EARLIER_KEYS: Final = {"brain": "model", "summary_brain": "summary_model"}
"""Names of keys that are still accepted, and those that they have now."""
LISTS_WITH_IDS: Final = (("agents",), ("execution", "hooks"))
"""Lists whose items have an id, by which paths name them."""
BackendName = Literal["openai_compat", "openai", "openai_responses", "anthropic", "gemini", "embedded"]


class ModelAccess(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the provider of a model is reached. These values override those of `providers`."""

    api_key: SecretString = SecretString("")
    base_url: str = ""
    headers: dict[str, SecretString] = {}


class ContextSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the window is managed. `max_tokens` is the window (0: the model's). `summary_model` writes summaries."""

    max_tokens: NonNegativeInt = 0
    output_reserved: NonNegativeInt = 4096
    strategy: Literal["summarize", "truncate"] = "summarize"
    keep_recent: NonNegativeInt = 10
    compression_trigger: UnitInterval = 0.75
    summary_max_tokens: PositiveInt = 1024
    auto_compact: bool = True
    summary_model: "AgentModel | None" = None


class AgentModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model and its provider. `timeout` is the seconds for one reply. A null value means the provider's default."""

    provider: str = ""
    model: str = ""
    backend: BackendName | None = None
    config: ModelAccess = ModelAccess()
    context: ContextSettings | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: UnitInterval | None = None
    max_output: PositiveInt | None = None
    timeout: NonNegativeFloat | None = None


class AgentSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An agent. One with the role `specialist` or `worker` is a kind of subagent: only the tool `task` uses it.

    A subagent without a model uses that of the agent that calls it; `context.max_tokens` of its model is its window.
    `tools` lists the tools it may use: names, patterns or actions of modules, as under `capabilities`. Null allows all
    tools that the file offers. A subagent never has a tool that the agent which asked it does not have, and asks other
    subagents only if `task` is allowed.
    """

    id: ConfigName
    role: Literal["assistant", "coordinator", "specialist", "worker"] = "assistant"
    description: str = ""
    model: AgentModel = AgentModel()
    system_prompt: str = ""
    tools: tuple[str, ...] | None = None


class AppSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The program. `app_id` is the prefix of new session names; `name` is shown to the user."""

    app_id: ConfigName = "tidegate"
    name: str = ""
    description: str = ""


class ModuleConstraints(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which actions of a module are allowed; null allows every action."""

    allowed_actions: tuple[str, ...] | None = None
    denied_actions: tuple[str, ...] = ()


class ModuleSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A set of tools. A file that names modules offers the tools of these and no others."""

    constraints: ModuleConstraints = ModuleConstraints()


class ExecutionSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How turns run. `max_turns` limits the turns of a session (0: no limit), `max_steps` the tool calls of a turn, and
    `timeout` the seconds of a turn.

    In the mode `one_shot` the agent ends after one turn. `greeting` is shown to the user at the start of a session.
    With `state_notes` the model writes down the state of the work before a sweep, or the summaries of a policy that has
    its own, beside its calls (docs/state-notes.md). Without, `background` still prepares the summaries. With the value
    `compaction` (experimental) the provider writes the state as a block in place of the messages, where it can.

    `tool_mode` says how tools are shown to the model: `direct` with all definitions, `discovery` with categories and
    meta-tools to find and call them, `auto` as `discovery` above `max_direct_tools` tools, else as `direct`.
    """

    mode: Literal["conversation", "one_shot"] = "conversation"
    greeting: str = ""
    max_turns: NonNegativeInt = 0
    max_steps: PositiveInt = 100
    timeout: NonNegativeFloat | None = None
    background: bool = False
    state_notes: bool | Literal["compaction"] = True
    tool_mode: Literal["auto", "direct", "discovery"] = "auto"
    max_direct_tools: PositiveInt = 40
    context: ContextSettings | None = None
    hooks: tuple[Hook, ...] = ()


class CapabilitySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What tools may do without asking. `auto` allows tools that change nothing outside the session's own folder and
    asks about all others. The keys of `tools` are tools, patterns of names (`github__*`) or actions of modules
    (`filesystem.write`).

    A rule of `allow_commands` matches a command with exactly its arguments; a last `*` admits further arguments that
    are not options. A rule of `deny_commands` matches its words anywhere in a command. docs/agent.md has examples.
    """

    default_policy: Literal["auto", "allow", "ask", "deny"] = "auto"
    tools: dict[str, ApprovalVerdict] = {}
    allow_commands: tuple[str, ...] = ()
    deny_commands: tuple[str, ...] = ()


class ProviderSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The address of a provider. `key_env` is the variable with its key. An empty base URL is the dialect's default.

    The variable `$TIDEGATE_<NAME>_BASE_URL` overrides the base URL. `paid` says that calls cost money even if the
    address is local, as that of a proxy on this machine: with a cap in dollars, a model without a known price is then
    refused. `loads_models` says that the server can be told to load a model with the window that is set; None is yes
    for LM Studio.
    """

    base_url: str = ""
    key_env: Annotated[str, Meta(pattern=r"^[A-Za-z_]*[A-Za-z0-9_]*$")] = ""
    wire: DialectName | None = None
    headers: dict[str, SecretString] = {}
    paid: bool = False
    loads_models: bool | None = None


PRICE_KEYS = ("input", "output", "cache_read", "cache_write")
"""The prices among the settings of a model."""


class ModelSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Values that override the catalog for one model. Prices are dollars per million tokens.

    `images` is True if the model takes images. `cache_lifetime` is for how many seconds the provider keeps a prompt in
    its cache.
    """

    window: PositiveInt | None = None
    max_output: PositiveInt | None = None
    input: NonNegativeFloat | None = None
    cache_read: NonNegativeFloat | None = None
    cache_write: NonNegativeFloat | None = None
    output: NonNegativeFloat | None = None
    images: bool | None = None
    cache_lifetime: NonNegativeFloat | None = None


class SpendCap(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A limit of spending; null means no limit."""

    dollars: NonNegativeFloat | None = None
    tokens: NonNegativeInt | None = None


class SpendSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of spending for one session and for one day. They are checked before each call."""

    session: SpendCap = SpendCap()
    day: SpendCap = SpendCap()


class TraceSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The trace of a session. With `content` it has the text of every message, with secrets masked."""

    content: bool = False


class PolicySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A shipped policy or a policy file, and changes of its settings. `policy: NAME` means `policy: {name: NAME}`."""

    name: str = ""
    settings: dict[str, _Scalar] = {}


class McpServerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An MCP server: a command to start, or a URL."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, SecretString] = {}
    url: str = ""
    headers: dict[str, SecretString] = {}


class UpstreamSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An upstream of the gateway. With `key_env`, the gateway supplies the key from this environment variable."""

    url: str
    key_env: VariableName | None = None


class GatewayFileSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The gateway. The keys of `upstreams` are path prefixes, those of `windows` models, those of `policies` models or
    clients.

    `token_envs` names environment variables with the tokens that clients must send. `allowed_origins` are web pages
    whose scripts may use the gateway, such as https://chat.example.com. `open_sessions` is how many sessions are kept
    open; others are opened again when they are used. `recall` offers models a hidden tool to read back what left the
    view. With `state_notes`, the client's own model, or `state_notes_model`, writes down the state of the work before a
    sweep; with `compaction` (experimental) as a block of the provider, where it can. `retention_days` is how long
    sessions are kept; 0 means no limit.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8484
    upstreams: dict[str, UpstreamSettings] = {}
    window: PositiveInt | None = None
    windows: dict[str, PositiveInt] = {}
    policy: str = ""
    policies: dict[str, str] = {}
    token_envs: tuple[VariableName, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    open_sessions: PositiveInt = 256
    recall: bool = True
    state_notes: bool | Literal["compaction"] = False
    state_notes_model: str = ""
    on_store_failure: Literal["forward", "refuse"] = "forward"
    retention_days: NonNegativeInt = 0
    max_body: PositiveInt = 64_000_000


class ChatSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The chat. `continue_last` says what `tidegate chat` does with the session that was last used in this folder:
    `offer` it, `always` continue it, or `never` mention it."""

    continue_last: Literal["offer", "always", "never"] = "offer"


class FileSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The keys at the top of the file.

    - `modules`: the sets of tools to offer; null offers every tool.
    - `window`: the window in tokens of a model whose window is not known.
    - `tools`: tools of installed packages to offer.
    - `skills`: folders with skills.
    - `rules`: rules of the user, one sentence each. They are put into every system prompt.
    - `allow_env`: variables that a project's file may read with `{{env.NAME}}` without being trusted. Only the user's
      own file may set it.
    - `recall_earlier_sessions`: the tool `recall` may also read the earlier sessions of the same project folder. Only
      the user's own file may set it.
    """

    app: AppSettings = AppSettings()
    modules: dict[str, ModuleSettings] | None = None
    agents: tuple[AgentSettings, ...] = ()
    execution: ExecutionSettings = ExecutionSettings()
    chat: ChatSettings = ChatSettings()
    capabilities: CapabilitySettings = CapabilitySettings()
    providers: dict[str, ProviderSettings] = {}
    models: dict[str, ModelSettings] = {}
    policy: PolicySettings = PolicySettings()
    window: PositiveInt | None = None
    spend: SpendSettings = SpendSettings()
    mcp: dict[str, McpServerSettings] = {}
    tools: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    rules: tuple[UserRule, ...] = ()
    trace: TraceSettings = TraceSettings()
    gateway: GatewayFileSettings = GatewayFileSettings()
    allow_env: tuple[VariableName, ...] = ()
    recall_earlier_sessions: bool = False


def list_setting_parts(value: object) -> list[tuple[str, object]] | None:
    """List the parts of a value by name; None if it has no parts. Agents and hooks are named by their ids."""
    if isinstance(value, msgspec.Struct):
        tag = value.__struct_config__.tag
        own: list[tuple[str, object]] = [] if tag is None else [("type", tag)]
        return own + list(msgspec.structs.asdict(value).items())
    if isinstance(value, dict) and value:
        return [(str(key), each) for key, each in value.items()]
    if isinstance(value, tuple | list) and value:
        return [
            (each.id if isinstance(each, AgentSettings | Hook) else str(number), each)
            for number, each in enumerate(value, 1)
        ]
    return None
