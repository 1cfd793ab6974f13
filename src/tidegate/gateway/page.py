"""The seam between the gateway and the page that shows it.

The page is in a package above this one (`web/live/`), so the gateway knows it only as a `Page`. It serves every path
under `/ui`; without a page, such paths are forwarded like any other.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

from tidegate.gateway.http_messages import BodyTooLarge, ClientAnswer, GatewayRefusal, Receive, read_body

PAGE_PATH: Final = "/ui"
_MAX_PAGE_BODY: Final = 65_536
_BODY_TIMEOUT: Final = 15.0
_MAX_SESSIONS: Final = 10_000


class PageRequest(NamedTuple):
    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes
    scheme: str


class Page(Protocol):
    async def answer(self, request: PageRequest, answer: ClientAnswer) -> None: ...

    def end_streams(self) -> None:
        """The gateway shuts down: end the streams of updates, which would go on for ever."""


class SessionActivity:
    """Which sessions changed and which are in use. The page asks for it; it is safe to use from any thread."""

    def __init__(self) -> None:
        self._version = 0
        self.list_running: Callable[[], set[str]] = set
        self._by_session: dict[str, int] = {}
        self._passed_on: dict[str, Counter[str]] = {}

    def note_passed_on(self, scope: str, why: str) -> None:
        """A request of this scope was passed on as it is, and belongs to no session."""
        self._passed_on.setdefault(scope, Counter())[why] += 1

    def describe_passed_on(self, scope: str) -> str:
        """What the page says of such requests; empty if there were none."""
        counts = self._passed_on.get(scope, Counter())
        return " ".join(
            f"{count:,} {'request was' if count == 1 else 'requests were'} passed on unmanaged and not logged: {why}."
            for why, count in counts.items()
        )

    def note_change(self, session: str, event: object = None) -> None:
        """A session has one more `event`."""
        self._version += 1
        self._by_session[session] = self._version
        if len(self._by_session) > _MAX_SESSIONS:
            self._by_session = {session: self._version}

    def version_of(self, session: str) -> int:
        return self._by_session.get(session, 0)

    def version_of_scope(self, scope: str) -> int:
        """The newest change of the sessions whose names begin with `scope`."""
        sessions = self._by_session.copy()
        return max((version for name, version in sessions.items() if name.startswith(scope)), default=0)


def is_page_path(path: str) -> bool:
    return path == PAGE_PATH or path.startswith(PAGE_PATH + "/")


async def read_page_request(scope: dict[str, Any], headers: dict[str, str], receive: Receive) -> PageRequest:
    try:
        body = await read_body(receive, _MAX_PAGE_BODY, _BODY_TIMEOUT)
    except BodyTooLarge:
        raise GatewayRefusal(413, "request_too_large", f"More than {_MAX_PAGE_BODY:,} bytes.") from None
    except TimeoutError:
        raise GatewayRefusal(408, "invalid_request_error", "The request did not arrive in time.") from None
    query = scope["query_string"].decode("latin-1")
    return PageRequest(scope["method"], scope["path"], query, headers, body, scope.get("scheme", "http"))
