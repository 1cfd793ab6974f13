from collections.abc import Iterator
from typing import Any

import pytest

from tests.web.browser import launched


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Not longer than a module: as long as it lives an event loop runs in this thread, and no other may."""
    with launched() as found:
        yield found
