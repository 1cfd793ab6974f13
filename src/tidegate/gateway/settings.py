"""The settings of the gateway, from the command line or from the `gateway:` section of tidegate.yaml."""

from collections.abc import Mapping
from hashlib import sha256
from ipaddress import ip_address
from secrets import token_urlsafe
from typing import Final, Literal
from urllib.parse import urlsplit

import msgspec

from tidegate.core.errors import BadInput
from tidegate.core.policy.policy import Policy
from tidegate.gateway.aws_signature import find_bedrock_region
from tidegate.presets import DEFAULT_PRESET, load
from tidegate.session.state_notes import NOTE_STAGE
from tidegate.session.summaries.prepared import wants_summaries

Family = Literal["anthropic", "openai", "gemini"]
StoreFailure = Literal["forward", "refuse"]
FAMILIES: Final[tuple[Family, ...]] = ("anthropic", "openai", "gemini")
DEFAULT_URLS: Final[Mapping[Family, str]] = {
    "anthropic": "https://api.anthropic.com",
    "openai": "https://api.openai.com",
    "gemini": "https://generativelanguage.googleapis.com",
}
KEY_HEADERS: Final[Mapping[Family, str]] = {
    "anthropic": "x-api-key",
    "openai": "authorization",
    "gemini": "x-goog-api-key",
}
CHATGPT_UPSTREAM: Final = "openai-chatgpt"
CHATGPT_URL: Final = "https://chatgpt.com/backend-api/codex"
DEFAULT_PORT: Final = 8484


class Upstream(msgspec.Struct, frozen=True):
    """Where requests go. `name` is the path prefix that chooses it. With a `key` the gateway supplies the key.

    With an `aws_region` it signs the requests for Amazon Bedrock in this region.
    """

    name: str
    family: Family
    url: str
    key: str = ""
    aws_region: str = ""

    def __repr__(self) -> str:
        return f"Upstream({self.name!r}, {self.url!r})"  # never the key

    @property
    def is_paid_here(self) -> bool:
        """Whether the gateway, and not the client, has what the provider wants to see."""
        return bool(self.key or self.aws_region)

    @property
    def key_header(self) -> tuple[str, str]:
        prefix = "Bearer " if self.family == "openai" else ""
        return KEY_HEADERS[self.family], prefix + self.key


class ContinuedSession(msgspec.Struct, frozen=True):
    """The session that the one client of `tidegate wrap` continues, and what is known of it when the run begins.

    `source` is its last event, 0 for a new session. `lines` say what changed in the folder since it was left. With
    `needs_tools`, requests without tools are not the client's conversation.
    """

    session: str
    client: str
    title: str
    source: int = 0
    lines: tuple[str, ...] = ()
    needs_tools: bool = True


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True):
    """`tokens` are what clients must show; each has its own sessions. `windows` and `policies` are by model name.

    `client_token`: what the one client of `tidegate wrap` must show. `page_token` opens the page if there are no
    `tokens`; the workers of a gateway share it. `allowed_origins`: web pages whose scripts may use the gateway.
    `recall`: offer the model a tool to read back what left the view, which the client does not see. `recall_tool`: the
    client has such a tool itself, under this name; none is offered then, and the notes in the view name this one.
    `state_notes`: the client's own model, or `state_notes_model`, writes down the state of the work before a sweep.
    With "compaction" it is asked for a block of the provider in place of the messages, where it can write one.
    `continued`: the session that the client of this gateway continues, whoever began it.
    `on_store_failure`: what happens to requests and answers that cannot be logged. Sizes are bytes, times are seconds.
    """

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    upstreams: tuple[Upstream, ...] = ()
    window: int | None = None
    windows: Mapping[str, int] = {}
    policy: str = "default"
    policies: Mapping[str, str] = {}
    tokens: tuple[str, ...] = ()
    client_token: str = ""
    page_token: str = msgspec.field(default_factory=lambda: token_urlsafe(32))
    allowed_origins: tuple[str, ...] = ()
    continued: ContinuedSession | None = None
    on_store_failure: StoreFailure = "forward"
    recall: bool = True
    recall_tool: str = ""
    state_notes: bool | Literal["compaction"] = False
    state_notes_model: str = ""
    retention_days: int = 0
    max_body: int = 64_000_000
    max_answer: int = 64_000_000
    max_header_bytes: int = 65_536
    header_timeout: float = 15.0
    body_timeout: float = 60.0
    connect_timeout: float = 10.0
    answer_timeout: float = 600.0
    shutdown_timeout: float = 30.0
    store_timeout: float = 10.0
    store_check_timeout: float = 0.5
    open_sessions: int = 256

    def __repr__(self) -> str:
        return f"GatewaySettings({self.host}:{self.port}, upstreams={self.upstreams!r})"  # never the tokens

    @property
    def has_door(self) -> bool:
        """Whether clients must show a token. Without one, every user of this machine can use the gateway."""
        return bool(self.tokens or self.client_token)

    def window_for(self, model: str) -> int | None:
        return self.windows.get(model, self.window)

    @property
    def summary_notice(self) -> str:
        """A sentence on the policies for which a model should write summaries, and none is asked. Or ""."""
        names = {self.policy, *self.policies.values()} - {DEFAULT_PRESET}
        policies = sorted(name for name in names if wants_model_texts(load(name), with_notes=bool(self.state_notes)))
        if not policies:
            return ""
        which = f"The policy {policies[0]}" if len(policies) == 1 else f"The policies {', '.join(policies)}"
        if self.state_notes:
            return f"{which}: the summary of a single tool result is its beginning and end; no model writes it."
        return (
            f"{which}: no model writes summaries; they are made without one. With --state-notes, the client's own"
            " model writes them."
        )

    @property
    def state_notes_notice(self) -> str:
        """A sentence on the policies that use nothing a model writes, although `state_notes` is on. Or ""."""
        names = sorted({self.policy, *self.policies.values()}) if self.state_notes else []
        policies = [(name, load(name)) for name in names]
        without = [name for name, policy in policies if not (_shows_state_notes(policy) or wants_summaries(policy))]
        return (
            f"State notes have no effect under the policy {', '.join(without)}: it shows neither notes nor summaries."
            if without
            else ""
        )

    def policy_for(self, model: str, client: str) -> str:
        return self.policies.get(model) or self.policies.get(client) or self.policy


