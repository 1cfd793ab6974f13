"""The page of the gateway under `/ui`: HTML, data for its scripts, a stream of updates, and undo.

Everything but the login form is for visitors only (`login.py`). Every answer forbids other origins, frames and caches.
Work that uses the store runs in threads of the page with a deadline, so requests of clients go on meanwhile.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from html import escape
from typing import Final, NamedTuple, TypeVar
from urllib.parse import parse_qs

import msgspec

from tidegate import __version__
from tidegate.core.errors import TidegateError
from tidegate.core.notes import ModelNote
from tidegate.datafolder.data_folder import DataFolder
from tidegate.gateway.http_messages import ClientAnswer, RawHeaders
from tidegate.gateway.page import PageRequest, SessionActivity
from tidegate.gateway.settings import GatewaySettings
from tidegate.models.catalog import ModelInfo, find_window
from tidegate.store.errors import StoreUnreachable
from tidegate.web.document import make_content_policy, render_document
from tidegate.web.live.login import (
    Logins,
    TooManyFailures,
    Visitor,
    is_from_page,
    is_same_origin,
)
from tidegate.web.live.session_catalog import SessionCatalog
from tidegate.web.live.session_data import SessionLooks

_UPDATE_SECONDS: Final = 0.5
_KEEP_ALIVE_SECONDS: Final = 15.0
_MAX_STREAMS: Final = 32
_THREADS: Final = 4
"""Threads of the page. If they all wait for the store, those in which the event loop looks up addresses are free."""
_SHARED_SCRIPTS: Final = ("kit.js", "chart.js", "diff.js")
_LIST_SCRIPTS: Final = (*_SHARED_SCRIPTS, "live.js", "live_list.js")
_SESSION_SCRIPTS: Final = (
    *_SHARED_SCRIPTS,
    "session_window.js",
    "session_requests.js",
    "session_changes.js",
    "live.js",
    "live_texts.js",
    "live_session.js",
)
_STYLES: Final = ("page.css", "live.css")
_JSON: Final = (b"content-type", b"application/json")
_T = TypeVar("_T")


class PageRefusal(Exception):
    """A request for the page that is not answered as asked."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


class Question(NamedTuple):
    """A request of a visitor, with its query read."""

    visitor: Visitor
    request: PageRequest
    values: Mapping[str, str]

    def number(self, name: str, default: int = 0) -> int:
        text = self.values.get(name, "")
        return int(text) if text.removeprefix("-").isdecimal() and len(text) < 16 else default


class PageBoot(msgspec.Struct, frozen=True):
    """What the scripts know from the start. `proof` goes with every request that changes something."""

    proof: str
    version: str
    session: str
    scope: str
    has_login: bool


