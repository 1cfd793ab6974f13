"""Where a request belongs: its upstream, its dialect, and the conversation that its headers name. Pure."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Final, Literal, NamedTuple
from urllib.parse import unquote

import msgspec

from tidegate.gateway.settings import CHATGPT_UPSTREAM, Family, Upstream
from tidegate.wire.registry import DIALECTS

CleanId = Callable[[str], str]
Handling = Literal["manage", "count", "proxy"]

_SESSION_PREFIX: Final = re.compile(r"/s/([^/]+)(/.*)")
_GEMINI_METHOD: Final = re.compile(r":(generateContent|streamGenerateContent|rawPredict|streamRawPredict)\Z")
_MODEL_IN_PATH: Final = re.compile(r"/models/([^/:]+):|/deployments/([^/]+)/")
_AZURE_PREFIX: Final = "/openai/deployments/"
_UNSAFE: Final = re.compile(r"[^\w.-]+")
_UNSAFE_IN_PART: Final = re.compile(r"[^\w-]+")
"""In an id of a client: dots separate the ids in a name."""
_UNSAFE_BEFORE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_ID_CHARS: Final = 80
_HASH_CHARS: Final = 12
_MAX_CACHED: Final = 1_000
"""Requests whose route or conversation is remembered: a client asks with the same path and the same headers."""
_ID_HEADERS: Final = (
    *("x-tidegate-session", "x-claude-code-session-id", "x-claude-code-agent-id", "x-claude-code-parent-agent-id"),
    *("x-session-id", "thread-id", "conversation_id", "session_id", "session-id", "user-agent"),
)
_ROUTE_HEADERS: Final = ("chatgpt-account-id", "anthropic-version", "x-api-key", "x-goog-api-key")


class Route(NamedTuple):
    """`path` is what is sent to the upstream; `session` is the name of a conversation in the path, as it was given."""

    upstream: Upstream
    path: str
    handling: Handling
    dialect: str = ""
    session: str = ""
    model: str = ""


def find_route(method: str, path: str, headers: Mapping[str, str], upstreams: Sequence[Upstream]) -> Route:
    """The route of a request, by the prefix of its path, then by path and headers."""
    header_names = tuple([name for name in _ROUTE_HEADERS if name in headers])
    return _find_route(method, path, header_names, _is_signed(headers), tuple(upstreams))


@lru_cache(_MAX_CACHED)
def _find_route(
    method: str, path: str, headers: tuple[str, ...], is_signed: bool, upstreams: tuple[Upstream, ...]
) -> Route:
    """`headers` are the names of those that say whose request it is. None of their values is kept."""
    session = ""
    if match := _SESSION_PREFIX.match(path):
        session, path = unquote(match[1]), match[2]
    first, _, rest = path[1:].partition("/")
    upstream = next((each for each in upstreams if each.name == first), None)
    if upstream is not None and path.startswith(_AZURE_PREFIX):  # its own path, which only looks like our prefix
        path = path if not upstream.url.endswith("/openai") else "/" + rest
    elif upstream is not None:
        path = "/" + rest
    elif "chatgpt-account-id" in headers:  # the login of a ChatGPT subscription, which only this address accepts
        upstream = next(each for each in upstreams if each.name == CHATGPT_UPSTREAM)
        path = path.removeprefix("/v1")
    else:
        family = _guess_family(path, headers, is_signed)
        upstream = next((each for each in upstreams if each.family == family), upstreams[0])
    is_fixed = is_signed and not upstream.aws_region
    handling, dialect = _find_handling("" if is_fixed else method, path)
    model = _MODEL_IN_PATH.search(path)
    target = _join_paths(upstream.url, path)
    return Route(upstream, target, handling, dialect, session, unquote(model[1] or model[2]) if model else "")


def _join_paths(url: str, path: str) -> str:
    """The address for a path. A version that both have is written once."""
    version = path.split("/", 2)[1] if path.count("/") else ""
    if version and re.fullmatch(r"v\d\w*", version) and url.endswith(f"/{version}"):
        path = path.removeprefix(f"/{version}")
    return url + path


def _guess_family(path: str, headers: Sequence[str], is_signed: bool) -> Family:
    if "/messages" in path or path == "/complete" or is_signed:
        return "anthropic"
    if _GEMINI_METHOD.search(path) or path.startswith("/v1beta"):
        return "gemini"
    if path.endswith(("/chat/completions", "/responses", "/completions", "/embeddings")) or "/responses/" in path:
        return "openai"
    if "anthropic-version" in headers or "x-api-key" in headers:
        return "anthropic"
    return "gemini" if "x-goog-api-key" in headers else "openai"


def _is_signed(headers: Mapping[str, str]) -> bool:
    """Whether the request is signed for AWS: then only what is signed again may be changed."""
    return headers.get("authorization", "").startswith("AWS4-")


def _find_handling(method: str, path: str) -> tuple[Handling, str]:
    if method != "POST":
        return "proxy", ""
    for dialect in DIALECTS.values():
        if path.endswith(dialect.paths.count_endings):
            return "count", dialect.name
    for dialect in DIALECTS.values():
        if path.endswith(dialect.paths.endings):
            return "manage", dialect.name
    return "proxy", ""


class ClientId(NamedTuple):
    """How a request names its conversation. `parent` is the conversation of the agent that started this one.

    `is_explicit`: the user chose the name, so every request with it belongs to the conversation. `old_name`: what
    earlier versions called it, if that was another name, which other conversations could also have. `own_id` is how the
    client itself names its main conversation.
    """

    client: str = ""
    name: str = ""
    parent: str = ""
    is_explicit: bool = False
    old_name: str = ""
    own_id: str = ""


class _OwnIds(NamedTuple):
    """The ids in a client's headers. `agent` is a sub-agent, and `above` the sub-agent that started it."""

    client: str = ""
    main: str = ""
    agent: str = ""
    above: str = ""


