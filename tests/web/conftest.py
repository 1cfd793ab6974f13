import inspect
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.web.browser import BrowserThread


@pytest.fixture(scope="session")
def browser() -> Iterator[BrowserThread]:
    """One browser for all tests of a worker. A test is skipped where there is none."""
    with closing(BrowserThread()) as found:
        yield found


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that uses the browser in the browser's thread."""
    browser = pyfuncitem.funcargs.get("browser")
    if not isinstance(browser, BrowserThread):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    browser.call(lambda: pyfuncitem.obj(**arguments))
    return True
