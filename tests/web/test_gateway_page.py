"""The page of the gateway in a real browser, while clients use the gateway."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.gateway.serving import open_http
from tests.session.noted import write_answer
from tests.web.browser import DEADLINE, READY, STRAY_VALUES, BrowserThread, Looked
from tests.web.live_gateway import LONG_STEPS, LiveGateway, fill, live_gateway
from tests.web.sample_sessions import HOSTILE, SECRET, deny_and_run
from tidegate.core.events import ViewEdited
from tidegate.core.notes import EditRedone, EditUndone, read_note
from tidegate.gateway.settings import scope_of_token
from tidegate.session.costs import CostReport
from tidegate.session.state_notes import answered_groups

TOKEN = "token-0123456789abcdef"
SCOPE = scope_of_token(TOKEN)
FILLED = ["claude-long", "claude-main", "claude-main.a1", "claude-main.a2", "claude-main.a3", "hostile", "short"]
"""The sessions that `fill` makes, in the order of the list."""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveGateway]:
    with live_gateway(tmp_path_factory.mktemp("gateway"), tokens=(TOKEN,), window=16_000) as found:
        fill(found, TOKEN)
        yield found


@contextmanager
def visiting(
    browser: BrowserThread, gateway: LiveGateway, path: str = "/ui", *, width: int = 1280, scheme: str = "light"
) -> Iterator[Looked]:
    """A browser with the cookie of a login, on a page."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, locale="de-DE")
    try:
        name, _, value = gateway.call(log_in(gateway)).partition("=")
        context.add_cookies([{"name": name, "value": value, "domain": "127.0.0.1", "path": "/ui"}])
        page = context.new_page()
        page.set_default_timeout(DEADLINE)
        looked = Looked(page, [], [])
        page.on("console", lambda message: looked.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: looked.said.append(f"error: {error}"))
        page.on("request", lambda request: looked.asked.append(str(request.url)))
        page.goto(gateway.url + path)
        page.wait_for_selector(READY)
        yield looked
    finally:
        context.close()


async def log_in(gateway: LiveGateway) -> str:
    """Return the cookie of a login."""
    async with open_http() as http:
        answer = await http.post(gateway.url + "/ui/login", data={"token": TOKEN}, headers={"origin": gateway.url})
        return str(answer.headers["set-cookie"]).partition(";")[0]


def session_path(name: str) -> str:
    return f"/ui/session?name={SCOPE}{name}"


@pytest.fixture
def listed(browser: BrowserThread, gateway: LiveGateway) -> Iterator[Looked]:
    with browser.entered(visiting(browser, gateway)) as found:
        yield found


@pytest.fixture
def long_session(browser: BrowserThread, gateway: LiveGateway) -> Iterator[Looked]:
    with browser.entered(visiting(browser, gateway, session_path("claude-long"))) as found:
        yield found


def check_clean(looked: Looked, gateway: LiveGateway) -> None:
    """Nothing was said on the console, only the gateway was asked, and no value of the script is shown as text."""
    assert looked.said == []
    assert all(url.startswith((gateway.url, "data:")) for url in looked.asked)
    assert not any(TOKEN in url for url in looked.asked)
    assert looked.page.evaluate(STRAY_VALUES) == []


def money(text: str) -> float:
    return float(text.lstrip("> $").replace(",", ""))


def test_a_browser_logs_in_with_a_form_and_gets_a_cookie(browser: BrowserThread, gateway: LiveGateway) -> None:
    context = browser.new_context()
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    assert page.goto(gateway.url + session_path("short")).status == 401
    assert "short" not in page.inner_text("body")
    page.fill("#token", TOKEN + "x")
    page.click("button[type=submit]")
    assert "not a token" in page.inner_text("[role=alert]")
    assert context.cookies() == []
    page.fill("#token", TOKEN)
    page.keyboard.press("Enter")
    page.wait_for_selector(READY)
    (cookie,) = context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/ui")
    assert TOKEN not in cookie["value"]
    assert TOKEN not in page.content()
    assert not any(TOKEN in url for url in asked)
    page.click("text=Log out")
    page.wait_for_selector("#token")
    assert context.cookies() == []
    context.close()


