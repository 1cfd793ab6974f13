"""Who may look at the page. A browser cannot send a header of its own, so a form exchanges the token for a cookie.

The cookie is a random text that means nothing outside this process: HttpOnly, SameSite=Strict, only for the page. The
token is never in a URL and never sent back. A request that changes something must come from the page itself: its
`Origin` is this host, and it carries a value that only the page knows.
"""

import hmac
import secrets
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from tidegate.gateway.settings import scope_of_token

COOKIE: Final = "tidegate_ui"
LOGIN_SECONDS: Final = 43_200
_MAX_LOGINS: Final = 64
_MAX_FAILURES: Final = 20
"""Wrong tokens within a minute; more are not even compared."""


class Visitor(NamedTuple):
    """Someone who may look. `scope` is the beginning of the names of the sessions to be seen; `proof` is what requests
    that change something must carry, empty if a header already proves that no other web page made them."""

    scope: str
    proof: str


class TooManyFailures(Exception):
    pass


class _Login(NamedTuple):
    token: str
    until: float


class Logins:
    def __init__(self, tokens: tuple[str, ...], clock: Callable[[], float]) -> None:
        self._tokens = tokens
        self._clock = clock
        self._logins: OrderedDict[str, _Login] = OrderedDict()
        self._failures: deque[float] = deque(maxlen=_MAX_FAILURES)
        self._local_proof = secrets.token_urlsafe(24)

    def find_visitor(self, headers: Mapping[str, str]) -> Visitor | None:
        """The visitor of a request, by our header or by the cookie of a login. Without tokens everyone is one."""
        if not self._tokens:
            return Visitor("", self._local_proof)
        token = self._find_token(headers.get("x-tidegate-token", ""))
        if token:
            return Visitor(scope_of_token(token), "")
        name = _read_cookie(headers.get("cookie", ""))
        login = self._logins.get(_digest(name)) if name else None
        if login is None or login.until < self._clock():
            return None
        return Visitor(scope_of_token(login.token), _digest(f"{name} proof"))

    def _find_token(self, given: str) -> str:
        return next((token for token in self._tokens if hmac.compare_digest(given.encode(), token.encode())), "")

    def log_in(self, given: str) -> str | None:
        """The value of the cookie for a token; None if the token is wrong."""
        now = self._clock()
        if len(self._failures) == _MAX_FAILURES and now - self._failures[0] < 60:
            raise TooManyFailures
        token = self._find_token(given)
        if not token:
            self._failures.append(now)
            return None
        name = secrets.token_urlsafe(32)
        self._logins[_digest(name)] = _Login(token, now + LOGIN_SECONDS)
        while len(self._logins) > _MAX_LOGINS:
            self._logins.popitem(last=False)
        return name

    def log_out(self, headers: Mapping[str, str]) -> None:
        self._logins.pop(_digest(_read_cookie(headers.get("cookie", ""))), None)


def is_from_page(headers: Mapping[str, str], visitor: Visitor) -> bool:
    """Whether a request that changes something was made by the page, not by another web page in the same browser."""
    if not visitor.proof:
        return True
    given = headers.get("x-tidegate-proof", "")
    return is_same_origin(headers) and hmac.compare_digest(given.encode(), visitor.proof.encode())


def is_same_origin(headers: Mapping[str, str]) -> bool:
    host = headers.get("host", "")
    site = headers.get("sec-fetch-site", "same-origin")
    return bool(host) and site == "same-origin" and urlsplit(headers.get("origin", "")).netloc == host


def make_cookie(value: str, scheme: str, seconds: int = LOGIN_SECONDS) -> str:
    secure = "; Secure" if scheme == "https" else ""
    return f"{COOKIE}={value}; Path=/ui; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"


def _read_cookie(header: str) -> str:
    try:
        found = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()