def parse_upstream(text: str, keys: Mapping[str, str] | None = None) -> Upstream:
    """An upstream from `NAME=URL`. The name is a family, or begins with one and a hyphen, as in openai-local=URL."""
    name, equals, url = text.partition("=")
    family = next((family for family in FAMILIES if name == family or name.startswith(f"{family}-")), None)
    if not equals or family is None or not name.replace("-", "").isalnum():
        raise BadInput(
            f"{name[:40]!r} does not name an upstream.",
            "Write NAME=URL, where NAME is anthropic, openai or gemini, or begins with one of them and a hyphen.",
        )
    key = (keys or {}).get(name, "")
    region = find_bedrock_region(url := check_upstream_url(url))
    return Upstream(name, family, url, key, "" if key else region)


def check_upstream_url(url: str) -> str:
    """The URL without a slash at its end. BadInput if it is not http or https, or if it contains a key or a query."""
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound, parts = False, urlsplit("")
    if not sound:
        raise BadInput(
            "The URL of an upstream is not an http or https address.", "Give one like https://api.anthropic.com."
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise BadInput("The URL of an upstream holds a name, a key or a query.", "Set its key with key_env instead.")
    return parts.geturl().rstrip("/")


def list_upstreams(settings: GatewaySettings) -> tuple[Upstream, ...]:
    """The upstreams of the settings, and the providers themselves for the families that have none.

    Without a token, every user of this machine could spend the gateway's own keys, so they are left out.
    """
    own_upstreams = settings.upstreams
    if not settings.has_door:
        own_upstreams = tuple(msgspec.structs.replace(each, key="") for each in own_upstreams)
    defaults = [Upstream(name, name, DEFAULT_URLS[name]) for name in FAMILIES]
    defaults.append(Upstream(CHATGPT_UPSTREAM, "openai", CHATGPT_URL))
    own_names = {upstream.name for upstream in own_upstreams}
    return (*own_upstreams, *(each for each in defaults if each.name not in own_names))


def check_settings(settings: GatewaySettings) -> None:
    """BadInput for settings that would open the gateway to strangers."""
    if not is_loopback(settings.host) and not settings.tokens:
        raise BadInput(
            f"The gateway would listen on {settings.host} without a token: anyone who reaches it could use it.",
            "Set a token with --token-env NAME, or listen on 127.0.0.1.",
        )
    if any(len(token) < 16 for token in settings.tokens):
        raise BadInput("A token of the gateway has fewer than 16 characters.", "Use a longer random text.")
    for origin in settings.allowed_origins:
        parts = urlsplit(origin)
        if not parts.scheme or not parts.netloc or parts.path or parts.query or parts.fragment:
            raise BadInput(
                f"{origin[:80]!r} in allowed_origins is not an origin.",
                "Write scheme and host, as in https://chat.example.com or http://localhost:3000.",
            )


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def scope_of_token(token: str) -> str:
    """The beginning of the names of a token's sessions: sessions of different tokens are apart."""
    return f"t{sha256(token.encode()).hexdigest()[:8]}-" if token else ""


def _shows_state_notes(policy: Policy) -> bool:
    return any(rule.stage == NOTE_STAGE for rule in policy.moments.get("before_call", ()))


def wants_model_texts(policy: Policy, *, with_notes: bool = False) -> bool:
    """Whether a rule asks for texts that a model should write; `with_notes`: texts that are not written ahead, either.

    Summaries of single tool results are asked for when the results arrive: nothing could be written ahead.
    """
    rules = [rule for each in policy.moments.values() for rule in each]
    is_summarized = any(rule.settings.get("strategy") == "llm" for rule in rules)
    return is_summarized or (not with_notes and wants_summaries(policy, policy.moments))