def test_the_list_has_the_figures_of_the_logs(listed: Looked, gateway: LiveGateway) -> None:
    shown = {re.split(" · |\n", row[0])[-1]: row for row in listed.cells("#sessions")}
    rows = {name: row for name, row in shown.items() if name in FILLED}  # other tests make sessions, too
    assert list(rows) == FILLED
    for name, row in rows.items():
        cost = CostReport(gateway.running.data.open_log(SCOPE + name)).read_all()
        assert row[1] == "claude-opus-5-5"
        assert int(row[3]) == cost.calls
        assert money(row[5]) == pytest.approx(cost.dollars, abs=6e-5)
    assert money(rows["claude-long"][6]) > money(rows["claude-long"][5])
    assert rows["short"][6] == rows["short"][5]
    assert re.search(r"\d+% of 16k", rows["claude-long"][2])
    assert rows["claude-long"][0].lstrip("└ ").startswith("The port is 7421. Start.")
    assert "Claude Code · claude-long" in rows["claude-long"][0]
    check_clean(listed, gateway)


def test_sub_agents_are_a_tree(listed: Looked, browser: BrowserThread, gateway: LiveGateway) -> None:
    places = [
        listed.page.eval_on_selector(
            f"[data-key='{SCOPE}claude-main{agent}']", "link => link.getBoundingClientRect().x"
        )
        for agent in ("", ".a1", ".a2", ".a3")
    ]
    assert places == sorted(set(places))
    with visiting(browser, gateway, session_path("claude-main.a2")) as looked:
        agents = looked.page.locator("#agents li").all_inner_texts()
        assert [agent.lstrip("└ ").split(" ")[0] for agent in agents] == [
            "claude-main",
            "claude-main.a1",
            "claude-main.a2",
            "claude-main.a3",
        ]
        looked.page.click("#agents a:text-is('claude-main.a3')")
        looked.page.wait_for_selector(READY)
        assert looked.text("h1") == "Agent a3."
        assert "claude-main.a3" in looked.text("#subtitle")


def test_a_request_as_the_client_sent_it_and_as_it_was_forwarded(long_session: Looked, gateway: LiveGateway) -> None:
    page = long_session.page
    page.click(f"[data-key=request{LONG_STEPS}]")
    page.wait_for_selector(f"#request h3:text-is('Request {LONG_STEPS} of {LONG_STEPS}')")
    page.wait_for_selector("#request .changed")
    page.click("#request .changed > summary")
    page.wait_for_selector("#request .diff .minus")
    labels = page.locator("#request .changed .changed:not([open]) > summary").all_inner_texts()
    assert labels
    assert all(label.split()[:4] == ["±", "changed", "result:", "line"] for label in labels), labels
    assert "line 0 of a result" in page.locator("#request .diff .minus").first.inner_text()
    counts = {}
    for form in ("From the client", "As forwarded"):
        page.click(f"#request label:text-is('{form}')")
        page.wait_for_selector("#request details[open] details")
        counts[form] = int(page.locator("#request details[open] .who").first.inner_text().split()[0])
    assert counts["From the client"] == 2 * LONG_STEPS - 1  # each step adds an answer and a result
    assert 0 < counts["As forwarded"] <= counts["From the client"]
    check_clean(long_session, gateway)


@pytest.mark.exhaustive
def test_the_newest_requests_are_there_before_the_log_is_read(long_session: Looked, gateway: LiveGateway) -> None:
    page = long_session.page.context.new_page()
    page.route("**/ui/api/session?*", lambda route: None)  # the answer never comes
    page.goto(gateway.url + session_path("claude-long"))
    page.wait_for_selector("html[data-newest=yes]")
    rows = page.locator("#requests tbody tr").all_inner_texts()
    assert [row.split("\t") for row in rows] == [row[1:] for row in long_session.cells("#requests")]
    assert re.search(r"\d+% of 16k", page.inner_text("#figures"))
    assert "claude-opus-5-5" in page.inner_text("#subtitle")
    page.close()


@pytest.mark.exhaustive
def test_opening_a_session_does_not_wait_for_what_it_does_not_need(long_session: Looked, gateway: LiveGateway) -> None:
    page = long_session.page.context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.partition("?")[0].rpartition("/")[2]))
    waiting: list[Any] = []

    def hold(route: Any) -> None:
        waiting.append(route)

    page.route("**/ui/api/newest?*", hold)
    with page.expect_response("**/ui/api/session?*"):  # the log is read while the newest requests are on their way
        page.goto(gateway.url + session_path("claude-long"))
    waiting[0].continue_()
    page.wait_for_selector("#request details")
    assert "requests" not in asked  # they came with the session
    page.close()


@pytest.mark.exhaustive
def test_the_window_over_time_leads_to_a_request(long_session: Looked) -> None:
    page = long_session.page
    page.focus(".chart")
    page.keyboard.press("Home")
    page.wait_for_selector(f"#request h3:text-is('Request 1 of {LONG_STEPS}')")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(f"#request h3:text-is('Request 2 of {LONG_STEPS}')")
    assert page.locator("#pins .pin").count() == len(page.locator("#changes tbody tr").all())