def _read_own_ids(headers: Mapping[str, str], clean: CleanId) -> _OwnIds:
    def read(*names: str) -> str:
        return next((ident for name in names if (value := headers.get(name)) and (ident := clean(value))), "")

    if main := read("x-claude-code-session-id"):
        return _OwnIds("claude", main, read("x-claude-code-agent-id"), read("x-claude-code-parent-agent-id"))
    if main := read("x-session-id"):
        return _OwnIds("opencode", main)  # with the Responses API it also sends the headers of Codex
    thread = read("thread-id", "conversation_id")
    if not thread and (main := read("session_id")) and not headers.get("user-agent", "").startswith("codex"):
        return _OwnIds("pi", main)
    main = read("session-id", "session_id")
    return _OwnIds("codex", main, thread if thread != main else "") if main else _OwnIds()


def find_client_id(headers: Mapping[str, str], session: str) -> ClientId:
    """The conversation that the path, our header or the headers of a known client name; an empty one if none does.

    With a chosen name, the sub-agents of a known client still have sessions of their own.
    """
    return _find_client_id(tuple([(name, headers[name]) for name in _ID_HEADERS if name in headers]), session)


@lru_cache(_MAX_CACHED)
def _find_client_id(header_pairs: tuple[tuple[str, str], ...], session: str) -> ClientId:
    headers = dict(header_pairs)
    client_id = _name_conversation(headers, session, clean_id, _clean_part)
    before = _name_conversation(headers, session, _clean_before, _clean_before)
    return client_id if client_id.name == before.name else client_id._replace(old_name=before.name)


def _name_conversation(headers: Mapping[str, str], session: str, clean: CleanId, clean_part: CleanId) -> ClientId:
    explicit_name = clean(session or headers.get("x-tidegate-session", ""))
    own = _read_own_ids(headers, clean_part)
    if not own.client:
        return ClientId("", explicit_name, "", bool(explicit_name))
    main = explicit_name or f"{own.client}-{own.main}"
    if not own.agent:
        return ClientId(own.client, main, own_id=own.main)
    parent = f"{main}.{own.above}" if own.above else main
    return ClientId(own.client, f"{main}.{own.agent}", parent, own_id=own.main)


def clean_id(text: str) -> str:
    """A name that can be shown and be part of a path. Different texts have different names: one that had to be changed
    gets a hash of the original."""
    return _clean(text, _UNSAFE)


def _clean_part(text: str) -> str:
    """The same for one of the ids that are joined to a name."""
    return _clean(text, _UNSAFE_IN_PART)


def _clean(text: str, unsafe: re.Pattern[str]) -> str:
    cleaned = unsafe.sub("_", text)
    if cleaned == text and len(text) <= _MAX_ID_CHARS:
        return text
    mark = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_HASH_CHARS // 2).hexdigest()
    return f"{cleaned[: _MAX_ID_CHARS - _HASH_CHARS - 1]}-{mark}"


def _clean_before(text: str) -> str:
    """The name that earlier versions gave. Many texts have the same."""
    return _UNSAFE_BEFORE.sub("_", text)[:_MAX_ID_CHARS]


class _Metadata(msgspec.Struct):
    session_id: str = ""


def find_id_in_body(body: Mapping[str, object]) -> str:
    """The session that Claude Code names in `metadata.user_id`, which is a JSON text."""
    metadata = body.get("metadata")
    user_id = metadata.get("user_id") if isinstance(metadata, Mapping) else None
    try:
        return _clean_part(msgspec.json.decode(user_id, type=_Metadata).session_id) if isinstance(user_id, str) else ""
    except (msgspec.MsgspecError, UnicodeError):
        return ""
