from collections.abc import Iterator
from typing import Any

import pytest

from tests.apps.page.opened import launched


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    with launched() as found:
        yield found
