"""The page of a session in a real browser: its figures are the log's, nothing in it runs or leaves, it can be read."""

import json
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import pytest

from tests.session.noted import begin, fill, fill_until_sweep, make_session, take, write_answer
from tests.session.test_continuation import PART, begin_session, follow, list_work
from tests.web.browser import BrowserThread, Looked, looking
from tests.web.sample_sessions import HOSTILE, SECRET, Made, deny_and_run, lived
from tidegate.core.events import ViewEdited
from tidegate.core.text.secrets import SecretMask
from tidegate.core.usage import Usage
from tidegate.models.catalog import compute_model_cost
from tidegate.session.request import list_sent_requests, render_past_request
from tidegate.session.session import Session
from tidegate.session.storage import SessionStorage
from tidegate.store.log import MemoryLog
from tidegate.web.session_page import render_session_page

NAME = f"build {HOSTILE[1]}"


@pytest.fixture(scope="module")
def made() -> Made:
    return lived()


@pytest.fixture(scope="module")
def file(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "view.html"
    path.write_text(render_session_page(NAME, made.log, SecretMask(), window=4_000).html, "utf-8")
    return path


@pytest.fixture
def looked(browser: BrowserThread, file: Path) -> Iterator[Looked]:
    with browser.entered(looking(browser, file)) as found:
        yield found


def all_rows(looked: Looked, section: str) -> list[list[str]]:
    """Every page of a table, from the first on."""
    while looked.page.is_enabled(f"{section} .pager button:text('Earlier')"):
        looked.page.click(f"{section} .pager button:text('Earlier')")
    rows = looked.cells(f"{section} table")
    while looked.page.is_enabled(f"{section} .pager button:text('Later')"):
        looked.page.click(f"{section} .pager button:text('Later')")
        rows += looked.cells(f"{section} table")
    return rows


def check_requests(looked: Looked, made: Made) -> None:
    rows = all_rows(looked, "#requests")
    sent = list_sent_requests(made.log)
    assert len(rows) == len(sent) > 20
    so_far = 0.0
    for number, (row, each) in enumerate(zip(rows, sent, strict=True), 1):
        paid = compute_model_cost(Usage(each.input_tokens, each.output_tokens, each.cache_read, 0), each.model)
        assert paid is not None
        so_far += paid.total
        share = f"{Decimal(100 * each.cache_read / each.input_tokens).quantize(Decimal('0.1'), ROUND_HALF_UP)}%"
        counts = [f"{number:,}", f"{each.log_head:,}", f"{each.input_tokens:,}", share, f"{each.output_tokens:,}"]
        assert row[:5] == counts
        assert [float(cell.lstrip("$")) for cell in row[5:]] == pytest.approx([paid.total, so_far], abs=6e-5)


def check_compactions(looked: Looked, made: Made) -> None:
    edits = {str(event.seq): event.payload for event in made.log.read() if isinstance(event.payload, ViewEdited)}
    rows = {row[1].replace(",", ""): row for row in all_rows(looked, "#changes")}
    assert set(edits) < set(rows)  # and the undo
    for seq, edited in edits.items():
        assert rows[seq][2] == edited.stage.replace("_", " ")
        assert rows[seq][3:5] == [f"{edited.tokens_before:,}", f"{edited.tokens_after:,}"]


def check_sums(looked: Looked, made: Made) -> None:
    sent = list_sent_requests(made.log)
    read, cached = sum(each.input_tokens for each in sent), sum(each.cache_read for each in sent)
    edits = sum(isinstance(event.payload, ViewEdited) for event in made.log.read())
    shown = looked.text("#figures")
    assert f"requests {len(sent):,} compactions {edits:,} fullest {max(each.input_tokens for each in sent):,}" in shown
    assert f"tokens read {read:,} of these cached {100 * cached / read:.1f}%" in shown
    assert looked.text("h1") == " ".join(NAME.split())


def check_picture(looked: Looked, made: Made) -> None:
    """Area under the top edge, read back from the drawing in pixels, against the reported sizes."""
    places = looked.page.eval_on_selector_all(
        "#window .chart path.fill", "paths => paths.map(path => path.getBBox()).map(box => [box.y, box.y + box.height])"
    )
    ticks = looked.page.eval_on_selector_all(
        "#window .chart svg > g:first-child text",
        "nodes => nodes.map(node => [node.textContent, +node.getAttribute('y') - 4])",
    )
    levels = {float(words.rstrip("k")) * (1000 if words.endswith("k") else 1): y for words, y in ticks}
    (low, base), (high, y) = min(levels.items()), max(levels.items())
    most = max(each.input_tokens for each in list_sent_requests(made.log))
    assert low + (base - min(top for top, _ in places)) * (high - low) / (base - y) == pytest.approx(most, rel=0.01)
    assert looked.page.locator("#pins .pin").count() > 3
    assert "window 4,000" in looked.text("#window")


def test_every_figure_is_that_of_the_log(looked: Looked, made: Made, file: Path) -> None:
    for check in (check_sums, check_picture, check_requests, check_compactions):
        check(looked, made)
    looked.clean(file)


def test_a_request_is_shown_as_it_was_sent(looked: Looked, made: Made) -> None:
    looked.page.focus("#window .chart")
    looked.page.keyboard.press("End")
    looked.page.click("#request label:text('JSON')")
    looked.page.wait_for_selector("#request pre")
    for key in ("End", "ArrowLeft", "Home"):
        looked.page.focus("#window .chart")
        looked.page.keyboard.press(key)
        number = int(looked.page.get_attribute("#window .chart", "aria-valuenow"))
        head = list_sent_requests(made.log)[number - 1].log_head
        looked.page.wait_for_function(
            "head => document.querySelector('#request dd').innerText === head", arg=f"{head:,}"
        )
        looked.page.wait_for_function(
            "url => document.querySelector('#request a[download]').download === url", arg=f"request-{head}.json"
        )
        shown = json.loads(looked.page.text_content("#request pre"))
        masked = json.loads(SecretMask()(render_past_request(made.log, head).to_bytes().decode()))
        assert shown == masked
    looked.page.click("#request label:text('Messages')")


def test_secrets_are_masked_and_hostile_words_are_only_words(looked: Looked, file: Path) -> None:
    looked.page.focus("#window .chart")
    looked.page.keyboard.press("End")
    looked.page.wait_for_selector("#request .talk details.user[open] pre")
    words = looked.text("#request")
    assert "<svg/onload=window.hacked=2>" in words or "javascript:window.hacked=4" in words
    assert "[masked]" in words
    looked.page.click("#request label:text('JSON')")
    looked.page.wait_for_selector("#request pre[tabindex]")
    assert SECRET not in looked.page.content()
    looked.page.click("#request label:text('Messages')")
    for details in looked.page.locator("#changes details").all()[:10]:
        details.evaluate("node => { node.open = true; }")
    looked.clean(file)


def show_change(looked: Looked, *stages: str) -> None:
    """Choose the first change by one of these stages."""
    number = next(row[0] for row in all_rows(looked, "#changes") if row[2] in stages)
    while not looked.page.locator(f"#changes tbody button:text-is('{number}')").count():
        looked.page.click("#changes .pager button:text('Earlier')")
    looked.page.click(f"#changes tbody button:text-is('{number}')")


def test_before_and_after(looked: Looked) -> None:
    """What left with its words, what came in its place, and the lines that changed where something was shortened."""
    show_change(looked, "summarize", "sweep", "guard", "drop_turns")
    looked.page.wait_for_selector("#change .gone, #change .changed")
    words = looked.text("#change")
    assert "unchanged" in words
    assert "+ came in" in words or "± changed" in words
    show_change(looked, "clear results", "cap result")
    looked.page.wait_for_selector("#change .changed .minus")
    assert looked.page.locator("#change .changed .plus").count() >= 1


def test_keys_alone_reach_everything(looked: Looked) -> None:
    page = looked.page
    page.focus("#window .chart")
    page.keyboard.press("Home")
    assert page.get_attribute("#window .chart", "aria-valuenow") == "1"
    page.keyboard.press("ArrowRight")
    assert page.get_attribute("#window .chart", "aria-valuetext").startswith("Request 2 of ")
    page.focus("#requests tbody button[tabindex='0']")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.innerText") == "3"
    assert looked.text("#request h3").startswith("Request 3 of ")
    page.focus("#window .choice input:checked")
    page.keyboard.press("ArrowRight")
    assert "time (UTC)" in looked.text("#window .chart")
    page.keyboard.press("ArrowLeft")
    unnamed = page.eval_on_selector_all(
        "button, a, input, [tabindex], section, figure svg",
        "nodes => nodes.filter(node => !(node.innerText || node.getAttribute('aria-label') || node.labels?.length"
        " || node.getAttribute('aria-labelledby') || node.getAttribute('aria-hidden')))"
        ".map(node => node.outerHTML.slice(0, 80))",
    )
    assert unnamed == []


@pytest.mark.exhaustive
def test_figures_are_saved_as_csv(looked: Looked, made: Made) -> None:
    with looked.page.expect_download() as found:
        looked.page.click("#requests a[download]")
    lines = Path(found.value.path()).read_text("utf-8").splitlines()
    assert len(lines) == len(list_sent_requests(made.log)) + 1
    names = lines[0].split(",")
    row = dict(zip(names, lines[1].split(","), strict=True))
    assert row["input"] == str(list_sent_requests(made.log)[0].input_tokens)


@pytest.mark.parametrize(
    ("width", "scheme"), [pytest.param(1280, "dark", marks=pytest.mark.exhaustive), (400, "light")]
)
def test_it_can_be_read_at_any_width(browser: BrowserThread, file: Path, width: int, scheme: str) -> None:
    """No scrolling sideways, and words that stand out from what is behind them."""
    with looking(browser, file, width=width, scheme=scheme) as found:
        assert found.width() == width
        assert found.page.locator("#window .chart path.fill").count() >= 4
        assert found.page.is_visible("#readout")
        colours = found.page.evaluate(
            "['--ink', '--soft', '--accent', '--gone-ink', '--come-ink', '--paper', '--gone', '--come']"
            ".map(name => getComputedStyle(document.documentElement).getPropertyValue(name).trim())"
        )
        ink, soft, accent, gone_ink, come_ink, paper, gone, come = map(_light, colours)
        for front, back in ((ink, paper), (soft, paper), (accent, paper), (gone_ink, gone), (come_ink, come)):
            assert (max(front, back) + 0.05) / (min(front, back) + 0.05) >= 4.5
        found.clean(file)


@pytest.mark.exhaustive
def test_an_edit_of_a_file_is_shown_as_a_diff(browser: BrowserThread, tmp_path: Path) -> None:
    log = MemoryLog()
    session = Session("gpt-4o", log=SessionStorage(log))
    session.add({"role": "user", "content": "Change the port."})
    arguments = {"path": "ports.py", "old": "PORT = 8443\nHOST = 'a'", "new": f"PORT = 9000\nHOST = 'a' # {HOSTILE[0]}"}
    call = {"id": "c1", "type": "function", "function": {"name": "edit", "arguments": json.dumps(arguments)}}
    session.add({"role": "assistant", "content": None, "tool_calls": [call]})
    session.add({"role": "tool", "tool_call_id": "c1", "content": "Changed ports.py."})
    session.prepare()
    file = tmp_path / "edit.html"
    session.record({"prompt_tokens": 100, "completion_tokens": 9})
    file.write_text(render_session_page("edit", log, SecretMask()).html, "utf-8")
    with looking(browser, file) as found:
        found.page.wait_for_selector("#request .diff .plus", state="attached")
        assert "ports.py  +2 −2" in found.page.text_content("#request")
        removed = found.page.eval_on_selector_all("#request .diff .minus", "all => all.map(each => each.textContent)")
        assert removed == ["PORT = 8443", "HOST = 'a'"]
        assert found.page.eval_on_selector_all(
            "#request .diff .number", "all => all.map(each => each.textContent)"
        ) == (["8443", "9000"])
        found.clean(file)


def test_a_state_note_leads_to_its_sources(browser: BrowserThread, tmp_path: Path) -> None:
    """Each statement and passage, what the check dropped, and what changed since the note before."""
    session = make_session()
    notes = begin(session)
    number = fill(session, notes)
    take(notes, write_answer(state=f"- reading {HOSTILE[0]} [m3]\n- gone soon"))
    fill_until_sweep(session, number)
    fill(session, notes, number + 60)
    passage = {"find": "def step_0_3()", "after": 1}
    take(
        notes,
        write_answer(
            [passage], state="- read [m4]\n- in `src/absent_file.py` [m3]", rules='- user: "Delete all tests" [m9999]'
        ),
    )
    file = tmp_path / "noted.html"
    file.write_text(render_session_page("noted", session.log, SecretMask()).html, "utf-8")
    with looking(browser, file) as found:
        rows = found.page.locator("#changes tbody tr:has-text('state note') button")
        rows.last.click()
        found.page.wait_for_selector("#change .state-note")
        words = found.text("#change .state-note")
        assert "+ new" in words
        assert "? marked" in words
        assert "− removed gone soon" in " ".join(words.split())
        assert "Dropped by the check" in words
        assert "def step_0_3(): return 3" in words
        found.page.click("#change .state-note li:has-text('read [m4]') button:text-is('m4')")
        found.page.wait_for_selector("#change .state-note .talk pre:has-text('def step_0_50()')")
        found.page.click("#change .state-note li:has-text('read [m4]') button:text-is('m4')")
        found.page.wait_for_selector("#change .state-note .talk", state="detached")
        found.clean(file)


@pytest.mark.exhaustive
def test_a_denied_call_says_who_denied_it(browser: BrowserThread, tmp_path: Path) -> None:
    log = MemoryLog()
    deny_and_run(Session("gpt-4o", log=SessionStorage(log)))
    file = tmp_path / "denied.html"
    file.write_text(render_session_page("denied", log, SecretMask()).html, "utf-8")
    with looking(browser, file) as found:
        found.page.wait_for_selector("#request details.results .tag", state="attached")
        for details in found.page.locator("#request details").all():
            details.evaluate("node => { node.open = true; }")
        found.page.wait_for_selector("#request details.results >> nth=1", state="attached")
        tags = found.page.locator("#request details.results .tag").all_text_contents()
        assert tags == [f"result: denied by the rule for {HOSTILE[0]}", "result"]
        found.clean(file)


@pytest.mark.parametrize("model", ["", pytest.param("nobody-knows-it", marks=pytest.mark.exhaustive)])
def test_little_to_show_is_shown_all_the_same(browser: BrowserThread, tmp_path: Path, model: str) -> None:
    """No requests at all, or none whose price or window is known."""
    log = lived(1, model=model).log if model else MemoryLog()
    file = tmp_path / "little.html"
    file.write_text(render_session_page("little", log, SecretMask()).html, "utf-8")
    with looking(browser, file) as found:
        words = found.text("#page")
        assert ("not known" if model else "No request was made yet.") in words
        assert ("$" in words) is False
        found.clean(file)


def _light(colour: str) -> float:
    """Relative luminance, as WCAG defines it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_it_says_which_client_made_each_request(browser: BrowserThread, tmp_path: Path) -> None:
    session = begin_session()
    follow(session).prepare(list_work(2), fixed_part=PART)
    path = tmp_path / "view.html"
    path.write_text(render_session_page("pump", session.log, SecretMask()).html, "utf-8")
    with looking(browser, path) as looked:
        assert [row[2] for row in looked.cells("#requests table")] == ["tidegate"] * 9 + ["Codex"] * 2
        assert looked.page.locator(".lane").count() == 2
        assert looked.page.locator(".lane-name").first.text_content() == "tidegate"
        assert "client Codex" in looked.text("#request")
        looked.clean(path)