def test_recall_finds_what_left_the_view(long_session: Looked) -> None:
    long_session.page.fill("#recall input", "port 7421")
    long_session.page.keyboard.press("Enter")
    long_session.page.wait_for_selector("#recalled pre")
    assert "The port is 7421" in long_session.text("#recalled")


def test_undo_and_redo_from_the_page(browser: BrowserThread, gateway: LiveGateway) -> None:
    long = "line of a result that is long\n" * 150
    gateway.talk(16, first="Undo me.", result=long, x_tidegate_token=TOKEN, x_claude_code_session_id="undone")
    log = gateway.running.data.open_log(SCOPE + "claude-undone")
    newest = [event.seq for event in log.read() if isinstance(event.payload, ViewEdited)][-1]
    with visiting(browser, gateway, session_path("claude-undone")) as looked:
        assert "above the limit" in looked.text("#change")
        looked.page.click("#change button:text-is('Undo')")
        looked.page.wait_for_selector("#changes .undone-text")
        looked.page.click(f"#changes tbody tr:has-text('{newest}') button")
        looked.page.click("#change button:text-is('Redo')")
        looked.page.wait_for_selector("#changes .undone-text", state="detached")
        assert looked.said == []
    notes = [event.payload for event in gateway.running.data.open_log(SCOPE + "claude-undone").read()]
    toggles = [read_note(each, EditUndone) or read_note(each, EditRedone) for each in notes]
    assert list(filter(None, toggles)) == [EditUndone(newest), EditRedone(newest)]


def test_a_state_note_leads_to_its_sources(browser: BrowserThread, gateway: LiveGateway) -> None:
    gateway.talk(6, first="Note me.", x_tidegate_token=TOKEN, x_claude_code_session_id="noted")
    name = SCOPE + "claude-noted"
    with gateway.running.data.open(name, "claude-sonnet-4-5", window=16_000) as session:
        notes, first = session.state_notes, session.view.items[0].message.id
        for state in (f"- begun [{first}]\n- gone soon", f"- begun [{first}]\n- more [{first}]\n- {HOSTILE[0]}"):
            task = notes.make_task(answered_groups(session.view)[-1].last_id)
            assert task is not None
            assert notes.take(task, write_answer(state=state)).note is not None
    with visiting(browser, gateway, session_path("claude-noted")) as looked:
        looked.page.click("#changes tbody tr:has-text('state note') >> nth=1 >> button")
        looked.page.wait_for_selector("#change .state-note .new")
        assert "more" in looked.text("#change .state-note .new")
        assert "gone soon" in looked.text("#change .state-note .removed")
        looked.page.click(f"#change .state-note li:has-text('begun') button:text-is('{first}')")
        looked.page.wait_for_selector("#change .state-note .talk pre:has-text('Note me.')")
        check_clean(looked, gateway)


def test_the_page_follows_a_run(browser: BrowserThread, gateway: LiveGateway) -> None:
    same = {"x_tidegate_token": TOKEN, "x_tidegate_session": "followed"}
    gateway.talk(1, first="Go on.", **same)
    with visiting(browser, gateway, session_path("followed")) as looked, visiting(browser, gateway) as listed:
        looked.page.wait_for_selector("#request h3:text-is('Request 1 of 1')")
        gateway.talk(3, first="Another branch.", **same)
        looked.page.wait_for_selector("#figures dd:text-is('4')")
        looked.page.wait_for_selector("[data-key=request4]")
        row = f"tr:has([data-key='{SCOPE}followed']) td[data-name=requests]:text-is('4')"
        listed.page.wait_for_selector(row)
        assert looked.said == []
        assert listed.said == []


def test_hostile_words_stay_words_and_secrets_are_masked(browser: BrowserThread, gateway: LiveGateway) -> None:
    with visiting(browser, gateway, session_path("hostile")) as looked:
        looked.page.wait_for_selector("#request details")
        for summary in looked.page.locator("#request details > summary").all():
            summary.click()
        looked.page.click("#request label:text-is('From the client')")
        looked.page.wait_for_selector("#request details[open] details")
        for summary in looked.page.locator("#request details[open] details > summary").all():
            summary.click()
        assert "<img src=x onerror=alert(1)>" in looked.text("#request")
        assert SECRET not in looked.page.content()
        assert looked.page.evaluate("window.hacked === undefined")
        assert looked.page.locator("main img, iframe, object, embed, [onerror], [onload]").count() == 0
        assert looked.said == []