class GatewayPage:
    """Answers every request under `/ui`. `activity` is the gateway's: which sessions change and which are in use."""

    def __init__(
        self,
        settings: GatewaySettings,
        data: DataFolder,
        activity: SessionActivity,
        *,
        prices: Mapping[str, ModelInfo] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._prices = prices
        self._activity = activity
        self._store = data.store
        self._logins = Logins(settings, data.state_folder, clock)
        self._catalog = SessionCatalog(data, self._find_window, prices)
        self._looks = SessionLooks(data, self._catalog)
        self._threads = ThreadPoolExecutor(_THREADS, "tidegate-page")
        self._is_ending = False
        self._streams = 0

    def _find_window(self, note: ModelNote) -> int:
        """The window that the session was opened with. What is set now may be another one."""
        window = note.window or self._settings.window_for(note.model)
        return window or find_window(note.model, self._prices) or 0

    def end_streams(self) -> None:
        self._is_ending = True

    # --- answers --------------------------------------------------------------------------------------------------

    async def answer(self, request: PageRequest, answer: ClientAnswer) -> None:
        try:
            await self._answer(request, answer)
        except PageRefusal as refusal:
            await self._send_json(answer, {"error": refusal.text}, refusal.status)
        except TidegateError as failure:
            if answer.status:
                raise
            await self._send_json(
                answer, {"error": str(failure)}, 503 if isinstance(failure, StoreUnreachable) else 500
            )

    async def _in_thread(self, act: Callable[[], _T]) -> _T:
        """Run a function that uses the store. StoreUnreachable if it does not end in time; it then ends alone."""
        timeout = self._settings.store_timeout
        try:
            return await asyncio.wait_for(asyncio.get_running_loop().run_in_executor(self._threads, act), timeout)
        except TimeoutError:
            raise StoreUnreachable(f"The store did not answer within {timeout:g} seconds.", "See /readyz.") from None

    async def _answer(self, request: PageRequest, answer: ClientAnswer) -> None:
        path, method = request.path, request.method
        if path == "/ui/login" and method == "POST":
            await self._log_in(request, answer)
            return
        values = {name: texts[-1] for name, texts in parse_qs(request.query, max_num_fields=20).items()}
        code = values.pop("code", "") if path == "/ui" and method == "GET" else ""
        visitor = self._logins.find_visitor(request.headers)
        if visitor is None:
            await self._let_in(request, code, answer)
            return
        if code:  # the visitor is known already: the code is not used up, but leaves the address
            await _redirect(answer, [])
            return
        question = Question(visitor, request, values)
        if method == "POST":
            await self._change(question, answer)
        elif method not in ("GET", "HEAD"):
            raise PageRefusal(405, "Use GET or POST.")
        elif path == "/ui/api/events":
            await self._stream(question, answer)
        elif path.startswith("/ui/api/"):
            if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
                raise PageRefusal(403, "Another web page asked.")
            await self._send_data(question, answer)
        else:
            await self._send_page(question, answer)

    async def _let_in(self, request: PageRequest, code: str, answer: ClientAnswer) -> None:
        """Exchange the code of a link for a cookie, or say how to log in."""
        cookie = await self._in_thread(lambda: self._logins.use_code(code)) if code else None
        if cookie is not None:
            await _redirect(answer, [(b"set-cookie", self._logins.make_cookie(cookie, request.scheme).encode())])
        elif request.path in ("/ui", "/ui/", "/ui/session", "/ui/login") and request.method in ("GET", "HEAD"):
            problem = "This link was used before, or is too old." if code else ""
            page = render_login_page(problem) if self._settings.tokens else render_link_page(problem)
            await self._send_html(answer, page, 401)
        else:
            raise PageRefusal(401, "Log in at /ui, or send the token in the header x-tidegate-token.")

    async def _send_page(self, question: Question, answer: ClientAnswer) -> None:
        visitor, path = question.visitor, question.request.path
        if path not in ("/ui", "/ui/", "/ui/session"):
            raise PageRefusal(404, "There is no such page. The list of sessions is at /ui.")
        name = question.values.get("name", "") if path == "/ui/session" else ""
        boot = PageBoot(visitor.proof, __version__, name, visitor.scope, bool(visitor.proof))
        scripts = _SESSION_SCRIPTS if name else _LIST_SCRIPTS
        html = render_document(
            "tidegate",
            _render_frame(
                has_login=boot.has_login,
                notices=[self._settings.summary_notice, self._activity.describe_passed_on(visitor.scope)],
            ),
            scripts=scripts,
            styles=_STYLES,
            blocks={"main": msgspec.json.encode(boot)},
            is_served=True,
        )
        await self._send_html(answer, html, 200, scripts)
        if name and name.startswith(visitor.scope):
            with suppress(TidegateError):  # the page asks for the same and shows what is wrong
                await self._in_thread(lambda: self._looks.read_ahead(visitor.scope, name))

    async def _send_data(self, question: Question, answer: ClientAnswer) -> None:
        scope, name = question.visitor.scope, question.values.get("name", "")
        what = question.request.path.removeprefix("/ui/api/")
        running = self._activity.list_running()
        if what == "sessions":
            page, words = question.number("page"), question.values.get("words", "")
            sessions = await self._in_thread(lambda: self._catalog.list_page(scope, page, running, words))
            await self._send_json(answer, sessions)
            return
        if not name.startswith(scope) or not await self._in_thread(lambda: self._store.head(name)):
            raise PageRefusal(404, "There is no such session.")
        looks = self._looks
        actions: dict[str, Callable[[], bytes]] = {
            "newest": lambda: looks.describe_newest(scope, name),
            "session": lambda: looks.describe_session(scope, name, running),
            "requests": lambda: looks.list_requests(scope, name, question.number("before", 1 << 40)),
            "request": lambda: looks.compare_request(scope, name, question.number("head")),
            "change": lambda: looks.compare_change(scope, name, question.number("seq")),
            "messages": lambda: looks.read_messages(scope, name, _parse_refs(question.values.get("refs", ""))),
            "recall": lambda: looks.recall(scope, name, question.values.get("words", ""), question.number("offset")),
        }
        if what not in actions:
            raise PageRefusal(404, "There is no such data.")
        body = await self._in_thread(actions[what])
        await answer.send_whole(200, [_JSON, *page_headers()], body)

    # --- changes --------------------------------------------------------------------------------------------------

    async def _change(self, question: Question, answer: ClientAnswer) -> None:
        request, visitor = question.request, question.visitor
        if request.path == "/ui/logout":
            if not is_same_origin(request.headers):
                raise PageRefusal(403, "Another web page asked.")
            self._logins.log_out(request.headers)
            await _redirect(answer, [(b"set-cookie", self._logins.make_cookie("", request.scheme, 0).encode())])
            return
        if not is_from_page(request.headers, visitor):
            raise PageRefusal(403, "This request does not come from the page. Load it again.")
        if request.path != "/ui/api/undo":
            raise PageRefusal(404, "There is nothing to change here.")
        try:
            undo_request = msgspec.json.decode(request.body, type=UndoRequest)
        except msgspec.MsgspecError:
            raise PageRefusal(400, "Send JSON with name, seq and redo.") from None
        if not undo_request.name.startswith(visitor.scope) or not await self._in_thread(
            lambda: self._store.head(undo_request.name)
        ):
            raise PageRefusal(404, "There is no such session.")
        is_done = await self._in_thread(
            lambda: self._looks.toggle_change(undo_request.name, undo_request.seq, redo=undo_request.redo)
        )
        self._activity.note_change(undo_request.name)
        if not is_done:
            raise PageRefusal(409, "Another compaction is the newest by now. Look at the list again.")
        await self._send_json(answer, {"done": True})

    async def _log_in(self, request: PageRequest, answer: ClientAnswer) -> None:
        if not is_same_origin(request.headers):
            raise PageRefusal(403, "The form was not sent by this page.")
        token = parse_qs(request.body.decode("utf-8", "replace"), max_num_fields=4).get("token", [""])[-1]
        try:
            cookie = self._logins.log_in(token.strip())
        except TooManyFailures:
            await self._send_html(answer, render_login_page("Too many wrong tokens. Wait a minute."), 429)
            return
        if cookie is None:
            await self._send_html(answer, render_login_page("This is not a token of this gateway."), 401)
            return
        await _redirect(answer, [(b"set-cookie", self._logins.make_cookie(cookie, request.scheme).encode())])

    # --- updates --------------------------------------------------------------------------------------------------

    async def _stream(self, question: Question, answer: ClientAnswer) -> None:
        """Server-sent events: a number that grows whenever something to be seen has changed."""
        if self._streams >= _MAX_STREAMS:
            raise PageRefusal(503, "Too many pages are open.")
        scope, name = question.visitor.scope, question.values.get("name", "")
        if name and not name.startswith(scope):
            raise PageRefusal(404, "There is no such session.")
        self._streams += 1
        try:
            await answer.start(200, [(b"content-type", b"text/event-stream"), *page_headers()])
            with suppress(StoreUnreachable):  # the browser connects again by itself
                await self._send_updates(scope, name, answer)
            await answer.finish()
        finally:
            self._streams -= 1

    async def _send_updates(self, scope: str, name: str, answer: ClientAnswer) -> None:
        last: tuple[int, int, bool] | None = None
        quiet = 0.0
        while not self._is_ending:
            now = await self._read_version(scope, name)
            if now != last:
                last, quiet = now, 0.0
                await answer.send_piece(b"data: %d.%d.%d\n\n" % now)
            elif quiet >= _KEEP_ALIVE_SECONDS:
                quiet = 0.0
                await answer.send_piece(b": still here\n\n")
            await asyncio.sleep(_UPDATE_SECONDS)
            quiet += _UPDATE_SECONDS

    async def _read_version(self, scope: str, name: str) -> tuple[int, int, bool]:
        """Changes of one session are also those that other processes make, by the head of its log."""
        if not name:
            running = sum(each.startswith(scope) for each in self._activity.list_running())
            return self._activity.version_of_scope(scope), running, False
        head = await self._in_thread(lambda: self._store.head(name))
        return self._activity.version_of(name), head, name in self._activity.list_running()

    # --- sending --------------------------------------------------------------------------------------------------

    async def _send_json(self, answer: ClientAnswer, value: object, status: int = 200) -> None:
        await answer.send_whole(status, [_JSON, *page_headers()], msgspec.json.encode(value))

    async def _send_html(self, answer: ClientAnswer, html: str, status: int, scripts: Sequence[str] = ()) -> None:
        policy = make_content_policy(scripts, _STYLES, is_served=True)
        headers = [(b"content-type", b"text/html; charset=utf-8"), *page_headers(policy)]
        await answer.send_whole(status, headers, html.encode())


class UndoRequest(msgspec.Struct, frozen=True):
    """Undo the compaction at event `seq`, or make it again."""

    name: str
    seq: int
    redo: bool = False


def page_headers(policy: str = "default-src 'none'") -> RawHeaders:
    return [
        (b"cache-control", b"no-store"),
        (b"content-security-policy", f"{policy}; frame-ancestors 'none'".encode()),
        (b"cross-origin-opener-policy", b"same-origin"),
        (b"cross-origin-resource-policy", b"same-origin"),
        (b"referrer-policy", b"same-origin"),
        (b"x-content-type-options", b"nosniff"),
        (b"x-frame-options", b"DENY"),
    ]


async def _redirect(answer: ClientAnswer, headers: RawHeaders) -> None:
    await answer.send_whole(303, [(b"location", b"/ui"), *headers, *page_headers()], b"")


def _parse_refs(text: str) -> Sequence[int]:
    parts = text.split(",")[:100]
    return [int(part) for part in parts if part.removeprefix("-").isdecimal() and len(part) < 16]


def _render_frame(*, has_login: bool, notices: Sequence[str]) -> str:
    note = "".join(f'<p class="note">{escape(notice)}</p>' for notice in notices if notice)
    out = '<form method="post" action="/ui/logout"><button type="submit">Log out</button></form>' if has_login else ""
    return f"""<a class="skip-link" href="#page">Skip to the content</a>
<header class="top">
<div class="masthead"><p class="mark"><span class="wave" aria-hidden="true"></span><a href="/ui">tidegate</a>
<span class="soft">gateway</span></p>
<div class="tools"><span id="live" role="status" class="soft"></span>{out}</div></div>
<h1 id="title">Sessions</h1>
<p class="soft" id="subtitle"></p>{note}
</header>
<main id="page" tabindex="-1"><noscript><p class="note">This page needs its own script.</p></noscript></main>
<footer class="soft" id="foot"></footer>"""


def render_link_page(problem: str) -> str:
    """The page for a browser without a cookie, of a gateway without tokens."""
    return _render_closed_page(
        "Not open in this browser",
        problem,
        """<p>Run <code>tidegate ui</code> in a terminal: it opens this page with a link that works once.
Other users of this machine cannot open it.</p>""",
    )


def render_login_page(problem: str) -> str:
    return _render_closed_page(
        "Log in",
        problem,
        """<form class="login" method="post" action="/ui/login">
<label for="token">Token of the gateway</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
<button type="submit">Log in</button>
</form>
<p class="soft">It is the value of the variable that <code>--token-env</code> names. The browser gets a cookie for
12 hours; the token itself is not stored.</p>""",
    )


def _render_closed_page(title: str, problem: str, content: str) -> str:
    note = f'<p class="note" role="alert">{escape(problem)}</p>' if problem else ""
    body = f"""<header class="top">
<p class="mark"><span class="wave" aria-hidden="true"></span>tidegate <span class="soft">gateway</span></p>
<h1>{escape(title)}</h1>
</header>
<main id="page">{note}
{content}
</main>"""
    return render_document(f"{title} · tidegate", body, scripts=(), styles=_STYLES, blocks={}, is_served=True)
