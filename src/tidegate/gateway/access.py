"""Who may use the gateway: programs of this machine, or those that show a token."""

import hmac
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import urlsplit

from tidegate.gateway.client_answer import GatewayRefusal
from tidegate.gateway.settings import GatewaySettings, Upstream, is_loopback
from tidegate.gateway.upstream_clients import CLIENT_KEY_HEADERS


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
    name = urlsplit(f"//{host}").hostname or ""
    return "" if is_loopback(name) else name


def check_token(settings: GatewaySettings, headers: Mapping[str, str], upstream: Upstream) -> str:
    """The token of the client. The client's key header may carry it only if the gateway has the upstream's key."""
    if not settings.tokens:
        return ""
    given = [headers.get("x-tidegate-token", "")]
    if upstream.key:
        given += [headers.get(name, "").removeprefix("Bearer ") for name in CLIENT_KEY_HEADERS]
    for shown in given:
        for token in settings.tokens:
            if hmac.compare_digest(shown.encode(), token.encode()):
                return token
    raise GatewayRefusal(401, "authentication_error", "The gateway wants its token in the header x-tidegate-token.")
