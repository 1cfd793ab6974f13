"""A page in a real browser, and everything it did that a page must not do."""

import os
import queue
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

T = TypeVar("T")
DEADLINE = 300_000
"""Milliseconds after which a page that is waited for has failed. It only ends a test that hangs."""
BROWSER = "TIDEGATE_CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
OPTIONS = (
    "--no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update"
    " --disable-sync --disable-dev-shm-usage"
).split()
STRAY_VALUES = """() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT, (node) =>
    ['SCRIPT', 'STYLE'].includes(node.parentElement.tagName) ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT);
  const found = [];
  while (walker.nextNode())
    if (/^(false|true|null|undefined|NaN|\\[object .*)$/.test(walker.currentNode.data.trim()))
      found.push(walker.currentNode.data + ' in ' + walker.currentNode.parentElement.outerHTML.slice(0, 80));
  return found;
}"""
"""Texts of a page that are values of the script, not words."""
READY = "html[data-ready=yes]"


def browser_path() -> str:
    return os.environ.get(BROWSER) or next((found for name in NAMES if (found := shutil.which(name))), "")


@contextmanager
def launched() -> Iterator[Any]:
    """A headless Chromium. The test is skipped where there is none, or nothing to drive it with."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = browser_path()
    if not path:
        pytest.skip(f"no Chromium on this machine: install one, or name it in ${BROWSER}")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=OPTIONS)
        try:
            yield browser
        finally:
            browser.close()


class BrowserThread:
    """A browser that is driven in a thread of its own: as long as it lives an event loop runs there, and no other may.

    Pages are opened, used and closed with `call`.
    """

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._started: Future[Any] = Future()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        self._browser = self._started.result()

    def _run(self) -> None:
        try:
            with launched() as browser:
                self._started.set_result(browser)
                while (job := self._jobs.get()) is not None:
                    job()
        except BaseException as bad:
            if self._started.done():
                raise
            self._started.set_exception(bad)

    def call(self, work: Callable[[], T]) -> T:
        """Return what a function returns in the browser's thread."""
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(work())
            except BaseException as bad:  # noqa: BLE001 - raised again where it was asked for
                done.set_exception(bad)

        self._jobs.put(run)
        return done.result()

    @contextmanager
    def entered(self, manager: AbstractContextManager[T]) -> Iterator[T]:
        """Enter and leave a context in the browser's thread."""
        value = self.call(manager.__enter__)
        try:
            yield value
        finally:
            self.call(lambda: manager.__exit__(None, None, None))

    def new_context(self, **options: Any) -> Any:
        return self._browser.new_context(**options)

    def close(self) -> None:
        self._jobs.put(None)
        self._thread.join()


class Looked(NamedTuple):
    """`said` are messages on the console and uncaught errors, `asked` the addresses that were asked for."""

    page: Any
    said: list[str]
    asked: list[str]

    def text(self, selector: str) -> str:
        return " ".join(str(self.page.inner_text(selector)).split())

    def cells(self, selector: str) -> list[list[str]]:
        """The rows of a table, as they are shown."""
        rows = self.page.eval_on_selector_all(
            f"{selector} tbody tr", "rows => rows.map(row => [...row.cells].map(cell => cell.innerText.trim()))"
        )
        return [[str(cell) for cell in row] for row in rows]

    def width(self) -> int:
        return int(self.page.evaluate("document.documentElement.scrollWidth"))

    def clean(self, file: Path) -> None:
        """Nothing was said on the console, nothing but the file itself was asked for, no script but ours ran, and no
        value of the script is shown as text."""
        assert self.said == []
        assert set(self.asked) == {file.as_uri()}
        assert self.page.evaluate("window.hacked === undefined")
        assert self.page.evaluate(STRAY_VALUES) == []
        assert self.page.locator("img, iframe, object, embed, [onerror], [onload]").count() == 0


@contextmanager
def looking(browser: Any, file: Path, *, width: int = 1280, scheme: str = "light") -> Iterator[Looked]:
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, accept_downloads=True, locale="de-DE"
    )
    try:
        page = context.new_page()
        page.set_default_timeout(DEADLINE)
        looked = Looked(page, [], [])
        page.on("console", lambda message: looked.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: looked.said.append(f"error: {error}"))
        page.on("dialog", lambda dialog: looked.said.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: looked.asked.append(str(request.url)))
        page.goto(file.as_uri())
        page.wait_for_selector(f"{READY}, [role=alert]")
        assert page.locator(READY).count() == 1, looked.said
        yield looked
    finally:
        context.close()
