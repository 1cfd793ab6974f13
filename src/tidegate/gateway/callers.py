"""Whose request it is, as far as its key tells.

Requests of clients without ids are assigned to sessions by their messages. Two people can send the same messages, so
the sessions of different keys are kept apart: their names contain a keyed hash of what identifies the caller.
"""

import hmac
from collections.abc import Mapping
from hashlib import sha256
from secrets import token_hex
from typing import Final, NamedTuple
from urllib.parse import parse_qs

import msgspec

from tidegate.disk.folder import TextFolder
from tidegate.gateway.upstream_clients import CLIENT_KEY_HEADERS

_SECRET_FILE: Final = "gateway-secret"
_ACCOUNT_HEADER: Final = "chatgpt-account-id"
_REFRESHED_PREFIXES: Final = ("sk-ant-oat", "ya29.", "gho_", "ghu_")
"""Access tokens of logins, which are replaced every few hours and have no part that stays."""


class Caller(NamedTuple):
    """`mark` tells callers apart, and is empty if nothing does. `is_lasting`: who has the mark is the same person."""

    mark: str = ""
    is_lasting: bool = False


SINGLE_CALLER: Final = Caller("", True)
"""The caller of a gateway that serves one client."""


class _Claims(msgspec.Struct):
    iss: str = ""
    sub: str = ""


def read_secret(folder: TextFolder) -> bytes:
    """The secret of this data folder that hides keys in the names of sessions. It is made when it is first needed."""
    secret = ""

    def make(text: str | None) -> str:
        nonlocal secret
        secret = text or token_hex(32)
        return secret

    folder.update(_SECRET_FILE, make)
    return secret.encode()


def identify_caller(headers: Mapping[str, str], query: bytes, secret: bytes) -> Caller:
    """The caller of a request, by its account or key. A key itself appears nowhere, only its hash with `secret`."""
    identity = _find_identity(headers, query)
    if not identity:
        return Caller()
    return Caller(hmac.new(secret, identity.encode("utf-8", "surrogatepass"), sha256).hexdigest()[:12], True)


def _find_identity(headers: Mapping[str, str], query: bytes) -> str:
    if account := headers.get(_ACCOUNT_HEADER, ""):
        return f"account {account}"
    key = next((value.removeprefix("Bearer ") for name in CLIENT_KEY_HEADERS if (value := headers.get(name, ""))), "")
    if not key and b"key=" in query:
        key = parse_qs(query.decode("latin-1")).get("key", [""])[0]
    if key.startswith(_REFRESHED_PREFIXES):
        return ""
    if key.startswith("eyJ") and key.count(".") == 2:
        claims = _read_claims(key)
        return f"login {claims.iss} {claims.sub}" if claims.sub else ""
    return f"key {key}" if key else ""


def _read_claims(token: str) -> _Claims:
    """Who a signed token (JWT) is for. The provider checks its signature; a forged one is refused there."""
    from base64 import urlsafe_b64decode  # noqa: PLC0415 - few clients send such a token

    payload = token.split(".")[1]
    try:
        return msgspec.json.decode(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)), type=_Claims)
    except (ValueError, msgspec.MsgspecError):
        return _Claims()
