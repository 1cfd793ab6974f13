"""Who may use the gateway: clients that show a token; without tokens, programs of this machine. Never a web page.

A page in a browser can send requests to any address of this machine. Browsers say where a request comes from (`Origin`,
`Sec-Fetch-Site`), and the gateway refuses all that come from a page, except those from `allowed_origins`.
"""

import hmac
from collections.abc import Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from tidegate.gateway.http_messages import GatewayRefusal, RawHeaders
from tidegate.gateway.settings import GatewaySettings, is_loopback
from tidegate.gateway.upstream_clients import CLIENT_KEY_HEADERS

TOKEN_HEADER: Final = "x-tidegate-token"
TOKEN_PREFIX: Final = "/k/"
"""The beginning of a path whose next segment is the token, for clients that cannot send a header."""
_HIDDEN_TOKEN: Final = "/k/.../"
_CORS_SECONDS: Final = b"600"


def check_host(settings: GatewaySettings, headers: Mapping[str, str]) -> None:
    """Without a token only this machine may ask, and no web page that points its own name at this machine."""
    if settings.tokens:
        return
    name = _find_foreign_name(headers.get("host", ""))
    if name and name != settings.host:
        raise GatewayRefusal(403, "permission_error", "Address the gateway as localhost or 127.0.0.1, or set a token.")


@lru_cache(64)
def _find_foreign_name(host: str) -> str:
    """The name in a Host header, if it is not one of this machine."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return host
    return "" if is_loopback(name) else name


def check_sender(settings: GatewaySettings, headers: Mapping[str, str]) -> RawHeaders:
    """Refuse another machine, and a web page whose origin is not allowed. Return the headers for the answer."""
    check_host(settings, headers)
    return _check_origin(settings, headers)


def _check_origin(settings: GatewaySettings, headers: Mapping[str, str]) -> RawHeaders:
    """Refuse a request that a web page made, unless its origin is allowed. Return the headers for its answer."""
    origin = headers.get("origin", "")
    if origin and origin in settings.allowed_origins:
        return [
            (b"access-control-allow-origin", origin.encode("latin-1")),
            (b"access-control-expose-headers", b"*"),
            (b"vary", b"origin"),
        ]
    if origin or headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        raise GatewayRefusal(
            403,
            "permission_error",
            f"A web page ({origin[:100] or 'of another site'}) may not use the gateway."
            " To allow it, add its origin to gateway.allowed_origins in tidegate.yaml.",
        )
    return []


def preflight_headers(headers: Mapping[str, str]) -> RawHeaders:
    """The headers that answer the question of a browser whether a page may send a request."""
    wish = headers.get("access-control-request-headers", "")[:2_000].encode("latin-1", "ignore")
    return [
        (b"access-control-allow-methods", b"GET, POST, DELETE"),
        (b"access-control-allow-headers", wish),
        (b"access-control-max-age", _CORS_SECONDS),
    ]


def split_token(path: str) -> tuple[str, str]:
    """The token in a path, or "", and the path without it."""
    if not path.startswith(TOKEN_PREFIX):
        return "", path
    token, _, rest = path.removeprefix(TOKEN_PREFIX).partition("/")
    return token, "/" + rest


def hide_token(settings: GatewaySettings, path: str) -> str:
    """The path as it may be logged: without what stands where a token belongs, and without a token anywhere else."""
    token, rest = split_token(path)
    path = _HIDDEN_TOKEN + rest[1:] if token else path
    for token in (*settings.tokens, settings.client_token):
        path = path.replace(token, "...") if token else path
    return path


def check_token(settings: GatewaySettings, headers: Mapping[str, str], in_path: str, *, in_key_header: bool) -> str:
    """Refuse a client without a token. Return the token that has sessions of its own, if it is one of `tokens`.

    `in_key_header`: the token may also be where clients send their key, as in `Authorization: Bearer TOKEN`.
    """
    if not settings.has_door:
        return ""
    candidates = [headers.get(TOKEN_HEADER, ""), in_path]
    if in_key_header:
        candidates += [headers.get(name, "").removeprefix("Bearer ") for name in CLIENT_KEY_HEADERS]
    for token in settings.tokens:
        if any(_is_equal(each, token) for each in candidates):
            return token
    if settings.client_token and any(_is_equal(each, settings.client_token) for each in candidates):
        return ""
    raise GatewayRefusal(401, "authentication_error", f"The gateway wants its token in the header {TOKEN_HEADER}.")


def _is_equal(candidate: str, token: str) -> bool:
    return hmac.compare_digest(candidate.encode(), token.encode())
