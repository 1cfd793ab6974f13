"""The settings of an agent: what `tidegate.yaml` may say, as types. These declarations are the only list of its keys.

`config_file` finds and reads the files, `config_reading` turns them into these types and remembers where each value
stands, `chosen` makes of them what one agent runs with.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tidegate.agent.hook_types import Hook
from tidegate.agent.tools.approval import Verdict

Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Amount = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Key = Annotated[str, Meta(extra={"secret": True})]
"""Text that nobody is to see: it is shown masked, and no error repeats it."""
Name = Annotated[str, Meta(pattern=r"^[\w.-]{1,64}$")]
Scalar = str | int | float | bool | None
UserRule = Annotated[str, Meta(min_length=1, max_length=500)]
Variable = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]

Wire = Literal["openai_chat", "openai_responses", "anthropic", "gemini", "mistral", "deepseek"]
Backend = Literal["openai_compat", "openai", "openai_responses", "anthropic", "gemini", "embedded"]


class Access(msgspec.Struct, frozen=True):
    """How one brain gets to its provider, where that differs from what `providers` says."""

    api_key: Key = ""
    base_url: str = ""
    headers: dict[str, Key] = {}


class Context(msgspec.Struct, frozen=True):
    """How the window is kept. `max_tokens` 0 is the model's own; `summary_brain` writes summaries, else the brain."""

    max_tokens: Count = 0
    output_reserved: Count = 4096
    strategy: Literal["summarize", "truncate"] = "summarize"
    keep_recent: Count = 10
    compression_trigger: Share = 0.75
    summary_max_tokens: Positive = 1024
    auto_compact: bool = True
    summary_brain: "Brain | None" = None


class Brain(msgspec.Struct, frozen=True):
    """A model and the way to it. `timeout` is in seconds for one answer; what is null is the provider's default."""

    provider: str = ""
    model: str = ""
    backend: Backend | None = None
    config: Access = Access()
    context: Context | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Share | None = None
    max_output: Positive | None = None
    timeout: Amount | None = None


class AgentSettings(msgspec.Struct, frozen=True):
    """An agent. Those with the role `specialist` or `worker` are there for the tool `task`, not to begin with."""

    id: Name
    role: Literal["assistant", "coordinator", "specialist", "worker"] = "assistant"
    description: str = ""
    brain: Brain = Brain()
    system_prompt: str = ""


class App(msgspec.Struct, frozen=True):
    """`app_id` begins the names of new sessions, `name` is what people are shown."""

    app_id: Name = "tidegate"
    name: str = ""
    description: str = ""


class Constraints(msgspec.Struct, frozen=True):
    """Null allows every action of the module."""

    allowed_actions: tuple[str, ...] | None = None
    denied_actions: tuple[str, ...] = ()


class Module(msgspec.Struct, frozen=True):
    """A set of tools, see `modules`. A file that names modules offers the tools of these and no others."""

    constraints: Constraints = Constraints()


class Execution(msgspec.Struct, frozen=True):
    """`max_turns` (0: any number) bounds a session, `max_steps` the tool calls of a turn, `timeout` its seconds.

    In the mode `one_shot` the agent ends after one turn. `greeting` is shown to the user when a session begins.
    `background` prepares summaries ahead, a little before the policy wants them.
    """

    mode: Literal["conversation", "one_shot"] = "conversation"
    greeting: str = ""
    max_turns: Count = 0
    max_steps: Positive = 100
    timeout: Amount | None = None
    background: bool = False
    context: Context | None = None
    hooks: tuple[Hook, ...] = ()


class Capabilities(msgspec.Struct, frozen=True):
    """What tools may do unasked. `auto` allows what changes nothing outside the session's own folder and asks for the
    rest. `tools` names tools, patterns of names (`github__*`) or actions of modules (`filesystem.write`).

    A rule of `allow_commands` is a list of arguments and matches no others; a last `*` admits further arguments that
    are not options. A rule of `deny_commands` matches wherever its words stand. See `tools/command_rules.py`.
    """

    default_policy: Literal["auto", "allow", "ask", "deny"] = "auto"
    tools: dict[str, Verdict] = {}
    allow_commands: tuple[str, ...] = ()
    deny_commands: tuple[str, ...] = ()


class ProviderSettings(msgspec.Struct, frozen=True):
    """Where a provider's name leads. `key_env` is the variable that holds its key. An empty base URL is the wire's own.

    `$TIDEGATE_<NAME>_BASE_URL` sends the name elsewhere without a change of any file.
    """

    base_url: str = ""
    key_env: Annotated[str, Meta(pattern=r"^[A-Za-z_]*[A-Za-z0-9_]*$")] = ""
    wire: Wire | None = None
    headers: dict[str, Key] = {}


PRICES = ("input", "output", "cache_read", "cache_write")
"""The prices among the settings of a model."""


class ModelSettings(msgspec.Struct, frozen=True):
    """What is known of a model better than the catalog knows it. Prices are dollars for a million tokens.

    `images`: it takes pictures.
    """

    window: Positive | None = None
    max_output: Positive | None = None
    input: Amount | None = None
    cache_read: Amount | None = None
    cache_write: Amount | None = None
    output: Amount | None = None
    images: bool | None = None


class Cap(msgspec.Struct, frozen=True):
    """At most so much; null is no bound."""

    dollars: Amount | None = None
    tokens: Count | None = None


class Spend(msgspec.Struct, frozen=True):
    session: Cap = Cap()
    day: Cap = Cap()


class PolicyChoice(msgspec.Struct, frozen=True):
    """A preset's name or a file, and settings over its own. `policy: NAME` says the same as `policy: {name: NAME}`."""

    name: str = ""
    settings: dict[str, Scalar] = {}


class Server(msgspec.Struct, frozen=True):
    """An MCP server: a command that is started, or an address."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, Key] = {}
    url: str = ""
    headers: dict[str, Key] = {}


class Settings(msgspec.Struct, frozen=True):
    """A whole file. `modules` null offers every tool; `window` is in tokens, for every model without one of its own.

    `rules` are the user's own, a sentence each: they stand in every system prompt, word for word. `allow_env` names
    the variables that a project's file may read with `{{env.NAME}}` without being trusted; only the user's own file
    may set it.
    """

    app: App = App()
    modules: dict[str, Module] | None = None
    agents: tuple[AgentSettings, ...] = ()
    execution: Execution = Execution()
    capabilities: Capabilities = Capabilities()
    providers: dict[str, ProviderSettings] = {}
    models: dict[str, ModelSettings] = {}
    policy: PolicyChoice = PolicyChoice()
    window: Positive | None = None
    spend: Spend = Spend()
    mcp: dict[str, Server] = {}
    skills: tuple[str, ...] = ()
    rules: tuple[UserRule, ...] = ()
    allow_env: tuple[Variable, ...] = ()