@pytest.mark.parametrize("slow", ["events", pytest.param("newest", marks=pytest.mark.exhaustive)])
def test_a_page_that_cannot_be_drawn_says_what_to_do(browser: BrowserThread, gateway: LiveGateway, slow: str) -> None:
    """The words do not depend on which of the two answers comes first."""
    with visiting(browser, gateway) as looked:
        waiting: list[Any] = []

        def refuse(route: Any) -> None:
            if f"/ui/api/{slow}?" in route.request.url and not waiting:
                waiting.append(route)
            else:
                route.fulfill(status=500, json={})

        ended: list[str] = []  # also a request that the page has given up meanwhile
        looked.page.on("requestfinished", lambda request: ended.append(request.url))
        looked.page.on("requestfailed", lambda request: ended.append(request.url))
        looked.page.route("**/ui/api/**", refuse)
        looked.page.goto(gateway.url + session_path("short"))
        looked.page.wait_for_selector("#live:has-text('Load the page again')")
        waiting[0].fulfill(status=500, json={})
        while not any(f"/ui/api/{slow}?" in url for url in ended):
            looked.page.wait_for_timeout(10)
        looked.page.wait_for_selector("#live:has-text('The gateway answered 500. Load the page again')")
        looked.page.evaluate(
            "new Promise(resolve => setTimeout(resolve))"
        )  # what the page does with the answer is done
        assert looked.text("#live").startswith("The gateway answered 500. Load the page again")
        looked.page.unroute_all(behavior="ignoreErrors")
        looked.page.reload()
        looked.page.wait_for_selector("#live.on:text-is('live')")


@pytest.mark.exhaustive
def test_a_page_whose_updates_are_refused_says_so(browser: BrowserThread, gateway: LiveGateway) -> None:
    with visiting(browser, gateway) as looked:
        looked.page.route("**/ui/api/events?**", lambda route: route.fulfill(status=503, json={}))
        looked.page.goto(gateway.url + session_path("short"))
        looked.page.wait_for_selector("#request details")
        looked.page.wait_for_selector("#live:has-text('The gateway no longer reports changes. Load the page again')")


@pytest.mark.exhaustive
def test_a_denied_call_of_a_chat_says_who_denied_it(browser: BrowserThread, gateway: LiveGateway) -> None:
    with gateway.running.data.open(SCOPE + "denied", "gpt-4o") as session:
        deny_and_run(session)
    with visiting(browser, gateway, session_path("denied")) as looked:
        looked.page.wait_for_selector("#request details")
        looked.page.click("#request label:text-is('As forwarded')")
        looked.page.wait_for_selector("#request details[open] .tag", state="attached")
        tags = looked.page.locator("#request details.results .tag").all_text_contents()
        assert tags == [f"result: denied by the rule for {HOSTILE[0]}", "result"]
        assert looked.said == []


@pytest.mark.parametrize(
    ("path", "scheme", "content"),
    [
        pytest.param("/ui", "light", "#sessions tbody tr", marks=pytest.mark.exhaustive),
        ("/ui", "dark", "#sessions tbody tr"),
        (session_path("claude-long"), "light", "#request details"),
        pytest.param(session_path("claude-long"), "dark", "#request details", marks=pytest.mark.exhaustive),
    ],
)
def test_it_fits_a_phone(browser: BrowserThread, gateway: LiveGateway, path: str, scheme: str, content: str) -> None:
    with visiting(browser, gateway, path, width=400, scheme=scheme) as looked:
        looked.page.wait_for_selector(content)
        assert looked.width() <= 400
        paper = looked.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", paper))) > 380) == (scheme == "light")


def test_the_list_is_used_with_the_keyboard(browser: BrowserThread, gateway: LiveGateway) -> None:
    with visiting(browser, gateway) as looked:
        page = looked.page
        page.focus("#sessions tbody a")
        page.keyboard.press("ArrowDown")
        second = page.locator("#sessions tbody a").nth(1).inner_text()
        assert page.evaluate("document.activeElement.textContent") == second
        page.keyboard.press("Enter")
        page.wait_for_selector(f"h1:text-is('{second}')")
        number = int(page.inner_text("#request h3").split()[1])
        page.focus("#requests tr.on button")
        page.keyboard.press("ArrowDown")
        page.wait_for_selector(f"#request h3:has-text('Request {number - 1} of')")
        assert page.evaluate("document.activeElement.dataset.key") == f"request{number - 1}"
