"""Builds the address, the headers and the stream option of a request.

The key goes into a header only: addresses are written to logs, errors and proxies.
"""

import ssl
from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import quote, urlsplit

from tidegate.core.errors import BadInput
from tidegate.wire.dialect import Endpoint


def build_url(endpoint: Endpoint, model: str, base_url: str) -> str:
    """Return the address of requests for a base URL, or the provider's own. The base may include the version or the
    path.
    """
    base = (base_url or endpoint.base_url).rstrip("/")
    bad = BadInput("The base URL is not an http or https address.", "Give one like http://localhost:8080/v1.")
    try:
        parts = urlsplit(base)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise bad from None
    if not sound:
        raise bad
    if parts.username or parts.password or parts.query or parts.fragment:
        raise BadInput("The base URL holds a name, a key or a query.", "Give the key as key, not in the address.")
    path = endpoint.path.format(model=quote(model.removeprefix("models/"), safe=""))
    version = path.split("/")[1]
    if version == "v1" and base.endswith("/v1"):
        path = path.removeprefix("/v1")
    return base if base.endswith(path) else base + path


def is_loopback_url(url: str) -> bool:
    """Return whether the server is on this machine. It is then asked without a proxy, which would have its own
    localhost.
    """
    host = (urlsplit(url).hostname or "").rstrip(".")
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def choose_tls(url: str) -> ssl.SSLContext | bool:
    """The `verify` option of a client. Loading the certificates takes longer than a local server needs to answer, so
    for plain http there is a context without any, which trusts no server."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if url.startswith("http:") else True


def build_headers(endpoint: Endpoint, key: str, more: Mapping[str, str]) -> dict[str, str]:
    own = {"content-type": "application/json", "accept": "text/event-stream", "accept-encoding": "identity"}
    keyed = {endpoint.key_header: endpoint.key_prefix + key} if key else {}
    return {**own, **endpoint.headers, **keyed, **{name.lower(): value for name, value in more.items()}}


def add_stream_option(endpoint: Endpoint, request: bytes) -> bytes:
    """Add the option for a stream at the end of the request; all other bytes stay the same."""
    body = request.rstrip()
    if not endpoint.stream_fields or not body.endswith(b"}"):
        return request
    comma = b"" if body[:-1].rstrip() == b"{" else b","
    return b"%s%s%s}" % (body[:-1], comma, endpoint.stream_fields)
