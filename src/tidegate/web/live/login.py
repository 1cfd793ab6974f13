"""Who may look at the page. A browser cannot send a header of its own, so a link or a form gives it a cookie.

Without tokens, the page is opened by a link with a code that works once (`tidegate wrap` and `tidegate serve` print
one, `tidegate ui` makes another). With tokens, a form exchanges a token for the cookie. The cookie is signed with the
page token of this run, so that every worker of a gateway knows it: HttpOnly, SameSite=Strict, only for the page.
Tokens are never in a URL and never sent back. A request that changes something must come from the page itself: its
`Origin` is this host, and it carries a value that only the page knows.
"""

import hmac
import secrets
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from tidegate.core.errors import TidegateError
from tidegate.disk.folder import TextFolder
from tidegate.gateway.settings import GatewaySettings, scope_of_token

LOGIN_SECONDS: Final = 43_200
CODE_SECONDS: Final = 43_200
_USED_CODES_FILE: Final = "page-codes.json"
_MAX_USED_CODES: Final = 1_000
_MAX_FAILURES: Final = 20
"""Wrong tokens within a minute; more are not even compared."""


class Visitor(NamedTuple):
    """Someone who may look. `scope` is the beginning of the names of the sessions to be seen; `proof` is what requests
    that change something must carry, empty if a header already proves that another web page did not make them."""

    scope: str
    proof: str


class TooManyFailures(Exception):
    pass


class Logins:
    """`used_codes` is a folder that all workers share: a code that one of them took is used up for all."""

    def __init__(self, settings: GatewaySettings, used_codes: TextFolder, clock: Callable[[], float]) -> None:
        self._tokens = settings.tokens
        self._page_token = settings.page_token
        # Cookies do not tell ports apart: the page of another gateway of this machine needs another name.
        self.cookie_name = f"tidegate_ui_{_sign(settings.page_token, 'name')[:8]}"
        self._used_codes = used_codes
        self._clock = clock
        self._ended: set[str] = set()
        self._failures: deque[float] = deque(maxlen=_MAX_FAILURES)

    def find_visitor(self, headers: Mapping[str, str]) -> Visitor | None:
        """The visitor of a request, by our header or by the cookie of a login."""
        header = headers.get("x-tidegate-token", "")
        token = self._find_token(header)
        if token is not None:
            return Visitor(token and scope_of_token(token), "")
        value = self._read_cookie(headers)
        scope = self._read_value(value) if value else None
        return None if scope is None else Visitor(scope, _sign(self._page_token, f"proof {value}"))

    def _find_token(self, text: str) -> str | None:
        """The token that was given, "" for the page token, or None."""
        for token in self._tokens:
            if _is_equal(text, token):
                return token
        return "" if not self._tokens and _is_equal(text, self._page_token) else None

    def _read_value(self, value: str) -> str | None:
        """The scope of a cookie, if it is one of ours and still valid."""
        content, _, signature = value.rpartition(".")
        scope, _, rest = content.partition(".")
        until = rest.partition(".")[0]
        is_ours = _is_equal(signature, _sign(self._page_token, f"cookie {content}"))
        return scope if is_ours and value not in self._ended and int(until) > self._clock() else None

    def _make_value(self, scope: str) -> str:
        content = f"{scope}.{int(self._clock()) + LOGIN_SECONDS}.{secrets.token_urlsafe(16)}"
        return f"{content}.{_sign(self._page_token, f'cookie {content}')}"

    def log_in(self, text: str) -> str | None:
        """The value of the cookie for a token; None if the token is wrong."""
        now = self._clock()
        if len(self._failures) == _MAX_FAILURES and now - self._failures[0] < 60:
            raise TooManyFailures
        token = self._find_token(text)
        if token is None:
            self._failures.append(now)
            return None
        return self._make_value(token and scope_of_token(token))

    def use_code(self, code: str) -> str | None:
        """The value of the cookie for the code of a link; None if the code is wrong, too old or was used before."""
        content, _, signature = code.rpartition(".")
        if self._tokens or not _is_equal(signature, _sign(self._page_token, f"code {content}")):
            return None
        now, until = self._clock(), int(content.partition(".")[0])
        is_new = False

        def add(text: str | None) -> str:
            nonlocal is_new
            known_codes = {name: end for name, end in _parse_used(text).items() if end > now}
            is_new = content not in known_codes and len(known_codes) < _MAX_USED_CODES
            return msgspec.json.encode(known_codes | {content: until}).decode()

        with suppress(TidegateError):
            if until > now:
                self._used_codes.update(_USED_CODES_FILE, add)
        return self._make_value("") if is_new else None

    def _read_cookie(self, headers: Mapping[str, str]) -> str:
        try:
            morsel = SimpleCookie(headers.get("cookie", "")).get(self.cookie_name)
        except CookieError:
            return ""
        return morsel.value if morsel else ""

    def make_cookie(self, value: str, scheme: str, seconds: int = LOGIN_SECONDS) -> str:
        """The header that gives the browser a cookie with this value."""
        secure = "; Secure" if scheme == "https" else ""
        return f"{self.cookie_name}={value}; Path=/ui; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"

    def log_out(self, headers: Mapping[str, str]) -> None:
        self._ended.add(self._read_cookie(headers))


def make_page_link(address: str, page_token: str, now: float) -> str:
    """A link that opens the page of a gateway without tokens, once."""
    content = f"{int(now) + CODE_SECONDS}.{secrets.token_urlsafe(16)}"
    return f"{address}/ui?code={content}.{_sign(page_token, f'code {content}')}"


def is_from_page(headers: Mapping[str, str], visitor: Visitor) -> bool:
    """Whether a request that changes something was made by the page, not by another web page in the same browser."""
    if not visitor.proof:
        return True
    return is_same_origin(headers) and _is_equal(headers.get("x-tidegate-proof", ""), visitor.proof)


def is_same_origin(headers: Mapping[str, str]) -> bool:
    host = headers.get("host", "")
    site = headers.get("sec-fetch-site", "same-origin")
    return bool(host) and site == "same-origin" and urlsplit(headers.get("origin", "")).netloc == host


def _parse_used(text: str | None) -> dict[str, int]:
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, int])
    except msgspec.MsgspecError:
        return {}


def _sign(key: str, text: str) -> str:
    return hmac.new(key.encode(), text.encode("utf-8", "surrogatepass"), sha256).hexdigest()


def _is_equal(text: str, expected: str) -> bool:
    return hmac.compare_digest(text.encode("utf-8", "surrogatepass"), expected.encode())
